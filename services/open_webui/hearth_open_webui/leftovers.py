"""Throw away what Open WebUI keeps of speech: recordings, their words, and sentences read aloud.

It keeps them for ever, among what a backup takes, so that the same sentence need not be made
twice. Nobody asked for a record of what was said in the house.
"""

import contextlib
import shutil
import threading
import time
from pathlib import Path

# An answer that is being read aloud may be heard once more from its beginning.
KEPT_S = 3600
EVERY_S = 600


def keep_apart(folder: Path, place: Path) -> None:
    """Have what is written into `folder` lie at `place`, out of reach of who copies the data.

    What lay in `folder` is thrown away.
    """
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.is_symlink():
        folder.unlink()
    elif folder.exists():
        shutil.rmtree(folder)
    folder.symlink_to(place.absolute(), target_is_directory=True)


def throw_away(folder: Path, older_than_s: float = 0) -> None:
    """Remove the files in `folder` that were last written longer ago than that."""
    before = time.time() - older_than_s
    with contextlib.suppress(OSError):
        for path in folder.rglob("*"):
            with contextlib.suppress(OSError):
                if path.is_file() and path.stat().st_mtime <= before:
                    path.unlink()


def keep_thrown_away(folder: Path) -> None:
    """Do so now with all, and from time to time with what has grown old, while the program runs."""
    throw_away(folder)

    def work() -> None:
        while True:
            time.sleep(EVERY_S)
            throw_away(folder, KEPT_S)

    threading.Thread(target=work, name="leftovers", daemon=True).start()
