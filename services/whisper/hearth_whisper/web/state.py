"""Everything that the answers need, put together once."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from hearth_serving.application import AppState
from hearth_serving.errors import ServiceError
from hearth_serving.forms import UploadSpace
from hearth_whisper.recognising.work import Work
from hearth_whisper.web.metrics import ListenMetrics
from hearth_whisper.web.settings import Limits


@dataclass(slots=True, kw_only=True)
class ServerState(AppState):
    """What the server knows while it runs; `app.state.server` for whoever answers."""

    limits: Limits
    work: Work
    uploads: UploadSpace
    metrics: ListenMetrics = field(default_factory=ListenMetrics)
    started: float = field(default_factory=time.monotonic)
    live: int = 0
    """Talkers on the WebSocket now; who listens to them counts."""

    def ready(self) -> Work:
        """Return what recognises; raises ServiceError while it is still starting."""
        if not self.work.ready:
            raise ServiceError(
                self.work.failure or "the model is still loading; try again",
                status=503,
                code="starting",
                retry_after_s=2,
            )
        return self.work

    @contextmanager
    def place(self) -> Iterator[None]:
        """Hold a talker's place; raises ServiceError at once where none is free, or none yet."""
        self.ready()
        if self.live >= self.limits.live:
            message = f"{self.live} streams are open already; try again later"
            raise ServiceError(message, status=429, code="too_many_streams", retry_after_s=5)
        # Between the look and this nobody is waited for: others who came meanwhile would get in.
        self.live += 1
        try:
            yield
        finally:
            self.live -= 1
