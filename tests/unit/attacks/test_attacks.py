"""Every attack that needs no house, against the real broker and the real fetcher."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.attacks import ATTACKS, TASKS, Attack, Task
from tests.attacks.page import load
from tests.attacks.processes import started
from tests.attacks.target import Target, under_attack

load()
HERE = [one for one in ATTACKS if not one.in_lab]
USEFUL = [one for one in TASKS if not one.in_lab]


@pytest.fixture
async def target(tmp_path: Path) -> AsyncIterator[Target]:
    async with under_attack(tmp_path) as made:
        yield made


@pytest.mark.parametrize("useful", USEFUL, ids=lambda one: one.code.__name__)
async def test_useful_task_succeeds(useful: Task, target: Target) -> None:
    with started() as processes:
        await useful.code(target)
    assert processes == []
    assert target.engine.changes == []
    assert set(target.carried_out) == target.expected


@pytest.mark.parametrize("attack", HERE, ids=lambda one: one.name)
async def test_attack_does_not_succeed(attack: Attack, target: Target) -> None:
    before = len(target.audit())
    with started() as processes:
        await attack.code(target)
    assert processes == []
    assert target.leaked() == []
    assert target.engine.changes == []
    assert set(target.carried_out) == target.expected
    lines = target.audit()[before:]
    if target.floods:
        assert any(line["outcome"] == "too_often" for line in lines)
    else:
        assert len(lines) >= max(target.calls, 1), f"{target.calls} calls, {len(lines)} lines"
