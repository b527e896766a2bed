"""The project is sent to the remote machine once, under its lock, and its run is followed."""

import base64
import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from hearth.files import locked
from hearth.remote import controller, program
from hearth.remote.controller import RemoteError, Target, follow, local_settings, send

THERE = Target("root", "house.example", 22)
# Responds as the machine would, and records each command that it is to run and its input's size.
FAKE = """#!/usr/bin/env python3
import json, os, pathlib, sys
here = pathlib.Path(__file__).parent
line = sys.argv[-1]
size = "" if sys.stdin.isatty() else len(sys.stdin.buffer.read())
with (here / "requests").open("a") as requests:
    requests.write(json.dumps([line, size]) + "\\n")
for words, output, code in json.loads((here / "responses").read_text()):
    if words in line:
        stream = sys.stderr if code == 255 else sys.stdout
        stream.write(output)
        stream.flush()
        sys.exit(code) if code >= 0 else os.kill(os.getpid(), -code)
"""
STATE, TAKE, RUN = (f"' {name}" for name in ("state", "take", "follow"))
SOURCE = Path(program.__file__).read_bytes()


def found(commit: str = "", holder: str = "") -> str:
    """What the program there prints about its state."""
    state = {"commit": commit.strip(), "holder": holder, "recorded": ""}
    return f"{program.MARK}\n{json.dumps(state)}\n"


