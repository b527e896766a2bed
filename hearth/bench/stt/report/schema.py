"""The published form of `hearth bench stt --json`: `python -m hearth.bench.stt.report.schema`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from hearth.bench.stt.report.figures import FORM, Report

PUBLISHED = Path("docs/schema/bench-stt.json")


def schema() -> dict[str, Any]:
    """Return the JSON schema of a report."""
    made = TypeAdapter(Report).json_schema(mode="serialization")
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": FORM}
    return head | made


def text() -> str:
    """Return the schema as it is committed."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    PUBLISHED.parent.mkdir(parents=True, exist_ok=True)
    PUBLISHED.write_text(text(), encoding="utf-8")
