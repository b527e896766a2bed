"""Decides what to do with each model, from the disk and the records, never from this run."""

from __future__ import annotations

from dataclasses import dataclass

from hearth_model_puller import state
from hearth_model_puller.environment import memory_problem
from hearth_model_puller.model_list import Model
from hearth_model_puller.ollama import InstalledModel
from hearth_model_puller.state import ModelStatus, PullRecord

# A refused model is gigabytes, so the right one is requested at most once a day.
REFUSED_FOR_S = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Decision:
    """The status of one model, and the actions: pull it, remove it, record it."""

    status: ModelStatus
    pull: bool = False
    remove: bool = False
    record: PullRecord | None = None


def is_ours(record: PullRecord, found: InstalledModel | None) -> bool:
    """Return whether Hearth pulled the model on the disk; a user may have replaced it."""
    if found is None or record.state == "refused":
        return False
    if record.state == "pulling":
        return True
    return record.digest is None or found.digest is None or found.digest == record.digest


def decide(
    model: Model,
    found: InstalledModel | None,
    record: PullRecord | None,
    memory_bytes: int,
    now: float,
    read_only: bool,
) -> Decision:
    """Return the decision on one model; `found` is the model on the disk, if there is one."""
    if found is not None:
        if model.digest is None or found.digest == model.digest:
            return _ready(model, found, record, memory_bytes, now)
        return _other_digest(model, found, record, now, read_only)
    if read_only:
        reason = f"not on this server, where Hearth pulls nothing: run `ollama pull {model.id}`"
        return Decision(ModelStatus(state.MISSING, total_bytes=model.download_bytes, reason=reason))
    if record and record.state == "refused" and _still_refused(model, record, now):
        return Decision(_refusal(model, record.digest))
    problem = memory_problem(model, memory_bytes)
    if problem:
        return Decision(
            ModelStatus(state.TOO_BIG, total_bytes=model.download_bytes, reason=problem)
        )
    return Decision(ModelStatus(state.WAITING), pull=True)


def _ready(
    model: Model, found: InstalledModel, record: PullRecord | None, memory_bytes: int, now: float
) -> Decision:
    size = found.size_bytes
    problem = memory_problem(model, memory_bytes)
    reason = f"installed, but it {problem}" if problem else ""
    status = ModelStatus(state.READY, 100, size, size, reason=reason, digest=found.digest)
    if record is None or record.state != "pulling":
        return Decision(status)
    pulled = PullRecord(model.id, "pulled", digest=found.digest, wanted=model.digest, at=now)
    return Decision(status, record=pulled)


def _other_digest(
    model: Model, found: InstalledModel, record: PullRecord | None, now: float, read_only: bool
) -> Decision:
    """Decide on a model whose manifest is not the one in sources.lock.yml."""
    if read_only or record is None or not is_ours(record, found):
        reason = (
            f"the manifest on the disk is {_short(found.digest)}, the lock has "
            f"{_short(model.digest)}; Hearth did not pull it and leaves it: run "
            f"`ollama rm {model.id}` there, or copy its digest to sources.lock.yml"
        )
        return Decision(ModelStatus(state.FAILED, reason=reason, digest=found.digest))
    arrived = record.state == "pulling" and found.digest != record.before
    # The lock has changed, or the puller was killed before the new manifest arrived.
    if not arrived:
        return Decision(ModelStatus(state.WAITING), pull=True)
    refused = PullRecord(model.id, "refused", digest=found.digest, wanted=model.digest, at=now)
    return Decision(_refusal(model, found.digest), remove=True, record=refused)


def _still_refused(model: Model, record: PullRecord, now: float) -> bool:
    return record.wanted == model.digest and 0 <= now - record.at < REFUSED_FOR_S


def _refusal(model: Model, got: str | None) -> ModelStatus:
    reason = (
        f"the registry served manifest {_short(got)}, the lock has {_short(model.digest)}: "
        "removed, next try in a day; if the publisher changed it, run `hearth lock`"
    )
    return ModelStatus(state.FAILED, total_bytes=model.download_bytes, reason=reason, digest=got)


def _short(digest: str | None) -> str:
    return f"sha256:{digest[:12]}" if digest else "without a digest"
