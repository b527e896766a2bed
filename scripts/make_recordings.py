"""Makes the recordings: `.venv/bin/python scripts/make_recordings.py`, in the test environment.

espeak-ng speaks the texts in its American voice at 165 words a minute, and the questions at several
speeds, in two halves each; they are trimmed, brought to -3 dBFS and written as Opus of 20 kbit/s.
They are committed: no house needs espeak-ng to
measure itself, and every house hears the same.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Iterator
from pathlib import Path

import av
import espeakng_loader

from hearth.clients.recordings import BYTES, FOLDER, RATE, trimmed

VOICE = b"gmw/en-US"
WORDS_PER_MINUTE = 165
QUESTIONS_PER_MINUTE = (130, 150, 170, 150, 180, 130, 160, 140)
"""Of each question in turn."""
BITS_PER_S = 20_000
PEAK = 23_200
"""-3 dBFS."""
# Of espeak-ng's speak_lib.h.
_SYNCHRONOUS, _RATE, _CHARACTERS, _UTF8 = 2, 1, 1, 1
_CALLBACK = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p
)


def spoken(texts: list[tuple[str, int]]) -> Iterator[bytes]:
    """Yield each text, at its words per minute, as 16-bit mono at 16 kHz by espeak-ng."""
    library = ctypes.CDLL(espeakng_loader.get_library_path())
    rate = library.espeak_Initialize(_SYNCHRONOUS, 0, espeakng_loader.get_data_path().encode(), 0)
    library.espeak_SetVoiceByName(VOICE)
    parts: list[bytes] = []

    def take(samples: ctypes._Pointer[ctypes.c_short], number: int, _: int | None) -> int:
        if samples and number:
            parts.append(ctypes.string_at(samples, number * BYTES))
        return 0

    callback = _CALLBACK(take)
    library.espeak_SetSynthCallback(callback)
    for text, words_per_minute in texts:
        parts.clear()
        library.espeak_SetParameter(_RATE, words_per_minute, 0)
        data = text.encode() + b"\0"
        library.espeak_Synth(data, len(data), 0, _CHARACTERS, 0, _UTF8, None, None)
        yield _at_16_khz(b"".join(parts), rate)


def _at_16_khz(pcm: bytes, rate: int) -> bytes:
    fit = av.AudioResampler("s16", "mono", RATE)
    frames = [*fit.resample(_frame(pcm, rate)), *fit.resample(None)]
    return b"".join(bytes(part.planes[0])[: part.samples * BYTES] for part in frames)


def _frame(pcm: bytes, rate: int) -> av.AudioFrame:
    frame = av.AudioFrame("s16", "mono", len(pcm) // BYTES)
    frame.planes[0].update(pcm)
    frame.sample_rate = rate
    return frame


def write(pcm: bytes, path: Path) -> None:
    """Write trimmed sound as Opus, as loud as all others, with a moment of silence around it."""
    samples = array("h", trimmed(pcm))
    louder = PEAK / max(map(abs, samples))
    still = bytes(RATE // 10 * BYTES)
    whole = still + array("h", [round(s * louder) for s in samples]).tobytes() + still
    with av.open(str(path), "w", format="ogg") as file:
        stream = file.add_stream("libopus", rate=RATE, options={"application": "voip"})
        stream.layout, stream.bit_rate = "mono", BITS_PER_S
        for packet in (*stream.encode(_frame(whole, RATE)), *stream.encode(None)):
            file.mux(packet)


def wanted() -> dict[Path, tuple[str, int]]:
    """Return each file with its text and its words per minute."""
    found = {}
    for file in sorted(FOLDER.glob("*s-*.txt")):
        found[file.with_suffix(".opus")] = file.read_text(), WORDS_PER_MINUTE
    files = sorted(FOLDER.glob("question-*.txt"))
    for file, speed in zip(files, QUESTIONS_PER_MINUTE, strict=True):
        for half, text in zip("ab", file.read_text().split(" | "), strict=True):
            found[file.with_name(f"{file.stem}{half}.opus")] = text, speed
    return found


if __name__ == "__main__":
    files = wanted()
    for path, sound in zip(files, spoken(list(files.values())), strict=True):
        write(sound, path)
