"""What a satellite asks for: `transcribe` as the way to listen to it."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hearth_serving.errors import ServiceError, quoted
from hearth_whisper.languages import read_language
from hearth_whisper.live.orders import Start

# Whisper's prompt is as long as half its text, some 220 tokens; names take two or three each.
_PROMPT_CHARACTERS = 600
# The satellite says when its command is over, which ends an utterance at once. Until then a pause
# within the command should not cut it in two: each half would lack the other's words.
_END_OF_SPEECH_MS = 2000
USUAL = Start(partials=False, end_of_speech_ms=_END_OF_SPEECH_MS)


def read_transcribe(data: Mapping[str, Any], model: object) -> Start:
    """Return how to listen; raises ServiceError for a model or a language that is not here.

    A language of a region, `en-GB`, is its language.
    """
    name = data.get("name")
    if name is not None and model is not None and name != model:
        message = f"there is no model {quoted(str(name))}; use {model}"
        raise ServiceError(message, status=404, param="name", code="model_not_found")
    asked = {"language": _language(data.get("language")), "prompt": _prompt(data)}
    return USUAL.model_copy(update=asked)


def _language(asked: object) -> str | None:
    if asked is None or asked == "":
        return None
    try:
        return read_language(str(asked))
    except ValueError as error:
        raise ServiceError(str(error), param="language", code="invalid_value") from None


def _prompt(data: Mapping[str, Any]) -> str:
    """Join the names and terms that the satellite expects, the names first, as many as fit."""
    found = ""
    for word in dict.fromkeys(_words(data)):
        longer = f"{found}, {word}" if found else word
        if len(longer) > _PROMPT_CHARACTERS:
            break
        found = longer
    return found


def _words(data: Mapping[str, Any]) -> Iterator[str]:
    for field in ("transcript_names", "transcript_terms"):
        given = data.get(field)
        words: Iterable[Any] = given if isinstance(given, list) else ()
        for word in words:
            if isinstance(word, str) and (plain := " ".join(word.split())):
                yield plain
