"""`hearth remove`: a service, or the whole house, gone without a trace but its data."""

import json
import sys
from collections.abc import Collection
from typing import Annotated

import typer
from pylxd.exceptions import ClientConnectionFailed, LXDAPIException

from hearth.catalogue import House, derive, suggest
from hearth.cli import afar, playbook
from hearth.cli.prove import prove, view
from hearth.cli.say import err, show
from hearth.machine import runs
from hearth.project import Project, current
from hearth.remove import RemoveError, Trace, everything
from hearth.remove.record import note_absent
from hearth.remove.service import forgotten


def _complete(incomplete: str) -> list[str]:
    return [name for name in current().catalogue().services if name.startswith(incomplete)]


def remove(
    service: Annotated[
        str | None,
        typer.Argument(metavar="SERVICE", help="What shall go.", autocompletion=_complete),
    ] = None,
    everything_: Annotated[
        bool, typer.Option("--all", help="The whole house, down to what was here before it.")
    ] = False,
    data: Annotated[
        bool, typer.Option("--data", help="Its data, too: what people made, for ever.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Remove a service, or the whole house: what goes is shown first, and asked about.

    Data stay where they are unless --data is said. A removal that was cut short is said again.

    Example: hearth remove open_webui
    """
    if (service is None) != everything_:
        raise typer.BadParameter("name one service, or say --all")
    project = current()
    if service is None:
        _remove_all(project, data, yes)
        return
    house = project.house()
    name = _known(project, house, service.replace("-", "_"))
    _refuse_needed(house, name)
    is_here = house.machine.reach == "local"
    # Which card and which secrets there are elsewhere, only that machine knows.
    whole = house if is_here else derive(project.catalogue(), frozenset(), frozenset())
    _describe(whole, name, data, project.vault.names() if is_here else None)
    _ask(yes)
    note_absent(project.inventory, name)
    if not is_here:
        raise typer.Exit(afar.removal(project, house.machine.reach, name, data))
    more = ("-e", json.dumps({"instances_remove_data": [name]})) if data else ()
    steps = playbook.run(project, err, more)
    show(f"site.yml: ok={steps.total('ok')} changed={steps.total('changed')}")
    # The last receipt speaks of a service that is gone.
    receipt = prove(project, "home")
    show(view(receipt))
    raise typer.Exit(0 if receipt.good else 1)


def _known(project: Project, house: House, name: str) -> str:
    services = project.catalogue().services
    if name in house.parts:
        raise typer.BadParameter(f"{name} is a part of every house: it goes with --all only")
    if name not in services:
        raise typer.BadParameter(f"no service {name!r}: {suggest(name, services)}")
    return name


def _refuse_needed(house: House, name: str) -> None:
    needing = [other for other, service in house.services.items() if name in service.needs]
    if needing:
        verb = "needs" if len(needing) == 1 else "need"
        raise RemoveError(
            f"{name} cannot go: {', '.join(needing)} {verb} it: remove these first, or take "
            f"{name} out of its needs in inventory/local/services.yml"
        )


def _describe(house: House, name: str, data: bool, secrets: Collection[str] | None) -> None:
    """Say what goes and what stays, from the record and the names of the secrets that are known."""
    service = house.services.get(name) or house.removed.get(name)
    show(f"goes    {name}: its instance, its programs, and its place in all other files")
    if service is None:
        return
    for site in service.publish:
        show(f"goes    https://{site.fqdn}")
    plain = house.as_vars()
    plain["removed"][name] = plain["removed"].get(name) or plain["services"][name]
    owned = {**service.secrets, f"consumer_{name}": "random"}
    plain["secrets"] = {key: kind for key, kind in house.secrets.items() if key not in owned}
    going = forgotten(plain, [name] if data else [])
    for secret in sorted(owned if secrets is None else owned.keys() & {*secrets}):
        show(f"{'goes ' if secret in going else 'stays'}   secret {secret}")
    for volume in service.volumes:
        if volume.from_folder:
            show(f"stays   {volume.from_folder}: a folder of yours")
        elif data:
            show(f"[red]goes[/red]    data in {volume.path}, for ever")
        else:
            show(f"stays   data in {volume.path} (gone with --data)")


def _remove_all(project: Project, data: bool, yes: bool) -> None:
    found = _plan(project, data)
    for trace in found.goes:
        show(f"goes    {trace.what}")
    for line in found.stays:
        show(f"stays   {line}")
    if not found.goes:
        show("nothing of Hearth is left here")
        return
    _ask(yes)
    with runs.alone(err.print):
        # What a killed run left at work may have made something since.
        for trace in _plan(project, data).goes:
            _go(trace)
    show("[green]removed[/green]")


def _plan(project: Project, data: bool) -> everything.Plan:
    try:
        return everything.plan(project, data)
    except (ClientConnectionFailed, LXDAPIException) as error:
        raise RemoveError(f"Incus: {error}: see `journalctl -u incus`") from None


def _go(trace: Trace) -> None:
    err.print(f"[dim]        [/dim]  Remove {trace.what}", markup=True)
    try:
        trace.remove()
    except (OSError, ClientConnectionFailed, LXDAPIException) as error:
        raise RemoveError(f"{trace.what} did not go: {error}: say it again when mended") from None


def _ask(yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise typer.BadParameter("nobody can be asked here: say --yes")
    typer.confirm("Remove it?", abort=True)
