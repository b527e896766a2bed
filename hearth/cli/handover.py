"""Hand the project over to the house's own machine by ssh, and follow what runs there.

The controller brings the last commit and the local settings; the run itself is a unit of that
machine, so that it goes on to its end when the laptop is closed or the network breaks.
"""

import os
import secrets
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from hearth.cli.carried import LOCK, local_settings, take_settings
from hearth.cli.ssh import LOST, AfarError, Target, call
from hearth.machine import runs
from hearth.remove.before import ANSIBLE, BROUGHT, EARLIER, NO_ANSIBLE

CLONE = "/root/hearth"
_SEND_S = 600
_GIT_S = 120
# For a run that was started before and has outlived its laptop.
_WAIT_S = 1800

# Where systemd makes and removes a unit's own folder.
RUNTIME = "/run"
_VALUES = "values.json"

Tell = Callable[[str], None]


def send(root: Path, there: Target, tell: Tell) -> None:
    """Bring the last commit and the local settings of the checkout `root` to the other machine.

    Waits for a run that is at work there, with a line that says whose it is.

    Raises:
        AfarError: git or the way there failed; the project there is the old one or the new one.
    """
    git = ["git", "-C", str(root)]
    commit = call([*git, "rev-parse", "HEAD"], _GIT_S).strip()
    if call([*git, "status", "--porcelain", "--untracked-files=no"], _GIT_S):
        tell("note: what you have not committed is left out")
    state = _ask(there)
    if state.holder:
        tell(f"waits for the run that is at work on {there.host}, {state.holder}")
        call(there.argv(_alone("true")), _SEND_S + _WAIT_S)
        state = _ask(there)
    if state.commit != commit:
        tell(f"Bring the project to {there.host}")
        call(there.argv(_alone(_TAKE_COMMIT)), _SEND_S + _WAIT_S, _bundle(root))
    settings = local_settings(root / "inventory" / "local", state.recorded)
    # Also where the commit is there already: somebody may have edited its files by hand.
    checkout = f"git -C {CLONE} checkout --quiet --force --detach {commit}"
    take = take_settings(f"{CLONE}/inventory", checkout)
    call(there.argv(_alone(take)), _SEND_S + _WAIT_S, settings)


def prepared(words: Iterable[str], *, with_values: bool = False) -> str:
    """Return the shell line that runs a program of the project there, with all that it needs.

    With `with_values`, an Ansible that takes the values that `follow` brings.
    """
    environment = "set -euo pipefail; . scripts/environment; environment controller"
    values = f' -e "@$RUNTIME_DIRECTORY/{_VALUES}"' if with_values else ""
    return f"{environment}; exec {shlex.join(words)}{values}"


def follow(there: Target, command: str, take: Tell, columns: int = 80, values: bytes = b"") -> int:
    """Run one shell line in the project there, give each of its lines to `take`, and wait.

    It runs as a unit of that machine, so it outlives this process and a broken network; only an
    interrupt by a person ends it. `values`, which stand on no command line, lie in a file that root
    alone reads and that goes with the unit.

    Returns:
        Its exit code.

    Raises:
        AfarError: the connection broke; the text says where its lines go on.
    """
    unit = f"hearth-afar-{secrets.token_hex(4)}"
    log = f"{CLONE}/.hearth/logs/{unit}.log"
    script = _FOLLOW.format(
        **{"unit": unit, "log": log, "clone": CLONE, "columns": columns},
        **{"folder": f"{RUNTIME}/{unit}", "values": _VALUES, "size": len(values)},
        command=shlex.quote(command),
    )
    with tempfile.TemporaryFile() as given:
        given.write(values)
        given.seek(0)
        code = _each_line(there.argv(script), given, take, there.argv(f"systemctl stop {unit}"))
    # A negative one: somebody killed ssh itself.
    if code == LOST or code < 0:
        raise AfarError(
            f"the connection to {there.host} broke, and what runs there goes on ({log}): "
            "run this again, it waits for its end"
        )
    return code


def _each_line(argv: list[str], given: IO[bytes], take: Tell, stop: list[str]) -> int:
    """Give each line that a program says to `take`; a person's interrupt asks it to stop."""
    with subprocess.Popen(  # noqa: S603 - quoted word by word
        argv, stdin=given, stdout=subprocess.PIPE, text=True, errors="replace"
    ) as process:
        try:
            for line in process.stdout or ():
                take(line.rstrip("\n"))
        except KeyboardInterrupt:
            try:
                call(stop, _GIT_S)
            except AfarError as error:
                raise AfarError(f"{error}; what runs there goes on to its end") from None
            finally:
                process.kill()
                process.wait()
            raise
    return process.returncode


