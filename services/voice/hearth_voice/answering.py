"""The answers of a call: started, perhaps early, spoken as they arrive, and interrupted."""

import asyncio
import base64
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hearth_serving.errors import ServiceError, log_unexpected
from hearth_voice.chat_model import Question, ToolCall, Usage, Words
from hearth_voice.conversation import Item, Piece, messages, new_id, read_item
from hearth_voice.generation import Ended, Generation
from hearth_voice.session import Session
from hearth_voice.settings import SAMPLE_RATE, ResponseSettings, ToolChoice
from hearth_voice.turns import TurnTimes

_CHUNK = SAMPLE_RATE
"""Bytes of sound in one event: half a second."""
_BYTES_PER_S = 2 * SAMPLE_RATE
_MAX_ASIDE = 2
"""Responses outside the conversation at once."""
_AHEAD_S = 1.0
"""A client that interrupts by itself gets the next clause when so much sound is left to play."""
_LOOK_S = 0.05


@dataclass(slots=True, eq=False)
class Playing:
    """What the client plays by our estimate: it plays at once, and what it gets later after it."""

    item: Item
    end_s: float
    """When the sound that it has will be over."""
    sent: int = 0
    """Bytes of the item's sound that were sent."""
    paused_s: float | None = None
    """Since when the client pauses, because the talker may interrupt."""

    def add(self, size: int, now: float) -> None:
        """Add so many bytes of sound; after a gap, playing starts again with them."""
        self.sent += size
        self.end_s = max(self.end_s, self._at(now)) + size / _BYTES_PER_S

    def left_s(self, now: float) -> float:
        """Return how much sound is not played yet."""
        return max(0.0, self.end_s - self._at(now))

    def heard_ms(self, now: float) -> int:
        """Return how much of the item's sound was heard."""
        return max(0, round(1000 * (self.sent / _BYTES_PER_S - self.left_s(now))))

    def resume(self, now: float) -> None:
        """Play on after a pause."""
        if self.paused_s is not None:
            self.end_s += now - self.paused_s
            self.paused_s = None

    def _at(self, now: float) -> float:
        return now if self.paused_s is None else self.paused_s


@dataclass(slots=True, eq=False)
class Response:
    """One response of the protocol."""

    id: str
    settings: ResponseSettings
    modality: str
    voice: str
    generation: Generation
    times: TurnTimes
    output: list[Item] = field(default_factory=list)
    message: Item | None = None
    task: asyncio.Task[None] | None = None


