"""The targets of a TTS server, each against what its own machine can do."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hearth.bench.report import Ratio, health_ratio, median, ratio
from hearth.bench.servers import MeasuredServer
from hearth.bench.tts.answer import Sample
from hearth.bench.tts.figures import FOUR, Case

TtsServer = MeasuredServer[Case, Sample]


@dataclass(slots=True)
class Round:
    """One fresh phrase: the answer of each server, and the baseline's seconds."""

    fresh: dict[str, Sample] = field(default_factory=dict)
    first_piece: str | None = None
    baseline_first_s: float | None = None
    baseline_whole_s: float | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """The results of one server.

    `caddy_s` are first bytes directly and through Caddy, in pairs. `primary` is the server that the
    baseline belongs to; another one has fewer ratios.
    """

    server: TtsServer
    voice: str
    rounds: Sequence[Round]
    caddy_s: Sequence[tuple[float, float]] = ()
    primary: bool = True
    no_baseline: str = ""
    no_caddy: str = ""

    def ratio(
        self, what: str, unit: str, target: float, values: Sequence[float], why: str
    ) -> Ratio:
        """Return the ratio of the median of some values."""
        return ratio(self.server.name, what, unit, target, median(values), len(values), why)

    def good(self, what: str = "phrase", clients: int = 1, repeated: bool = False) -> list[Sample]:
        """Return the answers of one kind that succeeded, streamed as PCM."""
        return self.server.good(Case(what, voice=self.voice, clients=clients, repeated=repeated))

    def pairs(self) -> list[tuple[Sample, Round]]:
        """Return the answers to fresh phrases, each with its round."""
        taken = [(r.fresh.get(self.server.name), r) for r in self.rounds]
        return [(sample, r) for sample, r in taken if sample and not sample.error]


def ratios(of: Measured) -> list[Ratio]:
    """Return every ratio of one server, with a reason where it was not measured."""
    phrases = of.good() + of.good(repeated=True)
    repeats = [s.ttfa_s * 1000 for s in of.good(repeated=True) if s.ttfa_s is not None]
    health = health_ratio(of.server.name, "/health p99 during synthesis", of.server.health_s)
    rows = [
        _to_baseline(of, "TTFA ÷ baseline of the whole phrase", 0.20, lambda s: s.ttfa_s),
        _stalls(of, "stalls, phrase, one client", phrases),
        _long(of),
        _to_baseline(of, "whole synthesis ÷ baseline", 1.15, lambda s: s.last_byte_s),
        _four(of),
        health,
        of.ratio("TTFA of a repeat", "ms", 10.0, repeats, "no repeat was answered"),
    ]
    return [_first_piece(of), *rows, _caddy(of)] if of.primary else rows


def _first_piece(of: Measured) -> Ratio:
    more = [
        (sample.ttfa_s - around.baseline_first_s) * 1000
        for sample, around in of.pairs()
        if sample.ttfa_s is not None and around.baseline_first_s is not None
    ]
    return of.ratio("TTFA - baseline of the same first piece", "ms", 20.0, more, of.no_baseline)


def _to_baseline(
    of: Measured, what: str, target: float, pick: Callable[[Sample], float | None]
) -> Ratio:
    times = [(pick(sample), around.baseline_whole_s) for sample, around in of.pairs()]
    each = [value / whole for value, whole in times if value is not None and whole]
    return of.ratio(what, "", target, each, of.no_baseline)


def _stalls(of: Measured, what: str, samples: Sequence[Sample]) -> Ratio:
    total = float(sum(sample.stalls for sample in samples)) if samples else None
    return ratio(of.server.name, what, "", 0.0, total, len(samples), "there was no answer")


def _long(of: Measured) -> Ratio:
    samples = of.good("long")
    lengths = sorted({sample.characters for sample in samples})
    span = " to ".join(f"{length:,}" for length in dict.fromkeys(lengths[:1] + lengths[-1:]))
    text = f"long text of {span} characters" if samples else "long text"
    return _stalls(of, f"stalls, {text}, one client", samples)


def _four(of: Measured) -> Ratio:
    alone = median([sample.last_byte_s for sample in of.good()])
    four = [sample.ttfa_s for sample in of.good(clients=FOUR) if sample.ttfa_s is not None]
    mean = statistics.mean(four) / alone if four and alone else None
    what = "mean TTFA of four at once ÷ whole phrase alone"
    return ratio(of.server.name, what, "", 0.60, mean, len(four), "four at once had no answer")


def _caddy(of: Measured) -> Ratio:
    more = [(through - direct) * 1000 for direct, through in of.caddy_s]
    return of.ratio("first byte through Caddy - direct", "ms", 5.0, more, of.no_caddy)
