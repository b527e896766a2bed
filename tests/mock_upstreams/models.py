"""The made-up models by the names of the reference inventory, and their layers in the registry."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import gguf

from tests.mock_upstreams import gguf_models, gguf_script, gguf_vision
from tests.mock_upstreams.gguf_models import EmbeddingShape, TextShape
from tests.mock_upstreams.gguf_script import ANSWER, ANSWERS, HERMES, NEWLINE, XML, Script
from tests.mock_upstreams.gguf_vision import VisionShape
from tests.mock_upstreams.manifests import CODER, LLAMA, NOMIC, QWEN, QWEN_VL, Manifest

# Increase it when a shape's bytes change, so that caches are filled again.
RECIPE = 2
# At temperature 0 random words would never end; the real models' manifests have no such limit.
LIMITS: dict[str, Any] = {"num_predict": 256, "stop": ["</s>"]}
LICENCE = "Made up by Hearth's mock upstreams: random numbers, without any claim. Apache-2.0.\n"


@dataclass(frozen=True, slots=True)
class Recipe:
    """The parts of a model in the registry; larger models take visible time to download."""

    shape: TextShape | EmbeddingShape
    manifest: Manifest
    script: Script = ANSWERS
    vision: VisionShape | None = None


_VISION = VisionShape(image=56, patch=14, blocks=2, width=64, hidden=128, heads=4)
_QWEN = Script(thinks=True, calls=XML)
_CODER = Script(calls=HERMES, start=NEWLINE)
_SMALL = TextShape(blocks=2, width=128, hidden=352, heads=4)

MODELS: dict[str, Recipe] = {
    "qwen2.5-coder:1.5b": Recipe(TextShape(2, width=64, hidden=128, heads=4), CODER, _CODER),
    "qwen3.5:4b": Recipe(TextShape(2, width=256, hidden=688, heads=4), QWEN, _QWEN, _VISION),
    "llama3.1:latest": Recipe(_SMALL, LLAMA, Script(calls=gguf_script.LLAMA)),
    "qwen3.5:latest": Recipe(TextShape(3, width=512, hidden=1376, heads=8), QWEN, _QWEN, _VISION),
    "qwen2.5-coder:7b": Recipe(TextShape(4, width=1024, hidden=2816, heads=16), CODER, _CODER),
    # Its renderer cannot close a thought before it starts: it always thinks.
    "qwen3-vl:latest": Recipe(
        TextShape(2, width=256, hidden=688, heads=4),
        QWEN_VL,
        Script(thinks=True, calls=HERMES),
        _VISION,
    ),
    # 768 numbers per vector, as in the real one.
    "nomic-embed-text:latest": Recipe(EmbeddingShape(1, width=768, hidden=768, heads=12), NOMIC),
    # They stand for no published model: every token of theirs is known.
    "scripted:tools": Recipe(_SMALL, QWEN, Script(thinks=True, calls=XML, answer=ANSWER)),
    "scripted:endless": Recipe(_SMALL, QWEN, Script(thinks=True, endless=True, answer=ANSWER)),
}


@dataclass(frozen=True, slots=True)
class Layer:
    """One blob of a model: its media type and its file."""

    media_type: str
    path: Path


def recipe_digest() -> str:
    """Return the digest that names the filled registry in the cache."""
    shapes = {name: asdict(recipe) for name, recipe in MODELS.items()}
    recipe = json.dumps([RECIPE, gguf.GGUF_VERSION, shapes, LIMITS], sort_keys=True)
    return hashlib.sha256(recipe.encode()).hexdigest()[:16]


def write_layers(name: str, folder: Path) -> list[Layer]:
    """Write a model's files into `folder` and return its layers, the configuration last."""
    return list(_layers(name, MODELS[name], folder))


def _layers(name: str, recipe: Recipe, folder: Path) -> Iterator[Layer]:
    """Yield layer after layer in the order in which the real registry lists them."""
    weights = folder / "model.gguf"
    text = isinstance(recipe.shape, TextShape)
    if isinstance(recipe.shape, TextShape):
        gguf_models.write_text(weights, name, recipe.shape, recipe.script)
    else:
        gguf_models.write_embedding(weights, name, recipe.shape)
    yield Layer("application/vnd.ollama.image.model", weights)
    if recipe.vision is not None:
        projector = folder / "projector.gguf"
        gguf_vision.write_projector(projector, name, recipe.vision, recipe.shape.width)
        yield Layer("application/vnd.ollama.image.projector", projector)
    manifest = recipe.manifest
    yield _written(folder, "template", manifest.template)
    if manifest.system:
        yield _written(folder, "system", manifest.system)
    yield _written(folder, "license", LICENCE)
    parameters = {**manifest.parameters, **(_limits(manifest) if text else {})}
    yield _written(folder, "params", json.dumps(parameters))
    yield Layer(
        "application/vnd.docker.container.image.v1+json",
        _written(folder, "config", json.dumps(_configuration(recipe, weights))).path,
    )


def _limits(manifest: Manifest) -> dict[str, Any]:
    """Return the limits of a text model beside its published parameters."""
    return {**LIMITS, "stop": [*manifest.parameters.get("stop", []), *LIMITS["stop"]]}


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
        **recipe.manifest.details,
        "rootfs": {"type": "layers", "diff_ids": []},
    }
