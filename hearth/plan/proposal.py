"""A plan for one machine: what fits, how fast, what to use for which alias, and why."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hearth.plan.machine import MeasuredMachine, Place, places
from hearth.plan.memory import (
    Alternative,
    Budget,
    Line,
    Loaded,
    alternatives,
    budget,
    house_line,
    loaded,
    reserve_lines,
)
from hearth.plan.models import CacheType, KnownModel, Role, find_model, known_models
from hearth.plan.speech import (
    TTS,
    MeasuredWait,
    SpeechChoice,
    SttModel,
    choose_stt,
    choose_tts,
    tts_wait_s,
)
from hearth.plan.speed import LEAST_PARAMETERS, Speed, speed_of, with_draft

# Generated tokens per second that a role should have, the least quality for which that speed is
# worth it, and the most seconds to the first token; the next line where no model has the first.
_ENOUGH: Mapping[Role, tuple[tuple[float, int, float], ...]] = {
    # Spoken and short answers: several times as fast as a person reads, or at least faster.
    "fast": ((40.0, 24, 5.0), (10.0, 0, 30.0), (5.0, 0, 60.0)),
    "coder": ((8.0, 0, math.inf), (4.0, 0, math.inf)),
    # A person reads about 5 words a second, which are 7 tokens.
    "local": ((7.0, 0, math.inf), (3.0, 0, math.inf)),
    "reasoning": ((8.0, 0, math.inf), (4.0, 0, math.inf)),
    "vision": ((5.0, 0, math.inf), (2.0, 0, math.inf)),
}
ROLES: tuple[Role, ...] = tuple(_ENOUGH)
# Preferred first: a smaller file is faster, and hardly worse.
_QUANTISATIONS = ("Q4_K_M", "MXFP4", "Q4_0", "Q8_0")
_MOST_ALTERNATIVES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What a plan is made for: `context` is the tokens of one conversation, of which `slots` run.

    `reserve_bytes` replaces what others hold of the first device. `first_token_s` is how long each
    alias waits for a first token before it calls its next member. `stt_models` are in the order in
    which they are tried, `measured` are waits in this very house, and `tts_on_card` says whether
    the house may run TTS on a card. Without `models_on_card`, models and speech are planned on the
    processor.
    """

    context: int = 8192
    slots: int = 1
    cache_type: CacheType = "f16"
    reserve_bytes: float | None = None
    first_token_s: Mapping[str, float] = field(default_factory=dict)
    stt_models: Sequence[SttModel] = ()
    measured: Sequence[MeasuredWait] = ()
    has_tts: bool = True
    tts_on_card: bool = True
    models_on_card: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One model in one quantisation on this machine, with a `context` of so many tokens.

    `needed_bytes` is what it takes of the first device. A model that thinks first writes its
    answer after `answer_s`, by its usual number of thoughts. `draft_tokens_per_s` is what a small
    model's guesses make of it, in a runtime that uses them.
    """

    name: str
    base: str
    summary: str
    quantisation: str
    context: int
    needed_bytes: float
    speed: Speed
    answer_s: float | None = None
    draft: str | None = None
    draft_tokens_per_s: float | None = None
    capabilities: tuple[str, ...] = ()
    always_thinks: bool = False

    @property
    def fits(self) -> bool:
        """Whether all of it is in the memory that computes it."""
        return self.speed.where in ("vram", "shared", "cpu")

    @property
    def tokens_per_s(self) -> float:
        """Generated tokens per second; 0 where it does not run."""
        return self.speed.tokens_per_s.value if self.speed.tokens_per_s else 0.0


@dataclass(frozen=True, slots=True)
class Choice:
    """The model for a role, as its runtime names it, and why."""

    role: str
    model: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All of it: the first budget is that of the device on which models compute.

    `taken` is what it holds besides models. `most_loaded` models of the choices fit at once.
    `savings` are what would make room.
    """

    machine: MeasuredMachine
    place: Place
    processor: Place
    wishes: Wishes
    rows: tuple[Row, ...]
    choices: tuple[Choice, ...]
    speech: tuple[SpeechChoice, ...]
    taken: tuple[Line, ...]
    budgets: tuple[Budget, ...]
    most_loaded: int
    savings: tuple[Alternative, ...]
    notes: tuple[str, ...]

    @property
    def room_bytes(self) -> float:
        """What the first device has for models."""
        return _room_bytes(self.place, self.taken)


