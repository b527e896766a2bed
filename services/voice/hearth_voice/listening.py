"""The talker's turns: from the recogniser's events to items of the conversation and answers."""

import asyncio
import re
import time
from dataclasses import dataclass, field
from typing import Any

from hearth_serving.errors import ServiceError
from hearth_voice.answering import Answering
from hearth_voice.barge_in import BargeIn
from hearth_voice.conversation import Item, new_id
from hearth_voice.session import Session
from hearth_voice.settings import SAMPLE_RATE, ResponseSettings, SemanticVad
from hearth_voice.transcriber import Options, Transcriber
from hearth_voice.turns import TurnTimes

_BEFORE = SAMPLE_RATE // 10
"""Samples before the detected start that may already be speech."""
_PAUSE_S = 0.2
_SURE_CHARACTERS = 12
"""The language of a shorter text, such as "Okay.", is often taken for another one."""
# A sentence that ends like this goes on.
_GOES_ON = re.compile(
    r"(\.\.\.|…|[,;:-])$|\b(and|or|but|so|because|if|that|the|a|an|of|to|in|with|for|um|uh|er|"
    r"und|oder|aber|weil|dass|der|die|das|ein|eine|mit|äh|y|o|pero|porque|que|el|la|un|una|et|ou|"
    r"mais|parce|le|les|une|euh)[.]?$",
    re.IGNORECASE,
)
_ENDS = re.compile(r"[.!?\u3002\uff01\uff1f]['\"»”)]?$")


@dataclass(slots=True, eq=False)
class Turn:
    """What the talker says until they stop."""

    item: Item
    start: int
    """The sample of the call at which it starts."""
    utterance: int
    """The last of its utterances, if it is a long one that the recogniser has cut."""
    is_confirmed: bool = False
    """Whether it is speech for the house, and the client knows of it."""
    end: int | None = None
    texts: list[str] = field(default_factory=list)
    language: str = ""
    times: TurnTimes = field(default_factory=TurnTimes)


