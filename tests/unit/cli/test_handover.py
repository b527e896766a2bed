"""The project goes to the house's own machine once, under its lock, and its run is followed."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from hearth.cli import handover
from hearth.cli.handover import follow, send
from hearth.cli.ssh import AfarError, Target
from hearth.machine import runs

THERE = Target("root", "house.example", 22)
# Says what the machine would, and writes down each line that it is asked to run and what it got.
FAKE = """#!/usr/bin/env python3
import json, os, pathlib, sys
here = pathlib.Path(__file__).parent
line = sys.argv[-1]
taken = "" if sys.stdin.isatty() or "systemd-run" in line else len(sys.stdin.buffer.read())
with (here / "asked").open("a") as asked:
    asked.write(json.dumps([line, taken]) + "\\n")
for words, said, code in json.loads((here / "answers").read_text()):
    if words in line:
        stream = sys.stderr if code == 255 else sys.stdout
        stream.write(said)
        stream.flush()
        sys.exit(code) if code >= 0 else os.kill(os.getpid(), -code)
"""
ASK, FLOCK, BUNDLE, SETTINGS, RUN = (
    "--hearth--",
    "flock -w",
    "hearth.bundle",
    "local.new",
    "tail -s",
)


class Machine:
    """An ssh that reaches nobody."""

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
        kinds = (ASK, BUNDLE, SETTINGS, RUN, "systemctl stop", FLOCK)
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
    machine.says((ASK, f"Welcome!\n{ASK}\n\n\n", 0))
    send(checkout, THERE, told.append)
    assert machine.asked() == [ASK, BUNDLE, SETTINGS]
    assert machine.got(BUNDLE) > 100
    assert told == ["Bring the project to house.example"]
    machine.says((ASK, f"{ASK}\n{head(checkout)}\n", 0))
    send(checkout, THERE, told.append)
    assert machine.asked() == [ASK, SETTINGS]
    assert len(told) == 1


def test_who_works_there_is_waited_for_and_named(machine: Machine, checkout: Path) -> None:
    told: list[str] = []
    machine.says((ASK, f"{ASK}\n{head(checkout)}held by ann, `hearth up`, process 7\n", 0))
    send(checkout, THERE, told.append)
    # The digests that the other run recorded meanwhile are read after it.
    assert machine.asked() == [ASK, FLOCK, ASK, SETTINGS]
    assert told == [
        "waits for the run that is at work on house.example, held by ann, `hearth up`, process 7"
    ]


def test_what_is_not_committed_is_said(machine: Machine, checkout: Path) -> None:
    told: list[str] = []
    (checkout / "site.yml").write_text("--- # mine\n")
    machine.says((ASK, f"{ASK}\n{head(checkout)}\n", 0))
    send(checkout, THERE, told.append)
    assert told == ["note: what you have not committed is left out"]


def test_a_machine_that_lets_nobody_in_is_one_line(machine: Machine, checkout: Path) -> None:
    machine.says((ASK, "No such key\nPermission denied (publickey).\n", 255))
    with pytest.raises(AfarError) as refused:
        send(checkout, THERE, print)
    assert str(refused.value) == (
        "ssh root@house.example: Permission denied (publickey).: `ssh -p 22 root@house.example` "
        "must let you in without a question"
    )


def test_a_run_is_followed_line_by_line_to_its_exit_code(machine: Machine) -> None:
    lines: list[str] = []
    machine.says((RUN, "TASK [one]\nok: [house]\n", 7))
    assert follow(THERE, "true; false 'a b'", lines.append) == 7
    assert lines == ["TASK [one]", "ok: [house]"]


@pytest.mark.parametrize("code", [255, -9])
def test_a_broken_connection_is_no_failed_run(machine: Machine, code: int) -> None:
    machine.says((RUN, "client_loop: send disconnect\n", code))
    with pytest.raises(AfarError, match=r"broke, and what runs there goes on .*: run this again"):
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
    with pytest.raises(AfarError, match=r"; what runs there goes on to its end$"):
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
    monkeypatch.setattr(handover, "CLONE", str(tmp_path))
    monkeypatch.setattr(handover, "RUNTIME", str(tmp_path))
    lines: list[str] = []
    file = '"$RUNTIME_DIRECTORY/values.json"'
    command = f"stat -c %a {file}; cat {file}; exit 3"
    assert follow(THERE, command, lines.append, values=b'{"key": "s3cret"}\n') == 3
    assert lines == ["600", '{"key": "s3cret"}']
    assert "s3cret" not in (tmp_path / "asked").read_text()
    assert sorted(tmp_path.glob("hearth-afar-*")) == []
    # Half of them, from a connection that broke, is no run at all.
    (tmp_path / "ssh").write_text('#!/bin/bash\nhead -c 5 | bash -c "${@: -1}"\n')
    (tmp_path / "asked").unlink()
    assert follow(THERE, command, lines.append, values=b'{"key": "s3cret"}\n') == 1
    assert not (tmp_path / "asked").exists()
    assert sorted(tmp_path.glob("hearth-afar-*")) == []


@pytest.mark.parametrize("line", [handover._ASK, handover._alone("true")])
@pytest.mark.parametrize("there", [True, False])
def test_nobody_but_root_can_hold_the_lock(line: str, there: bool, tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    if there:
        lock.touch(0o644)
    script = f"umask 022; {line.replace(str(runs.LOCK), str(lock))}"
    subprocess.run(["bash", "-c", script], check=True, capture_output=True, timeout=30)
    assert lock.stat().st_mode & 0o777 == 0o600
