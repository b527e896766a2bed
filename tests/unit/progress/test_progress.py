"""A step that takes long is shown again before five seconds are over, with what it is doing."""

from __future__ import annotations

import io
import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from hearth import progress
from hearth.cli.console import Display
from hearth.cli.playbook import Steps, run
from hearth.project import Project

ROOT = Path(__file__).parents[3]
ACTION = """
import pathlib
import time
from hearth import progress
from hearth.machine.action import HouseAction

# Ansible's own process imports this file, too: it need not wait as long as a person.
progress.EVERY_S = 0.2

class ActionModule(HouseAction):
    arguments = {}

    def work(self, params, *, write):
        progress.report("weights", "12 of 300 MB")
        shown = pathlib.Path(self._loader.get_basedir(), "shown")
        # As long as it takes until the line is there; a test without one ends.
        for _ in range(600):
            if shown.exists():
                break
            time.sleep(0.05)
        return {"changed": True}
"""
PLAY = """
- name: Try
  hosts: all
  gather_facts: false
  tasks:
    - name: Fetch the weights
      slow:
"""


class Clock:
    """A clock that a test moves."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_long_action_is_never_silent_for_five_seconds(tmp_path: Path) -> None:
    clock, stream = Clock(), io.StringIO()
    steps = Steps(Display(Console(file=stream, width=200), clock), tmp_path / "log")
    steps.handle({"kind": "task", "host": "kokoro", "name": "Converge the server"})
    printed = [clock.now]
    for second in range(85):
        if second == 20:
            detail = {"kind": "detail", "host": "kokoro", "what": "kokoro"}
            steps.handle(detail | {"text": "measured q8 with 2 threads"})
        before = stream.tell()
        # The display's thread looks twice a second.
        for _ in range(2):
            clock.now += 0.5
            steps.shown.show()
        if stream.tell() > before:
            printed.append(clock.now)
    ok = {"kind": "ok", "host": "kokoro", "name": "Converge the server", "changed": True}
    steps.handle(ok | {"did": [], "planned": [], "warnings": []})
    assert max(b - a for a, b in itertools.pairwise(printed)) <= 5
    lines = stream.getvalue().splitlines()
    assert lines[0] == "   4.0 s  … Converge the server  kokoro"
    assert "  24.0 s  … Converge the server  kokoro: kokoro: measured q8 with 2 threads" in lines
    assert lines[-1] == "  85.0 s  Converge the server  kokoro"
    clock.now += 60
    steps.shown.show()
    assert stream.getvalue().splitlines() == lines, "nothing runs any more"


def test_each_of_several_steps_has_a_line() -> None:
    clock = Clock()
    running = progress.Running(clock)
    running.start("whisper", "Install the models")
    clock.now += 2
    running.start("litellm", "Install the environment")
    running.detail("whisper", "small.en", "3 of 480 MB")
    running.detail("whisper", "base.en", "unpacking")
    running.detail("whisper", "small.en", "")
    running.detail("gone", "any", "thing")
    assert running.lines() == [
        "   2.0 s  … Install the models  whisper: base.en: unpacking",
        "   0.0 s  … Install the environment  litellm",
    ]
    assert running.end("whisper") == 2
    assert len(running.lines()) == 1


def test_a_step_that_only_waits_has_a_line_when_nothing_else_has() -> None:
    running = progress.Running(Clock())
    running.start("kokoro", "Wait for the instance")
    running.detail("kokoro", progress.WAITING, "its instance")
    assert running.lines() == [
        "   0.0 s  … Wait for the instance  kokoro: waiting for: its instance"
    ]
    running.start("house", "Converge the instances")
    assert running.lines() == ["   0.0 s  … Converge the instances  house"]
    # It waits, and it has something to tell.
    running.detail("kokoro", "kokoro_voices", "28 of 28 MB")
    assert len(running.lines()) == 2


def test_reports_arrive_and_a_full_pipe_blocks_nobody() -> None:
    reports = progress.Reports()
    reports.write("kokoro", "weights", "1 of 2 MB")
    assert list(reports.read()) == [("kokoro", "weights", "1 of 2 MB")]
    for number in range(20_000):
        reports.write("kokoro", "weights", str(number))
    kept = list(reports.read())
    assert kept[0] == ("kokoro", "weights", "0")
    assert kept[-1][2].isdigit()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A playbook with one long action, and Ansible's plugins as the project has them."""
    for name, text in (("action/slow.py", ACTION), ("modules/slow.py", "")):
        path = tmp_path / "plugins" / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    (tmp_path / "site.yml").write_text(PLAY)
    (tmp_path / "ansible.cfg").write_text(
        "[defaults]\ninventory = hosts\n"
        f"action_plugins = plugins/action\nlibrary = plugins/modules\n"
        f"callback_plugins = {ROOT}/ansible/plugins/callback\n"
    )
    (tmp_path / "hosts").write_text(
        f"house ansible_connection=local ansible_python_interpreter={sys.executable}\n"
    )
    monkeypatch.setenv("HEARTH_RUN_LOCK", "")
    return Project(tmp_path)


LINE = re.compile(r" +\d+\.\d s  … Fetch the weights  house: weights: 12 of 300 MB")


def test_ansible_itself_shows_what_its_worker_reports(project: Project) -> None:
    program = str(Path(sys.executable).with_name("ansible-playbook"))
    environment = os.environ | {"ANSIBLE_CONFIG": "ansible.cfg", "ANSIBLE_NOCOLOR": "1"}
    with subprocess.Popen(
        [program, "site.yml"],
        cwd=project.root,
        text=True,
        stdout=subprocess.PIPE,
        env=environment,
    ) as process:
        assert process.stdout
        text = ""
        for line in process.stdout:
            text += line
            if LINE.match(line):
                (project.root / "shown").touch()
    assert (project.root / "shown").exists(), text
    assert process.returncode == 0, text


def test_the_display_of_up_shows_what_a_worker_reports(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Sees(io.StringIO):
        def write(self, text: str) -> int:
            if LINE.search(text):
                (project.root / "shown").touch()
            return super().write(text)

    plugins = str(ROOT / "ansible/plugins/callback")
    monkeypatch.setenv("ANSIBLE_CALLBACK_PLUGINS", plugins)
    monkeypatch.setattr(progress, "EVERY_S", 0.2)
    stream = Sees()
    run(project, Console(file=stream, width=200, highlight=False))
    assert (project.root / "shown").exists(), stream.getvalue()
