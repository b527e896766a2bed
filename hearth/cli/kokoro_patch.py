"""`hearth kokoro-patch`: an upstream Kokoro-FastAPI that streams, in a folder or a container."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from hearth.cli.say import AsJson


def kokoro_patch(
    path: Annotated[
        Path | None,
        typer.Option("--path", help="Folder that holds upstream's `api`; in a container /app."),
    ] = None,
    container: Annotated[
        str | None, typer.Option("--container", help="A container of Podman, Docker or Incus.")
    ] = None,
    engine: Annotated[
        Literal["podman", "docker", "incus"] | None,
        typer.Option("--engine", help="Whose, where two have one of that name."),
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(
            "--without", help="Leave out sentences, yielding, threads or player; may be repeated."
        ),
    ] = None,
    take_back: Annotated[
        bool, typer.Option("--take-back", help="Put every original back, byte for byte.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do it without asking.")] = False,
    as_json: AsJson = False,
) -> None:
    """Let upstream's Kokoro-FastAPI stream sentence by sentence, and its player speak in Firefox.

    Shows what it would change and asks. A release whose form it does not know is refused with
    nothing changed. With --json nothing is changed unless --yes is there, too.

    Example: hearth kokoro-patch --container kokoro --without threads
    """
    # It reads Python as trees, for which a library is loaded that no other command needs.
    from hearth.cli.patching import Wish, patch

    patch(Wish(path, container, engine, tuple(without or ()), take_back, yes, as_json))
