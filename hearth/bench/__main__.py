"""Writes the JSON schemas of the reports into docs/schema: `python -m hearth.bench`."""

import inspect
import json
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from hearth.bench.llm import requests as llm_requests
from hearth.bench.llm.report import LlmReport
from hearth.bench.stt import requests
from hearth.bench.stt.run import SttReport
from hearth.bench.tts import answer
from hearth.bench.tts.run import TtsReport
from hearth.bench.voice import requests as voice_requests
from hearth.bench.voice.run import FORM as VOICE_FORM
from hearth.bench.voice.run import VoiceReport


def schema_text(report: type, form: str, case: type, sample: type, fields: tuple[str, ...]) -> str:
    """Return the JSON schema of a report as committed."""
    schema: dict[str, Any] = TypeAdapter(report).json_schema(mode="serialization")
    figures = schema["$defs"]["Figures"]
    figures["description"] += f"\n\n{inspect.getdoc(sample)}"
    figures["properties"]["case"] = TypeAdapter(case).json_schema()
    figures["properties"]["spreads"]["propertyNames"] = {"enum": fields}
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": form}
    return json.dumps(head | schema, indent=2, ensure_ascii=False) + "\n"


STT = (SttReport, "hearth-bench-stt/1", requests.SttCase, requests.SttSample, requests.FIELDS)
TTS = (TtsReport, "hearth-bench-tts/1", answer.TtsCase, answer.TtsSample, answer.FIELDS)
LLM = (
    *(LlmReport, "hearth-bench-llm/1", llm_requests.LlmCase),
    *(llm_requests.LlmSample, llm_requests.FIELDS),
)
VOICE = (
    *(VoiceReport, VOICE_FORM, voice_requests.VoiceCase),
    *(voice_requests.CallSample, voice_requests.FIELDS),
)
SCHEMAS = {
    "docs/schema/bench-llm.json": schema_text(*LLM),
    "docs/schema/bench-stt.json": schema_text(*STT),
    "docs/schema/bench-tts.json": schema_text(*TTS),
    "docs/schema/bench-voice.json": schema_text(*VOICE),
}

if __name__ == "__main__":
    for name, text in SCHEMAS.items():
        Path(name).write_text(text, encoding="utf-8")
