"""A pytest plugin: two further outcomes, journals beside failures, and a stream for the receipt.

Loaded by `-p hearth.smoke.plugin`. With `--hearth-events=PATH` it writes each verdict as one line
of JSON as soon as it is known, and the tests' notes as the last line. `--hearth-limit=SECONDS` ends
the run then: the test that is running fails, and the others are not run. A test that is marked
`decisive` also ends the run when it fails.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import pytest

from hearth.clients.models import AliasState
from hearth.clients.stats import Spread
from hearth.machine import compose, engine, systemd
from hearth.paths import FORM
from hearth.smoke.receipt import Figure, summarise

PENDING = "pending"
NOT_MEASURED = "not measured"
# Of the last lines, those with the same text are one.
_JOURNAL_LINES, _SHOWN_LINES = 30, 10
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


def wait_for(alias: AliasState) -> NoReturn:
    """Report an alias whose model is still to come: as pending, or failed after a day in vain."""
    if problem := alias.overdue(datetime.now(UTC)):
        pytest.fail(problem, pytrace=False)
    raise Pending(alias.percent, alias.reason or f"{alias.waits_for} is being downloaded")


def twice(attempt: Callable[[], None]) -> None:
    """Try again what failed: in a busy house, a person who comes or goes may look like a fault."""
    try:
        attempt()
    except AssertionError:
        attempt()


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
        self,
        name: str,
        unit: str,
        values: Sequence[float] | Spread,
        note: str = "",
        conditions: str = "",
    ) -> None:
        """Add one figure; only those of equal conditions, such as the model, are compared."""
        self.figures.append(summarise(name, unit, values, note, conditions))

    def sample(self, name: str, unit: str, value: float) -> None:
        """Add one value to a figure that several tests measure together."""
        self.samples.setdefault((name, unit), []).append(value)

    def as_event(self) -> dict[str, object]:
        """Return everything as plain data; figures of several tests come last."""
        shared = [summarise(*name, values) for name, values in self.samples.items()]
        return asdict(replace(self, figures=[*self.figures, *shared], samples={}))


class OutOfTime(BaseException):
    """The run has had its time. No test catches this, as some catch every `Exception`."""


@dataclass(slots=True)
class Limit:
    """The deadline of a run; `passed` from then on, `running` while a phase of a test is."""

    seconds: float = 0
    passed: bool = False
    running: bool = False

    def pass_(self, *_: object) -> None:
        """Interrupt the running test; between two tests the next one is not started."""
        self.passed = True
        if self.running:
            raise OutOfTime


_notes = pytest.StashKey[Notes]()
_events = pytest.StashKey[Any]()
_limit = pytest.StashKey[Limit]()
_shown = pytest.StashKey[set[tuple[str | None, str]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options for the stream's path and the deadline."""
    text = "write one line of JSON per verdict there"
    parser.addoption("--hearth-events", default=os.devnull, help=text)
    parser.addoption("--hearth-limit", type=float, default=0, help="end after this many seconds")


