"""Between the inventory and a plan: what the house needs of it, and what it would change there."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from hearth.catalogue import Catalogue, House
from hearth.catalogue.house import DEFAULT_CONTEXT_TOKENS, Alias, Model
from hearth.files import write_atomic
from hearth.plan import PlanError
from hearth.plan.estimate import estimated_shape
from hearth.plan.machine import MeasuredMachine, read_machine
from hearth.plan.memory import alternatives
from hearth.plan.models import CACHE_BYTES, CacheType, KnownModel, find_model
from hearth.plan.proposal import (
    ROLES,
    Plan,
    Row,
    Wishes,
    as_loaded,
    make_plan,
    speech_alternatives,
)
from hearth.plan.quantisation import weight_bytes
from hearth.plan.speech import STT, TTS, MeasuredWait, SttModel
from hearth.yaml_edit import Value, set_in_file, with_value

_LOCAL = "local"
# A driver that renders in software computes on the processor, too.
_NO_CARD = ("none", "software")
# The size of a model whose download is known tells its parameters; Ollama pulls this by default.
_USUAL = "Q4_K_M"
# A download that differs by more from every file of the list is another model of the same name.
_ALIKE = 0.25


@dataclass(frozen=True, slots=True)
class Change:
    """One value of a file in inventory/local."""

    file: str
    keys: tuple[str, ...]
    value: Value


def wishes_of(
    house: House,
    *,
    context: int | None = None,
    slots: int | None = None,
    cache_type: CacheType = "f16",
    reserve_bytes: float | None = None,
    measured: Sequence[MeasuredWait] = (),
) -> Wishes:
    """Return what this house needs of a plan; `slots` are those that the house sets, or 1."""
    pulled = [model.context or 0 for model in house.models.values() if model.pulled]
    speech = [service for service in house.offering("speech") if service.here]
    servers = [service for service in house.offering("loaded_models") if service.here]
    stt = [
        SttModel(model.name, model.download_bytes or 0, model.gpu is not None)
        for alias in house.aliases.values()
        if alias.kind == "transcribe"
        # A model that needs a card is no member here without one, and the plan may be for another.
        for model in map(house.models.get, (*alias.dropped, *alias.members))
        if model and model.local
    ]
    return Wishes(
        context=context or max(pulled, default=DEFAULT_CONTEXT_TOKENS),
        slots=slots or slots_of(house) or 1,
        cache_type=cache_type,
        reserve_bytes=reserve_bytes,
        first_token_s={one.name: one.first_token_timeout_s for one in house.aliases.values()},
        measured=measured,
        stt_models=sorted(stt, key=lambda model: -model.download_bytes),
        has_tts=bool(speech),
        tts_on_card=True,
        # As `hearth plan` may be for another machine, what is wanted counts, not what is here.
        models_on_card=not servers or any(one.gpu not in _NO_CARD for one in servers),
    )


def measured_waits(receipt: bytes, house: House, machine: MeasuredMachine) -> list[MeasuredWait]:
    """Return what this house's last receipt measured of speech; nothing of what is no receipt."""
    has_cuda = any(card.backend == "cuda" for card in machine.cards)
    try:
        found = json.loads(receipt)
        source = f"measured here on {str(found['made'])[:10]}"
        figures = {one["name"]: one for one in found["figures"]}
        return list(_waits(figures, source, house, has_cuda))
    except (ValueError, TypeError, KeyError, RecursionError):
        return []


def _waits(
    figures: Mapping[str, Any], source: str, house: House, has_cuda: bool
) -> Iterator[MeasuredWait]:
    for service in house.services.values():
        if one := figures.get(f"first sound of {service.name}"):
            wait_s, on_card = one["median"] / 1000, service.gpu == "cuda"
            yield MeasuredWait(what=TTS, on_card=on_card, wait_s=wait_s, source=source)
        if one := figures.get(f"end of speech to text of {service.name}"):
            yield MeasuredWait(
                what=STT,
                on_card=has_cuda and service.gpu in ("auto", "cuda"),
                wait_s=one["median"] / 1000,
                source=source,
                # Its conditions begin with the model.
                model=one["conditions"].partition(",")[0],
            )


def slots_of(house: House) -> int | None:
    """Return how many requests at once the house sets for its model server; None for `auto`."""
    for service in house.offering("loaded_models"):
        # The role's variable has the role's name before it, as all variables of roles.
        found = str(service.settings.get(f"{service.role}_parallel", ""))
        if found.isdecimal() and int(found):
            return int(found)
    return None


