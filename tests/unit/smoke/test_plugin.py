"""Our outcomes are neither passed nor failed, and every verdict reaches the receipt."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hearth.clients.models import AliasState
from hearth.smoke.plugin import Pending, _promise, wait_for

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


def run(folder: Path, text: str, *options: str) -> tuple[int, str, list[dict[str, Any]]]:
    (folder / "test_it.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\n")
    events = folder / "events"
    argv = [sys.executable, "-m", "pytest", "-p", "hearth.smoke.plugin", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*argv, *options, f"--hearth-events={events}", str(folder)],
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
    names = ["fine", "waits", "cannot tell", "in set up", "is broken ollama"]
    assert events[0] == {"kind": "start", "tests": 5, "names": names}
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


def test_the_first_failure_of_a_unit_has_its_distinct_last_lines(tmp_path: Path) -> None:
    text = """
import pytest
from hearth.machine import engine, systemd

requests = []

def journal(*what):
    requests.append(what)
    if what[0] is None:
        raise engine.EngineError("this machine: no journal")
    return [f"12:{n:02} box ollama[7]: {text}" for n, text in enumerate(TEXTS)]

TEXTS = [*(f"old {n}" for n in range(20)), "refused", "refused", "out of memory", "refused"]
systemd.journal = journal

@pytest.mark.unit("ollama", "ollama.service")
@pytest.mark.parametrize("alias", ["fast", "local"])
def test_alias(alias): assert False, "no answer"

@pytest.mark.unit("ollama", "ollama.service")
@pytest.mark.unit(None, "caddy.service")
def test_both(): assert False, "no answer"

def test_which_journals_are_read():
    assert requests == [("ollama", "ollama.service", 30), (None, "caddy.service", 30)]
"""
    _, output, events = run(tmp_path, text)
    assert [e["outcome"] for e in events[1:-1]] == ["failed", "failed", "failed", "passed"], output
    first, again, both, passed = (event["journal"] for event in events[1:-1])
    lines = first.pop("ollama.service of ollama")
    assert [line.partition("]: ")[2] for line in lines[-3:]] == [
        "old 19",
        "out of memory",
        "refused",
    ]
    assert len(lines) == 10
    assert lines[-1].startswith("12:23 ")
    assert (first, again, passed) == ({}, {}, {})
    assert both == {"caddy.service of this machine": ["this machine: no journal"]}
    assert output.count("out of memory") == 1


def test_a_decisive_failure_ends_the_run(tmp_path: Path) -> None:
    text = """
import pytest

def test_before(): pass
@pytest.mark.decisive
def test_links(): assert False, "no instance reaches another"
def test_after(): pass
"""
    code, _, events = run(tmp_path, text)
    assert code == 1
    assert [(e["promise"], e["outcome"], e["detail"]) for e in events[1:-1]] == [
        ("before", "passed", ""),
        ("links", "failed", "no instance reaches another"),
    ]
    assert events[-1]["kind"] == "notes"
    # What passes decides nothing.
    _, _, events = run(tmp_path, text.replace("assert False", "assert True"))
    assert len(events) == 5


HANGS = """
import asyncio, signal, time
from concurrent.futures import ThreadPoolExecutor

POOL = ThreadPoolExecutor()

def test_fine(notes): notes.remark("kept")

def test_hangs():
    # The deadline passes now.
    signal.setitimer(signal.ITIMER_REAL, 0.1, 1)
    {hang}

def test_after(): pass
def test_last(): pass
"""
WAYS = {
    "swallows": "\n    ".join(["try: time.sleep(300)", "except Exception: time.sleep(300)"]),
    "thread": "POOL.submit(time.sleep, 300).result()",
    "loop": "asyncio.run(asyncio.sleep(300))",
}


@pytest.mark.parametrize("way", WAYS)
def test_the_run_ends_in_time_whatever_hangs(tmp_path: Path, way: str) -> None:
    text = HANGS.replace("{hang}", WAYS[way])
    code, output, events = run(tmp_path, text, "--hearth-limit=600")
    assert code == 1, output
    assert [(e["promise"], e["outcome"], e["detail"]) for e in events[1:-1]] == [
        ("fine", "passed", ""),
        ("hangs", "failed", "stopped after 600 s, when the run had to end; 2 tests were not run"),
    ]
    assert events[-1]["remarks"] == ["kept"]


def test_after_the_deadline_no_further_test_starts(tmp_path: Path) -> None:
    # It passes between two tests.
    between = """
@__import__("pytest").hookimpl(trylast=True)
def pytest_runtest_logfinish(nodeid):
    if "fine" in nodeid: signal.raise_signal(signal.SIGALRM)
"""
    (tmp_path / "conftest.py").write_text("import signal" + between)
    text = HANGS.replace("{hang}", "raise SystemError")
    code, _, events = run(tmp_path, text, "--hearth-limit=600")
    assert code == 1
    assert [(e["promise"], e["outcome"]) for e in events[1:-1]] == [
        ("fine", "passed"),
        ("hangs", "failed"),
    ]
    assert "2 tests were not run" in events[2]["detail"]


def test_a_download_that_fails_is_pending_for_a_day() -> None:
    state = AliasState("fast", "pending", 40, None, "a: cut", "a")
    with pytest.raises(Pending, match="a: cut"):
        wait_for(state)
    with pytest.raises(pytest.fail.Exception, match="a has failed since 2026-01-01"):
        wait_for(replace(state, failing_since="2026-01-01T00:00:00+00:00"))
