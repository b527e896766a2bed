"""Recorded speech for STT, with its words and exact start and end."""

from __future__ import annotations

import functools
import io
import itertools
import wave
from array import array
from dataclasses import dataclass
from pathlib import Path

from hearth.clients import ClientError

RATE = 16_000
BYTES = 2
# Fainter sound is not speech: background noise, breath, and a codec's noise.
_LOUD = 32_768 * 10 ** (-40 / 20)
_FOLDER = Path(__file__).parent

# What each recording says, by its name: `SECONDSs-NUMBER`.
TEXTS = {
    "1s-1": "What time is it now?",
    "1s-2": "Turn on the kitchen lamp.",
    "1s-3": "Read me the news.",
    "3s-1": "Please put the kettle on and open the window for a little while.",
    "3s-2": "How long does the train to the harbour take on a Sunday morning?",
    "3s-3": "Tell my sister that I will be late and that the door is open.",
    "10s-1": (
        "The boat left the harbour before anyone had found the map, and by the time the rain "
        "stopped the whole valley smelled of cut grass and nobody wanted to go home "
        "again before night."
    ),
    "10s-2": (
        "When the lamps went out the children counted slowly to a hundred, and one of them said "
        "that the noise they heard was not thunder at all but only an old farm cart with a loose "
        "wheel."
    ),
    "30s-1": (
        "Anna kept a small workshop at the end of the lane where the road turns down to the river, "
        "and every morning began with the same three things, a kettle and a window and a list, "
        "because some days the list was long with clocks to be cleaned and a chair without a leg "
        "and a radio that hummed, and on other days there was a single line on it that nobody "
        "could read, but it did not matter much since the people who came in wanted to talk as "
        "often as they wanted anything mended, and so the kettle was always warm and the chairs "
        "were never empty."
    ),
}


@dataclass(frozen=True, slots=True)
class Utterance:
    """Speech without a long pause: 16-bit mono at 16 kHz, trimmed.

    `length_s` is its nominal length, `seconds` the exact one.
    """

    name: str
    length_s: int
    text: str
    pcm: bytes

    @property
    def seconds(self) -> float:
        """How long the speech lasts, from its first sample above -40 dBFS to its last."""
        return len(self.pcm) / BYTES / RATE


@functools.cache
def utterances(length_s: int) -> tuple[Utterance, ...]:
    """Return the recordings of this nominal length.

    Raises:
        ClientError: a recording is missing or cannot be read.
    """
    return tuple(
        Utterance(name, length_s, text, trimmed(read_audio(_FOLDER / f"{name}.opus")))
        for name, text in TEXTS.items()
        if name.split("-")[0] == f"{length_s}s"
    )


def read_audio(path: Path) -> bytes:
    """Return a recording in any container as 16-bit mono at 16 kHz.

    Raises:
        ClientError: it has no sound, or there is no such file.
    """
    # Only decoding needs this library; importing it is slow.
    import av

    fit = av.AudioResampler("s16", "mono", RATE)
    found = bytearray()
    try:
        with av.open(str(path)) as file:
            for frame in (*file.decode(audio=0), None):
                for part in fit.resample(frame):
                    found += bytes(part.planes[0])[: part.samples * BYTES]
    except (OSError, IndexError, av.FFmpegError) as error:
        raise ClientError(f"{path}: it has no readable sound ({error})") from error
    return bytes(found)


def trimmed(pcm: bytes) -> bytes:
    """Return sound from its first sample above -40 dBFS to its last; nothing if it is silent."""
    samples = array("h", pcm)
    loud = [n for n, sample in enumerate(samples) if abs(sample) > _LOUD]
    return pcm[loud[0] * BYTES : (loud[-1] + 1) * BYTES] if loud else b""


def concatenated(seconds: int) -> bytes:
    """Return the recordings one after another, with pauses of a second, cut to a length."""
    sound, pause = bytearray(), bytes(RATE * BYTES)
    spoken = itertools.cycle([one for kind in (10, 3, 30) for one in utterances(kind)])
    while len(sound) < seconds * RATE * BYTES:
        sound += next(spoken).pcm + pause
    return bytes(sound[: seconds * RATE * BYTES])


def wav(pcm: bytes) -> bytes:
    """Return 16-bit mono at 16 kHz as a WAV file."""
    into = io.BytesIO()
    with wave.open(into, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(BYTES)
        file.setframerate(RATE)
        file.writeframes(pcm)
    return into.getvalue()
