"""The house of containers: `hearth up --compose` and `hearth verify --compose`."""

import os
import sys
import time
from typing import Annotated, NoReturn, get_args

import typer

from hearth.catalogue import derive
from hearth.cli.console import display, note, show, step
from hearth.cli.images import best, build_specs, install
from hearth.machine import compose
from hearth.machine.compose import Accelerator, ComposeHouseError
from hearth.machine.facts import graphics
from hearth.paths import COMPOSE, FORM
from hearth.project import Project
from hearth.render.compose import compose_files
from hearth.render.containers import INIT, contained

AsCompose = Annotated[bool, typer.Option("--compose", help="A house of containers, without Incus.")]
# Long enough for a program that measures the machine at its first start.
_HEALTHY_S = 900
_LOOK_S = 2


def enter(wanted: bool) -> None:
    """Start this command again for the house of containers, which has its own places."""
    if wanted and not FORM:
        words = [word for word in sys.argv[1:] if word != "--compose"]
        os.environ["HEARTH_FORM"] = "compose"
        os.execv(sys.executable, [sys.executable, "-m", "hearth.cli", *words])  # noqa: S606


def build_containers(project: Project, wanted: str, card: str) -> bool:
    """Build the images, start the containers, wait until they are healthy, and verify."""
    # They import each other's types.
    from hearth.cli.verify import run_tests, view

    if card not in get_args(Accelerator):
        raise ComposeHouseError(f"--card {card}: write cuda or vulkan")
    accelerator: Accelerator = card  # type: ignore[assignment]  # checked above
    started = time.monotonic()
    one = compose.engine(wanted)
    compose.check(one, accelerator)
    house = contained(derive(project.catalogue(), project.vault.names(), graphics().has))
    specs = install(project, house, (), card or "none")
    files = compose_files(house, specs)
    compose.refuse_strangers(one, files)
    chosen = best(specs, card or "none")
    build_specs(chosen, [one.name])
    for name in compose.write_files(files):
        note(f"{COMPOSE / name} was edited by hand: written again; your settings belong into .env")
    step(f"Start the containers with {' '.join(one.compose)}")
    # Those that measure this machine have it for themselves the first time.
    for name in sorted({s.container for spec in chosen for s in spec.starts if s.measures}):
        if not one.containers(name):
            compose.up(one, accelerator, compose.profiles(), name)
            _wait(one)
    compose.up(one, accelerator, compose.profiles())
    _wait(one)
    take_over(project, one)
    show(f"up      after {time.monotonic() - started:.1f} s")
    receipt = run_tests(project, "home")
    show(view(receipt))
    for site in project.house().sites:
        show(f"open    https://{site.fqdn}")
    show(f"files   {COMPOSE}")
    return receipt.good


def _wait(one: compose.Engine) -> None:
    """Wait until all containers are healthy, showing which are not."""
    deadline = time.monotonic() + _HEALTHY_S
    with display() as shown:
        shown.running.start("", "Wait until the containers are healthy")
        while bad := compose.unhealthy(one):
            shown.running.detail("", "", ", ".join(sorted(bad)))
            if "Exited" in bad.get(INIT.name, ""):
                # It is not started again.
                _fail(INIT.name, bad[INIT.name])
            if time.monotonic() > deadline:
                _fail(*sorted(bad.items())[0])
            time.sleep(_LOOK_S)


def _fail(name: str, state: str) -> NoReturn:
    lines = compose.logs(name, 3)
    raise ComposeHouseError(f"{name}: {state}: {compose.explained(' '.join(lines[-1:]))}")


def take_over(project: Project, one: compose.Engine | None = None) -> None:
    """Copy the house's secrets and certificates to where commands on this machine find them."""
    one = one or compose.engine()
    COMPOSE.mkdir(parents=True, exist_ok=True)
    project.vault.update(compose.read_secrets(one))
    compose.copy_certificates(one)
