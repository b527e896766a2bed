"""Processes that survive their caller and are never taken for another."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab_machine import process
from tests.lab_machine.command import LabError

SLEEP = ["sleep", "600"]


@pytest.fixture
def record(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "run" / "it"
    yield path
    process.end(path, gently=signal.SIGKILL)


@pytest.fixture
def bystander() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(SLEEP) as child:
        yield child
        child.kill()


def forge(record: Path, pid: int, argv: list[str], *, later: int = 0) -> None:
    """Write a record for a process that was not begun by us."""
    stat = Path(f"/proc/{pid}/stat").read_text()
    start = process.parse_stat(stat)[1]
    record.parent.mkdir(parents=True)
    record.with_name("it.argv").write_text(json.dumps(argv))
    record.with_name("it.stat").write_text(stat.replace(f" {start} ", f" {start + later} "))


def test_a_name_with_brackets_and_blanks_does_not_shift_the_start_time() -> None:
    text = "42 (a) b (c) S 1 " + " ".join(str(number) for number in range(5, 53))
    assert process.parse_stat(text) == (42, 22)


def test_a_started_process_is_recorded_and_ended(record: Path, tmp_path: Path) -> None:
    identity = process.spawn(record, SLEEP, log=tmp_path / "log")
    assert process.alive(identity)
    assert process.recorded(record) == identity
    assert os.getsid(identity.pid) == identity.pid
    process.end(record)
    assert not process.alive(identity)
    assert process.recorded(record) is None
    assert not Path(f"/proc/{identity.pid}").exists()


def test_all_processes_of_a_machine_are_ended_together(tmp_path: Path) -> None:
    begun = [
        process.spawn(tmp_path / "run" / name, SLEEP, log=tmp_path / "log") for name in ("a", "b.c")
    ]
    process.end_all(tmp_path / "run")
    assert not any(process.alive(identity) for identity in begun)
    assert not list((tmp_path / "run").iterdir())


def test_a_program_that_never_runs_is_reported(record: Path, tmp_path: Path) -> None:
    # One that runs and ends may be seen in between, on a busy machine.
    with pytest.raises(LabError, match="/no/such/program did not start; see"):
        process.spawn(record, ["/no/such/program"], log=tmp_path / "log")


def test_the_record_is_written_before_the_program_runs(record: Path, tmp_path: Path) -> None:
    # Whole as soon as it is there.
    look = f"cp {record}.stat {tmp_path}/new; mv {tmp_path}/new {tmp_path}/seen; sleep 600"
    identity = process.spawn(record, ["sh", "-c", look], log=tmp_path / "log")
    deadline = time.monotonic() + 60
    while not (tmp_path / "seen").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert process.parse_stat((tmp_path / "seen").read_text())[0] == identity.pid
    os.killpg(identity.pid, signal.SIGKILL)


@pytest.mark.parametrize(("argv", "later"), [(["sleep", "601"], 0), (SLEEP, 1)])
def test_a_process_with_a_reused_pid_is_left_alone(
    record: Path, bystander: "subprocess.Popen[bytes]", argv: list[str], later: int
) -> None:
    forge(record, bystander.pid, argv, later=later)
    process.end(record, gently=signal.SIGKILL)
    assert bystander.poll() is None


def test_the_recorded_process_itself_is_ended(
    record: Path, bystander: "subprocess.Popen[bytes]"
) -> None:
    forge(record, bystander.pid, SLEEP)
    process.end(record)
    assert not Path(f"/proc/{bystander.pid}").exists()
    # The fixture's own wait would find the child reaped already.
    bystander.returncode = 0


def test_a_program_is_retried_only_after_its_exit_code(record: Path, tmp_path: Path) -> None:
    count = tmp_path / "count"
    program = ["sh", "-c", f"echo x >> {count}; [ $(wc -l < {count}) -lt 3 ] && exit 133; exit 4"]
    words = process.again(record, program, 133)
    done = subprocess.run(words, check=False, timeout=10)
    assert (done.returncode, count.read_text()) == (4, "x\nx\nx\n")
    recorded = process.recorded(record)
    assert recorded is not None
    assert list(recorded.argv) == program


def test_a_command_runs_even_if_its_cgroup_cannot_be_entered(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    words = process.joining(
        [tmp_path / "in", tmp_path / "gone"], ["sh", "-c", "echo $0 $1", "a b", "c"]
    )
    done = subprocess.run(words, check=True, capture_output=True, text=True, timeout=10)
    assert done.stdout == "a b c\n"
    assert int((tmp_path / "in" / "cgroup.procs").read_text()) > 1
