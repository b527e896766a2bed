"""Two runs of site.yml never work on one machine at once, and a killed one leaves no lock."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hearth.doctor.background import last_run
from hearth.files import locked
from hearth.machine import images, runs
from hearth.remote import program

ROOT = Path(__file__).parents[3]
PLAY = """
- name: Wait
  hosts: all
  gather_facts: false
  tasks:
    - name: Wait
      ansible.builtin.shell: "echo >> here; while [ ! -e go ]; do sleep 0.1; done"
      args: {chdir: "{{ playbook_dir }}"}
      changed_when: false
"""
CHANGES = """
- name: Change
  hosts: all
  gather_facts: false
  tasks:
    - name: Read the settings
      ansible.builtin.command: "true"
      changed_when: false
    - name: Write the settings
      ansible.builtin.command: "true"
      changed_when: true
      check_mode: false
    - name: Fail at the end
      ansible.builtin.command: "false"
"""
WITHIN_S = 30
PATIENT = "a killed run left this running: process"
GOES_ON = "a run was killed, and its last task is still running: root (from 192.0.2.7)"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    for name in ("site.yml", "other.yml"):
        (tmp_path / name).write_text(PLAY)
    (tmp_path / "hosts").write_text(
        f"house ansible_connection=local ansible_python_interpreter={sys.executable}\n"
    )
    plugins = ROOT / "ansible/plugins/callback"
    (tmp_path / "ansible.cfg").write_text(
        f"[defaults]\ninventory = hosts\ncallback_plugins = {plugins}\n"
        "callbacks_enabled = one_run\n"
    )
    yield tmp_path
    # No task of a failed test waits for ever.
    (tmp_path / "go").touch()


def play(folder: Path, name: str = "site.yml", *more: str) -> subprocess.Popen[str]:
    environment = os.environ | {
        "HEARTH_RUN_LOCK": str(folder / "lock"),
        "HEARTH_RUN_RECORD": str(folder / "record"),
        "SSH_CONNECTION": "192.0.2.7 50000 192.0.2.1 22",
        "ANSIBLE_CONFIG": str(folder / "ansible.cfg"),
    }
    program = str(Path(sys.executable).with_name("ansible-playbook"))
    return subprocess.Popen(
        [program, name, *more],
        cwd=folder,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def kill(run: subprocess.Popen[str], *others: int) -> None:
    """Kill a run's own process, and others with it."""
    for victim in (run.pid, *others):
        os.kill(victim, signal.SIGKILL)
    run.wait(WITHIN_S)
    assert run.stdout
    run.stdout.close()


def arrived(folder: Path, times: int) -> None:
    """Return when so many runs have reached their task."""
    deadline = time.monotonic() + WITHIN_S
    here = folder / "here"
    while not here.exists() or len(here.read_text()) < times:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def children(pid: int) -> list[int]:
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def end(folder: Path, *runs: subprocess.Popen[str]) -> list[int]:
    (folder / "go").touch()
    for run in runs:
        run.communicate(timeout=WITHIN_S)
    return [run.returncode for run in runs]


def test_a_run_writes_down_what_it_changed(folder: Path) -> None:
    (folder / "site.yml").write_text(CHANGES)
    assert end(folder, play(folder, "site.yml", "--check")) == [0]
    assert not (folder / "record").exists(), "a preview changes nothing"
    assert end(folder, play(folder)) == [2]
    found = last_run(folder / "record")
    assert found is not None
    assert found["changed"] == ["house: Write the settings"]
    assert abs(time.time() - found["made"]) < 600
    # The disk is full, or this is no house.
    (folder / "record").unlink()
    (folder / "record").mkdir()
    assert end(folder, play(folder)) == [2]


def test_a_second_run_ends_in_one_line_that_names_the_first(folder: Path) -> None:
    first = play(folder)
    arrived(folder, 1)
    output, _ = (second := play(folder)).communicate(timeout=WITHIN_S)
    assert second.returncode == 1
    line = " ".join(output.split())
    assert "another run is active on this machine: root (from 192.0.2.7) runs " in line, output
    assert f"`ansible-playbook site.yml` as process {first.pid} since 2" in line, output
    assert "TASK" not in output
    other = play(folder, "other.yml")
    arrived(folder, 2)
    assert end(folder, first, other) == [0, 0]


