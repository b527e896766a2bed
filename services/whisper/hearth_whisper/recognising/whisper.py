"""faster-whisper behind our interface: in steps, with one encoding per window, in bounds."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import ctranslate2
import faster_whisper
import numpy as np
from faster_whisper.audio import pad_or_trim
from faster_whisper.transcribe import restore_speech_timestamps
from faster_whisper.vad import get_speech_timestamps

from hearth_serving.errors import EngineError, ServiceError, first_line
from hearth_serving.metrics import memory_bytes
from hearth_whisper.recognising import (
    SAMPLE_RATE,
    Options,
    Recognition,
    Samples,
    Segment,
    Step,
    Word,
)
from hearth_whisper.recognising.loading import COMPUTE, load

log = logging.getLogger(__name__)

# Less than this holds no word; the spectrogram needs some frames.
_SHORTEST_S = 0.1
_LADDER = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


class WhisperRecogniser:
    """A Whisper model of a folder."""

    def __init__(self, folder: Path, device: str, threads: int, workers: int = 1) -> None:
        """Load it; raises ServiceError."""
        before = memory_bytes()
        self._whisper = load(folder, device, threads, workers)
        self.memory_bytes = max(0, memory_bytes() - before)
        self.name = folder.name
        self.device, self.compute_type, self.threads = device, COMPUTE[device], threads
        self.multilingual: bool = self._whisper.model.is_multilingual
        self.languages: tuple[str, ...] = tuple(self._whisper.supported_languages)

    def recognise(self, samples: Samples, options: Options, step: Step) -> Recognition:
        """Find the language; the segments come by iterating."""
        length_s = samples.size / SAMPLE_RATE
        chunks = _speech(samples, step) if options.vad else None
        if chunks is not None:
            samples = _joined(samples, chunks)
        if samples.size < _SHORTEST_S * SAMPLE_RATE:
            return Recognition(options.language, 0.0, iter(()))
        try:
            view = _Stepped(self._whisper, step)
            segments, info = view.transcribe(samples, **_asked(options))
        except (RuntimeError, ValueError) as error:
            raise _failed(error) from error
        if chunks:
            segments = restore_speech_timestamps(segments, chunks, SAMPLE_RATE)
        found = _inside(segments, length_s)
        return Recognition(info.language, float(info.language_probability), found)

    def speak(self, samples: Samples, tokens: int) -> None:
        """Encode a window and say so many tokens, whatever they are."""
        whisper = self._whisper
        words = whisper.hf_tokenizer.token_to_id
        begin = ["<|startoftranscript|>"]
        if self.multilingual:
            begin += ["<|en|>", "<|transcribe|>"]
        encoded = whisper.encode(pad_or_trim(whisper.feature_extractor(samples)))
        whisper.model.generate(
            encoded,
            [[words(token) for token in begin]],
            beam_size=5,
            max_length=len(begin) + tokens,
            suppress_tokens=[words("<|endoftext|>")],
        )


class _Stepped(faster_whisper.WhisperModel):  # type: ignore[misc]
    """One recognition's view of a loaded model: each call into it is a step."""

    def __init__(self, loaded: faster_whisper.WhisperModel, step: Step) -> None:
        # Everything of the loaded one but its door: nothing is loaded again.
        self.__dict__.update(loaded.__dict__)
        self.model = _SteppedModel(loaded.model, step)
        self.feature_extractor = _Beside(loaded.feature_extractor, step)
        self._heard: tuple[Samples, Any] | None = None

    def encode(self, features: Samples) -> Any:
        """Encode a window once: finding the language has done it for the first."""
        if self._heard is not None and np.array_equal(self._heard[0], features):
            return self._heard[1]
        encoded = super().encode(features)
        self._heard = features, encoded
        return encoded

    def detect_language(
        self, *_: Any, features: Samples, **__: Any
    ) -> tuple[str, float, list[Any]]:
        """Find it in the frames of the first window, so that their encoding serves twice."""
        content = max(1, min(features.shape[-1] - 1, self.feature_extractor.nb_max_frames))
        encoded = self.encode(pad_or_trim(features[..., :content]))
        found = [(token[2:-2], chance) for token, chance in self.model.detect_language(encoded)[0]]
        return *found[0], found


class _SteppedModel:
    """The runtime's model, each of whose computations waits for its turn."""

    def __init__(self, model: ctranslate2.models.Whisper, step: Step) -> None:
        self._model, self._step = model, step

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def encode(self, *args: Any, **kwargs: Any) -> Any:
        with self._step():
            return self._model.encode(*args, **kwargs)

    def generate(self, *args: Any, **kwargs: Any) -> Any:
        with self._step():
            return self._model.generate(*args, **kwargs)

    def align(self, *args: Any, **kwargs: Any) -> Any:
        with self._step():
            return self._model.align(*args, **kwargs)

    def detect_language(self, *args: Any, **kwargs: Any) -> Any:
        with self._step():
            return self._model.detect_language(*args, **kwargs)


class _Beside:
    """The spectrogram's maker: of those who need much memory, one at a time."""

    def __init__(self, extractor: Any, step: Step) -> None:
        self._extractor, self._step = extractor, step

    def __getattr__(self, name: str) -> Any:
        return getattr(self._extractor, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with self._step.beside():
            return self._extractor(*args, **kwargs)


def _asked(options: Options) -> dict[str, Any]:
    """Return what faster-whisper is asked."""
    common = {
        "language": options.language,
        "task": "translate" if options.translate else "transcribe",
        "initial_prompt": options.prompt or None,
    }
    if options.quick:
        alone = {"without_timestamps": True, "condition_on_previous_text": False}
        return {**common, **alone, "beam_size": 1, "temperature": 0.0}
    ladder = _LADDER if options.temperature is None else (options.temperature,)
    return {**common, "temperature": ladder, "word_timestamps": options.words}


def _speech(samples: Samples, step: Step) -> list[dict[str, int]]:
    """Return where somebody speaks, in samples. It is little work beside the model's."""
    with step.beside():
        chunks: list[dict[str, int]] = get_speech_timestamps(samples)
    return chunks


def _joined(samples: Samples, chunks: Sequence[dict[str, int]]) -> Samples:
    """Return the speech alone."""
    parts = [samples[chunk["start"] : chunk["end"]] for chunk in chunks]
    return np.concatenate(parts) if parts else samples[:0]


def _inside(segments: Iterable[Any], length_s: float) -> Iterator[Segment]:
    """Yield our segments; a model that names a time outside the sound is not believed."""

    def within(at_s: float) -> float:
        return round(min(max(0.0, float(at_s)), length_s), 3)

    try:
        for one in segments:
            words = tuple(
                Word(within(w.start), within(w.end), w.word, float(w.probability))
                for w in one.words or ()
            )
            yield Segment(
                start_s=within(one.start),
                end_s=max(within(one.start), within(one.end)),
                text=one.text,
                words=words,
                avg_logprob=float(one.avg_logprob),
                no_speech_prob=float(one.no_speech_prob),
                compression_ratio=float(one.compression_ratio),
                temperature=float(one.temperature or 0.0),
                tokens=tuple(one.tokens),
            )
    except (RuntimeError, ValueError) as error:
        raise _failed(error) from error


def _failed(error: Exception) -> ServiceError:
    """Say that the runtime failed; it sees numbers, so its line may be quoted."""
    return EngineError(f"the recognition failed: {first_line(error)}", status=500)