class Machine:
    """An ssh that reaches no machine."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        (folder / "ssh").write_text(FAKE)
        (folder / "ssh").chmod(0o755)
        self.folder = folder
        self.respond()

    def respond(self, *responses: tuple[str, str, int]) -> None:
        (self.folder / "responses").write_text(json.dumps(responses))
        (self.folder / "requests").unlink(missing_ok=True)

    def requests(self) -> list[str]:
        """Which of the known commands were run there, in their order."""
        rows = (self.folder / "requests").read_text().splitlines()
        kinds = (STATE, TAKE, RUN, "systemctl stop")
        return [next(kind for kind in kinds if kind in json.loads(row)[0]) for row in rows]

    def received(self, kind: str) -> int:
        """How many bytes of input a command got."""
        rows = map(json.loads, (self.folder / "requests").read_text().splitlines())
        return int(next(size for line, size in rows if kind in line))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    fake = Machine(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{fake.folder}:{os.environ['PATH']}")
    return fake


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "inventory/local").mkdir(parents=True)
    (root / "site.yml").write_text("---\n")
    for words in (("init", "--quiet"), ("add", "site.yml"), ("commit", "--quiet", "-m", "First")):
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", "-C", str(root), *who, *words], check=True, timeout=60)
    return root


def head(root: Path) -> str:
    words = ["git", "-C", str(root), "rev-parse", "HEAD"]
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=60).stdout


def test_a_commit_that_is_there_is_not_sent_again(machine: Machine, checkout: Path) -> None:
    lines: list[str] = []
    machine.respond((STATE, f"Welcome!\n{found()}", 0))
    send(checkout, THERE, lines.append)
    assert machine.requests() == [STATE, TAKE]
    whole = machine.received(TAKE)
    assert lines == ["Send the project to house.example"]
    machine.respond((STATE, found(head(checkout)), 0))
    send(checkout, THERE, lines.append)
    assert machine.requests() == [STATE, TAKE]
    assert len(SOURCE) < machine.received(TAKE) < whole - 100
    assert len(lines) == 1


def test_an_active_run_there_is_waited_for_and_named(machine: Machine, checkout: Path) -> None:
    lines: list[str] = []
    machine.respond((STATE, found(head(checkout), "held by ann, `hearth up`, process 7"), 0))
    send(checkout, THERE, lines.append)
    # The digests that the other run recorded meanwhile are read after it.
    assert machine.requests() == [STATE, STATE, TAKE]
    assert lines == [
        "waiting for the active run on house.example, held by ann, `hearth up`, process 7"
    ]


def test_uncommitted_changes_are_reported(machine: Machine, checkout: Path) -> None:
    lines: list[str] = []
    (checkout / "site.yml").write_text("--- # mine\n")
    machine.respond((STATE, found(head(checkout)), 0))
    send(checkout, THERE, lines.append)
    assert lines == ["note: uncommitted changes are left out"]


def test_a_machine_that_refuses_the_login_is_one_line(machine: Machine, checkout: Path) -> None:
    machine.respond((STATE, "No such key\nPermission denied (publickey).\n", 255))
    with pytest.raises(RemoteError) as refused:
        send(checkout, THERE, print)
    assert str(refused.value) == (
        "ssh root@house.example: Permission denied (publickey).: `ssh -p 22 root@house.example` "
        "must log you in without a prompt"
    )


def test_a_run_is_followed_line_by_line_to_its_exit_code(machine: Machine) -> None:
    lines: list[str] = []
    machine.respond((RUN, "TASK [one]\nok: [house]\n", 7))
    assert follow(THERE, "true; false 'a b'", lines.append) == 7
    assert lines == ["TASK [one]", "ok: [house]"]


@pytest.mark.parametrize("code", [255, -9])
def test_a_broken_connection_is_not_a_failed_run(machine: Machine, code: int) -> None:
    machine.respond((RUN, "client_loop: send disconnect\n", code))
    with pytest.raises(RemoteError, match=r"broke, and the run there goes on .*: run this again"):
        follow(THERE, "true", print)


def test_only_an_interrupt_ends_what_runs_there(machine: Machine) -> None:
    def interrupt(line: str) -> None:
        raise KeyboardInterrupt

    machine.respond((RUN, "TASK [one]\n", 0))
    with pytest.raises(KeyboardInterrupt):
        follow(THERE, "true", interrupt)
    assert machine.requests() == [RUN, "systemctl stop"]
    # Without a connection it goes on, and the message says so.
    machine.respond((RUN, "TASK [one]\n", 0), ("systemctl stop", "", 255))
    with pytest.raises(RemoteError, match=r"; the run there goes on to its end$"):
        follow(THERE, "true", interrupt)


# What systemd does with a unit, as far as these tests need it.
UNIT = """#!/bin/bash
for word; do case $word in --unit=*) unit=${word#--unit=};; esac; done
export RUNTIME_DIRECTORY=$ROOT/$unit
echo "$*" >$ROOT/request
"${@: -3}" >>$ROOT/.hearth/logs/$unit.log
code=$?
rm -r $RUNTIME_DIRECTORY
exit $code
"""


def test_values_reach_a_run_in_a_file_of_root_that_is_removed_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in (("ssh", '#!/bin/bash\nexec bash -c "${@: -1}"\n'), ("systemd-run", UNIT)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("ROOT", str(tmp_path))
    monkeypatch.setattr(controller, "CLONE", str(tmp_path))
    monkeypatch.setattr(controller, "RUNTIME", str(tmp_path))
    lines: list[str] = []
    file = '"$RUNTIME_DIRECTORY/values.json"'
    command = f"stat -c %a {file}; cat {file}; exit 3"
    assert follow(THERE, command, lines.append, values='{"key": "s3cret"}\n') == 3
    assert lines == ["600", '{"key": "s3cret"}']
    assert "s3cret" not in (tmp_path / "request").read_text()
    assert sorted(tmp_path.glob("hearth-remote-*")) == []
    # A connection that breaks in the middle of them starts no run.
    (tmp_path / "ssh").write_text(
        f'#!/bin/bash\nhead -c {len(SOURCE) + 5} | bash -c "${{@: -1}}"\n'
    )
    (tmp_path / "request").unlink()
    assert follow(THERE, command, lines.append, values='{"key": "s3cret"}\n') == 1
    assert not (tmp_path / "request").exists()
    assert sorted(tmp_path.glob("hearth-remote-*")) == []


def run_program(command: str, options: dict[str, Any], upto: int | None = None) -> None:
    """Run a command of the program as the other machine does, with its input cut at `upto`."""
    argv, data = controller._program(THERE, command, options)
    line = f"umask 022; {argv[-1]}"
    subprocess.run(["bash", "-c", line], input=data[:upto], check=True, timeout=30)


@pytest.mark.parametrize("within_s", [0, 5])
@pytest.mark.parametrize("there", [True, False])
def test_only_root_can_hold_the_lock(within_s: int, there: bool, tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    if there:
        lock.touch(0o644)
    options = {"root": str(tmp_path), "digests": "none", "lock": str(lock), "within_s": within_s}
    run_program("state", options)
    assert lock.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("within_s", [0, 0.3])
def test_the_holder_is_reported_after_the_wait(
    within_s: float, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    options = {"root": str(tmp_path), "digests": "none", "lock": str(tmp_path / "lock")}
    with locked(tmp_path / "lock", who="ann"):
        started = time.monotonic()
        run_program("state", options | {"within_s": within_s})
    assert time.monotonic() - started >= within_s
    assert json.loads(capfd.readouterr().out.splitlines()[1])["holder"] == "held by ann"


def test_a_commit_and_settings_arrive_whole(checkout: Path, tmp_path: Path) -> None:
    there, commit = tmp_path / "there", head(checkout).strip()
    git = ["git", "-C", str(checkout), "bundle", "create", "--quiet", "-", "HEAD"]
    bundle = subprocess.run(git, check=True, capture_output=True, timeout=60).stdout
    options: dict[str, Any] = {"root": str(there), "lock": str(tmp_path / "lock"), "within_s": 5}
    options |= {"digests": "sources.lock.yml", "folder": "pipelines", "commit": commit}
    options |= {"noted": str(tmp_path / "none"), "notes": {}, "bundle": ""}
    options["settings"] = local_settings(checkout / "inventory/local", "models: {a: b}\n")
    first = options | {"bundle": base64.b64encode(bundle).decode()}
    with pytest.raises(subprocess.CalledProcessError):
        run_program("take", first, -1)
    assert not there.exists()
    run_program("take", first)
    (there / "site.yml").write_text("--- # edited there\n")
    with pytest.raises(subprocess.CalledProcessError):
        run_program("take", options, -1)
    assert "edited" in (there / "site.yml").read_text()
    run_program("take", options)
    assert (there / "site.yml").read_text() == "---\n"
    assert (there / "inventory/local/sources.lock.yml").read_text() == "models:\n  a: b\n"
