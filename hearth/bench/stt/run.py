"""Measures STT servers in turns: utterances, files, several speakers, word errors."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from hearth.bench.baseline import WHISPER_HOW, whisper_command
from hearth.bench.report import (
    Ratio,
    Report,
    ServerReport,
    good,
    health_ratio,
    median,
    median_ratio,
    ratio,
    values,
)
from hearth.bench.session import BenchPlan, Session, Step
from hearth.bench.stt.requests import FIELDS, SttCase, SttSample, stream_at_once, transcribe
from hearth.bench.stt.word_errors import SttServer, WordErrors, count_word_errors
from hearth.clients.recordings import Utterance, concatenated, utterances
from hearth.clients.stt import NoStreamError, StreamOptions

FORM = "hearth-bench-stt/1"
PARTS = ("live", "file", "crowd", "wer")
FOUR = 4
LIVE, FILE, CROWD = SttCase("live", 3), SttCase("file", 30), SttCase("crowd", 3, FOUR)
_QUIET_MS = 200.0
"""After so much silence the server starts with the text that it may send."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SttServerReport(ServerReport):
    """One STT server: its status, and its results; `streams` says whether it has live ones."""

    streams: bool
    words: WordErrors | None

    @property
    def failed(self) -> bool:
        """Whether anything was not answered, or ended early."""
        mute = self.words is not None and self.words.failed
        return bool(self.stopped) or mute or any(one.failed for one in self.figures)


@dataclass(frozen=True, slots=True, kw_only=True)
class SttReport(Report):
    """The results of one run of `hearth bench stt`; the ratios of the first server come first.

    `stopped` is the reason for an early end.
    """

    end_of_speech_ms: int
    servers: tuple[SttServerReport, ...]


