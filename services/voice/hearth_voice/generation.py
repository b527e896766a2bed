"""One answer in the making: the model's words, and their sound, as they arrive.

It may start before it is known that it is wanted. Until somebody reads them, its events wait.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

from hearth_serving.errors import ServiceError, log_unexpected
from hearth_voice.chat_model import ChatModel, Question, ToolCall, Usage, Words
from hearth_voice.conversation import Piece
from hearth_voice.speech import SpeechServer, SpeechStream


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of an answer; `error` if it is not complete."""

    usage: Usage
    error: ServiceError | None = None


Event = Words | ToolCall | Piece | bytes | Ended


@dataclass(slots=True)
class Times:
    """When the steps of an answer happened, on the monotonic clock in seconds; 0 if not yet."""

    asked: float = 0.0
    first_token: float = 0.0
    first_text: float = 0.0
    """When the voice got its first text."""
    first_sound: float = 0.0


class Generation:
    """Asks the model and the voice at once; `cancel` ends the work of both."""

    def __init__(self, question: Question, model: ChatModel, voice: SpeechServer) -> None:
        """Start the work."""
        self.question, self.times = question, Times(asked=time.monotonic())
        self._model, self._voice = model, voice
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._usage = Usage()
        self._task = asyncio.create_task(self._run())

    def cancel(self) -> None:
        """Stop the work; no event follows."""
        self._task.cancel()

    async def close(self) -> None:
        """Stop the work and wait until it has ended."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def events(self) -> AsyncIterator[Event]:
        """Yield the events; the last one is `Ended`."""
        while True:
            event = await self._events.get()
            yield event
            if isinstance(event, Ended):
                return

    async def _run(self) -> None:
        error: ServiceError | None = None
        try:
            if self.question.voice:
                await self._speak()
            else:
                async for words in self._words():
                    self._events.put_nowait(words)
        except ServiceError as caught:
            error = caught
        except Exception as caught:
            error = log_unexpected(caught)
        self._events.put_nowait(Ended(self._usage, error))

    async def _words(self) -> AsyncIterator[Words]:
        """Yield the model's words; calls become events."""
        async for part in self._model.answer(self.question):
            if isinstance(part, Words):
                self.times.first_token = self.times.first_token or time.monotonic()
                yield part
            elif isinstance(part, ToolCall):
                self.times.first_token = self.times.first_token or time.monotonic()
                self._events.put_nowait(part)
            else:
                self._usage = part

    async def _speak(self) -> None:
        """Speak the words as they arrive."""
        async with self._voice.speech(self.question.voice, self.question.speed) as speech:
            listening = asyncio.create_task(self._listen(speech))
            try:
                async for words in self._words():
                    if not self.times.first_text and words.text.strip():
                        self.times.first_text = time.monotonic()
                    await speech.write(words.text)
                if self.times.first_text:
                    await speech.end()
                    await listening
            finally:
                listening.cancel()
                # Without a reader its error must not be reported as lost.
                await asyncio.gather(listening, return_exceptions=True)

    async def _listen(self, speech: SpeechStream) -> None:
        async for part in speech.pieces():
            if isinstance(part, bytes) and not self.times.first_sound:
                self.times.first_sound = time.monotonic()
            self._events.put_nowait(part)
