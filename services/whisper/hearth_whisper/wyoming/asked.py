"""What a satellite asks for: `transcribe` as the options of a recognition."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hearth_serving.answers import shown
from hearth_serving.errors import ServiceError
from hearth_whisper.recognising import Options

# Whisper's prompt is as long as half its text, some 220 tokens; names take two or three each.
_PROMPT_CHARACTERS = 600


def read_transcribe(data: Mapping[str, Any], model: str) -> Options:
    """Return the options; raises ServiceError for a model that is not the one here.

    A language of a region, `en-GB`, is its language; which there are, the model itself says.
    """
    name = data.get("name")
    if name is not None and name != model:
        message = f"there is no model {shown(str(name))} here; there is {model}"
        raise ServiceError(message, status=404, param="name", code="model_not_found")
    language = data.get("language")
    if language is not None and not isinstance(language, str):
        raise ServiceError("`language` is a code like en", param="language")
    code = (language or "").replace("_", "-").partition("-")[0].strip().lower()
    return Options(language=code or None, prompt=_prompt(data))


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
