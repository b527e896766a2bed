"""The made-up models are exact GGUF files whose bytes are the same everywhere."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from tests.mock_upstreams import gguf_models, gguf_script, gguf_vision, gguf_words, models
from tests.mock_upstreams.gguf_models import EmbeddingShape, TextShape
from tests.mock_upstreams.gguf_script import ANSWER, BLANK_LINE, NEWLINE, STEPS, XML, Script

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
    assert digest == "f2ddb3031b3f0e8df98bb696fddce3944d90c1c05d743b56b4f6c23985e83798"


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
    special = gguf_script.special_tokens(Script())
    vocabulary = len(gguf_words.sentence_pieces(special).tokens)
    shapes = {tensor.name: tensor.shape.tolist() for tensor in reader.tensors}
    assert shapes["token_embd.weight"] == [64, vocabulary]
    assert shapes["output.weight"] == [64, vocabulary]


def test_answer_may_end_only_after_a_full_stop(tmp_path: Path) -> None:
    output = tensors(text_model(tmp_path))["output.weight"].data
    tokens = gguf_words.sentence_pieces(gguf_script.special_tokens(Script())).tokens
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


@pytest.mark.parametrize(
    ("name", "more", "parser"),
    [
        ("qwen2.5-coder:1.5b", ["template", "system"], None),
        ("qwen3-vl:latest", ["projector", "template"], "qwen3-vl-thinking"),
        ("qwen3.5:4b", ["projector", "template"], "qwen3.5"),
        ("nomic-embed-text:latest", ["template"], None),
    ],
)
def test_layers_are_ollamas(name: str, more: list[str], parser: str | None, tmp_path: Path) -> None:
    layers = models.write_layers(name, tmp_path)
    kinds = [layer.media_type.rpartition(".")[2] for layer in layers]
    assert kinds == ["model", *more, "license", "params", "v1+json"]
    configuration = json.loads(layers[-1].path.read_text())
    assert configuration.get("parser") == configuration.get("renderer") == parser


class Reader:
    """Runs a written model as llama.cpp does, without its rotation, which changes nothing here."""

    def __init__(self, path: Path, shape: TextShape) -> None:
        reader = gguf.GGUFReader(path)
        self.weights = {one.name: one.data.astype(np.float32) for one in reader.tensors}
        field = reader.get_field("tokenizer.ggml.tokens")
        assert field is not None
        self.tokens, self.shape = list(field.contents()), shape

    def _normed(self, rows: Any) -> Any:
        return rows / np.sqrt((rows**2).mean(axis=-1, keepdims=True) + 1e-5)

    def _next(self, prompt: list[str]) -> str:
        """Return the likeliest token after these."""
        (w, heads) = (self.weights, self.shape.heads)
        rows = w["token_embd.weight"][[self.tokens.index(token) for token in prompt]]
        for block in range(self.shape.blocks):

            def part(name: str, rows: Any, block: int = block) -> Any:
                return rows @ w[f"blk.{block}.{name}.weight"].T

            normed = self._normed(rows)
            mixed = []
            for q, k, v in zip(
                *(np.split(part(f"attn_{kind}", normed), heads, axis=1) for kind in "qkv"),
                strict=True,
            ):
                scores = q @ k.T / q.shape[1] ** 0.5
                scores[np.triu_indices(len(rows), 1)] = -np.inf
                weights = np.exp(scores - scores.max(axis=1, keepdims=True))
                mixed.append(weights / weights.sum(axis=1, keepdims=True) @ v)
            rows = rows + part("attn_output", np.concatenate(mixed, axis=1))
            normed = self._normed(rows)
            gate = part("ffn_gate", normed)
            rows = rows + part("ffn_down", gate / (1 + np.exp(-gate)) * part("ffn_up", normed))
        return str(self.tokens[int(np.argmax(w["output.weight"] @ self._normed(rows[-1])))])

    def answer(self, prompt: list[str], most: int = 60) -> list[str]:
        """Return what it says after a prompt."""
        said: list[str] = []
        while len(said) < most and said[-1:] != ["</s>"]:
            said.append(self._next(prompt + said))
        return said


SCRIPTED = TextShape(blocks=1, width=128, hidden=96, heads=4)
TALK = ["<|im_start|>", "<0x41>", "<|im_end|>", "<think>"]
CALL = [XML.opening, XML.call, XML.closing]


def scripted(folder: Path, script: Script) -> Reader:
    path = folder / "scripted.gguf"
    gguf_models.write_text(path, "scripted", SCRIPTED, script)
    return Reader(path, SCRIPTED)


def test_thought_is_closed_before_the_answer_or_never(tmp_path: Path) -> None:
    steps = [f" step {number}," for number in range(1, STEPS + 1)]
    model = scripted(tmp_path, Script(thinks=True, answer=ANSWER))
    said = model.answer([*TALK, NEWLINE])
    assert said == [*steps, "</think>", BLANK_LINE, *ANSWER, "</s>"]
    # A prompt without thought ends in another token.
    assert model.answer([*TALK, BLANK_LINE, "</think>", BLANK_LINE]) == [*ANSWER, "</s>"]
    endless = scripted(tmp_path, Script(thinks=True, endless=True))
    assert endless.answer([*TALK, NEWLINE]) == (steps * 2)[:60]


def test_offered_tools_are_called_once(tmp_path: Path) -> None:
    model = scripted(tmp_path, Script(calls=XML, answer=ANSWER))
    tool, second = gguf_script.TOOL, gguf_script.SECOND_TOOL
    assert model.answer([tool, *TALK, BLANK_LINE]) == [*CALL, "</s>"]
    both = model.answer([tool, second, *TALK, BLANK_LINE])
    assert both == [*CALL, XML.second, "</s>"]
    for prompt in ([second, *TALK], [tool, *TALK, *CALL, XML.result]):
        assert model.answer([*prompt, BLANK_LINE]) == [*ANSWER, "</s>"]


def test_random_words_follow_where_nothing_is_scripted(tmp_path: Path) -> None:
    model = scripted(tmp_path, Script(calls=XML))
    said = model.answer([*TALK, BLANK_LINE], 3)
    assert said[0].startswith("▁")
