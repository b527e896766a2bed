"""The receipt: what was promised, what was measured and on which machine, as JSON and as a page.

`run` runs the smoke tests in a process of their own and makes the receipt of their results.
"""

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jinja2

from hearth.catalogue.house import House
from hearth.clients.stats import Spread, spread
from hearth.files import write_atomic
from hearth.machine import facts
from hearth.machine.facts import MachineInfo
from hearth.paths import RECEIPT_FOLDER
from hearth.project import Project
from hearth.smoke.drill.cases import SLOW, Row
from hearth.sources.lock import known
from hearth.status import trust_addresses

OUTCOMES = ("failed", "pending", "not measured", "passed")
_TESTS = Path(__file__).resolve().parent
_TEMPLATE = _TESTS / "receipt.html.j2"
# pytest's exit codes for "all passed" and "some failed"; with any other the run itself failed.
_RAN = (0, 1)


class VerifyError(Exception):
    """One line for a person: why there is no receipt, and where to read more."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured quantity; `p95` is the value that 95 of 100 do not exceed."""

    name: str
    unit: str
    n: int
    median: float
    p95: float
    note: str = ""


def summarise(name: str, unit: str, values: Sequence[float] | Spread, note: str = "") -> Figure:
    """Return the figure of `values`, at least one, or of the spread that a benchmark computed."""
    found = values if isinstance(values, Spread) else spread(values)
    if found is None:
        raise ValueError(f"{name}: nothing was measured, so there is no figure")
    return Figure(name, unit, found.n, found.median, found.p95, note)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one test: the `promise` it tests, and which service or name it is `about`."""

    promise: str
    about: str
    outcome: str
    detail: str
    seconds: float
    percent: int | None = None
    journal: Sequence[str] = ()

    @property
    def word(self) -> str:
        """The outcome as people read it."""
        return f"pending, {self.percent} %" if self.outcome == "pending" else self.outcome


@dataclass(frozen=True, slots=True)
class AliasSummary:
    """The drill of one alias; seconds are the slowest until the next member's first word."""

    alias: str
    right: int
    of: int
    quick_s: float | None
    slow_s: float | None


@dataclass(frozen=True, slots=True)
class Drill:
    """One drill: when, by which Hearth, with which timeout, which members it played itself."""

    made: str
    hearth: str
    first_token_timeout_s: float
    played: Sequence[str] = ()
    rows: Sequence[Row] = field(default_factory=list)

    @property
    def lines(self) -> list[AliasSummary]:
        """One summary per alias."""
        names = dict.fromkeys(row.alias for row in self.rows)
        return [_summary(name, [row for row in self.rows if row.alias == name]) for name in names]


def _summary(alias: str, rows: Sequence[Row]) -> AliasSummary:
    waits: dict[bool, list[float]] = {True: [], False: []}
    for row in rows:
        if row.broken != "all":
            waits[row.fault in SLOW] += [s for s in (row.plain_s, row.streamed_s) if s is not None]
    quick_s, slow_s = (max(waits[slow], default=None) for slow in (False, True))
    return AliasSummary(alias, sum(not r.problems for r in rows), len(rows), quick_s, slow_s)


def drill_of(found: Mapping[str, Any]) -> Drill | None:
    """Return a drill from its JSON, if there was one."""
    rows = [Row(**row) for row in found.get("rows", [])]
    return Drill(**{**found, "rows": rows}) if rows else None


def last_drill(receipt: Path) -> Drill | None:
    """Return the drill of an earlier receipt: a run without a drill keeps the last one."""
    try:
        return drill_of(json.loads(receipt.read_text(encoding="utf-8")).get("drill") or {})
    except (OSError, ValueError, AttributeError, TypeError):
        return None


@dataclass(frozen=True, slots=True)
class Receipt:
    """All results of one run of the smoke tests on one machine.

    `remarks` are for people to know or act on, although nothing failed. `trust` lists where a new
    device gets the root certificate. The last `drill` may be older than this receipt.
    """

    house: str
    made: str
    seconds: float
    hearth: str
    machine: MachineInfo
    accelerator: Mapping[str, Any]
    versions: Mapping[str, str]
    addresses: Sequence[str]
    figures: Sequence[Figure]
    verdicts: Sequence[Verdict]
    remarks: Sequence[str] = field(default_factory=list)
    unverified: Sequence[str] = field(default_factory=list)
    trust: Sequence[str] = field(default_factory=list)
    drill: Drill | None = None

    @property
    def counts(self) -> dict[str, int]:
        """The number of verdicts of each outcome that occurred."""
        counted = Counter(verdict.outcome for verdict in self.verdicts)
        return {outcome: counted[outcome] for outcome in OUTCOMES if counted[outcome]}

    @property
    def good(self) -> bool:
        """Whether something was tested and nothing failed."""
        return bool(self.verdicts) and "failed" not in self.counts

    @property
    def summary(self) -> str:
        """All counts in one line."""
        return ", ".join(f"{count} {outcome}" for outcome, count in self.counts.items())

    def as_json(self) -> dict[str, Any]:
        """Return the receipt as `receipt.json` holds it."""
        return {"summary": self.counts, "good": self.good, **asdict(self)}


