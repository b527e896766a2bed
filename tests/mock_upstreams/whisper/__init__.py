"""Made-up weights of Whisper: CTranslate2's format, shapes, file names and cost, random numbers.

What they say is a sentence of common words that does not depend on the sound, and ends: structure
and speed can be tested, no text.
"""

from tests.mock_upstreams.whisper.files import FILES, prepare
from tests.mock_upstreams.whisper.sizes import SIZES

__all__ = ["FILES", "SIZES", "prepare"]
