"""Look at the whole house every three seconds, cheaply, and tell a fault from a missed deadline.

What can be seen from outside is seen by one thread that waits for all answers at once. What runs a
program, or may hang, is a `Reading`: it has a thread of its own, and its last result is used
meanwhile.
"""

import asyncio
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Generic, TypeVar

from hearth import status
from hearth.catalogue.house import Flow, House, Part, Service
from hearth.clients.endpoints import one_line
from hearth.machine import outside, systemd
from hearth.machine.engine import EngineError
from hearth.status import Row

T = TypeVar("T")
# With two looks in a row, one that hangs is seen after 11.5 s, with `status.PATIENCE_S`.
EVERY_S = 3.0
# What costs more is looked at less often, until it is bad once.
SELDOM_S = 9.0
NEEDS_S = 9.0
# One missed deadline is no fault: a machine under load misses one now and then.
_BAD_LOOKS = 2
# A unit that stays down is not read at every look; its last words are kept for a while.
_UNIT_S, _UNIT_KEPT_S = 6.0, 25.0
_LATE_S = 60.0
# What is read here takes milliseconds; after this long, old rows say nothing.
_STUCK_S = 10.0


class Reading(Generic[T]):
    """What a function returned last; it may hang, so it runs in a thread, one at a time."""

    def __init__(self, read: Callable[[], T], first: T) -> None:
        self.value, self.error = first, ""
        self.begun, self.made = -float("inf"), -float("inf")
        self._read = read
        self._thread: threading.Thread | None = None

    @property
    def hangs(self) -> bool:
        """Whether it is still running."""
        return self._thread is not None and self._thread.is_alive()

    def hangs_for(self) -> float:
        """Return for how many seconds it has been running; 0 when it is not."""
        return time.monotonic() - self.begun if self.hangs else 0.0

    @property
    def late(self) -> bool:
        """Whether it has been running for a minute."""
        return self.hangs_for() > _LATE_S

    def renew(self, every_s: float) -> None:
        """Start it again if the last start was that long ago and has ended."""
        now = time.monotonic()
        if now - self.begun >= every_s and not self.hangs:
            self.begun = now
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()

    def _run(self) -> None:
        try:
            self.value, self.error = self._read(), ""
            self.made = time.monotonic()
        except Exception as error:  # whatever it is, it is said and tried again
            self.error = one_line(error)


@dataclass(slots=True)
class Steady(Generic[T]):
    """What was seen of one thing; it becomes bad after two bad looks in a row.

    Looks may overlap and end in another order: a good one outweighs all that started before it.
    """

    seen: T | None = None
    good: bool = True
    bad_looks: int = 0
    started: float = -float("inf")
    _good_at: float = -float("inf")

    def add(self, started: float, good: bool, seen: T) -> None:
        """Take the result of a look that started at this time."""
        if good:
            self._good_at = max(self._good_at, started)
            self.seen, self.good, self.bad_looks = seen, True, 0
        elif started > self._good_at:
            self.bad_looks += 1
            if self.bad_looks >= _BAD_LOOKS:
                self.seen, self.good = seen, False


class Units:
    """Reads units by systemd, where a look from outside does not explain enough."""

    def __init__(self, read: Callable[[str | None, str], tuple[systemd.UnitState, str]]) -> None:
        self._read = read
        self._known: dict[str, tuple[int, Reading[tuple[systemd.UnitState | None, str]]]] = {}

    async def ask(
        self, instance: str | None, name: str, seen: outside.Processes
    ) -> tuple[systemd.UnitState | None, str]:
        """Return what systemd said lately about a unit; None until it has answered.

        Raises:
            EngineError: it cannot be asked.
        """
        first = seen.pids[0] if seen.pids else 0
        key = f"{instance or ''}/{name}"
        process, reading = self._known.get(key, (-1, None))
        # Of another process, or long ago, it says nothing about this one.
        if reading is None or process != first:
            reading = Reading(partial(self._read, instance, name), (None, ""))
            self._known[key] = first, reading
        reading.renew(_UNIT_S)
        if reading.error:
            raise EngineError(reading.error)
        return reading.value if time.monotonic() - reading.made < _UNIT_KEPT_S else (None, "")