@dataclass(frozen=True, slots=True)
class SttPlan(BenchPlan):
    """How much is requested; every number bounds the load. `runs` counts those of 3 s."""

    parts: tuple[str, ...] = PARTS
    block: int = 5
    """So many utterances alternate with as many baselines of them."""
    lengths: tuple[int, ...] = (1, 10, 30)
    """The lengths beside 3 s; the longer, the fewer rounds."""
    long_s: int = 120
    lead_s: float = 0.4
    """The least length of noise before the speech."""
    end_of_speech_ms: int = 500
    spoken: Path | None = None
    """A folder of recordings, each with its words beside it in a file that ends in .txt."""

    def rounds(self, length_s: int) -> int:
        """Return the number of rounds of utterances of a length."""
        return max(1, self.runs // {1: 2, 3: 1, 10: 3}.get(length_s, 5))

    @property
    def few(self) -> int:
        """The number of rounds of what takes long, or is only for comparison."""
        return max(1, self.runs // 3)


QUICK = SttPlan(quick=True, runs=3, lengths=(1, 10), long_s=0, timeout_s=600.0)
"""About two minutes: everything once or a few times."""


def _no_times() -> dict[SttCase, list[float]]:
    return {LIVE: [], FILE: [], CROWD: []}


@dataclass(slots=True)
class SttSession(Session[SttPlan, SttServer, SttReport]):
    """One run of STT servers."""

    server = SttServer
    offers = "transcription"
    in_house = (whisper_command, WHISPER_HOW)

    times_s: dict[SttCase, list[float]] = field(default_factory=_no_times)
    """Seconds of the baseline: of 3 s, of 30 s, and of four of 3 s one after the other."""
    # Speakers start at random moments, but at the same ones in every run.
    _draw: random.Random = field(default_factory=lambda: random.Random(5))  # noqa: S311

    async def warm_up(self) -> None:
        """Use every server before anything counts: it loads its model on first use."""
        for server in self.servers:
            await self.measured(server, write, LIVE, utterances(3)[0].pcm)
            options = StreamOptions(self.plan.lead_s)
            await self.measured(server, talk, LIVE, [utterances(1)[0]], options)
            server.samples.clear()

    def _live(self) -> Iterator[Step]:
        """Speak utterances of every length; those of 3 s in turns with baselines of the same."""
        spoken = itertools.cycle(utterances(LIVE.seconds))
        for number in range(0, self.plan.runs, self.plan.block):
            some = [next(spoken) for _ in range(min(self.plan.block, self.plan.runs - number))]
            for utterance in some:
                yield from self._talk(LIVE, [utterance])
            yield "baseline", partial(self._call, LIVE, [one.pcm for one in some])
        for _ in range(self.plan.few):
            case = SttCase("live without partials", LIVE.seconds)
            yield from self._talk(case, [next(spoken)], partials=False)
        for _ in range(self.plan.few):
            yield from self._talk(SttCase("flush", LIVE.seconds), [next(spoken)], flush=True)
        for length_s in self.plan.lengths:
            others = itertools.cycle(utterances(length_s))
            for _ in range(self.plan.rounds(length_s)):
                yield from self._talk(SttCase("live", length_s), [next(others)])

    def _file(self) -> Iterator[Step]:
        """Transcribe a file of 30 s in turns with baselines, and a longer one."""
        (utterance, *_) = utterances(FILE.seconds)
        for _ in range(self.plan.few):
            yield from self.in_turns(write, (FILE, utterance.pcm))
            yield "baseline", partial(self._call, FILE, [utterance.pcm])
        if self.plan.long_s:
            case = SttCase("file", self.plan.long_s)
            yield from self.in_turns(write, (case, concatenated(case.seconds)))

    def _crowd(self) -> Iterator[Step]:
        """Let four speak at once, in turns with baselines of the four one after the other."""
        some = list(itertools.islice(itertools.cycle(utterances(CROWD.seconds)), CROWD.streams))
        for _ in range(self.plan.few):
            yield from self._talk(CROWD, some)
            yield "baseline", partial(self._call, CROWD, [one.pcm for one in some])

    def _talk(self, case: SttCase, spoken: Sequence[Utterance], **manner: Any) -> Iterator[Step]:
        lead_s = self.plan.lead_s * (1 + self._draw.random() if len(spoken) == 1 else 1)
        options = StreamOptions(lead_s, self.plan.end_of_speech_ms, **manner)
        return self.in_turns(talk, (case, spoken, options))

    async def _call(self, case: SttCase, sounds: Sequence[bytes]) -> None:
        seconds = await self.baseline.seconds(sounds)
        self.times_s[case] += [sum(seconds)] if seconds and case == CROWD else seconds

    def _wer(self) -> Iterator[Step]:
        for server in self.servers:
            yield f"words, {server.name}", partial(count_word_errors, server, self.plan.spoken)

    def baseline_ms(self) -> dict[str, list[float]]:
        """Return the times of the baseline, by what was computed."""
        names = {"3 s": LIVE, "30 s": FILE, "four of 3 s one after the other": CROWD}
        return {name: [s * 1000 for s in self.times_s[case]] for name, case in names.items()}

    def report(self, **run: Any) -> SttReport:
        """Return the report; `run` has the fields that the core fills."""
        own = ("streams", "words")
        servers = tuple(
            SttServerReport(**one.results(FIELDS), **{name: getattr(one, name) for name in own})
            for one in self.servers
        )
        return SttReport(
            form=FORM, servers=servers, end_of_speech_ms=self.plan.end_of_speech_ms, **run
        )

    def ratios(self, server: SttServer) -> list[Ratio]:
        """Return every ratio of a server, each against what its own machine can do.

        Only the first server has targets beyond files and health.
        """
        times = server.values(FILE, "rtf")
        what = "seconds of work per second of sound, file of 30 s"
        rows = [
            health_ratio(server.name, "/health p99 during transcription", server.health_s),
            median_ratio(server.name, what, "", 0.5, times, "no file was transcribed"),
        ]
        if server is self.servers[0]:
            rows = [self._final(server), self._four(server), *rows]
        return rows

    def _final(self, server: SttServer) -> Ratio:
        """Hold the final text to the threshold, or to one baseline call where that takes longer."""
        threshold = self.plan.end_of_speech_ms
        times = server.values(LIVE, "final_ms")
        value, baseline = median(times), median(self.times_s[LIVE])
        target = threshold + 50.0
        what = f"end of speech to final text, 3 s: {threshold} ms threshold + 50 ms"
        why = "nothing came through the stream"
        if baseline is not None:
            target = max(target, _QUIET_MS + 1.1 * baseline * 1000)
            what += f", or 200 ms + 1.1 baselines of {baseline * 1000:.0f} ms"
        elif value is not None and value > target:
            # It may be as fast as the machine allows: only the baseline could tell.
            value, why = None, self.baseline.missing or "no baseline"
        return ratio(server.name, what, "ms", target, value, len(times), why)

    def _four(self, server: SttServer) -> Ratio:
        samples = server.samples.get(CROWD, [])
        rounds = [samples[at : at + FOUR] for at in range(0, len(samples), FOUR)]
        each = [
            max(finals) / 1000 / calls_s
            for some, calls_s in zip(rounds, self.times_s[CROWD], strict=False)
            if len(finals := values(good(some), "final_ms")) == FOUR
        ]
        what = "four streams of 3 s at once, end of speech to last final text ÷ four baselines"
        why = self.baseline.missing or "the four at once got no answer"
        return median_ratio(server.name, what, "", 1.2, each, why)


async def talk(
    server: SttServer, case: SttCase, spoken: Sequence[Utterance], options: StreamOptions
) -> list[SttSample]:
    """Let speakers start together; a server that has no streams gets none."""
    if server.streams:
        try:
            return await stream_at_once(server.endpoint, spoken, options)
        except NoStreamError:
            server.streams = False
    return []


async def write(server: SttServer, case: SttCase, pcm: bytes) -> list[SttSample]:
    """Let the server transcribe a file."""
    return [await transcribe(server.client, server.endpoint, pcm)]
