"""A plan as JSON data: for programs, and for the page of the house's health."""

from __future__ import annotations

from typing import Any

from hearth.plan.machine import as_plain
from hearth.plan.proposal import Plan, Row
from hearth.plan.speed import Band

# Increase it when a field changes its meaning.
FORM = "hearth-plan-1"


def document_of(plan: Plan) -> dict[str, Any]:
    """Return a plan as data: sizes in bytes, times in seconds, bands as `value, low, high`."""
    return {
        "form": FORM,
        "machine": as_plain(plan.machine),
        "place": {
            "name": plan.place.name,
            "backend": plan.place.backend,
            "memory_kind": plan.place.kind,
            "memory_bytes": round(plan.place.memory_bytes),
            "room_bytes": round(plan.room_bytes),
            "bandwidth_bytes_per_s": round(plan.place.bandwidth_bytes_per_s),
        },
        "context": plan.wishes.context,
        "slots": plan.wishes.slots,
        "cache_type": plan.wishes.cache_type,
        "reserve_bytes": plan.wishes.reserve_bytes,
        "most_loaded": plan.most_loaded,
        "choices": [as_plain(choice) for choice in plan.choices],
        "speech": [
            {
                "what": each.what,
                "model": each.model,
                "on_card": each.on_card,
                "wait_s": round(each.wait_s, 2),
                "wait_source": each.wait_source,
                "reason": each.reason,
            }
            for each in plan.speech
        ],
        "measured_waits": [as_plain(each) for each in plan.wishes.measured],
        "models": [_row(row) for row in plan.rows],
        "budgets": [
            {
                "device": each.device,
                "memory_bytes": round(each.memory_bytes),
                "free_bytes": round(each.free_bytes),
                "fits": each.fits,
                "lines": [
                    {
                        "what": line.what,
                        "size_bytes": round(line.size_bytes),
                        "source": line.source,
                    }
                    for line in each.lines
                ],
            }
            for each in plan.budgets
        ],
        "savings": [as_plain(saving) for saving in plan.savings],
        "notes": list(plan.notes),
    }


def _row(row: Row) -> dict[str, Any]:
    speed = row.speed
    return {
        "name": row.name,
        "quantisation": row.quantisation,
        "needed_bytes": round(row.needed_bytes),
        "fits": row.fits,
        "where": speed.where,
        "on_host": round(speed.on_host, 3),
        "tokens_per_s": _band(speed.tokens_per_s),
        "prompt_tokens_per_s": _band(speed.prompt_tokens_per_s),
        "first_token_s": _band(speed.first_token_s),
        "load_s": _band(speed.load_s),
        "answer_s": _rounded(row.answer_s),
        "draft": row.draft,
        "draft_tokens_per_s": _rounded(row.draft_tokens_per_s),
    }


def _band(band: Band | None) -> dict[str, float] | None:
    if band is None:
        return None
    return {"value": round(band.value, 3), "low": round(band.low, 3), "high": round(band.high, 3)}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
