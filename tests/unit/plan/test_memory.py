"""What models take of a memory, beside what the runtime itself reports, and headers that lie."""

import contextlib
import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hearth.plan import PlanError
from hearth.plan.headers import header_of, read_header
from hearth.plan.machine import GIB, Place
from hearth.plan.memory import Loaded, alternatives, budget, reserve_lines
from hearth.plan.models import cache_bytes, graph_bytes, known_models
from tests.unit.plan import sparse

REPORTED = json.loads(
    (Path(__file__).parents[2] / "fixtures/plan/runtime_memory.json").read_text(encoding="utf-8")
)
MIB = 2**20
CPU = Place(
    name="processor", backend="cpu", kind="shared", memory_bytes=64e9, bandwidth_bytes_per_s=5e10
)
# The list's names of the models that the runtime was asked about.
LISTED = {
    "llama-8b": "llama3.1",
    "qwen2-7b": "qwen2.5-coder:7b",
    "qwen3-4b": "qwen3:4b",
    "qwen3-30b-a3b": "qwen3:30b-a3b",
    "gemma3-12b": "gemma3:12b",
    "gpt-oss-20b": "gpt-oss:20b",
    "qwen3.5-9b": "qwen3.5",
}


def start_of(path: Path, size: int = 200_000) -> bytes:
    """Return the start of a file; all of it would be gigabytes of zeros."""
    with path.open("rb") as stream:
        return stream.read(size)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sparse")
    for name, dimensions in sparse.MODELS.items():
        sparse.write(folder / f"{name}.gguf", dimensions)
    return folder


@pytest.mark.parametrize("row", REPORTED["rows"], ids=lambda row: f"{row['model']}-{row['slots']}")
def test_memory_is_within_three_percent_of_what_llama_server_reports(
    files: Path, row: dict[str, Any]
) -> None:
    header = read_header(files / f"{row['model']}.gguf")
    loaded = Loaded(
        name=row["model"],
        shape=header.shape,
        weights_bytes=header.weights_bytes,
        weights_source="header",
        quantisation=header.quantisation,
        context=row["context"],
        slots=row["slots"],
        cache_type=row["cache_type"],
    )
    weights, cache, graph = loaded.lines(CPU)
    assert weights.size_bytes / MIB == pytest.approx(row["weights_mib"], rel=0.001)
    assert cache.size_bytes / MIB == pytest.approx(row["cache_mib"], rel=0.001)
    ours = sum(line.size_bytes for line in (weights, cache, graph)) / MIB
    reported = row["weights_mib"] + row["cache_mib"] + row["graph_mib"]
    assert ours == pytest.approx(reported, rel=0.03)
    # Nearly all of it is known exactly: half a percent.
    assert ours == pytest.approx(reported, rel=0.005)


def test_at_least_four_architectures_were_asked_about(files: Path) -> None:
    shapes = [read_header(files / f"{name}.gguf").shape for name in sparse.MODELS]
    assert len({shape.architecture for shape in shapes}) >= 4
    assert any(shape.experts for shape in shapes)
    assert any(shape.recurrent_layers for shape in shapes)
    assert any(shape.windowed_layers for shape in shapes)


@pytest.mark.parametrize("name", LISTED)
def test_the_shipped_dimensions_are_those_of_the_header(files: Path, name: str) -> None:
    header, listed = read_header(files / f"{name}.gguf").shape, known_models()[LISTED[name]].shape
    for context, slots in ((8192, 1), (32768, 4)):
        assert cache_bytes(listed, context, slots) == cache_bytes(header, context, slots)
    for on_card in (True, False):
        assert graph_bytes(listed, on_card) == graph_bytes(header, on_card)
    assert listed.parameters == pytest.approx(header.parameters, rel=0.06)
    assert listed.active_parameters == pytest.approx(header.active_parameters, rel=0.14)


def test_a_header_is_read_without_the_file_behind_it(files: Path) -> None:
    path = files / "llama-8b.gguf"
    assert header_of(start_of(path), "a range of it").shape == read_header(path).shape


