"""Units of packages that Hearth installs are masked; those of other packages are left alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hearth.machine.facts import Facts, Graphics
from hearth.plan.document import document_of
from hearth.plan.inventory import unlisted_models, wishes_of
from hearth.plan.machine import MeasuredMachine
from hearth.plan.proposal import make_plan
from hearth.remove import before
from hearth.remove.before import Before
from tests.documents import shipped_house
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


def machine_with(gib: int, card: bool = False) -> Facts:
    return Facts(
        debian="13",
        memory_bytes=gib * 2**30,
        disk_free_bytes=10**12,
        built=True,
        lan_interface="eth0",
        lan_address="192.0.2.1",
        upstream_dns=(),
        graphics=Graphics(("/dev/dri/renderD128",) if card else (), False, False),
    )


def test_the_stored_plan_becomes_the_budget_of_models(tmp_path: Path) -> None:
    house, path = shipped_house(), tmp_path / "plan.json"
    seen = machine_with(64)
    assert facts.stored_budget(house, path, seen) == ({}, [])
    machine = MeasuredMachine(
        name="m", processor="p", architecture="x86_64", cores=8, memory_bytes=64 * 2**30
    )
    plan = make_plan(machine, wishes_of(house), unlisted_models(house))
    path.write_text(json.dumps(document_of(plan)))
    budget, problems = facts.stored_budget(house, path, seen)
    assert problems == []
    assert budget["room_bytes"] == round(plan.room_bytes)
    assert budget["models"]["llama3.1"]["needed_bytes"] > 4e9
    # As Ansible hands it on.
    assert json.loads(json.dumps(budget)) == budget
    # After a change of the machine it is not applied.
    for other, what in (
        (machine_with(32), "64 GiB of memory then, 32 GiB now"),
        (machine_with(64, card=True), "a graphics processor now, none then"),
    ):
        empty, (why,) = facts.stored_budget(house, path, other)
        assert empty == {}
        assert why == (
            f"the plan is for another machine ({what}), so models have no budget: run `hearth plan`"
        )


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff"])
def test_a_plan_that_cannot_be_read_is_a_warning_and_no_budget(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(content)
    why = f"{path} cannot be read, so models have no budget: run `hearth plan`"
    assert facts.stored_budget(shipped_house(), path, machine_with(64)) == ({}, [why])
