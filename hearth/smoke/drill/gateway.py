"""A second gateway beside the live one for a drill, as two units that end by themselves."""

from __future__ import annotations

import base64
import contextlib
import json
import shlex
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from hearth.catalogue.house import Alias, House, Service
from hearth.machine import engine, systemd
from hearth.render.gateway import gateway_files, litellm_config
from hearth.render.units import HARDENING, directives
from hearth.smoke.drill import agent
from hearth.smoke.drill.agent import CONTROL, Member
from hearth.smoke.drill.cases import Order

AGENT, GATEWAY = "hearth-drill", "hearth-drill-gateway"
# An interrupted drill is left alone; without orders it ends after this long.
IDLE_S = 30
# A loopback address of its own: nothing else listens there, and no port on it is ephemeral.
HOST, PORT = "127.0.0.2", 4000
_FIRST_PORT = 4101
_FOLDER = f"/run/{AGENT}"
_LONGEST_S = 900
_READY_S = 240.0
_STEP_S = 120.0
# What a drill allows a request in addition to its members' own time.
_SPARE_S = 2.0
_PYTHON = ["/usr/bin/python3", "-I", "-c"]
_BOOT = (
    "import asyncio,json,sys,zlib;"
    "given=json.loads(zlib.decompress(sys.stdin.buffer.read()));"
    "exec(given['program']);"
    "asyncio.run(run(given['plan']))"
)
_ORDER = (
    "import socket,sys;"
    "control=socket.socket(socket.AF_UNIX);"
    f"control.connect('{_FOLDER}/{CONTROL}');"
    "control.sendall(sys.stdin.buffer.read());"
    "sys.stdout.buffer.writelines(iter(lambda:control.recv(65536),b''))"
)
# The drill has its own values for these; its units are not restarted.
_OWN = ("Exec", "Type", "Restart", "Watchdog", "MemoryMax")


class DrillError(Exception):
    """One line for a person: why there is no drill."""


@dataclass(frozen=True, slots=True)
class GatewayPlan:
    """The files of the drill's gateway, the servers in place of its members, and its aliases."""

    files: Mapping[str, str]
    members: tuple[Member, ...]
    aliases: Mapping[str, Alias]

    def as_json(self) -> dict[str, Any]:
        """Return what the agent gets at its start."""
        members = [[one.name, one.host, one.port, one.real, one.kind] for one in self.members]
        plan = {"files": dict(self.files), "members": members}
        return plan | {"gateway": [HOST, PORT], "idle_s": IDLE_S}


def make_plan(house: House, usable: Set[str], first_token_timeout_s: float) -> GatewayPlan:
    """Return the plan of a drill.

    Args:
        house: The house, whose gateway the drill's is like.
        usable: The members that may be used where they are; the agent plays the others.
        first_token_timeout_s: How long a member may take to its first token; shorter ones stay.
    """
    aliases = {
        alias.name: _shortened(alias, first_token_timeout_s)
        for alias in house.aliases.values()
        if alias.offered
    }
    models, members = dict(house.models), list[Member]()
    names = dict.fromkeys(name for alias in aliases.values() for name in alias.members)
    for port, name in enumerate(names, _FIRST_PORT):
        model = models[name]
        real = model.url if name in usable and str(model.url).startswith("http://") else None
        members.append(Member(name, HOST, port, real, model.kind))
        # The agent gets every request: no cloud gets one, and no key leaves the house.
        models[name] = replace(model, url=f"http://{HOST}:{port}", local=True, secret=None)
    drilled = replace(house, models=models, aliases=aliases)
    files = {"config.yaml": yaml.safe_dump(litellm_config(drilled))}
    files |= {name: json.dumps(content) for name, content in gateway_files(drilled).items()}
    return GatewayPlan(files, tuple(members), aliases)


def _shortened(alias: Alias, first_token_timeout_s: float) -> Alias:
    first_s = min(alias.first_token_timeout_s, first_token_timeout_s)
    whole_s = min(alias.timeout_s, len(alias.members) * first_s + _SPARE_S)
    return replace(alias, first_token_timeout_s=first_s, timeout_s=whole_s)


