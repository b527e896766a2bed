"""Print results to stdout and everything else to stderr."""

import contextlib
import getpass
import json
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Annotated, Any

import typer
from rich.console import Console, RenderableType
from rich.table import Column, Table
from rich.text import Text

from hearth.catalogue import House, suggest
from hearth.catalogue.house import Part, Service
from hearth.progress import Clock, Running, Silence, repeating

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def print_error(text: str) -> None:
    """Print an error line by line; its text is never read as markup."""
    for line in text.splitlines():
        err.print("[red]error:[/red]", end=" ")
        err.print(line, markup=False)


def note(text: str, console: "Console | Display" = err) -> None:
    """Print a note; its text is never read as markup."""
    console.print("[yellow]note:[/yellow]", end=" ")
    console.print(text, markup=False)


class Display:
    """Shows running steps: on a terminal in a line that changes, elsewhere in new lines."""

    def __init__(self, console: Console, clock: Clock | None = None) -> None:
        """Show nothing yet."""
        self.console, self.silence = console, Silence(*[clock] if clock else [])
        self.running = Running(self.silence.clock)
        self.status = console.status("")

    def print(self, *text: object, **more: Any) -> None:
        """Print a line of its own."""
        self.silence.broken()
        self.console.print(*text, **more)

    def show(self) -> None:
        """Show the steps as they are now; elsewhere than on a terminal only after a silence."""
        lines = self.running.lines()
        if self.console.is_terminal:
            self.status.update(Text("\n".join(line.strip() for line in lines), style="dim"))
        elif self.silence.is_long():
            for line in lines:
                self.console.print(line, markup=False)


@contextlib.contextmanager
def display(console: Console = err) -> Iterator[Display]:
    """Show running steps until the block ends."""
    shown = Display(console)
    with shown.status, repeating(shown.show):
        yield shown


@contextlib.contextmanager
def waiting(text: str, place: str = "") -> Iterator[Callable[[str], None]]:
    """Show one step until the block ends; yields a function that takes what it is doing now."""
    with display() as shown:
        shown.running.start(place, text)
        yield lambda now: shown.running.detail(place, "", now)


def step(text: str) -> None:
    """Print one step of a run, in the column beside the times."""
    err.print(f"{' ' * 10}{text}", markup=False)


def print_json(value: Any) -> None:
    """Print JSON to stdout."""
    json.dump(value, sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")


def show(content: RenderableType) -> None:
    """Print text with markup, or a table, to stdout."""
    out.print(content)


def show_or_print(as_json: bool, value: Any, content: RenderableType) -> None:
    """Print a value as JSON for programs, or as a table for people."""
    if as_json:
        print_json(value)
    else:
        show(content)


def confirm(question: str, yes: bool) -> None:
    """Ask a person, unless --yes was given; end the command unless they agree."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise typer.BadParameter("this is not a terminal, so Hearth cannot ask: add --yes")
    typer.confirm(question, abort=True)


def read_hidden(prompt: str) -> str:
    """Read a secret from a terminal, without showing it, or from standard input."""
    return getpass.getpass(f"{prompt}: ") if sys.stdin.isatty() else sys.stdin.read()


def table(columns: Iterable[str], rows: Iterable[Iterable[RenderableType]]) -> Table:
    """Return a plain table; the names in its first column are never broken."""
    first, *others = columns
    named = Column(first, no_wrap=True)
    grid = Table(named, *others, box=None, pad_edge=False, header_style="dim")
    for row in rows:
        grid.add_row(*row)
    return grid


def known(kind: str, name: str, names: Collection[str]) -> str:
    """Return a name that is one of `names`, or reject it and suggest the nearest one."""
    if name not in names:
        raise typer.BadParameter(f"no {kind} {name!r}: {suggest(name, names)}")
    return name


def completion(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Return a function that completes a word to these names."""
    return lambda incomplete: [name for name in names() if name.startswith(incomplete)]


def find(house: House, name: str) -> Service | Part:
    """Return the service or part of this name."""
    owners: dict[str, Service | Part] = {**house.services, **house.parts}
    return owners[known("service", name.replace("-", "_"), owners)]
