"""The voices of one file, and blends of them."""

import difflib
import math
import re
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hearth_kokoro.engines import MAX_PHONEMES, Styles
from hearth_kokoro.languages import LANGUAGES
from hearth_serving.errors import ServiceError, first_line

_PART = re.compile(r"([^ ()]+) *(?:\((.*)\))?")
# In the query of an address a plus sign means a space.
_BETWEEN = re.compile(r" *\+ *| +(?!\()")
_WEIGHT = re.compile(r"[0-9]{1,4}(\.[0-9]{1,4})?")
# A blend is 0.5 MB; a client that asks for ever new ones must not fill the memory.
_MAX_BLENDS = 64
_MAX_PARTS, _MAX_ASKED = 8, 512


@dataclass(frozen=True, slots=True)
class Voice:
    """A voice or a blend: how it was asked for, what it speaks, and its styles."""

    name: str
    language: str
    styles: Styles


class Voices:
    """The voices of one file; safe to use from several threads."""

    def __init__(self, styles: Mapping[str, Styles]) -> None:
        """Take name -> styles of shape [510, 1, 256]."""
        self._styles = dict(styles)
        self.names: tuple[str, ...] = tuple(sorted(styles))
        self._blends: OrderedDict[str, Voice] = OrderedDict()
        self._lock = threading.Lock()

    @classmethod
    def load(cls, path: Path) -> "Voices":
        """Read a file such as voices-v1.0.bin: numpy's npz of one array per voice."""
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as found:
                styles = {name: np.asarray(found[name], np.float32) for name in found.files}
        except Exception as error:  # numpy, zipfile and zlib: one for each kind of damage
            raise ServiceError(f"{path} is not a valid voices file: {first_line(error)}") from error
        odd = next((n for n, s in styles.items() if s.shape != (MAX_PHONEMES, 1, 256)), None)
        known = {name: array for name, array in styles.items() if name[:1] in LANGUAGES}
        if odd or not known:
            raise ServiceError(f"{path} does not contain Kokoro voices: found {odd or 'none'}")
        return cls(known)

    def get(self, asked: str) -> Voice:
        """Return `af_heart` or a blend such as `af_heart(2)+bm_fable(1)`; 400 with near names."""
        if asked in self._styles:
            return Voice(asked, LANGUAGES[asked[0]], self._styles[asked])
        with self._lock:
            if asked in self._blends:
                self._blends.move_to_end(asked)
                return self._blends[asked]
        voice = self._blend(asked)
        with self._lock:
            self._blends[asked] = voice
            while len(self._blends) > _MAX_BLENDS:
                self._blends.popitem(last=False)
        return voice

    def _blend(self, asked: str) -> Voice:
        """Mix what a blend names, by its weights; the first one says the language."""
        # Cut short, so that nothing here takes longer for longer nonsense.
        parts = _BETWEEN.split(asked[:_MAX_ASKED].strip())
        if len(asked) > _MAX_ASKED or len(parts) > _MAX_PARTS:
            raise _bad(f"a blend has at most {_MAX_PARTS} voices")
        weighed = [self._part(part) for part in parts]
        total = math.fsum(weight for _, weight in weighed)
        mixed = sum(
            (self._styles[name] * np.float32(weight / total) for name, weight in weighed),
            start=np.zeros((MAX_PHONEMES, 1, 256), np.float32),
        )
        return Voice(asked, LANGUAGES[weighed[0][0][0]], mixed)

    def _part(self, part: str) -> tuple[str, float]:
        """Return the voice and the weight that one part of a blend names."""
        match = _PART.fullmatch(part)
        name = match[1] if match else part
        if not match or name not in self._styles:
            raise _bad(self._unknown(name))
        # Four digits on either side: no infinity, nothing that rounds to nothing.
        weight = float(match[2]) if match[2] and _WEIGHT.fullmatch(match[2]) else 0.0
        if match[2] is None:
            return name, 1.0
        if weight <= 0:
            raise _bad(f"a weight must be above 0 and at most 9999.9999, not {_shown(match[2])}")
        return name, weight

    def _unknown(self, name: str) -> str:
        """Say that there is no such voice, and which ones are near."""
        near = difflib.get_close_matches(name[:40].lower(), self.names, n=3, cutoff=0.5)
        near = near or [known for known in self.names if known[3:] == name.lower()]
        hint = f"did you mean {', '.join(near)}?" if near else "GET /v1/audio/voices lists them"
        return f"there is no voice {_shown(name)}: {hint}"


def _shown(text: str) -> str:
    """Return what somebody sent, in quotes, without control characters and not too long."""
    return repr(text if len(text) <= 40 else text[:40] + "...")


def _bad(message: str) -> ServiceError:
    """Return the error of a request that names no usable voice."""
    return ServiceError(message, param="voice", code="voice_not_found")
