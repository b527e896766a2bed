"""Speech to be recognised: what was said is known, and so is when it began and ended."""

from __future__ import annotations

import functools
import itertools
from array import array
from dataclasses import dataclass
from pathlib import Path

from hearth.bench import BenchError
from hearth.clients.recordings.texts import TEXTS

RATE = 16_000
BYTES = 2
# What is fainter than this is no speech: room, breath, and a codec's noise.
_LOUD = 32_768 * 10 ** (-40 / 20)
_FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Utterance:
    """Something spoken without a pause that ends it: 16-bit mono at 16 kHz, trimmed.

    `kind_s` is about how long it is meant to be, `seconds` how long it is.
    """

    name: str
    kind_s: int
    text: str
    pcm: bytes

    @property
    def seconds(self) -> float:
        """How long the speech lasts, from its first sample above -40 dBFS to its last."""
        return len(self.pcm) / BYTES / RATE


@functools.cache
def utterances(kind_s: int) -> tuple[Utterance, ...]:
    """Return the recordings of about so many seconds.

    Raises:
        BenchError: a recording is not there or cannot be read.
    """
    return tuple(
        Utterance(name, kind_s, text, trimmed(sound_of(_FOLDER / f"{name}.opus")))
        for name, text in TEXTS.items()
        if name.split("-")[0] == f"{kind_s}s"
    )


def sound_of(path: Path) -> bytes:
    """Return a recording in any container as 16-bit mono at 16 kHz.

    Raises:
        BenchError: there is no sound in it, or no such file.
    """
    # Reading containers needs a library that nothing else here does.
    import av

    fit = av.AudioResampler("s16", "mono", RATE)
    found = bytearray()
    try:
        with av.open(str(path)) as file:
            for frame in (*file.decode(audio=0), None):
                for part in fit.resample(frame):
                    found += bytes(part.planes[0])[: part.samples * BYTES]
    except (OSError, IndexError, av.FFmpegError) as error:
        raise BenchError(f"{path}: no sound can be read from it ({error})") from error
    return bytes(found)


def trimmed(pcm: bytes) -> bytes:
    """Return sound from its first sample above -40 dBFS to its last; nothing of silence."""
    samples = array("h", pcm)
    loud = [n for n, sample in enumerate(samples) if abs(sample) > _LOUD]
    return pcm[loud[0] * BYTES : (loud[-1] + 1) * BYTES] if loud else b""


def joined(seconds: int) -> bytes:
    """Return the recordings one after another, with pauses of a second, for so many seconds."""
    sound, pause = bytearray(), bytes(RATE * BYTES)
    spoken = itertools.cycle([one for kind in (10, 3, 30) for one in utterances(kind)])
    while len(sound) < seconds * RATE * BYTES:
        sound += next(spoken).pcm + pause
    return bytes(sound[: seconds * RATE * BYTES])
