"""Fetch somebody else's program and install it with a change of ours."""

from collections.abc import Mapping
from pathlib import Path

from hearth.sources.changed import Change, changed_digest, folder_digest, install_changed
from hearth.sources.lock import fetch_once, known
from hearth.sources.model import Progress, Source
from hearth.sources.programs import Installed, is_installed, settled


def install_upstream(
    inventory: Path,
    source: Source,
    name: str,
    downloads: Path,
    programs_folder: Path,
    mirrors: Mapping[str, str],
    change: Change,
    progress: Progress | None = None,
    *,
    write: bool = True,
) -> Installed:
    """Fetch, verify, record, unpack and change one archive.

    What is installed and intact is not fetched again. With `write` false nothing is fetched.

    Raises:
        SourceError: it cannot be had, or the change does not know it; what was installed stays.
    """
    source = known(inventory, source)
    digest = changed_digest(source.sha256, change) if source.sha256 else ""
    is_there = bool(digest) and is_installed(programs_folder, name, digest)
    if found := settled(programs_folder, name, digest, is_there=is_there, write=write):
        return found
    fetched = fetch_once(inventory, source, downloads, mirrors, progress)
    return install_changed(fetched.path, fetched.sha256, programs_folder, name, change)


def install_folder(
    folder: Path, programs_folder: Path, name: str, change: Change, *, write: bool = True
) -> Installed:
    """Copy and change a folder of this machine, as it is now; the folder itself stays untouched."""
    digest = folder_digest(folder)
    return install_changed(folder, digest, programs_folder, name, change, write=write)
