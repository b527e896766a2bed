"""The voices of one file, and blends of them."""

import difflib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from hearth_kokoro.engines import MAX_PHONEMES, Styles
from hearth_serving.errors import ServiceError, first_line

LANGUAGES = {
    "a": "en-us",
    "b": "en-gb",
    "e": "es",
    "f": "fr-fr",
    "h": "hi",
    "i": "it",
    "j": "ja",
    "p": "pt-br",
    "z": "zh",
}
"""The first letter of a voice's name -> its language."""

_PART = re.compile(r"([^ ()]+) *(?:\((.*)\))?")
# In the query of a URL a plus sign means a space.
_BETWEEN = re.compile(r" *\+ *| +(?!\()")
_WEIGHT = re.compile(r"[0-9]{1,4}(\.[0-9]{1,4})?")
# A blend has 0.5 MB; a client that requests many must not fill the memory.
_MAX_BLENDS = 64
_MAX_PARTS, _MAX_NAME = 8, 512


@dataclass(frozen=True, slots=True)
class Voice:
    """A voice or a blend: its name as requested, its language, and its styles."""

    name: str
    language: str
    styles: Styles


class Voices:
    """The voices of one file (name -> styles of shape [510, 1, 256]); safe for threads."""

    def __init__(self, styles: Mapping[str, Styles]) -> None:
        self._styles = dict(styles)
        self.names: tuple[str, ...] = tuple(sorted(styles))
        self._blend = lru_cache(_MAX_BLENDS)(self._mix)

    @classmethod
    def load(cls, path: Path) -> "Voices":
        """Read a file such as voices-v1.0.bin: numpy's npz with one array per voice."""
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as found:
                styles = {name: np.asarray(found[name], np.float32) for name in found.files}
        except Exception as error:  # numpy, zipfile and zlib raise different errors for damage
            raise ServiceError(f"{path} is not a valid voices file: {first_line(error)}") from error
        odd = next((n for n, s in styles.items() if s.shape != (MAX_PHONEMES, 1, 256)), None)
        known = {name: array for name, array in styles.items() if name[:1] in LANGUAGES}
        if odd or not known:
            raise ServiceError(f"{path} does not contain Kokoro voices: found {odd or 'none'}")
        return cls(known)

    def get(self, name: str) -> Voice:
        """Return `af_heart` or a blend such as `af_heart(2)+bm_fable(1)`; 400 with near names."""
        if name in self._styles:
            return Voice(name, LANGUAGES[name[0]], self._styles[name])
        return self._blend(name)

    def _mix(self, name: str) -> Voice:
        """Mix the voices of a blend by their weights; the first voice decides the language."""
        # Cut short, so that a long invalid name costs no time.
        parts = _BETWEEN.split(name[:_MAX_NAME].strip())
        if len(name) > _MAX_NAME or len(parts) > _MAX_PARTS:
            raise _bad(f"a blend has at most {_MAX_PARTS} voices")
        weighted = [self._part(part) for part in parts]
        total = math.fsum(weight for _, weight in weighted)
        mixed = sum(
            (self._styles[voice] * np.float32(weight / total) for voice, weight in weighted),
            start=np.zeros((MAX_PHONEMES, 1, 256), np.float32),
        )
        return Voice(name, LANGUAGES[weighted[0][0][0]], mixed)

    def _part(self, part: str) -> tuple[str, float]:
        """Return the voice and the weight of one part of a blend."""
        match = _PART.fullmatch(part)
        name = match[1] if match else part
        if not match or name not in self._styles:
            raise _bad(self._unknown(name))
        # Four digits on either side exclude infinity and weights that round to zero.
        weight = float(match[2]) if match[2] and _WEIGHT.fullmatch(match[2]) else 0.0
        if match[2] is None:
            return name, 1.0
        if weight <= 0:
            raise _bad(f"a weight must be above 0 and at most 9999.9999, not {_shown(match[2])}")
        return name, weight

    def _unknown(self, name: str) -> str:
        """Return the message for an unknown voice, with similar names."""
        near = difflib.get_close_matches(name[:40].lower(), self.names, n=3, cutoff=0.5)
        near = near or [known for known in self.names if known[3:] == name.lower()]
        hint = f"did you mean {', '.join(near)}?" if near else "GET /v1/audio/voices lists them"
        return f"there is no voice {_shown(name)}: {hint}"


def _shown(text: str) -> str:
    """Return client input in quotes, shortened, without control characters."""
    return repr(text if len(text) <= 40 else text[:40] + "...")


def _bad(message: str) -> ServiceError:
    """Return the error for a voice that does not exist."""
    return ServiceError(message, param="voice", code="voice_not_found")
