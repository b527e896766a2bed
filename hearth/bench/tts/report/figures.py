"""What `hearth bench tts` found, as data: docs/schema/bench-tts.json describes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from hearth.bench.served.machine import Machine
from hearth.bench.served.ratios import Health, Ratio
from hearth.bench.tts.call import Sample
from hearth.clients.stats import Spread, spread
from hearth.clients.tts import VOICE

FORM = "hearth-bench-tts/1"


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of request: what is spoken, how it is wanted, and by how many at once.

    `what` is phrase, paragraph, long or a sample; `repeated` that the server had just spoken it.
    """

    what: str
    format: str = "pcm"
    voice: str = VOICE
    streamed: bool = True
    clients: int = 1
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Figures:
    """All answers of one kind; the spreads are of those that succeeded, n says how many.

    Times run from the request. `ttfa_ms` is when the first 10 ms block above -45 dBFS could be
    decoded, `gap_ms` the longest wait between two chunks, `lead_ms` the silence in the sound
    before that block, `early` the part of the time to the last byte that was left at the first one
    (a burst leaves none), `stalls` how often in all answers together a player ran dry for more than
    20 ms, `sha256` the digest of the bytes of each answer.
    """

    case: Case
    characters: int
    calls: int
    failed: int
    first_byte_ms: Spread | None
    ttfa_ms: Spread | None
    last_byte_ms: Spread | None
    gap_ms: Spread | None
    early: Spread | None
    chunks: Spread | None
    lead_ms: Spread | None
    stalls: int
    dry_ms: float
    audio_s: Spread | None
    rtf: Spread | None
    characters_per_s: Spread | None
    sha256: tuple[str, ...]
    errors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ServerReport:
    """One server: what it says of itself, and what was measured of it.

    `memory_bytes` is the most that its /status said, while it spoke too; `stopped` why it was not
    asked any more.
    """

    name: str
    url: str
    engine: str
    provider: str
    model: str
    model_sha256: str
    threads: int | None
    memory_bytes: int | None
    figures: tuple[Figures, ...]
    health: Health | None
    stopped: str


@dataclass(frozen=True, slots=True)
class BareFigures:
    """One inference of the same words without a server, in turns with the requests.

    `how` says with which options it ran; `first_piece` is the latest text that the server spoke
    first; `reason` says why there is no figure.
    """

    first_piece_ms: Spread | None
    whole_ms: Spread | None
    first_piece: str
    how: str
    reason: str


@dataclass(frozen=True, slots=True)
class RoundFigures:
    """One fresh phrase: the servers' times by their names, and the bare inferences beside them."""

    ttfa_ms: dict[str, float | None]
    last_byte_ms: dict[str, float]
    first_piece: str | None
    bare_first_ms: float | None
    bare_whole_ms: float | None


@dataclass(frozen=True, slots=True)
class Report:
    """All that one run of `hearth bench tts` found; the ratios of the house stand first.

    `stopped` says why it has less than was asked for.
    """

    form: str
    started: str
    seconds: float
    quick: bool
    runs: int
    machine: Machine
    servers: tuple[ServerReport, ...]
    bare: BareFigures
    rounds: tuple[RoundFigures, ...]
    ratios: tuple[Ratio, ...]
    stopped: str = ""

    @property
    def fine(self) -> bool:
        """Say whether every call was answered and the first server reached what was measured."""
        first = self.servers[0]
        missed = any(r.verdict == "not reached" for r in self.ratios if r.server == first.name)
        failed = first.stopped or any(figures.failed for figures in first.figures)
        return not (self.stopped or missed or failed)

    def as_json(self) -> dict[str, Any]:
        """Give the report as plain JSON data."""
        return asdict(self)


@dataclass(slots=True)
class Taken:
    """The samples of one server, by the kind of request, in the order of their first."""

    by_case: dict[Case, list[Sample]] = field(default_factory=dict)

    def add(self, case: Case, sample: Sample) -> None:
        """Keep one sample."""
        self.by_case.setdefault(case, []).append(sample)

    def figures(self) -> tuple[Figures, ...]:
        """Return the figures of every kind."""
        return tuple(figures_of(case, samples) for case, samples in self.by_case.items())


def figures_of(case: Case, samples: Sequence[Sample]) -> Figures:
    """Return the figures of answers of one kind; errors are named once each."""
    good = [sample for sample in samples if not sample.error]
    return Figures(
        case=case,
        characters=max((s.characters for s in samples), default=0),
        calls=len(samples),
        failed=len(samples) - len(good),
        first_byte_ms=_ms([s.first_byte_s for s in good]),
        ttfa_ms=_ms([s.ttfa_s for s in good]),
        last_byte_ms=_ms([s.last_byte_s for s in good]),
        gap_ms=_ms([s.gap_s for s in good]),
        early=spread([s.early for s in good if s.early is not None]),
        chunks=spread([float(s.chunks) for s in good]),
        lead_ms=_ms([s.lead_s for s in good]),
        stalls=sum(s.stalls for s in good),
        dry_ms=sum(s.dry_s for s in good) * 1000,
        audio_s=spread([s.audio_s for s in good]),
        rtf=spread([s.rtf for s in good if s.rtf is not None]),
        characters_per_s=spread([s.characters_per_s for s in good if s.characters_per_s]),
        sha256=tuple(s.sha256 for s in good),
        errors=tuple(dict.fromkeys(s.error for s in samples if s.error)),
    )


def _ms(seconds: Sequence[float | None]) -> Spread | None:
    return spread([s * 1000 for s in seconds if s is not None])
