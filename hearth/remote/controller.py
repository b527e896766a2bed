"""Send the project to the house's own machine by ssh, and follow what runs there.

The controller brings the last commit and the local settings; the run itself is a unit of that
machine, so that it goes on to its end when the laptop is closed or the network breaks.
"""

import base64
import json
import secrets
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import yaml

from hearth.catalogue.pipelines import FOLDER
from hearth.machine import runs
from hearth.remote import program
from hearth.remove.before import ANSIBLE, BROUGHT, EARLIER, NO_ANSIBLE

CLONE = "/root/hearth"
# The file of settings that the house's machine writes itself.
DIGESTS = "sources.lock.yml"
# Where systemd makes and removes a unit's own folder.
RUNTIME = "/run"
_VALUES = "values.json"
_SEND_S = 600
_GIT_S = 120
# For a run that was started before and has outlived its laptop.
_WAIT_S = 1800
# ssh's own exit code: the connection failed, not the command.
_LOST = 255
# The packages that were there before git came, for `hearth remove --all`.
_NOTED = f"{CLONE}.packages-before"
# Where the project there keeps such lists.
NOTES = {
    **{"earlier": str(EARLIER), "no_ansible": str(NO_ANSIBLE), "brought": str(BROUGHT)},
    "ansible": ANSIBLE,
}
# The one thing that needs a shell: a bare Debian may have no python3 and no git.
_INSTALL = """set -e
missing=
for name in git python3; do command -v $name >/dev/null || missing="$missing $name"; done
if [ -n "$missing" ]; then
  if [ ! -e NOTED ]; then
    dpkg-query -W -f '${db:Status-Status} ${Package}\\n' | sed -n 's/^installed //p' >NOTED.new
    mv NOTED.new NOTED
  fi
  apt-get -qq update
  DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends $missing
fi
"""

Listener = Callable[[str], None]


class RemoteError(Exception):
    """One line for a person: which step towards the remote machine failed."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where the house lives, from `reach: ssh://user@host:port`."""

    user: str
    host: str
    port: int

    def argv(self, command: str, *, terminal: bool = False) -> list[str]:
        """Return the ssh command that runs one shell line there as root."""
        line = command
        if self.user != "root":
            # The lock names where its holder comes from; sudo would drop that.
            origin = 'env "SSH_CONNECTION=$SSH_CONNECTION"'
            line = f"sudo -- {origin} /bin/bash -c {shlex.quote(command)}"
        kind = "-t" if terminal else "-T"
        # A dead network reports nothing by itself: a minute of silence counts as lost.
        alive = ["-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4"]
        return ["ssh", kind, *alive, "-p", str(self.port), f"{self.user}@{self.host}", "--", line]


def target(reach: str) -> Target:
    """Parse `ssh://user@host:port`; the default user is root and the default port 22."""
    parts = urlsplit(reach)
    return Target(parts.username or "root", parts.hostname or "", parts.port or 22)


def send(root: Path, there: Target, listen: Listener) -> None:
    """Send the last commit and the local settings of the checkout `root` to the other machine.

    Waits for a run that is active there, and reports who started it.

    Raises:
        RemoteError: git or ssh failed; the project there is the old one or the new one.
    """
    git = ["git", "-C", str(root)]
    commit = _call([*git, "rev-parse", "HEAD"], _GIT_S).decode().strip()
    if _call([*git, "status", "--porcelain", "--untracked-files=no"], _GIT_S):
        listen("note: uncommitted changes are left out")
    state = _state(there)
    if state["holder"]:
        listen(f"waiting for the active run on {there.host}, {state['holder']}")
        state = _state(there, _WAIT_S)
    bundle = b""
    if state["commit"] != commit:
        listen(f"Send the project to {there.host}")
        bundle = _call([*git, "bundle", "create", "--quiet", "-", "HEAD"], _GIT_S)
    settings = local_settings(root / "inventory" / "local", state["recorded"])
    options = {"root": CLONE, "lock": str(runs.LOCK), "within_s": _WAIT_S, "commit": commit}
    options |= {"bundle": base64.b64encode(bundle).decode(), "settings": settings}
    options |= {"digests": DIGESTS, "folder": FOLDER, "noted": _NOTED, "notes": NOTES}
    _run(there, "take", options, _SEND_S + _WAIT_S)


def local_settings(folder: Path, recorded: str) -> dict[str, str]:
    """Return the files of `inventory/local` for the other machine: their texts by path.

    `recorded` is the lock file there, whose digests were trusted on first use and stay.
    """
    documents = {path.name: yaml.safe_load(path.read_text()) or {} for path in folder.glob("*.yml")}
    for record in (documents.get("machines.yml", {}).get("machines") or {}).values():
        # That machine is the house; with this line it would connect to itself.
        record.pop("reach", None)
    lock = yaml.safe_load(recorded) or {}
    for section, entries in documents.get(DIGESTS, {}).items():
        lock[section] = {**lock.get(section, {}), **(entries or {})}
    if lock:
        documents[DIGESTS] = lock
    found = {
        name: yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
        for name, document in documents.items()
    }
    # A pipeline may have another encoding than UTF-8.
    return found | {
        f"{FOLDER}/{path.name}": path.read_bytes().decode(errors="surrogateescape")
        for path in (folder / FOLDER).glob("*.py")
    }