class Look:
    """The state of each row of `hearth status`, kept up to date while `run` runs."""

    def __init__(self, house: House) -> None:
        self.house = house
        self._owners: list[Service | Part] = [*house.services.values(), *house.parts.values()]
        self._programs: dict[str, Steady[Row]] = {owner.name: Steady() for owner in self._owners}
        # When each last looked well and was asked.
        self._answered: dict[str, float] = {}
        self._flows: dict[Flow, Steady[str]] = {flow: Steady() for flow in house.flows}
        self._units = Units(status.read_unit)
        self._firewall = Reading(status.firewall, Row("firewall", "part", True, "", 0))
        self._loaded: Steady[Row] = Steady()
        self._others: Reading[list[Row]] = Reading(self._read_others, [])
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def ready(self) -> bool:
        """Whether everything was looked at once."""
        return all(one.seen is not None for one in self._programs.values())

    def rows(self) -> list[Row]:
        """Return the rows as `hearth status` shows them, as far as they are known."""
        found = [one.seen for one in self._programs.values() if one.seen]
        found += [self._loaded.seen] if self._loaded.seen else []
        others = self._others.value
        if self._others.hangs_for() > _STUCK_S:
            unknown = "not known: a disk or a program of the machine does not respond"
            others = [replace(one, up=False, text=unknown, state="unknown") for one in others]
        return [*found, *others]

    @property
    def errors(self) -> list[str]:
        """What could not be found out, one line each."""
        return [one.error for one in (self._firewall, self._others) if one.error]

    async def run(self) -> None:
        """Look again and again, until this is cancelled."""
        async with asyncio.TaskGroup() as group:
            # Spread, so that no moment has all the work.
            for name, phase in _phases(self._owners, EVERY_S):
                group.create_task(self._repeat(partial(self._look_at, name), phase, EVERY_S))
            for source, phase in _phases(
                dict.fromkeys(flow.source for flow in self._flows), EVERY_S
            ):
                group.create_task(self._repeat(partial(self._try, source), phase, EVERY_S))
            group.create_task(self._repeat(self._look_at_machine, 0, EVERY_S))

    async def _repeat(
        self, look: Callable[[], Awaitable[None]], phase: float, every_s: float
    ) -> None:
        """Start a look at a fixed rate; one that hangs delays the next one, but not the others."""
        loop = asyncio.get_running_loop()
        when, running = loop.time() + phase, set[asyncio.Task[None]]()
        while True:
            await asyncio.sleep(when - loop.time())
            if len(running) < _BAD_LOOKS:
                task = asyncio.ensure_future(look())
                running.add(task)
                task.add_done_callback(running.discard)
            # After a pause of the whole machine, missed looks are not made up for.
            when = max(when + every_s, loop.time())

    async def _look_at(self, owner: Service | Part) -> None:
        started, steady = time.monotonic(), self._programs[owner.name]
        asks = self._asks_health(owner, started)
        try:
            row = await status.row_of(owner, self._units.ask, 0, asks)
        except Exception as error:  # nothing that is broken may keep an old row green
            row = Row(owner.name, "service", False, one_line(error), 0, state="unknown")
        if asks or not row.up:
            steady.add(started, row.up, row)
        elif steady.good:
            # It runs; its memory is news, and that it would answer was not seen.
            steady.seen = row
        if asks and row.up:
            self._answered[owner.name] = started

    def _asks_health(self, owner: Service | Part, now: float) -> bool:
        """Return whether a look requests the health: not each one does, unless one was bad."""
        steady, answered = self._programs[owner.name], self._answered.get(owner.name)
        if owner.health is None or answered is None or steady.bad_looks or not steady.good:
            return True
        return now - answered >= owner.health.every_s - EVERY_S / 2

    async def _try(self, source: str) -> None:
        """Try the needs of one service that are due."""
        now, due = time.monotonic(), []
        for flow, steady in self._flows.items():
            lately = now - steady.started < NEEDS_S - EVERY_S / 2
            if flow.source == source and (steady.bad_looks or not lately):
                steady.started = now
                due.append(flow)
        sockets = status.sockets_for(self.house, due)
        await asyncio.gather(*(self._try_one(*one) for one in sockets.items()))

    async def _try_one(self, flow: Flow, connection: socket.socket | str) -> None:
        steady = self._flows[flow]
        started = steady.started
        try:
            problem = await status.try_need(self.house, flow, connection)
        except Exception as error:  # as above
            problem = one_line(error)
        steady.add(started, not problem, problem)

    async def _look_at_machine(self) -> None:
        self._firewall.renew(EVERY_S if self._loaded.bad_looks else SELDOM_S)
        if self._firewall.made > self._loaded.started:
            row, self._loaded.started = self._firewall.value, self._firewall.made
            self._loaded.add(self._firewall.begun, row.up, row)
        self._others.renew(EVERY_S)

    def _read_others(self) -> list[Row]:
        rows = [one.seen for one in self._programs.values() if one.seen]
        # A program with a bad look may be the reason: the next look at it tells.
        doubted = {name for name, one in self._programs.items() if one.bad_looks}
        tried = {
            flow: "" if {flow.source, flow.target} & doubted else one.seen or ""
            for flow, one in self._flows.items()
        }
        found = status.all_rows(self.house, rows, tried, datetime.now(UTC))
        return found[len(rows) :]


def _phases(things: Iterable[T], every_s: float) -> Sequence[tuple[T, float]]:
    """Return the things, each with its own part of the interval."""
    known = [*things]
    return [(one, index * every_s / len(known)) for index, one in enumerate(known)]
