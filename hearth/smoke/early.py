"""Whether speech starts soon enough on this machine: the one rule that a deploy stands on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SHARE = 0.5
FLOOR_S = 0.150
SLOW_S = 0.700

Word = Literal["fine", "slow", "failed"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the first sound came soon enough, and a line for a person that says why."""

    word: Word
    line: str

    @property
    def failed(self) -> bool:
        """Say whether a deploy must not be called good."""
        return self.word == "failed"


def judge(whole_s: float, ttfa_s: float) -> Verdict:
    """Judge the time to the first sound by the machine's own time for the whole phrase.

    It fails above the larger of half of `whole_s` and 150 ms: a server that buffers sends its
    first sound with its last, whatever the machine. Above 700 ms it is slow, and no failure.
    """
    limit_s = max(SHARE * whole_s, FLOOR_S)
    said = f"the first sound came after {ttfa_s * 1000:.0f} ms"
    if ttfa_s > limit_s:
        return Verdict(
            "failed",
            f"{said}; at most {limit_s * 1000:.0f} ms is right where the whole phrase takes "
            f"{whole_s * 1000:.0f} ms: does the server or a proxy buffer?",
        )
    if ttfa_s > SLOW_S:
        return Verdict("slow", f"{said}: more than {SLOW_S * 1000:.0f} ms is heard as a wait")
    return Verdict("fine", said)
