"""The published form of a report."""

from __future__ import annotations

import json
from typing import Any

from pydantic import TypeAdapter


def schema_of(report: type, form: str) -> dict[str, Any]:
    """Return the JSON schema of a report."""
    made = TypeAdapter(report).json_schema(mode="serialization")
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": form}
    return head | made


def text_of(schema: dict[str, Any]) -> str:
    """Return a schema as it is committed."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
