"""What Prometheus reads: counts and times, never a text or a client."""

from collections.abc import Callable

from prometheus_client import Counter, Histogram

from hearth_serving.metrics import Metrics, recent, summary

_LATENCY_S = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7, 1, 1.5, 2.5, 5, 10, 30)
_TOOK_S = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200)


class ListenMetrics(Metrics):
    """What is counted of listening besides requests."""

    def __init__(self) -> None:
        """Make every series, so that a counter that is 0 is there as well."""
        super().__init__("whisper", "Files, live streams and satellite recordings by outcome.")
        self._latency_ms, self._file_s = recent(), recent()
        self._latency = Histogram(
            "whisper_final_latency_seconds",
            "Live: seconds from the end of speech, by the VAD, to the final text.",
            buckets=_LATENCY_S,
            registry=self.registry,
        )
        self._took = Histogram(
            "whisper_file_seconds",
            "Files: seconds from the complete upload to the complete text, queueing included.",
            buckets=_TOOK_S,
            registry=self.registry,
        )
        self._audio = Counter(
            "whisper_audio_seconds", "Seconds of audio in files.", registry=self.registry
        )

    def final(self, latency_s: float) -> None:
        """Note how long one talker waited for a final text."""
        self._latency.observe(latency_s)
        self._latency_ms.append(latency_s * 1000)

    def file(self, took_s: float, audio_s: float) -> None:
        """Note one file that was heard to its end."""
        self._took.observe(took_s)
        self._file_s.append(took_s)
        self._audio.inc(audio_s)

    def describe(self) -> dict[str, object]:
        """Return the part of the status that is counted here."""
        return {
            **super().describe(),
            "final_latency_ms": summary(self._latency_ms),
            "file_s": summary(self._file_s),
        }

    def watch_desk(self, live: Callable[[], float], scratch_bytes: Callable[[], float]) -> None:
        """Publish what the desk counts."""
        self.watch("live", "Open live streams.", live)
        self.watch("upload_bytes", "Bytes of uploads held now.", scratch_bytes)
