"""A pytest plugin: two outcomes of ours, journals beside failures, and a stream for the receipt.

Loaded by `-p hearth.smoke.plugin`. With `--hearth-events=PATH` each verdict is written there as
one line of JSON as soon as it is known, and what the tests noted as the last line.
"""

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from hearth.machine import engine, systemd
from hearth.smoke.figures import Notes
from hearth.smoke.outcomes import NotMeasured, Pending

PENDING = "pending"
NOT_MEASURED = "not measured"
_JOURNAL_LINES = 30
_notes = pytest.StashKey[Notes]()
_events = pytest.StashKey[Any]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the path of the stream."""
    parser.addoption("--hearth-events", help="write one line of JSON per verdict there")


def pytest_configure(config: pytest.Config) -> None:
    """Open the stream."""
    config.stash[_notes] = Notes()
    path = config.getoption("--hearth-events")
    if path:
        config.stash[_events] = Path(path).open("w", buffering=1, encoding="utf-8")  # noqa: SIM115
    config.addinivalue_line("markers", "unit(instance, unit): whose journal explains a failure")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what this house has nothing of: no forbidden pair, no instance, no site."""
    empty = [item for item in items if any(_is_empty(mark) for mark in item.iter_markers("skip"))]
    config.hook.pytest_deselected(items=empty)
    items[:] = [item for item in items if item not in empty]


def _is_empty(mark: pytest.Mark) -> bool:
    return str(mark.kwargs.get("reason", "")).startswith("got empty parameter set")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Say how many verdicts will follow."""
    _write(session.config, {"kind": "start", "tests": len(session.items)})


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write what the tests noted, and close the stream."""
    notes = session.config.stash[_notes]
    _write(session.config, {"kind": "notes", **notes.as_event()})
    if _events in session.config.stash:
        session.config.stash[_events].close()


@pytest.fixture(scope="session")
def notes(request: pytest.FixtureRequest) -> Notes:
    """What this run writes down for the receipt: figures, versions, the accelerator."""
    return request.config.stash[_notes]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn our outcomes into outcomes, add the journal to a failure, and report the verdict."""
    report: Any = yield
    error = call.excinfo.value if call.excinfo else None
    if isinstance(error, Pending | NotMeasured):
        report.outcome = PENDING if isinstance(error, Pending) else NOT_MEASURED
        report.longrepr = str(error)
        report.hearth_percent = getattr(error, "percent", None)
    if report.outcome == "skipped":
        # A skip hides; what was not looked at stands in the receipt.
        report.outcome, report.longrepr = NOT_MEASURED, str(error)
    journal = _journal(item) if report.outcome == "failed" else []
    if journal:
        report.sections.append(("Journal of the service", "\n".join(journal)))
    if report.when == "call" or report.outcome != "passed":
        _write(item.config, _verdict(item, report, error, journal))
    return report  # type: ignore[no-any-return]


def pytest_report_teststatus(report: Any) -> tuple[str, str, tuple[str, dict[str, bool]]] | None:
    """Name and colour our outcomes."""
    if report.outcome == PENDING:
        return PENDING, "p", (f"PENDING, {report.hearth_percent} %", {"yellow": True})
    if report.outcome == NOT_MEASURED:
        return NOT_MEASURED, "-", ("NOT MEASURED", {"yellow": True})
    return None


def _write(config: pytest.Config, event: dict[str, Any]) -> None:
    if _events in config.stash:
        config.stash[_events].write(json.dumps(event) + "\n")


def _verdict(item: pytest.Item, report: Any, error: object, journal: list[str]) -> dict[str, Any]:
    name, _, about = item.name.partition("[")
    detail = ""
    if report.outcome != "passed":
        detail = _reason(report, error)
    return {
        "kind": "verdict",
        "test": item.nodeid,
        "promise": name.removeprefix("test_").replace("_", " "),
        "about": about.removesuffix("]"),
        "outcome": report.outcome,
        "percent": getattr(report, "hearth_percent", None),
        "detail": detail,
        "seconds": round(report.duration, 3),
        "journal": journal,
    }


def _reason(report: Any, error: object) -> str:
    """Return the line that a person needs, without the traceback around it."""
    text = str(error) if error is not None else str(report.longrepr)
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _journal(item: pytest.Item) -> list[str]:
    """Return the last lines of the journal of the service that this test is about."""
    units = [(mark.args[0], mark.args[1]) for mark in item.iter_markers("unit")]
    callspec = getattr(item, "callspec", None)
    for value in callspec.params.values() if callspec else ():
        if hasattr(value, "unit"):
            units.append((getattr(value, "instance", None), value.unit))
    found: list[str] = []
    for instance, unit in dict.fromkeys(units):
        try:
            found += systemd.journal(instance, unit, _JOURNAL_LINES)
        except engine.EngineError as error:
            found.append(str(error))
    return found
