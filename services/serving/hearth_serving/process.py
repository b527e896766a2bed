"""What this process is, as the system says it."""

import os
from pathlib import Path


def memory_bytes() -> int:
    """Return the memory that this process occupies now; 0 where there is no /proc."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
