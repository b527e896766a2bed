"""What the page shows, as plain values: states in words, and no text that changes by itself."""

import re
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from .config import Config, Tile
from .figures import (
    FIGURES,
    SPANS,
    TURN,
    TURN_LIMIT_MS,
    TURN_PROCESSOR_LIMIT_MS,
    TURN_TARGET_MS,
    Numbers,
)
from .snapshot import Snapshot

Row = Mapping[str, Any]
# Ollama's time for a model that is never unloaded is in another century.
_FOR_EVER = 1e10
# A program's word for it, or the receipt's: "no gpu", "software".
_PROCESSOR = re.compile(r"\b(cpu|processor|no gpu|software)\b", re.IGNORECASE)
# Debian's lists of security updates change every day.
_FRESH_DAYS = 4
# What people open most comes first, and what they need once comes last.
_ORDER = ("chat", "speech", "transcription", "page", "trust")


def build_view(config: Config, snapshot: Snapshot, numbers: Numbers) -> dict[str, Any]:
    """Return the values of all sections; missing ones are unknown, never an error."""
    data = snapshot.data
    known = not snapshot.problem
    rows = _rows(data, known)
    findings = [one for one in _records(data, "findings") if not one.get("ignored")]
    ignored = [one for one in _records(data, "findings") if one.get("ignored")]
    tiles = [_tile(tile, data, rows, known) for tile in sorted(config.tiles, key=_place)]
    run = data.get("run") if isinstance(data.get("run"), dict) else None
    return {
        "config": config,
        "known": known,
        "problem": snapshot.problem,
        "made": _number(data.get("made")),
        "run": run if known else None,
        "headline": _headline(known, rows, findings, run is not None),
        "tiles": [tile for tile in tiles if tile["tile"].title],
        "others": [tile for tile in tiles if not tile["tile"].title],
        "findings": findings,
        "ignored": ignored,
        "rows": rows,
        "aliases": _aliases(data),
        "loaded": [_loaded(one) for one in _records(data, "loaded")],
        "unused": _coming(data),
        "machine": data["machine"] if isinstance(data.get("machine"), dict) else {},
        "updates": _updates(data),
        "backup": data["backup"] if isinstance(data.get("backup"), dict) else None,
        "receipt": _receipt(data.get("receipt")),
        "last_run": data["last_run"] if isinstance(data.get("last_run"), dict) else None,
        "errors": [str(line) for line in _list(data, "errors")],
        "hearth": str(data.get("hearth", "")),
        "numbers": numbers,
        "figures": [_figure(figure, numbers) for figure in FIGURES],
        "spans": list(SPANS),
        "turn": _turn(numbers, on_processor(config, rows)),
        "stages": _bar([(name, seconds * 1000) for name, seconds in numbers.stages]),
    }


def everything_up(snapshot: Snapshot) -> bool:
    """Return whether someone looks, and everything in the house works."""
    rows = _records(snapshot.data, "rows")
    return not snapshot.problem and bool(rows) and all(row.get("up") is True for row in rows)


def _list(data: Row, name: str) -> Sequence[Any]:
    found = data.get(name)
    return found if isinstance(found, list) else []


def _records(data: Row, name: str) -> list[dict[str, Any]]:
    return [one for one in _list(data, name) if isinstance(one, dict)]


def _number(value: object) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _rows(data: Row, known: bool) -> list[dict[str, Any]]:
    rows = []
    for row in _records(data, "rows"):
        up = row.get("up") is True
        text = str(row.get("text") or "")
        state = "unknown" if not known else "up" if up else "down"
        word = {"unknown": "unknown", "up": "works", "down": text or "does not work"}[state]
        if state == "up" and text not in ("", "up"):
            word = text
        rows.append(
            {
                **row,
                "title": str(row.get("title") or row.get("name", "")),
                "state": state,
                "word": word,
                "memory_bytes": _number(row.get("memory_bytes")) or 0,
                "worked": _worked(row),
                "moment": _number(row.get("changed")) or _number(row.get("since")) or 0,
            }
        )
    # What does not work comes first; the rest keeps its order.
    return sorted(rows, key=lambda row: row["state"] != "down")


