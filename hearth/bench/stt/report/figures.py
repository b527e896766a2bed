"""What `hearth bench stt` found, as data: docs/schema/bench-stt.json describes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from hearth.bench.served.machine import Machine
from hearth.bench.served.ratios import Health, Ratio
from hearth.bench.stt.call import Written
from hearth.bench.stt.heard import Heard
from hearth.clients.stats import Spread, spread

FORM = "hearth-bench-stt/1"


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of request: what was done, of about how many seconds, by how many at once.

    `what` is live, live without partials, flush, crowd or file.
    """

    what: str
    seconds: int
    streams: int = 1


@dataclass(frozen=True, slots=True)
class Figures:
    """All answers of one kind; the spreads are of those that succeeded, n says how many.

    Of the socket: `final_ms` from the end of speech (the last sample above -40 dBFS) to its final
    text, `ended_ms` to the word that the speech ended; `started_ms` and `first_partial_ms` from
    the first sound of the speech; `partials` and `finals` are how many texts came. Of a file:
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
    """What hearing that nobody speaks costs: milliseconds for a second of a quiet room.

    `outside` is wall-clock time of the socket with all that belongs to it, the room sent as fast
    as the server takes it; `processor` what the whole server computed meanwhile, which what else
    runs on the machine hardly changes; `said` is the server's own word of the detector alone.
    """

    outside: Spread | None
    processor: float | None
    said: float | None
    why: str


@dataclass(frozen=True, slots=True)
class Words:
    """How much was written wrongly: `rate` is None where that was not measured, and why.

    `failed` says that the server did not answer, not that its words could not be counted.
    """

    rate: float | None
    texts: int
    words: int
    why: str
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Loop:
    """Speech without an end: what the server said of its memory, as (seconds of sound, bytes).

    `audio_s` of the `asked_s` seconds were said; `growth_bytes` is the median of the last quarter
    minus that of the second.
    """

    asked_s: int
    audio_s: float
    seconds: float
    growth_bytes: int | None
    most_bytes: int | None
    samples: tuple[tuple[float, int], ...]
    failed: int
    errors: tuple[str, ...]

    @property
    def whole(self) -> bool:
        """Say whether all was said that was asked for."""
        return self.audio_s >= self.asked_s


@dataclass(frozen=True, slots=True)
class ServerReport:
    """One server: what it says of itself, and what was measured of it.

    `socket` says whether it has a live one; `memory_bytes` is the most that its /status said;
    `stopped` why it was not asked any more.
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
    socket: bool
    figures: tuple[Figures, ...]
    vad: Vad | None
    words: Words | None
    loop: Loop | None
    health: Health | None
    stopped: str

    @property
    def failed(self) -> bool:
        """Say whether anything was not answered, or ended early."""
        short = self.loop is not None and bool(self.loop.failed or not self.loop.whole)
        mute = self.words is not None and self.words.failed
        return bool(self.stopped) or short or mute or any(one.failed for one in self.figures)


@dataclass(frozen=True, slots=True)
class BareFigures:
    """Plain faster_whisper calls on the same sound, in turns with the server.

    `three_ms` of 3 s, `thirty_ms` of 30 s, `four_ms` of four of 3 s one after the other; `how`
    says with which options they ran, `reason` why there is no figure.
    """

    three_ms: Spread | None
    thirty_ms: Spread | None
    four_ms: Spread | None
    how: str
    reason: str


@dataclass(frozen=True, slots=True)
class Report:
    """All that one run of `hearth bench stt` found; the ratios of the house stand first.

    `stopped` says why it has less than was asked for.
    """

    form: str
    started: str
    seconds: float
    quick: bool
    runs: int
    end_of_speech_ms: int
    machine: Machine
    servers: tuple[ServerReport, ...]
    bare: BareFigures
    ratios: tuple[Ratio, ...]
    stopped: str = ""

    @property
    def fine(self) -> bool:
        """Say whether every call was answered and the first server reached what was measured."""
        first = self.servers[0]
        missed = any(r.verdict == "not reached" for r in self.ratios if r.server == first.name)
        return not (self.stopped or missed or first.failed)

    def as_json(self) -> dict[str, Any]:
        """Give the report as plain JSON data."""
        return asdict(self)


@dataclass(slots=True)
class Taken:
    """The samples of one server, by the kind of request, in the order of their first."""

    by_case: dict[Case, list[Heard | Written]] = field(default_factory=dict)

    def add(self, case: Case, sample: Heard | Written) -> None:
        """Keep one sample."""
        self.by_case.setdefault(case, []).append(sample)

    def heard(self, case: Case) -> list[Heard]:
        """Return what came through the socket, of one kind."""
        return [s for s in self.by_case.get(case, ()) if isinstance(s, Heard) and not s.error]

    def written(self, case: Case) -> list[Written]:
        """Return what came of files, of one kind."""
        return [s for s in self.by_case.get(case, ()) if isinstance(s, Written) and not s.error]

    def figures(self) -> tuple[Figures, ...]:
        """Return the figures of every kind."""
        return tuple(self._figures(case) for case in self.by_case)

    def _figures(self, case: Case) -> Figures:
        samples, heard, written = self.by_case[case], self.heard(case), self.written(case)
        return Figures(
            case=case,
            audio_s=round(sum(s.audio_s for s in samples) / len(samples), 2),
            calls=len(samples),
            failed=sum(1 for s in samples if s.error),
            final_ms=_ms([s.final_s for s in heard]),
            ended_ms=_ms([s.ended_s for s in heard]),
            started_ms=_ms([s.started_s for s in heard]),
            first_partial_ms=_ms([s.first_partial_s for s in heard]),
            partials=spread([float(s.partials) for s in heard]),
            finals=spread([float(s.finals) for s in heard]),
            whole_ms=_ms([s.whole_s for s in written]),
            rtf=spread([s.rtf for s in written]),
            errors=tuple(dict.fromkeys(s.error for s in samples if s.error)),
        )


def _ms(seconds: Sequence[float | None]) -> Spread | None:
    return spread([s * 1000 for s in seconds if s is not None])
