"""What heals a finding safely: each fix has a line that says beforehand what it will do."""

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hearth.catalogue.house import House, Part, Service
from hearth.clients import ClientError, health, loaded
from hearth.doctor import kinds
from hearth.doctor.finding import Finding, Kind
from hearth.machine import engine, images, runs
from hearth.paths import FIREWALL_UNIT, FIREWALL_WATCH_UNIT, WATCH_UNIT
from hearth.project import current

_RESTART_S, _CONVERGE_S = 120, 900
_LOOK_AGAIN_S = 0.5
_INCUS_UNIT = "incus.service"


class FixError(Exception):
    """One line for a person: which fix did not work, and why."""


@dataclass(frozen=True, slots=True)
class Fix:
    """How a kind of finding is healed: what it would do, as a line, and doing it."""

    plan: Callable[[Finding, House], str]
    do: Callable[[Finding, House], str]


def plan(finding: Finding, house: House) -> str:
    """Return what `fix` would do, in one line; FixError for a finding that it cannot heal."""
    return _fix_of(finding).plan(finding, house)


def fix(finding: Finding, house: House) -> str:
    """Heal a finding and return what was done, in one line.

    Raises:
        FixError: it cannot be healed, or the fix failed.
    """
    try:
        return _fix_of(finding).do(finding, house)
    except (engine.EngineError, ClientError, OSError, subprocess.SubprocessError) as error:
        raise FixError(f"{finding.key}: {error}") from error


def _fix_of(finding: Finding) -> Fix:
    if (found := FIXES.get(finding.kind)) is None:
        raise FixError(f"{finding.kind.name} has no safe fix: {finding.kind.todo}")
    return found


def _owner(finding: Finding, house: House) -> Service | Part:
    owners: Mapping[str, Service | Part] = {**house.services, **house.parts}
    if finding.about not in owners:
        raise FixError(f"this house has no service or part {finding.about!r}")
    return owners[finding.about]


def _instance(owner: Service | Part) -> str | None:
    if isinstance(owner, Part):
        return None
    if not owner.address:
        raise FixError(f"{owner.name} runs on another server: restart it there")
    return owner.system


def _systemctl(instance: str | None, *words: str, within_s: float = _RESTART_S) -> None:
    argv = ["/usr/bin/systemctl", *words]
    done = engine.execute(instance, argv, timeout=within_s)
    if done.returncode:
        raise engine.failure(instance, " ".join(argv[1:]), done)


def _restart(instance: str | None, unit: str, within_s: float = _RESTART_S) -> None:
    # A unit that has reached its start limit would not start.
    _systemctl(instance, "reset-failed", unit)
    _systemctl(instance, "restart", unit, within_s=within_s)


def _plan_restart(finding: Finding, house: House) -> str:
    owner = _owner(finding, house)
    return f"restart {owner.unit}{_at(_instance(owner))}; requests in progress are cut off"


def _at(instance: str | None) -> str:
    return f" in the instance {instance}" if instance else " on this machine"


def _restart_program(finding: Finding, house: House) -> str:
    owner = _owner(finding, house)
    instance = _instance(owner)
    if instance and not engine.is_running(instance):
        argv = ["/usr/bin/incus", "start", instance]
        done = engine.execute(None, argv, timeout=_RESTART_S)
        if done.returncode:
            raise engine.failure(None, f"incus start {instance}", done)
        _wait_healthy(owner)
        return f"started the instance {instance}"
    # The start of one in Podman takes until it is healthy.
    ready_s = owner.health.ready_s if owner.health else 0
    _restart(instance, owner.unit, _RESTART_S + ready_s)
    _wait_healthy(owner)
    return f"restarted {owner.unit}{_at(instance)}"


def _wait_healthy(owner: Service | Part) -> None:
    """Wait until a program answers, which may take it the time to load a model.

    One that never answers is found by the next look.
    """
    if not owner.health_url or not owner.health:
        return
    deadline = time.monotonic() + min(owner.health.ready_s, _RESTART_S)
    while time.monotonic() < deadline:
        if asyncio.run(health.look(owner.health_url, owner.health)).healthy:
            return
        time.sleep(_LOOK_AGAIN_S)


def _unit_fix(unit: str, why: str) -> Fix:
    """Return the fix that restarts one unit of the machine."""

    def do(_finding: Finding, _house: House) -> str:
        _restart(None, unit)
        return f"restarted {unit}"

    return Fix(lambda _finding, _house: f"restart {unit}, {why}", do)


def _restart_incus(_finding: Finding, _house: House) -> str:
    # One that hangs would be waited for; a kill leaves the instances alone, too.
    kill = ["/usr/bin/systemctl", "kill", "--kill-whom=main", "--signal=KILL", _INCUS_UNIT]
    engine.execute(None, kill, timeout=_RESTART_S)
    _restart(None, _INCUS_UNIT)
    return f"restarted {_INCUS_UNIT}"


def _servers(finding: Finding, house: House) -> list[Service]:
    """Return the server of a model, or the service itself that a finding is about."""
    names = {one.service for one in house.models.values() if finding.about in (one.id, one.name)}
    pulling = {one.service for one in house.models.values() if one.pulled}
    names |= {finding.about} & {*house.services}
    # A name that Ollama has made complete, such as `llama3.1:latest`.
    return [house.services[name] for name in names or pulling if name]


