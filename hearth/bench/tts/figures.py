"""The results of `hearth bench tts` as data, by the schema docs/schema/bench-tts.json."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hearth.bench.report import Health, Machine, Ratio, missed, ms
from hearth.bench.servers import errors, good
from hearth.bench.tts.answer import Sample
from hearth.clients.stats import Spread, spread
from hearth.clients.tts import VOICE

FORM = "hearth-bench-tts/1"
FOUR = 4


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of request: what is spoken, in which form, and by how many clients at once.

    `what` is phrase, caddy, paragraph, long or sample; `repeated` means that the server has just
    spoken it.
    """

    what: str
    format: str = "pcm"
    voice: str = VOICE
    streamed: bool = True
    clients: int = 1
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Figures:
    """All answers of one kind; the spreads are of those that succeeded, n is their number.

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
    """One server: its status, and its results.

    `memory_bytes` is the most that its /status reported, also while it spoke; `stopped` is the
    reason for giving it up.
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
class BaselineFigures:
    """The baseline: one inference of the same words without a server, in turns with the requests.

    `how` describes its options; `first_piece` is the latest text that the server spoke first;
    `reason` is why there is no figure.
    """

    first_piece_ms: Spread | None
    whole_ms: Spread | None
    first_piece: str
    how: str
    reason: str


@dataclass(frozen=True, slots=True)
class RoundFigures:
    """One fresh phrase: the times of each server by its name, and those of the baseline."""

    ttfa_ms: dict[str, float | None]
    last_byte_ms: dict[str, float]
    first_piece: str | None
    baseline_first_ms: float | None
    baseline_whole_ms: float | None


@dataclass(frozen=True, slots=True)
class Report:
    """The results of one run of `hearth bench tts`; the ratios of the first server come first.

    `stopped` is the reason for an early end.
    """

    form: str
    started: str
    seconds: float
    quick: bool
    runs: int
    machine: Machine
    servers: tuple[ServerReport, ...]
    baseline: BaselineFigures
    rounds: tuple[RoundFigures, ...]
    ratios: tuple[Ratio, ...]
    stopped: str = ""

    @property
    def fine(self) -> bool:
        """Whether every call was answered and the first server missed no target."""
        first = self.servers[0]
        failed = first.stopped or any(figures.failed for figures in first.figures)
        return not (self.stopped or missed(self.ratios, first.name) or failed)

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain JSON data."""
        return asdict(self)


def figures_of(case: Case, samples: Sequence[Sample]) -> Figures:
    """Return the figures of answers of one kind; each error is named once."""
    answered = good(samples)
    return Figures(
        case=case,
        characters=max((s.characters for s in samples), default=0),
        calls=len(samples),
        failed=len(samples) - len(answered),
        first_byte_ms=ms([s.first_byte_s for s in answered]),
        ttfa_ms=ms([s.ttfa_s for s in answered]),
        last_byte_ms=ms([s.last_byte_s for s in answered]),
        gap_ms=ms([s.gap_s for s in answered]),
        early=spread([s.early for s in answered if s.early is not None]),
        chunks=spread([float(s.chunks) for s in answered]),
        lead_ms=ms([s.lead_s for s in answered]),
        stalls=sum(s.stalls for s in answered),
        dry_ms=sum(s.dry_s for s in answered) * 1000,
        audio_s=spread([s.audio_s for s in answered]),
        rtf=spread([s.rtf for s in answered if s.rtf is not None]),
        characters_per_s=spread([s.characters_per_s for s in answered if s.characters_per_s]),
        sha256=tuple(s.sha256 for s in answered),
        errors=errors(samples),
    )
