"""Our outcomes are neither passed nor failed, and every verdict reaches the receipt."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hearth.smoke.plugin import _promise

TESTS = """
import pytest
from hearth.smoke.plugin import NotMeasured, Pending

@pytest.fixture
def downloading():
    raise Pending(40, "qwen3.5:4b is being downloaded")

def test_fine(notes):
    notes.figure("first token", "ms", [1.0, 2.0])
    notes.versions["ollama"] = "0.35.0"

def test_waits(): raise Pending(30, "still coming")
def test_cannot_tell(): raise NotMeasured("no GPU here")
def test_in_set_up(downloading): raise AssertionError("never run")
@pytest.mark.parametrize("who", ["ollama"])
def test_is_broken(who): assert 1 == 2, "the second line\\nis left out"
"""
BREAK = "def test_is_broken"


def run(folder: Path, text: str) -> tuple[int, str, list[dict[str, Any]]]:
    (folder / "test_it.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\n")
    events = folder / "events"
    argv = [sys.executable, "-m", "pytest", "-p", "hearth.smoke.plugin", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*argv, f"--hearth-events={events}", str(folder)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout, [json.loads(x) for x in events.read_text().splitlines()]


def test_every_verdict_is_written_with_its_outcome(tmp_path: Path) -> None:
    code, output, events = run(tmp_path, TESTS)
    assert code == 1
    assert "1 failed, 1 passed, 2 pending, 1 not measured" in output
    assert (
        "PENDING, 30 %"
        in subprocess.run(
            [sys.executable, "-m", "pytest", "-v", "-p", "hearth.smoke.plugin", str(tmp_path)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        ).stdout
    )
    assert events[0] == {"kind": "start", "tests": 5}
    verdicts = {
        e["promise"]: (e["about"], e["outcome"], e["percent"], e["detail"]) for e in events[1:-1]
    }
    assert verdicts == {
        "fine": ("", "passed", None, ""),
        "waits": ("", "pending", 30, "still coming"),
        "cannot tell": ("", "not measured", None, "no GPU here"),
        "in set up": ("", "pending", 40, "qwen3.5:4b is being downloaded"),
        "is broken": ("ollama", "failed", None, "the second line"),
    }
    assert events[-1]["figures"][0]["median"] == 1.5
    assert events[-1]["versions"] == {"ollama": "0.35.0"}


def test_the_name_of_a_test_reads_as_a_sentence() -> None:
    promise = _promise("test_the_houses_ca_is_used_for_https")
    assert promise == "the house's CA is used for HTTPS"


def test_without_a_failure_the_run_is_good(tmp_path: Path) -> None:
    code, _, events = run(tmp_path, TESTS[: TESTS.index("@pytest.mark.parametrize")])
    assert code == 0
    assert len(events) == 6


@pytest.mark.parametrize("journal", [["12:00 out of memory"]])
def test_a_failure_carries_the_journal_of_its_service(tmp_path: Path, journal: list[str]) -> None:
    text = f"""
import pytest
from hearth.machine import systemd

requests = []
systemd.journal = lambda *what: requests.append(what) or {journal}

@pytest.mark.unit("ollama", "ollama.service")
def test_service(): assert False, "no answer"

@pytest.mark.unit(None, "caddy.service")
def test_part(): assert False, "no answer"

def test_which_journals_are_read():
    assert requests == [("ollama", "ollama.service", 30), (None, "caddy.service", 30)]
"""
    _, output, events = run(tmp_path, text)
    assert [e["outcome"] for e in events[1:-1]] == ["failed", "failed", "passed"], output
    assert [e["journal"] for e in events[1:-1]] == [journal, journal, []]
    assert output.count("12:00 out of memory") == 2