@pytest.mark.parametrize("alone", [True, False], ids=["a task alone", "a task and its worker"])
def test_a_killed_run_releases_the_lock_and_the_next_run_waits_for_its_last_task(
    folder: Path, alone: bool
) -> None:
    first = play(folder)
    arrived(folder, 1)
    # Ansible's worker, which waits for the task, is in a session of its own and holds the lock.
    workers = children(first.pid)
    kill(first, *(workers if alone else []))
    second = play(folder)
    assert second.stdout
    output = ""
    # A run that does not wait goes to its task, and ends by this.
    late = threading.Timer(WITHIN_S, (folder / "go").touch)
    late.start()
    while (PATIENT if alone else GOES_ON) not in output:
        line = second.stdout.readline()
        if not line:
            second.communicate()
            pytest.fail(output)
        output = f"{output} {' '.join(line.split())}"
    late.cancel()
    assert "TASK" not in output
    assert len((folder / "here").read_text()) == 1
    assert end(folder, second) == [0]


def test_the_next_run_waits_for_the_tasks_of_a_killed_run_and_names_it(folder: Path) -> None:
    first = play(folder)
    arrived(folder, 1)
    # Its worker goes on and has the lock still.
    kill(first)
    messages: list[str] = []

    def say(text: str) -> None:
        messages.append(" ".join(text.split()))
        (folder / "go").touch()

    lock, before = folder / "lock", os.environ.get(runs.MARK)
    with runs.alone(say, lock):
        mine = runs.read(lock.read_text())
        assert mine
        assert mine.pid == os.getpid()
        with lock.open() as file:
            assert os.environ[runs.MARK] == f"{runs.scope(file.fileno())}.{mine.name}"
            assert list(runs.left_at_work(runs.scope(file.fileno()), mine.name)) == []
    assert messages[0].startswith(GOES_ON), messages
    # What is started after it is no part of it, and no other run may wait for that.
    assert os.environ.get(runs.MARK) == before


