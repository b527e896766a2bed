"""The results of `hearth bench stt` as data, by the schema docs/schema/bench-stt.json."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from hearth.bench.report import Figures, Report, ServerReport, figures_of
from hearth.bench.session import MeasuredServer
from hearth.bench.stt.requests import SttSample
from hearth.clients.stats import Spread


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of request: what was done, of how many seconds, by how many at once.

    `what` is live, live without partials, flush, crowd or file.
    """

    what: str
    seconds: int
    streams: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SttFigures(Figures):
    """All answers of one kind; the spreads are of those that succeeded, n is their number.

    Of a stream: `final_ms` from the end of speech (the last sample above -40 dBFS) to its final
    text, `ended_ms` to the event that the speech ended; `started_ms` and `first_partial_ms` from
    the first sound of the speech; `partials` and `finals` count the texts. Of a file:
    `whole_ms` from the request to the whole text, and `rtf`, seconds of work for a second of it.
    """

    case: Case
    audio_s: float
    final_ms: Spread | None
    ended_ms: Spread | None
    started_ms: Spread | None
    first_partial_ms: Spread | None
    partials: Spread | None
    finals: Spread | None
    whole_ms: Spread | None
    rtf: Spread | None


@dataclass(frozen=True, slots=True)
class Vad:
    """The cost of voice detection: milliseconds for a second of background noise.

    `stream` is the wall-clock time of the whole stream, sent as fast as the server takes it;
    `processor` is the CPU time of the whole server meanwhile, which other load hardly changes;
    `reported` is the server's own figure of the detector alone.
    """

    stream: Spread | None
    processor: float | None
    reported: float | None
    reason: str


@dataclass(frozen=True, slots=True)
class WordErrors:
    """The word error rate; `rate` is None where it was not measured, with the reason.

    `failed` means that the server did not answer, not that its words could not be counted.
    """

    rate: float | None
    texts: int
    words: int
    reason: str
    failed: bool = False


@dataclass(frozen=True, slots=True)
class MemoryLoop:
    """Endless speech, with samples of the server's memory as (seconds of sound, bytes).

    `audio_s` of the `wanted_s` seconds were spoken; `growth_bytes` is the median of the last
    quarter minus that of the second.
    """

    wanted_s: int
    audio_s: float
    seconds: float
    growth_bytes: int | None
    most_bytes: int | None
    samples: tuple[tuple[float, int], ...]
    failed: int
    errors: tuple[str, ...]

    @property
    def whole(self) -> bool:
        """Whether all of it was spoken."""
        return self.audio_s >= self.wanted_s


@dataclass(slots=True)
class SttServer(MeasuredServer[Case, SttSample]):
    """One STT server; `streams` is False once it has shown that it has none."""

    memory_every: ClassVar[int] = 40

    streams: bool = True
    vad: Vad | None = None
    words: WordErrors | None = None
    loop: MemoryLoop | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SttServerReport(ServerReport):
    """One STT server: its status, and its results; `streams` says whether it has live ones."""

    draft: str
    device: str
    compute_type: str
    choice_reason: str
    streams: bool
    figures: tuple[SttFigures, ...]
    vad: Vad | None
    words: WordErrors | None
    loop: MemoryLoop | None

    @property
    def failed(self) -> bool:
        """Whether anything was not answered, or ended early."""
        short = self.loop is not None and bool(self.loop.failed or not self.loop.whole)
        mute = self.words is not None and self.words.failed
        return bool(self.stopped) or short or mute or any(one.failed for one in self.figures)


@dataclass(frozen=True, slots=True)
class SttBaseline:
    """The baseline: faster_whisper calls on the same sound, in turns with the server.

    `three_ms` of 3 s, `thirty_ms` of 30 s, `four_ms` of four of 3 s one after the other; `how`
    describes their options, `reason` is why there is no figure.
    """

    three_ms: Spread | None
    thirty_ms: Spread | None
    four_ms: Spread | None
    how: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SttReport(Report):
    """The results of one run of `hearth bench stt`; the ratios of the first server come first.

    `stopped` is the reason for an early end.
    """

    end_of_speech_ms: int
    servers: tuple[SttServerReport, ...]
    baseline: SttBaseline


def stt_figures(case: Case, samples: Sequence[SttSample]) -> SttFigures:
    """Return the figures of one kind of request."""
    audio_s = round(sum(one.audio_s for one in samples) / len(samples), 2)
    return figures_of(SttFigures, samples, case=case, audio_s=audio_s)
