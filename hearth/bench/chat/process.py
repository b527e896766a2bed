"""The chat's own process: how soon it is ready after a start, and what it holds then."""

from __future__ import annotations

import time

from hearth.bench.chat.bench import Service as Seen
from hearth.catalogue.house import Service
from hearth.clients import ClientError
from hearth.clients.chat import ChatServer
from hearth.machine import engine

_ASK_S, _LOOK_S = 30.0, 0.1


def seen(service: Service, door: ChatServer, restart: bool) -> Seen:
    """Return what is seen of the process, started anew first if that is asked for.

    Raises:
        ClientError: it does not come back.
        EngineError: its instance cannot be looked into.
    """
    ready_s = _restart(service, door) if restart else None
    return Seen(_memory(service), ready_s)


def _restart(service: Service, door: ChatServer) -> float:
    argv = ["/usr/bin/systemctl", "restart", "--no-block", service.unit]
    # The old one may still answer while it ends.
    was, start = _process(service), time.perf_counter()
    done = engine.execute(service.instance, argv, timeout=_ASK_S)
    if done.returncode:
        raise ClientError(f"{service.name} cannot be started anew: {done.stderr.strip()[-200:]}")
    is_new = False
    while time.perf_counter() - start < service.health.ready_s:
        is_new = is_new or _process(service) not in {was, 0}
        if is_new and _well(service, door):
            return time.perf_counter() - start
        time.sleep(_LOOK_S)
    raise ClientError(f"{service.name} was not ready {service.health.ready_s:g} s after its start")


def _well(service: Service, door: ChatServer) -> bool:
    try:
        answer = door.send("GET", service.health.path, within_s=service.health.within_s)
    except ClientError:
        return False
    return answer.is_success and service.health.contains in answer.text


def _process(service: Service) -> int:
    argv = ["/usr/bin/systemctl", "show", service.unit, "--property=MainPID", "--value"]
    said = engine.execute(service.instance, argv, timeout=_ASK_S).stdout.strip()
    return int(said) if said.isdecimal() else 0


def _memory(service: Service) -> int | None:
    status = engine.read_file(service.instance, f"/proc/{_process(service)}/status")
    resident = next((line for line in status.splitlines() if line.startswith("VmRSS:")), "")
    words = resident.split()
    return int(words[1]) * 1024 if len(words) > 1 else None
