"""What something was made from, as a digest: it is made again when that has changed."""

import hashlib
from pathlib import Path

MOCK_UPSTREAMS = "tests/mock_upstreams/**/*.py"


def digest_of(root: Path, *patterns: str) -> str:
    """Return a digest of the names and contents of all files that match, in their order."""
    digest = hashlib.sha256()
    for pattern in patterns:
        for path in sorted(root.glob(pattern)):
            digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
