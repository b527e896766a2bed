"""The targets of an STT server, each against what its own machine can do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from hearth.bench.report import Ratio, health_ratio, median, ratio
from hearth.bench.servers import MeasuredServer
from hearth.bench.stt.figures import Case, MemoryLoop, Vad, WordErrors
from hearth.bench.stt.requests import FileResult, Result, StreamResult

FOUR = 4
LIVE, FILE, CROWD = Case("live", 3), Case("file", 30), Case("crowd", 3, FOUR)
_QUIET_MS = 200.0
"""After so much silence the server starts with the text that it may send."""
_MIB = 2**20
_GROWTH_MIB = 10.0


@dataclass(slots=True)
class SttServer(MeasuredServer[Case, Result]):
    """One STT server; `streams` is False once it has shown that it has none."""

    memory_every: ClassVar[int] = 40

    streams: bool = True
    vad: Vad | None = None
    words: WordErrors | None = None
    loop: MemoryLoop | None = None


@dataclass(slots=True)
class BaselineTimes:
    """Seconds of the baseline: of 3 s, of 30 s, and of four of 3 s, each with its crowd's time."""

    three_s: list[float] = field(default_factory=list)
    thirty_s: list[float] = field(default_factory=list)
    four_s: list[tuple[str, float, float]] = field(default_factory=list)
    """(server, seconds of the crowd until its last final text, seconds of the four calls)"""


@dataclass(frozen=True, slots=True)
class Measured:
    """The results of one server; only the `primary` one has targets beyond files and health."""

    server: SttServer
    end_of_speech_ms: int
    baseline: BaselineTimes
    primary: bool = True
    no_baseline: str = ""

    def ratio(
        self, what: str, unit: str, target: float, value: float | None, n: int, why: str
    ) -> Ratio:
        """Return a ratio of this server."""
        return ratio(self.server.name, what, unit, target, value, n, why)


def ratios(of: Measured) -> list[Ratio]:
    """Return every ratio of one server, with a reason where it was not measured."""
    rows = [_final(of), _crowd(of), _vad(of)] if of.primary else []
    health = health_ratio(of.server.name, "/health p99 during transcription", of.server.health_s)
    rows += [health, _rtf(of)]
    return rows + ([_growth(of, of.server.loop)] if of.server.loop else [])


def _final(of: Measured) -> Ratio:
    """Hold the final text to the threshold, or to one baseline call where that takes longer."""
    results = [r for r in of.server.good(LIVE) if isinstance(r, StreamResult)]
    times = [r.final_s * 1000 for r in results if r.final_s is not None]
    value, baseline = median(times), median(of.baseline.three_s)
    target = of.end_of_speech_ms + 50.0
    what = f"end of speech to final text, 3 s: {of.end_of_speech_ms} ms threshold + 50 ms"
    why = "nothing came through the stream"
    if baseline is not None:
        target = max(target, _QUIET_MS + 1.1 * baseline * 1000)
        what += f", or 200 ms + 1.1 baselines of {baseline * 1000:.0f} ms"
    elif value is not None and value > target:
        # It may be as fast as the machine allows: only the baseline could tell.
        value, why = None, of.no_baseline or "no baseline"
    return of.ratio(what, "ms", target, value, len(times), why)


def _crowd(of: Measured) -> Ratio:
    each = [c / calls for name, c, calls in of.baseline.four_s if name == of.server.name and calls]
    what = "four streams of 3 s at once, end of speech to last final text ÷ four baselines"
    why = of.no_baseline or "four at once had no answer"
    return of.ratio(what, "", 1.2, median(each), len(each), why)


def _vad(of: Measured) -> Ratio:
    """Prefer CPU time: the wall clock includes other load of the machine."""
    vad = of.server.vad or Vad(None, None, None, "that part was not run")
    n, value = (vad.stream.n, vad.stream.median) if vad.stream else (0, None)
    what = "voice detection with the whole stream, for a second of sound"
    if vad.processor is not None:
        what, value = f"{what}, CPU time", vad.processor
    return of.ratio(what, "ms", 3.0, value, n, vad.reason)


def _rtf(of: Measured) -> Ratio:
    each = [r.rtf for r in of.server.good(FILE) if isinstance(r, FileResult)]
    what = "seconds of work for a second of sound, file of 30 s"
    return of.ratio(what, "", 0.5, median(each), len(each), "no file was transcribed")


def _growth(of: Measured, loop: MemoryLoop) -> Ratio:
    what, n = f"growth over {loop.wanted_s / 60:.3g} minutes of speech", len(loop.samples)
    value = None if loop.growth_bytes is None else max(0.0, loop.growth_bytes / _MIB)
    why = f"only {n} samples" if n else "the server does not report its memory"
    if not loop.whole:
        why = f"only {loop.audio_s / 60:.3g} of {loop.wanted_s / 60:.3g} minutes"
        # Too much growth is a result even so; less may still become too much.
        value = value if value is not None and value > _GROWTH_MIB else None
    return of.ratio(what, "MiB", _GROWTH_MIB, value, n, why)


def good_finals(results: Sequence[StreamResult]) -> list[float]:
    """Return the times to the final texts of results that succeeded."""
    return [r.final_s for r in results if r.final_s and not r.error]
