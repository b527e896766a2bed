"""What every backend gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Samples = npt.NDArray[np.float32]


@dataclass
class AudioChunk:
    """A piece of sound, and its bytes once they are made."""

    audio: Samples
    output: bytes | None = None