class Listening:
    """The microphone, the recogniser and the turns of one call."""

    def __init__(self, session: Session, answering: Answering) -> None:
        self._session, self._answering = session, answering
        self._transcriber = Transcriber(
            session.config.whisper, self._event, self._lost, self._closed
        )
        self._barge_in = BargeIn()
        self._turn: Turn | None = None
        self._ended: dict[int, Turn] = {}
        """Turns without a text yet, by their last utterance."""
        self._committing: Turn | None = None
        """A turn that the client has ended, and the texts that belong to it."""
        self._manual: list[str] = []
        self._paused_at = 0.0
        self._ending: asyncio.Task[None] | None = None
        """Ends a turn that sounds complete, unless its speaker goes on."""
        self._options: Options | None = None
        self._reports = True
        self._uncommitted = 0
        """Samples since the last commit."""

    async def hear(self, sound: bytes) -> None:
        """Take sound of the microphone."""
        self._uncommitted += len(sound) // 2
        heard = self._session.microphone.hear(sound)
        if not heard:
            return
        position = self._session.recent.end
        self._session.recent.add(heard)
        turn = self._turn
        is_talker = bool(turn and turn.is_confirmed and not self._answering.is_audible)
        self._barge_in.add(heard, is_talker=is_talker)
        await self._transcriber.hear(heard, position, self._current_options())
        if turn and turn is self._turn and not turn.is_confirmed and self._is_speech(turn):
            await self._confirm(turn)

    async def commit(self) -> None:
        """End the turn now; raises ServiceError where nothing was heard."""
        if self._session.turn_detection is None:
            if self._uncommitted < SAMPLE_RATE // 10:
                message = "the buffer has less than 100 ms of sound; append some before a commit"
                raise ServiceError(message, code="input_audio_buffer_commit_empty")
            self._committing = Turn(self._user_item(), self._session.recent.end, 0, True)
            await self._committed(self._committing)
        self._uncommitted = 0
        await self._transcriber.flush()

    async def clear(self) -> None:
        """Forget what was heard and not committed."""
        self._turn, self._committing, self._uncommitted, self._manual = None, None, 0, []
        self._answering.drop_speculation()
        self._answering.resume()
        await self._transcriber.close()
        await self._session.send("input_audio_buffer.cleared")

    async def close(self) -> None:
        """End the recognition."""
        self._go_on()
        await self._transcriber.close()

    async def changed(self) -> None:
        """Apply other settings: at once where nobody speaks, else with the next turn."""
        if self._turn is None and not self._ended and self._options != self._wanted():
            await self._transcriber.close()

    def _wanted(self) -> Options:
        transcription = self._session.settings.audio.input.transcription
        language = transcription.language if transcription else None
        prompt = (transcription.prompt if transcription else None) or ""
        return Options(self._session.silence_ms, language, prompt)

    def _current_options(self) -> Options:
        if not self._transcriber.is_open or self._options is None:
            self._options = self._wanted()
        return self._options

    def _user_item(self) -> Item:
        return Item(new_id("item"), "message", "user", part="input_audio")

    async def _event(self, event: dict[str, Any]) -> None:
        """Handle an event of the recogniser."""
        self._reports = True
        utterance = event.get("utterance", 0)
        match event["type"]:
            case "speech_started":
                await self._started(utterance, self._sample(event["at_s"]), event)
            case "early" if self._turn and self._turn.utterance == utterance:
                await self._early(self._turn, event)
            case "paused":
                self._paused_at = time.monotonic()
            case "resumed":
                self._go_on()
            case "speech_ended" if self._turn and self._turn.utterance == utterance:
                await self._stopped(self._turn, event)
            case "error" if not utterance:
                found = event["error"]
                error = ServiceError(str(found.get("message")), code=found.get("code"))
                await self._session.send_error(error)
            case "final" | "error":
                await self._final(utterance, event)
            case "flushed":
                await self._flushed()

    def _sample(self, at_s: float) -> int:
        return self._transcriber.start + round(at_s * SAMPLE_RATE)

    async def _started(self, utterance: int, start: int, event: dict[str, Any]) -> None:
        if self._session.turn_detection is None:
            return
        if event.get("cut") and self._turn:
            self._turn.utterance = utterance
            return
        self._go_on()
        turn = self._turn = Turn(self._user_item(), start, utterance)
        if not self._answering.is_audible or self._is_speech(turn):
            await self._confirm(turn)

    def _is_speech(self, turn: Turn) -> bool:
        return self._barge_in.is_speech(turn.start - _BEFORE)

    async def _confirm(self, turn: Turn) -> None:
        """Tell the client that the talker speaks, and be silent."""
        turn.is_confirmed = True
        ms = _ms(turn.start)
        await self._session.send(
            "input_audio_buffer.speech_started", audio_start_ms=ms, item_id=turn.item.id
        )
        if self._session.interrupts:
            await self._answering.interrupt()
        else:
            self._answering.pause()

    async def _early(self, turn: Turn, event: dict[str, Any]) -> None:
        """Use a text that may not be the last one."""
        if not turn.is_confirmed:
            return
        text = _joined([*turn.texts, event["text"]])
        if not text:
            return
        self._take_language(text, event.get("language"))
        question = Item(turn.item.id, "message", "user", text, part="input_audio")
        self._answering.speculate(question)
        detection = self._session.turn_detection
        if isinstance(detection, SemanticVad) and is_complete(text):
            # The recogniser reports a pause after a part of the silence.
            passed_s = time.monotonic() - self._paused_at + _PAUSE_S
            left_s = max(0.0, detection.shortest_silence_ms / 1000 - passed_s)
            self._ending = asyncio.create_task(self._end_soon(left_s))

    def _take_language(self, text: str, language: str | None) -> None:
        """Note the language, unless the text is too short to be sure of it."""
        if language and (len(text) >= _SURE_CHARACTERS or not self._session.language):
            self._session.language = language

    async def _end_soon(self, after_s: float) -> None:
        await asyncio.sleep(after_s)
        await self._transcriber.flush(in_pause=True)

    def _go_on(self) -> None:
        """Drop what was begun because the speaker paused."""
        if self._ending:
            self._ending.cancel()
        self._answering.drop_speculation()

    async def _stopped(self, turn: Turn, event: dict[str, Any]) -> None:
        if event.get("cut"):
            return
        self._turn, turn.end = None, self._sample(event["at_s"])
        turn.times.speech_end = self._session.recent.arrived_at(turn.end)
        turn.times.ended = time.monotonic()
        if not turn.is_confirmed:
            self._session.figures.noises.inc()
            return
        self._ended[turn.utterance] = turn
        await self._session.send(
            "input_audio_buffer.speech_stopped", audio_end_ms=_ms(turn.end), item_id=turn.item.id
        )
        await self._committed(turn)

    async def _committed(self, turn: Turn) -> None:
        self._uncommitted = 0
        item = turn.item
        before = self._session.conversation.add(item)
        place = {"previous_item_id": before}
        await self._session.send("input_audio_buffer.committed", item_id=item.id, **place)
        await self._session.send("conversation.item.added", item=item.as_event(), **place)
        await self._session.send("conversation.item.done", item=item.as_event(), **place)

    async def _final(self, utterance: int, event: dict[str, Any]) -> None:
        """Take the text of an utterance, or the reason why there is none."""
        turn = self._ended.pop(utterance, None)
        if event["type"] == "error":
            error = event["error"]
            if turn:
                await self._failed(turn, str(error.get("message")), error.get("code"))
            return
        if self._session.turn_detection is None:
            self._manual.append(event["text"])
            return
        open_turn = turn or self._turn
        if open_turn is None or not open_turn.is_confirmed:
            return
        open_turn.texts.append(event["text"])
        if turn:
            turn.language = event.get("language") or ""
            await self._complete(turn, event)

    async def _flushed(self) -> None:
        """End a turn that the client ends: all texts since the last one are it."""
        turn, self._committing = self._committing, None
        if turn:
            turn.texts, self._manual = self._manual, []
            await self._complete(turn, {})

    async def _complete(self, turn: Turn, event: dict[str, Any]) -> None:
        """Answer a turn with its text."""
        turn.times.final = time.monotonic()
        self._resume()
        session, item = self._session, turn.item
        item.text = _joined(turn.texts)
        self._take_language(item.text, turn.language)
        if session.settings.audio.input.transcription:
            seconds = max(0.0, event.get("end_s", 0.0) - event.get("start_s", 0.0))
            await session.send(
                "conversation.item.input_audio_transcription.completed",
                item_id=item.id,
                content_index=0,
                transcript=item.text,
                usage={"type": "duration", "seconds": round(seconds, 2)},
            )
        self._answering.last_turn = turn.times
        if item.text and session.creates and not self._answering.is_active:
            await self._answering.respond(ResponseSettings(), is_asked=False)
        await self.changed()

    def _resume(self) -> None:
        if not (self._turn and self._turn.is_confirmed):
            self._answering.resume()

    async def _failed(self, turn: Turn, message: str, code: str | None) -> None:
        self._resume()
        await self._session.send(
            "conversation.item.input_audio_transcription.failed",
            item_id=turn.item.id,
            content_index=0,
            error={"type": "server_error", "code": code, "message": message, "param": None},
        )

    async def _lost(self, error: ServiceError) -> None:
        """End what was being said; sound that comes is recognised as soon as it can be."""
        turns = [*self._ended.values(), self._turn, self._committing]
        self._turn, self._committing, self._ended, self._manual = None, None, {}, []
        self._answering.drop_speculation()
        for turn in filter(None, turns):
            if turn.is_confirmed:
                await self._failed(turn, str(error), error.code)

    async def _closed(self, error: ServiceError) -> None:
        """Report once that no stream can be opened."""
        if self._reports:
            self._reports = False
            await self._session.send_error(error)


def is_complete(text: str) -> bool:
    """Return whether a text reads as if its speaker were done."""
    return bool(_ENDS.search(text)) and not _GOES_ON.search(text.rstrip("?!"))


def _joined(texts: list[str]) -> str:
    return " ".join(filter(None, (text.strip() for text in texts)))


def _ms(sample: int) -> int:
    return sample * 1000 // SAMPLE_RATE
