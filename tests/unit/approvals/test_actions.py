"""Restart, start, stop and unload say what they would do, and do just that."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pytest

from hearth.approvals import ApprovalError, actions
from hearth.approvals.arguments import OneModel, OneService, checked
from hearth.clients.loaded import LoadedModel
from hearth.machine.engine import Completed
from hearth.machine.systemd import UnitState
from tests.unit.doctor.conftest import HOUSE


class Units:
    """The units of the house, as a test sets them; notes every command."""

    def __init__(self) -> None:
        self.ran: list[tuple[str | None, str]] = []
        self.active, self.since, self.running = "active", 5, True
        self.models = [LoadedModel("qwen3.5:4b", 2**32, 0, "2030")]

    def execute(self, instance: str | None, argv: Sequence[str], *, timeout: float) -> Completed:
        self.ran.append((instance, " ".join(argv).rpartition("/")[2]))
        return Completed(0, "", "")

    def state(self, instance: str | None, unit: str) -> UnitState:
        return UnitState(self.active, "", "", self.since)


@pytest.fixture
def units(monkeypatch: pytest.MonkeyPatch) -> Units:
    made = Units()
    monkeypatch.setattr("hearth.machine.engine.execute", made.execute)
    monkeypatch.setattr("hearth.machine.engine.is_running", lambda name: made.running)
    monkeypatch.setattr("hearth.machine.systemd.unit_state", made.state)
    monkeypatch.setattr("hearth.doctor.fixes._wait_healthy", lambda owner: None)
    monkeypatch.setattr("hearth.clients.loaded.loaded_models", lambda service: made.models)
    return made


def about(verb: str, name: str) -> tuple[str, OneService | OneModel]:
    known, arguments = checked(verb, {"model" if verb == "unload_model" else "service": name})
    assert isinstance(arguments, OneService | OneModel)
    return known, arguments


def test_a_restart_is_planned_and_done(units: Units) -> None:
    change = actions.plan(*about("restart", "kokoro"), HOUSE)
    assert units.ran == []
    assert change.summary.startswith("restart kokoro.service in the instance kokoro")
    assert (
        change.base["state of kokoro"]
        == f"kokoro.service is active since {datetime.fromtimestamp(5)}"
    )
    assert actions.do(*about("restart", "kokoro"), HOUSE).startswith("restarted kokoro.service")
    assert units.ran == [
        ("kokoro", "systemctl reset-failed kokoro.service"),
        ("kokoro", "systemctl restart kokoro.service"),
    ]


def test_a_part_is_restarted_and_not_stopped(units: Units) -> None:
    assert "on this machine" in actions.plan(*about("restart", "caddy"), HOUSE).summary
    for verb in ("start", "stop"):
        with pytest.raises(ApprovalError, match="can only be restarted"):
            actions.plan(*about(verb, "caddy"), HOUSE)


def test_a_stop_names_who_suffers(units: Units) -> None:
    change = actions.plan(*about("stop", "kokoro"), HOUSE)
    assert "stop kokoro.service in the instance kokoro" in change.summary
    assert "open_webui" in change.summary
    assert actions.do(*about("stop", "kokoro"), HOUSE).startswith("stopped kokoro.service")
    assert units.ran == [("kokoro", "systemctl stop kokoro.service")]
    units.active = "inactive"
    with pytest.raises(ApprovalError, match="is not active"):
        actions.plan(*about("stop", "kokoro"), HOUSE)


def test_a_start_is_of_what_is_off(units: Units) -> None:
    with pytest.raises(ApprovalError, match="is active already"):
        actions.plan(*about("start", "kokoro"), HOUSE)
    units.active = "failed"
    change = actions.plan(*about("start", "kokoro"), HOUSE)
    assert change.summary == "start kokoro.service in the instance kokoro"
    actions.do(*about("start", "kokoro"), HOUSE)
    assert ("kokoro", "systemctl restart kokoro.service") in units.ran


def test_a_model_is_unloaded_by_name(units: Units, monkeypatch: pytest.MonkeyPatch) -> None:
    change = actions.plan(*about("unload_model", "qwen3.5:4b"), HOUSE)
    assert change.summary.startswith("unload qwen3.5:4b from memory")
    sent: list[Any] = []
    monkeypatch.setattr("hearth.clients.loaded._unload", lambda *words: sent.append(words[1]))
    actions.do(*about("unload_model", "qwen3.5:4b"), HOUSE)
    assert sent == ["qwen3.5:4b"]
    units.models = []
    with pytest.raises(ApprovalError, match="is not in memory"):
        actions.plan(*about("unload_model", "qwen3.5:4b"), HOUSE)


def test_what_happened_meanwhile_changes_the_base(units: Units) -> None:
    before = actions.base(*about("restart", "kokoro"), HOUSE)
    assert actions.base(*about("restart", "kokoro"), HOUSE) == before
    units.since = 6
    assert actions.base(*about("restart", "kokoro"), HOUSE) != before
    # One that starts and fails again and again is the same all the time.
    units.active = "failed"
    failed = actions.base(*about("restart", "kokoro"), HOUSE)
    units.active, units.since = "activating", 7
    assert actions.base(*about("restart", "kokoro"), HOUSE) == failed
    units.running = False
    assert actions.base(*about("restart", "kokoro"), HOUSE) != failed
    assert actions.base(*about("restart", "ollama"), HOUSE).keys() != failed.keys()
    units.models = []
    assert "readable" in actions.base(*about("unload_model", "x"), HOUSE)


@pytest.mark.parametrize("name", ["nobody", "kokoro2"])
def test_an_unknown_name_is_one_line(units: Units, name: str) -> None:
    with pytest.raises(ApprovalError, match="no service or part"):
        actions.plan(*about("restart", name), HOUSE)


@pytest.mark.parametrize(
    ("verb", "arguments"),
    [
        ("restart", {"service": "kokoro; reboot"}),
        ("restart", {"service": "--force"}),
        ("restart", {"service": ["kokoro"]}),
        ("restart", {"service": "kokoro", "unit": "ssh"}),
        ("restart", {}),
        ("unload_model", {"model": "../x y"}),
        ("reboot", {"service": "kokoro"}),
        ("", {}),
    ],
)
def test_other_arguments_are_refused(verb: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(ApprovalError):
        checked(verb, arguments)
