"""Measures TTS servers in turns: phrases, longer texts, several clients, every format."""

from __future__ import annotations

import asyncio
import itertools
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from hearth.bench import TTS_PARTS
from hearth.bench.baseline import KOKORO_HOW, kokoro_command
from hearth.bench.report import Ratio, health_ratio, median, median_ratio, ratio
from hearth.bench.session import MeasuredServer, Plan, Session, Step
from hearth.bench.tts.answer import Sample, analyse, fetch, first_piece
from hearth.bench.tts.decode import FORMATS
from hearth.bench.tts.figures import (
    LONGER,
    Case,
    Round,
    RoundFigures,
    TtsBaseline,
    TtsReport,
    TtsServerReport,
    case_text,
    tts_figures,
)
from hearth.clients.endpoints import Endpoint
from hearth.clients.stats import spread
from hearth.clients.texts import LONG_CHARACTERS, SAMPLE, SHORT_CHARACTERS, Texts
from hearth.clients.tts import VOICE, SpeechRequest

FORM = "hearth-bench-tts/1"
FOUR = 4
WARM_UPS = 2
NO_CADDY = "no path through Caddy: only a service of a house has one"

TtsServer = MeasuredServer[Case, Sample]


@dataclass(frozen=True, slots=True)
class TtsPlan(Plan):
    """How much is requested; every number bounds the load."""

    parts: tuple[str, ...] = TTS_PARTS
    cell_runs: int = 3
    long_characters: int = LONG_CHARACTERS
    # Each takes minutes: a third would take the whole far beyond a quarter of an hour.
    long_runs: int = 2
    clients: tuple[int, ...] = (FOUR, 8)
    formats: tuple[str, ...] = FORMATS
    voices: tuple[str, ...] = (VOICE, "bm_fable", "ef_dora")
    caddy_pairs: int = 20

    def case(self, what: str = "phrase", **more: Any) -> Case:
        """Return a kind of request by the voice of all parts but formats."""
        return Case(what, voice=self.voices[0], **more)

    @property
    def cells(self) -> list[Case]:
        """The formats and voices, streamed and not."""
        grid = itertools.product(self.formats, self.voices, (True, False))
        return [Case("sample", form, voice, streamed) for form, voice, streamed in grid]


QUICK = TtsPlan(
    quick=True,
    runs=3,
    cell_runs=1,
    long_characters=SHORT_CHARACTERS,
    long_runs=1,
    clients=(FOUR,),
    formats=("pcm", "mp3"),
    voices=(VOICE,),
    caddy_pairs=10,
    timeout_s=600.0,
)
"""About a minute: everything once or a few times."""


