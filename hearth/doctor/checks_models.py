"""Findings about models: their device, their memory, whether they are there, and their keys."""

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hearth.catalogue.house import Service
from hearth.clients import ClientError
from hearth.clients.endpoints import Edge, lan_address, one_line
from hearth.clients.llm import devices
from hearth.clients.loaded import LoadedModel
from hearth.clients.loaded import loaded_models as in_memory
from hearth.clients.models import FAILED, MISSING, WAITING, AliasState
from hearth.doctor import background
from hearth.doctor.finding import Context, Finding, check
from hearth.doctor.kinds import (
    GPU_DRIVER,
    GPU_ON_CPU,
    KEY_REVOKED,
    MODEL_FAILED,
    MODEL_MISSING,
    MODEL_ON_CPU,
    MODELS_UNKNOWN,
    SECRET_MISSING,
    SLOWER_THAN_PHYSICS,
    SWAP,
)
from hearth.machine import environment, facts, outside
from hearth.machine.facts import Graphics
from hearth.machine.secrets import SecretsError
from hearth.paths import BENCH_LLM, RECEIPT_FOLDER, ROOT_CERTIFICATE
from hearth.project import VERIFIER

_DEVICES = (
    'journalctl --no-pager --output=cat --grep="inference compute" '
    '"_SYSTEMD_INVOCATION_ID=$(systemctl show "$1" --property=InvocationID --value)"'
)
_CARDS = {"cuda": "gpu", "vulkan": "render0"}
# A program that rests has some of its memory in the swap space, which harms nothing.
_SWAPPED_BYTES, _SWAPPED_PART = 256 * 2**20, 0.1
_FIELD = re.compile(r"^(VmRSS|VmSwap):\s+(\d+) kB", re.MULTILINE)
# A member of an alias, and the status of its error, in the gateway's access log.
_TRIED = re.compile(r"\bmember=(\S+) .*?\btried=(\S+)")
_REJECTED = ("401", "403")
_KEY_S = 4.0


def accelerators(context: Context) -> dict[str, str]:
    """Return the kind of card that each service's instance was given, if any."""
    found = {}
    for name, instance in context.instances().items():
        there = instance.get("devices") or {}
        kind = next((kind for kind, device in _CARDS.items() if device in there), "")
        if kind:
            found[name] = kind
    return found


@check(every_s=60)
def cards(context: Context) -> Iterator[Finding]:
    """Find a card whose driver does not work, and programs that compute without their card."""
    given = accelerators(context)
    seen = facts.graphics(context.root)
    broken = {kind: why for kind in {*given.values()} if (why := _driver(context, kind, seen))}
    for kind, why in broken.items():
        hits = tuple(name for name, its in given.items() if its == kind)
        yield Finding(GPU_DRIVER, kind, why, hits)
    for service in context.entered():
        if service.name in given and (why := _processor(context, service, given[service.name])):
            models = (
                one.name for one in context.house.models.values() if one.service == service.name
            )
            yield Finding(GPU_ON_CPU, service.name, why, tuple(models))


def _driver(context: Context, kind: str, seen: Graphics) -> str:
    """Return what is wrong with the driver of a card that instances were given."""
    if kind == "vulkan":
        # The watcher's own /dev has none.
        there = any(facts.driven_nodes(context.root))
        return "" if there else "the kernel has no render node of a card any more"
    if not seen.nvidia_card:
        where = "on the PCI bus" if environment.nvidia_on_bus(context.root) else "nowhere"
        return f"/dev/nvidia0 is not there; the card is {where}"
    loaded = re.search(
        r"Module\s+(\d[\d.]+)", facts.text_of(context.root / "proc/driver/nvidia/version")
    )
    libraries = (context.root / "usr/lib").glob("*/libnvidia-ml.so.[0-9]*.*")
    installed = sorted(path.name.partition(".so.")[2] for path in libraries)
    if loaded and installed and loaded[1] not in installed:
        return f"the kernel's module is {loaded[1]}, and the libraries are {installed[-1]}: reboot"
    return ""


