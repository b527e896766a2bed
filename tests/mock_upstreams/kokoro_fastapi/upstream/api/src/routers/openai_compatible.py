"""OpenAI's interface: pcm, and wav for what is not streamed."""

from __future__ import annotations

import io
import wave
from collections.abc import AsyncGenerator

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from ..core.config import settings
from ..inference.scripted import RATE
from ..services.tts_service import TTSService

_service = TTSService()


async def create_speech(request: Request) -> Response:
    """Speak what is asked for, streamed unless it is asked for whole."""
    asked = await request.json()
    form, voice = asked.get("response_format", "mp3"), asked.get("voice", settings.default_voice)
    if form not in ("pcm", "wav") or voice not in voices():
        return JSONResponse({"detail": {"message": f"no voice {voice} as {form}"}}, 400)
    text, speed = asked["input"], asked.get("speed", 1.0)
    if not asked.get("stream", True) or form == "wav":
        whole = await _service.generate_audio(text, voice, speed)
        said = whole.output or b""
        return Response(_wav(said) if form == "wav" else said, media_type=f"audio/{form}")

    async def single_output() -> AsyncGenerator[bytes, None]:
        async for chunk_data in _service.generate_audio_stream(text, voice, speed):
            if chunk_data.output:
                yield chunk_data.output

    return StreamingResponse(single_output(), media_type="audio/pcm")


async def list_voices(_request: Request) -> Response:
    """List the voices."""
    return JSONResponse({"voices": voices()})


def voices() -> list[str]:
    """Return the voices there are: one file each."""
    return sorted(path.stem for path in settings.voices_dir.glob("*.pt"))


def _wav(pcm: bytes) -> bytes:
    content = io.BytesIO()
    with wave.open(content, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(RATE)
        sound.writeframes(pcm)
    return content.getvalue()


routes = [
    Route("/v1/audio/speech", create_speech, methods=["POST"]),
    Route("/v1/audio/voices", list_voices),
]
