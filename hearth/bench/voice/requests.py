"""One measured turn of a call, and the parts of a turn measured alone."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import httpx
from websockets.exceptions import WebSocketException

from hearth.bench.stt.requests import stream_at_once
from hearth.clients import ClientError, llm
from hearth.clients.calls import (
    RATE,
    SOUND,
    STARTED,
    STOPPED,
    TURN,
    WORDS,
    Call,
    at_24_khz,
    calling,
)
from hearth.clients.endpoints import Endpoint
from hearth.clients.recordings import RATE as RECORDED_RATE
from hearth.clients.recordings import Question, Utterance
from hearth.clients.sound import Chunk, first_sound, stalls
from hearth.clients.stt import NoStreamError, StreamOptions
from hearth.clients.tts import VOICE
from hearth.clients.websocket import connection

SILENCE_MS = 500
PLAIN: Mapping[str, Any] = {"type": "server_vad", "silence_duration_ms": SILENCE_MS}
SEMANTIC: Mapping[str, Any] = {"type": "semantic_vad"}
CALL_S = 120.0
_TOKENS = 48
_LEAD_S = 0.3
_SPEECH = "/v1/audio/stream"
_STORY = "Tell a story of twelve sentences, whatever you are asked."
_BRIEF = "Answer in one short sentence, without lists or headings."
# The talker interrupts when the house has spoken for so long.
_INTO_S = 0.8


@dataclass(frozen=True, slots=True)
class VoiceCase:
    """One kind of turn: a call, or a part of one alone; `pause_s` is inside the question."""

    what: str
    calls: int = 1
    pause_s: float = 0.0

    @property
    def watched(self) -> bool:
        """Whether health is sampled meanwhile."""
        return self.calls > 1


FIELDS = (
    *("total_ms", "added_ms", "silence_ms", "transcription_ms", "model_ms", "voice_ms"),
    *("detected_ms", "stopped_ms"),
)
TOTALS = ("early", "stalls", "false_ends")


@dataclass(frozen=True, slots=True)
class CallSample:
    """One turn; times in ms. `error` is empty on success.

    `total_ms` is from the last sample above -40 dBFS of the question to the first sound above
    -45 dBFS of the answer, of a part alone its own time, and `added_ms` how much longer that is
    than the parts alone in the same round. The stages are the server's own times. `detected_ms` is
    from the end of speech to the event that the turn is over, `stopped_ms` from the first sample of
    an interruption to the event that stops the voice. `false_ends` is 1 where a pause was taken for
    the end, and `early` where the answer started on an early text.
    """

    error: str = ""
    text: str = ""
    total_ms: float | None = None
    added_ms: float | None = None
    silence_ms: float | None = None
    transcription_ms: float | None = None
    model_ms: float | None = None
    voice_ms: float | None = None
    detected_ms: float | None = None
    stopped_ms: float | None = None
    false_ends: int | None = None
    early: int | None = None
    stalls: int | None = None


@dataclass(frozen=True, slots=True)
class VoicePaths:
    """Where calls go (through the reverse proxy), and the servers that a call uses, directly."""

    call: Endpoint
    recogniser: Endpoint
    gateway: Endpoint
    speaker: Endpoint


def instructions(what: str = _BRIEF) -> str:
    """Return instructions that no server has read yet: a cached start would be measured."""
    return f"[{secrets.token_hex(4)}] You talk with a person in their house, by voice. {what}"


def session(detection: Mapping[str, Any], told: str) -> dict[str, Any]:
    """Return the settings of a measured call."""
    heard = {"transcription": {"model": "whisper-1"}, "turn_detection": dict(detection)}
    return {
        "type": "realtime",
        "instructions": told,
        "max_output_tokens": _TOKENS,
        "audio": {"input": heard, "output": {"voice": VOICE}},
    }


def sound_of(pcm: bytes) -> bytes:
    """Return a recording at the rate of calls."""
    return at_24_khz(array("h", pcm), RECORDED_RATE)


async def text_alone(endpoint: Endpoint, question: Utterance) -> CallSample:
    """Speak a question to the recogniser alone."""
    options = StreamOptions(_LEAD_S, SILENCE_MS, partials=False, language=None)
    try:
        (sample,) = await stream_at_once(endpoint, [question], options)
    except NoStreamError as error:
        return CallSample(str(error))
    return CallSample(sample.error, sample.text, sample.final_ms)


async def token_alone(
    client: httpx.AsyncClient, endpoint: Endpoint, told: str, question: str
) -> CallSample:
    """Ask the model alone, with what a call asks it."""
    messages = [{"role": "system", "content": told}, {"role": "user", "content": question}]
    reply = await llm.ask(client, endpoint, {"messages": messages, "max_tokens": _TOKENS})
    if reply.error or reply.answer_s is None:
        return CallSample(reply.error or "an answer without a single token")
    return CallSample(text=reply.text, total_ms=reply.answer_s * 1000)


async def sound_alone(endpoint: Endpoint, text: str) -> CallSample:
    """Let the speech server alone speak a text that it gets whole."""
    path = f"{_SPEECH}?{urlencode({'voice': VOICE, 'response_format': 'pcm'})}"
    try:
        async with (
            asyncio.timeout(CALL_S),
            connection(endpoint, path, max_size=None, compression=None) as socket,
        ):
            start = time.perf_counter()
            await socket.send(json.dumps({"type": "text", "text": text}))
            await socket.send('{"type": "end"}')
            chunks: list[Chunk] = []
            async for message in socket:
                if isinstance(message, bytes):
                    chunks.append(Chunk(time.perf_counter() - start, message))
                    if found := first_sound(chunks):
                        return CallSample(total_ms=found.at_s * 1000)
                elif json.loads(message)["type"] == "error":
                    break
    except TimeoutError:
        return CallSample(f"no sound within {CALL_S:g} s")
    except (WebSocketException, OSError) as error:
        return CallSample(f"{type(error).__name__}: {error}")
    return CallSample("the speech has no sound")


async def turn(
    endpoint: Endpoint,
    question: Utterance,
    told: str,
    *,
    speculates: bool = True,
    sum_ms: float | None = None,
    after_s: float = 0.0,
) -> CallSample:
    """Ask one question in a call of its own and hear all of the answer."""
    try:
        async with calling(endpoint, CALL_S, session(PLAIN, told), speculates=speculates) as call:
            await asyncio.sleep(_LEAD_S + after_s)
            call.say(sound_of(question.pcm))
            ended_s = await call.said()
            words = await call.event(WORDS, within_s=CALL_S)
            if not words.payload["transcript"].strip():
                return CallSample("no words were recognised in the question")
            done = await call.event(TURN, within_s=CALL_S)
            return _measured(call, ended_s, done.payload, sum_ms)
    except ClientError as error:
        return CallSample(str(error))


def _measured(
    call: Call, ended_s: float, figures: Mapping[str, Any], sum_ms: float | None
) -> CallSample:
    chunks = call.sound_since(ended_s)
    heard = first_sound(chunks)
    if heard is None:
        return CallSample("the answer is silent")
    total_ms = heard.at_s * 1000
    stages = {f"{name}_ms": end - start for name, (start, end) in figures["stages"].items()}
    stages.pop("total_ms", None)
    return CallSample(
        text=str(call.of(WORDS)[-1].payload["transcript"]),
        total_ms=total_ms,
        added_ms=None if sum_ms is None else total_ms - sum_ms,
        early=int(figures["speculated"]),
        stalls=len(stalls(chunks)),
        **stages,
    )


async def paused(
    endpoint: Endpoint, question: Question, pause_s: float, detection: Mapping[str, Any]
) -> CallSample:
    """Ask a question with a pause in it; nothing is answered."""
    silent = {"create_response": False, **detection}
    try:
        async with calling(endpoint, CALL_S, session(silent, instructions())) as call:
            await asyncio.sleep(_LEAD_S)
            pause = bytes(2 * round(pause_s * RATE))
            call.say(sound_of(question.first.pcm) + pause + sound_of(question.rest.pcm))
            ended_s = await call.said()
            # An end before the last word is a false one; the true one comes after it.
            while True:
                stops = call.of(STOPPED)
                if stops and stops[-1].at_s > ended_s:
                    break
                await call.event(STOPPED, within_s=CALL_S, count=len(stops) + 1)
            texts = len(stops)
            await call.event(WORDS, within_s=CALL_S, count=texts)
            text = " ".join(one.payload["transcript"].strip() for one in call.of(WORDS))
            return CallSample(
                text=text,
                detected_ms=(stops[-1].at_s - ended_s) * 1000,
                false_ends=int(len(stops) > 1),
            )
    except ClientError as error:
        return CallSample(str(error))


async def interrupted(endpoint: Endpoint, question: Utterance, other: Utterance) -> CallSample:
    """Ask for a long answer, and speak into it."""
    told = {**session(PLAIN, instructions(_STORY)), "max_output_tokens": 8 * _TOKENS}
    try:
        async with calling(endpoint, CALL_S, told) as call:
            await asyncio.sleep(_LEAD_S)
            call.say(sound_of(question.pcm))
            ended_s = await call.said()
            while not (heard := first_sound(call.sound_since(ended_s))):
                await call.event(SOUND, within_s=CALL_S)
                if call.closed:
                    return CallSample(call.closed)
                await asyncio.sleep(_LEAD_S / 10)
            await asyncio.sleep(max(0.0, ended_s + heard.at_s + _INTO_S - time.perf_counter()))
            left_s = _left_s(call.sound_since(ended_s), time.perf_counter() - ended_s)
            if left_s < _INTO_S:
                return CallSample("the answer was too short to be interrupted")
            call.say(sound_of(other.pcm))
            began_s = time.perf_counter()
            started = await call.event(STARTED, within_s=CALL_S, count=2)
            return CallSample(stopped_ms=(started.at_s - began_s) * 1000)
    except ClientError as error:
        return CallSample(str(error))


def _left_s(chunks: list[Chunk], now_s: float) -> float:
    """Return how much of the sound a player that never waits has not played yet."""
    end_s = 0.0
    for at_s, pcm in chunks:
        end_s = max(end_s, at_s) + len(pcm) / 2 / RATE
    return end_s - now_s
