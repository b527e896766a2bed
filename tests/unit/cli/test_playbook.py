"""The display shows each step, hides secrets, and ends a failure in one line and a log."""

import io
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from hearth.cli.playbook import PlaybookError, run
from hearth.files import locked
from hearth.machine import runs
from hearth.project import Project

GOOD = """
- name: Try
  hosts: all
  gather_facts: false
  tasks:
    - name: Change something
      ansible.builtin.command: "true"
      changed_when: true
    - name: Look only
      ansible.builtin.command: "true"
      changed_when: false
    - name: Be left out
      ansible.builtin.command: "true"
      when: false
"""
MODULE = """
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule({}, supports_check_mode=True)
module.warn("there is a card, but not its tool")
module.exit_json(changed=True, did=["write /etc/a"], planned=["ollama"])
"""
PROBLEMS = """
from ansible.module_utils.basic import AnsibleModule
AnsibleModule({}).fail_json(msg="port 53 is held by named\\nport 80 is held by nginx [1]")
"""
MINE = """
- name: Try
  hosts: all
  gather_facts: false
  tasks:
    - name: Do it
      mine:
"""
BAD = """
- name: Try
  hosts: all
  gather_facts: false
  tasks:
    - name: {name}
      ansible.builtin.fail:
        msg: "port 53 is taken by named.service"
      no_log: {hidden}
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "ansible.cfg").write_text("[defaults]\ninventory = hosts\n")
    (tmp_path / "hosts").write_text(
        f"house ansible_connection=local ansible_python_interpreter={sys.executable}\n"
    )
    return Project(tmp_path)


def failure_of(project: Project, text: str) -> tuple[str, str]:
    """Run a playbook that fails; return the output in the terminal and the text of the error."""
    (project.root / "site.yml").write_text(text)
    stream = io.StringIO()
    with pytest.raises(PlaybookError) as error:
        run(project, Console(file=stream, width=120, highlight=False))
    return stream.getvalue(), str(error.value)


def test_what_changed_is_shown_with_its_time(project: Project) -> None:
    (project.root / "site.yml").write_text(GOOD)
    stream = io.StringIO()
    steps = run(project, Console(file=stream, width=120, highlight=False))
    output = stream.getvalue()
    # On a busy machine it is also shown while it runs.
    lines = [line for line in output.splitlines() if "…" not in line]
    line = next(line for line in lines if "Change something" in line)
    assert line.split()[1:] == ["s", "Change", "something", "house"]
    assert "Be left out" not in output
    assert (steps.total("ok"), steps.total("changed"), steps.total("failures")) == (2, 1, 0)


def test_a_preview_shows_what_our_modules_would_do(project: Project) -> None:
    (project.root / "library").mkdir()
    (project.root / "library/mine.py").write_text(MODULE)
    (project.root / "ansible.cfg").write_text("[defaults]\ninventory = hosts\nlibrary = library\n")
    (project.root / "site.yml").write_text(MINE)
    for more, shown in (((), False), (("--check",), True)):
        stream = io.StringIO()
        steps = run(project, Console(file=stream, width=120, highlight=False), more)
        assert ("would house: write /etc/a" in stream.getvalue()) is shown
        assert steps.planned == ["ollama"]
        assert stream.getvalue().count("note: there is a card, but not its tool") == 1


def test_a_failure_is_one_line_and_the_log(project: Project) -> None:
    _, failure = failure_of(project, BAD.format(name="Claim the port", hidden="false"))
    reason, log = failure.splitlines()
    assert reason == "house: Claim the port: port 53 is taken by named.service"
    path = Path(log.removeprefix("the full log: "))
    assert path.parent == project.root / ".hearth" / "logs"
    assert "TASK [Claim the port]" in path.read_text()


def test_every_message_of_our_modules_is_shown(project: Project) -> None:
    (project.root / "library").mkdir()
    (project.root / "library/mine.py").write_text(PROBLEMS)
    (project.root / "ansible.cfg").write_text("[defaults]\ninventory = hosts\nlibrary = library\n")
    _, failure = failure_of(project, MINE)
    first, second, log = failure.splitlines()
    assert first == "house: Do it: port 53 is held by named"
    assert second == "port 80 is held by nginx [1]"
    assert log.startswith("the full log: ")


def test_what_a_task_hides_stays_hidden(project: Project) -> None:
    output, failure = failure_of(project, BAD.format(name="Write the key", hidden="true"))
    assert failure.startswith("house: Write the key: the task's output is hidden")
    assert "named.service" not in output + failure


def test_a_playbook_that_cannot_be_read_is_one_line(project: Project) -> None:
    _, failure = failure_of(project, "- nonsense: [")
    assert failure.startswith("Ansible stopped: ")
    assert "the full log: " in failure


def test_another_active_run_is_one_line_and_an_orphan_that_is_waited_for_is_shown(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (project.root / "site.yml").write_text(GOOD)
    plugins = Path(__file__).parents[3] / "ansible/plugins/callback"
    monkeypatch.setenv("ANSIBLE_CALLBACK_PLUGINS", str(plugins))
    monkeypatch.setenv("ANSIBLE_CALLBACKS_ENABLED", "one_run")
    monkeypatch.setenv("HEARTH_RUN_LOCK", str(tmp_path / "lock"))
    monkeypatch.setenv("HEARTH_RUN_RECORD", str(tmp_path / "record"))
    monkeypatch.setenv("SSH_CONNECTION", "192.0.2.7 50000 192.0.2.1 22")
    here = runs.this_run(["/usr/bin/ansible-playbook", "site.yml"])
    with locked(tmp_path / "lock", who=here.dump()) as handle:
        with pytest.raises(PlaybookError) as error:
            run(project, Console(file=io.StringIO(), width=60))
        line = str(error.value).splitlines()[0]
        assert line.startswith("Ansible stopped: "), line
        assert line.endswith(f"another run is active on this machine: {here}"), line
        mark = {runs.MARK: f"{runs.scope(handle)}.1.2"}
    waiting = "a killed run left this running: process "

    class Ends(io.StringIO):
        def write(self, text: str) -> int:
            if waiting in text:
                left.kill()
            return super().write(text)

    with subprocess.Popen(["/bin/sleep", "600"], env=mark) as left:
        stream = Ends()
        run(project, Console(file=stream, width=200, highlight=False))
        assert left.poll() is not None
    assert f"note: {waiting}{left.pid} (/bin/sleep 600); waiting for its end" in stream.getvalue()
