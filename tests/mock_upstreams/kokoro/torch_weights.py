"""The weights for PyTorch, in the format of `torch.save`, written without PyTorch.

The list beside this file names every parameter of the `kokoro` package's KModel with its shape,
mean and spread as that model begins, the same duration and pitch biases as in the skeleton, and
"module." before each name, as in the published file.
"""

from __future__ import annotations

import itertools
import json
import lzma
import math
import pickle
import struct
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.mock_upstreams.kokoro.weights import noise

PARAMETERS = Path(__file__).with_name("kokoro-parameters.json.xz")
_STORAGE = b"ctorch\nFloatStorage\n"
_REBUILD = b"ctorch._utils\n_rebuild_tensor_v2\n"
_NO_HOOKS = b"ccollections\nOrderedDict\n" + pickle.EMPTY_TUPLE + pickle.REDUCE


@dataclass(frozen=True, slots=True)
class Parameter:
    """One tensor: the part of the model that holds it, its name there, and its numbers."""

    part: str
    name: str
    shape: tuple[int, ...]
    mean: float
    std: float


def parameters() -> list[Parameter]:
    """Return all 688 tensors of the model."""
    rows = json.loads(lzma.decompress(PARAMETERS.read_bytes()))
    found = []
    for full, shape, mean, std in rows:
        part, _, name = full.partition(".")
        found.append(Parameter(part, name, tuple(shape), mean, std))
    return found


def write(target: Path) -> None:
    """Write the file, 327 MB; the same bytes every time."""
    found = parameters()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:

        def add(name: str, content: bytes) -> None:
            archive.writestr(zipfile.ZipInfo(f"kokoro-v1_0/{name}"), content)

        add("data.pkl", _pickled(found))
        add("byteorder", b"little")
        for index, one in enumerate(found):
            values = noise(f"{one.part}.{one.name}", math.prod(one.shape), one.mean, one.std)
            add(f"data/{index}", values.tobytes())
        add("version", b"3\n")


def _pickled(found: Iterable[Parameter]) -> bytes:
    """Return what `torch.load` reads: part -> name -> tensor, each tensor with its own file."""
    numbered = list(enumerate(found))
    parts = [pickle.PROTO + b"\x02", pickle.EMPTY_DICT, pickle.MARK]
    for part, group in itertools.groupby(numbered, key=lambda pair: pair[1].part):
        parts += [_text(part), pickle.EMPTY_DICT, pickle.MARK]
        for index, one in group:
            parts += [_text(f"module.{one.name}"), _tensor(index, one.shape)]
        parts.append(pickle.SETITEMS)
    return b"".join([*parts, pickle.SETITEMS, pickle.STOP])


def _tensor(index: int, shape: tuple[int, ...]) -> bytes:
    """Return the call that makes one tensor of the file with this number."""
    strides = tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
    storage = [_text("storage"), _STORAGE, _text(str(index)), _text("cpu")]
    where = _tuple([*storage, _number(math.prod(shape))]) + pickle.BINPERSID
    sizes = [_tuple([_number(size) for size in numbers]) for numbers in (shape, strides)]
    arguments = [where, _number(0), *sizes, pickle.NEWFALSE, _NO_HOOKS]
    return _REBUILD + _tuple(arguments) + pickle.REDUCE


def _tuple(items: list[bytes]) -> bytes:
    return pickle.MARK + b"".join(items) + pickle.TUPLE


def _number(value: int) -> bytes:
    return pickle.BININT + struct.pack("<i", value)


def _text(value: str) -> bytes:
    return pickle.BINUNICODE + struct.pack("<I", len(value.encode())) + value.encode()
