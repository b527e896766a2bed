"""Two runs of site.yml never work on one machine at once, and a killed one leaves no lock."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

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
WITHIN_S = 30


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


def play(folder: Path, name: str = "site.yml") -> subprocess.Popen[str]:
    environment = os.environ | {
        "HEARTH_RUN_LOCK": str(folder / "lock"),
        "ANSIBLE_CONFIG": str(folder / "ansible.cfg"),
    }
    program = str(Path(sys.executable).with_name("ansible-playbook"))
    return subprocess.Popen(
        [program, name],
        cwd=folder,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def arrived(folder: Path, times: int) -> None:
    """Return when so many runs have reached their task."""
    deadline = time.monotonic() + WITHIN_S
    here = folder / "here"
    while not here.exists() or len(here.read_text()) < times:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def end(folder: Path, *runs: subprocess.Popen[str]) -> list[int]:
    (folder / "go").touch()
    for run in runs:
        run.communicate(timeout=WITHIN_S)
    return [run.returncode for run in runs]


def test_a_second_run_ends_in_one_line_that_names_the_first(folder: Path) -> None:
    first = play(folder)
    arrived(folder, 1)
    said, _ = (second := play(folder)).communicate(timeout=WITHIN_S)
    assert second.returncode == 1
    line = " ".join(said.split())
    assert "another run is at work on this machine: " in line, said
    assert f"process {first.pid}, " in line, said
    assert "TASK" not in said
    other = play(folder, "other.yml")
    arrived(folder, 2)
    assert end(folder, first, other) == [0, 0]


def test_the_lock_dies_with_a_killed_run_and_its_last_task(folder: Path) -> None:
    first = play(folder)
    arrived(folder, 1)
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate(timeout=WITHIN_S)
    # Its task still works on the machine, in a session of its own.
    said, _ = play(folder).communicate(timeout=WITHIN_S)
    assert f"process {first.pid}, or what it started, " in " ".join(said.split())
    (folder / "go").touch()
    deadline = time.monotonic() + WITHIN_S
    while end(folder, play(folder)) != [0]:
        assert time.monotonic() < deadline