def _worked(row: Row) -> dict[str, Any] | None:
    """Return what a service last really did, and when; None where nobody has seen it do so."""
    found = row.get("worked")
    at = _number(found.get("at")) if isinstance(found, dict) else None
    return {"verb": str(found.get("verb", "worked")), "at": at} if found and at else None


def _headline(
    known: bool, rows: Sequence[Row], findings: Sequence[Row], changing: bool
) -> tuple[str, str]:
    """Return the state of the house, and the sentence that says it."""
    if not known:
        return "unknown", "The state of the house is unknown"
    down = [row["title"] for row in rows if row["state"] == "down"]
    errors = [one for one in findings if one.get("severity") == "error"]
    if down:
        names = ", ".join(down[:3]) + (f" and {len(down) - 3} more" if len(down) > 3 else "")
        # A run restarts services on purpose.
        if changing:
            return "warning", f"Being changed; not working at the moment: {names}"
        return "down", f"Not working: {names}"
    if errors:
        return "down", _count(len(errors), "thing needs", "things need") + " attention"
    if findings:
        return "warning", "Everything works, with " + _count(len(findings), "note", "notes")
    return "up", "Everything works"


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _place(tile: Tile) -> int:
    return _ORDER.index(tile.kind) if tile.kind in _ORDER else len(_ORDER)


def _tile(tile: Tile, data: Row, rows: Sequence[Row], known: bool) -> dict[str, Any]:
    site = next((one for one in _records(data, "sites") if one.get("fqdn") == tile.fqdn), {})
    up = site.get("up") if known else None
    state = "up" if up is True else "down" if up is False else "unknown"
    row = next((row for row in rows if row.get("name") == tile.service), {})
    why = row.get("word", "") if state == "down" and row.get("state") == "down" else ""
    return {
        "tile": tile,
        "state": state,
        "word": {"up": "Ready", "down": "Not available", "unknown": "Unknown"}[state],
        "why": why,
    }


def _aliases(data: Row) -> list[dict[str, Any]]:
    aliases, models = data.get("aliases"), data.get("models")
    if not isinstance(aliases, dict):
        return []
    models = models if isinstance(models, dict) else {}
    loaded = {str(one.get("name")) for one in _records(data, "loaded")}
    found = []
    for name, alias in aliases.items():
        if not isinstance(alias, dict):
            continue
        answered_by = alias.get("answered_by")
        model = models.get(answered_by)
        model = model if isinstance(model, dict) else {}
        state = str(alias.get("state", ""))
        found.append(
            {
                "name": name,
                "answered_by": answered_by,
                "cloud": model.get("state") == "cloud",
                "loaded": bool({answered_by, model.get("id")} & loaded),
                "state": "up" if state == "ready" else "waiting" if answered_by else "down",
                "text": str(alias.get("text", state)),
            }
        )
    return found


def _coming(data: Row) -> list[dict[str, Any]]:
    """Return the models whose download is under way or fails."""
    models = data.get("models")
    records = models.values() if isinstance(models, dict) else ()
    wanted = ("pulling", "failed", "waiting")
    return [one for one in records if isinstance(one, dict) and one.get("state") in wanted]


def _updates(data: Row) -> str:
    """Return the security updates that wait, and how old the lists are that name them."""
    machine = data.get("machine")
    found = machine.get("updates") if isinstance(machine, dict) else None
    waiting = _number(found.get("waiting")) if isinstance(found, dict) else None
    if not isinstance(found, dict) or waiting is None:
        return "unknown"
    made = _number(found.get("lists_made"))
    if not made:
        return "unknown: there are no package lists yet (sudo apt update)"
    days = ((_number(data.get("made")) or made) - made) / 86_400
    text = f"{waiting:.0f} waiting: sudo apt upgrade" if waiting else "none waiting"
    if days <= _FRESH_DAYS:
        return text
    text = text if waiting else "none known"
    return f"{text}; the package lists are {days:.0f} days old (sudo apt update)"


def _receipt(found: object) -> dict[str, Any] | None:
    if not isinstance(found, dict):
        return None
    counts = found.get("summary")
    if isinstance(counts, dict):
        counts = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    return {**found, "summary": str(counts or "receipt")}


