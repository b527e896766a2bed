"""What the servers of models say of what they have, and what lies on this machine's disk."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from hearth.catalogue.house import Model, Service

WAITING, PULLING, READY = "waiting", "pulling", "ready"
FAILED, TOO_BIG, MISSING = "failed", "too_big", "missing"
# The puller writes every minute even when it has nothing to do.
_STALE_AFTER = timedelta(minutes=3)
_LINE = 300
_MOST = 2**63
# What Hearth installs whole or not at all has a list of its files beside them.
_LIST = "/var/lib/hearth/programs/{program}/current/.hearth-manifest.json"

ReadFile = Callable[[str | None, str], str | bytes]
"""Reads a file of an instance, or of the machine (None): (instance, path) -> its content."""
AskJson = Callable[[str], Any]
"""Asks a server that is not ours: URL -> the JSON it answers."""
Entries = Mapping[str, Mapping[str, Any]]


def said_of(
    service: Service, models: Iterable[Model], read: ReadFile, ask: AskJson, now: datetime
) -> tuple[Entries, str]:
    """Return an entry for each known model of one server, and a note on what is wrong."""
    if service.runtime == "external":
        return _external(service, models, ask)
    handed_in = {model.name: _on_disk(model, read) for model in models if model.program}
    if all(model.program for model in models):
        return handed_in, ""
    said, note = _progress(service, read, now)
    return {**said, **handed_in}, note


def key_of(model_id: str) -> str:
    """Return one spelling for all the ways in which Ollama lets a model be written."""
    key = model_id.strip().lower().removeprefix("registry.ollama.ai/").removeprefix("library/")
    return key if ":" in key.rsplit("/", 1)[-1] else f"{key}:latest"


def _on_disk(model: Model, read: ReadFile) -> Mapping[str, Any]:
    """Return the entry of a model that the machine hands in: it is here as a whole or not."""
    try:
        listed = json.loads(read(None, _LIST.format(program=model.program)))
        size = sum(int(entry[2]) for entry in listed.values() if entry[0] == "file")
    except Exception:  # whatever stands in the way of reading it, `hearth up` mends
        return {"state": WAITING, "reason": "the next `hearth up` fetches it"}
    return {"state": READY, "percent": 100, "completed_bytes": size, "total_bytes": size}


def _progress(
    service: Service, read: ReadFile, now: datetime
) -> tuple[Mapping[str, Mapping[str, Any]], str]:
    """Return the puller's entries by model name, and what is wrong with them."""
    path = f"/var/lib/{service.role}/hearth/progress.json"
    try:
        document = json.loads(read(service.instance, path))
        entries = {str(name): _entry(entry) for name, entry in document["models"].items()}
        age = now - datetime.fromisoformat(document["updated_at"]).astimezone(UTC)
    except Exception as error:  # whatever the engine raises, the other models are still to be shown
        return {}, f"{service.name}: no word of its model puller ({_one_line(error)})"
    if age > _STALE_AFTER:
        minutes = int(age.total_seconds() // 60)
        silent = f"its model puller has been silent for {minutes} minutes"
        return entries, f"{service.name}: {silent}: see `hearth logs {service.name}`"
    note = _one_line(document.get("note") or "")
    return entries, f"{service.name}: {note}" if note else ""


def _external(
    service: Service, models: Iterable[Model], ask: AskJson
) -> tuple[Mapping[str, Mapping[str, Any]], str]:
    """Return entries for a server that is not ours: what is there, and what is missing."""
    try:
        there = _listed(service, models, ask)
        return {m.name: _entry(_there(m, there.get(key_of(m.id)))) for m in models}, ""
    except Exception as error:  # see _progress
        unknown = {"state": MISSING, "reason": f"{service.url} does not answer"}
        return (
            {model.name: unknown for model in models},
            f"{service.name}: {service.url} gives no list of models ({_one_line(error)})",
        )


def _listed(
    service: Service, models: Iterable[Model], ask: AskJson
) -> Mapping[str, Mapping[str, Any]]:
    """Ask in the words of the server's kind: Ollama tells sizes and digests, others only names."""
    if all(model.kind == "transcribe" for model in models):
        named = ask(f"{service.url}/v1/models")["data"]
        return {key_of(entry["id"]): {} for entry in named}
    return {key_of(entry["name"]): entry for entry in ask(f"{service.url}/api/tags")["models"]}


def _there(model: Model, entry: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if entry is None:
        what = "have it there" if model.kind == "transcribe" else f"run `ollama pull {model.id}`"
        reason = f"not on this server, where Hearth pulls nothing: {what}"
        return {"state": MISSING, "reason": reason, "total_bytes": model.download_bytes}
    size, digest = entry.get("size"), entry.get("digest")
    sizes = {"percent": 100, "completed_bytes": size, "total_bytes": size, "digest": digest}
    wanted = (model.digest or "").removeprefix("sha256:")
    if wanted not in ("", "first-sight", digest):
        reason = f"its manifest is sha256:{str(digest)[:12]}, the lock says sha256:{wanted[:12]}"
        return {"state": READY, "reason": reason, **sizes}
    return {"state": READY, **sizes}


def _entry(said: Mapping[str, Any]) -> dict[str, Any]:
    """Take what is known of an entry; whoever broke into a server of models writes it, too."""
    numbers = ("percent", "completed_bytes", "total_bytes", "bytes_per_s")
    return {
        **{key: min(int(said.get(key) or 0), _MOST) for key in numbers},
        **{key: _one_line(said.get(key) or "") for key in ("state", "reason")},
        "digest": said.get("digest") and _one_line(said["digest"]),
    }


def _one_line(said: object) -> str:
    """Return a text that leaves the terminal alone: one line, and nothing that steers it."""
    shown = "".join(sign if sign.isprintable() else " " for sign in str(said))
    text = " ".join(shown.split())[:_LINE]
    return text or (type(said).__name__ if isinstance(said, Exception) else "")