def test_the_embedding_of_a_card_stays_on_the_host(files: Path) -> None:
    card = Place(
        name="card",
        backend="cuda",
        kind="dedicated",
        memory_bytes=8 * GIB,
        bandwidth_bytes_per_s=3e11,
    )
    header = read_header(files / "llama-8b.gguf")
    whole = Loaded(
        name="x",
        shape=header.shape,
        weights_bytes=header.weights_bytes,
        weights_source="header",
        quantisation="Q4_K_M",
        context=4096,
    )
    kept = whole.lines(CPU)[0].size_bytes - whole.lines(card)[0].size_bytes
    # 410.98 MiB in llama-server's report of the same file with a Vulkan device.
    assert kept / MIB == pytest.approx(410.98, rel=0.001)
    assert "stays on the host" in whole.lines(card)[0].source


def _edit(path: Path, at: int, form: str, value: int) -> bytes:
    data = bytearray(start_of(path))
    struct.pack_into(f"<{form}", data, at, value)
    return bytes(data)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ((0, "I", 0), "it is not a GGUF file"),
        ((4, "I", 99), "version 99"),
        ((8, "Q", 2**60), "values and"),
        ((16, "Q", 2**60), "values and"),
        ((24, "Q", 2**62), "a text of"),
    ],
)
def test_a_header_that_lies_is_one_line(
    files: Path, change: tuple[int, str, int], what: str
) -> None:
    data = _edit(files / "qwen3-4b.gguf", *change)
    with pytest.raises(PlanError, match=r"^x\.gguf: this header cannot be true: ") as caught:
        header_of(data, "x.gguf")
    assert what in str(caught.value)


def test_a_file_smaller_than_its_tensors_is_rejected(files: Path) -> None:
    path = files / "qwen3-4b.gguf"
    with pytest.raises(PlanError, match="download it again"):
        header_of(start_of(path), "x.gguf", 1_000_000)
    with pytest.raises(PlanError, match="cut off"):
        header_of(start_of(path, 5_000), "x.gguf")
    with pytest.raises(PlanError, match="name a GGUF file"):
        read_header(files)


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_broken_headers_never_crash(files: Path, data: st.DataObject) -> None:
    start = bytearray(start_of(files / "qwen3.5-9b.gguf", 60_000))
    for _ in range(data.draw(st.integers(1, 8))):
        start[data.draw(st.integers(0, len(start) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(PlanError):
        assert header_of(bytes(start), "x").weights_bytes > 0


def test_alternatives_have_their_price(files: Path) -> None:
    shape = read_header(files / "llama-8b.gguf").shape
    loaded = Loaded(
        name="x",
        shape=shape,
        weights_bytes=5e9,
        weights_source="",
        quantisation="Q4_K_M",
        context=8192,
        slots=2,
    )
    found = {each.what: each for each in alternatives(loaded)}
    assert list(found) == ["a q8_0 cache", "one request at a time", "a context of 4096"]
    assert found["a q8_0 cache"].saves_bytes / MIB == pytest.approx(2 * 480)
    assert found["one request at a time"].saves_bytes / MIB == 1024
    assert all(each.price for each in found.values())


def test_the_reserve_is_what_others_hold_or_what_is_set() -> None:
    busy = Place(
        name="card",
        backend="cuda",
        kind="dedicated",
        memory_bytes=8 * GIB,
        bandwidth_bytes_per_s=3e11,
        held_bytes=2.5 * GIB,
    )
    (held,) = reserve_lines(busy)
    assert (held.size_bytes, held.source) == (2.5 * GIB, "what other programs hold now")
    (chosen,) = reserve_lines(busy, 3e9)
    assert (chosen.size_bytes, chosen.source) == (3e9, "set with --reserve")
    whole = budget(busy, (chosen,))
    assert whole.fits
    assert whole.free_bytes == 8 * GIB - 3e9
