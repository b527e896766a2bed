"""The shapes of the releases, as their cards and their files' sizes say them."""

from __future__ import annotations

from dataclasses import dataclass

HEAD = 64
FRAMES = 1500
POSITIONS = 448


@dataclass(frozen=True, slots=True)
class Size:
    """One release: its width, and how many layers hear and speak."""

    width: int
    encoder_layers: int
    decoder_layers: int
    multilingual: bool = True
    has_preprocessor: bool = False
    """Younger conversions bring preprocessor_config.json, and their words as JSON."""
    mels: int = 80
    """How many bands of the spectrogram it reads; large-v3 and its descendants read 128."""
    languages: int = 99

    @property
    def heads(self) -> int:
        """How many heads of attention each layer has."""
        return self.width // HEAD


SIZES = {
    "tiny": Size(384, 4, 4),
    "tiny.en": Size(384, 4, 4, multilingual=False),
    "base": Size(512, 6, 6),
    "base.en": Size(512, 6, 6, multilingual=False),
    "small": Size(768, 12, 12),
    "small.en": Size(768, 12, 12, multilingual=False),
    "medium.en": Size(1024, 24, 24, multilingual=False),
    "large-v3-turbo": Size(1280, 32, 4, has_preprocessor=True, mels=128, languages=100),
    "distil-medium.en": Size(1024, 24, 2, multilingual=False, has_preprocessor=True),
}
