"""The results of `hearth bench stt` as data, by the schema docs/schema/bench-stt.json."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hearth.bench.report import Health, Machine, Ratio, missed, ms
from hearth.bench.servers import errors
from hearth.bench.stt.requests import FileResult, Result, StreamResult
from hearth.clients.stats import Spread, spread

FORM = "hearth-bench-stt/1"


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of request: what was done, of how many seconds, by how many at once.

    `what` is live, live without partials, flush, crowd or file.
    """

    what: str
    seconds: int
    streams: int = 1


@dataclass(frozen=True, slots=True)
class Figures:
    """All answers of one kind; the spreads are of those that succeeded, n is their number.

    Of a stream: `final_ms` from the end of speech (the last sample above -40 dBFS) to its final
    text, `ended_ms` to the event that the speech ended; `started_ms` and `first_partial_ms` from
    the first sound of the speech; `partials` and `finals` count the texts. Of a file:
    `whole_ms` from the request to the whole text, and `rtf`, seconds of work for a second of it.
    """

    case: Case
    audio_s: float
    calls: int
    failed: int
    final_ms: Spread | None
    ended_ms: Spread | None
    started_ms: Spread | None
    first_partial_ms: Spread | None
    partials: Spread | None
    finals: Spread | None
    whole_ms: Spread | None
    rtf: Spread | None
    errors: tuple[str, ...]


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


@dataclass(frozen=True, slots=True)
class ServerReport:
    """One server: its status, and its results.

    `streams` says whether it has live ones; `memory_bytes` is the most that its /status reported;
    `stopped` is the reason for giving it up.
    """

    name: str
    url: str
    model: str
    draft: str
    device: str
    compute_type: str
    threads: int | None
    choice_reason: str
    memory_bytes: int | None
    streams: bool
    figures: tuple[Figures, ...]
    vad: Vad | None
    words: WordErrors | None
    loop: MemoryLoop | None
    health: Health | None
    stopped: str

    @property
    def failed(self) -> bool:
        """Whether anything was not answered, or ended early."""
        short = self.loop is not None and bool(self.loop.failed or not self.loop.whole)
        mute = self.words is not None and self.words.failed
        return bool(self.stopped) or short or mute or any(one.failed for one in self.figures)


@dataclass(frozen=True, slots=True)
class BaselineFigures:
    """The baseline: faster_whisper calls on the same sound, in turns with the server.

    `three_ms` of 3 s, `thirty_ms` of 30 s, `four_ms` of four of 3 s one after the other; `how`
    describes their options, `reason` is why there is no figure.
    """

    three_ms: Spread | None
    thirty_ms: Spread | None
    four_ms: Spread | None
    how: str
    reason: str


@dataclass(frozen=True, slots=True)
class Report:
    """The results of one run of `hearth bench stt`; the ratios of the first server come first.

    `stopped` is the reason for an early end.
    """

    form: str
    started: str
    seconds: float
    quick: bool
    runs: int
    end_of_speech_ms: int
    machine: Machine
    servers: tuple[ServerReport, ...]
    baseline: BaselineFigures
    ratios: tuple[Ratio, ...]
    stopped: str = ""

    @property
    def fine(self) -> bool:
        """Whether every call was answered and the first server missed no target."""
        first = self.servers[0]
        return not (self.stopped or missed(self.ratios, first.name) or first.failed)

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain JSON data."""
        return asdict(self)


def figures_of(case: Case, results: Sequence[Result]) -> Figures:
    """Return the figures of one kind of request; each error is named once."""
    streams = [r for r in results if isinstance(r, StreamResult) and not r.error]
    files = [r for r in results if isinstance(r, FileResult) and not r.error]
    return Figures(
        case=case,
        audio_s=round(sum(r.audio_s for r in results) / len(results), 2),
        calls=len(results),
        failed=sum(1 for r in results if r.error),
        final_ms=ms([r.final_s for r in streams]),
        ended_ms=ms([r.ended_s for r in streams]),
        started_ms=ms([r.started_s for r in streams]),
        first_partial_ms=ms([r.first_partial_s for r in streams]),
        partials=spread([float(r.partials) for r in streams]),
        finals=spread([float(r.finals) for r in streams]),
        whole_ms=ms([r.whole_s for r in files]),
        rtf=spread([r.rtf for r in files]),
        errors=errors(results),
    )
