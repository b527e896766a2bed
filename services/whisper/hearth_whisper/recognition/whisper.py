"""faster-whisper as a Recogniser: each call into the model is a step that may have to wait."""

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
from hearth_whisper.recognition import (
    SAMPLE_RATE,
    ModelAccess,
    Options,
    Recognition,
    Samples,
    Segment,
    Word,
)
from hearth_whisper.recognition.loading import COMPUTE_TYPES, load_model

log = logging.getLogger(__name__)

# Shorter audio contains no word; the spectrogram needs some frames.
_MIN_S = 0.1
_FALLBACK_TEMPERATURES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


class WhisperRecogniser:
    """A Whisper model, loaded from a folder."""

    def __init__(self, folder: Path, device: str, threads: int, workers: int = 1) -> None:
        """Load it; raises ServiceError."""
        before = memory_bytes()
        self._whisper = load_model(folder, device, threads, workers)
        self.memory_bytes = max(0, memory_bytes() - before)
        self.name = folder.name
        self.device, self.compute_type, self.threads = device, COMPUTE_TYPES[device], threads
        self.multilingual: bool = self._whisper.model.is_multilingual
        self.languages: tuple[str, ...] = tuple(self._whisper.supported_languages)

    def recognise(self, samples: Samples, options: Options, access: ModelAccess) -> Recognition:
        """Detect the language; iterating decodes the segments."""
        length_s = samples.size / SAMPLE_RATE
        speech = _detect_speech(samples, access) if options.vad else None
        if speech is not None:
            samples = _speech_only(samples, speech)
        if samples.size < _MIN_S * SAMPLE_RATE:
            return Recognition(options.language, 0.0, iter(()))
        try:
            model = _SteppedWhisper(self._whisper, access)
            segments, info = model.transcribe(samples, **_parameters(options))
        except (RuntimeError, ValueError) as error:
            raise _recognition_error(error) from error
        if speech:
            segments = restore_speech_timestamps(segments, speech, SAMPLE_RATE)
        converted = _convert(segments, length_s)
        return Recognition(info.language, float(info.language_probability), converted)

    def benchmark(self, samples: Samples, tokens: int) -> None:
        """Encode one window and decode so many tokens, whatever they are."""
        whisper = self._whisper
        token_id = whisper.hf_tokenizer.token_to_id
        prefix = ["<|startoftranscript|>"]
        if self.multilingual:
            prefix += ["<|en|>", "<|transcribe|>"]
        encoded = whisper.encode(pad_or_trim(whisper.feature_extractor(samples)))
        whisper.model.generate(
            encoded,
            [[token_id(token) for token in prefix]],
            beam_size=5,
            max_length=len(prefix) + tokens,
            suppress_tokens=[token_id("<|endoftext|>")],
        )


class _SteppedWhisper(faster_whisper.WhisperModel):  # type: ignore[misc]
    """One recognition's view of a loaded model: each call into it is a step."""

    def __init__(self, loaded: faster_whisper.WhisperModel, access: ModelAccess) -> None:
        # Shares all attributes of the loaded one: nothing is loaded again.
        self.__dict__.update(loaded.__dict__)
        self.model = _SteppedModel(loaded.model, access)
        self.feature_extractor = _SteppedExtractor(loaded.feature_extractor, access)
        self._encoded: tuple[Samples, Any] | None = None

    def encode(self, features: Samples) -> Any:
        """Encode a window once: the detection of the language has encoded the first one."""
        if self._encoded is not None and np.array_equal(self._encoded[0], features):
            return self._encoded[1]
        encoded = super().encode(features)
        self._encoded = features, encoded
        return encoded

    def detect_language(
        self, *_: Any, features: Samples, **__: Any
    ) -> tuple[str, float, list[Any]]:
        """Detect it in the first window, so that its encoding serves twice."""
        content = max(1, min(features.shape[-1] - 1, self.feature_extractor.nb_max_frames))
        encoded = self.encode(pad_or_trim(features[..., :content]))
        found = [(token[2:-2], chance) for token, chance in self.model.detect_language(encoded)[0]]
        return *found[0], found


class _SteppedModel:
    """The runtime's model; each computation waits for access."""

    def __init__(self, model: ctranslate2.models.Whisper, access: ModelAccess) -> None:
        self._model, self._access = model, access

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def encode(self, *args: Any, **kwargs: Any) -> Any:
        with self._access():
            return self._model.encode(*args, **kwargs)

    def generate(self, *args: Any, **kwargs: Any) -> Any:
        with self._access():
            return self._model.generate(*args, **kwargs)

    def align(self, *args: Any, **kwargs: Any) -> Any:
        with self._access():
            return self._model.align(*args, **kwargs)

    def detect_language(self, *args: Any, **kwargs: Any) -> Any:
        with self._access():
            return self._model.detect_language(*args, **kwargs)


class _SteppedExtractor:
    """The spectrogram, which takes much memory: for one file at a time."""

    def __init__(self, extractor: Any, access: ModelAccess) -> None:
        self._extractor, self._access = extractor, access

    def __getattr__(self, name: str) -> Any:
        return getattr(self._extractor, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with self._access.preprocessing():
            return self._extractor(*args, **kwargs)


def _parameters(options: Options) -> dict[str, Any]:
    """Return the arguments of faster-whisper's `transcribe`."""
    common = {
        "language": options.language,
        "task": "translate" if options.translate else "transcribe",
        "initial_prompt": options.prompt or None,
    }
    if options.greedy:
        partial = {"without_timestamps": True, "condition_on_previous_text": False}
        return {**common, **partial, "beam_size": 1, "temperature": 0.0}
    temperatures = _FALLBACK_TEMPERATURES if options.temperature is None else (options.temperature,)
    return {**common, "temperature": temperatures, "word_timestamps": options.word_timestamps}


def _detect_speech(samples: Samples, access: ModelAccess) -> list[dict[str, int]]:
    """Return the ranges of speech, in samples; cheap compared with the model."""
    with access.preprocessing():
        ranges: list[dict[str, int]] = get_speech_timestamps(samples)
    return ranges


def _speech_only(samples: Samples, speech: Sequence[dict[str, int]]) -> Samples:
    """Return the speech without the audio between."""
    parts = [samples[one["start"] : one["end"]] for one in speech]
    return np.concatenate(parts) if parts else samples[:0]


def _convert(segments: Iterable[Any], length_s: float) -> Iterator[Segment]:
    """Yield segments whose times are inside the audio, which Whisper's own may not be."""

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
        raise _recognition_error(error) from error


def _recognition_error(error: Exception) -> ServiceError:
    """Return the error of the runtime; it sees only numbers, so its message may be quoted."""
    return EngineError(f"the recognition failed: {first_line(error)}", status=500)
