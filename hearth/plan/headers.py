"""Read a model's dimensions from the header of its GGUF file.

The `gguf` package's reader makes arrays of every token: 26 s for a header with 248,320 of them,
and it needs the whole file. This takes the types and their sizes from that package, steps over
arrays, and reads nothing but the header.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hearth.plan import PlanError
from hearth.plan.models import KnownModel, Shape

# The vocabulary of the largest models takes 12 MiB.
MOST_BYTES = 48 * 2**20
_MAGIC, _VERSIONS = b"GGUF", (2, 3)
_STRING, _ARRAY = 8, 9
_SCALARS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
_MOST_KEYS, _MOST_TENSORS, _MOST_NAME, _MOST_LAYERS = 10_000, 100_000, 65_536, 10_000
# Arrays up to this length are read: one number for each layer.
_SHORT = 1024
_EXPERTS = "_exps."


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a file says of its model: sizes in bytes, `quantisation` as its creator named it.

    `reads_bytes` is what one token reads of the weights.
    """

    name: str
    shape: Shape
    weights_bytes: int
    reads_bytes: float
    quantisation: str


class _ShortError(Exception):
    """The data end before the header does."""


class _Reader:
    """Reads little-endian values, one after another."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, size: int) -> bytes:
        if size < 0 or self.at + size > len(self.data):
            raise _ShortError
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, form: str) -> Any:
        return struct.unpack(f"<{form}", self.take(struct.calcsize(form)))[0]

    def text(self, most: int = _MOST_NAME) -> str:
        size = self.number("Q")
        if size > most:
            raise ValueError(f"a text of {size} bytes")
        return self.take(size).decode("utf-8", errors="replace")

    def value(self, kind: int) -> Any:
        if kind in _SCALARS:
            return self.number(_SCALARS[kind])
        if kind == _STRING:
            # Chat templates are long; nothing here needs them.
            return self.text(MOST_BYTES)
        if kind == _ARRAY:
            return self._array()
        raise ValueError(f"a value of the unknown type {kind}")

    def _array(self) -> list[Any] | int:
        """Return a short array's numbers, and only the length of any other."""
        kind, length = self.number("I"), self.number("Q")
        if kind in _SCALARS:
            if length <= _SHORT:
                return [self.number(_SCALARS[kind]) for _ in range(length)]
            self.take(length * struct.calcsize(_SCALARS[kind]))
        elif kind == _STRING:
            for _ in range(length):
                self.take(self.number("Q"))
        else:
            raise ValueError("an array of arrays")
        return int(length)


def read_header(path: Path) -> Header:
    """Return the header of a local GGUF file.

    Raises:
        PlanError: the file cannot be read, or its header cannot be true.
    """
    try:
        with path.open("rb") as stream:
            return header_of(stream.read(MOST_BYTES), str(path), path.stat().st_size)
    except OSError as error:
        raise PlanError(f"{path}: {error.strerror}: name a GGUF file") from None


def header_of(data: bytes, name: str, file_bytes: int | None = None) -> Header:
    """Return the header at the start of a GGUF file of this size.

    Raises:
        PlanError: the data are no GGUF file, or its header cannot be true.
    """
    try:
        values, tensors = _parse(data)
        found = _header(name, values, tensors)
    except _ShortError:
        raise PlanError(f"{name}: the header is cut off, or longer than it can be") from None
    except (ValueError, KeyError, TypeError, OverflowError, ZeroDivisionError) as error:
        raise PlanError(f"{name}: this header cannot be true: {error}") from None
    if file_bytes is not None and found.weights_bytes > file_bytes:
        raise PlanError(
            f"{name}: this header cannot be true: its tensors take {found.weights_bytes} bytes, "
            f"and the file has {file_bytes}: download it again"
        )
    return found


def as_model(header: Header, name: str) -> KnownModel:
    """Return the model of a file, for a plan."""
    return KnownModel(
        name=name,
        summary=f"{header.shape.architecture}, from a file",
        shape=header.shape,
        files={header.quantisation: header.weights_bytes},
        quality={},
        source=header.name,
    )


def _parse(data: bytes) -> tuple[dict[str, Any], dict[str, tuple[list[int], int]]]:
    """Return the values by key, and each tensor's dimensions and type."""
    reader = _Reader(data)
    if reader.take(4) != _MAGIC:
        raise ValueError("it is not a GGUF file")
    if (version := reader.number("I")) not in _VERSIONS:
        raise ValueError(f"version {version}")
    tensor_count, value_count = reader.number("Q"), reader.number("Q")
    if value_count > _MOST_KEYS or tensor_count > _MOST_TENSORS:
        raise ValueError(f"{value_count} values and {tensor_count} tensors")
    values = {}
    for _ in range(value_count):
        key = reader.text()
        values[key] = reader.value(reader.number("I"))
    tensors = {}
    for _ in range(tensor_count):
        tensor, count = reader.text(), reader.number("I")
        if count > 8:
            raise ValueError(f"{tensor} has {count} dimensions")
        dimensions = [reader.number("Q") for _ in range(count)]
        tensors[tensor] = (dimensions, reader.number("I"))
        reader.number("Q")
    return values, tensors


