"""What Ollama's registry says about the real models that the made-up ones stand for.

Templates, parameters, renderers and parsers are as published, so that Ollama sees the same
capabilities, renders the same prompts, and reads answers with the same parser.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PLAIN = "{{ .Prompt }}"
_SAMPLING = {"temperature": 1, "top_k": 20, "top_p": 0.95}

_TEMPLATES = Path(__file__).parent / "templates"


def _template(name: str) -> str:
    return (_TEMPLATES / f"{name}.tmpl").read_text(encoding="utf-8").removesuffix("\n")


@dataclass(frozen=True, slots=True)
class Manifest:
    """The published parts of a model beside its weights; a renderer replaces the template."""

    template: str = PLAIN
    renderer: str = ""
    system: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def details(self) -> dict[str, str]:
        """What its configuration says; renderer and parser have one name."""
        return {"renderer": self.renderer, "parser": self.renderer} if self.renderer else {}


QWEN = Manifest(renderer="qwen3.5", parameters={**_SAMPLING, "presence_penalty": 1.5})
QWEN_VL = Manifest(renderer="qwen3-vl-thinking", parameters=_SAMPLING)
CODER = Manifest(
    template=_template("qwen2.5-coder"),
    system="You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
)
LLAMA = Manifest(
    template=_template("llama3.1"),
    parameters={"stop": ["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]},
)
NOMIC = Manifest(parameters={"num_ctx": 8192})
