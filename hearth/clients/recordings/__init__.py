"""Recorded speech for STT, with its words and exact start and end."""

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
FOLDER = Path(__file__).parent
"""Has each recording, `SECONDSs-NUMBER.opus`, with its words beside it in a `.txt`.

`question-NUMBERa.opus` and `…b.opus` are the two halves of a sentence, whose text has ` | ` where
its speaker may pause. `scripts/make_recordings.py` makes all of them.
"""


@dataclass(frozen=True, slots=True)
class Utterance:
    """Speech without a long pause: 16-bit mono at 16 kHz, trimmed."""

    text: str
    pcm: bytes

    @property
    def seconds(self) -> float:
        """How long the speech lasts, from its first sample above -40 dBFS to its last."""
        return len(self.pcm) / BYTES / RATE


@dataclass(frozen=True, slots=True)
class Question:
    """A sentence in two halves, between which its speaker may pause."""

    first: Utterance
    rest: Utterance

    @property
    def text(self) -> str:
        """All of its words."""
        return f"{self.first.text} {self.rest.text}"

    @property
    def whole(self) -> Utterance:
        """The sentence without a pause."""
        return Utterance(self.text, self.first.pcm + self.rest.pcm)


@functools.cache
def questions() -> tuple[Question, ...]:
    """Return the questions with a place for a pause; ClientError if one cannot be read."""
    found = []
    for file in sorted(FOLDER.glob("question-*.txt")):
        texts = file.read_text("utf-8").strip().split(" | ")
        sounds = [file.with_name(f"{file.stem}{half}.opus") for half in "ab"]
        halves = [
            Utterance(text, trimmed(read_audio(sound)))
            for text, sound in zip(texts, sounds, strict=True)
        ]
        found.append(Question(*halves))
    return tuple(found)


@functools.cache
def utterances(length_s: int) -> tuple[Utterance, ...]:
    """Return the recordings of this nominal length; ClientError if one cannot be read."""
    return tuple(
        Utterance(file.read_text("utf-8").strip(), trimmed(read_audio(file.with_suffix(".opus"))))
        for file in sorted(FOLDER.glob(f"{length_s}s-*.txt"))
    )


def read_audio(path: Path) -> bytes:
    """Return any file with sound as 16-bit mono at 16 kHz; ClientError if there is none."""
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
