"""The models that the planner knows: their dimensions, where they are used, and what they move."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Literal

import pydantic
import yaml
from pydantic import TypeAdapter

from hearth.plan import PlanError, quantisation
from hearth.plan.speed import MIXTURE_BELOW

CacheType = Literal["f16", "q8_0", "q4_0"]
# Bytes of one element: blocks of 32 have a scale of two bytes.
CACHE_BYTES: Mapping[CacheType, float] = {"f16": 2.0, "q8_0": 34 / 32, "q4_0": 18 / 32}
Role = Literal["fast", "coder", "local", "reasoning", "vision"]
# llama.cpp computes so many tokens of a prompt at once.
BATCH_TOKENS = 512
# Caches and windows are rounded up to so many tokens.
_CELLS = 256
_FLOAT = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The dimensions of a model, as the header of its file has them.

    Of `layers`, `windowed_layers` see only the last `window` tokens, and `recurrent_layers` keep a
    state of `state_elements` floats instead of a cache. `key_width` and `value_width` are those of
    one token in one layer, all its heads together. `embedding_bytes` stays on the host where a
    card computes, unless the output is `tied` to it.
    """

    architecture: str
    parameters: float
    active_parameters: float
    layers: int
    width: int
    feed_forward: int
    query_width: int
    key_width: int
    value_width: int
    vocabulary: int = 0
    experts: int = 0
    experts_used: int = 0
    window: int = 0
    windowed_layers: int = 0
    recurrent_layers: int = 0
    state_elements: int = 0
    tied: bool = False
    context: int = 0
    embedding_bytes: int | None = None

    @property
    def is_mixture(self) -> bool:
        """Whether only some of the parameters take part in a token."""
        return self.active_parameters < MIXTURE_BELOW * self.parameters


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownModel:
    """A model of the shipped list; `files` has the size of its download by quantisation.

    `name` is what Ollama pulls for the first of them; `tags` are the names of others. `quality`
    orders models for a role, more is better: an opinion, not a measurement. A model that thinks
    writes `thought_tokens` before its answer, as a rule. `draft` is a small model that guesses.
    """

    name: str
    summary: str
    shape: Shape
    files: Mapping[str, int]
    tags: Mapping[str, str] = field(default_factory=dict)
    capabilities: tuple[str, ...] = ()
    always_thinks: bool = False
    thought_tokens: int = 0
    quality: Mapping[Role, int] = field(default_factory=dict)
    draft: str | None = None
    source: str

    @property
    def thinks(self) -> bool:
        """Whether it can think before it answers."""
        return "thinking" in self.capabilities

    def tag(self, quantised: str) -> str:
        """Return the name under which Ollama pulls this quantisation."""
        return self.tags.get(quantised, self.name)


@functools.cache
def known_models() -> Mapping[str, KnownModel]:
    """Return the shipped list by name, in the file's order."""
    text = (files(__package__) / "known_models.yml").read_text(encoding="utf-8")
    return {model.name: model for model in read_models(text, "known_models.yml")}


def read_models(text: str, name: str) -> list[KnownModel]:
    """Return the models of a list in YAML; `name` is the file's, for the error.

    Raises:
        PlanError: the text is not such a list.
    """
    try:
        found = TypeAdapter(list[KnownModel]).validate_python(_load(text), strict=False)
    except (yaml.YAMLError, RecursionError):
        raise PlanError(f"{name}: not YAML") from None
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise PlanError(f"{name}: {where}: {first['msg']}") from None
    for model in found:
        for quantised in model.files:
            quantisation.normal(quantised)
    return found


def _load(text: str) -> Any:
    # `hearth check` reads the list, too; libyaml takes a tenth of the time.
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506


def find_model(name: str) -> KnownModel | None:
    """Return the model of the list with this name, or one of whose tags it is."""
    known = known_models()
    plain = name.removesuffix(":latest")
    if plain in known:
        return known[plain]
    return next((model for model in known.values() if plain in model.tags.values()), None)


def cache_bytes(shape: Shape, context: int, slots: int, cache_type: CacheType = "f16") -> float:
    """Return the size of the key-value cache and of recurrent states.

    `context` is the tokens of one conversation, of which `slots` run at once.
    """
    token = (shape.key_width + shape.value_width) * CACHE_BYTES[cache_type]
    full = shape.layers - shape.windowed_layers - shape.recurrent_layers
    cells = _rounded(context)
    # A windowed layer keeps the window and the batch that is being computed.
    windowed = min(cells, _rounded(shape.window + BATCH_TOKENS))
    layers = full * cells + shape.windowed_layers * windowed
    state = shape.recurrent_layers * shape.state_elements * _FLOAT
    return slots * (layers * token + state)


def graph_bytes(shape: Shape, on_card: bool) -> float:
    """Return the size of the buffers that a graph computes in, for one batch of a prompt.

    Found by comparing seven architectures in llama-server: three times the feed-forward's width,
    four or five times the model's, and the queries.
    """
    hidden = shape.feed_forward
    if shape.experts:
        # Each expert that a token uses has its own row.
        hidden = shape.feed_forward * shape.experts_used
    row = 3 * hidden + (4 if on_card else 5) * shape.width + shape.query_width
    if shape.experts:
        row += shape.experts_used * shape.width
    return BATCH_TOKENS * _FLOAT * row


def _rounded(tokens: int) -> int:
    return -(-tokens // _CELLS) * _CELLS
