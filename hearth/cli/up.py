"""`hearth up`: from a bare machine to a receipt."""

import contextlib
import functools
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from hearth import status
from hearth.catalogue.house import House, Model, Service
from hearth.cli import playbook, preflight
from hearth.cli.compose import AsCompose, build_containers, enter
from hearth.cli.console import Display, err, note, show, waiting
from hearth.cli.lab import run_tool
from hearth.cli.status import model_text
from hearth.cli.verify import run_tests, view
from hearth.clients import ClientError
from hearth.clients.endpoints import Edge, house_edge
from hearth.clients.llm import least_thought, thought_alone
from hearth.clients.models import FAILED, MISSING, READY, TOO_BIG
from hearth.paths import FORM, PROGRAMS, ROOT_CERTIFICATE
from hearth.project import VERIFIER, Project, current

_COMMAND = Path("/usr/local/bin/hearth")
_SCRIPT = ("scripts", "hearth")
# A model on the disk may take this long to load for the first time.
_ANSWER_S = 300
_EARLY_S = 30
_POLL_S = 1


def build_and_verify(
    lab: Annotated[
        bool, typer.Option("--lab", help="Build it in a throw-away lab machine.")
    ] = False,
    lab_name: Annotated[str, typer.Option(help="The lab machine's name.")] = "house",
    preview: Annotated[bool, typer.Option("--check", help="Only show what would change.")] = False,
    as_compose: AsCompose = False,
    engine: Annotated[str, typer.Option(help="With --compose: docker or podman.")] = "",
    card: Annotated[str, typer.Option(help="With --compose: cuda or vulkan.")] = "",
) -> None:
    """Build the house or bring it up to date, then verify it.

    With `--compose` it is a house of containers, for Docker Compose or podman-compose.

    Example: scripts/up
    """
    enter(as_compose)
    if FORM:
        raise typer.Exit(0 if build_containers(current(), engine, card) else 1)
    project = current()
    if lab or preflight.needs_lab():
        if not lab:
            note("systemd is not process 1 here, so the house goes into a lab machine")
        run_tool(project, ["up", lab_name, *(["--check"] if preview else [])])
    preflight.check()
    if preview:
        _preview(project)
        return
    raise typer.Exit(0 if build(project) else 1)


def _preview(project: Project) -> None:
    """Show what a run would change, and how many tasks cannot be previewed."""
    steps = playbook.run(project, err, ("--check", "--diff"))
    for service in project.house().services.values():
        if service.instance in steps.planned:
            tasks = sum(
                path.read_text(encoding="utf-8").count("\n- name:")
                for path in (project.root / "roles" / service.role / "tasks").glob("*.yml")
                if path.name != "main.yml"
            )
            show(f"{service.instance} does not exist yet: {tasks} tasks in it cannot be previewed")
    show(f"{steps.total('changed')} tasks would change something; differences: {steps.log}")


def build(project: Project) -> bool:
    """Converge, wait for the first answer, verify, and print where everything is."""
    started, moved = time.monotonic(), status.moved(project.house())
    answered = threading.Event()
    # In a house that is there, an answer says nothing about this run.
    early = early_answer(project, started, answered) if not PROGRAMS.is_dir() else None
    steps = playbook.run(project, err, beside=early)
    took = time.monotonic() - started
    # Programs read this line to see whether a second run changed anything.
    show(f"site.yml: ok={steps.total('ok')} changed={steps.total('changed')} in {took:.1f} s")
    house = project.house()
    _link_command(project)
    edge = house_edge(house)
    if not answered.is_set() and (answer := first_answer(house, edge, project.vault.get(VERIFIER))):
        show(_answered(*answer, started))
    receipt = run_tests(project, "home")
    show(view(receipt))
    _show_addresses(house, edge)
    for line in moved:
        note(line)
    return receipt.good


def early_answer(
    project: Project, started: float, answered: threading.Event
) -> Callable[[Display], None]:
    """Return a function that shows the first answer of a new house as soon as there is one.

    It is called again and again while slower services are still being built, and sets `answered`.
    """
    read = functools.cache(project.house)

    def look(shown: Display) -> None:
        # The secrets are older than the certificate, and the house that they complete stays.
        if answered.is_set() or not ROOT_CERTIFICATE.exists():
            return
        # Anything may be missing yet, and the run itself reports what fails.
        with contextlib.suppress(Exception):
            house = read()
            if (chosen := _smallest_model(house)) is None:
                return
            gateway, model = chosen
            if status.models(house).models[model.name].state == READY:
                key = project.vault.get(VERIFIER)
                text = _ask(house_edge(house), gateway, key, model, _EARLY_S)
                answered.set()
                shown.print(_answered(model.name, text, started), markup=False)

    return look


