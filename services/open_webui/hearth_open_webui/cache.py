"""Keep Open WebUI's cache out of backups: bytecode for fast starts, and speech only for an hour.

The machine that installs a program has no Python of the instance's release, and the program itself
is read-only, so the first start compiles its three thousand files and later ones read the result.
Open WebUI would keep recordings, transcripts and speech for ever, within the data that is backed
up. Speech that is spoken in the house must not be recorded.
"""

import contextlib
import shutil
import sys
import threading
import time
from pathlib import Path

# Speech may be played once more from the start.
KEPT_S = 3600
EVERY_S = 600


def keep_bytecode(folder: Path, program: Path) -> None:
    """Make imports read and write bytecode in `folder`, separately for each `program`.

    A program's folder is named by a digest of its contents, so one version never uses another's
    bytecode; that of other versions is removed.
    """
    name = program.resolve().name
    with contextlib.suppress(OSError):
        for other in folder.iterdir():
            if other.name != name:
                shutil.rmtree(other, ignore_errors=True)
    sys.pycache_prefix = str(folder / name)
    sys.dont_write_bytecode = False


def keep_apart(folder: Path, place: Path) -> None:
    """Redirect `folder` to `place`, which no backup copies; the old contents are removed."""
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.is_symlink():
        folder.unlink()
    elif folder.exists():
        shutil.rmtree(folder)
    folder.symlink_to(place.absolute(), target_is_directory=True)


def remove_old_files(folder: Path, older_than_s: float = 0) -> None:
    """Remove the files in `folder` that were last written longer ago than that."""
    before = time.time() - older_than_s
    with contextlib.suppress(OSError):
        for path in folder.rglob("*"):
            with contextlib.suppress(OSError):
                if path.is_file() and path.stat().st_mtime <= before:
                    path.unlink()


def keep_removing_files(folder: Path) -> None:
    """Remove all files now, and old ones every ten minutes while the program runs."""
    remove_old_files(folder)

    def work() -> None:
        while True:
            time.sleep(EVERY_S)
            remove_old_files(folder, KEPT_S)

    threading.Thread(target=work, name="cache", daemon=True).start()
