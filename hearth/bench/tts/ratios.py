"""The figures that a speech server should reach, each against what its own machine can do."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hearth.bench.served.ratios import Ratio, health_ratio, middle, ratio
from hearth.bench.tts.call import Sample
from hearth.bench.tts.report.figures import Case, Taken

FOUR = 4


@dataclass(slots=True)
class Round:
    """One fresh phrase: what each server made of it, and the bare inferences beside it."""

    fresh: dict[str, Sample] = field(default_factory=dict)
    first_piece: str | None = None
    bare_first_s: float | None = None
    bare_whole_s: float | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """What the ratios of one server stand on.

    `caddy_s` are first bytes direct and through Caddy, in pairs. `ours` is the server whose first
    pieces are inferred bare; of another one only what can be told from outside is told.
    """

    server: str
    voice: str
    taken: Taken
    rounds: Sequence[Round]
    health_s: Sequence[float | None] = ()
    caddy_s: Sequence[tuple[float, float]] = ()
    ours: bool = True
    no_bare: str = ""
    no_caddy: str = ""

    def good(
        self, what: str = "phrase", *, clients: int = 1, repeated: bool = False
    ) -> list[Sample]:
        """Return the answers of one kind that succeeded, of sound as PCM as it is made."""
        case = Case(what, voice=self.voice, clients=clients, repeated=repeated)
        return [s for s in self.taken.by_case.get(case, ()) if not s.error]

    def pairs(self) -> list[tuple[Sample, Round]]:
        """Return the answers to fresh phrases, each with what was inferred beside it."""
        taken = [(r.fresh[self.server], r) for r in self.rounds if self.server in r.fresh]
        return [(sample, around) for sample, around in taken if not sample.error]


def ratios(of: Measured) -> list[Ratio]:
    """Return every ratio of one server, with a reason where it was not measured."""
    rows = [_first_piece(of)] if of.ours else []
    rows += [
        _to_bare(of, "TTFA ÷ one bare inference of the whole phrase", 0.20, lambda s: s.ttfa_s),
        _stalls(of, "stalls, phrase, one client", of.good() + of.good(repeated=True)),
        _long(of),
        _to_bare(of, "whole synthesis ÷ one bare inference", 1.15, lambda s: s.last_byte_s),
        _four(of),
        _health(of),
        _repeat(of),
    ]
    return rows + ([_caddy(of)] if of.ours else [])


def _first_piece(of: Measured) -> Ratio:
    more = [
        (sample.ttfa_s - around.bare_first_s) * 1000
        for sample, around in of.pairs()
        if sample.ttfa_s is not None and around.bare_first_s is not None
    ]
    what = "TTFA - one bare inference of the same first piece"
    return ratio(of.server, what, "ms", 20.0, middle(more), len(more), of.no_bare)


def _to_bare(
    of: Measured, what: str, reach: float, pick: Callable[[Sample], float | None]
) -> Ratio:
    taken = [(pick(sample), around.bare_whole_s) for sample, around in of.pairs()]
    each = [value / bare for value, bare in taken if value is not None and bare]
    return ratio(of.server, what, "", reach, middle(each), len(each), of.no_bare)


def _stalls(of: Measured, what: str, heard: Sequence[Sample]) -> Ratio:
    total = float(sum(sample.stalls for sample in heard)) if heard else None
    return ratio(of.server, what, "", 0.0, total, len(heard), "nothing was heard")


def _long(of: Measured) -> Ratio:
    heard = of.good("long")
    lengths = sorted({sample.characters for sample in heard})
    said = " to ".join(f"{length:,}" for length in dict.fromkeys(lengths[:1] + lengths[-1:]))
    text = f"long text of {said} characters" if heard else "long text"
    return _stalls(of, f"stalls, {text}, one client", heard)


def _four(of: Measured) -> Ratio:
    alone = middle([sample.last_byte_s for sample in of.good()])
    four = [sample.ttfa_s for sample in of.good(clients=FOUR) if sample.ttfa_s is not None]
    mean = statistics.mean(four) / alone if four and alone else None
    what = "mean TTFA of four at once ÷ whole phrase alone"
    return ratio(of.server, what, "", 0.60, mean, len(four), "four at once were not heard")


def _health(of: Measured) -> Ratio:
    return health_ratio(of.server, "/health p99 during synthesis", "spoke", of.health_s)


def _repeat(of: Measured) -> Ratio:
    again = [s.ttfa_s * 1000 for s in of.good(repeated=True) if s.ttfa_s is not None]
    what, why = "TTFA of a repeat", "no repeat was heard"
    return ratio(of.server, what, "ms", 10.0, middle(again), len(again), why)


def _caddy(of: Measured) -> Ratio:
    more = [(through - direct) * 1000 for direct, through in of.caddy_s]
    what = "first byte through Caddy - direct"
    return ratio(of.server, what, "ms", 5.0, middle(more), len(more), of.no_caddy)
