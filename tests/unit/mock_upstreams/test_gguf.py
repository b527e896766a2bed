"""The made-up models are exact GGUF files whose bytes are the same everywhere."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from tests.mock_upstreams import gguf_models, gguf_vision, gguf_words, models
from tests.mock_upstreams.gguf_models import EmbeddingShape, TextShape

TINY = TextShape(blocks=1, width=64, hidden=96, heads=4)


def text_model(folder: Path, name: str = "tiny") -> Path:
    path = folder / f"{name}.gguf"
    gguf_models.write_text(path, name, TINY)
    return path


def tensors(path: Path) -> dict[str, Any]:
    return {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}


def test_bytes_are_pinned(tmp_path: Path) -> None:
    # The digests in the lab's lock and in its saved machines live as long as these bytes do.
    digest = hashlib.sha256(text_model(tmp_path).read_bytes()).hexdigest()
    assert digest == "7e35b9518db95fa7dcca1391c173a0633765e7768d88cbdd5b11e8eb88a1d65a"


def test_another_name_gets_other_weights(tmp_path: Path) -> None:
    first, second = tensors(text_model(tmp_path)), tensors(text_model(tmp_path, "other"))
    assert not np.array_equal(first["output.weight"].data, second["output.weight"].data)


def test_text_model_has_what_llama_cpp_reads(tmp_path: Path) -> None:
    reader = gguf.GGUFReader(text_model(tmp_path))
    keys = {"llama.block_count": 1, "llama.embedding_length": 64, "llama.attention.head_count": 4}
    for key, value in keys.items():
        field = reader.get_field(key)
        assert field is not None
        assert field.contents() == value
    vocabulary = len(gguf_words.sentence_pieces().tokens)
    shapes = {tensor.name: tensor.shape.tolist() for tensor in reader.tensors}
    assert shapes["token_embd.weight"] == [64, vocabulary]
    assert shapes["output.weight"] == [64, vocabulary]


def test_answer_may_end_only_after_a_full_stop(tmp_path: Path) -> None:
    output = tensors(text_model(tmp_path))["output.weight"].data
    tokens = gguf_words.sentence_pieces().tokens
    end, stop, word = gguf_words.END, tokens.index("."), tokens.index("▁house")
    constant, stopped = gguf_models.CONSTANT_COLUMN, gguf_models.STOP_COLUMN
    assert output[end, constant] < -1
    assert output[end, constant] + output[end, stopped] > 0
    assert output[stop, gguf_models.MARK_COLUMN] < -1
    assert output[word, constant] == 0


def test_blocks_leave_the_carried_columns_alone(tmp_path: Path) -> None:
    found = tensors(text_model(tmp_path))
    for name in ("blk.0.attn_output.weight", "blk.0.ffn_down.weight"):
        assert not found[name].data[:3].any()
        assert found[name].data[3:].any()


def test_embedding_model_pools_by_the_mean(tmp_path: Path) -> None:
    path = tmp_path / "embed.gguf"
    gguf_models.write_embedding(path, "embed", EmbeddingShape(1, 64, 64, 4))
    field = gguf.GGUFReader(path).get_field("nomic-bert.pooling_type")
    assert field is not None
    assert field.contents() == gguf.PoolingType.MEAN


def test_projector_ends_in_the_text_models_width(tmp_path: Path) -> None:
    shape = models.MODELS["qwen3-vl:latest"].vision
    assert shape is not None
    path = tmp_path / "projector.gguf"
    gguf_vision.write_projector(path, "picture", shape, text_width=256)
    found = tensors(path)
    assert found["mm.2.weight"].shape.tolist() == [256, 256]
    assert found["v.position_embd.weight"].shape.tolist() == [shape.width, shape.patches + 1]


@pytest.mark.parametrize("name", ["qwen2.5-coder:1.5b", "qwen3-vl:latest"])
def test_layers_are_ollamas(name: str, tmp_path: Path) -> None:
    kinds = [layer.media_type.rpartition(".")[2] for layer in models.write_layers(name, tmp_path)]
    projector = ["projector"] if "vl" in name else []
    assert kinds == ["model", *projector, "template", "license", "params", "v1+json"]
