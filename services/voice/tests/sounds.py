"""Speech and noise for calls: 24 kHz, mono; float from -1 to 1, or 16-bit PCM."""

import functools

import numpy as np
from numpy.typing import NDArray

from hearth_whisper.recognition import SAMPLE_RATE
from services.whisper.tests.live import speech

SPOKEN_RATE = 24_000
Sound = NDArray[np.float32]


@functools.cache
def spoken(text: str, words_per_minute: int = 150, voice: str = "gmw/en-US") -> Sound:
    """Return a text as espeak-ng speaks it, at half of full loudness, without silence around."""
    library, _ = speech._library()
    library.espeak_SetVoiceByName(voice.encode())
    try:
        # The voice is no part of its cache's key.
        sound = speech.speak.__wrapped__(text, words_per_minute)
    finally:
        library.espeak_SetVoiceByName(b"gmw/en-US")
    at = np.arange(int(sound.size * SPOKEN_RATE / SAMPLE_RATE))
    scaled = np.interp(at * SAMPLE_RATE / SPOKEN_RATE, np.arange(sound.size), sound)
    result: Sound = scaled.astype(np.float32)
    return result


def silence(seconds: float) -> Sound:
    return np.zeros(round(seconds * SPOKEN_RATE), np.float32)


def noise(seconds: float, level_db: float, seed: int = 1) -> Sound:
    """Return white noise at this level relative to full scale."""
    rng = np.random.default_rng(seed)
    samples = rng.standard_normal(round(seconds * SPOKEN_RATE)) * 10 ** (level_db / 20)
    return samples.astype(np.float32)


def cough(seed: int = 1) -> Sound:
    """Return two bursts of coloured noise that start hard and fade, as a cough does."""
    rng = np.random.default_rng(seed)

    def burst(seconds: float) -> Sound:
        size = round(seconds * SPOKEN_RATE)
        spectrum = np.fft.rfft(rng.standard_normal(size))
        hertz = np.fft.rfftfreq(size, 1 / SPOKEN_RATE)
        # The throat's resonances, broad.
        throat = [np.exp(-(((hertz - f) / (0.5 * f)) ** 2)) for f in (600, 1400, 2800)]
        shape = np.sum(throat, axis=0)
        sound = np.fft.irfft(spectrum * shape, size)
        at = np.arange(size) / size
        sound *= np.minimum(1, at * 30) * np.exp(-4 * at)
        result: Sound = (0.5 * sound / np.abs(sound).max()).astype(np.float32)
        return result

    return np.concatenate([burst(0.22), silence(0.12), burst(0.35)])


def hum(seconds: float = 0.35, hertz: float = 130.0) -> Sound:
    """Return "mhm": a closed mouth's voice, two syllables with a short stop between them."""

    def syllable(length_s: float, start: float, end: float) -> Sound:
        size = round(length_s * SPOKEN_RATE)
        pitch = np.linspace(start, end, size)
        phase = 2 * np.pi * np.cumsum(pitch) / SPOKEN_RATE
        # A nasal murmur: 15 dB less for each 300 Hz above the first 300.
        weights = [10 ** (-np.maximum(0.0, n * pitch - 300) / 400) for n in range(1, 9)]
        partials = [weight * np.sin((n + 1) * phase) for n, weight in enumerate(weights)]
        sound = np.sum(partials, axis=0)
        at = np.arange(size) / size
        sound *= np.minimum(1, np.minimum(at, 1 - at) * 12)
        result: Sound = (0.3 * sound / np.abs(sound).max()).astype(np.float32)
        return result

    half = seconds / 2
    return np.concatenate(
        [syllable(half, hertz, hertz * 0.95), silence(0.06), syllable(half, hertz, hertz * 1.3)]
    )


def babble(seconds: float, level_db: float) -> Sound:
    """Return six voices that talk at once, at this level relative to full scale."""
    lines = (
        "We went to the harbour in the morning and looked at the boats for a while.",
        "She said that the train was late again, and that nobody had told her why.",
        "The recipe wants three eggs, a little butter, and much more patience than I have.",
        "They are building a new bridge over the river, next to the old one.",
        "I never understood why the window in the hall does not close properly.",
        "The match was over after ten minutes, because it began to snow.",
    )
    size = round(seconds * SPOKEN_RATE)
    total = np.zeros(size, np.float32)
    for index, line in enumerate(lines):
        one = spoken(line, 130 + 15 * index, ("gmw/en-US", "gmw/en", "gmw/de")[index % 3])
        total += np.resize(np.roll(np.concatenate([one, silence(0.2)]), 7919 * index), size)
    level = float(np.sqrt(np.mean(total**2)))
    result: Sound = (total * 10 ** (level_db / 20) / level).astype(np.float32)
    return result


def pcm(sound: Sound) -> bytes:
    return (np.clip(sound, -1, 1) * 32767).astype("<i2").tobytes()
