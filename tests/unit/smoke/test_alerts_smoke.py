"""The smoke tests of alerts fail for a target, a rule or a way to people that is missing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hearth.smoke import test_alerts as smoke

SENDER = SimpleNamespace(name="sender", url="http://10.0.0.2:9093", metrics_port=9093)
SCRAPER: Any = SimpleNamespace(
    name="scraper", url="http://10.0.0.1:9090", metrics_port=None, needs=("sender",)
)
PART = SimpleNamespace(name="part", metrics_port=9183)
HOUSE: Any = SimpleNamespace(services={"scraper": SCRAPER, "sender": SENDER}, parts={"part": PART})


def target(name: str, health: str = "up") -> dict[str, Any]:
    return {"labels": {"job": name}, "health": health, "lastError": "refused"}


def answers(monkeypatch: pytest.MonkeyPatch, **by_path: Any) -> None:
    """Have the servers answer each path with what is given for its last word."""

    def fetch(_: Any, path: str) -> Any:
        word = path.partition("?")[0].rpartition("/")[2]
        return by_path[word]

    monkeypatch.setattr(smoke, "fetch", fetch)


@pytest.mark.parametrize(
    ("targets", "problem"),
    [
        ([target("sender")], "not read: part"),
        ([target("sender"), target("part", "down")], "part: refused"),
    ],
)
def test_a_program_whose_figures_are_not_read_is_named(
    monkeypatch: pytest.MonkeyPatch, targets: list[dict[str, Any]], problem: str
) -> None:
    # What was restarted is read again at the next scrape; here nothing changes.
    monkeypatch.setattr(smoke, "SCRAPE_S", -smoke.WITHIN_S)
    answers(monkeypatch, targets={"activeTargets": targets})
    with pytest.raises(AssertionError, match=problem):
        smoke.test_the_figures_of_every_program_are_read(SCRAPER, HOUSE)
    good = [target("sender"), target("part"), target("sites", "unknown")]
    answers(monkeypatch, targets={"activeTargets": good})
    smoke.test_the_figures_of_every_program_are_read(SCRAPER, HOUSE)


@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        ([], "there is no rule"),
        ([{"name": "X", "health": "err", "lastError": "many-to-many"}], "many-to-many"),
    ],
)
def test_missing_and_broken_rules_are_found(
    monkeypatch: pytest.MonkeyPatch, rules: list[dict[str, Any]], problem: str
) -> None:
    answers(monkeypatch, rules={"groups": [{"rules": rules}]})
    with pytest.raises(AssertionError, match=problem):
        smoke.test_the_rules_for_alerts_are_loaded(SCRAPER)


@pytest.mark.parametrize(
    ("size", "config", "problem"),
    [
        ("0B", "", "without a limit in bytes"),
        ("2GB", "job_name: a\nsample_limit: 5\njob_name: b", "a scrape has no limit"),
    ],
)
def test_missing_bounds_are_found(
    monkeypatch: pytest.MonkeyPatch, size: str, config: str, problem: str
) -> None:
    answers(monkeypatch, flags={"storage.tsdb.retention.size": size}, config={"yaml": config})
    with pytest.raises(AssertionError, match=problem):
        smoke.test_what_is_kept_is_bounded(SCRAPER)


@pytest.mark.parametrize(
    ("active", "config", "problem"),
    [
        ([], "webhook_configs: []", "sender gets no alerts"),
        ([{"url": f"{SENDER.url}/api/v2/alerts"}], "name: people", "without a way to people"),
    ],
)
def test_alerts_without_a_way_are_found(
    monkeypatch: pytest.MonkeyPatch, active: list[dict[str, str]], config: str, problem: str
) -> None:
    answers(
        monkeypatch,
        alertmanagers={"activeAlertmanagers": active},
        receivers=[{"name": "people"}],
        status={"config": {"original": config}},
    )
    with pytest.raises(AssertionError, match=problem):
        smoke.test_alerts_are_handed_on(SCRAPER, HOUSE)