@dataclass(frozen=True, slots=True)
class _Room:
    """One way to share the devices: speech, and what it leaves for models."""

    speech: tuple[SpeechChoice, ...]
    lines: tuple[Line, ...]


def make_plan(machine: MeasuredMachine, wishes: Wishes, extra: Iterable[KnownModel] = ()) -> Plan:
    """Return the plan for a machine; `extra` are models that the shipped list does not have."""
    found = places(machine)
    cpu = found[-1]
    place = found[0] if wishes.models_on_card else cpu
    models = {**known_models(), **{model.name: model for model in extra}}
    options = [
        (room, rows, _choices(rows, models, wishes))
        for room in _rooms(place, cpu, wishes)
        for rows in [_rows(models.values(), place, wishes, room.lines)]
    ]
    # More on the card comes first, and counts only where the models are as good.
    room, rows, choices = max(options, key=lambda option: _worth(option[2], models, option[1]))
    by_name = {row.name: row for row in rows}
    chosen = [by_name[choice.model] for choice in choices]
    largest = max(chosen, key=lambda row: row.needed_bytes, default=None)
    return Plan(
        machine=machine,
        place=place,
        processor=cpu,
        wishes=wishes,
        rows=rows,
        choices=choices,
        speech=room.speech,
        taken=room.lines,
        budgets=tuple(_budgets(place, cpu, room, wishes, largest, models)),
        most_loaded=_most_loaded(place, room.lines, chosen),
        savings=tuple(_savings(place, cpu, room, wishes, largest, models)),
        notes=tuple(_notes(machine, place, found, choices)),
    )


def _rooms(place: Place, cpu: Place, wishes: Wishes) -> list[_Room]:
    """Return the ways to place speech, those with more on the card first."""
    reserve = reserve_lines(place, wishes.reserve_bytes)
    card = place.backend == "cuda" and place.kind == "dedicated"
    ways = [(True, True), (True, False), (False, False)] if card else [(False, False)]
    rooms = []
    for stt_on_card, tts_on_card in ways:
        if tts_on_card and not (wishes.has_tts and wishes.tts_on_card):
            continue
        speech = []
        where, measured = place if stt_on_card else cpu, wishes.measured
        if stt := choose_stt(wishes.stt_models, where, cpu, measured):
            speech.append(stt)
        if wishes.has_tts:
            speech.append(choose_tts(place, cpu, tts_on_card, measured))
        lines = [line for each in speech for line in each.card_lines]
        if place.kind == "shared":
            lines += [house_line(), *(line for each in speech for line in each.host_lines)]
        rooms.append(_Room(tuple(speech), (*reserve, *lines)))
    return rooms


def _rows(
    models: Iterable[KnownModel], place: Place, wishes: Wishes, lines: Sequence[Line]
) -> tuple[Row, ...]:
    taken = sum(line.size_bytes for line in lines)
    return tuple(
        _row(model, quantisation, place, wishes, taken)
        for model in models
        for quantisation in sorted(model.files, key=_order)
    )


def _order(quantisation: str) -> int:
    known = quantisation in _QUANTISATIONS
    return _QUANTISATIONS.index(quantisation) if known else len(_QUANTISATIONS)


def as_loaded(model: KnownModel, quantisation: str, wishes: Wishes) -> Loaded:
    """Return a model as the house would load it."""
    context = min(wishes.context, model.shape.context or wishes.context)
    return loaded(model, quantisation, context, wishes.slots, wishes.cache_type)


