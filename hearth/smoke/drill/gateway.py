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
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from hearth.catalogue.house import Service
from hearth.machine import engine, systemd
from hearth.render.units import HARDENING, directives
from hearth.smoke.drill import agent
from hearth.smoke.drill.agent import CONTROL, Member
from hearth.smoke.drill.cases import Order, Target

AGENT, GATEWAY = "hearth-drill", "hearth-drill-gateway"
# An interrupted drill is left alone; without orders it ends after this long.
IDLE_S = 30
# A loopback address of its own: nothing else listens there, and no port on it is ephemeral.
HOST, PORT = "127.0.0.2", 4000
FILES = ("config.yaml", "aliases.json", "consumers.json")
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
class Plan:
    """The files of the drill's gateway, the servers in place of its members, and the targets."""

    files: Mapping[str, str]
    members: tuple[Member, ...]
    targets: tuple[Target, ...]

    def as_json(self) -> dict[str, Any]:
        """Return what the agent gets at its start."""
        fields = ("name", "host", "port", "real", "kind")
        members = [{field: getattr(one, field) for field in fields} for one in self.members]
        plan = {"files": dict(self.files), "members": members}
        return plan | {"gateway": [HOST, PORT], "idle_s": IDLE_S}


def rendered(gateway: Service) -> dict[str, str]:
    """Return the files that the live gateway reads."""
    return {name: engine.read_file(gateway.instance, f"{_etc(gateway)}/{name}") for name in FILES}


def _etc(gateway: Service) -> str:
    return f"/etc/{gateway.role.replace('_', '-')}"


def make_plan(rendered: Mapping[str, str], usable: Set[str], first_token_timeout_s: float) -> Plan:
    """Return the plan of a drill.

    Args:
        rendered: The gateway's own files, by name.
        usable: The members that may be used where they are; the agent plays the others.
        first_token_timeout_s: How long a member may take to its first token; shorter ones stay.
    """
    config = yaml.safe_load(rendered["config.yaml"])
    names = json.loads(rendered["aliases.json"])
    routes = {route["model_name"]: route for route in config["model_list"]}
    within = [m for record in names.values() if record.get("alias") for m in record["members"]]
    members = {
        name: _member(name, _FIRST_PORT + number, routes.get(name), name in usable)
        for number, name in enumerate(dict.fromkeys(within))
    }
    for member in members.values():
        if route := routes.get(member.name):
            _redirect(route, member)
    for record in names.values():
        _shorten(record, first_token_timeout_s)
        for name, server in record.get("servers", {}).items():
            server |= {"url": f"http://{HOST}:{members[name].port}", "key": None}
    files = {"config.yaml": yaml.safe_dump(config), "aliases.json": json.dumps(names)}
    targets = tuple(
        _target(name, record, members) for name, record in names.items() if record.get("alias")
    )
    return Plan({**rendered, **files}, tuple(members.values()), targets)


def _member(name: str, port: int, route: Mapping[str, Any] | None, usable: bool) -> Member:
    """A member with a route is used through LiteLLM; one without transcribes speech."""
    if route is None:
        return Member(name, HOST, port, None, "transcribe")
    base = str(route["litellm_params"].get("api_base") or "")
    kind = "embed" if route["model_info"]["mode"] == "embedding" else "chat"
    real = base if usable and base.startswith("http://") else None
    return Member(name, HOST, port, real, kind)


def _redirect(route: dict[str, Any], member: Member) -> None:
    """Send LiteLLM's requests to the agent: no cloud gets one, and no key leaves the house."""
    params = route["litellm_params"]
    path = urlsplit(str(params.get("api_base") or "")).path or "/v1"
    params["model"] = f"openai/{params['model'].partition('/')[2]}"
    params |= {"api_base": f"http://{HOST}:{member.port}{path}", "api_key": "none"}


def _shorten(record: dict[str, Any], first_token_timeout_s: float) -> None:
    record["first_token_timeout_s"] = min(record["first_token_timeout_s"], first_token_timeout_s)
    most_s = len(record["members"]) * record["first_token_timeout_s"] + _SPARE_S
    record["timeout_s"] = min(record["timeout_s"], most_s)


def _target(name: str, record: Mapping[str, Any], members: Mapping[str, Member]) -> Target:
    own = tuple(record["members"])
    real = tuple(member for member in own if members[member].real)
    kind = members[own[0]].kind
    return Target(name, kind, own, record["first_token_timeout_s"], record["timeout_s"], real)


@contextmanager
def beside(gateway: Service, plan: Plan, key: str) -> Iterator[Order]:
    """Run a second gateway beside the live one, and return the function that orders the agent.

    Raises:
        DrillError: another drill is running, or the second gateway does not start.
    """
    instance = gateway.instance
    if systemd.unit_state(instance, f"{AGENT}.service").active in ("active", "activating"):
        text = f"a drill is running in {instance} already: wait for it; one that was left ends"
        raise DrillError(f"{text} within {IDLE_S} s")

    def order(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return _order(instance, steps, key)

    # Before `try`: of two drills that start together, the second has started nothing to stop.
    _start(instance, agent_argv(plan))
    try:
        # The agent writes the gateway's files before it takes orders.
        _wait(instance, AGENT, lambda: order([]) == [])
        unit = engine.read_file(instance, f"/etc/systemd/system/{gateway.unit}")
        _start(instance, gateway_argv(unit, _etc(gateway)))
        _wait(instance, GATEWAY, lambda: _ready(order, gateway))
        yield order
    finally:
        # The gateway is bound to the agent, and nothing of either remains.
        engine.execute(instance, ["/usr/bin/systemctl", "stop", AGENT], timeout=30)


def agent_argv(plan: Plan) -> list[str]:
    """Return the command that starts the agent, with a user and a folder that end with it."""
    program = Path(agent.__file__).read_text(encoding="utf-8")
    given = json.dumps({"program": program, "plan": plan.as_json()}).encode()
    settings = {**HARDENING, "DynamicUser": "yes", "RuntimeDirectory": AGENT, "MemoryMax": "256M"}
    settings |= {"StandardInput": "data"}
    settings |= {"StandardInputData": base64.b64encode(zlib.compress(given, 9)).decode()}
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


def _ready(order: Order, gateway: Service) -> bool:
    request = {"method": "GET", "path": gateway.health.path, "type": "", "body": "", "within_s": 5}
    (step,) = order([{"faults": {}, "requests": [request]}])
    return bool(step["answers"][0]["status"] == 200)


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


def _order(instance: str, steps: list[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    """Order steps; the key goes through standard input, so that no list of processes shows it."""
    line = json.dumps({"steps": steps, "key": key}) + "\n"
    done = engine.execute(instance, [*_PYTHON, _ORDER], timeout=_STEP_S, stdin=line)
    if done.returncode or not done.stdout:
        reason = (done.stderr.strip().splitlines() or ["it returned nothing"])[-1]
        raise DrillError(f"{instance}: the drill's agent: {reason}")
    return list(json.loads(done.stdout)["steps"])
