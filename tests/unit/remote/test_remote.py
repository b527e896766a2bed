"""The project goes to the remote machine once, under its lock, and its run is followed."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hearth.remote import controller, program
from hearth.remote.controller import RemoteError, Target, follow, local_settings, send

THERE = Target("root", "house.example", 22)
# Answers as the machine would, and records each line that it is to run and the size of its input.
FAKE = """#!/usr/bin/env python3
import json, os, pathlib, sys
here = pathlib.Path(__file__).parent
line = sys.argv[-1]
taken = "" if sys.stdin.isatty() else len(sys.stdin.buffer.read())
with (here / "asked").open("a") as asked:
    asked.write(json.dumps([line, taken]) + "\\n")
for words, said, code in json.loads((here / "answers").read_text()):
    if words in line:
        stream = sys.stderr if code == 255 else sys.stdout
        stream.write(said)
        stream.flush()
        sys.exit(code) if code >= 0 else os.kill(os.getpid(), -code)
"""
STATE, WAIT, TAKE, RUN = (f"' {name} " for name in ("state", "wait", "take", "follow"))
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
        self.says()

    def says(self, *answers: tuple[str, str, int]) -> None:
        (self.folder / "answers").write_text(json.dumps(answers))
        (self.folder / "asked").unlink(missing_ok=True)

    def asked(self) -> list[str]:
        """Which of the known lines were run there, in their order."""
        rows = (self.folder / "asked").read_text().splitlines()
        kinds = (STATE, TAKE, RUN, "systemctl stop", WAIT)
        return [next(kind for kind in kinds if kind in json.loads(row)[0]) for row in rows]

    def got(self, kind: str) -> int:
        """How many bytes a line was given."""
        rows = map(json.loads, (self.folder / "asked").read_text().splitlines())
        return int(next(taken for line, taken in rows if kind in line))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{made.folder}:{os.environ['PATH']}")
    return made


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


def test_a_commit_that_is_there_is_not_brought_again(machine: Machine, checkout: Path) -> None:
    told: list[str] = []
    machine.says((STATE, f"Welcome!\n{found()}", 0))
    send(checkout, THERE, told.append)
    assert machine.asked() == [STATE, TAKE]
    settings = len(local_settings(checkout / "inventory/local", ""))
    assert machine.got(TAKE) > len(SOURCE) + settings + 100
    assert told == ["Send the project to house.example"]
    machine.says((STATE, found(head(checkout)), 0))
    send(checkout, THERE, told.append)
    assert machine.asked() == [STATE, TAKE]
    assert machine.got(TAKE) == len(SOURCE) + settings
    assert len(told) == 1


def test_who_works_there_is_waited_for_and_named(machine: Machine, checkout: Path) -> None:
    told: list[str] = []
    machine.says((STATE, found(head(checkout), "held by ann, `hearth up`, process 7"), 0))
    send(checkout, THERE, told.append)
    # The digests that the other run recorded meanwhile are read after it.
    assert machine.asked() == [STATE, WAIT, STATE, TAKE]
    assert told == [
        "waiting for the active run on house.example, held by ann, `hearth up`, process 7"
    ]


def test_uncommitted_changes_are_reported(machine: Machine, checkout: Path) -> None:
    told: list[str] = []
    (checkout / "site.yml").write_text("--- # mine\n")
    machine.says((STATE, found(head(checkout)), 0))
    send(checkout, THERE, told.append)
    assert told == ["note: uncommitted changes are left out"]


def test_a_machine_that_refuses_the_login_is_one_line(machine: Machine, checkout: Path) -> None:
    machine.says((STATE, "No such key\nPermission denied (publickey).\n", 255))
    with pytest.raises(RemoteError) as refused:
        send(checkout, THERE, print)
    assert str(refused.value) == (
        "ssh root@house.example: Permission denied (publickey).: `ssh -p 22 root@house.example` "
        "must log you in without a prompt"
    )


def test_a_run_is_followed_line_by_line_to_its_exit_code(machine: Machine) -> None:
    lines: list[str] = []
    machine.says((RUN, "TASK [one]\nok: [house]\n", 7))
    assert follow(THERE, "true; false 'a b'", lines.append) == 7
    assert lines == ["TASK [one]", "ok: [house]"]


@pytest.mark.parametrize("code", [255, -9])
def test_a_broken_connection_is_not_a_failed_run(machine: Machine, code: int) -> None:
    machine.says((RUN, "client_loop: send disconnect\n", code))
    with pytest.raises(RemoteError, match=r"broke, and the run there goes on .*: run this again"):
        follow(THERE, "true", print)


def test_only_an_interrupt_ends_what_runs_there(machine: Machine) -> None:
    def interrupt(line: str) -> None:
        raise KeyboardInterrupt

    machine.says((RUN, "TASK [one]\n", 0))
    with pytest.raises(KeyboardInterrupt):
        follow(THERE, "true", interrupt)
    assert machine.asked() == [RUN, "systemctl stop"]
    # Without a way there it goes on, and a person has to know.
    machine.says((RUN, "TASK [one]\n", 0), ("systemctl stop", "", 255))
    with pytest.raises(RemoteError, match=r"; the run there goes on to its end$"):
        follow(THERE, "true", interrupt)


# What systemd does with a unit, as far as it matters here.
UNIT = """#!/bin/bash
for word; do case $word in --unit=*) unit=${word#--unit=};; esac; done
export RUNTIME_DIRECTORY=$ROOT/$unit
echo "$*" >$ROOT/asked
"${@: -3}" >>$ROOT/.hearth/logs/$unit.log
code=$?
rm -r $RUNTIME_DIRECTORY
exit $code
"""


def test_values_reach_a_run_by_a_file_of_roots_that_goes_with_it(
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
    assert follow(THERE, command, lines.append, values=b'{"key": "s3cret"}\n') == 3
    assert lines == ["600", '{"key": "s3cret"}']
    assert "s3cret" not in (tmp_path / "asked").read_text()
    assert sorted(tmp_path.glob("hearth-remote-*")) == []
    # Half of them, from a connection that broke, is no run at all.
    (tmp_path / "ssh").write_text(
        f'#!/bin/bash\nhead -c {len(SOURCE) + 5} | bash -c "${{@: -1}}"\n'
    )
    (tmp_path / "asked").unlink()
    assert follow(THERE, command, lines.append, values=b'{"key": "s3cret"}\n') == 1
    assert not (tmp_path / "asked").exists()
    assert sorted(tmp_path.glob("hearth-remote-*")) == []


def run_program(command: str, data: bytes = b"", **options: object) -> None:
    """Run a command of the program as the other machine does."""
    argv, given = controller._program(THERE, command, options, data)
    subprocess.run(["bash", "-c", f"umask 022; {argv[-1]}"], input=given, check=True, timeout=30)


@pytest.mark.parametrize("command", ["state", "wait"])
@pytest.mark.parametrize("there", [True, False])
def test_only_root_can_hold_the_lock(command: str, there: bool, tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    if there:
        lock.touch(0o644)
    more: dict[str, dict[str, Any]] = {
        "state": {"root": str(tmp_path), "digests": "none"},
        "wait": {"within_s": 5},
    }
    run_program(command, lock=str(lock), **more[command])
    assert lock.stat().st_mode & 0o777 == 0o600


def test_a_commit_and_settings_arrive_whole(checkout: Path, tmp_path: Path) -> None:
    there, lock = tmp_path / "there", str(tmp_path / "lock")
    commit, bundle = head(checkout).strip(), controller._bundle(checkout)
    settings = local_settings(checkout / "inventory/local", "models: {a: b}\n")
    one: dict[str, Any] = {"root": str(there), "lock": lock, "within_s": 5, "commit": commit}
    one |= {"digests": "sources.lock.yml", "folder": "pipelines"}
    one |= {"noted": str(tmp_path / "none"), "notes": {}}
    sizes = [len(bundle), len(settings)]
    with pytest.raises(subprocess.CalledProcessError):
        run_program("take", bundle + settings[:-1], **one, sizes=sizes)
    assert not there.exists()
    run_program("take", bundle + settings, **one, sizes=sizes)
    (there / "site.yml").write_text("--- # edited there\n")
    sizes[0] = 0
    with pytest.raises(subprocess.CalledProcessError):
        run_program("take", settings[:-1], **one, sizes=sizes)
    assert "edited" in (there / "site.yml").read_text()
    run_program("take", settings, **one, sizes=sizes)
    assert (there / "site.yml").read_text() == "---\n"
    assert (there / "inventory/local/sources.lock.yml").read_text() == "models:\n  a: b\n"
