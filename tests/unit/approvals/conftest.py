"""Proposals for the tests, and a store whose clock stands still."""

import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hearth.approvals.proposal import LIFE_S, Excerpt, Mark, Proposal, Section, Who, new_id
from hearth.approvals.store import Store
from hearth.project import Project

# Files have the time of the machine.
NOW = int(time.time())
BASE = {"unit of kokoro": "active since 1"}


def proposal(**more: Any) -> Proposal:
    """Return a proposal to restart a service."""
    made = Proposal(
        id=new_id(),
        verb="restart",
        arguments={"service": "kokoro"},
        summary="restart kokoro",
        plan=(Section("What will be done", "restart kokoro.service"),),
        base=BASE,
        who=Who("team", "caretaker", "run-1", "chat-1"),
        reads=(Excerpt("log of kokoro", NOW - 5, "it died"),),
        taint=(Mark("service", "log of kokoro", "kokoro"),),
        made=NOW,
        expires=NOW + LIFE_S,
    )
    return replace(made, **more)


class Clock:
    """The time, as the test sets it."""

    def __init__(self) -> None:
        self.now = float(NOW)

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Store:
    return Store(tmp_path / "approvals", tmp_path / "audit.jsonl", clock)


@pytest.fixture
def approved(store: Store) -> Callable[[], Proposal]:
    """Return a function that stores and approves a proposal."""

    def make() -> Proposal:
        made = proposal()
        store.decide(made.id, "approved", store.add(made), "anna, by passkey")
        return made

    return make


ROOT = Path(__file__).parents[3]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Return a checkout of its own, with Hearth's inventory and the code of this one."""
    root = tmp_path / "checkout"
    ignore = shutil.ignore_patterns("local", "secrets.yml", "__pycache__")
    shutil.copytree(ROOT / "inventory", root / "inventory", ignore=ignore)
    for name in ("roles", "requirements", "hearth", "site.yml", "ansible.cfg"):
        (root / name).symlink_to(ROOT / name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr("hearth.approvals.overlay.HOUSE_FILE", tmp_path / "house.json")
    (tmp_path / "house.json").write_text("{}")
    return Project(root)