def _row(model: KnownModel, quantisation: str, place: Place, wishes: Wishes, taken: float) -> Row:
    one = as_loaded(model, quantisation, wishes)
    work = one.work(place)
    speed = speed_of(work, place, taken)
    if work.parameters < LEAST_PARAMETERS:
        speed = Speed(where=speed.where, on_host=speed.on_host)
    row = Row(
        name=one.name,
        base=model.name,
        summary=model.summary,
        quantisation=quantisation,
        context=one.context,
        needed_bytes=sum(line.size_bytes for line in one.lines(place)),
        speed=speed,
        capabilities=model.capabilities,
        always_thinks=model.always_thinks,
    )
    if not (speed.tokens_per_s and speed.first_token_s):
        return row
    if model.thinks:
        thinks_s = model.thought_tokens / speed.tokens_per_s.value
        row = replace(row, answer_s=speed.first_token_s.value + thinks_s)
    draft = find_model(model.draft) if model.draft else None
    if draft and row.fits:
        small = as_loaded(draft, next(iter(draft.files)), wishes)
        needed = taken + row.needed_bytes
        guesses = speed_of(small.work(place), place, needed)
        if guesses.tokens_per_s and guesses.where == speed.where:
            faster = with_draft(speed.tokens_per_s.value, guesses.tokens_per_s.value)
            row = replace(row, draft=small.name, draft_tokens_per_s=faster)
    return row


def _choices(
    rows: Sequence[Row], models: Mapping[str, KnownModel], wishes: Wishes
) -> tuple[Choice, ...]:
    found = (_choose(role, rows, models, wishes.first_token_s.get(role)) for role in ROLES)
    return tuple(choice for choice in found if choice)


def _choose(
    role: Role, rows: Sequence[Row], models: Mapping[str, KnownModel], within_s: float | None
) -> Choice | None:
    """Return the best model for a role among those that are fast enough.

    Its first token comes `within_s`, also after a long prompt on a machine at the slow end.
    """
    quality = {row.name: models[row.base].quality.get(role, 0) for row in rows}
    usable = [row for row in rows if row.fits and quality[row.name]]
    if role == "fast":
        usable = [row for row in usable if not row.always_thinks]
    in_time = [row for row in usable if _is_in_time(row, within_s)]
    # One file of each model: the smallest quantisation that fits.
    first: dict[str, Row] = {}
    for row in in_time or usable:
        first.setdefault(row.base, row)
    late = "" if in_time else f"; {role} may give up before its first token after a long prompt"
    for enough, least, most_s in _ENOUGH[role]:
        quick = [row for row in first.values() if row.tokens_per_s >= enough]
        quick = [row for row in quick if _first_s(row) <= most_s]
        if quick := [row for row in quick if quality[row.name] >= least]:
            best = max(quick, key=lambda row: (quality[row.name], row.tokens_per_s))
            return Choice(role, best.name, _reason(role, best, enough) + late)
    if not first:
        return None
    best = max(first.values(), key=lambda row: row.tokens_per_s)
    return Choice(role, best.name, f"the fastest that fits; {_figures(best)}{late}")


def _first_s(row: Row) -> float:
    return row.speed.first_token_s.value if row.speed.first_token_s else math.inf


def _is_in_time(row: Row, within_s: float | None) -> bool:
    first = row.speed.first_token_s
    return within_s is None or (first is not None and first.high <= within_s)


def _reason(role: Role, row: Row, enough: float) -> str:
    text = f"the best for {role} that fits with at least {enough:g} tokens/s: {_figures(row)}"
    if (row.always_thinks or role == "reasoning") and row.answer_s:
        text += f"; thinks first, so the answer starts after about {row.answer_s:.0f} s"
    return text


