"""Measures listening servers in turns: utterances, files, several talkers, a quiet room."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from hearth.bench.stt import PARTS
from hearth.bench.stt.bare import Bare
from hearth.bench.stt.loop import loop
from hearth.bench.stt.plan import Plan
from hearth.bench.stt.quiet import quiet
from hearth.bench.stt.ratios import CROWD, FILE, LIVE, Calls
from hearth.bench.stt.report.figures import Case
from hearth.bench.stt.target import Target
from hearth.bench.stt.written import wrongly
from hearth.clients import ClientError
from hearth.clients.endpoints import wait_until_idle
from hearth.clients.recordings import Utterance, concatenated, utterances
from hearth.clients.stt import StreamOptions

Progress = Callable[[str], None]
"""Told what comes now."""


@dataclass(slots=True)
class Session:
    """One run: the first target is the server in question, all others are compared with it."""

    plan: Plan
    targets: Sequence[Target]
    bare: Bare | None = None
    no_bare: str = ""
    progress: Progress = lambda what: None
    calls: Calls = field(default_factory=Calls)
    stopped: str = ""
    _order: bool = False
    # A talker begins at no particular moment of the server's; the same run begins alike.
    _draw: random.Random = field(default_factory=lambda: random.Random(5))  # noqa: S311

    async def run(self) -> None:
        """Measure everything; after the plan's total time, or Ctrl-C, it ends with what it has."""
        works = (self._live, self._files, self._crowds, self._quiet, self._words, self._loop)
        try:
            async with asyncio.timeout(self.plan.within_s):
                await self._warm_up()
                for part, work in zip(PARTS, works, strict=True):
                    if part in self.plan.parts:
                        await work()
        except TimeoutError:
            self.stopped = f"ended after {self.plan.within_s:g} s with what was measured until then"
        except asyncio.CancelledError:
            self.stopped = "interrupted: this is what was measured until then"
            task = asyncio.current_task()
            if task is not None:
                task.uncancel()

    async def _warm_up(self) -> None:
        """Ask every server once before anything counts: what loads on first use is loaded then."""
        for target in self.targets:
            self.progress(f"warming up, {target.server.name}")
            counted = target.taken.by_case
            target.taken.by_case = {}
            await target.write(FILE, utterances(3)[0].pcm)
            await target.talk(LIVE, utterances(1)[0], StreamOptions(self.plan.lead_s))
            target.taken.by_case = counted

    async def _live(self) -> None:
        """Say utterances of every length; those of 3 s in turns with plain calls of the same."""
        said = itertools.cycle(utterances(LIVE.seconds))
        for number in range(0, self.plan.runs, self.plan.block):
            some = [next(said) for _ in range(min(self.plan.block, self.plan.runs - number))]
            for utterance in some:
                await self._say(LIVE, utterance)
            self.calls.three_s += await self._call([one.pcm for one in some])
        for case, manner in self._manners():
            for _ in range(self.plan.few):
                await self._say(case, next(said), manner)
        for kind_s in self.plan.kinds:
            others = itertools.cycle(utterances(kind_s))
            for _ in range(self.plan.rounds(kind_s)):
                await self._say(Case("live", kind_s), next(others))

    def _manners(self) -> list[tuple[Case, StreamOptions]]:
        return [
            (Case("live without partials", LIVE.seconds), StreamOptions(partials=False)),
            (Case("flush", LIVE.seconds), StreamOptions(flush=True)),
        ]

    async def _say(
        self, case: Case, utterance: Utterance, manner: StreamOptions | None = None
    ) -> None:
        manner = replace(
            manner or StreamOptions(),
            lead_s=self.plan.lead_s * (1 + self._draw.random()),
            end_of_speech_ms=self.plan.end_of_speech_ms,
        )
        for target in self._turns():
            self._tell(case, target)
            # What is longer than a sentence is where a server is busy; a probe beside a short one
            # would be part of what is measured.
            if case.seconds > LIVE.seconds:
                async with target.watched():
                    await target.talk(case, utterance, manner)
            else:
                await target.talk(case, utterance, manner)
            await self._settle(target)

    async def _files(self) -> None:
        """Transcribe a file of one window in turns with plain calls, and a longer one."""
        (utterance, *_) = utterances(FILE.seconds)
        for _ in range(self.plan.few):
            await self._write(FILE, utterance.pcm)
            self.calls.thirty_s += await self._call([utterance.pcm])
        if self.plan.long_s:
            await self._write(Case("file", self.plan.long_s), concatenated(self.plan.long_s))

    async def _write(self, case: Case, pcm: bytes) -> None:
        for target in self._turns():
            self._tell(case, target)
            async with target.watched():
                await target.write(case, pcm)
            await self._settle(target)

    async def _crowds(self) -> None:
        """Let four talk at once, in turns with plain calls of the four one after the other."""
        some = list(itertools.islice(itertools.cycle(utterances(CROWD.seconds)), self.plan.clients))
        manner = StreamOptions(self.plan.lead_s, self.plan.end_of_speech_ms)
        for _ in range(self.plan.few):
            last: dict[str, float] = {}
            for target in self._turns():
                self._tell(CROWD, target)
                async with target.watched():
                    heard = await target.talk_at_once(CROWD, some, manner)
                finals = [one.final_s for one in heard if one.final_s and not one.error]
                if len(finals) == len(some):
                    last[target.server.name] = max(finals)
                await self._settle(target)
            calls = await self._call([one.pcm for one in some])
            self.calls.four_s += [(name, s, sum(calls)) for name, s in last.items() if calls]

    async def _quiet(self) -> None:
        for target in self._turns():
            self.progress(f"a quiet room, {target.server.name}")
            target.vad = await quiet(target, self.plan.vad_s, self.plan.vad_runs)

    async def _words(self) -> None:
        for target in self._turns():
            self.progress(f"words, {target.server.name}")
            target.words = await wrongly(target, self.plan.spoken)

    async def _loop(self) -> None:
        ours = self.targets[0]
        async with ours.watched():
            await loop(ours, self.plan.loop_s, self.progress)

    async def _call(self, sounds: Sequence[bytes]) -> list[float]:
        """Return the seconds of plain calls; after one failure none is tried again."""
        if self.bare is None:
            return []
        self.progress("plain calls")
        try:
            return await self.bare(sounds)
        except ClientError as error:
            self.bare, self.no_bare = None, str(error)
            return []

    async def _settle(self, target: Target) -> None:
        if not target.stopped:
            await wait_until_idle(target.client)

    def _turns(self) -> list[Target]:
        """Return the servers, each second time in the other order: none always comes first."""
        self._order = not self._order
        return list(self.targets) if self._order else list(self.targets)[::-1]

    def _tell(self, case: Case, target: Target) -> None:
        self.progress(f"{case.what}, {case.seconds} s, {target.server.name}")
