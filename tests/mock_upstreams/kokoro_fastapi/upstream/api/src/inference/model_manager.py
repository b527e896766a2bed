"""Holds the one backend."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from .base import AudioChunk
from .kokoro_v1 import KokoroV1


class ModelManager:
    """Loads the backend once, and passes on what it makes."""

    def __init__(self) -> None:
        """Begin without a backend."""
        self._backend: KokoroV1 | None = None

    async def initialize(self) -> None:
        """Load the backend and let it speak once."""
        self._backend = KokoroV1()
        await self._backend.load_model()
        async for _ in self.generate("Hello.", ("af_heart", "af_heart")):
            pass

    async def generate(
        self, text: str, voice: tuple[str, str], speed: float = 1.0, lang_code: str | None = None
    ) -> AsyncGenerator[AudioChunk, None]:
        """Pass on what the backend makes of a text."""
        if self._backend is None:
            raise RuntimeError("not initialised")
        async for chunk in self._backend.generate(text, voice, speed=speed, lang_code=lang_code):
            yield chunk


manager = ModelManager()
