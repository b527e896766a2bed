"""What the watcher wrote about the house in the last seconds."""

import json
import time
from pathlib import Path
from typing import Any

from .verbs import HOUSE, RefusedError

# The watcher writes every 3 s; after some missed looks nobody knows how the house is.
STALE_S = 30.0
_MOST_BYTES = 4 * 2**20


def read_snapshot(path: Path) -> dict[str, Any]:
    """Return the watcher's last document.

    Raises:
        RefusedError: it is missing, broken or old.
    """
    try:
        with path.open("rb") as stream:
            found = json.loads(stream.read(_MOST_BYTES))
        age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - float(found["made_boot_s"])
    except FileNotFoundError:
        raise RefusedError(_todo("has written nothing"), HOUSE) from None
    except OSError as error:
        raise RefusedError(_todo(f"wrote what cannot be read ({error.strerror})"), HOUSE) from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise RefusedError(_todo("wrote no valid document"), HOUSE) from None
    if not 0 <= age_s <= STALE_S:
        raise RefusedError(_todo(f"last looked {age_s:.0f} s ago"), HOUSE)
    return dict(found)


def _todo(what: str) -> str:
    return f"nobody knows how the house is: its watcher {what}; a person should see hearth doctor"