class Answering:
    """Responses, one at a time in the conversation; `aside` are those outside of it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._current: Response | None = None
        self._aside: dict[str, Response] = {}
        self._speculation: Generation | None = None
        self._playing: Playing | None = None
        self._expected = ResponseSettings()
        """What the client's last request for an answer was, without its metadata."""
        self._expects = False
        self.last_turn: TurnTimes | None = None
        """The turn that the next answer belongs to."""

    @property
    def is_active(self) -> bool:
        """Whether an answer is being made."""
        return self._current is not None

    @property
    def is_audible(self) -> bool:
        """Whether the client plays an answer now, by our estimate."""
        playing = self._playing
        return bool(playing and playing.paused_s is None and playing.left_s(time.monotonic()))

    async def respond(self, settings: ResponseSettings, *, is_asked: bool) -> None:
        """Answer, because the client has asked or by itself; raises ServiceError."""
        in_conversation = settings.conversation == "auto"
        if in_conversation and self._current:
            message = "an answer is being made; cancel it, or wait until it is done"
            code = "conversation_already_has_active_response"
            raise ServiceError(message, code=code)
        if not in_conversation and len(self._aside) >= _MAX_ASIDE:
            message = f"at most {_MAX_ASIDE} responses outside the conversation at once"
            raise ServiceError(message, code="too_many_responses")
        items = self._input(settings)
        question = self._question(settings, items)
        is_early = bool(self._speculation and self._speculation.question == question)
        generation = self._generation(question)
        if in_conversation and is_asked:
            self._expected, self._expects = settings.model_copy(update={"metadata": None}), True
        times, self.last_turn = (
            (self.last_turn, None) if in_conversation else (None, self.last_turn)
        )
        response = Response(
            new_id("resp"),
            settings,
            self._modality(settings),
            question.voice,
            generation,
            times or TurnTimes(),
        )
        response.times.speculated = is_early
        if in_conversation:
            self._current = response
        else:
            self._aside[response.id] = response
        await self._session.send(
            "response.created", response=self._described(response, "in_progress")
        )
        response.task = asyncio.create_task(self._play(response))

    def speculate(self, item: Item) -> None:
        """Start the answer to a question that may not be over."""
        self.drop_speculation()
        wanted = self._session.creates or self._expects
        if self._current or not (wanted and self._session.speculates):
            return
        settings = ResponseSettings() if self._session.creates else self._expected
        if settings.input is not None:
            return
        items = [*self._session.conversation.items(), item]
        question = self._question(settings, items)
        self._speculation = self._generate(question)

    def drop_speculation(self) -> None:
        """End the work on an answer that is not wanted."""
        speculation, self._speculation = self._speculation, None
        if speculation:
            speculation.cancel()
            self._session.figures.speculations.labels("dropped").inc()

    async def cancel(self, response_id: str | None) -> None:
        """Cancel a response; raises ServiceError where there is none."""
        aside = self._aside.get(response_id or "")
        if aside:
            await self._stop(aside, "client_cancelled")
        elif self._current and response_id in (None, self._current.id):
            if self._session.is_driven:
                self._note_heard()
            await self._stop(self._current, "client_cancelled")
        else:
            message = "there is no active response to cancel"
            raise ServiceError(message, code="response_cancel_not_active")

    async def interrupt(self) -> None:
        """End the answer, because the talker speaks; its history ends with what was heard."""
        self._note_heard()
        for response in [self._current, *self._aside.values()]:
            if response:
                await self._stop(response, "turn_detected")

    def pause(self) -> None:
        """Note that the client is silent until it is known what the talker says."""
        if self._session.is_driven and self.is_audible and self._playing:
            self._playing.paused_s = time.monotonic()
            self._session.microphone.is_paused = True

    def resume(self) -> None:
        """Note that the client plays on."""
        self._session.microphone.is_paused = False
        if self._playing:
            self._playing.resume(time.monotonic())

    def truncate(self, item: Item, audio_end_ms: int) -> None:
        """Note how much of an item was heard; raises ServiceError for more than there is."""
        if item.role != "assistant" or item.part != "output_audio":
            message = "only speech of the assistant can be truncated"
            raise ServiceError(message, param="item_id", code="invalid_value")
        if audio_end_ms > item.audio_ms:
            message = f"audio_end_ms {audio_end_ms} is after the end of {item.audio_ms} ms"
            raise ServiceError(message, param="audio_end_ms", code="invalid_value")
        item.heard_ms = audio_end_ms
        if self._playing and self._playing.item is item:
            self._silence()

    async def close(self) -> None:
        """End all work."""
        self.drop_speculation()
        responses = [self._current, *self._aside.values()]
        for response in filter(None, responses):
            if response.task:
                response.task.cancel()
                await asyncio.gather(response.task, return_exceptions=True)
            await response.generation.close()

    def _note_heard(self) -> None:
        """Note how much of an answer was heard that is not played on."""
        playing, now = self._playing, time.monotonic()
        if playing and playing.left_s(now):
            playing.item.heard_ms = playing.heard_ms(now)
            self._session.figures.interruptions.inc()
        self._silence()

    def _silence(self) -> None:
        self._session.microphone.stops()
        if self._playing:
            self._playing.end_s, self._playing.paused_s = 0.0, None

    async def _played_until(self, left_s: float) -> None:
        """Wait until the client has no more than so much sound left to play, if it is driven.

        Such a client saves the words that it has when a response ends or is cancelled, so it must
        not have those that nobody has heard yet.
        """
        while self._session.is_driven and self._playing:
            if self._playing.left_s(time.monotonic()) <= left_s:
                return
            await asyncio.sleep(_LOOK_S)

    def _generate(self, question: Question) -> Generation:
        return Generation(question, self._session.model, self._session.speech)

    def _generation(self, question: Question) -> Generation:
        """Return the answer that was started early, if it is the one that is wanted."""
        speculation = self._speculation
        if speculation and speculation.question == question:
            self._speculation = None
            self._session.figures.speculations.labels("used").inc()
            return speculation
        self.drop_speculation()
        return self._generate(question)

    def _modality(self, settings: ResponseSettings) -> str:
        return (settings.output_modalities or self._session.settings.output_modalities)[0]

    def _input(self, settings: ResponseSettings) -> list[Item]:
        """Return the items that the model reads."""
        if settings.input is None:
            return self._session.conversation.items()
        return [self._given(one, index) for index, one in enumerate(settings.input)]

    def _given(self, one: Any, index: int) -> Item:
        if isinstance(one, dict) and one.get("type") == "item_reference":
            return self._session.conversation.get(str(one.get("id")))
        return read_item(one, f"response.input.{index}")

    def _question(self, settings: ResponseSettings, items: Sequence[Item]) -> Question:
        session = self._session
        own = session.settings
        instructions = settings.instructions or own.instructions or session.config.instructions
        history = messages(instructions, items)
        if len(history) == 1:
            # Many models answer nothing where no one has asked.
            history = [{"role": "user", "content": instructions}]
        body: dict[str, Any] = {
            "model": session.alias,
            "messages": history,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        tools = own.tools if settings.tools is None else settings.tools
        choice = settings.tool_choice or own.tool_choice
        if tools and choice != "none":
            body["tools"] = [
                {"type": "function", "function": tool.model_dump(exclude={"type"})}
                for tool in tools
            ]
            named = {"type": "function", "function": {"name": getattr(choice, "name", "")}}
            body["tool_choice"] = named if isinstance(choice, ToolChoice) else choice
        limit = settings.max_output_tokens or own.max_output_tokens
        if limit != "inf":
            body["max_tokens"] = limit
        is_spoken = self._modality(settings) == "audio"
        voice = session.voice(settings.audio.output.voice) if is_spoken else ""
        return Question(json.dumps(body), voice, own.audio.output.speed)

    async def _play(self, response: Response) -> None:
        """Send an answer as it arrives."""
        try:
            async for event in response.generation.events():
                if isinstance(event, Piece):
                    await self._piece(response, event)
                elif isinstance(event, bytes):
                    await self._sound(response, event)
                elif isinstance(event, Words):
                    await self._words(response, event)
                elif isinstance(event, ToolCall):
                    await self._call(response, event)
                else:
                    await self._end(response, event)
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception as error:
            await self._end(response, Ended(Usage(), log_unexpected(error)))

    async def _stop(self, response: Response, reason: str) -> None:
        response.generation.cancel()
        if response.task:
            response.task.cancel()
            await asyncio.gather(response.task, return_exceptions=True)
        if self._current is response or response.id in self._aside:
            await self._finish(response, "cancelled", {"type": "cancelled", "reason": reason})

    async def _piece(self, response: Response, piece: Piece) -> None:
        await self._played_until(_AHEAD_S)
        item = response.message or await self._start(response, "output_audio")
        item.pieces.append(piece)
        item.text += piece.text
        await self._send(response, item, "response.output_audio_transcript.delta", delta=piece.text)

    async def _sound(self, response: Response, sound: bytes) -> None:
        item = response.message or await self._start(response, "output_audio")
        for at in range(0, len(sound), _CHUNK):
            part = sound[at : at + _CHUNK]
            now = time.monotonic()
            if self._playing is None or self._playing.item is not item:
                # Played after what the client still has.
                end_s = self._playing.end_s if self._playing else 0.0
                self._playing = Playing(item, end_s)
            self._playing.add(len(part), now)
            self._session.microphone.plays(part)
            delta = base64.b64encode(part).decode()
            await self._send(response, item, "response.output_audio.delta", delta=delta)
            response.times.sent = response.times.sent or time.monotonic()

    async def _words(self, response: Response, words: Words) -> None:
        item = response.message or await self._start(response, "output_text")
        item.text += words.text
        await self._send(response, item, "response.output_text.delta", delta=words.text)

    async def _start(self, response: Response, part: str) -> Item:
        item = Item(new_id("item"), "message", "assistant", part=part, status="in_progress")
        response.message = item
        await self._add(response, item)
        empty = {"type": part.removeprefix("output_")}
        empty["text" if part == "output_text" else "transcript"] = ""
        await self._send(response, item, "response.content_part.added", part=empty)
        return item

    async def _add(self, response: Response, item: Item) -> None:
        response.output.append(item)
        index = len(response.output) - 1
        await self._session.send(
            "response.output_item.added",
            response_id=response.id,
            output_index=index,
            item=item.as_event(),
        )
        if response.settings.conversation == "auto":
            before = self._session.conversation.add(item)
            added = {"previous_item_id": before, "item": item.as_event()}
            await self._session.send("conversation.item.added", **added)

    async def _call(self, response: Response, call: ToolCall) -> None:
        item = Item(
            new_id("item"),
            "function_call",
            call_id=new_id("call"),
            name=call.name,
            status="in_progress",
        )
        await self._add(response, item)
        item.arguments, item.status = call.arguments, "completed"
        place = {
            "response_id": response.id,
            "item_id": item.id,
            "output_index": response.output.index(item),
            "call_id": item.call_id,
        }
        kind = "response.function_call_arguments"
        await self._session.send(f"{kind}.delta", **place, delta=item.arguments)
        await self._session.send(f"{kind}.done", **place, name=item.name, arguments=item.arguments)
        await self._done(response, item)

    async def _end(self, response: Response, ended: Ended) -> None:
        if not ended.error:
            await self._played_until(0.0)
        if ended.error:
            error = {"type": "server_error", "code": ended.error.code, "message": str(ended.error)}
            await self._finish(response, "failed", {"type": "failed", "error": error}, ended.usage)
        elif ended.usage.finish == "length":
            details = {"type": "incomplete", "reason": "max_output_tokens"}
            await self._finish(response, "incomplete", details, ended.usage)
        else:
            await self._finish(response, "completed", None, ended.usage)

    async def _finish(
        self,
        response: Response,
        status: str,
        details: dict[str, Any] | None,
        usage: Usage | None = None,
    ) -> None:
        """Send the last events of a response."""
        if self._current is response:
            self._current = None
        self._aside.pop(response.id, None)
        if item := response.message:
            item.status = "completed" if status == "completed" else "incomplete"
            if item.part == "output_audio":
                await self._send(response, item, "response.output_audio.done")
                kind = "response.output_audio_transcript.done"
                await self._send(response, item, kind, transcript=item.heard_text)
            else:
                await self._send(response, item, "response.output_text.done", text=item.text)
            part = {"type": item.part.removeprefix("output_")}
            part["text" if item.part == "output_text" else "transcript"] = item.heard_text
            await self._send(response, item, "response.content_part.done", part=part)
            await self._done(response, item)
        described = self._described(response, status, details, usage)
        await self._session.send("response.done", response=described)
        if response.times.speech_end and response.times.sent:
            # Also of an answer that was interrupted.
            times, its = response.times, response.generation.times
            times.asked, times.first_token = its.asked, its.first_token
            times.first_text, times.first_sound = its.first_text, its.first_sound
            figures = self._session.figures.turn(response.times)
            if self._session.wants_figures:
                await self._session.send("hearth.turn", **figures)

    async def _done(self, response: Response, item: Item) -> None:
        index = response.output.index(item)
        place = {"response_id": response.id, "output_index": index, "item": item.as_event()}
        await self._session.send("response.output_item.done", **place)
        if response.settings.conversation == "auto":
            await self._session.send("conversation.item.done", item=item.as_event())

    async def _send(self, response: Response, item: Item, kind: str, **fields: Any) -> None:
        await self._session.send(
            kind,
            response_id=response.id,
            item_id=item.id,
            output_index=response.output.index(item),
            content_index=0,
            **fields,
        )

    def _described(
        self,
        response: Response,
        status: str,
        details: dict[str, Any] | None = None,
        usage: Usage | None = None,
    ) -> dict[str, Any]:
        is_aside = response.settings.conversation == "none"
        output = {"format": {"type": "audio/pcm", "rate": SAMPLE_RATE}, "voice": response.voice}
        used = usage and {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "total_tokens": usage.input_tokens + usage.output_tokens,
        }
        return {
            "object": "realtime.response",
            "id": response.id,
            "status": status,
            "status_details": details,
            "output": [item.as_event() for item in response.output],
            "conversation_id": None if is_aside else self._session.conversation_id,
            "output_modalities": [response.modality],
            "max_output_tokens": response.settings.max_output_tokens or "inf",
            "audio": {"output": output} if response.voice else None,
            "usage": used,
            "metadata": response.settings.metadata,
        }
