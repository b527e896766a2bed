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

from pydantic import TypeAdapter, ValidationError

from hearth import status
from hearth.catalogue.house import House
from hearth.clients.stats import Spread, spread
from hearth.machine import bandwidth, facts
from hearth.machine.facts import MachineInfo
from hearth.paths import RECEIPT, RECEIPT_FOLDER
from hearth.project import Project
from hearth.smoke.drill.cases import SLOW, DrillRow
from hearth.sources.lock import known

# The name of the format, and of its schema (docs/schema/receipt.json).
FORM = "hearth-receipt/1"
OUTCOMES = ("failed", "pending", "not measured", "passed")
_TESTS = Path(__file__).resolve().parent
_TEMPLATE = _TESTS / "receipt.html.j2"
# Usual is what the last good and complete run took here. The reference machine takes 90 s; without
# a figure, a slow one with large models has ten minutes.
LIMIT, LEAST_S, FIRST_S = 2.0, 180.0, 600.0
# A drill breaks one model after the other, and each has its own timeouts.
DRILL_S = 1800.0
# A run that does not end by itself when its time is over is killed.
_GRACE_S = 15.0
# pytest's exit codes for "all passed" and "some failed"; with any other the run itself failed.
_RAN = (0, 1)
# Some, or none.
_COLLECTED = (0, 5)
COLLECT_S = 60.0


class VerifyError(Exception):
    """One line for a person: why there is no receipt, and where to read more."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured quantity; `p95` is the value that 95 of 100 do not exceed.

    `median` is the 50th percentile. `conditions` name what it was measured with, such as the
    model: only figures of equal conditions are compared.
    """

    name: str
    unit: str
    n: int
    median: float
    p95: float
    note: str = ""
    conditions: str = ""

    @property
    def series(self) -> tuple[str, str, str]:
        """What it has in common with the figures of other runs that it can be compared with."""
        return self.name, self.unit, self.conditions


def summarise(
    name: str, unit: str, values: Sequence[float] | Spread, note: str = "", conditions: str = ""
) -> Figure:
    """Return the figure of `values`, at least one, or of the spread that a benchmark computed."""
    found = values if isinstance(values, Spread) else spread(values)
    if found is None:
        raise ValueError(f"{name}: nothing was measured, so there is no figure")
    return Figure(name, unit, found.n, found.median, found.p95, note, conditions)


@dataclass(frozen=True, slots=True)
class MeasuredMachine(MachineInfo):
    """The machine of a receipt, with the versions of its graphics drivers.

    `memory_bandwidth` is in bytes read and written by all processors together, in GB/s.
    """

    drivers: Mapping[str, str] = field(default_factory=dict)
    memory_bandwidth: Figure | None = None


def measured_machine() -> MeasuredMachine:
    """Describe this machine, and measure its memory for less than a second."""
    rates, size = bandwidth.copy_rates()
    info = facts.machine()
    about = f"{info.cores} threads copy {size / 2**20:.0f} MiB"
    found = None
    if rates:
        note = f"{about}; read and written, {max(rates) / 1e9:.1f} GB/s at best"
        found = summarise("memory bandwidth", "GB/s", [r / 1e9 for r in rates], note, about)
    return MeasuredMachine(**asdict(info), drivers=facts.drivers(), memory_bandwidth=found)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one test: the `promise` it tests, and which service or name it is `about`.

    `journal` has the last lines of each unit whose first failure this is.
    """

    promise: str
    about: str
    outcome: str
    detail: str
    seconds: float
    percent: int | None = None
    journal: Mapping[str, Sequence[str]] = field(default_factory=dict)

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
    rows: Sequence[DrillRow] = field(default_factory=list)

    @property
    def lines(self) -> list[AliasSummary]:
        """One summary per alias."""
        names = dict.fromkeys(row.alias for row in self.rows)
        return [_summary(name, [row for row in self.rows if row.alias == name]) for name in names]


def _summary(alias: str, rows: Sequence[DrillRow]) -> AliasSummary:
    waits: dict[bool, list[float]] = {True: [], False: []}
    for row in rows:
        if row.broken != "all":
            waits[row.fault in SLOW] += [s for s in (row.plain_s, row.streamed_s) if s is not None]
    quick_s, slow_s = (max(waits[slow], default=None) for slow in (False, True))
    return AliasSummary(alias, sum(not r.problems for r in rows), len(rows), quick_s, slow_s)


def drill_of(found: Mapping[str, Any]) -> Drill | None:
    """Return a drill from its JSON, if there was one."""
    rows = [DrillRow(**row) for row in found.get("rows", [])]
    return Drill(**{**found, "rows": rows}) if rows else None


@dataclass(frozen=True, slots=True)
class Receipt:
    """All results of one run of the smoke tests on one machine.

    `remarks` are for people to know or act on, although nothing failed. `trust` lists where a new
    device gets the root certificate. The last `drill` may be older than this receipt. `digests`
    are of the installed programs and of the models.
    """

    house: str
    made: str
    seconds: float
    hearth: str
    machine: MeasuredMachine
    accelerator: Mapping[str, Any]
    versions: Mapping[str, str]
    addresses: Sequence[str]
    figures: Sequence[Figure]
    verdicts: Sequence[Verdict]
    remarks: Sequence[str] = field(default_factory=list)
    unverified: Sequence[str] = field(default_factory=list)
    trust: Sequence[str] = field(default_factory=list)
    drill: Drill | None = None
    digests: Mapping[str, str] = field(default_factory=dict)
    form: str = FORM

    @property
    def all_figures(self) -> list[Figure]:
        """The figures of the tests, and that of the machine's memory."""
        memory = self.machine.memory_bandwidth
        return [*([memory] if memory else []), *self.figures]

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


