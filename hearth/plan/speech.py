"""What speech takes of a machine: memory, and how long a person waits for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hearth.plan.machine import GIB, Place
from hearth.plan.memory import Line

# Whisper's encoder by the model's family: layers and width, as published. It always takes 30 s.
_ENCODERS: Mapping[str, tuple[int, int]] = {
    "tiny": (4, 384),
    "base": (6, 512),
    "small": (12, 768),
    "medium": (24, 1024),
    "large": (32, 1280),
}
_FRAMES = 1500
# Beside the encoder: the decoder's few tokens, and the voice activity detection.
_BESIDE_S = 0.15
# The server uses the first model that answers an utterance within this.
WITHIN_S = 1.1
# int8 takes half of the float16 file; a library and its buffers take the rest.
_INT8, _LIBRARY_BYTES, _CARD_CONTEXT_BYTES = 0.5, 0.15 * GIB, 0.3e9
# The TTS engines, as measured or published: docs/text-to-speech.md and REFERENCE of the docs.
TTS_BYTES, TTS_CARD_BYTES, TTS_CARD_HOST_BYTES = 0.7 * GIB, 0.85e9, 1.92 * GIB
# Operations of the first few words, and the wait that no device shortens.
_FIRST_WORDS, _TTS_BESIDE_S = 30e9, 0.05
TTS, STT = "TTS", "transcribe"
_ESTIMATED = "estimated"
# Two cores of a small machine, where nobody measured the matrix rate.
_ASSUMED_MATRIX = 1e11
_CARD_OPERATIONS_PER_BYTE = 90.0


@dataclass(frozen=True, slots=True)
class SttModel:
    """A model that transcribes: the size of its download, and whether it needs a card."""

    name: str
    download_bytes: int
    needs_card: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredWait:
    """What a person waited for a part of speech in this house; `model` is that which transcribed.

    `source` says where and when it was measured.
    """

    what: str
    on_card: bool
    wait_s: float
    source: str
    model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechChoice:
    """A part of speech in its place: `wait_s` is what a person waits for, lines by device.

    `wait_source` says how that is known.
    """

    what: str
    model: str
    on_card: bool
    wait_s: float
    wait_source: str
    reason: str
    card_lines: tuple[Line, ...] = ()
    host_lines: tuple[Line, ...] = ()


def stt_wait_s(model: SttModel, place: Place) -> float:
    """Return the seconds from the last word to its text, for one utterance."""
    family = model.name.removeprefix("distil-").split("-")[0].split(".")[0]
    layers, width = _ENCODERS.get(family, _ENCODERS["large"])
    operations = 2 * 12 * layers * width**2 * _FRAMES
    return _BESIDE_S + operations / _matrix(place)


def choose_stt(
    models: Sequence[SttModel], place: Place, cpu: Place, measured: Sequence[MeasuredWait] = ()
) -> SpeechChoice | None:
    """Return the model that this house's server chose in this place, if it was `measured`.

    Else it is the first one that answers in time, or the fastest.
    """
    on_card = place.backend == "cuda"
    usable = [model for model in models if on_card or not model.needs_card]
    if not usable:
        return None
    where, source = place if on_card else cpu, _ESTIMATED
    waits = {model.name: stt_wait_s(model, where) for model in usable}
    in_time = next((model for model in usable if waits[model.name] <= WITHIN_S), None)
    chosen = in_time or min(usable, key=lambda model: waits[model.name])
    reason = "the first of transcribe whose text is there in time"
    if in_time is None:
        reason = f"no model answers within {WITHIN_S:g} s here; this is the fastest"
    if own := _measured(measured, STT, on_card):
        for model in usable:
            if model.name == own.model:
                chosen, waits[model.name], source = model, own.wait_s, own.source
                reason = "the server measured its models in this house, and uses this one"
    line = _stt_line(chosen, on_card)
    return SpeechChoice(
        what=STT,
        model=chosen.name,
        on_card=on_card,
        wait_s=waits[chosen.name],
        wait_source=source,
        reason=reason,
        card_lines=(line,) if on_card else (),
        host_lines=() if on_card else (line,),
    )


def _measured(waits: Sequence[MeasuredWait], what: str, on_card: bool) -> MeasuredWait | None:
    return next((one for one in waits if (one.what, one.on_card) == (what, on_card)), None)


def tts_wait_s(place: Place) -> float:
    """Return the seconds to the first sound."""
    return _TTS_BESIDE_S + _FIRST_WORDS / _matrix(place)


def choose_tts(
    place: Place, cpu: Place, on_card: bool, measured: Sequence[MeasuredWait] = ()
) -> SpeechChoice:
    """Return the TTS engine on the card, or on the processor."""
    own = _measured(measured, TTS, on_card)
    wait_s = own.wait_s if own else tts_wait_s(place if on_card else cpu)
    source = own.source if own else _ESTIMATED
    if not on_card:
        line = Line("TTS on the processor", TTS_BYTES, "measured: its most with one client")
        reason = "it is quick enough for chat, and the memory of a card is for models"
        return SpeechChoice(
            what=TTS,
            model="processor",
            on_card=False,
            wait_s=wait_s,
            wait_source=source,
            reason=reason,
            host_lines=(line,),
        )
    return SpeechChoice(
        what=TTS,
        model="card",
        on_card=True,
        wait_s=wait_s,
        wait_source=source,
        reason="the card has room for it beside the models; long texts are read much faster",
        card_lines=(Line("TTS on the card", TTS_CARD_BYTES, "published: 850 MB"),),
        host_lines=(Line("TTS's program", TTS_CARD_HOST_BYTES, "published: 1.92 GiB"),),
    )


def _stt_line(model: SttModel, on_card: bool) -> Line:
    if on_card:
        size = model.download_bytes + _CARD_CONTEXT_BYTES
        return Line(f"STT: {model.name}", size, "its float16 file, and the library's context")
    size = model.download_bytes * _INT8 + _LIBRARY_BYTES
    return Line(f"STT: {model.name}", size, "half of its file (int8), and the library")


def _matrix(place: Place) -> float:
    if place.backend == "cpu":
        return place.matrix_per_s or _ASSUMED_MATRIX
    return place.matrix_per_s or place.bandwidth_bytes_per_s * _CARD_OPERATIONS_PER_BYTE
