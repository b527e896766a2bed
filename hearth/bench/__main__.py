"""Writes the JSON schemas of the reports into docs/schema: `python -m hearth.bench`."""

from pathlib import Path

from hearth.bench.report import schema_text
from hearth.bench.stt import figures as stt
from hearth.bench.tts import figures as tts

SCHEMAS = {
    "docs/schema/bench-stt.json": schema_text(stt.Report, stt.FORM),
    "docs/schema/bench-tts.json": schema_text(tts.Report, tts.FORM),
}

if __name__ == "__main__":
    for name, text in SCHEMAS.items():
        Path(name).write_text(text, encoding="utf-8")
