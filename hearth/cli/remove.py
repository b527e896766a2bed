"""`hearth remove`: remove a service or the whole house; data stays unless told otherwise."""

import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated

import typer
from pylxd.exceptions import ClientConnectionFailed, LXDAPIException

from hearth.catalogue import House, derive
from hearth.cli import playbook, remote
from hearth.cli.console import completion, confirm, err, known, show, step
from hearth.cli.verify import run_tests, view
from hearth.machine import runs
from hearth.project import Project, current
from hearth.remote.controller import prepared, target
from hearth.remove import RemoveError, whole_house
from hearth.remove.service import forgotten_secrets, note_absent

_complete = completion(lambda: current().catalogue().services)


def remove_service(
    service: Annotated[
        str | None,
        typer.Argument(metavar="SERVICE", help="The service to remove.", autocompletion=_complete),
    ] = None,
    everything_: Annotated[
        bool,
        typer.Option("--all", help="Remove the whole house, and undo its changes to the machine."),
    ] = False,
    data: Annotated[bool, typer.Option("--data", help="Delete its data too, for ever.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Remove a service or the whole house, after a preview and a confirmation.

    Data is kept unless you add --data. If a removal is interrupted, run it again.

    Example: hearth remove open_webui
    """
    if (service is None) != everything_:
        raise typer.BadParameter("name one service, or add --all")
    project = current()
    if service is None:
        _remove_all(project, data, yes)
        return
    house = project.house()
    name = service.replace("-", "_")
    if name in house.parts:
        raise typer.BadParameter(
            f"{name} is a part of this house: it is removed with what needs it, or by --all"
        )
    known("service", name, project.catalogue().services)
    _refuse_needed(house, name)
    is_here = house.machine.reach == "local"
    # Only the remote machine knows its GPU and its secrets.
    whole = house if is_here else derive(project.catalogue())
    _describe(whole, name, data, project.vault.names() if is_here else None)
    confirm("Remove it?", yes)
    note_absent(project.inventory, name)
    if not is_here:
        words = ["scripts/hearth", "remove", name, *(["--data"] if data else []), "--yes"]
        there = target(house.machine.reach)
        raise typer.Exit(remote.converge(project, there, prepared(words)))
    more = ("-e", json.dumps({"instances_remove_data": [name]})) if data else ()
    steps = playbook.run(project, err, more)
    show(f"site.yml: ok={steps.total('ok')} changed={steps.total('changed')}")
    # The last receipt still names the service.
    receipt = run_tests(project, "home")
    show(view(receipt))
    raise typer.Exit(0 if receipt.good else 1)


def _refuse_needed(house: House, name: str) -> None:
    needing = [
        other
        for other, service in house.services.items()
        if name in service.needs and name not in service.uses
    ]
    if needing:
        verb = "needs" if len(needing) == 1 else "need"
        raise RemoveError(
            f"{name} cannot be removed: {', '.join(needing)} {verb} it: remove these first, or "
            f"take {name} out of their needs in inventory/local/services.yml"
        )


def _describe(house: House, name: str, data: bool, secrets: Collection[str] | None) -> None:
    """Show what is removed and what is kept; `secrets` are the existing ones, None if unknown."""
    service = house.services.get(name) or house.removed.get(name)
    show(f"remove  {name}: its instance, its programs, and its entries in other files")
    if service is None:
        return
    for site in service.sites:
        show(f"remove  https://{site.fqdn}")
    owned = {**service.secrets, f"consumer_{name}": "random"}
    kept = {key: kind for key, kind in house.secrets.items() if key not in owned}
    without = replace(house, removed={**house.removed, name: service}, secrets=kept)
    going = forgotten_secrets(without, [name] if data else [])
    for secret in sorted(owned if secrets is None else owned.keys() & {*secrets}):
        show(f"{'remove' if secret in going else 'keep  '}  secret {secret}")
    for volume in service.volumes:
        if volume.from_folder:
            show(f"keep    {volume.from_folder}: your own folder")
        elif data:
            show(f"[red]remove[/red]  data in {volume.path}, for ever")
        else:
            show(f"keep    data in {volume.path} (deleted with --data)")


def _remove_all(project: Project, data: bool, yes: bool) -> None:
    found = _plan(project, data)
    for trace in found.goes:
        show(f"remove  {trace.what}")
    for line in found.stays:
        show(f"keep    {line}")
    if not found.goes:
        show("nothing of Hearth is left here")
        return
    confirm("Remove it?", yes)
    with runs.alone(step):
        # Programs that a killed run left may have made something since.
        for trace in _plan(project, data).goes:
            step(f"Remove {trace.what}")
            with _explained(
                f"{trace.what}: cannot be removed", "fix this, then run the command again"
            ):
                trace.remove()
    show("[green]removed[/green]")


def _plan(project: Project, data: bool) -> whole_house.RemovalPlan:
    with _explained("Incus or this machine cannot be read", "see `journalctl -u incus`"):
        return whole_house.plan_removal(project, data)


@contextmanager
def _explained(what: str, advice: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ClientConnectionFailed, LXDAPIException) as error:
        raise RemoveError(f"{what}: {error}: {advice}") from None