def _unload(finding: Finding, house: House) -> str:
    """Unload one model, or all models of a service."""
    if (service := house.services.get(finding.about)) is None:
        return loaded.unload(house, finding.about)
    done = [loaded.unload(house, one.name) for one in loaded.loaded_models(service)]
    return "; ".join(done) or f"{service.name} has no model in memory any more"


def _plan_swap(finding: Finding, house: House) -> str:
    if _unloads(finding.about, house):
        return f"unload the models of {finding.about}; the next request loads its model again"
    return _plan_restart(finding, house)


def _empty_swap(finding: Finding, house: House) -> str:
    return (_unload if _unloads(finding.about, house) else _restart_program)(finding, house)


def _unloads(name: str, house: House) -> bool:
    return any(one.name == name for one in house.offering("loaded_models"))


def _plan_downloads(finding: Finding, house: House) -> str:
    names = ", ".join(one.name for one in _servers(finding, house))
    return f"restart the downloads of {names}, which tries again at once"


def _retry_downloads(finding: Finding, house: House) -> str:
    for server in _servers(finding, house):
        # The service itself goes on; what downloads its models is a helper of its unit.
        _restart(_instance(server), f"{server.instance}-models.service")
    return f"restarted the downloads of {finding.about}"


def _remove_image(finding: Finding, _house: House) -> str:
    left = Path(finding.about)
    # Only what a killed build left, whatever the finding names.
    if runs.active() or left not in images.leftovers():
        raise FixError(f"{left}: a run is building it, or it is gone")
    images.discard(left)
    return f"removed {left}"


def _plan_unfinished(finding: Finding, house: House) -> str:
    if not finding.about:
        return "end the processes that the killed run left; `hearth up` repeats what is missing"
    return _plan_converge(finding, house)


def _finish(finding: Finding, house: House) -> str:
    if finding.about:
        return _converge(finding, house)
    machine, ended = runs.scope(runs.LOCK), 0
    for name, processes in runs.at_work(machine).items():
        for pid in processes if not runs.is_alive(name) else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                ended += 1
    return f"ended {ended} processes of a killed run"


def _place(finding: Finding, house: House) -> str:
    """Return the instance that a finding `INSTANCE:PATH` or `INSTANCE:PROGRAM` is about."""
    start = finding.about.partition(":")[0]
    by_name = {one.instance: one.instance for one in house.services.values()}
    by_name |= {one.name: one.instance for one in house.services.values()}
    return by_name.get(start, "")


def _plan_converge(finding: Finding, house: House) -> str:
    where = _place(finding, house) or "this machine"
    return (
        f"run the part of `hearth up` for {where}: files are written again as the inventory "
        "describes them, edits by hand are lost, and changed programs restart"
    )


def _converge(finding: Finding, house: House) -> str:
    project, place = current(), _place(finding, house)
    hosts = ",".join(["localhost", house.machine.name, *([place] if place else [])])
    log = project.logs / "doctor-fix.log"
    argv = [str(project.root / ".venv/bin/ansible-playbook"), "site.yml", "--limit", hosts]
    with log.open("wb") as output:
        done = subprocess.run(  # noqa: S603 - our own words and names of the house
            argv,
            cwd=project.root,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=_CONVERGE_S,
            check=False,
            env={**os.environ, "ANSIBLE_NOCOLOR": "1"},
        )
    if done.returncode:
        raise FixError(f"the run for {place or 'this machine'} failed: read {log}")
    return f"converged {place or 'this machine'}"


_PROGRAM = Fix(_plan_restart, _restart_program)
FIXES: Mapping[Kind, Fix] = {
    kinds.SERVICE_DOWN: _PROGRAM,
    kinds.SERVICE_HUNG: _PROGRAM,
    kinds.SERVICE_UNHEALTHY: _PROGRAM,
    kinds.INCUS_DOWN: Fix(
        lambda _finding, _house: f"restart {_INCUS_UNIT}, which leaves running instances alone",
        _restart_incus,
    ),
    kinds.FIREWALL_GONE: _unit_fix(FIREWALL_UNIT, "which loads the house's rules"),
    kinds.DOCKER_BLOCKS: _unit_fix(FIREWALL_WATCH_UNIT, "which opens Docker's rules for the house"),
    kinds.WATCHER_SILENT: _unit_fix(WATCH_UNIT, "which looks at the house every few seconds"),
    kinds.MODEL_ON_CPU: Fix(
        lambda finding, _house: f"unload {finding.about}; its next request loads it again", _unload
    ),
    kinds.SWAP: Fix(_plan_swap, _empty_swap),
    kinds.MODEL_FAILED: Fix(_plan_downloads, _retry_downloads),
    kinds.MODELS_UNKNOWN: Fix(_plan_downloads, _retry_downloads),
    kinds.IMAGE_UNFINISHED: Fix(lambda finding, _house: f"remove {finding.about}", _remove_image),
    kinds.FILE_EDITED: Fix(_plan_converge, _converge),
    kinds.RUN_UNFINISHED: Fix(_plan_unfinished, _finish),
}
