"""Writes GGUF files in the exact format with made-up weights: they load, answer and mean nothing.

The text models are Llama-shaped. Three columns of the embedding pass through every block
unchanged, and the output reads them. Column 0 is a constant, which suppresses bytes and control
tokens. Column 1 marks full stops: the answer may end only after one. Column 2 marks punctuation:
no mark follows another. The rest is noise, which picks the words. So an answer is a few sentences
of words, never empty, and it ends by itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt

from tests.mock_upstreams.gguf_tensors import Weights, add, ones, zeros
from tests.mock_upstreams.gguf_words import END, MARKS, STOPS, sentence_pieces, word_pieces

CONTEXT = 32768
# Logits, found by experiment with Ollama's default sampling: sentences of about eight words, and
# answers of about forty.
NEVER = -30.0
WORD_DEVIATION = 1.6
MARK_LOGITS = {".": 3.9, ",": 3.4, "?": 2.6, "!": 2.6}
END_LOGIT = 3.9
CONSTANT_COLUMN, STOP_COLUMN, MARK_COLUMN = 0, 1, 2


@dataclass(frozen=True, slots=True)
class TextShape:
    """The size of a text model: its file has about 2 bytes per parameter."""

    blocks: int
    width: int
    hidden: int
    heads: int

    @property
    def parameters(self) -> int:
        """Return the number of parameters in the blocks, which is nearly all of them."""
        return self.blocks * (4 * self.width**2 + 3 * self.width * self.hidden)


@dataclass(frozen=True, slots=True)
class EmbeddingShape:
    """The size of an embeddings model; `width` is the length of its vectors."""

    blocks: int
    width: int
    hidden: int
    heads: int


def write_text(path: Path, name: str, shape: TextShape) -> None:
    """Write a Llama-shaped text model whose weights follow from `name` alone."""
    writer = gguf.GGUFWriter(path, "llama")
    vocabulary = sentence_pieces()
    writer.add_name(name)
    writer.add_description("made up by the mock upstreams: random weights, words without meaning")
    writer.add_size_label(f"{max(1, shape.parameters // 10**6)}M")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.blocks)
    writer.add_feed_forward_length(shape.hidden)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.heads)
    writer.add_rope_dimension_count(shape.width // shape.heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(vocabulary.tokens))
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(vocabulary.tokens)
    writer.add_token_scores(vocabulary.scores)
    writer.add_token_types(vocabulary.types)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(True)
    _add_text_tensors(writer, Weights.named(name), shape)
    _finish(writer)


def _add_text_tensors(writer: gguf.GGUFWriter, weights: Weights, shape: TextShape) -> None:
    """Add embedding, blocks and output; the module docstring explains the columns."""
    vocabulary, width = sentence_pieces(), shape.width
    marks = [vocabulary.tokens.index(mark) for mark in MARKS]
    stops = [vocabulary.tokens.index(mark) for mark in STOPS]
    embedding = weights.uniform(len(vocabulary.tokens), width, deviation=1.0)
    embedding[:, :3] = 0
    embedding[:, CONSTANT_COLUMN] = carried(width)
    embedding[stops, STOP_COLUMN] = carried(width)
    embedding[marks, MARK_COLUMN] = carried(width)
    add(writer, {"token_embd.weight": embedding.astype(np.float16)})
    for block in range(shape.blocks):
        tensors: dict[str, npt.NDArray[Any]] = {
            "attn_norm.weight": ones(width),
            "attn_q.weight": weights.matrix(width, width),
            "attn_k.weight": weights.matrix(width, width),
            "attn_v.weight": weights.matrix(width, width),
            "attn_output.weight": weights.matrix(width, width, gain=0.5),
            "ffn_norm.weight": ones(width),
            "ffn_gate.weight": weights.matrix(shape.hidden, width),
            "ffn_up.weight": weights.matrix(shape.hidden, width),
            "ffn_down.weight": weights.matrix(width, shape.hidden, gain=0.5),
        }
        for leaving in ("attn_output.weight", "ffn_down.weight"):
            tensors[leaving][:3] = 0
        add(writer, {f"blk.{block}.{key}": tensor for key, tensor in tensors.items()})
    output = weights.uniform(len(vocabulary.tokens), width, deviation=WORD_DEVIATION / width**0.5)
    output[:, :3] = 0
    output[: vocabulary.first_word] = 0
    unit = 1 / arriving(width, shape.blocks)
    output[: vocabulary.first_word, CONSTANT_COLUMN] = NEVER * unit
    output[END, STOP_COLUMN] = (END_LOGIT - NEVER) * unit
    for mark, token in zip(MARKS, marks, strict=True):
        output[token] = 0
        output[token, CONSTANT_COLUMN] = MARK_LOGITS.get(mark, NEVER) * unit
        output[token, MARK_COLUMN] = NEVER * unit
    add(writer, {"output_norm.weight": ones(width), "output.weight": output.astype(np.float16)})


def carried(width: int) -> float:
    """Return the value of the columns that pass through: it stands out but does not dominate."""
    return 0.75 * math.sqrt(width)


def arriving(width: int, blocks: int) -> float:
    """Return the approximate value after the last norm, which brings the mean power to one."""
    power = carried(width) ** 2 / width + 1 + 0.2 * blocks
    return carried(width) / math.sqrt(power)


def write_embedding(path: Path, name: str, shape: EmbeddingShape) -> None:
    """Write a Nomic-BERT-shaped embeddings model: texts that share words get near vectors."""
    writer = gguf.GGUFWriter(path, "nomic-bert")
    vocabulary = word_pieces()
    writer.add_name(name)
    writer.add_description("made up by the mock upstreams: random weights, words without meaning")
    writer.add_context_length(2048)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.blocks)
    writer.add_feed_forward_length(shape.hidden)
    writer.add_head_count(shape.heads)
    writer.add_layer_norm_eps(1e-12)
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    writer.add_rope_freq_base(1000.0)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("jina-v2-en")
    writer.add_token_type_count(2)
    writer.add_token_list(vocabulary.tokens)
    writer.add_token_scores(vocabulary.scores)
    writer.add_token_types(vocabulary.types)
    writer.add_pad_token_id(0)
    writer.add_unk_token_id(1)
    writer.add_bos_token_id(2)
    writer.add_eos_token_id(3)
    writer.add_sep_token_id(3)
    writer.add_mask_token_id(4)
    _add_embedding_tensors(writer, Weights.named(name), shape, len(vocabulary.tokens))
    _finish(writer)


def _add_embedding_tensors(
    writer: gguf.GGUFWriter, weights: Weights, shape: EmbeddingShape, count: int
) -> None:
    """Add embedding and blocks, each with the post-norms of BERT."""
    width = shape.width
    norm = {"weight": ones(width), "bias": zeros(width)}
    add(writer, {"token_embd.weight": weights.matrix(count, width, gain=width**0.5)})
    add(writer, {"token_types.weight": weights.uniform(2, width, deviation=0.01)})
    add(writer, {f"token_embd_norm.{part}": tensor for part, tensor in norm.items()})
    for block in range(shape.blocks):
        tensors = {
            "attn_qkv.weight": weights.matrix(3 * width, width, gain=0.3),
            "attn_output.weight": weights.matrix(width, width, gain=0.3),
            "ffn_up.weight": weights.matrix(shape.hidden, width),
            "ffn_gate.weight": weights.matrix(shape.hidden, width),
            "ffn_down.weight": weights.matrix(width, shape.hidden, gain=0.3),
        }
        add(writer, {f"blk.{block}.{key}": tensor for key, tensor in tensors.items()})
        for place in ("attn_output_norm", "layer_output_norm"):
            add(writer, {f"blk.{block}.{place}.{part}": t for part, t in norm.items()})


def _finish(writer: gguf.GGUFWriter) -> None:
    """Write header, keys and tensors, and close the file."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
