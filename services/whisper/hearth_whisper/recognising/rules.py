"""What may be asked of a model, and of a draft beside it."""

from hearth_serving.errors import ServiceError
from hearth_whisper.recognising import Options, Recogniser
from hearth_whisper.recognising.model import STOPPING, Loaded


def check(model: Recogniser, options: Options) -> None:
    """Raise ServiceError for a language that this model does not know."""
    if options.language is None or options.language in model.languages:
        return
    what = "it knows English only" if not model.multilingual else "see Whisper's list of codes"
    raise ServiceError(
        f"{model.name} does not know the language {options.language[:20]!r}: {what}",
        param="language",
        code="unsupported_language",
    )


def quick(options: Options) -> Options:
    """Return how a partial is asked: one guess, no times."""
    return Options(options.language, options.prompt, 0.0, options.translate, vad=False, quick=True)


def may_draft(loaded: Loaded, options: Options) -> bool:
    """Whether the draft knows what is spoken: an English one would write rubbish for others."""
    draft = loaded.draft
    if draft is None or (options.translate and not draft.multilingual):
        return False
    if draft.multilingual or not loaded.recogniser.multilingual:
        return options.language is None or options.language in draft.languages
    return options.language == "en"


def stopping() -> ServiceError:
    """Say that it ends."""
    return ServiceError(STOPPING, status=503, retry_after_s=5)
