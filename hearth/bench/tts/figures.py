"""The results of `hearth bench tts` as data, by the schema docs/schema/bench-tts.json."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hearth.bench.report import Figures, Report, ServerReport, figures_of, good
from hearth.bench.tts.answer import Sample
from hearth.clients.stats import Spread
from hearth.clients.tts import VOICE

LONGER = ("paragraph", "long")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class TtsFigures(Figures):
    """All answers of one kind; the spreads are of those that succeeded, n is their number.

    Times run from the request. `ttfa_ms` is when the first 10 ms block above -45 dBFS could be
    decoded, `gap_ms` the longest wait between two chunks, `lead_ms` the silence in the sound
    before that block, `early` the part of the time to the last byte that was left at the first one
    (a burst leaves none), `stalls` how often in all answers together a player ran dry for more than
    20 ms, `sha256` the digest of the bytes of each answer.
    """

    case: Case
    characters: int
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


@dataclass(frozen=True, slots=True, kw_only=True)
class TtsServerReport(ServerReport):
    """One TTS server: its status, and its results."""

    engine: str
    provider: str
    model_sha256: str
    figures: tuple[TtsFigures, ...]


@dataclass(frozen=True, slots=True)
class TtsBaseline:
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
class Round:
    """The baseline's times of one fresh phrase, and of the piece that the server speaks first."""

    first_piece: str | None
    baseline_first_ms: float | None
    baseline_whole_ms: float | None


@dataclass(frozen=True, slots=True)
class RoundFigures(Round):
    """One fresh phrase: the times of each server by its name, and those of the baseline."""

    ttfa_ms: dict[str, float | None]
    last_byte_ms: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class TtsReport(Report):
    """The results of one run of `hearth bench tts`; the ratios of the first server come first.

    `stopped` is the reason for an early end.
    """

    servers: tuple[TtsServerReport, ...]
    baseline: TtsBaseline
    rounds: tuple[RoundFigures, ...]


def tts_figures(case: Case, samples: Sequence[Sample]) -> TtsFigures:
    """Return the figures of answers of one kind."""
    answered = good(samples)
    return figures_of(
        TtsFigures,
        samples,
        case=case,
        characters=max((s.characters for s in samples), default=0),
        stalls=sum(s.stalls for s in answered),
        dry_ms=sum(s.dry_ms for s in answered),
        sha256=tuple(s.sha256 for s in answered),
    )


def case_text(case: Case, characters: int) -> str:
    """Return the name of a kind of request."""
    what = f"{characters:,} characters" if case.what == "long" else case.what
    words = [what, case.format, case.voice]
    words += [] if case.streamed else ["not streamed"]
    words += ["again"] if case.repeated else []
    words += [f"{case.clients} at once"] if case.clients > 1 else []
    return ", ".join(words)
