"""Measures speech servers in turns: phrases, longer texts, several clients, every format."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from hearth.bench.tts import PARTS
from hearth.bench.tts.bare import Bare
from hearth.bench.tts.heard.decode import FORMATS
from hearth.bench.tts.pieces import first_piece
from hearth.bench.tts.ratios import FOUR, Round
from hearth.bench.tts.report.figures import Case
from hearth.bench.tts.target import Target
from hearth.clients import ClientError
from hearth.clients.texts import LONG_CHARACTERS, SAMPLE, SHORT_CHARACTERS, Texts
from hearth.clients.tts import VOICE, SpeechRequest

Progress = Callable[[int, int, str], None]
"""Told (steps done, steps in all, what comes now)."""
WARM_UPS = 2


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is asked; every number bounds the load."""

    quick: bool = False
    runs: int = 10
    cell_runs: int = 3
    long_characters: int = LONG_CHARACTERS
    # Each is minutes of work: a third would take the whole far beyond a quarter of an hour.
    long_runs: int = 2
    clients: tuple[int, ...] = (FOUR, 8)
    formats: tuple[str, ...] = FORMATS
    voices: tuple[str, ...] = (VOICE, "bm_fable", "ef_dora")
    way_pairs: int = 20
    timeout_s: float = 3600.0
    parts: tuple[str, ...] = PARTS

    @property
    def voice(self) -> str:
        """The voice of everything but the table of formats and voices."""
        return self.voices[0]

    @property
    def cells(self) -> list[Case]:
        """The table of formats and voices, streamed and not."""
        grid = itertools.product(self.formats, self.voices, (True, False))
        return [Case("sample", form, voice, streamed) for form, voice, streamed in grid]

    def steps(self, servers: int, through: bool) -> int:
        """Return how many steps a run has, for whoever watches it."""
        each = {
            "phrase": 2 * self.runs,
            "paragraph": self.runs,
            "crowd": self.runs * len(self.clients),
            "long": self.long_runs,
            "formats": len(self.cells) * self.cell_runs,
        }
        once = {"phrase": self.runs, "way": self.way_pairs if through else 0}
        return sum(each.get(p, 0) * servers + once.get(p, 0) for p in self.parts)


def quick() -> Plan:
    """Return the plan of about a minute: everything once or a few times."""
    return Plan(
        quick=True,
        runs=3,
        cell_runs=1,
        long_characters=SHORT_CHARACTERS,
        long_runs=1,
        clients=(FOUR,),
        formats=("pcm", "mp3"),
        voices=(VOICE,),
        way_pairs=10,
        timeout_s=600.0,
    )


