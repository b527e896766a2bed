"""The harness chooses kills that can be repeated, and sees what a killed run leaves wrong."""

import re
import time
from pathlib import Path

import pytest

from tests.kill import kills, look, state
from tests.kill.houses import Bare
from tests.kill.sweep import plan


def test_a_kill_is_parsed_from_its_text() -> None:
    kill = kills.parse("tree:57+120")
    assert kill == kills.Kill("tree", "57", 120)
    assert kills.parse(str(kill)) == kill
    assert kills.parse("power:reload") == kills.Kill("power", "reload", 0)


@pytest.mark.parametrize("text", ["", "tree", "tree:", "nobody:5", "tree:nowhere"])
def test_an_unknown_word_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="a kill is"):
        kills.parse(text)


def test_a_kill_is_chosen_by_the_commit_and_repeated_by_a_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("HEARTH_KILL", raising=False)
    first = kills.chosen("there", 100)
    assert first == kills.chosen("there", 100)
    assert {kills.chosen(f"run {n}", 100) for n in range(20)} != {first}
    assert all(1 <= int(kills.chosen(f"run {n}", 9).place) <= 9 for n in range(50))
    monkeypatch.setenv("HEARTH_KILL", "power:3+4")
    assert kills.chosen("there", 100) == kills.Kill("power", "3", 4)


def test_a_sweep_tries_all_kinds_over_the_whole_run() -> None:
    chosen = list(plan(43, [400, 300], ["reload"], "seed"))
    assert len(chosen) == 43
    assert [kill.place for kill in chosen[:4]][:3] == ["reload"] * 3
    assert {kill.kind for kill in chosen[:3]} == set(kills.KINDS)
    for kind in kills.KINDS:
        events = [int(k.place) for k in chosen if k.kind == kind and k.place.isdigit()]
        assert len(events) >= 13
        assert min(events) < 80
        assert max(events) > 250
    assert chosen != list(plan(43, [400, 300], ["reload"], "another"))


def test_few_kills_hit_different_places() -> None:
    chosen = list(plan(6, [900], Bare.places, "seed"))
    assert [kill.place for kill in chosen] == list(Bare.places)
    assert {kill.kind for kill in chosen} == set(kills.KINDS)


def test_differences_and_faults_are_reported() -> None:
    good = {
        "files / /etc/a": "1",
        "units / a.service / ActiveState": "active",
        "units / a.service / older than": "",
        "units / hearth-backup.service / ActiveState": "inactive",
        "caddy": "as its file",
    }
    assert state.differences(good, good) == []
    bad = {
        "files / /etc/a": "2",
        "units / a.service / ActiveState": "active",
        "units / a.service / older than": "/etc/a",
        "caddy": "not as its file",
    }
    assert state.differences(good, bad) == [
        "caddy: not as its file, and was as its file",
        "files / /etc/a: 2, and was 1",
        "units / a.service / older than: /etc/a, and was ",
        "units / hearth-backup.service / ActiveState: nothing, and was inactive",
        "caddy: not as its file",
        "units / a.service / older than: /etc/a",
    ]


def test_a_process_that_is_older_than_its_file_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unit, config = tmp_path / "etc/a.service", tmp_path / "etc/a.conf"
    unit.parent.mkdir()
    config.write_text("x")
    unit.write_text(f"[Service]\nExecStart=/bin/a --config={config}\n")
    # After whatever this test is still going to change.
    began = time.time() + 3600
    assert look.newer(unit, began) == []
    program = tmp_path / "opt/hearth/a"
    program.mkdir(parents=True)
    (program / "current").symlink_to("one")
    unit.write_text(f"[Service]\nExecStart={program}/current/bin/a --config={config}\n")
    monkeypatch.setattr(look, "READS", re.compile(rf"{tmp_path}/(?:etc|opt/hearth)/[\w./-]*\w"))
    assert look.newer(unit, began) == []
    before = config.lstat().st_ctime - 1
    assert look.newer(unit, before) == sorted([str(unit), str(config), str(program / "current")])


def test_systemds_time_is_parsed() -> None:
    assert look.seconds("Sun 2026-11-22 04:57:10.250000 UTC") == 1795323430.25
    assert look.seconds("n/a") == 0
    assert look.seconds("") == 0
