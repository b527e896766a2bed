"""One house for all tests of this folder: the first part builds it, the last one removes it.

HEARTH_LAB_KEEP=1 leaves the machine as it is at the end, and the next run uses it again: for work
on single tests. parts.py lists the order of the parts and their minutes.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hearth.clients.chat import Person
from tests.lab import chat, remote, saved, visitor
from tests.lab.house import ROOT, House, remove, up
from tests.lab.parts import ALL, FIRST, LAST, Budget, commit, order

FIGURES = ROOT / ".hearth/logs/lab-figures.json"
_KEEP = bool(os.environ.get("HEARTH_LAB_KEEP"))
_BUDGET = pytest.StashKey[Budget]()
_REFUSED = pytest.StashKey[dict[str, str | None]]()
_SECONDS = pytest.StashKey[dict[str, float]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options that `scripts/test` sets."""
    group = parser.getgroup("lab")
    group.addoption("--tier", choices=("core", "all", "long"), default="all")
    group.addoption("--minutes-left", type=float, help="start no part that cannot end by then")
    group.addoption("--slowness", type=float, default=1.0, help="compared with the reference")
    group.addoption("--parts-file", type=Path, help="write the seconds of each part here")


def pytest_configure(config: pytest.Config) -> None:
    """Fix the deadline at the start."""
    left = config.getoption("--minutes-left")
    slowness = config.getoption("--slowness")
    reserve = sum(part.minutes for part in LAST)
    deadline = None if left is None else time.monotonic() + 60 * left
    config.stash[_BUDGET] = Budget(deadline, slowness, reserve)
    config.stash[_REFUSED] = {}
    config.stash[_SECONDS] = {}


def _cached(tier: str) -> bool:
    """Return whether the tests start from the disk of an earlier run; CI builds from nothing."""
    return (tier == "core" or _KEEP) and saved.usable()


def part_of(item: pytest.Item) -> str:
    """Return the name of the part that a test belongs to."""
    return item.path.stem.removeprefix("test_")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of the tier and put the parts in order."""
    ours = [item for item in items if item.path.parent == Path(__file__).parent]
    unknown = {part_of(item) for item in ours} - ALL.keys()
    if unknown:
        raise pytest.UsageError(f"tests/lab/parts.py does not list {', '.join(sorted(unknown))}")
    tier = config.getoption("--tier")
    cached = _cached(tier)

    def wanted(item: pytest.Item) -> bool:
        long = item.get_closest_marker("long") is not None
        if item.get_closest_marker("bare"):
            return tier != "long" and not cached
        if item.get_closest_marker("cached"):
            return cached
        if tier == "core":
            return ALL[part_of(item)].core and not long
        return bool(long == (tier == "long"))

    kept = [item for item in ours if wanted(item)]
    places = {name: place for place, name in enumerate(order(commit()))}
    kept.sort(key=lambda item: places[part_of(item)])
    config.hook.pytest_deselected(items=[item for item in ours if item not in kept])
    others = [item for item in items if item not in ours]
    items[:] = [*others, *kept]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a whole part that cannot end in time; note when a part starts."""
    name, config = part_of(item), item.config
    if name not in ALL:
        return
    refused = config.stash[_REFUSED]
    if name not in refused:
        refused[name] = config.stash[_BUDGET].refusal(ALL[name])
    if refused[name]:
        pytest.skip(str(refused[name]))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Add up the seconds of each part, fixtures included."""
    began = time.monotonic()
    result = yield
    seconds, name = item.config.stash[_SECONDS], part_of(item)
    seconds[name] = seconds.get(name, 0) + time.monotonic() - began
    return result


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Print a failure when it happens: the end of the run may be half an hour away."""
    if report.failed:
        print(f"\n{report.nodeid}\n{report.longreprtext[-4000:]}", flush=True)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the seconds of each part for the ledger of `scripts/test`."""
    if target := session.config.getoption("--parts-file"):
        seconds = session.config.stash[_SECONDS].items()
        target.write_text("".join(f"{name} {value:.1f}\n" for name, value in seconds))


@pytest.fixture(scope="session")
def house(request: pytest.FixtureRequest) -> Iterator[House]:
    """The house; the remains of an interrupted run are removed first."""
    if os.geteuid() != 0:
        pytest.exit("the lab needs root: run `sudo scripts/test`", returncode=1)
    tier = request.config.getoption("--tier")
    builds = any(part_of(item) == FIRST[0].name for item in request.session.items)
    if builds and not _cached(tier):
        remove()
    if not builds:
        # Single tests were chosen: they use the house that is there, or one that is built now.
        saved.restore_or_nothing()
        assert up().returncode == 0
        # What a part goes back to must be this commit's house, not the one that was built.
        saved.keep()
    shared = House()
    if not builds:
        shared.wait_green()
    yield shared
    print("\nFigures")
    for name, value in shared.figures.items():
        print(f"{value:8.1f}  {name}", flush=True)
    # The receipt of the tests: what this run measured, on this commit.
    receipt = {"commit": commit(), "figures": shared.figures}
    FIGURES.parent.mkdir(parents=True, exist_ok=True)
    FIGURES.write_text(json.dumps(receipt, indent=1) + "\n", encoding="utf-8")
    if tier == "core":
        saved.stop()
    elif not _KEEP:
        remove()


@pytest.fixture(scope="session")
def guest(house: House) -> str:
    """The guest that all tests share; it is removed with the house."""
    return visitor.invite(house)


@pytest.fixture(scope="module")
def controller(house: House, tmp_path_factory: pytest.TempPathFactory) -> remote.Controller:
    """A checkout on another machine, which reaches the house by ssh and nothing else."""
    return remote.make(tmp_path_factory.mktemp("controller"))


@pytest.fixture(scope="module")
def admin(house: House) -> Person:
    """The first account, as the house created it."""
    return chat.first(house)


@pytest.fixture(scope="module")
def child(admin: Person) -> Iterator[Person]:
    """A person whose account the administrator has created."""
    person = chat.add(admin, "Child")
    yield person
    chat.remove(admin, person)
