"""`hearth agents`: give a task to the team of agents, and watch it work."""

import contextlib
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from hearth.cli.console import AsJson, err, known, print_json
from hearth.clients.agents import Update, offered, play, site_of
from hearth.clients.endpoints import house_edge, one_line
from hearth.project import VERIFIER, current

# A task is a question, not a library.
_MOST_CHARACTERS = 1_000_000


def give_task(
    task: Annotated[
        str | None,
        typer.Argument(metavar="TASK", help="What to do; by default read from standard input."),
    ] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", metavar="NAME", help="One agent instead of the team.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Give a task to the team of agents; its steps go to stderr, its answer to stdout.

    Ctrl-C stops the run. One that waits for your approval goes on if you give the same task again.

    Example: hearth agents "Which services use the most memory, and why?"
    """
    text = _task(task)
    project = current()
    house = project.house()
    site, edge, key = site_of(house), house_edge(house), project.vault.get(VERIFIER)
    names = offered(edge, site, key)
    name = known("agent", agent, names) if agent else names[0]
    updates = play(edge, site, key, name, text, house.agent_limits.seconds)
    try:
        # Closing it closes the connection, and that stops the run.
        with contextlib.closing(updates):
            steps = _print_whole(name, updates) if as_json else _print(updates)
    except KeyboardInterrupt:
        err.print("stopped")
        raise typer.Exit(130) from None
    raise typer.Exit(1 if any(step.get("kind") == "limit" for step in steps) else 0)


def _task(given: str | None) -> str:
    if given is None and sys.stdin.isatty():
        raise typer.BadParameter('there is no task: write one, e.g. hearth agents "Hello"')
    text = given if given is not None else sys.stdin.read(_MOST_CHARACTERS + 1)
    if not text.strip():
        raise typer.BadParameter("the task is empty")
    if len(text) > _MOST_CHARACTERS:
        raise typer.BadParameter(f"the task is longer than {_MOST_CHARACTERS} characters")
    return text


def _print(updates: Iterator[Update]) -> list[dict[str, Any]]:
    """Print steps and answer as they come, and return the steps."""
    steps: list[dict[str, Any]] = []
    before, started = "", False
    for update in updates:
        if update.step:
            steps.append(update.step)
            line = one_line(update.step.get("text") or update.step.get("kind", ""))
            if started and update.step.get("kind") == "answer":
                sys.stdout.write("\n")
                sys.stdout.flush()
                started = False
            # A run that waits repeats its step.
            if line != before:
                err.print(line, markup=False, style="dim")
            before = line
        if update.text:
            started = True
            sys.stdout.write(_printable(update.text))
            sys.stdout.flush()
    if started:
        sys.stdout.write("\n")
    return steps


def _print_whole(name: str, updates: Iterator[Update]) -> list[dict[str, Any]]:
    """Print everything as one document, and return the steps."""
    found = list(updates)
    steps = [update.step for update in found if update.step]
    usage = next((update.usage for update in found if update.usage), {})
    answer = "".join(update.text for update in found)
    print_json({"agent": name, "answer": answer, "steps": steps, "usage": usage})
    return steps


def _printable(text: str) -> str:
    """Leave out what a terminal would obey: an answer may quote a page or a log."""
    return "".join(letter for letter in text if letter.isprintable() or letter in "\n\t")
