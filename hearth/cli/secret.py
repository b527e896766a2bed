"""`hearth secret`: list, show and set the house's secrets."""

import sys
from typing import Annotated

import typer

from hearth.cli.console import (
    AsJson,
    completion,
    err,
    known,
    out,
    read_hidden,
    show_or_print,
    table,
)
from hearth.project import current

app = typer.Typer(
    name="secret", help="List, show and set the house's secrets.", no_args_is_help=True
)


def _names() -> dict[str, str]:
    return dict(sorted(current().house().secrets.items()))


Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="A secret's name.", autocompletion=completion(_names)),
]


@app.command("list")
def list_secrets(as_json: AsJson = False) -> None:
    """List the secrets and whether each has a value; the values are not shown.

    Example: hearth secret list
    """
    present = current().vault.names()
    rows = [
        (name, kind, "set" if name in present else "not set") for name, kind in _names().items()
    ]
    value = [{"name": n, "kind": k, "set": s == "set"} for n, k, s in rows]
    show_or_print(as_json, value, table(("name", "kind", "value"), rows))


@app.command("show")
def show_secret(
    name: Name,
    plain: Annotated[
        bool, typer.Option("--plain", help="Print only the value, even to a pipe or a file.")
    ] = False,
) -> None:
    """Show one secret on a terminal.

    Example: hearth secret show house_password
    """
    if not plain and not sys.stdout.isatty():
        # A secret must not get into a log or a pipe by accident.
        raise typer.BadParameter("this is not a terminal: add --plain to let a program read it")
    value = current().vault.get(_known(name))
    if plain:
        typer.echo(value)
    else:
        out.print(f"[dim]{name}[/dim]  ", end="")
        out.print(value, markup=False)


@app.command("set")
def set_secret(name: Name) -> None:
    """Set a secret to a value that is asked for on a terminal, or read from standard input.

    It is never an argument, because every user of the machine can read command lines.

    Example: hearth secret set openrouter_api_key < key.txt
    """
    _known(name)
    current().vault.set(name, read_hidden(name))
    err.print(f"{name} is set; `hearth up` hands it to the services that use it")


def _known(name: str) -> str:
    project = current()
    # The keys of all model providers, also of those that no alias uses yet.
    keys = {one.secret for one in project.catalogue().providers.values() if one.secret}
    return known("secret", name, {*_names(), *project.vault.names(), *keys})