def listed(model: Model) -> KnownModel | None:
    """Return the shipped list's model that a model of the inventory is."""
    known = find_model(model.id)
    if known is None or not model.download_bytes:
        return known
    sizes = (size / model.download_bytes for size in known.files.values())
    return known if any(abs(ratio - 1) <= _ALIKE for ratio in sizes) else None


def unlisted_models(house: House) -> list[KnownModel]:
    """Return the inventory's models that the shipped list lacks; dimensions by their size.

    One of the list's name, but of another size, replaces it.
    """
    return [
        KnownModel(
            name=model.name,
            summary=model.summary,
            shape=estimated_shape(_parameters(model.download_bytes or 0)),
            files={_USUAL: model.download_bytes or 0},
            capabilities=tuple(model.capabilities),
            always_thinks=model.always_thinks,
            source="the inventory",
        )
        for model in house.models.values()
        if model.pulled and model.kind == "chat" and model.download_bytes
        if listed(model) is None
    ]


def known_models_of(house: House) -> dict[str, KnownModel]:
    """Return what the planner knows of the house's own models that generate text, by name."""
    extra = {one.name: one for one in unlisted_models(house)}
    chats = [one for one in house.models.values() if one.pulled and one.kind == "chat"]
    found = {one.name: listed(one) or extra.get(one.name) for one in chats}
    return {name: known for name, known in found.items() if known}


def _parameters(download_bytes: int) -> float:
    """Return about how many parameters a file of this size has."""
    beside, each = weight_bytes(0, _USUAL), weight_bytes(1e9, _USUAL) - weight_bytes(0, _USUAL)
    return max(1e7, (download_bytes - beside) / each * 1e9)


def changes(plan: Plan, house: House, catalogue: Catalogue) -> list[Change]:
    """Return what the inventory should say for this plan and does not yet."""
    rows = {row.name: row for row in plan.rows}
    provider = _provider(house, catalogue)
    found: list[Change] = []
    for choice in plan.choices:
        alias = house.aliases.get(choice.role)
        if alias is None or choice.role not in ROLES:
            continue
        name = _inventory_name(house, choice.model)
        if name not in catalogue.models:
            found += _new_model(name, rows[choice.model], provider)
        if plan.wishes.context != wishes_of(house).context:
            tokens = rows[choice.model].context
            found.append(Change("models.yml", ("models", name, "context"), tokens))
        if (members := _members(catalogue, alias, name)) != list(
            catalogue.aliases[alias.name].members
        ):
            found.append(Change("aliases.yml", ("aliases", alias.name, "members"), members))
    found += _speech(plan, house)
    return list({(change.file, change.keys): change for change in found}.values())


def _provider(house: House, catalogue: Catalogue) -> str:
    """Return the provider whose service pulls models."""
    serving = {service.name for service in house.offering("loaded_models")}
    for name, record in catalogue.providers.items():
        if record.service in serving:
            return name
    raise PlanError("no provider in models.yml has a service that pulls models: name one first")


def _inventory_name(house: House, tag: str) -> str:
    """Return the inventory's name of a model that it has under this id, else the id."""
    return next((model.name for model in house.models.values() if model.id == tag), tag)


def _new_model(name: str, row: Row, provider: str) -> Iterator[Change]:
    size = row.needed_bytes
    known = find_model(row.base)
    if known:
        size = known.files[row.quantisation]
    keys = ("models", name)
    record: dict[str, str | bool | Sequence[str]] = {
        "summary": row.summary,
        "provider": provider,
        "download": f"{size / 1e9:.1f}GB",
        "capabilities": list(row.capabilities),
    }
    if row.always_thinks:
        record["always_thinks"] = True
    yield Change("models.yml", keys, record)


def _members(catalogue: Catalogue, alias: Alias, name: str) -> list[str]:
    """Return the members with the proposed model before every other one of this house."""
    before = list(catalogue.aliases[alias.name].members)
    others = [member for member in before if member != name]
    cloud = {key for key, found in catalogue.providers.items() if not found.service}
    first = next(
        (at for at, one in enumerate(others) if catalogue.models[one].provider not in cloud),
        len(others),
    )
    return [*others[:first], name, *others[first:]]


def _speech(plan: Plan, house: House) -> Iterator[Change]:
    """Yield what keeps speech off a card that models need."""
    on_card = {each.what: each.on_card for each in plan.speech}
    if plan.place.backend != "cuda":
        return
    for service in house.services.values():
        hears = "transcription" in service.offers and service.gpu == "auto"
        if hears and on_card.get("transcribe") is False:
            yield Change("services.yml", ("services", service.name, "gpu"), "none")
        if "speech" in service.offers and service.gpu == "cuda" and on_card.get("TTS") is False:
            yield Change("services.yml", ("services", service.name, "enabled"), False)


