"""`hearth sandbox`: try anything in a disposable copy of a service."""

import dataclasses
import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group
from rich.text import Text

from hearth.catalogue.house import Service
from hearth.cli.console import (
    AsJson,
    completion,
    find,
    print_json,
    show,
    show_or_print,
    table,
    waiting,
)
from hearth.cli.logs import run_instead
from hearth.cli.status import time_text
from hearth.machine.engine import EngineError
from hearth.project import current
from hearth.sandbox import SandboxError, command, guard, lifecycle
from hearth.sandbox.difference import Change, compare_sandbox

app = typer.Typer(
    name="sandbox",
    help="Try anything in a disposable copy of a service: no secrets, no network, one hour.",
    no_args_is_help=True,
)
_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def _sandboxes() -> list[str]:
    try:
        return [one.name for one in lifecycle.list_sandboxes()]
    except (EngineError, OSError):
        return []


_services = completion(lambda: current().house().services)
Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="A sandbox.", autocompletion=completion(_sandboxes)),
]
Place = Annotated[str, typer.Argument(metavar="PATH", help="A path in the sandbox.")]


@app.command("create")
def create(
    service: Annotated[
        str | None,
        typer.Argument(metavar="SERVICE", help="The service to copy.", autocompletion=_services),
    ] = None,
    empty: Annotated[
        bool, typer.Option("--empty", help="Copy no service: an empty Debian.")
    ] = False,
    data: Annotated[bool, typer.Option("--data", help="Copy the service's data, too.")] = False,
    seconds: Annotated[
        int,
        typer.Option(min=10, max=int(lifecycle.LIFETIME_S), help="When it is deleted."),
    ] = int(lifecycle.LIFETIME_S),
    as_json: AsJson = False,
) -> None:
    """Create a sandbox: a copy of a service's instance, without its secrets and its data.

    It has no network access; only these commands can reach it. There are at most eight.

    Example: hearth sandbox create kokoro
    """
    if (service is None) != empty:
        raise typer.BadParameter("name one service, or add --empty")
    if data and empty:
        raise typer.BadParameter("--data copies the data of a service: name one")
    owner = find(current().house(), service) if service else None
    if owner is not None and not isinstance(owner, Service):
        raise typer.BadParameter(f"{service} runs on the machine itself: name a service")
    began = time.monotonic()
    with waiting("Create the sandbox") as tell:
        made = lifecycle.create_sandbox(owner, with_data=data, lifetime_s=seconds, tell=tell)
    ready_s = round(time.monotonic() - began, 2)
    lines = [
        f"[green]ready:[/green] {made.name}  ({ready_s:g} s, deleted in {time_text(seconds)})",
        f"next   hearth sandbox run {made.name} -- COMMAND",
    ]
    show_or_print(
        as_json,
        {**dataclasses.asdict(made), "ready_s": ready_s},
        Group(*map(Text.from_markup, lines)),
    )


@app.command("list")
def list_all(as_json: AsJson = False) -> None:
    """List the sandboxes.

    Example: hearth sandbox list
    """
    found = lifecycle.list_sandboxes()
    now = time.time()
    rows = [
        (
            one.name,
            one.service or "empty",
            one.note or ("ready" if one.running and one.ready else "not ready"),
            time_text(one.ends - now),
        )
        for one in found
    ]
    documents = [dataclasses.asdict(one) for one in found]
    content = table(("name", "copy of", "state", "left"), rows) if rows else "no sandboxes"
    show_or_print(as_json, documents, content)


