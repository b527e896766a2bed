"""What the server says of itself to `describe`."""

import warnings
from collections.abc import Mapping
from typing import Any

from hearth_serving.errors import ServiceError
from hearth_whisper.languages import NAMES

with warnings.catch_warnings():
    # Before Python 3.13 the library imports audioop, which warns of its end; neither is used here.
    warnings.simplefilter("ignore", DeprecationWarning)
    from wyoming.info import AsrModel, AsrProgram, Attribution, Info

# The protocol wants an address of each maker; a house names none but its own.
_HEARTH, _WHISPER = Attribution("Hearth", ""), Attribution("Whisper", "")
_AGAIN_S = 5


def info_of(described: Mapping[str, Any]) -> Info:
    """Return the one program and the one model that a satellite can have.

    Raises:
        ServiceError: no model was chosen yet. Who asks would keep an answer without one.
    """
    name = str(described.get("model") or "")
    if not name:
        message = "the model is still loading; try again"
        raise ServiceError(message, status=503, code="loading", retry_after_s=_AGAIN_S)
    model = AsrModel(
        name=name,
        attribution=_WHISPER,
        installed=True,
        description=None,
        version=None,
        languages=list(NAMES) if described.get("multilingual") else ["en"],
    )
    program = AsrProgram(
        name="hearth-whisper",
        attribution=_HEARTH,
        installed=True,
        description="Whisper on your own server",
        version=None,
        models=[model],
        supports_transcript_streaming=True,
        # What it hears is cut to speech here, whatever the satellite did with it.
        prefers_auto_gain_enabled=False,
        prefers_noise_reduction_enabled=False,
    )
    return Info(asr=[program])
