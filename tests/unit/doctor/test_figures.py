"""What the watcher writes for Prometheus: processes, and the canary's results."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hearth.catalogue import derive, load
from hearth.clients import canary
from hearth.doctor import background, snapshot

INVENTORY = Path(__file__).parents[3] / "inventory"

ONE = {"what": "speech of kokoro", "ok": True, "seconds": 0.4, "at": 1.0, "text": "2.0 s of sound"}


# Of several labels, the one that tells series apart here.
LABELS = ("what", "outcome", "name")


def written(path: Path, *results: Any) -> Path:
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    path.write_text(json.dumps({"made_boot_s": now, "results": results}))
    return path


def figures(
    *canary: dict[str, Any], rows: tuple[Any, ...] = (), requests: Any = None
) -> dict[tuple[str, str], float]:
    empty = {"run": None, "receipt": None, "backup": None, "made": 1.0}
    lists = {"rows": [*rows], "findings": [], "loaded": [], "machine": {"certificates": {}}}
    counted = {"canary": [*canary], "requests": requests or {}}
    page = snapshot.metrics({**empty, **lists, **counted})
    return {
        (sample.name, next(filter(None, map(sample.labels.get, LABELS)))): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.labels
    }


def test_each_program_has_the_usual_figures_of_a_process() -> None:
    row = {
        "name": "ollama",
        "kind": "service",
        "up": True,
        "state": "",
        "memory_bytes": 7,
        "cpu_s": 1.5,
    }
    down = {**row, "name": "login", "up": False, "memory_bytes": 0, "cpu_s": 0.0}
    assert figures(rows=(row, down)) == {
        ("hearth_up", "ollama"): 1.0,
        ("hearth_up", "login"): 0.0,
        ("hearth_memory_bytes", "ollama"): 7.0,
        ("hearth_cpu_seconds_total", "ollama"): 1.5,
    }


def test_requests_of_parts_that_count_them_become_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    house = derive(load(INVENTORY))
    answers: dict[str, Any] = {"http://127.0.0.1:9180/status": {"requests": {"done": 3, "busy": 0}}}
    monkeypatch.setattr(background, "get_json", lambda url, _: answers[url])
    found = background.requests(house)
    assert figures(requests=found) == {
        ("hearth_requests_total", "done"): 3.0,
        ("hearth_requests_total", "busy"): 0.0,
    }
    wrong: tuple[Any, ...] = ({}, {"requests": 3}, {"requests": {"done": "many"}}, [])
    for odd in wrong:
        answers["http://127.0.0.1:9180/status"] = odd
        assert background.requests(house) == {}
    many = {str(number): 1 for number in range(100_000)}
    answers["http://127.0.0.1:9180/status"] = {"requests": many}
    assert len(background.requests(house)["login"]) == 12


def test_results_become_figures(tmp_path: Path) -> None:
    failed = {**ONE, "what": 'one token of "x"', "ok": False, "seconds": None}
    busy = {**ONE, "what": "transcription by whisper", "ok": None, "seconds": None}
    path = written(tmp_path / "canary.json", ONE, failed, busy)
    found = figures(*canary.read(path).results)
    assert found == {
        ("hearth_canary_ok", "speech of kokoro"): 1.0,
        ("hearth_canary_seconds", "speech of kokoro"): 0.4,
        ("hearth_canary_ok", 'one token of "x"'): 0.0,
    }


@pytest.mark.parametrize(
    "results",
    [
        ["x"],
        [{**ONE, "what": None, "ok": []}],
        [{**ONE, "seconds": "soon"}],
        [{"what": "x"}],
        [{**ONE, "text": "x" * 2**20}],
    ],
)
def test_what_is_no_result_is_ignored(tmp_path: Path, results: list[Any]) -> None:
    assert canary.read(written(tmp_path / "canary.json", *results)).results == []


def test_a_text_cannot_control_a_terminal_and_is_short(tmp_path: Path) -> None:
    wild = {**ONE, "what": "a\n\x1b[2Jb", "text": "y" * 10_000}
    (one,) = canary.read(written(tmp_path / "canary.json", wild)).results
    assert one["what"].isprintable()
    assert len(one["text"]) < 500


def test_results_are_bounded_in_number(tmp_path: Path) -> None:
    many = [{**ONE, "what": str(number)} for number in range(500)]
    assert len(canary.read(written(tmp_path / "canary.json", *many)).results) == 50


def test_a_service_last_worked_when_the_canary_says(tmp_path: Path) -> None:
    path = written(tmp_path / "canary.json", ONE)
    document = json.loads(path.read_text())
    worked = {"kokoro": {"kind": "speech", "at": 7.0}, "new\n": {"kind": "dance", "at": 8.0}}
    path.write_text(json.dumps({**document, "worked": worked}))
    assert canary.read(path).worked == {
        "kokoro": canary.Work("spoke", 7.0),
        "new": canary.Work("worked", 8.0),
    }
    for odd in (3, {"kokoro": 3}, {"kokoro": {"kind": [], "at": 1}}, {"kokoro": {"kind": "model"}}):
        path.write_text(json.dumps({**document, "worked": odd}))
        assert canary.read(path) == canary.Canary()


def test_there_may_be_no_results(tmp_path: Path) -> None:
    assert canary.read(tmp_path / "nothing.json").results == []
    (tmp_path / "half.json").write_text('{"made_boot_s": 1, "resul')
    assert canary.read(tmp_path / "half.json").results == []
