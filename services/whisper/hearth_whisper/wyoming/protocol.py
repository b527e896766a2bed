"""The Wyoming events `describe` and `transcribe`."""

import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hearth_serving.errors import ServiceError, quoted
from hearth_whisper.languages import NAMES, read_language
from hearth_whisper.live.messages import StartMessage

with warnings.catch_warnings():
    # Before Python 3.13 the library imports audioop, which is deprecated; it is not used here.
    warnings.simplefilter("ignore", DeprecationWarning)
    from wyoming.info import AsrModel, AsrProgram, Attribution, Info

# The protocol requires an author's address; a house names no address outside it.
_HEARTH, _WHISPER = Attribution("Hearth", ""), Attribution("Whisper", "")
_RETRY_AFTER_S = 5
# Whisper's prompt has about 220 tokens, half its context; names take two or three each.
_PROMPT_CHARACTERS = 600
# The satellite's `audio-stop` ends an utterance at once. A pause before it should not cut the
# command in two: each half would be recognised without the words of the other.
_END_OF_SPEECH_MS = 2000
DEFAULT_START = StartMessage(partials=False, end_of_speech_ms=_END_OF_SPEECH_MS)


def info_event(status: Mapping[str, Any]) -> Info:
    """Return the response to `describe`: one program with one model.

    Raises:
        ServiceError: no model is loaded yet; a satellite would cache a response without one.
    """
    name = str(status.get("model") or "")
    if not name:
        message = "the model is still loading; try again"
        raise ServiceError(message, status=503, code="loading", retry_after_s=_RETRY_AFTER_S)
    model = AsrModel(
        name=name,
        attribution=_WHISPER,
        installed=True,
        description=None,
        version=None,
        languages=list(NAMES) if status.get("multilingual") else ["en"],
    )
    program = AsrProgram(
        name="hearth-whisper",
        attribution=_HEARTH,
        installed=True,
        description="Whisper on your own server",
        version=None,
        models=[model],
        supports_transcript_streaming=True,
        # The VAD works on unprocessed audio as well.
        prefers_auto_gain_enabled=False,
        prefers_noise_reduction_enabled=False,
    )
    return Info(asr=[program])


def read_transcribe(data: Mapping[str, Any], model: object) -> StartMessage:
    """Return the stream's parameters; raises ServiceError for an unknown model or language.

    A region is ignored: `en-GB` is English.
    """
    name = data.get("name")
    if name is not None and model is not None and name != model:
        message = f"there is no model {quoted(str(name))}; use {model}"
        raise ServiceError(message, status=404, param="name", code="model_not_found")
    update = {"language": _language(data.get("language")), "prompt": _prompt(data)}
    return DEFAULT_START.model_copy(update=update)


def _language(value: object) -> str | None:
    if value is None or value == "":
        return None
    try:
        return read_language(str(value))
    except ValueError as error:
        raise ServiceError(str(error), param="language", code="invalid_value") from None


def _prompt(data: Mapping[str, Any]) -> str:
    """Join the names and terms that the satellite expects, names first, as many as fit."""
    prompt = ""
    for word in dict.fromkeys(_expected_words(data)):
        longer = f"{prompt}, {word}" if prompt else word
        if len(longer) > _PROMPT_CHARACTERS:
            break
        prompt = longer
    return prompt


def _expected_words(data: Mapping[str, Any]) -> Iterator[str]:
    for field in ("transcript_names", "transcript_terms"):
        value = data.get(field)
        words: Iterable[Any] = value if isinstance(value, list) else ()
        for word in words:
            if isinstance(word, str) and (joined := " ".join(word.split())):
                yield joined
