"""The figures that a listening server should reach, each against what its own machine can do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hearth.bench.served.ratios import Ratio, health_ratio, middle, ratio
from hearth.bench.stt.report.figures import Case, Loop, Taken, Vad

FOUR = 4
LIVE, FILE, CROWD = Case("live", 3), Case("file", 30), Case("crowd", 3, FOUR)
QUIET_MS = 200.0
"""After so much silence the server begins with the text that it may send."""
_MIB = 2**20
_GROWTH_MIB = 10.0


@dataclass(slots=True)
class Calls:
    """Seconds of plain calls: of 3 s, of 30 s, and of four of 3 s, each with its crowd's time."""

    three_s: list[float] = field(default_factory=list)
    thirty_s: list[float] = field(default_factory=list)
    four_s: list[tuple[str, float, float]] = field(default_factory=list)
    """(server, seconds of the crowd until its last final text, seconds of the four calls)"""


@dataclass(frozen=True, slots=True)
class Measured:
    """What the ratios of one server stand on; only `ours` is held to what files do not have."""

    server: str
    end_of_speech_ms: int
    taken: Taken
    calls: Calls
    health_s: Sequence[float | None] = ()
    vad: Vad | None = None
    loop: Loop | None = None
    ours: bool = True
    no_bare: str = ""


def ratios(of: Measured) -> list[Ratio]:
    """Return every ratio of one server, with a reason where it was not measured."""
    rows = [_final(of), _crowd(of), _vad(of)] if of.ours else []
    rows += [_health(of), _rtf(of)]
    return rows + ([_loop(of, of.loop)] if of.loop else [])


def _final(of: Measured) -> Ratio:
    """Hold what a talker feels to the threshold, or to one plain call where that takes longer."""
    felt = [h.final_s * 1000 for h in of.taken.heard(LIVE) if h.final_s is not None]
    value, plain = middle(felt), middle(of.calls.three_s)
    reach = of.end_of_speech_ms + 50.0
    what = f"end of speech to final text, 3 s: {of.end_of_speech_ms} ms threshold + 50 ms"
    if plain is not None:
        reach = max(reach, QUIET_MS + 1.1 * plain * 1000)
        what += f", or 200 ms + 1.1 plain calls of {plain * 1000:.0f} ms"
    elif value is not None and value > reach:
        # It may be as good as it can be: who does not know the plain call cannot tell.
        return ratio(of.server, what, "ms", reach, None, len(felt), of.no_bare or "no plain call")
    return ratio(of.server, what, "ms", reach, value, len(felt), "nothing came through the socket")


def _crowd(of: Measured) -> Ratio:
    each = [crowd / calls for name, crowd, calls in of.calls.four_s if name == of.server and calls]
    what = "four streams of 3 s at once, end of speech to last final text ÷ four plain calls"
    why = of.no_bare or "no four were heard"
    return ratio(of.server, what, "", 1.2, middle(each), len(each), why)


def _vad(of: Measured) -> Ratio:
    """Hold what the processor did to it: the wall clock counts what else runs on the machine."""
    vad = of.vad or Vad(None, None, None, "it was not asked for")
    n, value = (vad.outside.n, vad.outside.median) if vad.outside else (0, None)
    what = "voice detection with all of the socket, for a second of sound"
    if vad.processor is not None:
        what, value = f"{what}, of a processor", vad.processor
    return ratio(of.server, what, "ms", 3.0, value, n, vad.why)


def _health(of: Measured) -> Ratio:
    return health_ratio(of.server, "/health p99 while it listens", "listened", of.health_s)


def _rtf(of: Measured) -> Ratio:
    each = [one.rtf for one in of.taken.written(FILE)]
    what = "seconds of work for a second of sound, file of 30 s"
    return ratio(of.server, what, "", 0.5, middle(each), len(each), "no file was written")


def _loop(of: Measured, loop: Loop) -> Ratio:
    what, n = f"growth over {loop.asked_s / 60:.3g} minutes of speech", len(loop.samples)
    value = None if loop.growth_bytes is None else max(0.0, loop.growth_bytes / _MIB)
    why = f"only {n} weighings" if n else "the server does not say its memory"
    if not loop.whole:
        why = f"only {loop.audio_s / 60:.3g} of {loop.asked_s / 60:.3g} minutes"
        # What has grown too much by then has; what has not may still do it.
        value = value if value is not None and value > _GROWTH_MIB else None
    return ratio(of.server, what, "MiB", _GROWTH_MIB, value, n, why)
