"""How much sound a player needs before it may start, so that it never runs dry.

A machine that synthesises much faster than sound plays needs no lead: its first segment is enough.
On a slower one the first sound waits, and this computes for how long. The players that share the
engine are one demand: at any later moment, the work that is due by then must fit into the time.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hearth_kokoro.synthesis.cost_model import SynthesisRate

FAST_RTF = 0.5
"""A machine that needs at most so many seconds of work for a second of sound starts at once."""
HELD_MARGIN = 1.1
"""How much longer the rest of a text may take than expected, before its sound starts."""
# One segment varies more than the whole text does.
_STEP_MARGIN = 4 / 3
# The codec holds up to 86 ms back; the rest is for the network and the event loop.
_DELIVERY_S = 0.15
_PHRASE, _USUAL_SEGMENT = 90, 40


@dataclass(frozen=True, slots=True)
class Demand:
    """One player: what it has left to play, and the rest of its text."""

    buffered_s: float
    cost_s: float
    sound_s: float
    step_s: float
    """The cost of the next segment: sound arrives in whole segments."""

    def due_s(self, at_s: float) -> float:
        """Return the work that must be done in `at_s` seconds, so that the player is not dry."""
        if at_s < self.buffered_s:
            return 0.0
        return self.step_s + self.cost_s * min(1.0, (at_s - self.buffered_s) / self.sound_s)


def demand(
    rate: SynthesisRate, buffered_s: float, characters: float, step_s: float, margin: float
) -> Demand:
    """Return the demand of a player whose text has `characters` left; a segment takes `step_s`."""
    fixed_s = rate.fixed_s * math.ceil(characters / _USUAL_SEGMENT)
    return Demand(
        buffered_s=max(0.0, buffered_s - _DELIVERY_S),
        cost_s=margin * (fixed_s + rate.per_character_s * characters),
        sound_s=rate.sound_s(characters),
        step_s=_STEP_MARGIN * step_s,
    )


def shortage_s(demands: Sequence[Demand]) -> float:
    """Return how many seconds too late some sound would be if all played now; at least 0.

    That is also how long one of them has to wait, because waiting moves its whole demand.
    """
    moments = {at for one in demands for at in (one.buffered_s, one.buffered_s + one.sound_s)}
    late = (sum(one.due_s(at) for one in demands) - at for at in moments)
    return max(0.0, *late) if demands else 0.0


def rtf(rate: SynthesisRate) -> float:
    """Return the seconds of work per second of sound, for a phrase of 90 characters."""
    return rate.cost_s(_PHRASE) / rate.sound_s(_PHRASE)
