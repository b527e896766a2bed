"""The published form of `hearth bench stt --json`: `python -m hearth.bench.stt.report.schema`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hearth.bench.served.schema import schema_of, text_of
from hearth.bench.stt.report.figures import FORM, Report

PUBLISHED = Path("docs/schema/bench-stt.json")


def schema() -> dict[str, Any]:
    """Return the JSON schema of a report."""
    return schema_of(Report, FORM)


def text() -> str:
    """Return the schema as it is committed."""
    return text_of(schema())


if __name__ == "__main__":
    PUBLISHED.parent.mkdir(parents=True, exist_ok=True)
    PUBLISHED.write_text(text(), encoding="utf-8")
