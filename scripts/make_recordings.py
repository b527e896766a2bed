"""Makes the recordings: `.venv/bin/python scripts/make_recordings.py`, in the test environment.

espeak-ng speaks the texts in its American voice at 165 words a minute; they are trimmed, brought
to -3 dBFS and written as Opus of 20 kbit/s. They are committed: no house needs espeak-ng to
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
BITS_PER_S = 20_000
PEAK = 23_200
"""-3 dBFS."""
# Of espeak-ng's speak_lib.h.
_SYNCHRONOUS, _RATE, _CHARACTERS, _UTF8 = 2, 1, 1, 1
_CALLBACK = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p
)


def spoken(texts: list[str]) -> Iterator[bytes]:
    """Yield each text as 16-bit mono at 16 kHz, spoken by espeak-ng."""
    library = ctypes.CDLL(espeakng_loader.get_library_path())
    rate = library.espeak_Initialize(_SYNCHRONOUS, 0, espeakng_loader.get_data_path().encode(), 0)
    library.espeak_SetVoiceByName(VOICE)
    library.espeak_SetParameter(_RATE, WORDS_PER_MINUTE, 0)
    parts: list[bytes] = []

    def take(samples: ctypes._Pointer[ctypes.c_short], number: int, _: int | None) -> int:
        if samples and number:
            parts.append(ctypes.string_at(samples, number * BYTES))
        return 0

    callback = _CALLBACK(take)
    library.espeak_SetSynthCallback(callback)
    for text in texts:
        parts.clear()
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


if __name__ == "__main__":
    files = sorted(FOLDER.glob("*.txt"))
    for file, sound in zip(files, spoken([file.read_text() for file in files]), strict=True):
        write(sound, file.with_suffix(".opus"))
