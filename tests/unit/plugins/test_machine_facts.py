"""Units of packages that Hearth installs are masked; those of other packages are left alone."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.remove import before
from hearth.remove.before import Before
from tests.unit.plugins.by_path import plugin

facts: Any = plugin("action", "machine_facts")
NODE, BLACKBOX = "prometheus-node-exporter", "prometheus-blackbox-exporter"


@pytest.mark.parametrize(
    ("earlier", "installed", "requested", "masked"),
    [
        pytest.param([], [], [], ["caddy", BLACKBOX, NODE], id="a bare machine"),
        pytest.param([], [NODE], [], ["caddy", BLACKBOX], id="the first run, with one of theirs"),
        pytest.param([NODE], [NODE], ["caddy", NODE], ["caddy", BLACKBOX], id="a later run"),
        pytest.param(
            [], ["caddy", NODE], ["caddy"], ["caddy", BLACKBOX], id="installed by hand before"
        ),
        pytest.param(
            [], ["caddy", BLACKBOX, NODE], ["caddy", BLACKBOX, NODE], ["caddy", BLACKBOX, NODE],
            id="a killed run",
        ),
    ],
)  # fmt: skip
def test_units_of_other_peoples_packages_are_left_alone(
    monkeypatch: pytest.MonkeyPatch,
    earlier: list[str],
    installed: list[str],
    requested: list[str],
    masked: list[str],
) -> None:
    monkeypatch.setattr(before, "read_record", lambda: Before(packages=frozenset(earlier)))
    monkeypatch.setattr(before, "installed", lambda: installed)
    monkeypatch.setattr(before, "requested", lambda: frozenset(requested))
    monkeypatch.setattr(facts, "is_masked", lambda unit: False)
    assert sorted(facts.unmasked()) == sorted(f"{package}.service" for package in masked)
    monkeypatch.setattr(facts, "is_masked", lambda unit: True)
    assert facts.unmasked() == []