def _processor(context: Context, service: Service, kind: str) -> str:
    """Return the reason if a program that was given a card does not compute on one."""
    if any(one.pulled and one.service == service.name for one in context.house.models.values()):
        log = context.output(service.system, "/bin/sh", "-c", _DEVICES, "devices", service.unit)
        used = devices(log.splitlines())
        if used and all(one.processor or one.software for one in used):
            return f"it was given {kind} and computes on {', '.join(one.text for one in used)}"
        return ""
    # Its own /status names what a program of ours computes on; these have no Vulkan.
    if kind != "cuda" or not service.metrics_port:
        return ""
    try:
        status = context.fetch(f"{service.url}/status")
    except ClientError:
        return ""
    on = background.device(status)
    return f"it was given {kind} and computes on {on}" if "cpu" in on.lower() else ""


@check(every_s=60)
def loaded(context: Context) -> Iterator[Finding]:
    """Find loaded models that are not, or not wholly, on the card that their server has."""
    given = accelerators(context)
    for service in context.house.services.values():
        for one in loaded_models(context, service) if service.name in given else ():
            if one.vram_bytes < one.size_bytes:
                on_card, size = one.vram_bytes / 2**30, one.size_bytes / 2**30
                part = f"{on_card:.1f} of {size:.1f} GiB are on the card"
                yield Finding(MODEL_ON_CPU, one.name, part)


def loaded_models(context: Context, service: Service) -> list[LoadedModel]:
    """Return the models that a server has loaded."""
    if "loaded_models" not in service.offers:
        return []
    try:
        return in_memory(service, context.fetch, context.root)
    except ClientError:
        # A server that does not answer has a finding of its own.
        return []


@check(every_s=60)
def slower_than_physics(context: Context) -> Iterator[Finding]:
    """Find models whose last measurement was below what the planner computes."""
    path = context.root / (RECEIPT_FOLDER / BENCH_LLM).relative_to("/")
    try:
        models = json.loads(path.read_bytes())["models"]
        slow = [one for one in models if one["match"] == "slower"]
        for one in slow:
            if one["name"] in context.house.models or one["name"] in context.house.aliases:
                yield Finding(SLOWER_THAN_PHYSICS, one_line(one["name"]), _slower(one))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        # Nothing was measured yet, or by another version.
        return


def _slower(one: Mapping[str, Any]) -> str:
    band, found = one["expected"]["hearth"], float(one["tokens_per_s"])
    low, high = float(band["low"]), float(band["high"])
    why = "; ".join(one["causes"]) or "no cause was seen: something else may have used the machine"
    text = f"{found:.1f} tokens/s measured, {low:.1f} to {high:.1f} computed; likely {why}"
    return one_line(text)


@check(every_s=60)
def swap(context: Context) -> Iterator[Finding]:
    """Find programs with models, a good part of whose memory is in the swap space."""
    house = context.house
    serving = {one.service for one in house.models.values() if one.local}
    owners = {
        one.instance: one.name
        for one in house.services.values()
        if one.name in serving or {"speech", "transcription"} & {*one.offers}
    }
    kept: dict[str, dict[str, int]] = {}
    for folder in (context.root / "proc").glob("[0-9]*"):
        inside = outside.instance_of(_text(folder / "cgroup"))
        if inside in owners:
            sums = kept.setdefault(owners[inside], {"VmRSS": 0, "VmSwap": 0})
            for name, kib in _FIELD.findall(_text(folder / "status")):
                sums[name] += int(kib) * 1024
    for name, sums in kept.items():
        out, whole = sums["VmSwap"], sum(sums.values())
        if out >= _SWAPPED_BYTES and out >= _SWAPPED_PART * whole:
            why = (
                f"{out / 2**30:.1f} of {whole / 2**30:.1f} GiB of its memory are in the swap space"
            )
            yield Finding(SWAP, name, why)


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


