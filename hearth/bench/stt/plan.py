"""How much one run of `hearth bench stt` asks."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from hearth.bench.stt import USUAL
from hearth.bench.stt.ratios import FOUR


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is asked; every number bounds the load. `runs` are those of 3 s."""

    quick: bool = False
    runs: int = 10
    block: int = 5
    """So many utterances are said before as many plain calls of them are made, in turns."""
    kinds: tuple[int, ...] = (1, 10, 30)
    """The lengths beside 3 s; of each as many rounds as it is slow."""
    clients: int = FOUR
    long_s: int = 120
    vad_s: int = 60
    vad_runs: int = 3
    loop_s: int = 3600
    lead_s: float = 0.4
    """How long a room is quiet before somebody speaks, at least."""
    end_of_speech_ms: int = 500
    timeout_s: float = 3600.0
    """All parts together; `memory` has as long beside it as its sound is."""
    spoken: Path | None = None
    """A folder of recordings, each with its words beside it in a file that ends in .txt."""
    parts: tuple[str, ...] = field(default=USUAL)

    @property
    def within_s(self) -> float:
        """After so many seconds the run ends with what it has."""
        return self.timeout_s + (self.loop_s if "memory" in self.parts else 0)

    def rounds(self, kind_s: int) -> int:
        """Return how often an utterance of about so many seconds is said."""
        return max(1, self.runs // {1: 2, 3: 1, 10: 3}.get(kind_s, 5))

    @property
    def few(self) -> int:
        """How often what takes long, or is only compared with the rest, is done."""
        return max(1, self.runs // 3)


def quick() -> Plan:
    """Return the plan of about two minutes: everything once or a few times."""
    return Plan(quick=True, runs=3, kinds=(1, 10), long_s=0, vad_runs=1, timeout_s=600.0)
