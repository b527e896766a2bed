"""Where a drill happens: two units beside the live gateway, which end by themselves."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import shlex
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hearth.machine import engine, systemd
from hearth.render.units import HARDENING, directives
from hearth.smoke.drill.cases import Tell
from hearth.smoke.drill.plan import FILES, HOST, PORT, DrillError, Plan

ROOM, GATEWAY = "hearth-drill", "hearth-drill-gateway"
_FOLDER = f"/run/{ROOM}"
# Who breaks off a drill leaves it alone; after so long without a word it is gone.
IDLE_S = 30
# However long somebody goes on with it.
_MOST_S = 900
_READY_S = 240.0
_STEP_S = 120.0
_PYTHON = ["/usr/bin/python3", "-I", "-c"]
_BOOT = (
    "import base64,json,os,pathlib,sys,zlib;"
    "told=json.loads(zlib.decompress(sys.stdin.buffer.read()));"
    "folder=pathlib.Path(os.environ['RUNTIME_DIRECTORY']);"
    "(folder/'drill.zip').write_bytes(base64.b64decode(told['program']));"
    "sys.path.insert(0,str(folder/'drill.zip'));"
    "from hearth.smoke.drill.room import main;"
    "main(told['plan'],folder)"
)
_TELL = (
    "import socket,sys;"
    "line=socket.socket(socket.AF_UNIX);"
    f"line.connect('{_FOLDER}/control');"
    "line.sendall(sys.stdin.buffer.read());"
    "sys.stdout.buffer.writelines(iter(lambda:line.recv(65536),b''))"
)
# What ends with the drill is not started again, and what it runs is said anew.
_OWN = ("Exec", "Type", "Restart", "Watchdog", "MemoryMax")


def rendered(instance: str) -> dict[str, str]:
    """Return the gateway's own files as they are in use."""
    return {name: engine.read_file(instance, f"/etc/litellm/{name}") for name in FILES}


@contextmanager
def beside(instance: str, unit: str, plan: Plan, key: str) -> Iterator[Tell]:
    """Run a second gateway beside the one in `unit`, and return who can be told what to do.

    Raises:
        DrillError: another drill is running, or the second gateway does not start.
    """
    if systemd.unit_state(instance, f"{ROOM}.service").active in ("active", "activating"):
        text = f"a drill is running in {instance} already: wait for it; one that was left ends"
        raise DrillError(f"{text} within {IDLE_S} s")

    def tell(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return _tell(instance, steps, key)

    # Not inside: of two drills that begin together the second one has started nothing.
    _start(instance, room_argv(plan))
    try:
        # The gateway's files lie in the room, and are there when it can be told anything.
        _until(instance, ROOM, lambda: tell([]) == [])
        _start(instance, gateway_argv(engine.read_file(instance, f"/etc/systemd/system/{unit}")))
        _until(instance, GATEWAY, lambda: _ready(tell))
        yield tell
    finally:
        # The second one is bound to the first, and nothing of either is left.
        engine.execute(instance, ["/usr/bin/systemctl", "stop", ROOM], timeout=30)


def room_argv(plan: Plan) -> list[str]:
    """Return the command that opens the drill's room: a user and a folder that end with it."""
    told = {"program": base64.b64encode(_program()).decode(), "plan": plan.as_json(IDLE_S)}
    words = base64.b64encode(zlib.compress(json.dumps(told).encode(), 9)).decode()
    settings = {**HARDENING, "DynamicUser": "yes", "RuntimeDirectory": ROOM, "MemoryMax": "256M"}
    settings |= {"StandardInput": "data", "StandardInputData": words}
    lines = [f"{name}={value}" for name, value in directives(settings)]
    return [*_transient(ROOM, lines), *_PYTHON, _BOOT]


def gateway_argv(unit: str) -> list[str]:
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
    kept += [f"BindReadOnlyPaths={_FOLDER}/etc:/etc/litellm", "MemoryMax=1G", "Nice=5"]
    bound = [f"BindsTo={ROOM}.service", f"After={ROOM}.service"]
    return [*_transient(GATEWAY, [*kept, *bound]), *words]


def _transient(name: str, lines: list[str]) -> list[str]:
    argv = ["/usr/bin/systemd-run", "--quiet", "--collect", f"--unit={name}"]
    argv.append("--description=A drill beside the gateway")
    argv += [f"--property={line}" for line in [f"RuntimeMaxSec={_MOST_S}", *lines]]
    return [*argv, "--"]


def _program() -> bytes:
    """Return what the room runs, as one archive: the packages' own files above it, and its two."""
    here = Path(__file__).parent
    root = here.parents[2]
    packages = [folder / "__init__.py" for folder in (here, here.parent, here.parents[1])]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in (*packages, here / "faults.py", here / "room.py"):
            archive.write(path, path.relative_to(root))
    return packed.getvalue()


def _start(instance: str, argv: list[str]) -> None:
    done = engine.execute(instance, argv, timeout=30)
    if done.returncode:
        raise DrillError(f"{instance}: the drill does not start: {done.stderr.strip()[-300:]}")


def _ready(tell: Tell) -> bool:
    ask = {"method": "GET", "path": "/health/readiness", "type": "", "body": "", "within_s": 5}
    (step,) = tell([{"faults": {}, "asks": [ask]}])
    return bool(step["answers"][0]["status"] == 200)


def _until(instance: str, unit: str, ready: Callable[[], bool]) -> None:
    """Return when a unit of the drill is ready; LiteLLM takes some seconds to start."""
    deadline = time.monotonic() + _READY_S
    while time.monotonic() < deadline:
        with contextlib.suppress(DrillError):
            if ready():
                return
        if systemd.unit_state(instance, f"{unit}.service").active != "active":
            break
        time.sleep(0.5)
    said = systemd.journal(instance, f"{unit}.service", 3)
    raise DrillError(f"{instance}: the drill does not start: {' | '.join(said)}")


def _tell(instance: str, steps: list[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    """Tell the room; the key goes by standard input, so that it stands in no list of processes."""
    line = json.dumps({"steps": steps, "key": key}) + "\n"
    done = engine.execute(instance, [*_PYTHON, _TELL], timeout=_STEP_S, stdin=line)
    if done.returncode or not done.stdout:
        why = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise DrillError(f"{instance}: the drill's room: {why}")
    return list(json.loads(done.stdout)["steps"])
