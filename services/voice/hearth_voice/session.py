"""What the parts of one call share: its settings, its conversation, and the way to its client."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from hearth_serving.errors import ServiceError, error_body
from hearth_voice.chat_model import ChatModel
from hearth_voice.config import Config
from hearth_voice.conversation import Conversation, new_id
from hearth_voice.microphone import Microphone, Recent
from hearth_voice.settings import ServerVad, Settings
from hearth_voice.speech import SpeechServer
from hearth_voice.turns import Figures

Send = Callable[[dict[str, Any]], Awaitable[None]]
_KEPT_S = 10.0
# The first letter of a voice's name is its language; other names are OpenAI's.
_LANGUAGES = {
    **{"a": "en", "b": "en", "e": "es", "f": "fr", "h": "hi", "i": "it"},
    **{"j": "ja", "p": "pt", "z": "zh"},
}


@dataclass(slots=True, eq=False)
class Session:
    """One call."""

    config: Config
    model: ChatModel
    speech: SpeechServer
    figures: Figures
    write: Send
    """Sends one event to the client."""
    alias: str
    """The alias that answers."""
    settings: Settings = field(default_factory=Settings)
    wants_figures: bool = False
    speculates: bool = True
    """Whether an answer may start on an early text; without it, a benchmark measures the rest."""
    id: str = field(default_factory=lambda: new_id("sess"))
    conversation_id: str = field(default_factory=lambda: new_id("conv"))
    conversation: Conversation = field(default_factory=Conversation)
    microphone: Microphone = field(default_factory=Microphone)
    recent: Recent = field(default_factory=lambda: Recent(_KEPT_S))
    language: str = ""
    """The language of the last turn, by its code."""

    async def send(self, kind: str, **fields: Any) -> None:
        """Send an event."""
        await self.write({"type": kind, "event_id": new_id("event"), **fields})

    async def send_error(self, error: ServiceError, event_id: str | None = None) -> None:
        """Send an error; `event_id` is the client's event that caused it."""
        body = error_body(error)["error"]
        await self.send("error", error={**body, "event_id": event_id})

    @property
    def turn_detection(self) -> Any:
        """How turns end, None if the client ends them."""
        return self.settings.audio.input.turn_detection

    @property
    def interrupts(self) -> bool:
        """Whether speech of the talker ends an answer."""
        return bool(self.turn_detection and self.turn_detection.interrupt_response)

    @property
    def creates(self) -> bool:
        """Whether a turn of the talker gets an answer by itself."""
        return bool(self.turn_detection and self.turn_detection.create_response)

    @property
    def is_driven(self) -> bool:
        """Whether the client itself asks for each answer, and interrupts it."""
        return bool(self.turn_detection and not self.creates and not self.interrupts)

    @property
    def silence_ms(self) -> int:
        """The silence that ends an utterance."""
        if isinstance(self.turn_detection, ServerVad):
            return self.turn_detection.silence_duration_ms
        return self.turn_detection.longest_silence_ms if self.turn_detection else 5000

    def voice(self, chosen: str | None = None) -> str:
        """Return the voice: the chosen one, or that of the talker's language if it differs."""
        name = chosen or self.settings.audio.output.voice or self.config.default_voice
        other = self.config.voices.get(self.language)
        return other if other and language_of(name) != self.language else name

    def described(self) -> dict[str, Any]:
        """Return the protocol's form of the settings."""
        settings = self.settings.model_dump(mode="json")
        settings["audio"]["output"]["voice"] = (
            self.settings.audio.output.voice or self.config.default_voice
        )
        settings["instructions"] = self.settings.instructions or self.config.instructions
        return {"id": self.id, "object": "realtime.session", **settings}


def language_of(voice: str) -> str:
    """Return the code of the language that a voice speaks."""
    return _LANGUAGES.get(voice[:1], "en") if voice[2:3] == "_" else "en"
