"""The verbs that act on one service or model: what they would do, on what, and doing it."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from hearth.approvals import ApprovalError
from hearth.approvals.arguments import OneModel, OneService
from hearth.approvals.proposal import Section
from hearth.catalogue import suggest
from hearth.catalogue.house import House, Part, Service
from hearth.catalogue.schema import adapter
from hearth.clients import ClientError, loaded
from hearth.clients.models import key_of
from hearth.doctor import fixes, kinds
from hearth.doctor.finding import Finding
from hearth.machine import engine, systemd

_SYSTEMCTL_S = 120


@dataclass(frozen=True, slots=True)
class Change:
    """What a verb would do: one line, the plan, and what it depends on.

    `texts` are those in which words from outside are searched, in place of the arguments.
    """

    summary: str
    plan: tuple[Section, ...]
    base: Mapping[str, str]
    texts: Mapping[str, str] = field(default_factory=dict)
    known: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Action:
    """One verb: its line for people, what it depends on, and doing it."""

    line: Callable[[House, str], str]
    base: Callable[[House, str], Mapping[str, str]]
    do: Callable[[House, str], str]


def plan(verb: str, arguments: OneService | OneModel, house: House) -> Change:
    """Return what this verb would do now.

    Raises:
        ApprovalError: this house has no such service or model, or there is nothing to do.
    """
    about = about_of(arguments)
    try:
        line, base = ACTIONS[verb].line(house, about), ACTIONS[verb].base(house, about)
    except (fixes.FixError, engine.EngineError, ClientError) as error:
        raise ApprovalError(str(error), outside=True) from error
    sections = (
        Section("What will be done", line),
        Section("Its state now", "\n".join(text for name, text in base.items() if "state" in name)),
    )
    return Change(line, sections, base)


def base(verb: str, arguments: OneService | OneModel, house: House) -> Mapping[str, str]:
    """Return what this verb depends on, as it is now."""
    try:
        return ACTIONS[verb].base(house, about_of(arguments))
    except (ApprovalError, engine.EngineError, ClientError) as error:
        return {"readable": str(error)}


def do(verb: str, arguments: OneService | OneModel, house: House) -> str:
    """Do it, and return what was done in one line."""
    try:
        return ACTIONS[verb].do(house, about_of(arguments))
    except (fixes.FixError, engine.EngineError, ClientError, OSError) as error:
        raise ApprovalError(str(error)) from error


def about_of(arguments: OneService | OneModel) -> str:
    """Return the one thing that these arguments name."""
    return arguments.model if isinstance(arguments, OneModel) else arguments.service


def _owner(house: House, name: str) -> Service | Part:
    owners: Mapping[str, Service | Part] = {**house.services, **house.parts}
    if (found := owners.get(name.replace("-", "_"))) is None:
        raise ApprovalError(f"this house has no service or part {name!r}: {suggest(name, owners)}")
    if isinstance(found, Service) and not found.address:
        raise ApprovalError(f"{found.name} runs on another server: restart it there")
    return found


def _service(house: House, name: str) -> Service:
    found = _owner(house, name)
    if isinstance(found, Part):
        raise ApprovalError(f"{found.name} is a part of the machine: it can only be restarted")
    return found


def _instance(owner: Service | Part) -> str | None:
    return owner.system if isinstance(owner, Service) else None


def _at(service: Service) -> str:
    return f" in the instance {service.system}" if service.system else ""


def _unit_base(house: House, name: str) -> Mapping[str, str]:
    """Return the record of a service, and since when it is active.

    A program that restarts again and again is `not active` all the time.
    """
    owner = _owner(house, name)
    record = adapter(type(owner)).dump_python(owner, mode="json")
    digest = hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
    return {f"record of {owner.name}": digest, f"state of {owner.name}": _state(owner)}


def _state(owner: Service | Part) -> str:
    instance = _instance(owner)
    if instance and not engine.is_running(instance):
        return f"the instance {instance} is not running"
    state = systemd.unit_state(instance, owner.unit)
    if state.up:
        return f"{owner.unit} is active since {datetime.fromtimestamp(state.since)}"
    return f"{owner.unit} is not active"


def _is_up(owner: Service | Part) -> bool:
    return " is active " in _state(owner)


def _finding(house: House, name: str) -> Finding:
    return Finding(kinds.SERVICE_DOWN, _owner(house, name).name, "")


def _start_line(house: House, name: str) -> str:
    service = _service(house, name)
    if _is_up(service):
        raise ApprovalError(f"{service.name} is active already: to restart it, use restart")
    return f"start {service.unit}{_at(service)}"


def _stop_line(house: House, name: str) -> str:
    service = _service(house, name)
    if not _is_up(service):
        raise ApprovalError(f"{service.name} is not active")
    callers = [one.name for one in house.services.values() if service.name in one.needs]
    suffers = f"; {', '.join(callers)} cannot call it any more" if callers else ""
    return (
        f"stop {service.unit}{_at(service)}: requests in progress are cut off, and it stays off "
        f"until it is started, or `hearth up` runs{suffers}"
    )


def _stop(house: House, name: str) -> str:
    service = _service(house, name)
    argv = ["/usr/bin/systemctl", "stop", service.unit]
    done = engine.execute(service.system, argv, timeout=_SYSTEMCTL_S)
    if done.returncode:
        raise engine.failure(service.system, f"stop {service.unit}", done)
    return f"stopped {service.unit}{_at(service)}"


def _unload_line(house: House, model: str) -> str:
    found = _in_memory(house, model)
    return f"unload {found.name} from memory; its next request loads it again"


def _in_memory(house: House, model: str) -> loaded.LoadedModel:
    wanted = {key_of(one.id) for one in house.models.values() if model in (one.name, one.id)}
    wanted |= {key_of(model)}
    for service in house.offering("loaded_models"):
        for one in loaded.loaded_models(service):
            if key_of(one.name) in wanted:
                return one
    raise ApprovalError(f"{model} is not in memory")


def _model_base(house: House, model: str) -> Mapping[str, str]:
    found = _in_memory(house, model)
    size = f"{found.size_bytes / 2**30:.1f} GiB"
    return {f"state of {model}": f"{found.name} is in memory, {size}"}


def _restart(house: House, name: str) -> str:
    # It starts an instance that is not running, and waits until the program answers.
    return fixes.fix(_finding(house, name), house)


ACTIONS: Mapping[str, Action] = {
    "restart": Action(lambda h, name: fixes.plan(_finding(h, name), h), _unit_base, _restart),
    "start": Action(_start_line, _unit_base, _restart),
    "stop": Action(_stop_line, _unit_base, _stop),
    "unload_model": Action(_unload_line, _model_base, loaded.unload),
}
