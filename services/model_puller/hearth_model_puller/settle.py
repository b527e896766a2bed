"""Decides from what is on the disk and what is recorded, never from this run's history."""

from __future__ import annotations

from dataclasses import dataclass

from hearth_model_puller import room, state
from hearth_model_puller.ollama import Present
from hearth_model_puller.state import Entry, Record
from hearth_model_puller.wanted import Model

# A refused model is gigabytes; the registry gets one chance a day to serve the right one.
REFUSED_FOR_S = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one model is, and what is to be done: pull it, remove it, record it."""

    entry: Entry
    pull: bool = False
    remove: bool = False
    record: Record | None = None


def is_ours(record: Record, there: Present | None) -> bool:
    """Say whether the model on the disk is the one that Hearth pulled, not one put in its place."""
    if there is None or record.state == "refused":
        return False
    if record.state == "pulling":
        return True
    return record.digest is None or there.digest is None or there.digest == record.digest


def settle(
    model: Model,
    there: Present | None,
    record: Record | None,
    memory_bytes: int,
    now: float,
    read_only: bool,
) -> Verdict:
    """Return the verdict on one model; `there` is what is on the disk, None for nothing."""
    if there is not None:
        if model.digest is None or there.digest == model.digest:
            return _ready(model, there, record, memory_bytes, now)
        return _other_digest(model, there, record, now, read_only)
    if read_only:
        reason = f"not on this server, where Hearth pulls nothing: run `ollama pull {model.id}`"
        return Verdict(Entry(state.MISSING, total_bytes=model.download_bytes, reason=reason))
    if record and record.state == "refused" and _still_refused(model, record, now):
        return Verdict(_refusal(model, record.digest))
    too_big = room.lacks_memory(model, memory_bytes)
    if too_big:
        return Verdict(Entry(state.TOO_BIG, total_bytes=model.download_bytes, reason=too_big))
    return Verdict(Entry(state.WAITING), pull=True)


def _ready(
    model: Model, there: Present, record: Record | None, memory_bytes: int, now: float
) -> Verdict:
    size = there.size_bytes
    too_big = room.lacks_memory(model, memory_bytes)
    reason = f"here, but it {too_big}" if too_big else ""
    entry = Entry(state.READY, 100, size, size, reason=reason, digest=there.digest)
    if record is None or record.state != "pulling":
        return Verdict(entry)
    pulled = Record(model.id, "pulled", digest=there.digest, wanted=model.digest, at=now)
    return Verdict(entry, record=pulled)


def _other_digest(
    model: Model, there: Present, record: Record | None, now: float, read_only: bool
) -> Verdict:
    """Judge a model whose manifest is not the one that the lock names."""
    if read_only or record is None or not is_ours(record, there):
        reason = (
            f"on the disk is manifest {_short(there.digest)}, the lock says "
            f"{_short(model.digest)}; Hearth did not pull it and leaves it: run "
            f"`ollama rm {model.id}` there, or take its digest into sources.lock.yml"
        )
        return Verdict(Entry(state.FAILED, reason=reason, digest=there.digest))
    arrived = record.state == "pulling" and there.digest != record.before
    if not arrived:  # the lock moved on, or a kill came before the new manifest did
        return Verdict(Entry(state.WAITING), pull=True)
    refused = Record(model.id, "refused", digest=there.digest, wanted=model.digest, at=now)
    return Verdict(_refusal(model, there.digest), remove=True, record=refused)


def _still_refused(model: Model, record: Record, now: float) -> bool:
    return record.wanted == model.digest and 0 <= now - record.at < REFUSED_FOR_S


def _refusal(model: Model, got: str | None) -> Entry:
    reason = (
        f"the registry served manifest {_short(got)}, the lock says {_short(model.digest)}: "
        "removed, tried again in a day; if the publisher changed it, run `hearth lock`"
    )
    return Entry(state.FAILED, total_bytes=model.download_bytes, reason=reason, digest=got)


def _short(digest: str | None) -> str:
    return f"sha256:{digest[:12]}" if digest else "without a digest"