def _header(
    name: str, values: Mapping[str, Any], tensors: Mapping[str, tuple[list[int], int]]
) -> Header:
    architecture = str(values["general.architecture"])
    sizes = {tensor: _size(tensor, *each) for tensor, each in tensors.items()}
    elements = {tensor: _product(each[0]) for tensor, each in tensors.items()}

    def number(key: str, default: int | None = None) -> int:
        found = values.get(f"{architecture}.{key}", default)
        if isinstance(found, list):
            found = max(found, default=0)
        if found is None:
            raise ValueError(f"{architecture}.{key} is missing")
        if not 0 <= found < 2**40:
            raise ValueError(f"{architecture}.{key} is {found}")
        return int(found)

    layers, width, heads = number("block_count"), number("embedding_length"), 0
    heads = number("attention.head_count")
    if not 0 < layers <= _MOST_LAYERS or not width or not heads:
        raise ValueError(f"{layers} layers of width {width} with {heads} heads")
    experts, used = number("expert_count", 0), number("expert_used_count", 0)
    if used > experts:
        raise ValueError(f"{used} of {experts} experts are used")
    share = used / experts if experts else 1.0
    embedding = sizes.get("token_embd.weight", 0)
    tied = "output.weight" not in tensors
    key_heads = number("attention.head_count_kv", heads)
    key, value = (number(f"attention.{part}_length", width // heads) for part in ("key", "value"))
    windowed, recurrent = _other_layers(values, architecture, layers, number)
    read = sum(_read(tensor, size, share, tied) for tensor, size in sizes.items())
    active = sum(_read(tensor, count, share, tied) for tensor, count in elements.items())
    shape = Shape(
        architecture=architecture,
        parameters=float(sum(elements.values())),
        active_parameters=float(active),
        layers=layers,
        width=width,
        feed_forward=number("expert_feed_forward_length" if experts else "feed_forward_length", 0),
        query_width=heads * key,
        key_width=key_heads * key,
        value_width=key_heads * value,
        vocabulary=tensors.get("token_embd.weight", ([0, 0], 0))[0][-1],
        experts=experts,
        experts_used=used,
        window=number("attention.sliding_window", 0) if windowed else 0,
        windowed_layers=windowed,
        recurrent_layers=recurrent,
        state_elements=_state(number) if recurrent else 0,
        tied=tied,
        context=number("context_length", 0),
        embedding_bytes=embedding,
    )
    return Header(
        name=name,
        shape=shape,
        weights_bytes=sum(sizes.values()),
        reads_bytes=read,
        quantisation=_quantisation(values, tensors),
    )


def _read(tensor: str, size: float, share: float, tied: bool) -> float:
    """Return what one token reads of a tensor: its experts' share, and one row of the embedding."""
    if _EXPERTS in tensor:
        return size * share
    return 0.0 if tensor == "token_embd.weight" and not tied else float(size)


def _other_layers(
    values: Mapping[str, Any], architecture: str, layers: int, number: Any
) -> tuple[int, int]:
    """Return how many layers have a window, and how many a state instead of a cache."""
    recurrent = windowed = 0
    if every := number("full_attention_interval", 0):
        recurrent = layers - layers // every
    if number("attention.sliding_window", 0):
        pattern = values.get(f"{architecture}.attention.sliding_window_pattern")
        if isinstance(pattern, list):
            windowed = sum(map(bool, pattern))
        else:
            # llama.cpp's own patterns: one full layer in so many.
            every = pattern or {"gemma2": 2, "gemma3": 6, "gpt-oss": 2}.get(architecture, 0)
            windowed = layers - layers // every if every else 0
    return windowed, recurrent


def _state(number: Any) -> int:
    """Return the floats of one recurrent layer: its state, and what its convolution keeps."""
    inner, size = number("ssm.inner_size"), number("ssm.state_size")
    groups, kernel = number("ssm.group_count", 1), number("ssm.conv_kernel")
    return int(inner * size + (kernel - 1) * (inner + 2 * groups * size))


def _product(dimensions: list[int]) -> int:
    found = 1
    for each in dimensions:
        found *= each
    if not 0 < found < 2**48:
        raise ValueError(f"a tensor of {found} weights")
    return found


def _size(tensor: str, dimensions: list[int], kind: int) -> int:
    """Return the bytes of a tensor."""
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    try:
        block, block_bytes = GGML_QUANT_SIZES[GGMLQuantizationType(kind)]
    except (ValueError, KeyError):
        raise ValueError(f"{tensor} has the unknown type {kind}") from None
    return _product(dimensions) // block * block_bytes


def _quantisation(values: Mapping[str, Any], tensors: Mapping[str, tuple[list[int], int]]) -> str:
    """Return the file's quantisation as llama.cpp names it, else the type of most weights."""
    from gguf import GGMLQuantizationType, LlamaFileType

    try:
        named = LlamaFileType(values["general.file_type"]).name
        return named.removeprefix("MOSTLY_").removeprefix("ALL_")
    except (KeyError, ValueError):
        by_type: dict[int, int] = {}
        for dimensions, kind in tensors.values():
            by_type[kind] = by_type.get(kind, 0) + _product(dimensions)
        return GGMLQuantizationType(max(by_type, key=lambda kind: by_type[kind])).name
