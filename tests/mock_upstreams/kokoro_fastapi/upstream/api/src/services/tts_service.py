"""From a text to the bytes of its sound: batches of words, pieces of sound."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Iterator

import numpy as np

from ..core.config import settings
from ..inference.base import AudioChunk
from ..inference.model_manager import ModelManager, manager

logger = logging.getLogger(__name__)


def smart_split(text: str) -> Iterator[str]:
    """Yield batches of whole sentences, each as large as the model takes at once."""
    batch = ""
    for sentence in re.split(r"(?<=[.!?])\s+", text.strip()):
        if batch and len(batch) + len(sentence) > settings.target_max_tokens:
            yield batch
            batch = ""
        batch = f"{batch} {sentence}".strip()
    if batch:
        yield batch


class TTSService:
    """Speaks texts through the one backend."""

    _chunk_semaphore = asyncio.Semaphore(4)

    def __init__(self, model_manager: ModelManager = manager) -> None:
        """Speak through this manager's backend."""
        self.model_manager = model_manager

    async def _process_chunk(
        self, chunk_text: str, voice: tuple[str, str], speed: float, output_format: str | None
    ) -> AsyncGenerator[AudioChunk, None]:
        async with self._chunk_semaphore:
            try:
                async for chunk_data in self.model_manager.generate(chunk_text, voice, speed=speed):
                    if output_format:
                        chunk_data.output = _pcm(chunk_data)
                        yield chunk_data
                    else:
                        yield chunk_data
            except Exception as error:
                logger.error("a piece failed: %s", error)

    async def generate_audio_stream(
        self, text: str, voice: str, speed: float = 1.0, output_format: str | None = "pcm"
    ) -> AsyncGenerator[AudioChunk, None]:
        """Speak a text, batch by batch."""
        path = str(settings.voices_dir / f"{voice}.pt")
        for chunk_text in smart_split(text):
            async for chunk_data in self._process_chunk(
                chunk_text, (voice, path), speed, output_format
            ):
                if chunk_data.output is not None or len(chunk_data.audio) > 0:
                    yield chunk_data

    async def generate_audio(self, text: str, voice: str, speed: float = 1.0) -> AudioChunk:
        """Speak a text and give all of it at once."""
        pieces = [
            chunk.audio
            async for chunk in self.generate_audio_stream(text, voice, speed, output_format=None)
        ]
        whole = AudioChunk(np.concatenate(pieces))
        whole.output = _pcm(whole)
        return whole


def _pcm(chunk: AudioChunk) -> bytes:
    return (chunk.audio * 32_767).astype("<i2").tobytes()
