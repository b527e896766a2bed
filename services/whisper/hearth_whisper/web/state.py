"""The server's shared state: the scheduler, the open streams and uploads, and the metrics."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from prometheus_client import Counter, Histogram

from hearth_serving.application import AppState
from hearth_serving.errors import ServiceError
from hearth_serving.forms import UploadSpace
from hearth_serving.metrics import Metrics, recent, summary
from hearth_whisper.limits import Limits
from hearth_whisper.recognition.scheduler import Scheduler

_LATENCY_S = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7, 1, 1.5, 2.5, 5, 10, 30)
_FILE_S = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200)


class WhisperMetrics(Metrics):
    """The metrics of transcription beside those of requests; never a text or a client."""

    def __init__(self) -> None:
        """Create every series, so that a counter that is 0 is there as well."""
        super().__init__("whisper", "Files, live streams and satellite recordings by outcome.")
        self._latency_ms, self._file_s = recent(), recent()
        self._latency = Histogram(
            "whisper_final_latency_seconds",
            "Live: seconds from the end of speech, by the VAD, to the final text.",
            buckets=_LATENCY_S,
            registry=self.registry,
        )
        self._file = Histogram(
            "whisper_file_seconds",
            "Files: seconds from the complete upload to the complete text, queueing included.",
            buckets=_FILE_S,
            registry=self.registry,
        )
        self._audio = Counter(
            "whisper_audio_seconds", "Seconds of audio in files.", registry=self.registry
        )

    def observe_final(self, latency_s: float) -> None:
        """Record the latency of one final."""
        self._latency.observe(latency_s)
        self._latency_ms.append(latency_s * 1000)

    def observe_file(self, duration_s: float, audio_s: float) -> None:
        """Record one file that was transcribed to its end."""
        self._file.observe(duration_s)
        self._file_s.append(duration_s)
        self._audio.inc(audio_s)

    def describe(self) -> dict[str, object]:
        """Return the part of the status that is counted here."""
        return {
            **super().describe(),
            "final_latency_ms": summary(self._latency_ms),
            "file_s": summary(self._file_s),
        }

    def watch_server(self, live: Callable[[], float], upload_bytes: Callable[[], float]) -> None:
        """Publish the gauges of the server's state."""
        self.watch("live", "Open live streams.", live)
        self.watch("upload_bytes", "Bytes of uploads held now.", upload_bytes)


@dataclass(slots=True, kw_only=True)
class ServerState(AppState):
    """The state of the running server; handlers find it as `app.state.server`."""

    limits: Limits
    scheduler: Scheduler
    uploads: UploadSpace
    candidates: frozenset[str] = frozenset()
    """The names of the models of which one was selected."""
    metrics: WhisperMetrics = field(default_factory=WhisperMetrics)
    started: float = field(default_factory=time.monotonic)
    live: int = 0
    """Open WebSockets."""

    @contextmanager
    def stream_slot(self) -> Iterator[None]:
        """Hold a slot for a stream; raises ServiceError while loading, and when none is free."""
        if not self.scheduler.ready:
            raise ServiceError(
                self.scheduler.failure or "the model is still loading; try again",
                status=503,
                code="starting",
                retry_after_s=2,
            )
        if self.live >= self.limits.live:
            message = f"{self.live} streams are open already; try again later"
            raise ServiceError(message, status=429, code="too_many_streams", retry_after_s=5)
        # No await since the check, or other streams could take the slot meanwhile.
        self.live += 1
        try:
            yield
        finally:
            self.live -= 1
