"""Install one file as it is: a model's weights, the voices of a speech server."""

import os
import shutil
from pathlib import Path

from hearth.sources import manifest
from hearth.sources.archive import sha256_of
from hearth.sources.errors import SourceError
from hearth.sources.programs import Installed, install, is_installed


def is_file_installed(programs_folder: Path, name: str, digest: str, file_name: str) -> bool:
    """Whether `current` is this digest, intact, and holds the file under this name."""
    place = programs_folder / name / digest / file_name
    return is_installed(programs_folder, name, digest) and place.is_file()


def install_file(
    file: Path, programs_folder: Path, name: str, digest: str, file_name: str, *, keep: bool = True
) -> Installed:
    """Make PROGRAMS/NAME/current/`file_name` the contents of `file`, whose sha256 is `digest`.

    Without `keep` the file is ours: it is moved in rather than copied, and gone at the end, for
    what is hundreds of megabytes large shall not lie here twice. A killed run still finds it.

    Raises:
        SourceError: the file is not `digest`, or cannot be put there; what was current stays.
    """

    def fill(folder: Path, _lock: int) -> None:
        # Whoever called has verified it; whoever forgot to would install anything at all.
        if sha256_of(file) != digest:
            raise SourceError(f"{name}: {file} is not {digest}: remove the file and fetch it anew")
        if keep or not _linked(file, folder / file_name):
            shutil.copyfile(file, folder / file_name)

    place = programs_folder / name / digest
    if place.is_dir() and not (place / file_name).is_file():
        # Under another name it is no use; without its record the folder is built anew.
        (place / manifest.NAME).unlink(missing_ok=True)
    installed = install(programs_folder, name, digest, fill)
    if not keep:
        file.unlink(missing_ok=True)
    return installed


def _linked(file: Path, target: Path) -> bool:
    """Give the file a second name on the same disk; false where that cannot be."""
    try:
        os.link(file, target)
    except OSError:
        return False
    # A file of somebody else's, or one with a third name, would change with that.
    if os.stat(target).st_nlink == 2 and not file.is_symlink():
        return True
    target.unlink()
    return False