def parse(text: bytes) -> Receipt:
    """Return a receipt from its JSON, also of an older Hearth; ValueError if it is none."""
    try:
        return _RECEIPT.validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"{where}: {first['msg']}" if where else first["msg"]) from None


_RECEIPT = TypeAdapter(Receipt)


def last_drill(receipt: Path) -> Drill | None:
    """Return the drill of an earlier receipt: a run without a drill keeps the last one."""
    try:
        return parse(receipt.read_bytes()).drill
    except (OSError, ValueError):
        return None


def _argv(project: Project, mark: str, words: Sequence[str]) -> list[str]:
    argv = [sys.executable, "-m", "pytest", "-c", str(_TESTS / "pytest.ini"), str(_TESTS)]
    argv += ["--rootdir", str(project.root), "-m", mark]
    argv += ["-k", " or ".join(words)] if words else []
    return [*argv, "-p", "hearth.smoke.plugin", "--hearth-events=/dev/fd/{fd}"]


def collected(project: Project, mark: str, words: Sequence[str]) -> list[str]:
    """Return the smoke tests that `run` would run in this house; nothing is tested.

    Raises:
        VerifyError: they could not be read; the text names the log.
    """
    log = project.logs / f"collect-{datetime.now():%Y%m%d-%H%M%S}.log"
    argv = [*_argv(project, mark, words), "--collect-only"]
    names: list[str] = []
    code = 0
    for event in project.events(argv, log, {"NO_COLOR": "1"}, COLLECT_S):
        names = event.get("names", names)
        code = event.get("code", code)
    if code not in _COLLECTED:
        raise VerifyError(f"the smoke tests could not be read (pytest exit code {code}): {log}")
    return names


def run(
    project: Project,
    mark: str,
    on_verdict: Callable[[Verdict, int], None],
    words: Sequence[str] = (),
) -> Receipt:
    """Run the smoke tests with `mark` and return their results.

    `on_verdict` is called with each verdict as soon as it is known, and with the total number.
    With `words`, only the tests with one of them in their name run; none is an error.
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
    # Before the tests, so that no model generates meanwhile.
    machine = measured_machine()
    argv = _argv(project, mark, words)
    limit_s = time_limit(RECEIPT_FOLDER / RECEIPT) + (DRILL_S if "drill" in mark else 0)
    argv += [f"--hearth-limit={limit_s:.0f}"]
    for event in project.events(argv, log, {"NO_COLOR": "1"}, limit_s + _GRACE_S):
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
        machine=machine,
        accelerator=notes.get("accelerator", {}),
        versions=facts.versions() | notes.get("versions", {}),
        addresses=[f"https://{site.fqdn}" for site in house.sites],
        figures=[Figure(**figure) for figure in notes.get("figures", [])],
        verdicts=verdicts,
        remarks=notes.get("remarks", []),
        unverified=unverified(project.inventory, house),
        trust=status.trust_addresses(house),
        drill=drill or last_drill(RECEIPT_FOLDER / RECEIPT),
        digests=_digests(house),
    )


def _digests(house: House) -> dict[str, str]:
    """Return the digests of the programs and of the models that are on the disk."""
    models = status.models(house).models.values()
    return facts.program_digests() | {one.name: one.digest for one in models if one.digest}


def time_limit(receipt: Path) -> float:
    """Return after how many seconds a run ends, whatever hangs: twice what it took before."""
    try:
        last = json.loads(receipt.read_text(encoding="utf-8"))
        usual = float(last["seconds"]) if last["good"] and "pending" not in last["summary"] else 0
    except (OSError, ValueError, KeyError, TypeError):
        usual = 0
    return max(LEAST_S, LIMIT * usual) if usual else FIRST_S


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


def render(receipt: Receipt) -> str:
    """Return the receipt as one HTML page without scripts that loads nothing."""
    import jinja2

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