def run(project: Project, mark: str, on_verdict: Callable[[Verdict, int], None]) -> Receipt:
    """Run the smoke tests with `mark` and return their results.

    `on_verdict` is called with each verdict as soon as it is known, and with the total number.
    pytest's full output goes to the project's logs.

    Raises:
        VerifyError: the tests could not run; the text names the log.
    """
    house = project.house()
    log = project.logs / f"verify-{datetime.now():%Y%m%d-%H%M%S}.log"
    start = time.monotonic()
    verdicts: list[Verdict] = []
    notes: dict[str, Any] = {}
    total = 0
    argv = [sys.executable, "-m", "pytest", "-c", str(_TESTS / "pytest.ini"), str(_TESTS)]
    argv += ["--rootdir", str(project.root), "-m", mark]
    argv += ["-p", "hearth.smoke.plugin", "--hearth-events=/dev/fd/{fd}"]
    for event in project.events(argv, log, {"NO_COLOR": "1"}):
        kind = event.pop("kind")
        if kind == "start":
            total = event["tests"]
        elif kind == "notes":
            notes = event
        elif kind == "end":
            if (code := event["code"]) not in _RAN:
                raise VerifyError(
                    f"the smoke tests could not run (pytest exit code {code}): read {log}"
                )
        else:
            verdicts.append(Verdict(**event))
            on_verdict(verdicts[-1], total)
    made, hearth = datetime.now(UTC).isoformat(timespec="seconds"), version(project)
    drill = drill_of({**notes["drill"], "made": made, "hearth": hearth}) if notes else None
    return Receipt(
        house=house.machine.name,
        made=made,
        seconds=round(time.monotonic() - start, 1),
        hearth=hearth,
        machine=facts.machine(),
        accelerator=notes.get("accelerator", {}),
        versions=facts.versions() | notes.get("versions", {}),
        addresses=[f"https://{site.fqdn}" for site in house.sites],
        figures=[Figure(**figure) for figure in notes.get("figures", [])],
        verdicts=verdicts,
        remarks=notes.get("remarks", []),
        unverified=unverified(project.inventory, house),
        trust=trust_addresses(house),
        drill=drill or last_drill(RECEIPT_FOLDER / "receipt.json"),
    )


def unverified(inventory: Path, house: House) -> list[str]:
    """Return the downloads whose digest this house itself recorded first, one line each."""
    found = []
    for name, shipped in house.sources.items():
        digest = known(inventory, shipped).sha256
        if shipped.sha256 is None and digest:
            found.append(
                f"{name} {shipped.version}: unverified: Hearth ships no digest, so this house "
                f"recorded the first one that it saw: {digest}"
            )
    return found


def version(project: Project) -> str:
    """Return which Hearth this is: the commit, and whether it has local changes."""
    argv = ["git", "-C", str(project.root), "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(  # noqa: S603 - fixed words
            argv, capture_output=True, text=True, check=False, timeout=10
        )
    except OSError:
        return "unknown"
    return done.stdout.strip() or "unknown"


def write(receipt: Receipt, folder: Path) -> None:
    """Write `receipt.json` and `index.html`, each of them whole or not at all.

    Raises:
        VerifyError: the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o755)
        text = json.dumps(receipt.as_json(), indent=2, ensure_ascii=False)
        write_atomic(folder / "receipt.json", text.encode() + b"\n")
        write_atomic(folder / "index.html", render(receipt).encode())
    except OSError as error:
        raise VerifyError(
            f"cannot write the receipt: {error}: run this as root on the house"
        ) from error


def render(receipt: Receipt) -> str:
    """Return the receipt as one HTML page without scripts that loads nothing."""
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters |= {
        "number": number,
        "gib": lambda count: f"{count / 2**30:.1f} GiB",
        "moment": lambda iso: f"{datetime.fromisoformat(iso).astimezone(UTC):%-d %B %Y, %H:%M UTC}",
    }
    template = environment.from_string(_TEMPLATE.read_text(encoding="utf-8"))
    return template.render(r=receipt)


def number(value: float) -> str:
    """Return a figure with three significant digits."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
