"""How long this machine takes for a piece of text, and how much sound comes of it.

Seconds of an inference are a fixed part and a part that grows with the sound, which grows with
the phonemes and shrinks with the speed. Warm-up measures both and every run corrects them; a
factor follows the machine's load, quickly when it slows down and slowly when it recovers.
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


# What is left of an observation with each one after it: some dozens count.
_LASTS = 0.96


@dataclass(slots=True)
class _Quotient:
    """A quotient that follows its last few dozen observations."""

    upper: float
    lower: float

    def learn(self, upper: float, lower: float) -> None:
        self.upper = _LASTS * self.upper + upper
        self.lower = _LASTS * self.lower + lower

    @property
    def value(self) -> float:
        return self.upper / self.lower


@dataclass(slots=True)
class _Line:
    """The line through recent runs, fixed part and part per unit, by relative errors.

    With z = 1 / units it is the fit of seconds / units = per_unit + fixed * z, so that a run of
    a long piece in a busy moment does not outweigh all the short ones.
    """

    n: float = 0.0
    z: float = 0.0
    zz: float = 0.0
    y: float = 0.0
    zy: float = 0.0

    def learn(self, units: float, seconds: float) -> None:
        z, y = 1 / units, seconds / units
        self.n, self.z, self.zz = _LASTS * self.n + 1, _LASTS * self.z + z, _LASTS * self.zz + z * z
        self.y, self.zy = _LASTS * self.y + y, _LASTS * self.zy + z * y

    def parts(self) -> tuple[float, float] | None:
        """Return fixed and per unit; None where all runs were of one size."""
        spread = self.n * self.zz - self.z**2
        if spread <= 1e-3 * self.n * self.zz:
            return None
        fixed = (self.n * self.zy - self.z * self.y) / spread
        per_unit = (self.y - fixed * self.z) / self.n
        if fixed < 0:
            # A disturbed short run; all of it then grows with the size.
            return 0.0, self.y / self.n
        # A disturbed long run; at least a tenth of what a character takes is for its own sake.
        least = 0.1 * self.y / self.n
        return (fixed, per_unit) if per_unit > least else (0.9 * self.y / self.z, least)


# Where nothing is measured yet: a slow machine, so that nothing promised is broken.
_FIXED_S, _PER_UNIT_S, _SOUND_PER_UNIT_S = 0.06, 0.03, 0.07
_SLOWEST, _FASTEST = 20.0, 0.05


@dataclass(slots=True)
class Pace:
    """Learns this machine's pace; used by the event loop alone."""

    _line: _Line = field(default_factory=_Line)
    _load: float = 1.0
    _sound: _Quotient = field(default_factory=lambda: _Quotient(_SOUND_PER_UNIT_S, 1.0))
    _phonemes: dict[str, _Quotient] = field(default_factory=dict)

    def calibrate(self, runs: Sequence[Run]) -> None:
        """Begin with the line through runs of different sizes."""
        self._line = _Line()
        for run in runs:
            self._line.learn(run.units, run.seconds)
            self._learn_sound(run)
        self._load = 1.0

    def learn(self, run: Run) -> None:
        """Follow what one inference really took."""
        if run.phonemes:
            fixed_s, per_unit_s = self._parts()
            expected = fixed_s + per_unit_s * run.units
            seen = min(_SLOWEST, max(_FASTEST, run.seconds / expected))
            self._load += (0.4 if seen > self._load else 0.15) * (seen - self._load)
            self._line.learn(run.units, run.seconds)
            self._learn_sound(run)

    def _parts(self) -> tuple[float, float]:
        return self._line.parts() or (_FIXED_S, _PER_UNIT_S)

    def _learn_sound(self, run: Run) -> None:
        if run.phonemes and run.sound_s > 0 and run.characters:
            self._sound.learn(run.sound_s, run.units)
            known = self._phonemes.setdefault(run.language, _Quotient(1.0, 1.0))
            known.learn(run.phonemes, run.characters)

    def rate(self, language: str = "", speed: float = 1.0) -> Rate:
        """Return what a character of this language costs and gives at this speed."""
        known = self._phonemes.get(language)
        units = (known.value if known else 1.0) / speed
        fixed_s, per_unit_s = self._parts()
        return Rate(
            fixed_s=fixed_s * self._load,
            per_character_s=per_unit_s * self._load * units,
            sound_per_character_s=self._sound.value * units,
        )


def whole_seconds(seconds: float) -> int:
    """Return seconds for a Retry-After header: whole, at least 1, at most two minutes."""
    return min(120, max(1, math.ceil(seconds)))
