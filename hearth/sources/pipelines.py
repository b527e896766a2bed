"""Install the inventory's pipelines: a folder as upstream's server would have made it, read-only.

That server makes NAME/valves.json beside each file, and ends where it cannot; so they lie there.
"""

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hearth.catalogue.naming import suggest
from hearth.sources.archive import sha256_of
from hearth.sources.errors import SourceError
from hearth.sources.programs import Installed, install

# Raised when the steps below change in a way that their inputs do not show.
_BUILD_VERSION = 1


def install_pipelines(
    files: Mapping[str, Path],
    valves: Mapping[str, Mapping[str, Any]],
    without: Sequence[str],
    programs_folder: Path,
    name: str,
    *,
    write: bool = True,
) -> Installed:
    """Make PROGRAMS/NAME/current a folder of these pipelines (name to file) with their valves.

    Raises:
        SourceError: `valves` or `without` name no pipeline, or a file changes meanwhile.
    """
    for variable, named in (("pipelines_valves", valves), ("pipelines_without", without)):
        for one in named:
            if one not in files:
                raise SourceError(f"{variable} names no pipeline {one}: {suggest(one, files)}")
    taken = {one: path for one, path in files.items() if one not in without}
    texts = {one: _valves(one, valves.get(one, {})) for one in taken}
    digests = {one: _sha256(path) for one, path in taken.items()}
    lines = [f"{one} {digests[one]} {texts[one]}" for one in sorted(taken)]
    digest = hashlib.sha256("\n".join([str(_BUILD_VERSION), *lines]).encode()).hexdigest()

    def fill(folder: Path, _lock: int) -> None:
        for one, path in taken.items():
            target = folder / f"{one}.py"
            shutil.copyfile(path, target)
            # What was copied counts: somebody may write in it meanwhile.
            if sha256_of(target) != digests[one]:
                raise SourceError(f"{path} changed meanwhile: run this again")
            (folder / one).mkdir()
            (folder / one / "valves.json").write_text(texts[one], encoding="utf-8")

    return install(programs_folder, name, digest, fill, write=write)


def _valves(name: str, given: object) -> str:
    if not isinstance(given, Mapping):
        raise SourceError(f"pipelines_valves {name} must be a mapping of valves to values")
    try:
        return json.dumps(given, sort_keys=True)
    except TypeError as error:
        raise SourceError(f"pipelines_valves {name}: {error}: write text or a number") from None


def _sha256(path: Path) -> str:
    try:
        return sha256_of(path)
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror}: put it back") from None