@dataclass(frozen=True, slots=True)
class _State:
    """What is there: the project's commit, who works there now, and the recorded digests."""

    commit: str
    holder: str
    recorded: str


def _ask(there: Target) -> _State:
    # What a login shell says on its way in stands before the mark.
    said = call(there.argv(_ASK), _GIT_S).partition(f"{_MARK}\n")[2]
    commit, holder, recorded = (*said.split("\n", 2), "", "")[:3]
    return _State(commit.strip(), holder.strip(), recorded)


def _bundle(root: Path) -> bytes:
    path = root / ".hearth" / f"afar-{os.getpid()}.bundle"
    path.parent.mkdir(exist_ok=True)
    try:
        call(["git", "-C", str(root), "bundle", "create", "--quiet", str(path), "HEAD"], _GIT_S)
        return path.read_bytes()
    finally:
        path.unlink(missing_ok=True)


_MARK = "--hearth--"
# Whoever could read the lock could hold it, and no run would ever begin.
_OPEN = f"(umask 077; : >>{runs.LOCK}); chmod 0600 {runs.LOCK}; exec 9<>{runs.LOCK}"
_ASK = (
    f"echo {_MARK}; git -C {CLONE} rev-parse -q --verify HEAD 2>/dev/null || echo; "
    f"{_OPEN}; "
    f"if flock -n 9; then echo; else echo held by $(head -n 1 {runs.LOCK}); fi; "
    f"cat {CLONE}/inventory/local/{LOCK} 2>/dev/null || true"
)
# What was there before git came, and that git came for Hearth, for `hearth remove --all`.
_NOTED = "/root/hearth.packages-before"
_TAKE_COMMIT = (
    f"command -v git >/dev/null || {{ [ -e {_NOTED} ] || {{ "
    "dpkg-query -W -f '${db:Status-Status} ${Package}\\n' | sed -n 's/^installed //p' "
    f">{_NOTED}.new; mv {_NOTED}.new {_NOTED}; }}; apt-get -qq update; "
    "DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends git; }; "
    "cat > /root/hearth.bundle; "
    # A clone that was cut off is no clone.
    f"[ -d {CLONE} ] || {{ rm -rf {CLONE}.new; git clone --quiet /root/hearth.bundle {CLONE}.new; "
    f"mv {CLONE}.new {CLONE}; }}; cd {CLONE}; "
    f"[ ! -e {_NOTED} ] || {{ mkdir -p {EARLIER.parent}; echo git >>{BROUGHT}; "
    f"[ -e {EARLIER} ] || [ -e {ANSIBLE} ] || : >{NO_ANSIBLE}; "
    f"mv -n {_NOTED} {EARLIER}; rm -f {_NOTED}; }}; "
    "git fetch --quiet /root/hearth.bundle HEAD; rm /root/hearth.bundle"
)
# The lines go through a file: a pipe would break with the connection, and the run with it.
_FOLLOW = """
(umask 077; mkdir {folder}; cat >{folder}/{values})
[ "$(wc -c <{folder}/{values})" = {size} ] || {{ rm -r {folder}; exit 1; }}
mkdir -p $(dirname {log}); : >{log}
systemd-run --quiet --collect --wait --unit={unit} --service-type=exec \
  --property=StandardOutput=append:{log} --property=StandardError=append:{log} \
  --property=RuntimeDirectory={unit} --property=RuntimeDirectoryMode=0700 \
  --property=OOMPolicy=continue --working-directory={clone} \
  --setenv=HOME=/root --setenv=USER=root --setenv=COLUMNS={columns} \
  --setenv=SSH_CONNECTION="$SSH_CONNECTION" \
  /bin/bash -c {command} &
run=$!
tail -s 0.1 -n +1 -f --pid=$run {log} &
wait $run; code=$?; wait
rm -rf {folder}
exit $code
"""


def _alone(script: str) -> str:
    """Return a shell line that does `script` while no run of site.yml is at work there."""
    late = f"the run that is at work there did not end in {_WAIT_S} s"
    name = f"echo 'somebody brings settings from another machine' >{runs.LOCK}"
    take = f"flock -w {_WAIT_S} 9 || {{ echo '{late}' >&2; exit 1; }}; {name}"
    return f"set -e; {_OPEN}; {take}; {script}"
