"""How long this machine takes for a piece of text, and how much sound comes of it.

Seconds of an inference are a fixed part and a part that grows with the sound, which grows with
the phonemes and shrinks with the speed. Warm-up measures both; after that a single factor
follows the machine's load, quickly when it slows down and slowly when it recovers.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Run:
    """One finished inference: what went in, the seconds it took, the seconds of sound."""

    language: str
    characters: int
    phonemes: int
    speed: float
    seconds: float
    sound_s: float

    @property
    def units(self) -> float:
        """What cost and sound are counted in: phonemes at speed 1."""
        return self.phonemes / self.speed


@dataclass(frozen=True, slots=True)
class Rate:
    """What a piece of so many spoken characters costs and gives, in seconds."""

    fixed_s: float
    per_character_s: float
    sound_per_character_s: float

    def cost_s(self, characters: float) -> float:
        """Return the seconds until so many characters are sound."""
        return self.fixed_s + self.per_character_s * characters

    def sound_s(self, characters: float) -> float:
        """Return the seconds that so many characters last."""
        return self.sound_per_character_s * characters

    def characters_in(self, seconds: float) -> float:
        """Return how many characters can be made within so many seconds; at least 0."""
        return max(0.0, (seconds - self.fixed_s) / self.per_character_s)

    def shared(self, among: int) -> "Rate":
        """Return the rate of one of several that take turns on this machine."""
        share = max(1, among)
        return Rate(self.fixed_s * share, self.per_character_s * share, self.sound_per_character_s)


@dataclass(slots=True)
class _Quotient:
    """A quotient that follows its last few dozen observations."""

    upper: float
    lower: float

    def learn(self, upper: float, lower: float) -> None:
        self.upper = 0.95 * self.upper + upper
        self.lower = 0.95 * self.lower + lower

    @property
    def value(self) -> float:
        return self.upper / self.lower


# Where nothing is measured yet: a slow machine, so that nothing promised is broken.
_FIXED_S, _PER_UNIT_S, _SOUND_PER_UNIT_S = 0.06, 0.03, 0.07
_SLOWEST, _FASTEST = 20.0, 0.05


@dataclass(slots=True)
class Pace:
    """Learns this machine's pace; used by the event loop alone."""

    _fixed_s: float = _FIXED_S
    _per_unit_s: float = _PER_UNIT_S
    _load: float = 1.0
    _sound: _Quotient = field(default_factory=lambda: _Quotient(_SOUND_PER_UNIT_S, 1.0))
    _phonemes: dict[str, _Quotient] = field(default_factory=dict)

    def calibrate(self, runs: Sequence[Run]) -> None:
        """Take the fixed and the growing part from runs of different sizes."""
        short, long = min(runs, key=lambda run: run.units), max(runs, key=lambda run: run.units)
        if long.units > short.units:
            slope = (long.seconds - short.seconds) / (long.units - short.units)
            # A machine that was disturbed meanwhile may have measured no growth at all.
            self._per_unit_s = max(slope, 0.1 * long.seconds / long.units, 1e-6)
            self._fixed_s = max(short.seconds - self._per_unit_s * short.units, 1e-4)
        self._load = 1.0
        for run in runs:
            self._learn_sound(run)

    def learn(self, run: Run) -> None:
        """Follow what one inference really took."""
        if run.phonemes:
            expected = self._fixed_s + self._per_unit_s * run.units
            seen = min(_SLOWEST, max(_FASTEST, run.seconds / expected))
            self._load += (0.4 if seen > self._load else 0.15) * (seen - self._load)
            self._learn_sound(run)

    def _learn_sound(self, run: Run) -> None:
        if run.phonemes and run.sound_s > 0 and run.characters:
            self._sound.learn(run.sound_s, run.units)
            known = self._phonemes.setdefault(run.language, _Quotient(1.0, 1.0))
            known.learn(run.phonemes, run.characters)

    def rate(self, language: str = "", speed: float = 1.0) -> Rate:
        """Return what a character of this language costs and gives at this speed."""
        known = self._phonemes.get(language)
        units = (known.value if known else 1.0) / speed
        return Rate(
            fixed_s=self._fixed_s * self._load,
            per_character_s=self._per_unit_s * self._load * units,
            sound_per_character_s=self._sound.value * units,
        )


def whole_seconds(seconds: float) -> int:
    """Return seconds for a Retry-After header: whole, at least 1, at most two minutes."""
    return min(120, max(1, math.ceil(seconds)))
