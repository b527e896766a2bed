"""What may be asked of a model, and of a draft beside it."""

from dataclasses import dataclass

from hearth_serving.errors import ServiceError
from hearth_whisper.recognising import Options, Recogniser


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a model can do, which is still known when it has left the memory."""

    name: str
    multilingual: bool
    languages: tuple[str, ...]


def abilities(model: Recogniser) -> Abilities:
    """Return what a model can do."""
    return Abilities(model.name, model.multilingual, model.languages)


def check(model: Abilities, options: Options) -> None:
    """Raise ServiceError for what this model cannot do: a language, or to translate."""
    if options.translate and not model.multilingual:
        raise ServiceError(
            f"{model.name} supports English only and cannot translate",
            param="model",
            code="not_multilingual",
        )
    if options.language is None or options.language in model.languages:
        return
    what = "it supports English only" if not model.multilingual else "see Whisper's list of codes"
    raise ServiceError(
        f"{model.name} does not support the language {options.language[:20]!r}: {what}",
        param="language",
        code="unsupported_language",
    )


def quick(options: Options) -> Options:
    """Return how a partial is asked: one guess, no times."""
    return Options(options.language, options.prompt, 0.0, options.translate, vad=False, quick=True)


def may_draft(model: Recogniser, draft: Recogniser, options: Options) -> bool:
    """Whether the draft knows what is spoken: an English one would write rubbish for others."""
    if options.translate and not draft.multilingual:
        return False
    if draft.multilingual or not model.multilingual:
        return options.language is None or options.language in draft.languages
    return options.language == "en"


def stopping() -> ServiceError:
    """Say that it ends."""
    return ServiceError("the server is stopping", status=503, retry_after_s=5)
