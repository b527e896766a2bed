"""Writes the JSON schemas of the reports into docs/schema: `python -m hearth.bench`."""

import json
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from hearth.bench.stt.figures import SttReport
from hearth.bench.tts.figures import TtsReport


def schema_text(report: type, form: str) -> str:
    """Return the JSON schema of a report as committed."""
    schema: dict[str, Any] = TypeAdapter(report).json_schema(mode="serialization")
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": form}
    return json.dumps(head | schema, indent=2, ensure_ascii=False) + "\n"


SCHEMAS = {
    "docs/schema/bench-stt.json": schema_text(SttReport, "hearth-bench-stt/1"),
    "docs/schema/bench-tts.json": schema_text(TtsReport, "hearth-bench-tts/1"),
}

if __name__ == "__main__":
    for name, text in SCHEMAS.items():
        Path(name).write_text(text, encoding="utf-8")