def _loaded(model: Row) -> dict[str, Any]:
    size = _number(model.get("size_bytes")) or 0
    card = min(size, _number(model.get("vram_bytes")) or 0)
    expires = moment_of(model.get("expires"))
    share = round(100 * card / size) if size else 0
    where = "graphics card" if share >= 99 else "processor" if share == 0 else ""
    return {
        "name": str(model.get("name", "")),
        "bytes": size,
        "planned": _number(model.get("planned_bytes")) or 0,
        "where": where or f"{share} % graphics card, {100 - share} % processor",
        "expires": expires if expires and expires < _FOR_EVER else None,
    }


def moment_of(value: object) -> float | None:
    """Return the Unix time of a number or of an ISO time; None for anything else."""
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value).astimezone(UTC).timestamp()
        except (ValueError, OverflowError):
            return None
    return _number(value)


def _figure(figure: Any, numbers: Numbers) -> dict[str, Any]:
    spans = {
        span: [numbers.values.get((figure.name, span, word)) for word in ("median", "p95")]
        for span in SPANS
    }
    return {"name": figure.name, "title": figure.title, "unit": figure.unit, "spans": spans}


def on_processor(config: Config, rows: Sequence[Row]) -> bool:
    """Return whether a step of a spoken turn has no server that computes on a card."""
    measured = {str(row.get("name")): str(row.get("accelerator") or "") for row in rows}
    places: dict[str, list[str]] = {}
    for one in config.canary.targets if config.canary else ():
        if where := measured.get(one.name):
            places.setdefault(one.kind, []).append(where)
    return any(all(map(_PROCESSOR.search, found)) for found in places.values())


def _turn(numbers: Numbers, processor: bool) -> dict[str, Any]:
    """Return the steps of a spoken turn beside their budget, in milliseconds."""
    most = TURN_PROCESSOR_LIMIT_MS if processor else TURN_LIMIT_MS
    steps: list[dict[str, Any]] = []
    for name, title, target, limit in TURN:
        # A quiet hour says nothing; the day before it may.
        found = [numbers.values.get((name, span, "median")) for span in ("hour", "day")]
        ms = next((value for value in found if value is not None), None)
        state = "unknown" if ms is None else "up" if ms <= limit else "down"
        steps.append({"title": title, "target": target, "limit": limit, "ms": ms, "state": state})
    measured = [step["ms"] for step in steps if step["ms"] is not None]
    total = sum(measured) if len(measured) >= len(TURN) - 1 else None
    scale = 100 / max(most, total or 0)
    left = 0.0
    for step in steps:
        # What was not measured takes its target, drawn as an outline.
        width = (step["ms"] if step["ms"] is not None else step["target"]) * scale
        step |= {"x": round(left, 2), "width": round(width, 2)}
        left += width
    return {
        "steps": steps,
        "total": total,
        "target": TURN_TARGET_MS,
        "limit": most,
        "processor": processor,
        "target_x": round(TURN_TARGET_MS * scale, 2),
        "limit_x": round(most * scale, 2),
    }


def _bar(parts: Sequence[tuple[str, float]]) -> list[dict[str, Any]]:
    total = sum(value for _, value in parts) or 1
    found, left = [], 0.0
    for name, value in parts:
        width = 100 * value / total
        found.append({"name": name, "ms": value, "x": round(left, 2), "width": round(width, 2)})
        left += width
    return found


def short_bytes(count: object) -> str:
    """Return a size for people, coarse enough that it rarely changes."""
    value = _number(count) or 0
    if value >= 2**30:
        return f"{value / 2**30:.1f} GiB"
    mib = value / 2**20
    return f"{round(mib, -1) if mib >= 100 else mib:.0f} MiB"


def short_number(value: object) -> str:
    """Return a figure with at most three digits; a dash for nothing."""
    number = _number(value)
    if number is None:
        return "–"  # noqa: RUF001
    return f"{number:.0f}" if abs(number) >= 100 else f"{number:.3g}"


def iso(value: object) -> str:
    """Return a moment for a `datetime` attribute; empty for none."""
    moment = moment_of(value)
    if not moment:
        return ""
    try:
        return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return ""


def clock(value: object) -> str:
    """Return a moment in the machine's own time, for browsers without scripts."""
    moment = moment_of(value)
    try:
        return time.strftime("%-d %b %Y, %H:%M", time.localtime(moment)) if moment else ""
    except (ValueError, OverflowError, OSError):
        return ""