def prepared(words: Iterable[str], *, with_values: bool = False) -> str:
    """Return the shell line that runs a program of the project there, in its environment.

    With `with_values`, the program is an Ansible that takes the values of `follow`.
    """
    environment = "set -euo pipefail; . scripts/environment; environment controller"
    values = f' -e "@$RUNTIME_DIRECTORY/{_VALUES}"' if with_values else ""
    return f"{environment}; exec {shlex.join(words)}{values}"


def follow(
    there: Target, command: str, listen: Listener, columns: int = 80, values: str = ""
) -> int:
    """Run one shell line in the project there, pass each of its lines to `listen`, and wait.

    It runs as a unit of that machine, so it outlives this process and a broken network; only a
    person's interrupt ends it. `values` are on no command line: they are in a file that only root
    reads and that is removed with the unit.

    Returns:
        Its exit code.

    Raises:
        RemoteError: the connection broke; the text names the log there.
    """
    unit = f"hearth-remote-{secrets.token_hex(4)}"
    options: dict[str, Any] = {"root": CLONE, "runtime": RUNTIME, "unit": unit, "command": command}
    options |= {"columns": columns, "file": _VALUES, "values": values}
    argv, data = _program(there, "follow", options)
    with tempfile.TemporaryFile() as given:
        given.write(data)
        given.seek(0)
        code = _each_line(argv, given, listen, there.argv(f"systemctl stop {unit}"))
    # A negative code: ssh itself was killed.
    if code == _LOST or code < 0:
        raise RemoteError(
            f"the connection to {there.host} broke, and the run there goes on "
            f"({CLONE}/.hearth/logs/{unit}.log): run this again to wait for its end"
        )
    return code


def _each_line(argv: list[str], given: IO[bytes], listen: Listener, stop: list[str]) -> int:
    """Pass each line of a program to `listen`; a person's interrupt asks it to stop."""
    with subprocess.Popen(  # noqa: S603 - quoted word by word
        argv, stdin=given, stdout=subprocess.PIPE, text=True, errors="replace"
    ) as process:
        try:
            for line in process.stdout or ():
                listen(line.rstrip("\n"))
        except KeyboardInterrupt:
            try:
                _call(stop, _GIT_S)
            except RemoteError as error:
                raise RemoteError(f"{error}; the run there goes on to its end") from None
            finally:
                process.kill()
                process.wait()
            raise
    return process.returncode


def _state(there: Target, within_s: float = 0) -> dict[str, str]:
    """Return the commit there, the holder of its lock after a wait, and the recorded digests."""
    options = {"root": CLONE, "lock": str(runs.LOCK), "digests": f"inventory/local/{DIGESTS}"}
    install = _INSTALL.replace("NOTED", _NOTED)
    output = _run(there, "state", options | {"within_s": within_s}, _SEND_S + within_s, install)
    # A login shell may have printed something first.
    return dict(json.loads(output.partition(f"{program.MARK}\n")[2]))


def _run(
    there: Target, command: str, options: dict[str, Any], within_s: float, before: str = ""
) -> str:
    """Run a command of our program there, and return its output."""
    argv, data = _program(there, command, options, before)
    return _call(argv, within_s, data).decode(errors="replace")


def _program(
    there: Target, command: str, options: dict[str, Any], before: str = ""
) -> tuple[list[str], bytes]:
    """Return the ssh command that runs a command of our program there, and its standard input."""
    source = Path(program.__file__).read_bytes()
    start = f"import sys; exec(sys.stdin.buffer.read({len(source)}))"
    argv = there.argv(before + shlex.join(["python3", "-c", start, command]))
    return argv, source + json.dumps(options).encode()


def _call(argv: list[str], seconds: float, data: bytes = b"") -> bytes:
    """Run git or ssh within its deadline and return its output.

    Raises:
        RemoteError: it failed or took too long.
    """
    who = f"ssh {argv[-3]}" if argv[0] == "ssh" else " ".join(argv[:1] + argv[3:4])
    try:
        done = subprocess.run(  # noqa: S603 - quoted word by word
            argv, input=data, capture_output=True, check=True, timeout=seconds
        )
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode(errors="replace").strip().splitlines() or ["no output"]
        hint = ""
        if argv[0] == "ssh" and error.returncode == _LOST:
            hint = f": `ssh -p {argv[-4]} {argv[-3]}` must log you in without a prompt"
        raise RemoteError(f"{who}: {lines[-1].strip()}{hint}") from None
    except subprocess.TimeoutExpired:
        raise RemoteError(f"{who}: not finished after {seconds:g} s") from None
    except OSError as error:
        raise RemoteError(f"{who}: {error}") from None
    return done.stdout