def diff(folder: Path, wanted: Iterable[Change]) -> str:
    """Return the changes of the inventory's overlay as a unified diff."""
    parts: list[str] = []
    for name, before, after in _texts(folder, wanted):
        shown = f"{_LOCAL}/{name}"
        lines = difflib.unified_diff(
            before.splitlines(), after.splitlines(), shown, shown, lineterm=""
        )
        parts += lines
    return "\n".join(parts)


def _texts(folder: Path, wanted: Iterable[Change]) -> Iterator[tuple[str, str, str]]:
    by_file: dict[str, list[Change]] = {}
    for change in wanted:
        by_file.setdefault(change.file, []).append(change)
    for name, each in by_file.items():
        path = folder / _LOCAL / name
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        after = before or "---\n"
        for change in each:
            try:
                after = with_value(after, change.keys, change.value)
            except ValueError:
                raise PlanError(
                    f"{path}: Hearth cannot edit this file safely: write {'.'.join(change.keys)}: "
                    f"{change.value} into it by hand"
                ) from None
        yield name, before, after


def apply_changes(folder: Path, wanted: Sequence[Change], check: Callable[[], object]) -> None:
    """Write the changes into inventory/local; as before where the `check` raises.

    Raises:
        EditError: a file cannot be edited safely.
    """
    paths = {folder / _LOCAL / change.file for change in wanted}
    before = {path: path.read_bytes() if path.exists() else None for path in paths}
    try:
        for change in wanted:
            set_in_file(folder / _LOCAL / change.file, change.keys, change.value)
        check()
    except BaseException:
        for path, content in before.items():
            if content is None:
                path.unlink(missing_ok=True)
            else:
                write_atomic(path, content)
        raise


def plan_of_document(document: str, name: str, house: House) -> Plan:
    """Return a stored plan, made again for this house as it is now.

    Raises:
        PlanError: the document is no plan.
    """
    try:
        stored = json.loads(document)
        machine, reserve = json.dumps(stored["machine"]), stored["reserve_bytes"]
        slots, cache_type = int(stored["slots"]), stored["cache_type"]
        if cache_type not in CACHE_BYTES:
            raise ValueError
        wishes = wishes_of(
            house,
            slots=slots_of(house) or slots,
            cache_type=cache_type,
            reserve_bytes=None if reserve is None else float(reserve),
            measured=TypeAdapter(list[MeasuredWait]).validate_python(
                stored.get("measured_waits", [])
            ),
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        raise PlanError(f"{name} is not a plan") from None
    return make_plan(read_machine(machine, name), wishes, unlisted_models(house))


def misfits(plan: Plan, house: House) -> Iterator[str]:
    """Yield a line for each model of an alias that does not fit, with what would help."""
    known = known_models_of(house)
    seen = set()
    for alias in house.aliases.values():
        for member in alias.members:
            if member in seen or member not in known:
                continue
            seen.add(member)
            model = house.models[member]
            row = row_of(plan, model, known[member])
            if row and not row.fits:
                yield _misfit(plan, model, known[member], row, alias.name)


def row_of(plan: Plan, model: Model, known: KnownModel | None) -> Row | None:
    """Return the row of the quantisation that this model's tag names, else that of the usual."""
    rows = [row for row in plan.rows if known and row.base == known.name]
    tag = model.id.removesuffix(":latest")
    return next((row for row in rows if row.name == tag), rows[0] if rows else None)


def _misfit(plan: Plan, model: Model, known: KnownModel, row: Row, alias: str) -> str:
    room = plan.room_bytes
    text = (
        f"models.yml: {model.name} ({alias}) needs {row.needed_bytes / 1e9:.1f} GB, and "
        f"{plan.place.name} has {max(0, room) / 1e9:.1f} GB for models"
    )
    if row.tokens_per_s:
        text += f"; {row.speed.on_host:.0%} of it would run on the processor, at about "
        text += f"{row.tokens_per_s:.0f} tokens/s"
    one = as_loaded(known, row.quantisation, plan.wishes)
    savings = [*alternatives(one), *speech_alternatives(plan.speech, plan.place, plan.processor)]
    helps = [
        f"{saving.what}: -{saving.saves_bytes / 1e9:.1f} GB, {saving.price}"
        for saving in savings
        if saving.saves_bytes >= row.needed_bytes - room
    ]
    helps += [f"{choice.model} instead" for choice in plan.choices if choice.role == alias]
    return f"{text}: " + ("; or ".join(helps) or "remove it from its aliases")
