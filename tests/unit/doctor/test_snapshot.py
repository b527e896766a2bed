"""The snapshot and its metrics stay small and valid, whatever is in them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hearth.doctor import snapshot
from hearth.doctor.finding import Finding, Kind
from hearth.doctor.kinds import BY_PROMETHEUS, DISK_LOW
from hearth.status import Row
from tests.unit.doctor.conftest import HOUSE, ROWS

KIND = Kind("HEARTH-DISK-LOW", "warning", "Little room", "It is nearly full.", "Free some.")

FOUND = {"name": "HEARTH-X", "severity": "error", "ignored": False}


def document(**more: Any) -> dict[str, Any]:
    rows = snapshot.rows_as_json(ROWS, snapshot.Memory(), {}, {}, {})
    machine: dict[str, Any] = {"certificates": {}}
    empty: dict[str, Any] = {
        "run": None,
        "receipt": None,
        "backup": None,
        "loaded": [],
        "findings": [],
    }
    none: dict[str, Any] = {"canary": [], "requests": {}}
    return snapshot.stamped({**empty, "rows": rows, "machine": machine, **none, **more})


def parsed(text: str) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_the_document_becomes_what_prometheus_reads() -> None:
    run = {"what": "hearth up", "since": 1.0}
    finding = {"name": "HEARTH-DISK-LOW", "about": '/srv/a "b"\\c\nd', "severity": "warning"}
    loaded = {"name": "llama:1b", "size_bytes": 100, "vram_bytes": 40, "expires": ""}
    down = replace(ROWS[0], up=False)
    found = parsed(
        snapshot.metrics(
            document(
                run=run,
                rows=snapshot.rows_as_json([down, ROWS[1]], snapshot.Memory(), {}, {}, {}),
                findings=[{**finding, "ignored": False}, {**finding, "about": "", "ignored": True}],
                loaded=[loaded],
                backup={"made": 7.0, "text": ""},
                receipt={"made": 8.0},
                machine={"certificates": {"root": 9.0}},
            )
        )
    )
    del found[("hearth_watch_timestamp_seconds",)]
    assert found == {
        ("hearth_run_active",): 1,
        ("hearth_up", down.name, "service"): 0,
        ("hearth_up", ROWS[1].name, "service"): 1,
        ("hearth_finding", "HEARTH-DISK-LOW", '/srv/a "b"\\c\nd', "warning"): 1,
        ("hearth_backup_timestamp_seconds",): 7,
        ("hearth_receipt_timestamp_seconds",): 8,
        ("hearth_certificate_expiry_timestamp_seconds", "root"): 9,
        ("hearth_loaded_model_bytes", "llama:1b", "card"): 40,
        ("hearth_loaded_model_bytes", "llama:1b", "processor"): 60,
    }


def test_what_prometheus_has_found_is_no_figure_for_it() -> None:
    # The rule that reads the figure would never end what the same rule has begun.
    kinds = [*BY_PROMETHEUS.values(), DISK_LOW]
    found = [Finding(kind, "kokoro", "x").as_json() | {"ignored": False} for kind in kinds]
    shown = parsed(snapshot.metrics(document(findings=found)))
    names = [key[1] for key in shown if key[0] == "hearth_finding"]
    assert names == [DISK_LOW.name]


def test_a_label_of_a_megabyte_and_a_hundred_thousand_series_are_bounded() -> None:
    big = [
        {
            "name": "HEARTH-X",
            "about": f"{number} {'x' * 2**20}",
            "severity": "error",
            "ignored": False,
        }
        for number in range(3)
    ]
    many = [{**FOUND, "about": str(number)} for number in range(100_000)]
    text = snapshot.metrics(document(findings=[*big, *many]))
    found = parsed(text)
    assert len(text) < 200_000
    assert len(found) <= 500
    # What matters most comes first, and is never left out.
    assert ("hearth_up", ROWS[-1].name, "part") in found
    assert max(len(label) for key in found for label in key) == 200


def test_two_labels_that_are_equal_once_cut_are_one_series() -> None:
    twice = [{**FOUND, "about": "x" * 300 + end} for end in "ab"]
    text = snapshot.metrics(document(findings=twice))
    assert text.count("hearth_finding{") == 1


def test_a_row_has_the_time_of_its_last_change() -> None:
    memory = snapshot.Memory()
    up, down = Row("kokoro", "service", True, "up", 5), Row("kokoro", "service", False, "gone", 5)
    for now, row in ((10.0, up), (13.0, up), (16.0, down), (19.0, down)):
        memory.note_rows([row], now)
    (shown,) = snapshot.rows_as_json([down], memory, {"kokoro": "1.2"}, {"kokoro": "cpu"}, {})
    assert (shown["changed"], shown["version"], shown["accelerator"]) == (16.0, "1.2", "cpu")
    assert (shown["up"], shown["state"], shown["text"]) == (False, "", "gone")


def test_a_row_that_is_no_more_is_forgotten() -> None:
    memory = snapshot.Memory()
    rows = [Row(name, "service", True, "up", 0) for name in ("kokoro", "open_webui")]
    memory.note_rows(rows, 1)
    memory.forget_others(rows[:1])
    assert (memory.up, memory.changed) == ({"kokoro": True}, {"kokoro": 1})


def test_an_ignored_finding_is_shown_again_when_more_than_its_numbers_change() -> None:
    memory = snapshot.Memory()
    low = Finding(KIND, "/var", "4.93 GiB free on the disk of /var")
    memory.note_findings([low], 10.0)
    memory.ignored[low.key] = snapshot.identity(low)
    memory.note_findings([replace(low, evidence="3 GiB free on the disk of /var")], 20.0)
    assert memory.ignored
    (shown,) = snapshot.findings_as_json([low], memory)
    assert (shown["ignored"], shown["since"]) == (True, 10.0)
    memory.note_findings(
        [replace(low, evidence="4.93 GiB free on the disk of /var: read-only")], 30.0
    )
    assert not memory.ignored


def test_a_finding_that_comes_back_is_new() -> None:
    memory = snapshot.Memory()
    low = Finding(KIND, "/var", "4.9 GiB free")
    memory.note_findings([low], 10.0)
    memory.ignored[low.key] = snapshot.identity(low)
    memory.note_findings([], 20.0)
    memory.note_findings([low], 30.0)
    assert (memory.since[low.key], memory.ignored) == (30.0, {})


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"up": 1}', '{"up": {}, "changed": {"a": "x"}, "since": {}, "ignored": {}}'],
)
def test_what_was_remembered_badly_is_forgotten(text: str, tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_text(text)
    assert snapshot.read_memory(path) == snapshot.Memory()
    assert snapshot.read_memory(tmp_path / "none") == snapshot.Memory()


def test_a_site_is_up_if_its_service_is_and_unknown_before_the_first_look() -> None:
    rows = [replace(row, up=row.name != "kokoro") for row in ROWS if row.name != "whisper"]
    up = {site["name"]: site["up"] for site in snapshot.sites_as_json(HOUSE, rows)}
    assert (up["chat"], up["kokoro-web"], up["whisper"]) == (True, False, None)


def test_a_file_is_replaced_whole_and_only_root_reads_it_until_there_is_the_group(
    tmp_path: Path,
) -> None:
    path = tmp_path / "snapshot.json"
    for mode, group in ((0o600, "hearth-no-such-group"), (0o660, "daemon"), (0o644, "")):
        snapshot.write(path, json.dumps({"mode": mode}), group)
        assert json.loads(path.read_text()) == {"mode": mode}
        assert path.stat().st_mode & 0o777 == mode
    assert [*tmp_path.iterdir()] == [path]
