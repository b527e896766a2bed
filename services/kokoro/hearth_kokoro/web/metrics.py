"""What Prometheus reads: counts and times, never a text, a voice or a client."""

from collections import deque
from collections.abc import Iterator
from typing import cast

from prometheus_client import Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from hearth_kokoro.speaking.speaker import Speaker
from hearth_serving.metrics import Metrics, summary

_KEPT = 500
_TTFA_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2.5, 5, 10, 30)


class _Caches:
    """Reads the caches whenever somebody scrapes."""

    def __init__(self, speaker: Speaker) -> None:
        self._speaker = speaker

    def collect(self) -> Iterator[Metric]:
        caches = cast(dict[str, dict[str, int]], self._speaker.describe()["caches"])
        for kind in ("hits", "misses"):
            counter = CounterMetricFamily(
                f"kokoro_cache_{kind}", f"Cache {kind}.", labels=["cache"]
            )
            for name, figures in caches.items():
                counter.add_metric([name], figures[kind])
            yield counter
        size = GaugeMetricFamily("kokoro_cache_bytes", "Bytes in the caches.", labels=["cache"])
        for name, figures in caches.items():
            size.add_metric([name], figures["bytes"])
        yield size


class SpeechMetrics(Metrics):
    """What is counted of speech besides requests."""

    def __init__(self) -> None:
        """Make every series, so that a counter that is 0 is there as well."""
        super().__init__("kokoro", "Speech requests by outcome.")
        self._recent_ttfa_ms = deque[float](maxlen=_KEPT)
        self._ttfa = Histogram(
            "kokoro_ttfa_seconds",
            "Seconds from the request to its first encoded audio, without WebSockets.",
            buckets=_TTFA_S,
            registry=self.registry,
        )
        self._audio = Counter(
            "kokoro_audio_seconds", "Seconds of audio generated.", registry=self.registry
        )

    def first_sound(self, after_s: float) -> None:
        """Note how long one listener waited."""
        self._ttfa.observe(after_s)
        self._recent_ttfa_ms.append(after_s * 1000)

    def said(self, audio_s: float) -> None:
        """Count sound."""
        self._audio.inc(audio_s)

    def describe(self) -> dict[str, object]:
        """Return the part of the status that is counted here."""
        return {**super().describe(), "ttfa_ms": summary(self._recent_ttfa_ms)}

    def watch_speaker(self, speaker: Speaker) -> None:
        """Publish what the speaker counts."""
        self.watch("active", "Texts in progress.", lambda: speaker.active)
        self.watch("waiting", "Pieces waiting for the engine.", lambda: speaker.waiting)
        self.registry.register(_Caches(speaker))
