"""A pytest plugin: two further outcomes, journals beside failures, and a stream for the receipt.

Loaded by `-p hearth.smoke.plugin`. With `--hearth-events=PATH` it writes each verdict as one line
of JSON as soon as it is known, and the tests' notes as the last line.
"""

import json
import os
from collections.abc import Generator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from hearth.clients.stats import Spread
from hearth.machine import engine, systemd
from hearth.smoke.receipt import Figure, summarise

PENDING = "pending"
NOT_MEASURED = "not measured"
_JOURNAL_LINES = 30
# Words that the name of a test cannot spell as people read them.
_WORDS = "CA Caddyfile DNS Firefox HTTP HTTPS Incus IPv6 LAN OpenAI WebSocket"
_SPELLING = {word.lower(): word for word in _WORDS.split()} | {"houses": "house's"}


# A skip hides a gap; these two outcomes appear in the receipt with their reason.
class Pending(Exception):
    """The house is not ready yet, which is no failure; `percent` says how far it is."""

    def __init__(self, percent: int, reason: str) -> None:
        super().__init__(reason)
        self.percent = percent


class NotMeasured(Exception):
    """This machine or house cannot show it; the text is the reason."""


@dataclass(slots=True)
class Notes:
    """What the tests of one run record for the receipt."""

    figures: list[Figure] = field(default_factory=list)
    samples: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    accelerator: dict[str, object] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    drill: dict[str, Any] = field(default_factory=dict)

    def remark(self, text: str) -> None:
        """Add one line that a person should know, although nothing failed."""
        self.remarks.append(text)

    def figure(
        self, name: str, unit: str, values: Sequence[float] | Spread, note: str = ""
    ) -> None:
        """Add one figure."""
        self.figures.append(summarise(name, unit, values, note))

    def sample(self, name: str, unit: str, value: float) -> None:
        """Add one value to a figure that several tests measure together."""
        self.samples.setdefault((name, unit), []).append(value)

    def as_event(self) -> dict[str, object]:
        """Return everything as plain data; figures of several tests come last."""
        shared = [summarise(*name, values) for name, values in self.samples.items()]
        return asdict(replace(self, figures=[*self.figures, *shared], samples={}))


_notes = pytest.StashKey[Notes]()
_events = pytest.StashKey[Any]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for the stream's path."""
    text = "write one line of JSON per verdict there"
    parser.addoption("--hearth-events", default=os.devnull, help=text)


def pytest_configure(config: pytest.Config) -> None:
    """Open the stream."""
    config.stash[_notes] = Notes()
    path = Path(config.getoption("--hearth-events"))
    config.stash[_events] = path.open("w", buffering=1, encoding="utf-8")
    config.addinivalue_line("markers", "unit(instance, unit): the journal that explains a failure")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests for which this house has no row: no instance, no site, no alias."""
    empty = [item for item in items if any(_is_empty(mark) for mark in item.iter_markers("skip"))]
    config.hook.pytest_deselected(items=empty)
    items[:] = [item for item in items if item not in empty]


def _is_empty(mark: pytest.Mark) -> bool:
    return str(mark.kwargs.get("reason", "")).startswith("got empty parameter set")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Announce the number of verdicts."""
    _write(session.config, {"kind": "start", "tests": len(session.items)})


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the tests' notes and close the stream."""
    _write(session.config, {"kind": "notes", **session.config.stash[_notes].as_event()})
    session.config.stash[_events].close()


@pytest.fixture(scope="session")
def notes(request: pytest.FixtureRequest) -> Notes:
    """What this run records for the receipt: figures, versions, the accelerator."""
    return request.config.stash[_notes]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Set the outcome, add the journal to a failure, and write the verdict."""
    report: Any = yield
    error = call.excinfo.value if call.excinfo else None
    if report.outcome == "skipped" or isinstance(error, Pending | NotMeasured):
        report.outcome = PENDING if isinstance(error, Pending) else NOT_MEASURED
        report.longrepr = str(error)
        report.hearth_percent = getattr(error, "percent", None)
    journal = _journal(item) if report.outcome == "failed" else []
    if journal:
        report.sections.append(("Journal of the service", "\n".join(journal)))
    if report.when == "call" or report.outcome != "passed":
        _write(item.config, _verdict(item, report, error, journal))
    return report  # type: ignore[no-any-return]


def pytest_report_teststatus(report: Any) -> tuple[str, str, tuple[str, dict[str, bool]]] | None:
    """Name and colour the two further outcomes."""
    if report.outcome == PENDING:
        return PENDING, "p", (f"PENDING, {report.hearth_percent} %", {"yellow": True})
    if report.outcome == NOT_MEASURED:
        return NOT_MEASURED, "-", ("NOT MEASURED", {"yellow": True})
    return None


def _write(config: pytest.Config, event: dict[str, Any]) -> None:
    config.stash[_events].write(json.dumps(event) + "\n")


def _verdict(item: pytest.Item, report: Any, error: object, journal: list[str]) -> dict[str, Any]:
    name, _, about = item.name.partition("[")
    return {
        "kind": "verdict",
        "promise": _promise(name),
        "about": about.removesuffix("]"),
        "outcome": report.outcome,
        "percent": getattr(report, "hearth_percent", None),
        "detail": "" if report.outcome == "passed" else _reason(report, error),
        "seconds": round(report.duration, 3),
        "journal": journal,
    }


def _promise(name: str) -> str:
    """Return the name of a test as a sentence for people."""
    words = name.removeprefix("test_").split("_")
    return " ".join(_SPELLING.get(word, word) for word in words)


def _reason(report: Any, error: object) -> str:
    """Return the line that a person needs, without the traceback around it."""
    text = str(error) if error is not None else str(report.longrepr)
    return next((line for line in text.splitlines() if line.strip()), type(error).__name__)


def _journal(item: pytest.Item) -> list[str]:
    """Return the last lines of the journals of the services that this test is about."""
    units = [(mark.args[0], mark.args[1]) for mark in item.iter_markers("unit")]
    found: list[str] = []
    for instance, unit in dict.fromkeys(units):
        try:
            found += systemd.journal(instance, unit, _JOURNAL_LINES)
        except engine.EngineError as error:
            found.append(str(error))
    return found
