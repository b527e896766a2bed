"""Reads which models the house wants, in the order in which they are pulled."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hearth_model_puller import PullerError

# What Ollama's own short names leave out.
DEFAULT_REGISTRY = ("registry.ollama.ai/", "ollama.com/")
DEFAULT_OWNER = "library/"


@dataclass(frozen=True, slots=True)
class Model:
    """One model of the registry under all the names that the house has for it."""

    names: tuple[str, ...]
    id: str
    download_bytes: int
    memory_bytes: int
    digest: str | None

    @property
    def key(self) -> str:
        """Return what this model is compared by."""
        return key_of(self.id)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The models in pull order, and the memory that a card adds to the machine's."""

    models: tuple[Model, ...] = ()
    accelerator_bytes: int = 0


def key_of(model_id: str) -> str:
    """Return one spelling for all the ways in which Ollama lets a model be written."""
    key = model_id.strip().lower()
    for registry in DEFAULT_REGISTRY:
        key = key.removeprefix(registry)
    key = key.removeprefix(DEFAULT_OWNER)
    return key if ":" in key.rsplit("/", 1)[-1] else f"{key}:latest"


def plain_digest(digest: str | None) -> str | None:
    """Return a digest as bare hex, or None where none is known yet."""
    if not digest or digest == "unverified":
        return None
    return digest.strip().lower().removeprefix("sha256:")


def read(path: Path) -> Wanted:
    """Read models.json; raise PullerError with one line when it is not usable."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PullerError(f"{path}: {error.strerror}; the list of models must be there") from error
    except ValueError as error:
        raise PullerError(f"{path}: not JSON ({error}); write it again") from error
    try:
        models = [_model(entry) for entry in document["models"]]
        first = {key_of(model_id) for model_id in document.get("first") or ()}
        accelerator_bytes = int(document.get("accelerator_bytes") or 0)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        wrong = f"{type(error).__name__}: {error}"
        raise PullerError(f"{path}: not a list of models ({wrong}); write it again") from error
    return Wanted(_ordered(_merged(models), first), accelerator_bytes)


def _model(entry: dict[str, Any]) -> Model:
    return Model(
        names=(str(entry["name"]),),
        id=str(entry["id"]),
        download_bytes=int(entry.get("download_bytes") or 0),
        memory_bytes=int(entry.get("memory_bytes") or 0),
        digest=plain_digest(entry.get("digest")),
    )


def _merged(models: list[Model]) -> list[Model]:
    """Join the names that stand for the same model, so that it is pulled once."""
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
    """Put the smallest of `first` in front: the house answers as soon as it is there."""
    by_size = sorted(models, key=lambda model: (model.download_bytes, model.key))
    front = next((model for model in by_size if model.key in first), None)
    if front is None:
        return tuple(by_size)
    return (front, *(model for model in by_size if model is not front))
