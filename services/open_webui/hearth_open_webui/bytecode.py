"""Keep what Python made of the program's three thousand files, so that a start need not do it anew.

The machine that installs a program has no Python of the instance's release, and the program itself
is read-only: the first start writes, the next ones read.
"""

import contextlib
import shutil
import sys
from pathlib import Path


def keep(folder: Path, program: Path) -> None:
    """Have imports from now on read and write bytecode in `folder`, apart for each `program`.

    A program is installed into a folder named by a digest of all that is in it, so that nothing
    kept for another version is ever taken for this one's; what those left behind goes.
    """
    name = program.resolve().name
    with contextlib.suppress(OSError):
        for other in folder.iterdir():
            if other.name != name:
                shutil.rmtree(other, ignore_errors=True)
    sys.pycache_prefix = str(folder / name)
    sys.dont_write_bytecode = False
