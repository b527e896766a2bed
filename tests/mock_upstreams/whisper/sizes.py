"""The shapes of the releases, as their cards and their files' sizes say them."""

from __future__ import annotations

from dataclasses import dataclass

MELS = 80
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
    "distil-medium.en": Size(1024, 24, 2, multilingual=False, has_preprocessor=True),
}