@dataclass(slots=True)
class Session:
    """One run: the first target is the server in question, all others are compared with it."""

    plan: Plan
    targets: Sequence[Target]
    bare: Bare | None = None
    no_bare: str = ""
    through: Target | None = None
    """The first target again, by the way of everybody else: through Caddy."""
    progress: Progress = lambda done, of, what: None
    texts: Texts = field(default_factory=Texts)
    rounds: list[Round] = field(default_factory=list)
    caddy_s: list[tuple[float, float]] = field(default_factory=list)
    stopped: str = ""
    _done: int = 0

    async def run(self) -> None:
        """Measure everything; after the plan's total time, or Ctrl-C, it ends with what it has."""
        try:
            async with asyncio.timeout(self.plan.timeout_s):
                await self._warm_up()
                for part, work in zip(PARTS, self._works(), strict=True):
                    if part in self.plan.parts:
                        await work()
        except TimeoutError:
            self.stopped = (
                f"ended after {self.plan.timeout_s:g} s with what was measured until then"
            )
        except asyncio.CancelledError:
            self.stopped = "interrupted: this is what was measured until then"
            task = asyncio.current_task()
            if task is not None:
                task.uncancel()

    def _works(self) -> tuple[Callable[[], Awaitable[None]], ...]:
        """Return what does each of the parts."""
        long, cells = self._long, self._cells
        return (self._rounds, self._ways, self._paragraphs, self._crowds, long, cells)

    async def _warm_up(self) -> None:
        """Let every server speak before anything counts: what loads on first use is loaded then."""
        for target in self.targets:
            counted = target.taken.by_case
            target.taken.by_case = {}
            for _ in range(WARM_UPS):
                await target.speak(Case("phrase"), self.texts.phrase(self.plan.voice))
            target.taken.by_case = counted
        if self.bare is not None:
            await self._infer([SAMPLE])

    async def _rounds(self) -> None:
        for number in range(self.plan.runs):
            await self._round(number)

    async def _round(self, number: int) -> None:
        """Speak one fresh phrase and repeat it, with every server and bare, in turns."""
        phrase, around = self.texts.phrase(self.plan.voice), Round()
        self.rounds.append(around)
        for target in self._turns(number):
            self._tell(f"phrase, {target.server.name}")
            fresh = await target.speak(Case("phrase", voice=self.plan.voice), phrase)
            around.fresh[target.server.name] = fresh
            await target.settle()
            self._tell(f"repeated phrase, {target.server.name}")
            await target.speak(Case("phrase", voice=self.plan.voice, repeated=True), phrase)
            await target.settle()
        self._tell("bare inference")
        if self.bare is not None:
            ours = self.targets[0]
            ask = SpeechRequest(phrase, self.plan.voice)
            around.first_piece = await first_piece(ours.client, ours.server, ask)
            await ours.settle()
            texts = [phrase] + ([around.first_piece] if around.first_piece else [])
            around.bare_whole_s, *first = await self._infer(texts) or [None]
            around.bare_first_s = first[0] if first else None

    async def _infer(self, texts: Sequence[str]) -> list[float | None]:
        """Return the seconds of bare inferences; after one failure none is tried again."""
        if self.bare is None:
            return []
        try:
            return list(await self.bare(texts))
        except ClientError as error:
            self.bare, self.no_bare = None, str(error)
            return []

    async def _ways(self) -> None:
        """Compare the way through Caddy with the direct one, by what the server remembers."""
        if self.through is None:
            return
        ways, case = (self.targets[0], self.through), Case("way", voice=self.plan.voice)
        # Once each uncounted: it opens the connections, and the server remembers the sound.
        for number in range(-1, self.plan.way_pairs):
            first_byte_s: dict[int, float] = {}
            for which in (0, 1) if number % 2 else (1, 0):
                sample = await ways[which].speak(case, SAMPLE)
                if sample.first_byte_s is not None:
                    first_byte_s[which] = sample.first_byte_s
            if number < 0:
                continue
            self._tell("through Caddy")
            if len(first_byte_s) == len(ways):
                self.caddy_s.append((first_byte_s[0], first_byte_s[1]))

    async def _paragraphs(self) -> None:
        case = Case("paragraph", voice=self.plan.voice)
        for number in range(self.plan.runs):
            for target in self._turns(number):
                self._tell(f"paragraph, {target.server.name}")
                async with target.watched():
                    await target.speak(case, self.texts.paragraph())

    async def _crowds(self) -> None:
        for clients in self.plan.clients:
            case = Case("phrase", voice=self.plan.voice, clients=clients)
            for number in range(self.plan.runs):
                for target in self._turns(number):
                    self._tell(f"{clients} at once, {target.server.name}")
                    texts = [self.texts.phrase(self.plan.voice) for _ in range(clients)]
                    async with target.watched():
                        await target.speak_at_once(case, texts)
                    await target.settle()

    async def _long(self) -> None:
        for number in range(self.plan.long_runs):
            text = self.texts.long(self.plan.long_characters)
            for target in self._turns(number):
                self._tell(f"{len(text):,} characters, {target.server.name}")
                async with target.watched():
                    await target.speak(Case("long", voice=self.plan.voice), text)

    async def _cells(self) -> None:
        for number in range(self.plan.cell_runs):
            for case in self.plan.cells:
                for target in self._turns(number):
                    way = "streamed" if case.streamed else "whole"
                    self._tell(f"{case.format}, {case.voice}, {way}, {target.server.name}")
                    await target.speak(case, self.texts.phrase(case.voice))

    def _turns(self, number: int) -> list[Target]:
        """Return the servers, each second time in the other order: none always comes first."""
        order = list(self.targets)
        return order[::-1] if number % 2 else order

    def _tell(self, what: str) -> None:
        steps = self.plan.steps(len(self.targets), self.through is not None)
        self.progress(self._done, steps, what)
        self._done += 1
