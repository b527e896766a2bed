"""Speech from espeak-ng with an exactly known start and end."""

import ctypes
import functools

import espeakng_loader
import numpy as np

from hearth_whisper.recognition import SAMPLE_RATE, Samples

# From espeak-ng's speak_lib.h: synchronous audio callback, no exit without data, UTF-8, and the
# parameter for words per minute.
_SYNCHRONOUS, _DONT_EXIT, _UTF8, _RATE = 2, 0x8000, 1, 1
_AUDIBLE = 0.01
"""40 dB below the peak: softer audio before and after is cut off."""

_Callback = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p
)


@functools.cache
def speak(text: str, words_per_minute: int = 150) -> Samples:
    """Return a sentence from its first audible sample to its last, at half of full loudness."""
    library, rate = _library()
    pieces: list[np.ndarray[tuple[int], np.dtype[np.int16]]] = []

    def take(sound: ctypes.Array[ctypes.c_short], count: int, _: int) -> int:
        if sound and count > 0:
            pieces.append(np.ctypeslib.as_array(sound, (count,)).copy())
        return 0

    callback = _Callback(take)
    library.espeak_SetSynthCallback(callback)
    library.espeak_SetParameter(_RATE, words_per_minute, 0)
    data = text.encode()
    library.espeak_Synth(data, len(data) + 1, 0, 0, 0, _UTF8, None, None)
    library.espeak_Synchronize()
    return _trimmed(_resampled(np.concatenate(pieces), rate))


@functools.cache
def _library() -> tuple[ctypes.CDLL, int]:
    library = ctypes.CDLL(espeakng_loader.get_library_path())
    data = espeakng_loader.get_data_path().encode()
    rate = library.espeak_Initialize(_SYNCHRONOUS, 0, data, _DONT_EXIT)
    library.espeak_SetVoiceByName(b"gmw/en-US")
    return library, rate


def _resampled(sound: np.ndarray[tuple[int], np.dtype[np.int16]], rate: int) -> Samples:
    # Linear interpolation is good enough for a VAD.
    at = np.arange(int(sound.size * SAMPLE_RATE / rate)) * rate / SAMPLE_RATE
    return np.interp(at, np.arange(sound.size), sound).astype(np.float32)


def _trimmed(sound: Samples) -> Samples:
    loudest = np.abs(sound).max()
    (audible,) = np.nonzero(np.abs(sound) > _AUDIBLE * loudest)
    samples: Samples = sound[audible[0] : audible[-1] + 1] * np.float32(0.5 / loudest)
    return samples
