"""What long steps are doing now: reported where the work is done, repeated where it is shown.

Ansible does the work in processes that it forks. They report through one pipe to the process that
opened it; without one, reports go nowhere.
"""

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

# Nothing is silent for more than five seconds.
EVERY_S = 4.0
_LOOK_S = 0.5
_LONGEST = 200
# What a step reports that only waits.
WAITING = "waiting for"
Clock = Callable[[], float]


@dataclass(slots=True)
class Silence:
    """How long nothing has been printed, in seconds of `clock`."""

    clock: Clock = time.monotonic
    since: float = field(init=False)

    def __post_init__(self) -> None:
        """Start now."""
        self.since = self.clock()

    def broken(self) -> None:
        """Note that something was printed."""
        self.since = self.clock()

    def is_long(self) -> bool:
        """Return whether it is time to print something; the silence then starts again."""
        long = self.clock() - self.since >= EVERY_S
        if long:
            self.broken()
        return long


@dataclass(slots=True)
class Running:
    """The steps that are running, each by the place where it runs, with its latest details."""

    clock: Clock = time.monotonic
    steps: dict[str, tuple[str, float, dict[str, str]]] = field(default_factory=dict)

    def start(self, place: str, text: str) -> None:
        """Note that a step starts there."""
        self.steps[place] = (text, self.clock(), {})

    def detail(self, place: str, what: str, text: str) -> None:
        """Note what a part of the step is doing; an empty text ends that part."""
        if place in self.steps:
            details = self.steps[place][2]
            details.pop(what, None)
            if text:
                details[what] = text

    def end(self, place: str) -> float:
        """Forget the step, and return how many seconds it took."""
        _, since, _ = self.steps.pop(place, ("", self.clock(), {}))
        return self.clock() - since

    def lines(self) -> list[str]:
        """Return a line for each step: its seconds so far, its name, and the details.

        Steps that wait for another one are left out while there is another one.
        """
        shown = []
        steps = list(self.steps.items())
        busy = [step for step in steps if [*step[1][2]] != [WAITING]]
        for place, (text, since, details) in busy or steps:
            known = "; ".join(
                f"{what}: {now}" if what else now for what, now in list(details.items())
            )
            doing = f": {known}" if known else ""
            where = f"  {place}" if place else ""
            shown.append(f"{self.clock() - since:6.1f} s  … {text}{where}{doing}")
        return shown


class Reports:
    """One pipe from the processes that work to the one that shows; it never blocks either."""

    def __init__(self) -> None:
        """Open the pipe; processes that are forked later write to it."""
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        self._rest = b""

    def write(self, place: str, what: str, text: str) -> None:
        """Send one report; with a full pipe it is lost."""
        line = json.dumps([place[:_LONGEST], what[:_LONGEST], text[:_LONGEST]]) + "\n"
        with contextlib.suppress(OSError):
            os.write(self._writer, line.encode())

    def read(self) -> Iterator[tuple[str, str, str]]:
        """Yield each report since the last call: place, part, text."""
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._reader, 1 << 16):
                *lines, self._rest = (self._rest + data).split(b"\n")
                for line in lines:
                    place, what, text = json.loads(line)
                    yield place, what, text


_reports: Reports | None = None
_place = ""
_last: dict[str, float] = {}


def collect() -> Reports:
    """Open the pipe of this process's reports, and of the processes that it forks."""
    global _reports
    _reports = Reports()
    return _reports


def work_at(place: str) -> None:
    """Name the place of this process's reports, such as a host."""
    global _place
    _place = place


def report(what: str, text: str) -> None:
    """Report what a part of the present step is doing; an empty text ends that part."""
    if _reports is not None:
        _reports.write(_place, what, text)


@contextlib.contextmanager
def doing(what: str, text: str) -> Iterator[None]:
    """Report what a part of the present step is doing until the block ends."""
    report(what, text)
    try:
        yield
    finally:
        report(what, "")


def printed() -> None:
    """Report that the present step has printed a line itself."""
    if _reports is not None:
        _reports.write(_place, "", "")


def report_bytes(what: str, received: int, total: int | None) -> None:
    """Report how far a download is; most calls come too soon after another, and do nothing."""
    now = time.monotonic()
    if now - _last.get(what, 0) < _LOOK_S and received != total:
        return
    _last[what] = now
    of = f" of {total / 1e6:,.0f}" if total else ""
    report(what, f"{received / 1e6:,.0f}{of} MB")


@contextlib.contextmanager
def repeating(look: Callable[[], None], every_s: float = _LOOK_S) -> Iterator[None]:
    """Call `look` in a thread, again and again, until the block ends."""
    done = threading.Event()

    def repeat() -> None:
        while not done.wait(every_s):
            look()

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        # It may be waiting for an answer that nobody needs any more.
        thread.join(_LOOK_S)
