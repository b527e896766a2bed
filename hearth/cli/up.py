"""`hearth up`: the whole way from a bare machine to a receipt."""

import os
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from hearth.catalogue.house import House
from hearth.cli import first_answer, place, playbook
from hearth.cli.lab import run_tool
from hearth.cli.prove import prove, view
from hearth.cli.say import err, show
from hearth.clients import trust
from hearth.clients.edge import front_door
from hearth.paths import ROOT_CERTIFICATE
from hearth.project import VERIFIER, Project, current

_COMMAND = Path("/usr/local/bin/hearth")
_SCRIPT = ("scripts", "hearth")


def up(
    lab: Annotated[
        bool, typer.Option("--lab", help="Build in a throw-away lab machine, here.")
    ] = False,
    lab_name: Annotated[str, typer.Option(help="The lab machine's name.")] = "house",
    preview: Annotated[bool, typer.Option("--check", help="Only show what would change.")] = False,
) -> None:
    """Build the house or bring it up to date, then prove it.

    Example: scripts/up
    """
    project = current()
    if lab or place.needs_lab():
        if not lab:
            err.print("note: systemd is not process 1 here, so the house goes into a lab machine")
        run_tool(project, ["up", lab_name, *(["--check"] if preview else [])])
    place.check()
    if preview:
        _foretell(project)
        return
    raise typer.Exit(0 if build(project) else 1)


def _foretell(project: Project) -> None:
    """Show what a run would do, change nothing, and say what cannot be known yet."""
    steps = playbook.run(project, err, ("--check", "--diff"))
    for service in project.house().services.values():
        if service.instance in steps.planned:
            tasks = sum(
                path.read_text(encoding="utf-8").count("\n- name:")
                for path in (project.root / "roles" / service.role / "tasks").glob("*.yml")
                if path.name != "main.yml"
            )
            show(f"{service.instance} is not there yet: {tasks} tasks in it cannot be previewed")
    show(f"{steps.total('changed')} tasks would change something; differences: {steps.log}")


def build(project: Project) -> bool:
    """Converge, wait for the first answer, verify, and say where everything is."""
    began = time.monotonic()
    steps = playbook.run(project, err)
    took = time.monotonic() - began
    # Programs read this line: it says whether a second run found anything to do.
    show(f"site.yml: ok={steps.total('ok')} changed={steps.total('changed')} in {took:.1f} s")
    house = project.house()
    _offer_command(project)
    _greet(project, house)
    receipt = prove(project, "home")
    show(view(receipt))
    _farewell(house)
    return receipt.good


def _offer_command(project: Project) -> None:
    """Let people type `hearth`, unless that word is somebody else's already."""
    # Of a checkout that lies elsewhere by now, or did.
    ours = _COMMAND.is_symlink() and _COMMAND.readlink().parts[-2:] == _SCRIPT
    if ours or not os.path.lexists(_COMMAND):
        _COMMAND.unlink(missing_ok=True)
        _COMMAND.symlink_to(project.root.joinpath(*_SCRIPT))


def _greet(project: Project, house: House) -> None:
    """Wait for the first answer and show it."""
    sites = [s.fqdn for o in house.services.values() if "models" in o.offers for s in o.publish]
    if not sites:
        return
    edge = front_door(house)
    answer = first_answer.wait(house, edge, sites[0], project.vault.get(VERIFIER), err)
    if answer is not None:
        show(f"{answer.model} answered after {answer.seconds:.1f} s: “{answer.text[:60]}”")


def _farewell(house: House) -> None:
    for site in house.sites:
        show(f"open    https://{site.fqdn}")
    show(f"names   point a device's DNS at {front_door(house).address}")
    for way in trust.ways(house):
        show(f"trust   {way}")
    show(f"root    {ROOT_CERTIFICATE} {trust.fingerprint()}")
    show("key     hearth secret show consumer_household")
    show("pages   hearth secret show house_password")
    for service in house.services.values():
        for secret in service.secrets:
            # With it somebody signs in for the first time where a service has accounts of its own.
            if secret.endswith("_admin_password"):
                show(f"admin   hearth secret show {secret}")
    if sys.stdout.isatty() and (address := next(iter(trust.ways(house)), "")):
        # The first thing that the next device needs, and it has a camera.
        show(f"photograph this with a phone, for {address}")
        sys.stdout.write(trust.code(address))
