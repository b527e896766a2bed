"""The mock upstreams of a lab: prepared once, serving at the outer end of the machine's link."""

import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from hearth.project import Project
from tests import lab_machine as lab
from tests.lab_machine import links, process
from tests.lab_machine.command import LabError
from tests.lab_machine.inputs import MOCK_UPSTREAMS, digest_of
from tests.lab_machine.steps import step

_CONTROL_PORTS = 24400
_NAMES_S = 60
_PREPARE_S = 1800
_ANSWER_S = 30


def serve(project: Project, machine: lab.Machine) -> None:
    """Run the mock upstreams for a machine, which trusts them and reaches them by the real names.

    Raises:
        LabError: they cannot be built or do not answer; the text names the log.
    """
    with step("Prepare what the mock upstreams serve"):
        _call(project, _PREPARE_S, "prepare")
    names = _call(project, _NAMES_S, "names").split()
    with step(f"Start the mock upstreams at {machine.outer_address}"):
        lab.set_names(machine.name, dict.fromkeys(names, machine.outer_address))
        authority = _authority(project)
        lab.trust(machine.name, "hearth-mock-upstreams", authority.read_text())
        _spawn(machine, names, authority)


def stop(machine: lab.Machine) -> None:
    """Stop the mock upstreams of a machine, and with them all faults."""
    process.end(_record(machine))


def control(machine: lab.Machine) -> str:
    """Return the loopback URL for injecting faults into a machine's mock upstreams."""
    return f"http://127.0.0.1:{_CONTROL_PORTS + machine.net}"


def _record(machine: lab.Machine) -> Path:
    # Processes recorded here are ended with the machine.
    return machine.folder / "run" / "mock_upstreams"


def _authority(project: Project) -> Path:
    code = (
        "from tests.mock_upstreams.__main__ import DEFAULT_CACHE; "
        "from tests.mock_upstreams.certificates import authority_path; "
        "print(authority_path(DEFAULT_CACHE))"
    )
    return Path(_python(project, _NAMES_S, "-c", code).strip())


def _call(project: Project, seconds: float, verb: str) -> str:
    return _python(project, seconds, "-m", "tests.mock_upstreams", verb)


def _python(project: Project, seconds: float, *words: str) -> str:
    try:
        done = subprocess.run(
            [sys.executable, *words],
            cwd=project.root,
            capture_output=True,
            text=True,
            check=True,
            timeout=seconds,
        )
    except subprocess.CalledProcessError as error:
        lines = (error.stderr or error.stdout).strip().splitlines() or ["no output"]
        raise LabError(f"the mock upstreams: {lines[-1]}") from error
    except subprocess.TimeoutExpired as error:
        raise LabError(f"the mock upstreams were not ready after {seconds:g} s") from error
    return done.stdout


def _spawn(machine: lab.Machine, names: Sequence[str], authority: Path) -> None:
    record, log = _record(machine), machine.folder / "mock_upstreams.log"
    root = Path(__file__).resolve().parents[2]
    note, code = machine.folder / "mock_upstreams.code", digest_of(root, MOCK_UPSTREAMS)
    same = note.exists() and note.read_text(encoding="ascii") == code
    if same and process.alive(process.recorded(record)) and _answers(machine, names, authority):
        return
    # An older process may serve other names, with an older certificate, or by older code.
    process.end(record)
    note.write_text(code, encoding="ascii")
    argv = [
        sys.executable,
        "-m",
        "tests.mock_upstreams",
        "serve",
        "--address",
        machine.outer_address,
    ]
    argv += ["--port", str(links.UPSTREAMS_PORT)]
    argv += ["--scripted-port", str(links.SCRIPTED_PORT)]
    argv += ["--control-port", control(machine).rpartition(":")[2]]
    process.spawn(record, argv, log=log, env={"PYTHONPATH": str(root)})
    deadline = time.monotonic() + _ANSWER_S
    while not _answers(machine, names, authority):
        if time.monotonic() > deadline:
            where = machine.outer_address
            raise LabError(f"the mock upstreams do not answer at {where}: read {log}")
        time.sleep(0.1)


def _answers(machine: lab.Machine, names: Sequence[str], authority: Path) -> bool:
    """Return whether the server answers for each name with a certificate of this authority."""
    where, trust = (
        (machine.outer_address, links.UPSTREAMS_PORT),
        ssl.create_default_context(cafile=authority),
    )
    try:
        for name in names:
            with socket.create_connection(where, timeout=1) as plug:
                trust.wrap_socket(plug, server_hostname=name).close()
    except OSError:
        return False
    return True
