"""Measures TTS servers in turns: phrases, longer texts, several clients, every format.

The report follows the schema docs/schema/bench-tts.json.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from hearth.bench.baseline import KOKORO_HOW, kokoro_command
from hearth.bench.report import (
    Ratio,
    Report,
    ServerReport,
    health_ratio,
    median,
    median_ratio,
    ratio,
)
from hearth.bench.session import BenchPlan, MeasuredServer, Session, Step
from hearth.bench.tts.answer import FIELDS, TOTALS, TtsCase, TtsSample, analyse, fetch, first_piece
from hearth.bench.tts.decode import FORMATS
from hearth.clients.endpoints import Endpoint, wait_until_idle
from hearth.clients.texts import LONG_CHARACTERS, SAMPLE, SHORT_CHARACTERS, Texts
from hearth.clients.tts import VOICE, SpeechRequest
from hearth.machine import card_usage

FORM = "hearth-bench-tts/1"
PARTS = ("phrase", "caddy", "paragraph", "crowd", "long", "formats")
FOUR = 4
WARM_UPS = 2
AUDIO = "audio"
NO_CADDY = "no path through Caddy: only a service of a house has one"

TtsServer = MeasuredServer[TtsCase, TtsSample]


@dataclass(frozen=True, slots=True)
class Round:
    """One fresh phrase: the times of each server by its name, and those of the baseline.

    `first_piece` is what the server speaks first; the baseline's time of it is `baseline_first_ms`.
    `ttfa_ms` is without the time for which a slow machine holds its sound back.
    """

    first_piece: str | None = None
    baseline_first_ms: float | None = None
    baseline_whole_ms: float | None = None
    ttfa_ms: dict[str, float | None] = field(default_factory=dict)
    last_byte_ms: dict[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KeptSound:
    """The same words in one format and voice: their size, hash, and file if they were kept.

    `file` is relative to the folder of the results. `audio_s` is None for a broken sound. `error`
    is why there is no sound, or why it was not kept.
    """

    server: str
    format: str
    voice: str
    size_bytes: int
    sha256: str
    audio_s: float | None
    file: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TtsReport(Report):
    """The results of one run of `hearth bench tts`; the ratios of the first server come first.

    `stopped` is the reason for an early end. `cards_bytes` is the memory of each card of this
    machine in use at the end, whoever uses it.
    """

    rounds: tuple[Round, ...]
    sounds: tuple[KeptSound, ...] = ()
    cards_bytes: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TtsPlan(BenchPlan):
    """How much is requested; every number bounds the load."""

    parts: tuple[str, ...] = PARTS
    cell_runs: int = 3
    long_characters: int = LONG_CHARACTERS
    # Each takes minutes: a third would take the whole far beyond a quarter of an hour.
    long_runs: int = 2
    clients: tuple[int, ...] = (FOUR, 8)
    formats: tuple[str, ...] = FORMATS
    voices: tuple[str, ...] = (VOICE, "bm_fable", "ef_dora")
    caddy_pairs: int = 20

    def case(self, what: str = "phrase", **more: Any) -> TtsCase:
        """Return a kind of request by the voice of all parts but formats."""
        return TtsCase(what, voice=self.voices[0], **more)

    @property
    def cells(self) -> list[TtsCase]:
        """The formats and voices, streamed and not."""
        grid = itertools.product(self.formats, self.voices, (True, False))
        return [TtsCase("sample", form, voice, streamed) for form, voice, streamed in grid]


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
    folder: Path | None = None
    """Where the audio of each format and voice is kept."""
    sounds: list[KeptSound] = field(default_factory=list)

    async def warm_up(self) -> None:
        """Use every server before anything counts: it loads its model on first use."""
        for server in self.servers:
            for _ in range(WARM_UPS):
                await self.measured(server, speak, self.plan.case(), self._text(self.plan.case()))
            server.samples.clear()
        await self.baseline.seconds([SAMPLE])

    def _phrase(self) -> Iterator[Step]:
        """Speak fresh phrases and repeat each, with every server and the baseline, in turns."""
        for _ in range(self.plan.runs):
            phrase = self._text(self.plan.case())
            calls = [(self.plan.case(repeated=repeated), phrase) for repeated in (False, True)]
            yield from self.in_turns(speak, *calls)
            yield "baseline", partial(self._round, phrase)

    async def _round(self, phrase: str) -> None:
        piece, seconds = None, []
        if self.baseline.run is not None:
            first = self.servers[0]
            request = SpeechRequest(phrase, self.plan.voices[0])
            piece = await first_piece(first.client, first.endpoint, request)
            await wait_until_idle(first.client)
            seconds = await self.baseline.seconds([phrase, *([piece] if piece else [])])
        whole, start, *_ = *(s * 1000 for s in seconds), None, None
        fresh = {s.name: s.samples[self.plan.case()][-1] for s in self.servers if s.samples}
        answered = {name: sample for name, sample in fresh.items() if not sample.error}
        self.rounds.append(
            Round(
                piece,
                start,
                whole,
                ttfa_ms={name: sample.ready_ms for name, sample in answered.items()},
                last_byte_ms={name: sample.last_byte_ms for name, sample in answered.items()},
            )
        )

    def _caddy(self) -> Iterator[Step]:
        if self.through is not None:
            yield "through Caddy", partial(self._compare_paths, self.through)

    async def _compare_paths(self, through: Endpoint) -> None:
        """Compare the path through Caddy with the direct one, by a text that the server caches."""
        case = self.plan.case("caddy")
        async with through.client() as client:
            self.caddy = TtsServer(through, client)
            paths = [self.servers[0], self.caddy]
            # The first pair opens the connections and fills the server's cache.
            for number in range(self.plan.caddy_pairs + 1):
                for server in paths[:: -1 if number % 2 else 1]:
                    if not server.stopped:
                        server.add(case, await speak(server, case, SAMPLE))

    def _paragraph(self) -> Iterator[Step]:
        return self._speak(self.plan.runs, self.plan.case("paragraph"))

    def _crowd(self) -> Iterator[Step]:
        return self._speak(self.plan.runs, *(self.plan.case(clients=n) for n in self.plan.clients))

    def _long(self) -> Iterator[Step]:
        return self._speak(self.plan.long_runs, self.plan.case("long"))

    def _formats(self) -> Iterator[Step]:
        yield from self._speak(self.plan.cell_runs, *self.plan.cells)
        for server in self.servers:
            for form, voice in itertools.product(self.plan.formats, self.plan.voices):
                yield f"{form}, {voice}, {server.name}", partial(self._keep, server, form, voice)

    async def _keep(self, server: TtsServer, form: str, voice: str) -> None:
        """Keep the same words in one format and voice; that takes no time of a figure."""
        if server.stopped:
            return
        request = SpeechRequest(SAMPLE, voice, form, False)
        answer = await fetch(server.client, server.endpoint, request)
        data = b"".join(chunk.pcm for chunk in answer.chunks)
        name, error = "", answer.error or ("" if data else "an empty answer")
        if self.folder is not None and not error:
            name = f"{AUDIO}/{server.name}-{voice.replace('/', '_')}.{form}"
            try:
                await asyncio.to_thread(_write, self.folder / name, data)
            except OSError as problem:
                # A full disk must not cost the figures of a quarter of an hour.
                name, error = "", f"not kept: {problem.strerror}"
        audio_s = analyse(answer).audio_s or None
        digest = hashlib.sha256(data).hexdigest()
        sound = KeptSound(server.name, form, voice, len(data), digest, audio_s, name, error)
        self.sounds.append(sound)

    def _speak(self, runs: int, *cases: TtsCase) -> Iterator[Step]:
        for _, case in itertools.product(range(runs), cases):
            texts = (self._text(case) for _ in range(case.clients))
            yield from self.in_turns(speak, (case, *texts))

    def _text(self, case: TtsCase) -> str:
        if case.what == "long":
            return self.texts.long(self.plan.long_characters)
        return self.texts.paragraph() if case.what == "paragraph" else self.texts.phrase(case.voice)

    def baseline_ms(self) -> dict[str, list[float]]:
        """Return the times of the baseline, by what was computed."""
        return {
            "whole phrase": _known(r.baseline_whole_ms for r in self.rounds),
            "first piece": _known(r.baseline_first_ms for r in self.rounds),
        }

    def report(self, **run: Any) -> TtsReport:
        """Return the report; `run` has the fields that the core fills."""
        servers = tuple(ServerReport(**one.results(FIELDS, TOTALS)) for one in self.servers)
        return TtsReport(
            form=FORM,
            servers=servers,
            rounds=tuple(self.rounds),
            sounds=tuple(self.sounds),
            cards_bytes=card_usage.memory_used(),
            **run,
        )

    def ratios(self, server: TtsServer) -> list[Ratio]:
        """Return every ratio of a server, each against what its own machine can do.

        The baseline and Caddy belong to the first server, so another one has fewer.
        """
        case, name = self.plan.case, server.name
        row, middle = partial(ratio, name), partial(median_ratio, name)
        phrases = [*server.good(case()), *server.good(case(repeated=True))]
        long = server.good(case("long"))
        missing = self.baseline.missing or "the server does not report its first piece"

        def stalls(what: str, samples: Sequence[TtsSample]) -> Ratio:
            total = float(sum(sample.stalls for sample in samples)) if samples else None
            what = f"stalls, {what}, one client"
            return row(what, "", 0.0, total, len(samples), "there was no answer")

        whole = [r.baseline_whole_ms for r in self.rounds]
        first_sound = [r.ttfa_ms.get(name) for r in self.rounds]
        last_byte = [r.last_byte_ms.get(name) for r in self.rounds]
        alone = median(server.values(case(), "last_byte_ms"))
        # On a slow machine, what is held back is the price of no stall: a column of its own.
        together = server.values(case(clients=FOUR), "ready_ms")
        mean = statistics.mean(together) / alone if together and alone else None
        what = "mean TTFA of four at once ÷ whole phrase alone"
        sooner, synthesis = _quotients(first_sound, whole), _quotients(last_byte, whole)
        again = server.values(case(repeated=True), "ready_ms")
        rows = [
            middle("TTFA ÷ baseline of the whole phrase", "", 0.20, sooner, missing),
            stalls("phrase", phrases),
            stalls(_long_text(long), long),
            middle("whole synthesis ÷ baseline", "", 1.15, synthesis, missing),
            row(what, "", 0.60, mean, len(together), "the four at once got no answer"),
            health_ratio(name, "/health p99 during synthesis", server.health_s),
            middle("TTFA of a repeat", "ms", 10.0, again, "no repeat was answered"),
        ]
        if server is not self.servers[0]:
            return rows
        more = _differences([r.baseline_first_ms for r in self.rounds], first_sound)
        what = "TTFA - baseline of the same first piece"
        return [middle(what, "ms", 20.0, more, missing), *rows, self._caddy_ratio(server)]

    def _caddy_ratio(self, direct: TtsServer) -> Ratio:
        case, missing, more = self.plan.case("caddy"), NO_CADDY, []
        if (through := self.caddy) is not None:
            # The first pair only opened the connections.
            paths = [one.samples.get(case, [])[1:] for one in (direct, through)]
            more = _differences(*([sample.first_byte_ms for sample in path] for path in paths))
            errors = (sample.error for sample in paths[1])
            missing = next(filter(None, errors), through.stopped or "no pair was answered")
        what = "first byte through Caddy - direct"
        return median_ratio(direct.name, what, "ms", 5.0, more, missing)


async def speak(server: TtsServer, case: TtsCase, *texts: str) -> list[TtsSample]:
    """Let the server speak texts at once."""
    requests = [SpeechRequest(text, case.voice, case.format, case.streamed) for text in texts]
    answers = await asyncio.gather(*(fetch(server.client, server.endpoint, r) for r in requests))
    return [analyse(answer) for answer in answers]


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


Times = Sequence[float | None]


def _known(times: Iterable[float | None]) -> list[float]:
    return [time for time in times if time is not None]


def _quotients(times: Times, of: Times) -> list[float]:
    return [a / b for a, b in zip(times, of, strict=False) if a is not None and b]


def _differences(first: Times, second: Times) -> list[float]:
    pairs = zip(first, second, strict=False)
    return [b - a for a, b in pairs if a is not None and b is not None]


def _long_text(samples: Sequence[TtsSample]) -> str:
    lengths = sorted({sample.characters for sample in samples})
    span = " to ".join(f"{length:,}" for length in dict.fromkeys(lengths[:1] + lengths[-1:]))
    return f"long text of {span} characters" if samples else "long text"
