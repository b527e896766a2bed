"""Reads the house's model list, in the order in which the models are pulled."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hearth_model_puller import PullerError

# The parts that Ollama omits in its short names.
DEFAULT_REGISTRY = ("registry.ollama.ai/", "ollama.com/")
DEFAULT_OWNER = "library/"


@dataclass(frozen=True, slots=True)
class Model:
    """One model of the registry, with all the names that the house has for it."""

    names: tuple[str, ...]
    id: str
    download_bytes: int
    memory_bytes: int
    digest: str | None

    @property
    def key(self) -> str:
        """Return the normalised id, by which models are compared."""
        return key_of(self.id)


@dataclass(frozen=True, slots=True)
class ModelList:
    """The models in pull order, and the memory of the accelerator, if there is one."""

    models: tuple[Model, ...] = ()
    accelerator_bytes: int = 0


def key_of(model_id: str) -> str:
    """Normalise a model id: Ollama accepts several spellings for the same model."""
    key = model_id.strip().lower()
    for registry in DEFAULT_REGISTRY:
        key = key.removeprefix(registry)
    key = key.removeprefix(DEFAULT_OWNER)
    return key if ":" in key.rsplit("/", 1)[-1] else f"{key}:latest"


def hex_digest(digest: str | None) -> str | None:
    """Return a digest as hex without a prefix, or None if it is unverified."""
    if not digest or digest == "unverified":
        return None
    return digest.strip().lower().removeprefix("sha256:")


def read_model_list(path: Path) -> ModelList:
    """Read models.json; raise PullerError with one line if it is not valid."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PullerError(f"{path}: {error.strerror}; the model list must be there") from error
    except ValueError as error:
        raise PullerError(f"{path}: not JSON ({error}); write it again") from error
    try:
        models = [_model(entry) for entry in document["models"]]
        first = {key_of(model_id) for model_id in document.get("first") or ()}
        accelerator_bytes = int(document.get("accelerator_bytes") or 0)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        problem = f"{type(error).__name__}: {error}"
        raise PullerError(f"{path}: not a list of models ({problem}); write it again") from error
    return ModelList(_ordered(_merged(models), first), accelerator_bytes)


def _model(entry: dict[str, Any]) -> Model:
    return Model(
        names=(str(entry["name"]),),
        id=str(entry["id"]),
        download_bytes=int(entry.get("download_bytes") or 0),
        memory_bytes=int(entry.get("memory_bytes") or 0),
        digest=hex_digest(entry.get("digest")),
    )


def _merged(models: list[Model]) -> list[Model]:
    """Merge entries of the same model, so that it is pulled once."""
    by_key: dict[str, Model] = {}
    for model in models:
        known = by_key.get(model.key)
        if known is None:
            by_key[model.key] = model
            continue
        by_key[model.key] = Model(
            names=known.names + model.names,
            id=known.id,
            download_bytes=max(known.download_bytes, model.download_bytes),
            memory_bytes=max(known.memory_bytes, model.memory_bytes),
            digest=known.digest or model.digest,
        )
    return list(by_key.values())


def _ordered(models: list[Model], first: set[str]) -> tuple[Model, ...]:
    """Put the smallest of `first` in front: with it the house can answer."""
    by_size = sorted(models, key=lambda model: (model.download_bytes, model.key))
    front = next((model for model in by_size if model.key in first), None)
    if front is None:
        return tuple(by_size)
    return (front, *(model for model in by_size if model is not front))