def pytest_configure(config: pytest.Config) -> None:
    """Open the stream."""
    config.stash[_notes] = Notes()
    path = Path(config.getoption("--hearth-events"))
    config.stash[_events] = path.open("w", buffering=1, encoding="utf-8")
    config.stash[_shown] = set()
    limit = config.stash[_limit] = Limit(config.getoption("--hearth-limit"))
    config.addinivalue_line("markers", "unit(instance, unit): the journal that explains a failure")
    config.addinivalue_line("markers", "decisive: without it no other test can pass")
    if limit.seconds:
        signal.signal(signal.SIGALRM, limit.pass_)
        # Again and again: an event loop may swallow one.
        signal.setitimer(signal.ITIMER_REAL, limit.seconds, 1)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests for which this house has no row: no instance, no site, no alias."""
    empty = [item for item in items if any(_is_empty(mark) for mark in item.iter_markers("skip"))]
    config.hook.pytest_deselected(items=empty)
    items[:] = [item for item in items if item not in empty]


def _is_empty(mark: pytest.Mark) -> bool:
    return str(mark.kwargs.get("reason", "")).startswith("got empty parameter set")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Announce the number of verdicts, and what they are about."""
    names = [" ".join(_name(item)).strip() for item in session.items]
    _write(session.config, {"kind": "start", "tests": len(names), "names": names})


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the tests' notes and close the stream."""
    _write(session.config, {"kind": "notes", **session.config.stash[_notes].as_event()})
    session.config.stash[_events].close()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Do not wait for threads of a test that was interrupted."""
    if config.stash[_limit].passed:
        sys.stdout.flush()
        os._exit(pytest.ExitCode.TESTS_FAILED)


def _bounded(item: pytest.Item) -> Generator[None, None, None]:
    """Let the deadline interrupt one phase of a test, and no hook of pytest."""
    limit = item.config.stash[_limit]
    if limit.passed:
        raise OutOfTime
    limit.running = True
    try:
        yield
    finally:
        limit.running = False


pytest_runtest_setup = pytest.hookimpl(wrapper=True)(_bounded)
pytest_runtest_call = pytest.hookimpl(wrapper=True)(_bounded)


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
    if isinstance(error, OutOfTime):
        signal.setitimer(signal.ITIMER_REAL, 0)
        error = OutOfTime(_out_of_time(item))
    journal = _journal(item) if report.outcome == "failed" else {}
    for name, lines in journal.items():
        report.sections.append((f"Journal of {name}", "\n".join(lines)))
    if report.outcome == "failed" and (
        isinstance(error, OutOfTime) or item.get_closest_marker("decisive")
    ):
        # Everything that is left would fail for the same reason, each after its own timeout.
        item.session.shouldfail = str(error)
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


def _out_of_time(item: pytest.Item) -> str:
    items, seconds = item.session.items, item.config.stash[_limit].seconds
    left = len(items) - items.index(item) - 1
    return f"stopped after {seconds:g} s, when the run had to end; {left} tests were not run"


def _verdict(
    item: pytest.Item, report: Any, error: object, journal: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    promise, about = _name(item)
    return {
        "kind": "verdict",
        "promise": promise,
        "about": about,
        "outcome": report.outcome,
        "percent": getattr(report, "hearth_percent", None),
        "detail": "" if report.outcome == "passed" else _reason(report, error),
        "seconds": round(report.duration, 3),
        "journal": journal,
    }


def _name(item: pytest.Item) -> tuple[str, str]:
    """Return what a test promises, and about which part of the house."""
    name, _, about = item.name.partition("[")
    return _promise(name), about.removesuffix("]")


def _promise(name: str) -> str:
    """Return the name of a test as a sentence for people."""
    words = name.removeprefix("test_").split("_")
    return " ".join(_SPELLING.get(word, word) for word in words)


def _reason(report: Any, error: object) -> str:
    """Return the line that a person needs, without the traceback around it."""
    text = str(error) if error is not None else str(report.longrepr)
    return next((line for line in text.splitlines() if line.strip()), type(error).__name__)


def _journal(item: pytest.Item) -> dict[str, list[str]]:
    """Return the last lines of the journal of each unit that this test is about.

    A unit's journal belongs to its first failure only: others have the same cause as a rule.
    """
    shown, found = item.config.stash[_shown], dict[str, list[str]]()
    units = {(mark.args[0], mark.args[1]) for mark in item.iter_markers("unit")}
    for instance, unit in sorted(units - shown, key=str):
        shown.add((instance, unit))
        try:
            if FORM:
                name = instance or unit.removeprefix("hearth-").removesuffix(".service")
                lines = compose.logs(name, _JOURNAL_LINES)
            else:
                lines = systemd.journal(instance, unit, _JOURNAL_LINES)
        except (engine.EngineError, compose.ComposeHouseError) as error:
            lines = [str(error)]
        # The text after time, host and program; the last one of several stays.
        texts = {line.partition("]: ")[2] or line: line for line in lines}
        distinct = [line for line in lines if line in {*texts.values()}]
        found[f"{unit} of {instance or 'this machine'}"] = distinct[-_SHOWN_LINES:]
    return {name: lines for name, lines in found.items() if lines}
