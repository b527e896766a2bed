"""Metrics for Prometheus: counts and times, never a text, a voice or a client."""

from collections import deque
from collections.abc import Iterator
from typing import cast

from prometheus_client import Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from hearth_kokoro.engines import SAMPLE_RATE
from hearth_kokoro.synthesis.synthesizer import Segment, Synthesizer
from hearth_serving.metrics import Metrics, summary

_KEPT = 500
STAGES = ("phonemes", "inference", "encoding")
_STAGE_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_TTFA_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2.5, 5, 10, 30)


class _Caches:
    """Reads the caches at each scrape."""

    def __init__(self, synthesizer: Synthesizer) -> None:
        self._speaker = synthesizer

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
    """Requests, times to the first audio (TTFA), and seconds of audio."""

    def __init__(self) -> None:
        super().__init__("kokoro", "Speech requests by outcome.")
        self._recent_ttfa_ms = deque[float](maxlen=_KEPT)
        self._ttfa = Histogram(
            "kokoro_ttfa_seconds",
            "Seconds from the request to its first encoded audio, without WebSockets.",
            buckets=_TTFA_S,
            registry=self.registry,
        )
        self._recent_held_ms = deque[float](maxlen=_KEPT)
        self._held = Histogram(
            "kokoro_held_seconds",
            "Seconds for which first sounds were held back so that nothing stalls.",
            buckets=_TTFA_S,
            registry=self.registry,
        )
        self._audio = Counter(
            "kokoro_audio_seconds", "Seconds of audio generated.", registry=self.registry
        )
        self._stage = Histogram(
            "kokoro_stage_seconds",
            "Seconds of work for one segment of speech, without those that a cache saved.",
            ["stage"],
            buckets=_STAGE_S,
            registry=self.registry,
        )
        for stage in STAGES:
            self._stage.labels(stage)

    def record_ttfa(self, after_s: float) -> None:
        """Record the time from a request to its first audio."""
        self._ttfa.observe(after_s)
        self._recent_ttfa_ms.append(after_s * 1000)

    def record_hold(self, held_s: float) -> None:
        """Record for how long a first sound was held back; 0 is not counted."""
        if held_s:
            self._held.observe(held_s)
            self._recent_held_ms.append(held_s * 1000)

    def record_segment(self, segment: Segment, encoding_s: float) -> None:
        """Record the sound of one segment, and how long each stage of its work took."""
        self._audio.inc(segment.samples.size / SAMPLE_RATE)
        seconds = (segment.work.phonemes_s, segment.work.inference_s, encoding_s)
        for stage, took_s in zip(STAGES, seconds, strict=True):
            if took_s:
                self._stage.labels(stage).observe(took_s)

    def describe(self) -> dict[str, object]:
        """Return the fields of /status that are counted here."""
        return {
            **super().describe(),
            "ttfa_ms": summary(self._recent_ttfa_ms),
            "held_ms": summary(self._recent_held_ms),
        }

    def watch_synthesizer(self, synthesizer: Synthesizer) -> None:
        """Publish the gauges and caches of the synthesizer."""
        self.watch("active", "Texts in progress.", lambda: synthesizer.active)
        self.watch("waiting", "Segments waiting for the engine.", lambda: synthesizer.waiting)
        self.registry.register(_Caches(synthesizer))
