"""Writes GGUF files in the exact format with made-up weights: they load, answer and mean nothing.

The text models are Llama-shaped. Some columns of the embedding pass through every block
unchanged, and the output reads them. Column 0 is a constant, which suppresses bytes and control
tokens. Column 1 marks full stops: the answer may end only after one. Column 2 marks punctuation:
no mark follows another. The next few are its script's (gguf_script.py). The rest is noise, which
picks the words. So an answer is a few sentences of words, never empty, and it ends by itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np

from tests.mock_upstreams import gguf_script
from tests.mock_upstreams.gguf_script import ANSWERS, NEVER, ROPE_BASE, Columns, Script
from tests.mock_upstreams.gguf_tensors import Floats, Halves, Weights, add, ones, zeros
from tests.mock_upstreams.gguf_words import (
    END,
    MARKS,
    STOPS,
    Vocabulary,
    sentence_pieces,
    word_pieces,
)

CONTEXT = 32768
# Logits, found by experiment with Ollama's default sampling: sentences of about eight words, and
# answers of about forty.
WORD_DEVIATION = 1.6
MARK_LOGITS = {".": 3.9, ",": 3.4, "?": 2.6, "!": 2.6}
END_LOGIT = 3.9
CONSTANT_COLUMN, STOP_COLUMN, MARK_COLUMN, FIRST_COLUMN = 0, 1, 2, 3


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


def write_text(path: Path, name: str, shape: TextShape, script: Script = ANSWERS) -> None:
    """Write a Llama-shaped text model whose weights follow from `name` and its script alone."""
    writer = gguf.GGUFWriter(path, "llama")
    vocabulary = sentence_pieces(gguf_script.special_tokens(script))
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
    writer.add_rope_freq_base(ROPE_BASE)
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
    _add_text_tensors(writer, Weights.named(name), shape, script, vocabulary)
    _finish(writer)


def _add_text_tensors(
    writer: gguf.GGUFWriter,
    weights: Weights,
    shape: TextShape,
    script: Script,
    vocabulary: Vocabulary,
) -> None:
    """Add embedding, blocks and output; the module docstring explains the columns."""
    width, tokens = shape.width, vocabulary.tokens
    place = gguf_script.columns(FIRST_COLUMN, script)
    marks = [tokens.index(mark) for mark in MARKS]
    stops = [tokens.index(mark) for mark in STOPS]
    embedding = weights.uniform(len(tokens), width, deviation=1.0)
    embedding[:, : place.end] = 0
    embedding[:, CONSTANT_COLUMN] = carried(width)
    embedding[stops, STOP_COLUMN] = carried(width)
    # An answer starts with a word, too.
    embedding[[*marks, tokens.index(script.start)], MARK_COLUMN] = carried(width)
    gguf_script.mark(embedding, tokens, place, carried(width))
    add(writer, {"token_embd.weight": embedding.astype(np.float16)})
    for block in range(shape.blocks):
        tensors = _block(weights, shape, place.end)
        if block == 0:
            gguf_script.search(tensors, place, shape.heads, CONSTANT_COLUMN)
        norms = {f"{part}_norm.weight": ones(width) for part in ("attn", "ffn")}
        add(writer, {f"blk.{block}.{key}": each for key, each in (tensors | norms).items()})
    output = _output(weights, shape, vocabulary, place, script)
    add(writer, {"output_norm.weight": ones(width), "output.weight": output.astype(np.float16)})


def _block(weights: Weights, shape: TextShape, reserved: int) -> dict[str, Halves]:
    """Return the matrices of one block, which leaves the first columns alone."""
    width = shape.width
    tensors = {
        "attn_q.weight": weights.matrix(width, width),
        "attn_k.weight": weights.matrix(width, width),
        "attn_v.weight": weights.matrix(width, width),
        "attn_output.weight": weights.matrix(width, width, gain=0.5),
        "ffn_gate.weight": weights.matrix(shape.hidden, width),
        "ffn_up.weight": weights.matrix(shape.hidden, width),
        "ffn_down.weight": weights.matrix(width, shape.hidden, gain=0.5),
    }
    for leaving in ("attn_output.weight", "ffn_down.weight"):
        tensors[leaving][:reserved] = 0
    return tensors


def _output(
    weights: Weights, shape: TextShape, vocabulary: Vocabulary, place: Columns, script: Script
) -> Floats:
    """Return the output matrix: words by noise, all else by the columns."""
    width, tokens = shape.width, vocabulary.tokens
    logits = np.zeros((len(tokens), place.end), dtype=np.float32)
    logits[: vocabulary.first_word, CONSTANT_COLUMN] = NEVER
    logits[END, STOP_COLUMN] = END_LOGIT - NEVER
    for mark in MARKS:
        logits[tokens.index(mark), CONSTANT_COLUMN] = MARK_LOGITS.get(mark, NEVER)
        logits[tokens.index(mark), MARK_COLUMN] = NEVER
    gguf_script.decide(logits, tokens, place, script, (END, CONSTANT_COLUMN))
    output = weights.uniform(len(tokens), width, deviation=WORD_DEVIATION / width**0.5)
    output[: vocabulary.first_word] = 0
    output[[tokens.index(mark) for mark in MARKS]] = 0
    output[:, : place.end] = logits / arriving(width, shape.blocks)
    return output


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