@contextmanager
def beside(gateway: Service, plan: GatewayPlan, key: str) -> Iterator[Order]:
    """Run a second gateway beside the live one, and return the function that orders the agent.

    Raises:
        DrillError: another drill is running, or the second gateway does not start.
    """
    if gateway.system is None:
        raise DrillError(f"{gateway.name} runs in Podman, and the drill needs an instance")
    instance = gateway.instance

    def order(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
        # The key goes through standard input, so that no list of processes shows it.
        line = json.dumps({"steps": steps, "key": key}) + "\n"
        done = engine.execute(instance, [*_PYTHON, _ORDER], timeout=_STEP_S, stdin=line)
        if done.returncode or not done.stdout:
            reason = (done.stderr.strip().splitlines() or ["it returned nothing"])[-1]
            raise DrillError(f"{instance}: the drill's agent: {reason}")
        return list(json.loads(done.stdout)["steps"])

    def ready() -> bool:
        path = gateway.health.path
        request = {"method": "GET", "path": path, "type": "", "body": "", "within_s": 5}
        (step,) = order([{"faults": {}, "requests": [request]}])
        return bool(step["answers"][0]["status"] == 200)

    if systemd.unit_state(instance, f"{AGENT}.service").active in ("active", "activating"):
        text = f"a drill is running in {instance} already: wait for it; one that was left ends"
        raise DrillError(f"{text} within {IDLE_S} s")
    # Before `try`: of two drills that start together, the second has started nothing to stop.
    _start(instance, agent_argv(plan))
    try:
        # The agent writes the gateway's files before it takes orders.
        _wait(instance, AGENT, lambda: order([]) == [])
        unit = engine.read_file(instance, f"/etc/systemd/system/{gateway.unit}")
        _start(instance, gateway_argv(unit, f"/etc/{gateway.role.replace('_', '-')}"))
        _wait(instance, GATEWAY, ready)
        yield order
    finally:
        # The gateway is bound to the agent, and nothing of either remains.
        engine.execute(instance, ["/usr/bin/systemctl", "stop", AGENT], timeout=30)


def agent_argv(plan: GatewayPlan) -> list[str]:
    """Return the command that starts the agent, with a user and a folder that end with it."""
    program = Path(agent.__file__).read_text(encoding="utf-8")
    given = json.dumps({"program": program, "plan": plan.as_json()}).encode()
    settings = {
        **HARDENING,
        "DynamicUser": "yes",
        "RuntimeDirectory": AGENT,
        "MemoryMax": "256M",
        "StandardInput": "data",
        "StandardInputData": base64.b64encode(zlib.compress(given, 9)).decode(),
    }
    lines = [f"{name}={value}" for name, value in directives(settings)]
    return [*_transient(AGENT, lines), *_PYTHON, _BOOT]


def gateway_argv(unit: str, etc: str) -> list[str]:
    """Return the command that starts the gateway of a unit's text once more, for the drill only.

    Program, user, credentials and hardening are the unit's; files, address and end are the drill's.
    """
    section = unit.partition("[Service]")[2].partition("\n[")[0]
    lines = [line for line in section.splitlines() if "=" in line and not line.startswith("#")]
    command = next(line.partition("=")[2] for line in lines if line.startswith("ExecStart="))
    words = shlex.split(command)
    for option, value in (("--host", HOST), ("--port", str(PORT))):
        words[words.index(option) + 1] = value
    kept = [line for line in lines if not line.startswith(_OWN)]
    kept += [f"BindReadOnlyPaths={_FOLDER}/etc:{etc}", "MemoryMax=1G", "Nice=5"]
    kept += [f"BindsTo={AGENT}.service", f"After={AGENT}.service"]
    return [*_transient(GATEWAY, kept), *words]


def _transient(name: str, lines: list[str]) -> list[str]:
    argv = ["/usr/bin/systemd-run", "--quiet", "--collect", f"--unit={name}"]
    argv.append("--description=A drill beside the gateway")
    argv += [f"--property={line}" for line in [f"RuntimeMaxSec={_LONGEST_S}", *lines]]
    return [*argv, "--"]


def _start(instance: str, argv: list[str]) -> None:
    done = engine.execute(instance, argv, timeout=30)
    if done.returncode:
        raise DrillError(f"{instance}: the drill does not start: {done.stderr.strip()[-300:]}")


def _wait(instance: str, unit: str, ready: Callable[[], bool]) -> None:
    """Return when a unit of the drill is ready; LiteLLM takes some seconds to start."""
    deadline = time.monotonic() + _READY_S
    while time.monotonic() < deadline:
        with contextlib.suppress(DrillError):
            if ready():
                return
        if systemd.unit_state(instance, f"{unit}.service").active != "active":
            break
        time.sleep(0.5)
    lines = systemd.journal(instance, f"{unit}.service", 3)
    raise DrillError(f"{instance}: the drill does not start: {' | '.join(lines)}")