def _figures(row: Row) -> str:
    band = row.speed.tokens_per_s
    return f"{band.value:.0f} ({band.low:.0f} to {band.high:.0f})" if band else "no speed"


def _worth(
    choices: Sequence[Choice], models: Mapping[str, KnownModel], rows: Sequence[Row]
) -> float:
    """Return how good the chosen models are together."""
    bases = {row.name: row.base for row in rows}
    return sum(
        models[bases[choice.model]].quality.get(choice.role, 0)  # type: ignore[call-overload]
        for choice in choices
    )


def _budgets(
    place: Place,
    cpu: Place,
    room: _Room,
    wishes: Wishes,
    largest: Row | None,
    models: Mapping[str, KnownModel],
) -> Iterable[Budget]:
    """Yield the budget of the device of models, and that of the system's memory beside a card."""
    lines = room.lines
    if largest:
        one = as_loaded(models[largest.base], largest.quantisation, wishes)
        lines = (*lines, *one.lines(place))
    yield budget(place, lines)
    if place.kind == "dedicated":
        host = (line for each in room.speech for line in each.host_lines)
        yield budget(cpu, (*reserve_lines(cpu), house_line(), *host))


def _most_loaded(place: Place, lines: Sequence[Line], chosen: Sequence[Row]) -> int:
    """Return how many of the chosen models fit at once, the smallest first."""
    room = _room_bytes(place, lines)
    count = 0
    for size in sorted({row.name: row.needed_bytes for row in chosen}.values()):
        if size > room:
            break
        room -= size
        count += 1
    return max(1, count)


def _room_bytes(place: Place, lines: Sequence[Line]) -> float:
    taken = sum(line.size_bytes for line in lines)
    return min(place.memory_bytes - taken, place.limit_bytes)


def _savings(
    place: Place,
    cpu: Place,
    room: _Room,
    wishes: Wishes,
    largest: Row | None,
    models: Mapping[str, KnownModel],
) -> Iterable[Alternative]:
    """Yield what would make room beside the largest chosen model, with its price."""
    if largest:
        one = as_loaded(models[largest.base], largest.quantisation, wishes)
        yield from list(alternatives(one))[:_MOST_ALTERNATIVES]
    yield from speech_alternatives(room.speech, place, cpu)


def speech_alternatives(
    speech: Iterable[SpeechChoice], place: Place, cpu: Place
) -> Iterable[Alternative]:
    """Yield what moving speech off the card saves, with what people then wait."""
    for each in speech:
        saves = sum(line.size_bytes for line in each.card_lines)
        if not saves:
            continue
        if each.what == TTS:
            later = tts_wait_s(cpu) - tts_wait_s(place)
            yield Alternative("TTS on the processor", saves, f"first sound +{1000 * later:.0f} ms")
        else:
            price = "a smaller model, or a later text"
            yield Alternative("STT on the processor", saves, price)


def _notes(
    machine: MeasuredMachine, place: Place, found: Sequence[Place], choices: Sequence[Choice]
) -> Iterable[str]:
    yield from machine.notes
    if place.is_estimated:
        yield (
            f"the bandwidth of {place.name} is not known: {place.bandwidth_bytes_per_s / 1e9:g} "
            "GB/s is assumed, and the speeds are rough"
        )
    if machine.is_virtual:
        yield "this is a virtual machine: its memory's speed depends on what else runs on its host"
    if len(machine.nodes) > 1:
        yield f"{len(machine.nodes)} memory nodes: a model gets the bandwidth of one of them"
    if place.cards > 1:
        yield f"{place.cards} cards share a model's layers in turns: more memory, not more speed"
    for other in found[:-1]:
        if place is found[-1]:
            yield f"{other.name} is not used: the inventory gives the model server no card"
        elif other is not place:
            yield f"{other.name} is not used: models compute on {place.name}"
    if not choices:
        yield "no model of the list fits: use models in the cloud, or add memory"
