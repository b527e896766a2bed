"""`hearth lock`: the digests of everything that the house downloads."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from hearth.catalogue import House
from hearth.cli.console import AsJson, err, known, show_or_print, table
from hearth.project import current
from hearth.sources import Store
from hearth.sources.download import manifest_digest
from hearth.sources.lock import Locked, State, lock_sources, record_manifest


def lock_all(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="SOURCE", help="Fetch these again and accept their new digests."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Record the digest of every source of this house that has none, and check local files.

    A digest that this house has recorded is replaced only for the sources that you name.

    Example: hearth lock ollama
    """
    project = current()
    house = project.house()
    for name in names or ():
        known("source", name, house.sources)
    wanted = fetched(house) | set(names or ())
    locked = lock_sources(
        Store(project.inventory, house.mirrors),
        {name: source for name, source in house.sources.items() if name in wanted},
        names or (),
        _show_progress,
    )
    if not names:
        locked += lock_models(project.inventory, house)
    rows = ((row.name, row.version, row.sha256[:16], row.state) for row in locked)
    content = table(("source", "version", "sha256", "state"), rows)
    show_or_print(as_json, [asdict(row) for row in locked], content)


def fetched(house: House) -> set[str]:
    """Return the sources of enabled services, and of those of their models that an alias uses."""
    services = house.services.values()
    wanted = [weights for service in services for weights in service.weights if weights.wanted]
    return {
        *(source for service in services for source in service.sources),
        *(source for weights in wanted for source in weights.files.values()),
    }


def lock_models(inventory: Path, house: House) -> list[Locked]:
    """Record the manifest's digest of every model that Hearth pulls and that has none yet."""
    found = []
    for model in house.models.values():
        if not model.pulled:
            continue
        state: State = "recorded" if model.digest else "unverified"
        digest = model.digest or manifest_digest(model.id, house.mirrors)
        if digest != model.digest:
            record_manifest(inventory, model.id, digest)
        found.append(Locked(model.name, model.id, digest.removeprefix("sha256:"), state))
    return found


def _show_progress(name: str, done: int, size: int | None) -> None:
    """Show the progress of a download in one line, which is overwritten."""
    if err.is_terminal:
        of = f" of {size / 1e6:.0f}" if size else ""
        err.print(f"{name}: {done / 1e6:.0f}{of} MB", end="\r")
