"""What the house keeps: its secrets, and the digests of what it fetches."""

import getpass
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from hearth.catalogue import House, suggest
from hearth.cli.say import AsJson, err, out, show, table, write_json
from hearth.paths import DOWNLOADS
from hearth.project import current
from hearth.sources.lock import Locked, State, record_manifest
from hearth.sources.registry import manifest_digest

secret = typer.Typer(help="The house's secrets.", no_args_is_help=True)


def _names() -> dict[str, str]:
    return dict(sorted(current().house().secrets.items()))


def _complete(incomplete: str) -> list[str]:
    return [name for name in _names() if name.startswith(incomplete)]


Name = Annotated[
    str, typer.Argument(metavar="NAME", help="A secret's name.", autocompletion=_complete)
]


@secret.command("list")
def list_secrets(as_json: AsJson = False) -> None:
    """Show which secrets there are and which have a value, never the values.

    Example: hearth secret list
    """
    present = current().vault.names()
    rows = [
        (name, kind, "set" if name in present else "not set") for name, kind in _names().items()
    ]
    if as_json:
        write_json([{"name": n, "kind": k, "set": s == "set"} for n, k, s in rows])
    else:
        show(table(("name", "kind", "value"), rows))


@secret.command("show")
def show_secret(
    name: Name,
    plain: Annotated[
        bool, typer.Option("--plain", help="Write it to a pipe or a file, and nothing else.")
    ] = False,
) -> None:
    """Show one secret, on a terminal.

    Example: hearth secret show house_password
    """
    if not plain and not sys.stdout.isatty():
        # A secret in a log or a pipe should be somebody's decision, not an accident.
        raise typer.BadParameter("this is not a terminal: say --plain if a program may read it")
    value = current().vault.get(_known(name))
    if plain:
        typer.echo(value)
    else:
        out.print(f"[dim]{name}[/dim]  ", end="")
        out.print(value, markup=False)


@secret.command("set")
def set_secret(name: Name) -> None:
    """Give a secret a value: asked for on a terminal, otherwise read from standard input.

    Never from the command line, where every user of the machine could read it.

    Example: hearth secret set openrouter_api_key < key.txt
    """
    _known(name)
    value = getpass.getpass(f"{name}: ") if sys.stdin.isatty() else sys.stdin.read()
    current().vault.set(name, value)
    err.print(f"{name} is set; `hearth up` brings it to whom it concerns")


def _known(name: str) -> str:
    known = {*_names(), *current().vault.names(), *_provider_secrets()}
    if name not in known:
        raise typer.BadParameter(f"no secret {name!r}: {suggest(name, known)}")
    return name


def _provider_secrets() -> set[str]:
    """Return the keys that providers of models want, also where nobody asks them yet."""
    providers = current().catalogue().providers.values()
    return {provider.secret for provider in providers if provider.secret}


def lock(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SOURCE]...", help="Fetch these anew and accept their digests."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Record the digest of every source of this house that has none, and check local files.

    What this house recorded itself is replaced only for the sources that you name.

    Example: hearth lock ollama
    """
    from hearth.sources import Source
    from hearth.sources.lock import lock as lock_sources

    project = current()
    house = project.house()
    sources = {
        name: Source(name, source.version, source.url, source.sha256, source.size)
        for name, source in house.sources.items()
    }
    for name in names or ():
        if name not in sources:
            raise typer.BadParameter(f"no source {name!r}: {suggest(name, sources)}")
    wanted = fetched(house) | set(names or ())
    locked = lock_sources(
        project.inventory,
        {name: source for name, source in sources.items() if name in wanted},
        DOWNLOADS,
        house.mirrors,
        names or (),
        _progress,
    )
    if not names:
        locked += lock_models(project.inventory, house)
    if as_json:
        write_json([asdict(row) for row in locked])
    else:
        show(
            table(
                ("source", "version", "sha256", "state"),
                ((row.name, row.version, row.sha256[:16], row.state) for row in locked),
            )
        )


def fetched(house: House) -> set[str]:
    """Name the sources of services that are on, and of their models that an alias asks for."""
    found: set[str] = set()
    for service in house.services.values():
        found.update(service.sources)
        for weights in service.weights:
            if weights.wanted:
                found.update(weights.files.values())
    return found


def lock_models(inventory: Path, house: House) -> list[Locked]:
    """Record the manifest's digest of every model that Hearth pulls and that has none yet."""
    found = []
    for model in house.models.values():
        if not model.pulled:
            continue
        digest = model.digest
        state: State = "recorded"
        if digest is None:
            digest, state = manifest_digest(model.id, house.mirrors), "first-sight"
            record_manifest(inventory, model.id, digest)
        found.append(Locked(model.name, model.id, digest.removeprefix("sha256:"), state))
    return found


def _progress(name: str, here: int, whole: int | None) -> None:
    """Overwrite one line with how far a download is."""
    if err.is_terminal:
        of = f" of {whole / 1e6:.0f}" if whole else ""
        err.print(f"{name}: {here / 1e6:.0f}{of} MB", end="\r")