def _answered(model: str, text: str, started: float) -> str:
    return f"{model} answered after {time.monotonic() - started:.1f} s: “{text[:60]}”"


def _link_command(project: Project) -> None:
    """Install the command `hearth`, unless another program has that name."""
    # The link may lead to a checkout that has moved.
    ours = _COMMAND.is_symlink() and _COMMAND.readlink().parts[-2:] == _SCRIPT
    if ours or not os.path.lexists(_COMMAND):
        _COMMAND.unlink(missing_ok=True)
        _COMMAND.symlink_to(project.root.joinpath(*_SCRIPT))


def _show_addresses(house: House, edge: Edge) -> None:
    for site in house.sites:
        show(f"open    https://{site.fqdn}")
    show(f"names   point a device's DNS at {edge.address}")
    trust = status.trust_addresses(house)
    for address in trust:
        show(f"trust   {address}")
    show(f"root    {ROOT_CERTIFICATE} {status.root_fingerprint()}")
    show("key     hearth secret show consumer_household")
    show("pages   hearth secret show house_password")
    for service in house.services.values():
        # For the first sign-in to a service that has accounts of its own.
        if service.admin_secret:
            show(f"admin   hearth secret show {service.admin_secret}")
    if sys.stdout.isatty() and trust:
        # The next device needs this first, and it has a camera.
        show(f"scan this with a phone to open {trust[0]}")
        sys.stdout.write(status.qr_code(trust[0]))


def first_answer(house: House, edge: Edge, key: str) -> tuple[str, str] | None:
    """Return the smallest local model of the default alias, once it answers, and its answer.

    Returns None if there is no such model, or no device on the LAN can call it.

    Raises:
        ClientError: the download cannot succeed, or nothing answers.
    """
    if (chosen := _smallest_model(house)) is None:
        return None
    gateway, smallest = chosen
    _wait_for_model(house, smallest)
    return smallest.name, _answer(edge, gateway, key, smallest)


def _smallest_model(house: House) -> tuple[Service, Model] | None:
    """Return the gateway, and the smallest local model of the default alias, if there is one."""
    gateway = next((one for one in house.offering("models") if one.sites), None)
    members = house.default_alias.members if house.default_alias else ()
    local = [house.models[name] for name in members if house.models[name].local]
    if gateway is None or not local:
        return None
    return gateway, min(local, key=lambda model: model.download_bytes or 0)


def _wait_for_model(house: House, model: Model) -> None:
    """Show the download until the model is on the disk."""
    with waiting(f"Download {model.name}") as detail:
        while (state := status.models(house).models[model.name]).state != READY:
            if state.state in (TOO_BIG, MISSING):
                raise ClientError(f"{state.name}: {state.reason}: see `hearth models`")
            again = f" (will be retried: {state.reason})" if state.state == FAILED else ""
            detail(f"{model_text(state)}{again}")
            time.sleep(_POLL_S)


def _answer(edge: Edge, gateway: Service, key: str, model: Model) -> str:
    """Send one short prompt over HTTPS, as a device on the LAN does, until it is answered."""
    error, deadline = "", time.monotonic() + _ANSWER_S
    with waiting(f"Load {model.name} and wait for its first answer") as detail:
        while (left := deadline - time.monotonic()) > 0:
            try:
                return _ask(edge, gateway, key, model, left)
            except ClientError as failure:
                error = str(failure)
            detail(error)
            time.sleep(_POLL_S)
    raise ClientError(f"{model.name} does not answer: {error}: see `hearth logs {gateway.name}`")


def _ask(edge: Edge, gateway: Service, key: str, model: Model, within_s: float) -> str:
    """Return the answer to one short prompt, or raise ClientError."""
    messages = [{"role": "user", "content": "Say hello."}]
    send = {"model": model.name, "messages": messages, "max_tokens": 16, **least_thought(model)}
    fqdn, path = gateway.sites[0].fqdn, "/v1/chat/completions"
    answer = edge.request(fqdn, path, key=key, send=send, within_s=within_s)
    if answer.status != 200:
        raise ClientError(f"https://{fqdn} returns HTTP {answer.status}: {answer.text[:200]}")
    text = answer.json()["choices"][0]["message"].get("content") or ""
    return text.strip() or f"({thought_alone(model.name)})"
