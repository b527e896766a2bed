"""`hearth bench stt` from its beginning to its report."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from hearth.bench.served.machine import this_machine
from hearth.bench.served.ratios import Ratio
from hearth.bench.served.session import begin
from hearth.bench.stt.bare import Bare
from hearth.bench.stt.plan import Plan
from hearth.bench.stt.ratios import Measured, ratios
from hearth.bench.stt.report.figures import FORM, BareFigures, Report
from hearth.bench.stt.run import Progress, Session
from hearth.bench.stt.target import Target
from hearth.clients.endpoints import Endpoint
from hearth.clients.stats import spread

MakeBare = Callable[[Mapping[str, Any]], Bare]
"""Makes the plain calls that belong to a server, from what its /status says."""
NO_BARE = "no command for a plain call: give one by --bare"


async def bench_stt(
    servers: Sequence[Endpoint],
    plan: Plan,
    *,
    bare: MakeBare | None = None,
    bare_how: str = "",
    progress: Progress = lambda what: None,
) -> Report:
    """Measure the first server, and the others in turns with it.

    Raises:
        ClientError: the first server does not answer at all, or a recording cannot be read.
    """
    started, clock, load = datetime.now(UTC), time.perf_counter(), os.getloadavg()[0]
    async with contextlib.AsyncExitStack() as stack:
        targets = [
            Target(server, await stack.enter_async_context(server.client())) for server in servers
        ]
        session = Session(plan, targets, progress=progress)
        await begin(session, bare, NO_BARE)
        await session.run()
    return Report(
        form=FORM,
        started=started.isoformat(timespec="seconds"),
        seconds=round(time.perf_counter() - clock, 1),
        quick=plan.quick,
        runs=plan.runs,
        end_of_speech_ms=plan.end_of_speech_ms,
        machine=this_machine(load),
        servers=tuple(target.report() for target in targets),
        bare=_bare_figures(session, bare_how),
        ratios=tuple(_ratios(session)),
        stopped=session.stopped,
    )


def _ratios(session: Session) -> list[Ratio]:
    rows = []
    for number, target in enumerate(session.targets):
        rows += ratios(
            Measured(
                server=target.server.name,
                end_of_speech_ms=session.plan.end_of_speech_ms,
                taken=target.taken,
                calls=session.calls,
                health_s=target.health_s,
                vad=target.vad,
                loop=target.loop,
                ours=number == 0,
                no_bare=session.no_bare,
            )
        )
    return rows


def _bare_figures(session: Session, how: str) -> BareFigures:
    calls = session.calls
    name = session.targets[0].server.name
    three, thirty = spread(_ms(calls.three_s)), spread(_ms(calls.thirty_s))
    four = spread(_ms([seconds for server, _, seconds in calls.four_s if server == name]))
    reason = "" if three or thirty or four else session.no_bare or "no part that was run needs it"
    return BareFigures(three, thirty, four, how if not reason else "", reason)


def _ms(seconds: Sequence[float]) -> list[float]:
    return [one * 1000 for one in seconds]
