"""The backend: one pipeline for each language, and the loop over what it makes."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator

from .base import AudioChunk, Samples
from .scripted import KModel, KPipeline

logger = logging.getLogger(__name__)


class KokoroV1:
    """Speaks through pipelines that share one model."""

    def __init__(self) -> None:
        """Begin without a model."""
        self._model: KModel | None = None
        self._pipelines: dict[str, KPipeline] = {}

    async def load_model(self) -> None:
        """Load the model."""
        self._model = KModel()

    def _get_pipeline(self, lang_code: str) -> KPipeline:
        if not self._model:
            raise RuntimeError("no model is loaded")
        if lang_code not in self._pipelines:
            self._pipelines[lang_code] = KPipeline(lang_code, self._model)
        return self._pipelines[lang_code]

    async def generate_from_tokens(
        self, tokens: str, voice_path: str, speed: float = 1.0, lang_code: str = "a"
    ) -> AsyncGenerator[Samples, None]:
        """Speak phonemes."""
        pipeline = self._get_pipeline(lang_code)
        for result in pipeline.generate_from_tokens(
            tokens=tokens, voice=voice_path, speed=speed, model=self._model
        ):
            if result.audio is not None:
                yield result.audio.numpy()
            else:
                logger.warning("nothing came of a piece")

    async def generate(
        self, text: str, voice: tuple[str, str], speed: float = 1.0, lang_code: str | None = None
    ) -> AsyncGenerator[AudioChunk, None]:
        """Speak a text, each piece as the pipeline makes it."""
        try:
            voice_name, voice_path = voice
            pipeline = self._get_pipeline(lang_code or voice_name[0].lower())
            for result in pipeline(text, voice=voice_path, speed=speed, model=self._model):
                if result.audio is not None:
                    yield AudioChunk(result.audio.numpy())
                else:
                    logger.warning("nothing came of a piece")
        except Exception as error:
            logger.error("speaking failed: %s", error)
            raise
