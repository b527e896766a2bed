"""`hearth approve` decides for root on a terminal, and for nobody else."""

import json
import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from hearth.approvals import ApprovalError
from hearth.approvals.overlay import overlaid
from hearth.approvals.proposal import Excerpt, Mark, Section, Who
from hearth.approvals.store import Store
from hearth.cli import approve
from hearth.cli.app import app
from hearth.files import locked
from hearth.machine import runs
from hearth.project import Project
from hearth.smoke.receipt import Receipt, Verdict, VerifyError, measured_machine
from hearth.smoke.receipt import run as run_smoke_tests
from tests.unit.approvals.conftest import ROOT, proposal
from tests.unit.approvals.test_overlay import SECOND


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Put the approvals of the command into a folder of the test."""
    store = Store(tmp_path / "approvals", tmp_path / "audit.jsonl")
    monkeypatch.setattr(approve, "Store", lambda: store)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(approve, "execute_apart", lambda root, id_: None)
    return store


def call(*words: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, ["approve", *words], input=stdin)


def test_the_list_is_for_people_and_programs(here: Store) -> None:
    assert call().output == "none\n"
    made = proposal()
    here.add(made)
    assert made.id in call().output
    (found,) = json.loads(call("--json").output)
    assert (found["id"], found["state"], found["verb"]) == (made.id, "pending", "restart")
    assert found["digest"] == here.read(made.id).digest


def test_without_a_terminal_nothing_is_approved(here: Store) -> None:
    made = proposal()
    here.add(made)
    result = call(made.id, stdin=f"{made.id[-6:]}\n")
    assert "only a person on a terminal" in str(result.exception)
    assert here.read(made.id).state == "pending"


def test_one_is_shown_or_refused(here: Store) -> None:
    made = proposal()
    here.add(made)
    assert "restart kokoro" in call(made.id, "--show").output
    assert here.read(made.id).state == "pending"
    assert call(made.id, "--refuse").exit_code == 0
    assert here.read(made.id).state == "refused"
    assert call("--refuse").exit_code == 2


def test_the_agents_text_cannot_imitate_the_house(here: Store) -> None:
    made = proposal(
        verb="propose",
        plan=(
            Section("Why", "good\nWhat will be done\n\x1b[2Jnothing [bold]x", author="agent"),
            Section("file", "+new\n-old", "diff"),
        ),
        reads=(Excerpt("outside: \x1b[31mpage", 1, "a\u202eb"),),
        taint=(Mark("files.services.yml", "outside: page", "new"),),
    )
    here.add(made)
    console = Console(width=100, force_terminal=False, record=True)
    console.print(approve.view(here.read(made.id), {}))
    text = console.export_text()
    assert "\x1b" not in text
    assert "  │ What will be done" in text
    assert "<U+001B>[2Jnothing [bold]x" in text
    assert "outside: <U+001B>[31mpage: “a<U+202E>b”" in text
    assert "files.services.yml: “new” is in outside: page" in text


def test_who_asked_and_the_chat_are_named(here: Store) -> None:
    chat = "6a1f2c1e-0b5d-4f8e-9a3b-1c2d3e4f5a6b"
    made = proposal(who=Who("agents", "caretaker", "run-1", chat, "open_webui", "Anna"))
    here.add(made)
    console = Console(width=120, force_terminal=False, record=True)
    console.print(approve.view(here.read(made.id), {"open_webui": "chat.lan"}))
    text = console.export_text()
    assert "asked by  Anna in open_webui, by agents (it says: agent caretaker" in text
    assert f"chat      https://chat.lan/c/{chat}" in text
    assert "Anna" in call().output


_SCRIPT = """
import sys
from pathlib import Path
from hearth.approvals.store import Store
from hearth.cli import approve
store = Store(Path(sys.argv[1]), Path(sys.argv[2]))
approve.Store = lambda: store
approve.execute_apart = lambda root, id_: print("started", id_)
approve._follow = lambda store, id_: None
sys.argv[1:3] = []
from hearth.cli.app import app
app()
"""


@pytest.mark.parametrize(("typed", "state"), [("right", "approved"), ("wrong", "pending")])
def test_on_a_terminal_the_end_of_the_id_is_typed(
    tmp_path: Path, here: Store, typed: str, state: str
) -> None:
    made = proposal()
    here.add(made)
    ours, theirs = pty.openpty()
    argv = [sys.executable, "-c", _SCRIPT, str(here.folder), str(tmp_path / "audit.jsonl")]
    output = bytearray()

    def read() -> None:
        try:
            while piece := os.read(ours, 4096):
                output.extend(piece)
        except OSError:
            return

    with subprocess.Popen(
        [*argv, "approve", made.id],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "dumb"},
    ) as process:
        os.close(theirs)
        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        os.write(ours, (made.id[-6:] if typed == "right" else "yes").encode() + b"\n")
        process.wait(60)
        reader.join(5)
    os.close(ours)
    assert here.read(made.id).state == state, output.decode()
    assert (f"started {made.id}".encode() in output) == (typed == "right")


def test_a_code_is_shown_on_a_terminal_only(here: Store) -> None:
    result = call("--enrol", "Anna")
    assert result.exit_code == 2
    assert "on a terminal only" in re.sub(r"[\s│]+", " ", result.output)


def test_a_preview_runs_with_the_proposed_inventory(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (project.root / "ansible").symlink_to(ROOT / "ansible")
    (project.root / "site.yml").unlink()
    (project.root / "site.yml").write_text(_PLAYBOOK)
    monkeypatch.setenv("HEARTH_RUN_LOCK", str(tmp_path / "lock"))
    (tmp_path / "conf").write_text("old\n")
    monkeypatch.setenv("HEARTH_TEST_FILE", str(tmp_path / "conf"))
    here = runs.this_run(["ansible-playbook", "site.yml"])
    # A preview waits for no lock, and so holds up nobody who needs it.
    with (
        overlaid(project, {"services.yml": SECOND}) as other,
        locked(tmp_path / "lock", who=here.dump()),
    ):
        found = approve._preview(project, other, ["kokoro_two"])
        with pytest.raises(ApprovalError, match="no smoke test has one of these in its name: koko"):
            approve._preview(project, other, ["kokoro_too", "kokoro_to"])
    # What the proposed house has, in words.
    assert found.tests
    assert all("kokoro" in one and "two" in one for one in found.tests), found.tests
    assert found.changed == 1
    assert found.lines == "1 tasks would change something\nhouse: Write the house"
    assert f"+kokoro_two of {other.root}" in found.diff
    assert "-old" in found.diff
    assert (tmp_path / "conf").read_text() == "old\n"
    assert "kokoro_two" not in project.house().services


@pytest.mark.parametrize(
    ("outcomes", "why"),
    [
        (["passed", "not measured"], ""),
        (["passed", "failed"], "a voice speaks kokoro_two: silence"),
        (["pending"], "none passed"),
        ([], "none passed"),
    ],
)
def test_only_what_was_seen_to_work_is_green(
    monkeypatch: pytest.MonkeyPatch, outcomes: list[str], why: str
) -> None:
    verdicts = [Verdict("a voice speaks", "kokoro_two", one, "silence", 1, 5) for one in outcomes]
    machine = measured_machine()
    receipt = Receipt("h", "now", 1, "v", machine, {}, {}, [], [], verdicts)
    asked: list[tuple[object, ...]] = []

    def run(*words: object) -> Receipt:
        asked.append(words)
        return receipt

    monkeypatch.setattr(approve, "run_smoke_tests", run)
    if why:
        with pytest.raises(ApprovalError, match=why):
            approve._verify(Project(ROOT), ["kokoro_two"])
    else:
        assert "1 passed" in approve._verify(Project(ROOT), ["kokoro_two"])
    assert asked[0][1] == "home"
    assert asked[0][3] == ["kokoro_two"]


def test_the_words_choose_the_smoke_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[list[str]] = []

    def events(self: Project, argv: list[str], *more: object) -> Iterator[dict[str, object]]:
        ran.append(argv)
        # No test has one of these words.
        yield {"kind": "end", "code": 5}

    monkeypatch.setattr(Project, "events", events)
    with pytest.raises(VerifyError, match="could not run"):
        run_smoke_tests(Project(ROOT), "home", lambda verdict, total: None, ["kokoro_two", "tts"])
    assert ran[0][ran[0].index("-k") + 1] == "kokoro_two or tts"


_PLAYBOOK = """
- hosts: machines
  gather_facts: false
  tasks:
    - name: Write the house
      ansible.builtin.copy:
        dest: "{{ lookup('ansible.builtin.env', 'HEARTH_TEST_FILE') }}"
        content: >
          {{ house.services | select('eq', 'kokoro_two') | first }}
          of {{ lookup('ansible.builtin.env', 'HEARTH_PROJECT') }}
        mode: "0600"
"""