@check(every_s=60)
def models(context: Context) -> Iterator[Finding]:
    """Find models that are missing, or whose download has failed for a day."""
    overview, now = context.models(), datetime.fromtimestamp(context.now, UTC)
    used = {name for alias in context.house.aliases.values() for name in alias.members}
    for state in overview.models.values():
        # A model that the machine hands in is there, or a run has to fetch it.
        absent = state.state == WAITING and context.house.models[state.name].program
        if state.name in used and (state.state == MISSING or absent):
            yield Finding(MODEL_MISSING, state.name, one_line(state.reason or "it is not there"))
        alone = AliasState(state.name, "", 0, None, state.reason, state.name, state.failing_since)
        if state.state == FAILED and (text := alone.overdue(now)):
            yield Finding(MODEL_FAILED, state.name, one_line(text))
    for note in overview.notes:
        name, _, why = note.partition(": ")
        yield Finding(MODELS_UNKNOWN, name, one_line(why))


@check(every_s=600)
def secrets(context: Context) -> Iterator[Finding]:
    """Find secrets that the house needs and its vault does not have."""
    if context.vault is None:
        return
    try:
        values = context.vault.values()
    except SecretsError as error:
        yield Finding(SECRET_MISSING, str(context.vault.path), one_line(error))
        return
    made = {name for name, kind in context.house.secrets.items() if kind == "random"}
    missing = sorted((made | needed_secrets(context)) - values.keys())
    if len(missing) == 1:
        text = f"{missing[0]} has no value in {context.vault.path}"
        yield Finding(SECRET_MISSING, missing[0], text)
    elif missing:
        text = f"{len(missing)} secrets have no value in it, such as {', '.join(missing[:3])}"
        yield Finding(SECRET_MISSING, str(context.vault.path), text)


def needed_secrets(context: Context) -> set[str]:
    """Return the given secrets without which a service does not work."""
    owners = (*context.house.services.values(), *context.house.parts.values())
    return {name for one in owners for name, kind in one.secrets.items() if kind == "given"}


@check(every_s=600)
def keys(context: Context) -> Iterator[Finding]:
    """Find keys that the house itself, or a provider in the cloud, rejects."""
    yield from _house_key(context)
    providers = {one.name: one for one in context.house.models.values() if one.host and one.usable}
    for service in context.entered() if providers else ():
        if "models" not in service.offers:
            continue
        argv = ("/usr/bin/journalctl", "--no-pager", "--output=cat", "--since=-1h", "--unit")
        log = context.output(service.system, *argv, service.unit, "--grep=member=")
        rejected: dict[str, str] = {}
        for member, tried in _TRIED.findall(log):
            rejected.pop(member, None)
            for one in tried.split(","):
                name, _, status = one.rpartition(":")
                if name in providers:
                    rejected.pop(name, None)
                    rejected |= {name: status} if status in _REJECTED else {}
        found: dict[str, str] = {}
        for name, status in rejected.items():
            model = providers[name]
            found[str(model.secret)] = f"{model.host} answered HTTP {status} for {name}"
        for name, why in found.items():
            yield Finding(KEY_REVOKED, name, why)


def _house_key(context: Context) -> Iterator[Finding]:
    """Call the gateway as the smoke tests do: its answer to a list of models costs nothing."""
    gateway = next((one for one in context.house.offering("models") if one.sites), None)
    own = lan_address(context.house)
    if gateway is None or context.vault is None or own is None:
        return
    try:
        key = context.vault.get(VERIFIER)
        edge = Edge(own, ROOT_CERTIFICATE)
        fqdn = gateway.sites[0].fqdn
        answer = edge.request(fqdn, "/v1/models", key=key, within_s=_KEY_S)
    except (SecretsError, ClientError):
        # Another finding is about a missing secret, or about what does not answer.
        return
    if str(answer.status) in _REJECTED:
        why = f"https://{fqdn} answers HTTP {answer.status} to the key {VERIFIER}"
        yield Finding(KEY_REVOKED, VERIFIER, why)