@dataclass(slots=True)
class TtsSession(Session[TtsPlan, TtsServer, TtsReport]):
    """One run of TTS servers."""

    offers = "speech"
    in_house = (kokoro_command, KOKORO_HOW)

    through: Endpoint | None = None
    """The first server again, through Caddy."""
    texts: Texts = field(default_factory=Texts)
    rounds: list[Round] = field(default_factory=list)
    caddy: TtsServer | None = None

    async def warm_up(self) -> None:
        """Use every server before anything counts: it loads its model on first use."""
        for server in self.servers:
            for _ in range(WARM_UPS):
                await speak(server, self.plan.case(), self._text(self.plan.case()))
            server.samples.clear()
        await self.baseline.seconds([SAMPLE])

    def _phrase(self) -> Iterator[Step]:
        """Speak fresh phrases and repeat each, with every server and the baseline, in turns."""
        for _ in range(self.plan.runs):
            phrase = self._text(self.plan.case())
            for server in self.turns():
                for repeated in (False, True):
                    yield self._speak(server, self.plan.case(repeated=repeated), phrase)
            yield "baseline", partial(self._round, phrase)

    async def _round(self, phrase: str) -> None:
        piece, seconds = None, []
        if self.baseline.run is not None:
            first = self.servers[0]
            request = SpeechRequest(phrase, self.plan.voices[0])
            piece = await first_piece(first.client, first.endpoint, request)
            await first.settle()
            seconds = await self.baseline.seconds([phrase, *([piece] if piece else [])])
        whole, start, *_ = *(s * 1000 for s in seconds), None, None
        self.rounds.append(Round(piece, start, whole))

    def _caddy(self) -> Iterator[Step]:
        if self.through is not None:
            yield "through Caddy", partial(self._compare_paths, self.through)

    async def _compare_paths(self, through: Endpoint) -> None:
        """Compare the path through Caddy with the direct one, by a text that the server caches."""
        async with through.client() as client:
            self.caddy = MeasuredServer(through, client)
            paths = [self.servers[0], self.caddy]
            # The first pair opens the connections and fills the server's cache.
            for number in range(self.plan.caddy_pairs + 1):
                for server in paths[:: -1 if number % 2 else 1]:
                    await speak(server, self.plan.case("caddy"), SAMPLE)

    def _paragraph(self) -> Iterator[Step]:
        return self._turns_of(self.plan.runs, [self.plan.case("paragraph")])

    def _crowd(self) -> Iterator[Step]:
        return self._turns_of(
            self.plan.runs, [self.plan.case(clients=n) for n in self.plan.clients]
        )

    def _long(self) -> Iterator[Step]:
        return self._turns_of(self.plan.long_runs, [self.plan.case("long")])

    def _formats(self) -> Iterator[Step]:
        return self._turns_of(self.plan.cell_runs, self.plan.cells)

    def _turns_of(self, runs: int, cases: Sequence[Case]) -> Iterator[Step]:
        for _, case in itertools.product(range(runs), cases):
            for server in self.turns():
                yield self._speak(server, case, *(self._text(case) for _ in range(case.clients)))

    def _text(self, case: Case) -> str:
        if case.what == "long":
            return self.texts.long(self.plan.long_characters)
        return self.texts.paragraph() if case.what == "paragraph" else self.texts.phrase(case.voice)

    def _speak(self, server: TtsServer, case: Case, *texts: str) -> Step:
        async def work() -> None:
            # Health checks beside a single phrase would be part of its result.
            async with server.watched(case.clients > 1 or case.what in LONGER):
                await speak(server, case, *texts)
            if case.what == "phrase":
                await server.settle()

        return f"{case_text(case, len(texts[0]))}, {server.name}", work

    def report(self, how: str, **more: Any) -> TtsReport:
        """Return the report; `how` describes the baseline, `more` are the fields of the run."""
        texts = ("engine", "provider", "model_sha256")
        return TtsReport(
            form=FORM,
            servers=tuple(
                TtsServerReport(**server.results(tts_figures, *texts)) for server in self.servers
            ),
            baseline=self._baseline(how),
            rounds=tuple(self._round_figures(*each) for each in enumerate(self.rounds)),
            **more,
        )

    def _baseline(self, how: str) -> TtsBaseline:
        whole = [r.baseline_whole_ms for r in self.rounds if r.baseline_whole_ms is not None]
        first = [r.baseline_first_ms for r in self.rounds if r.baseline_first_ms is not None]
        pieces = [r.first_piece for r in self.rounds if r.first_piece]
        reason = "" if whole else self.baseline.missing or "no round was completed"
        return TtsBaseline(spread(first), spread(whole), pieces[-1] if pieces else "", how, reason)

    def _round_figures(self, number: int, around: Round) -> RoundFigures:
        fresh = {s.name: s.samples.get(self.plan.case(), ())[number:] for s in self.servers}
        answered = {name: each[0] for name, each in fresh.items() if each and not each[0].error}
        return RoundFigures(
            **asdict(around),
            ttfa_ms={name: sample.ttfa_ms for name, sample in answered.items()},
            last_byte_ms={name: sample.last_byte_ms for name, sample in answered.items()},
        )

    def ratios(self, server: TtsServer) -> list[Ratio]:
        """Return every ratio of a server, each against what its own machine can do.

        The baseline and Caddy belong to the first server, so another one has fewer.
        """
        case = self.plan.case
        row, middle = partial(ratio, server.name), partial(median_ratio, server.name)
        phrases = [*server.good(case()), *server.good(case(repeated=True))]
        long = server.good(case("long"))
        # Each round has one fresh phrase.
        rounds = zip(server.samples.get(case(), ()), self.rounds, strict=False)
        pairs = [(sample, around) for sample, around in rounds if not sample.error]
        missing = self.baseline.missing or "the server does not report its first piece"

        def baselines(what: str, target: float, name: str) -> Ratio:
            times = [(getattr(sample, name), r.baseline_whole_ms) for sample, r in pairs]
            each = [took / whole for took, whole in times if took is not None and whole]
            return middle(what, "", target, each, missing)

        def stalls(what: str, samples: Sequence[Sample]) -> Ratio:
            total = float(sum(sample.stalls for sample in samples)) if samples else None
            what = f"stalls, {what}, one client"
            return row(what, "", 0.0, total, len(samples), "there was no answer")

        alone = median(server.values(case(), "last_byte_ms"))
        together = server.values(case(clients=FOUR), "ttfa_ms")
        mean = statistics.mean(together) / alone if together and alone else None
        what = "mean TTFA of four at once ÷ whole phrase alone"
        again = server.values(case(repeated=True), "ttfa_ms")
        rows = [
            baselines("TTFA ÷ baseline of the whole phrase", 0.20, "ttfa_ms"),
            stalls("phrase", phrases),
            stalls(_long_text(long), long),
            baselines("whole synthesis ÷ baseline", 1.15, "last_byte_ms"),
            row(what, "", 0.60, mean, len(together), "the four at once got no answer"),
            health_ratio(server.name, "/health p99 during synthesis", server.health_s),
            middle("TTFA of a repeat", "ms", 10.0, again, "no repeat was answered"),
        ]
        if server is not self.servers[0]:
            return rows
        more = _differences([(r.baseline_first_ms, sample.ttfa_ms) for sample, r in pairs])
        what = "TTFA - baseline of the same first piece"
        return [middle(what, "ms", 20.0, more, missing), *rows, self._caddy_ratio(server)]

    def _caddy_ratio(self, direct: TtsServer) -> Ratio:
        case, missing, more = self.plan.case("caddy"), NO_CADDY, []
        if (through := self.caddy) is not None:
            samples = direct.samples.get(case, ()), through.samples.get(case, ())
            # The first pair only opened the connections.
            pairs = list(zip(*samples, strict=False))[1:]
            more = _differences([(a.first_byte_ms, b.first_byte_ms) for a, b in pairs])
            errors = (sample.error for sample in samples[1])
            missing = next(filter(None, errors), through.stopped or "no pair was answered")
        what = "first byte through Caddy - direct"
        return median_ratio(direct.name, what, "ms", 5.0, more, missing)


async def speak(server: TtsServer, case: Case, *texts: str) -> list[Sample]:
    """Let the server speak texts at once, and keep the samples; none of one that was given up."""
    if server.stopped:
        return []
    requests = [SpeechRequest(text, case.voice, case.format, case.streamed) for text in texts]
    answers = await asyncio.gather(*(fetch(server.client, server.endpoint, r) for r in requests))
    samples = [analyse(answer) for answer in answers]
    server.add(case, samples)
    return samples


def _differences(pairs: Sequence[tuple[float | None, float | None]]) -> list[float]:
    return [b - a for a, b in pairs if a is not None and b is not None]


def _long_text(samples: Sequence[Sample]) -> str:
    lengths = sorted({sample.characters for sample in samples})
    span = " to ".join(f"{length:,}" for length in dict.fromkeys(lengths[:1] + lengths[-1:]))
    return f"long text of {span} characters" if samples else "long text"
