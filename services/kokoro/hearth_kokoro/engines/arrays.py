"""What both engines do to the arrays that go in and come out."""

import numpy as np
import numpy.typing as npt

from hearth_kokoro.engines import Samples, Styles


def style_for(voice: Styles, phonemes: int) -> npt.NDArray[np.float32]:
    """Return the voice's style for this many phonemes, at least one; shape [1, 256]."""
    row: npt.NDArray[np.float32] = voice[min(phonemes, len(voice)) - 1]
    return row


def sound_of(raw: npt.NDArray[np.generic]) -> Samples:
    """Return samples as float32 within ±1; a half-precision model may overflow."""
    samples = np.nan_to_num(np.asarray(raw, np.float32).ravel(), nan=0.0)
    return np.clip(samples, -1.0, 1.0, out=samples)
