"""The state of the running server."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hearth_kokoro.engines import Engine
from hearth_kokoro.jobs.runner import JobRunner
from hearth_kokoro.synthesis.synthesizer import Synthesizer
from hearth_kokoro.voices import Voices
from hearth_kokoro.web.limits import Limits
from hearth_kokoro.web.metrics import SpeechMetrics
from hearth_serving.application import AppState
from hearth_serving.errors import ServiceError


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """The loaded and warmed-up model, with its voices."""

    synthesizer: Synthesizer
    voices: Voices
    engine: Engine
    reason: str
    """Why this engine, this model and this number of threads were selected."""
    languages: Mapping[str, str]
    """Language -> the program that phonemizes it, or why it is not supported."""


@dataclass(slots=True)
class ServerState(AppState):
    """The server's state; `loaded` is None while the model loads, `live` counts open streams."""

    limits: Limits
    metrics: SpeechMetrics = field(default_factory=SpeechMetrics)
    started: float = field(default_factory=time.monotonic)
    loaded: LoadedModel | None = None
    live: int = 0
    state_folder: Path | None = None
    """Where jobs are kept; None: there are none."""
    jobs: JobRunner | None = None

    def ready(self) -> LoadedModel:
        """Return the loaded model; raises ServiceError 503 while it loads."""
        if self.loaded is None:
            raise ServiceError(
                "the model is still loading; try again",
                status=503,
                code="starting",
                retry_after_s=2,
            )
        return self.loaded