@app.command("run", context_settings={"ignore_unknown_options": True})
def run(
    name: Name,
    argv: Annotated[list[str], typer.Argument(metavar="COMMAND...", help="The command.")],
    timeout: Annotated[
        float, typer.Option(min=1, max=command.LONGEST_S, help="Seconds until it is killed.")
    ] = 30,
    as_json: AsJson = False,
) -> None:
    """Run a command as root of a sandbox, and end with its exit code.

    Standard input is given to it, up to a megabyte, unless it is a terminal.

    Example: hearth sandbox run sb-0a1b2c3d -- systemctl status kokoro
    """
    ran = command.run_command(name, argv, timeout_s=timeout, stdin=_input())
    if as_json:
        print_json(dataclasses.asdict(ran))
        raise typer.Exit(0 if ran.exit_code == 0 else 1)
    sys.stdout.write(ran.stdout)
    sys.stderr.write(ran.stderr)
    if ran.timed_out:
        raise SandboxError(f"{name}: killed after {timeout:g} s: give it more with --timeout")
    raise typer.Exit(ran.exit_code)


@app.command("read")
def read(name: Name, path: Place) -> None:
    """Print a file of a sandbox, of at most a megabyte.

    Example: hearth sandbox read sb-0a1b2c3d /etc/systemd/system/kokoro.service
    """
    sys.stdout.buffer.write(command.read_file(name, path))


@app.command("write")
def write(
    name: Name,
    path: Place,
    file: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", exists=True, dir_okay=False, help="The content."),
    ] = None,
) -> None:
    """Write a file in a sandbox, from another file or from standard input.

    Example: hearth sandbox write sb-0a1b2c3d /etc/hosts --from hosts.new
    """
    data = file.read_bytes() if file else _input()
    try:
        command.write_file(name, path, data.decode())
    except UnicodeDecodeError:
        raise SandboxError(f"{file or 'standard input'}: only text can be written") from None
    show(f"[green]written:[/green] {path} ({len(data)} bytes)")


@app.command("probe")
def probe(
    name: Name,
    port: Annotated[int, typer.Argument(metavar="PORT", min=1, max=65535)],
    path: Annotated[str, typer.Argument(metavar="PATH")] = "/",
    as_json: AsJson = False,
) -> None:
    """Send an HTTP request to a server in a sandbox.

    Example: hearth sandbox probe sb-0a1b2c3d 8880 /health
    """
    found = command.probe(name, port, path)
    lines = Text(f"HTTP {found.status} in {found.seconds:g} s\n{found.body}")
    show_or_print(as_json, dataclasses.asdict(found), lines)


@app.command("diff")
def diff(name: Name, as_json: AsJson = False) -> None:
    """Show what was changed in a sandbox since it was ready, against the original now.

    Logs, caches and temporary files are left out.

    Example: hearth sandbox diff sb-0a1b2c3d
    """
    found = compare_sandbox(name)
    lines = [line for change in found.changes for line in _change_lines(change)]
    lines += [Text(f"not compared: {what}", style="yellow") for what in found.left_out]
    content = Group(*lines) if lines else Text("no changes")
    show_or_print(as_json, dataclasses.asdict(found), content)


@app.command("delete")
def delete(name: Name) -> None:
    """Delete a sandbox.

    Example: hearth sandbox delete sb-0a1b2c3d
    """
    lifecycle.delete_sandbox(name)
    show(f"[green]deleted:[/green] {name}")


@app.command("shell")
def shell(name: Name) -> None:
    """Open a shell in a sandbox.

    Example: hearth sandbox shell sb-0a1b2c3d
    """
    lifecycle.find_sandbox(name)
    run_instead(name, ["/bin/bash", "-l"])


@app.command("guard", hidden=True)
def guard_all() -> None:
    """Delete sandboxes in time; the unit hearth-sandboxes runs this."""
    guard.guard_sandboxes()


def _input() -> bytes:
    if sys.stdin.isatty():
        return b""
    data = sys.stdin.buffer.read(command.FILE_BYTES + 1)
    if len(data) > command.FILE_BYTES:
        raise SandboxError(f"standard input has more than {command.FILE_BYTES >> 20} MiB")
    return data


def _change_lines(change: Change) -> list[Text]:
    colour = {"added": "green", "removed": "red"}.get(change.kind, "yellow")
    lines = [Text(f"{change.kind:8}{change.path}  ({change.detail})", style=colour)]
    return lines + [
        Text(f"        {line}", style=_STYLES.get(line[:1], ""))
        for line in change.text.splitlines()
    ]
