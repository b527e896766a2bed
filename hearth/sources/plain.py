"""Install files as they are: a model's weights, the voices of a speech server."""

import hashlib
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hearth.sources import manifest
from hearth.sources.archive import sha256_of
from hearth.sources.errors import SourceError
from hearth.sources.programs import Installed, install, is_installed


@dataclass(frozen=True, slots=True)
class Plain:
    """One verified file, and what it shall be called, with the folder that it shall lie in, if any.

    What is `ours` is moved in rather than copied, for hundreds of megabytes shall not lie here
    twice; what is not stays where it is.
    """

    path: Path
    sha256: str
    name: str
    ours: bool = False


def digest_of(files: Mapping[str, str]) -> str:
    """The digest of a folder of files, from name to sha256; of one file it is the file's own."""
    if len(files) == 1:
        return next(iter(files.values()))
    lines = "".join(f"{name} {sha256}\n" for name, sha256 in sorted(files.items()))
    return hashlib.sha256(lines.encode()).hexdigest()


def are_installed(programs_folder: Path, name: str, files: Mapping[str, str]) -> bool:
    """Whether `current` holds these files (name to sha256), intact."""
    digest = digest_of(files)
    place = programs_folder / name / digest
    there = all((place / file).is_file() for file in files)
    return is_installed(programs_folder, name, digest) and there


def install_files(files: Sequence[Plain], programs_folder: Path, name: str) -> Installed:
    """Make PROGRAMS/NAME/current a folder of these files.

    A killed run leaves nothing half installed, and nothing to be fetched again.

    Raises:
        SourceError: a file is not its digest, or cannot be put there; what was current stays.
    """

    def fill(folder: Path, _lock: int) -> None:
        for file in files:
            # Whoever called has verified it; whoever forgot to would install anything at all.
            if sha256_of(file.path) != file.sha256:
                raise SourceError(
                    f"{name}: {file.path} is not {file.sha256}: remove the file and fetch it anew"
                )
            (folder / file.name).parent.mkdir(parents=True, exist_ok=True)
            if not (file.ours and _linked(file.path, folder / file.name)):
                shutil.copyfile(file.path, folder / file.name)

    digest = digest_of({file.name: file.sha256 for file in files})
    place = programs_folder / name / digest
    if place.is_dir() and not all((place / file.name).is_file() for file in files):
        # Under another name it is no use; without its record the folder is built anew.
        (place / manifest.NAME).unlink(missing_ok=True)
    installed = install(programs_folder, name, digest, fill)
    for file in files:
        if file.ours:
            file.path.unlink(missing_ok=True)
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