def test_the_endless_last_task_of_a_killed_run_is_ended(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = play(folder)
    arrived(folder, 1)
    kill(first)
    monkeypatch.setattr(runs, "PATIENCE_S", 1.0)
    messages: list[str] = []
    # Its task never ends, and its worker holds the lock for as long.
    with runs.alone(messages.append, folder / "lock"):
        assert not (folder / "go").exists()
    assert messages[0].startswith(GOES_ON), messages
    assert messages[1].startswith("killed after more than 1 s: process"), messages


def test_the_worker_of_a_killed_run_is_ended_if_it_hangs_itself(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, dead = folder / "lock", runs.this_run(["hearth", "up"])
    code = "import sys, time; from pathlib import Path; from hearth.files import locked\n"
    code += "with locked(Path(sys.argv[1]), who=sys.argv[2]): print(flush=True); time.sleep(600)"
    monkeypatch.setattr(runs, "PATIENCE_S", 1.0)
    argv = [sys.executable, "-c", code, str(lock), replace(dead, started=1).dump()]
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE) as worker:
        assert worker.stdout
        worker.stdout.readline()
        messages: list[str] = []
        with runs.alone(messages.append, lock):
            assert worker.wait(WITHIN_S) == -signal.SIGKILL
    assert f"process {worker.pid} (" in messages[1]


def test_waiting_for_a_live_run_has_a_limit(folder: Path) -> None:
    lock, messages = folder / "lock", list[str]()
    with locked(lock, who=runs.this_run(["hearth", "up"]).dump()) as held:
        with (
            pytest.raises(runs.BusyError, match=r"^another run is active .*`hearth up`") as seen,
            runs.alone(messages.append, lock, within_s=0.5),
        ):
            pytest.fail("two at once")
        assert "\n" not in str(seen.value)
        (waits,) = messages
        assert waits.startswith("waiting for another run to finish: ")
        with pytest.raises(runs.BusyError), runs.alone(messages.append, lock):
            pytest.fail("two at once")
        assert len(messages) == 1
        assert os.fstat(held)


def test_a_remote_run_that_sends_settings_is_not_taken_for_a_killed_run(folder: Path) -> None:
    lock = folder / "lock"
    lock.write_text(runs.this_run(["hearth", "up"]).dump())
    code = "import sys, time; from hearth.remote import program\n"
    code += "with program._alone(sys.argv[1], 5): time.sleep(600)"
    argv = [sys.executable, "-c", code, str(lock)]
    with subprocess.Popen(argv, cwd=ROOT, start_new_session=True) as bringer:
        try:
            deadline = time.monotonic() + WITHIN_S
            while "settings" not in lock.read_text():
                assert time.monotonic() < deadline
                time.sleep(0.05)
            with pytest.raises(runs.BusyError) as seen, runs.alone(pytest.fail, lock):
                pytest.fail("two at once")
        finally:
            os.killpg(bringer.pid, signal.SIGKILL)
    assert str(seen.value) == (f"another run is active on this machine: {program._HOLDER}")


def test_a_command_of_several_lines_is_one_in_the_lock() -> None:
    run = runs.this_run(["/usr/bin/ansible-playbook", "-e", '{\n "a":\n 1\n}'])
    assert runs.read(run.dump()) == run
    assert "\n" not in str(run)


@pytest.mark.parametrize(("name", "enabled"), [("own.yml", "one_run"), ("site.yml", "another")])
def test_neither_another_name_nor_another_list_of_callbacks_avoids_the_lock(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, enabled: str
) -> None:
    (folder / "own.yml").write_text("- name: Mine\n  import_playbook: site.yml\n")
    (folder / "go").touch()
    monkeypatch.setenv("ANSIBLE_CALLBACKS_ENABLED", enabled)
    with locked(folder / "lock", who=runs.this_run(["hearth", "up"]).dump()):
        output, _ = (second := play(folder, name)).communicate(timeout=WITHIN_S)
    assert second.returncode == 1, output
    assert "another run is active on this machine" in output
    assert "TASK" not in output


def stuck_with(mark: str) -> subprocess.Popen[bytes]:
    """Start what does not end by itself, and return when it can be found by its mark."""
    process = subprocess.Popen(["/bin/sleep", "600"], env={runs.MARK: mark})
    # For a moment a program that has just been started shows neither words nor environment.
    environment, deadline = Path(f"/proc/{process.pid}/environ"), time.monotonic() + WITHIN_S
    while environment.read_text() != f"{runs.MARK}={mark}\0":
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return process


def test_a_process_that_does_not_end_is_killed(folder: Path) -> None:
    lock = (folder / "lock").open("w")
    machine = runs.scope(lock.fileno())
    with stuck_with(f"{machine}.1.2") as stuck:
        messages: list[str] = []
        runs.outlast(machine, "3.4", messages.append, patience_s=0)
        assert stuck.wait(WITHIN_S) == -signal.SIGKILL
    lock.close()
    assert len(messages) == 2, messages
    assert all(f"process {stuck.pid} (/bin/sleep 600)" in line for line in messages), messages


def test_an_unkillable_process_is_reported_once_and_does_not_block_for_ever(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "_kill", lambda pid: None)
    monkeypatch.setattr(runs, "_KILLED_S", 3 * runs._LOOK_AGAIN_S)
    messages: list[str] = []
    with (folder / "lock").open("w") as lock:
        machine = runs.scope(lock.fileno())
        with stuck_with(f"{machine}.1.2") as stuck:
            with pytest.raises(runs.BusyError, match=f"process {stuck.pid} .* does not end"):
                runs.outlast(machine, "3.4", messages.append, patience_s=0)
            stuck.kill()
    assert [line.partition(" ")[0] for line in messages] == ["a", "killed"]


def test_the_longest_thing_is_waited_for() -> None:
    # An image is built, and then imported.
    assert runs.PATIENCE_S > 2 * images.BUILD_LIMIT_S


def test_processes_of_guests_are_ignored(folder: Path) -> None:
    lock = (folder / "lock").open("w")
    machine = runs.scope(lock.fileno())
    left = [stuck_with(mark) for mark in (f"{machine}.3.4", "other.1.2")]
    assert list(runs.left_at_work(machine, "3.4")) == []
    assert list(runs.left_at_work(machine, "9.9")) == [left[0].pid]
    for process in left:
        process.kill()
        process.wait()
    lock.close()
