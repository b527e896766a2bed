"""Everything that the answers need, put together once."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from hearth_kokoro.engines import Engine
from hearth_kokoro.speaking.speaker import Speaker
from hearth_kokoro.voices import Voices
from hearth_kokoro.web.metrics import SpeechMetrics
from hearth_kokoro.web.settings import Limits
from hearth_serving.application import AppState
from hearth_serving.errors import ServiceError


@dataclass(frozen=True, slots=True)
class Loaded:
    """What there is once the model is warm."""

    speaker: Speaker
    voices: Voices
    engine: Engine
    reason: str
    """Why this engine, this model and this many threads."""
    languages: Mapping[str, str]
    """Language -> what reads it, or why it cannot be read."""


@dataclass(slots=True)
class ServerState(AppState):
    """What the server knows while it runs; `loaded` is None until it may speak."""

    limits: Limits
    metrics: SpeechMetrics = field(default_factory=SpeechMetrics)
    started: float = field(default_factory=time.monotonic)
    loaded: Loaded | None = None
    live: int = 0

    def ready(self) -> Loaded:
        """Return what speaks; raises ServiceError while it is still starting."""
        if self.loaded is None:
            raise ServiceError(
                "the model is still loading; try again",
                status=503,
                code="starting",
                retry_after_s=2,
            )
        return self.loaded
