"""`hearth bench tts` from its beginning to its report."""

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
from hearth.bench.tts.bare import Bare
from hearth.bench.tts.ratios import Measured, Round, ratios
from hearth.bench.tts.report.figures import FORM, BareFigures, Report, RoundFigures
from hearth.bench.tts.run import Plan, Progress, Session
from hearth.bench.tts.target import Target
from hearth.clients.endpoints import Endpoint
from hearth.clients.stats import spread

MakeBare = Callable[[Mapping[str, Any]], Bare]
"""Makes the bare inference that belongs to a server, from what its /status says."""
NO_BARE = "no command for a bare inference: give one by --bare"
NO_CADDY = "no way through Caddy: only a house has one"


async def bench_tts(
    servers: Sequence[Endpoint],
    plan: Plan,
    *,
    bare: MakeBare | None = None,
    bare_how: str = "",
    through: Endpoint | None = None,
    progress: Progress = lambda done, of, what: None,
) -> Report:
    """Measure the first server, and the others in turns with it.

    Raises:
        ClientError: the first server does not answer at all.
    """
    started, clock, load = datetime.now(UTC), time.perf_counter(), os.getloadavg()[0]
    async with contextlib.AsyncExitStack() as stack:
        all_of_them = [*servers, through] if through else servers
        targets = [
            Target(server, await stack.enter_async_context(server.client()))
            for server in all_of_them
        ]
        way = targets.pop() if through else None
        session = Session(plan, targets, through=way, progress=progress)
        await begin(session, bare, NO_BARE)
        await session.run()
    return Report(
        form=FORM,
        started=started.isoformat(timespec="seconds"),
        seconds=round(time.perf_counter() - clock, 1),
        quick=plan.quick,
        runs=plan.runs,
        machine=this_machine(load),
        servers=tuple(target.report() for target in targets),
        bare=_bare_figures(session, bare_how),
        rounds=tuple(_round_figures(around) for around in session.rounds),
        ratios=tuple(_ratios(session)),
        stopped=session.stopped,
    )


def _ratios(session: Session) -> list[Ratio]:
    rows = []
    for number, target in enumerate(session.targets):
        rows += ratios(
            Measured(
                server=target.server.name,
                voice=session.plan.voice,
                taken=target.taken,
                rounds=session.rounds,
                health_s=target.health_s,
                caddy_s=session.caddy_s if number == 0 else (),
                ours=number == 0,
                no_bare=session.no_bare or "the server does not say what it speaks first",
                no_caddy=_no_caddy(session),
            )
        )
    return rows


def _no_caddy(session: Session) -> str:
    if session.through is None:
        return NO_CADDY
    errors = (e for f in session.through.taken.figures() for e in f.errors)
    return next(errors, session.through.stopped or "no pair of answers came")


def _bare_figures(session: Session, how: str) -> BareFigures:
    first = [r.bare_first_s * 1000 for r in session.rounds if r.bare_first_s is not None]
    whole = [r.bare_whole_s * 1000 for r in session.rounds if r.bare_whole_s is not None]
    pieces = [r.first_piece for r in session.rounds if r.first_piece]
    reason = "" if whole else session.no_bare or "no round was ended"
    return BareFigures(
        first_piece_ms=spread(first),
        whole_ms=spread(whole),
        first_piece=pieces[-1] if pieces else "",
        how=how,
        reason=reason,
    )


def _round_figures(around: Round) -> RoundFigures:
    def ms(seconds: float | None) -> float | None:
        return None if seconds is None else seconds * 1000

    good = {name: sample for name, sample in around.fresh.items() if not sample.error}
    return RoundFigures(
        ttfa_ms={name: ms(sample.ttfa_s) for name, sample in good.items()},
        last_byte_ms={name: sample.last_byte_s * 1000 for name, sample in good.items()},
        first_piece=around.first_piece,
        bare_first_ms=ms(around.bare_first_s),
        bare_whole_ms=ms(around.bare_whole_s),
    )
