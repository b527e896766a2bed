"""The made-up models by the names of the reference inventory, and their layers in the registry."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import gguf

from tests.mock_upstreams import gguf_models, gguf_vision
from tests.mock_upstreams.gguf_models import EmbeddingShape, TextShape
from tests.mock_upstreams.gguf_vision import VisionShape

# Increase it when a shape's bytes change, so that caches are filled again.
RECIPE = 1
TEMPLATE = """\
{{- if .System }}system: {{ .System }}
{{ end }}
{{- range .Messages }}{{ .Role }}: {{ .Content }}
{{ end }}assistant:"""
# Answers end with Ollama's default sampling; at temperature 0 they would not.
PARAMETERS = {"num_predict": 256, "stop": ["</s>"]}
LICENCE = "Made up by Hearth's mock upstreams: random numbers, without any claim. Apache-2.0.\n"


@dataclass(frozen=True, slots=True)
class Recipe:
    """The parts of a model in the registry; larger models take visible time to download."""

    shape: TextShape | EmbeddingShape
    vision: VisionShape | None = None


MODELS: dict[str, Recipe] = {
    "qwen2.5-coder:1.5b": Recipe(TextShape(blocks=2, width=64, hidden=128, heads=4)),
    "qwen3.5:4b": Recipe(TextShape(blocks=2, width=256, hidden=688, heads=4)),
    "llama3.1:latest": Recipe(TextShape(blocks=2, width=128, hidden=352, heads=4)),
    "qwen3.5:latest": Recipe(TextShape(blocks=3, width=512, hidden=1376, heads=8)),
    "qwen2.5-coder:7b": Recipe(TextShape(blocks=4, width=1024, hidden=2816, heads=16)),
    "qwen3-vl:latest": Recipe(
        TextShape(blocks=2, width=256, hidden=688, heads=4),
        VisionShape(image=56, patch=14, blocks=2, width=64, hidden=128, heads=4),
    ),
    # 768 numbers per vector, as in the real one.
    "nomic-embed-text:latest": Recipe(EmbeddingShape(blocks=1, width=768, hidden=768, heads=12)),
}


@dataclass(frozen=True, slots=True)
class Layer:
    """One blob of a model: its media type and its file."""

    media_type: str
    path: Path


def recipe_digest() -> str:
    """Return the digest that names the filled registry in the cache."""
    shapes = {name: asdict(recipe) for name, recipe in MODELS.items()}
    recipe = json.dumps([RECIPE, gguf.GGUF_VERSION, shapes, TEMPLATE, PARAMETERS], sort_keys=True)
    return hashlib.sha256(recipe.encode()).hexdigest()[:16]


def write_layers(name: str, folder: Path) -> list[Layer]:
    """Write a model's files into `folder` and return its layers, the configuration last."""
    return list(_layers(name, MODELS[name], folder))


def _layers(name: str, recipe: Recipe, folder: Path) -> Iterator[Layer]:
    """Yield layer after layer in the order in which the real registry lists them."""
    weights = folder / "model.gguf"
    text = isinstance(recipe.shape, TextShape)
    if isinstance(recipe.shape, TextShape):
        gguf_models.write_text(weights, name, recipe.shape)
    else:
        gguf_models.write_embedding(weights, name, recipe.shape)
    yield Layer("application/vnd.ollama.image.model", weights)
    if recipe.vision is not None:
        projector = folder / "projector.gguf"
        gguf_vision.write_projector(projector, name, recipe.vision, recipe.shape.width)
        yield Layer("application/vnd.ollama.image.projector", projector)
    if text:
        yield _written(folder, "template", TEMPLATE)
    yield _written(folder, "license", LICENCE)
    if text:
        yield _written(folder, "params", json.dumps(PARAMETERS))
    yield Layer(
        "application/vnd.docker.container.image.v1+json",
        _written(folder, "config", json.dumps(_configuration(recipe, weights))).path,
    )


def _written(folder: Path, kind: str, content: str) -> Layer:
    """Write one small layer."""
    path = folder / kind
    path.write_text(content)
    return Layer(f"application/vnd.ollama.image.{kind}", path)


def _configuration(recipe: Recipe, weights: Path) -> dict[str, object]:
    """Return the details that Ollama shows without opening a model."""
    family = "llama" if isinstance(recipe.shape, TextShape) else "nomic-bert"
    families = [family, "clip"] if recipe.vision else [family]
    # Half precision: two bytes per parameter.
    parameters = weights.stat().st_size / 2
    return {
        "model_format": "gguf",
        "model_family": family,
        "model_families": families,
        "model_type": f"{parameters / 1e6:.2f}M",
        "file_type": "F16",
        "architecture": "amd64",
        "os": "linux",
        "rootfs": {"type": "layers", "diff_ids": []},
    }
