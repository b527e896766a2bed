"""One server while it is measured: asked within bounds, and given up when it only fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hearth.bench.served.ratios import health_of
from hearth.bench.served.watched import FAILURES, Watched
from hearth.bench.stt.call import Written, transcribe
from hearth.bench.stt.heard import Heard, talk, talk_at_once
from hearth.bench.stt.report.figures import Case, Loop, ServerReport, Taken, Vad, Words
from hearth.clients.recordings import Utterance
from hearth.clients.stt import NoStreamError, StreamOptions


@dataclass(slots=True)
class Target(Watched):
    """One server with all that was measured of it; `socket` is False once it has shown none."""

    weigh_every = 40  # about once a second

    taken: Taken = field(default_factory=Taken)
    socket: bool = True
    vad: Vad | None = None
    words: Words | None = None
    loop: Loop | None = None
    _failures: int = 0

    async def talk(self, case: Case, utterance: Utterance, manner: StreamOptions) -> Heard | None:
        """Say one utterance and keep what came; None where there is no socket."""
        taken = await self.talk_at_once(case, [utterance], manner)
        return taken[0] if taken else None

    async def talk_at_once(
        self, case: Case, spoken: Sequence[Utterance], manner: StreamOptions
    ) -> list[Heard]:
        """Let several talkers begin together; nothing is asked of a server that was given up."""
        if self.stopped or not self.socket:
            return []
        try:
            if len(spoken) == 1:
                samples = [await talk(self.server, spoken[0], manner)]
            else:
                samples = await talk_at_once(self.server, spoken, manner)
        except NoStreamError:
            self.socket = False
            return []
        for sample in samples:
            self.keep(case, sample)
        return samples

    async def write(self, case: Case, pcm: bytes) -> Written:
        """Let the server transcribe a file, and keep what came."""
        if self.stopped:
            return Written(1.0, self.stopped)
        written = await transcribe(self.client, self.server, pcm)
        self.keep(case, written)
        return written

    def keep(self, case: Case, sample: Heard | Written) -> None:
        """Keep one sample, and give the server up when it only fails."""
        self.taken.add(case, sample)
        self._failures = self._failures + 1 if sample.error else 0
        if self._failures >= FAILURES:
            self.stopped = f"given up after {self._failures} failures in a row: {sample.error}"

    def report(self) -> ServerReport:
        """Return what was measured."""
        said = self.status
        threads = said.get("threads")
        return ServerReport(
            name=self.server.name,
            url=self.server.url,
            model=_text(said, "model") or self.server.model,
            draft=_text(said, "draft"),
            device=_text(said, "device"),
            compute_type=_text(said, "compute_type"),
            threads=threads if isinstance(threads, int) else None,
            choice_reason=_text(said, "choice_reason"),
            memory_bytes=self.memory_bytes,
            socket=self.socket,
            figures=self.taken.figures(),
            vad=self.vad,
            words=self.words,
            loop=self.loop,
            health=health_of(self.health_s),
            stopped=self.stopped,
        )


def _text(said: Mapping[str, Any], name: str) -> str:
    """Return what a status says under a name; of a thing with parts, its own name."""
    value = said.get(name)
    if isinstance(value, Mapping):
        value = value.get("model") or value.get("name")
    return value if isinstance(value, str) else ""
