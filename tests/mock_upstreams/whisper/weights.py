"""Random weights in the exact shapes, but for one thing: what they say ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from ctranslate2.specs import whisper_spec

from tests.mock_upstreams.whisper.sizes import FRAMES, POSITIONS, Size
from tests.mock_upstreams.whisper.words import COMMON, TIMES

SEED = 20261121
_PERIOD = 32
_SPREAD = 0.02
# Layers add little to what the position says: their cost is real, their opinion is not heard.
_WHISPER = 2e-4
_LOUD = 8.0
_SHARP = 3.0

Array = npt.NDArray[np.float32]


def write(size: Size, tokens: list[str], folder: Path) -> None:
    """Write model.bin and config.json of one size."""
    filler = _Filler(size, tokens)
    spec = filler.spec()
    spec.register_vocabulary(tokens)
    half = range(size.decoder_layers // 2, size.decoder_layers)
    begin = tokens.index("<|startoftranscript|>") + 1
    spec.config.alignment_heads = [[layer, head] for layer in half for head in range(size.heads)]
    spec.config.lang_ids = list(range(begin, begin + size.languages))
    spec.config.suppress_ids = []
    spec.config.suppress_ids_begin = [220, tokens.index("<|endoftext|>")]
    spec.validate()
    spec.optimize(quantization="float16")
    spec.save(str(folder))


class _Filler:
    """Fills the format's description of one size, always with the same numbers."""

    def __init__(self, size: Size, tokens: list[str]) -> None:
        self._size, self._tokens = size, tokens
        self._random = np.random.default_rng(SEED)

    def spec(self) -> whisper_spec.WhisperSpec:
        size = self._size
        spec = whisper_spec.WhisperSpec(
            size.encoder_layers, size.heads, size.decoder_layers, size.heads
        )
        self._hear(spec.encoder)
        self._speak(spec.decoder)
        return spec

    def _hear(self, encoder: whisper_spec.WhisperEncoderSpec) -> None:
        width = self._size.width
        for conv, inputs in ((encoder.conv1, self._size.mels), (encoder.conv2, width)):
            conv.weight = self._some(width, inputs, 3)
            conv.bias = np.zeros(width, np.float32)
        encoder.position_encodings.encodings = self._some(FRAMES, width)
        self._norm(encoder.layer_norm)
        for layer in encoder.layer:
            self._attend(layer.self_attention, 3 * width)
            self._feed(layer.ffn)

    def _speak(self, decoder: Any) -> None:
        width = self._size.width
        words = self._some(len(self._tokens), width)
        decoder.embeddings.weight = words
        decoder.projection.weight = words
        decoder.position_encodings.encodings = self._said(words)
        self._norm(decoder.layer_norm, _SHARP)
        for layer in decoder.layer:
            self._attend(layer.self_attention, 3 * width)
            self._attend(layer.attention, width, 2 * width)
            self._feed(layer.ffn)

    def _said(self, words: Array) -> Array:
        """Return positions that each name a word, and every so often the end."""
        first = self._tokens.index("<|0.00|>")
        end = self._tokens.index("<|endoftext|>")
        ids = [self._tokens.index(f"Ġ{word}") for word in COMMON]
        at = [end if p % _PERIOD == _PERIOD - 1 else ids[p % len(ids)] for p in range(POSITIONS)]
        # The first token must be a time: the beginning is likelier than any other.
        said_at: Array = np.float32(_LOUD) * (words[at] + np.float32(0.25) * words[first])
        return said_at

    def _attend(self, attention: Any, *outputs: int) -> None:
        width = self._size.width
        self._norm(attention.layer_norm)
        *inner, last = attention.linear
        for linear, rows in zip(inner, outputs, strict=True):
            linear.weight, linear.bias = self._some(rows, width), np.zeros(rows, np.float32)
        last.weight = self._some(width, width, spread=_WHISPER)
        last.bias = np.zeros(width, np.float32)

    def _feed(self, feed: Any) -> None:
        width = self._size.width
        self._norm(feed.layer_norm)
        first, second = feed.linear_0, feed.linear_1
        first.weight, first.bias = self._some(4 * width, width), np.zeros(4 * width, np.float32)
        second.weight = self._some(width, 4 * width, spread=_WHISPER)
        second.bias = np.zeros(width, np.float32)

    def _norm(self, norm: Any, gamma: float = 1.0) -> None:
        norm.gamma = np.full(self._size.width, gamma, np.float32)
        norm.beta = np.zeros(self._size.width, np.float32)

    def _some(self, *shape: int, spread: float = _SPREAD) -> Array:
        return self._random.standard_normal(shape, np.float32) * np.float32(spread)


assert TIMES == FRAMES + 1  # one time per frame that is heard, and the beginning
