"""Estimates how long this machine takes for a text, and how much sound the text makes.

The time of an inference has a fixed part and a part that grows with the sound. The sound grows
with the phonemes and shrinks with the speed. The warm-up measures both parts, and every inference
corrects them. A factor follows the machine's load: quickly up, slowly down.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class InferenceRun:
    """One finished inference: its input, the seconds it took, and the seconds of sound."""

    language: str
    characters: int
    phonemes: int
    speed: float
    seconds: float
    sound_s: float

    @property
    def units(self) -> float:
        """The unit of cost and sound: phonemes at speed 1."""
        return self.phonemes / self.speed


@dataclass(frozen=True, slots=True)
class SynthesisRate:
    """The cost and the sound of spoken characters, in seconds."""

    fixed_s: float
    per_character_s: float
    sound_per_character_s: float

    def cost_s(self, characters: float) -> float:
        """Return the seconds that the inference of so many characters takes."""
        return self.fixed_s + self.per_character_s * characters

    def sound_s(self, characters: float) -> float:
        """Return the seconds of sound of so many characters."""
        return self.sound_per_character_s * characters

    def characters_in(self, seconds: float) -> float:
        """Return how many characters can be synthesised within so many seconds; at least 0."""
        return max(0.0, (seconds - self.fixed_s) / self.per_character_s)

    def shared(self, among: int) -> "SynthesisRate":
        """Return the rate of one speech where several take turns on this machine."""
        share = max(1, among)
        return SynthesisRate(
            self.fixed_s * share, self.per_character_s * share, self.sound_per_character_s
        )


# Each observation weighs this much less than the next one: some dozens count.
_DECAY = 0.96


@dataclass(slots=True)
class _DecayingRatio:
    """A ratio that follows its last few dozen observations."""

    upper: float
    lower: float

    def learn(self, upper: float, lower: float) -> None:
        self.upper = _DECAY * self.upper + upper
        self.lower = _DECAY * self.lower + lower

    @property
    def value(self) -> float:
        return self.upper / self.lower


@dataclass(slots=True)
class _LinearFit:
    """A linear fit through recent inferences: a fixed part and a part per unit.

    With z = 1 / units it fits seconds / units = per_unit + fixed * z. Relative errors count, so
    that one long segment in a busy moment does not outweigh all the short ones.
    """

    n: float = 0.0
    z: float = 0.0
    zz: float = 0.0
    y: float = 0.0
    zy: float = 0.0

    def learn(self, units: float, seconds: float) -> None:
        z, y = 1 / units, seconds / units
        self.n, self.z, self.zz = _DECAY * self.n + 1, _DECAY * self.z + z, _DECAY * self.zz + z * z
        self.y, self.zy = _DECAY * self.y + y, _DECAY * self.zy + z * y

    def parts(self) -> tuple[float, float] | None:
        """Return the fixed part and the part per unit; None where all sizes were the same."""
        spread = self.n * self.zz - self.z**2
        if spread <= 1e-3 * self.n * self.zz:
            return None
        fixed = (self.n * self.zy - self.z * self.y) / spread
        per_unit = (self.y - fixed * self.z) / self.n
        if fixed < 0:
            # A short inference was disturbed: then all of the time grows with the size.
            return 0.0, self.y / self.n
        # A long inference was disturbed: at least a tenth of the time grows with the size.
        least = 0.1 * self.y / self.n
        return (fixed, per_unit) if per_unit > least else (0.9 * self.y / self.z, least)


# Before any measurement a slow machine is assumed, so that speech does not run dry.
_FIXED_S, _PER_UNIT_S, _SOUND_PER_UNIT_S = 0.06, 0.03, 0.07
_SLOWEST, _FASTEST = 20.0, 0.05


@dataclass(slots=True)
class CostModel:
    """Learns this machine's speed; only the event loop uses it."""

    _fit: _LinearFit = field(default_factory=_LinearFit)
    _load: float = 1.0
    _sound: _DecayingRatio = field(default_factory=lambda: _DecayingRatio(_SOUND_PER_UNIT_S, 1.0))
    _phonemes: dict[str, _DecayingRatio] = field(default_factory=dict)

    def calibrate(self, runs: Sequence[InferenceRun]) -> None:
        """Start with the fit through inferences of different sizes."""
        self._fit = _LinearFit()
        for run in runs:
            self._fit.learn(run.units, run.seconds)
            self._learn_sound(run)
        self._load = 1.0

    def learn(self, run: InferenceRun) -> None:
        """Correct the model by the time that one inference took."""
        if run.phonemes:
            fixed_s, per_unit_s = self._parts()
            expected = fixed_s + per_unit_s * run.units
            seen = min(_SLOWEST, max(_FASTEST, run.seconds / expected))
            self._load += (0.4 if seen > self._load else 0.15) * (seen - self._load)
            self._fit.learn(run.units, run.seconds)
            self._learn_sound(run)

    def _parts(self) -> tuple[float, float]:
        return self._fit.parts() or (_FIXED_S, _PER_UNIT_S)

    def _learn_sound(self, run: InferenceRun) -> None:
        if run.phonemes and run.sound_s > 0 and run.characters:
            self._sound.learn(run.sound_s, run.units)
            known = self._phonemes.setdefault(run.language, _DecayingRatio(1.0, 1.0))
            known.learn(run.phonemes, run.characters)

    def rate(self, language: str = "", speed: float = 1.0) -> SynthesisRate:
        """Return the cost and the sound of a character of this language at this speed."""
        known = self._phonemes.get(language)
        units = (known.value if known else 1.0) / speed
        fixed_s, per_unit_s = self._parts()
        return SynthesisRate(
            fixed_s=fixed_s * self._load,
            per_character_s=per_unit_s * self._load * units,
            sound_per_character_s=self._sound.value * units,
        )


def retry_after_seconds(seconds: float) -> int:
    """Return the value of a Retry-After header: whole seconds, from 1 to 120."""
    return min(120, max(1, math.ceil(seconds)))
