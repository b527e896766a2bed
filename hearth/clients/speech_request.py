"""How a speech server is asked: one path, one body, for whoever measures and whoever verifies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

PATH = "/v1/audio/speech"
MODEL = "kokoro"
VOICE = "af_heart"


@dataclass(frozen=True, slots=True)
class Ask:
    """What is to be spoken, and how it is wanted."""

    text: str
    voice: str = VOICE
    format: str = "pcm"
    streamed: bool = True

    def body(self, model: str = MODEL) -> dict[str, Any]:
        """Return the request as OpenAI's endpoint takes it."""
        return {
            "model": model,
            "input": self.text,
            "voice": self.voice,
            "response_format": self.format,
            "stream": self.streamed,
        }
