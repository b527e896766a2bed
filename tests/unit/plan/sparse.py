"""Writes GGUF files with real dimensions and no weights: holes of the file system, of any size.

`python -m tests.unit.plan.sparse FOLDER` writes all of them with whole vocabularies, for a real
llama-server; tests/fixtures/plan/runtime_memory.json has what it reported.
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np

Type = gguf.GGMLQuantizationType
_SPECIAL = 259


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimensions:
    """The dimensions of a published model."""

    architecture: str
    layers: int
    width: int
    hidden: int
    heads: int
    cache_heads: int
    head: int
    vocabulary: int
    context: int
    tied: bool = False
    query_norms: bool = False
    after_norms: bool = False
    biases: bool = False
    sinks: bool = False
    experts: int = 0
    experts_used: int = 0
    window: int = 0
    full_every: int = 0
    state_heads: int = 0
    state_groups: int = 0
    state: int = 0


MODELS = {
    "llama-8b": Dimensions(
        architecture="llama", layers=32, width=4096, hidden=14336, heads=32, cache_heads=8,
        head=128, vocabulary=128256, context=131072,
    ),
    "qwen2-7b": Dimensions(
        architecture="qwen2", layers=28, width=3584, hidden=18944, heads=28, cache_heads=4,
        head=128, vocabulary=152064, context=32768, biases=True,
    ),
    "qwen3-4b": Dimensions(
        architecture="qwen3", layers=36, width=2560, hidden=9728, heads=32, cache_heads=8,
        head=128, vocabulary=151936, context=40960, query_norms=True, tied=True,
    ),
    "qwen3-30b-a3b": Dimensions(
        architecture="qwen3moe", layers=48, width=2048, hidden=768, heads=32, cache_heads=4,
        head=128, vocabulary=151936, context=40960, query_norms=True, experts=128, experts_used=8,
    ),
    "gemma3-12b": Dimensions(
        architecture="gemma3", layers=48, width=3840, hidden=15360, heads=16, cache_heads=8,
        head=256, vocabulary=262208, context=131072, query_norms=True, tied=True, after_norms=True,
        window=1024,
    ),
    "gpt-oss-20b": Dimensions(
        architecture="gpt-oss", layers=24, width=2880, hidden=2880, heads=64, cache_heads=8,
        head=64, vocabulary=201088, context=131072, experts=32, experts_used=4, window=128,
        sinks=True, biases=True,
    ),
    "qwen3.5-9b": Dimensions(
        architecture="qwen35", layers=32, width=4096, hidden=12288, heads=16, cache_heads=4,
        head=256, vocabulary=248320, context=262144, query_norms=True, full_every=4,
        state_heads=32, state_groups=16, state=128,
    ),
}  # fmt: skip


class _File:
    """A file whose tensors take no room."""

    def __init__(self, path: Path, architecture: str) -> None:
        self.path, self.size = path, 0
        self.writer = gguf.GGUFWriter(path, architecture)

    def add(self, name: str, shape: Sequence[int], kind: Type = Type.F32) -> None:
        block, block_bytes = gguf.GGML_QUANT_SIZES[kind]
        size = int(np.prod(shape)) // block * block_bytes
        self.size += -(-size // 32) * 32
        if kind is Type.F32:
            self.writer.add_tensor_info(name, shape, np.dtype(np.float32), size)
            return
        packed = (*shape[:-1], shape[-1] // block * block_bytes)
        self.writer.add_tensor_info(name, packed, np.dtype(np.uint8), size, raw_dtype=kind)

    def matrix(self, name: str, rows: int, columns: int) -> None:
        self.add(name, (rows, columns), Type.Q4_K if columns % 256 == 0 else Type.Q8_0)

    def close(self) -> None:
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_ti_data_to_file()
        self.writer.close()
        header = -(-self.path.stat().st_size // 32) * 32
        os.truncate(self.path, header + self.size)


def write(path: Path, it: Dimensions, tokens: int = _SPECIAL) -> None:
    """Write one model; its vocabulary has `tokens` words, which only a runtime needs in full."""
    file = _File(path, it.architecture)
    _values(file.writer, it)
    _tokens(file.writer, tokens)
    kind = Type.Q6_K if it.width % 256 == 0 else Type.Q8_0
    file.add("token_embd.weight", (it.vocabulary, it.width), kind)
    file.add("output_norm.weight", (it.width,))
    if not it.tied:
        file.add("output.weight", (it.vocabulary, it.width), kind)
    for number in range(it.layers):
        _layer(file, it, f"blk.{number}.", it.full_every and (number + 1) % it.full_every != 0)
    file.close()


def _values(writer: gguf.GGUFWriter, it: Dimensions) -> None:
    writer.add_context_length(it.context)
    writer.add_embedding_length(it.width)
    writer.add_block_count(it.layers)
    writer.add_feed_forward_length(it.hidden)
    writer.add_head_count(it.heads)
    writer.add_head_count_kv(it.cache_heads)
    writer.add_key_length(it.head)
    writer.add_value_length(it.head)
    writer.add_rope_dimension_count(64 if it.full_every else it.head)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_vocab_size(it.vocabulary)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_K_M)
    if it.window:
        writer.add_sliding_window(it.window)
    if it.experts:
        writer.add_expert_count(it.experts)
        writer.add_expert_used_count(it.experts_used)
        writer.add_expert_feed_forward_length(it.hidden)
    if it.full_every:
        writer.add_ssm_conv_kernel(4)
        writer.add_ssm_state_size(it.state)
        writer.add_ssm_group_count(it.state_groups)
        writer.add_ssm_time_step_rank(it.state_heads)
        writer.add_ssm_inner_size(it.state_heads * it.state)
        writer.add_uint32(f"{it.architecture}.full_attention_interval", it.full_every)
        writer.add_rope_dimension_sections([11, 11, 10, 0])


def _tokens(writer: gguf.GGUFWriter, count: int) -> None:
    words = [f"▁w{number}" for number in range(count - _SPECIAL)]
    kinds = gguf.TokenType
    writer.add_tokenizer_model("llama")
    writer.add_token_list(
        ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *words]
    )
    writer.add_token_scores([0.0] * 3 + [-1000.0] * 256 + [-1.0] * len(words))
    special = [kinds.UNKNOWN, kinds.CONTROL, kinds.CONTROL]
    writer.add_token_types([*special, *[kinds.BYTE] * 256, *[kinds.NORMAL] * len(words)])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)


def _layer(file: _File, it: Dimensions, at: str, recurrent: int | bool) -> None:
    file.add(f"{at}attn_norm.weight", (it.width,))
    if recurrent:
        _recurrent(file, it, at)
    else:
        _attention(file, it, at)
    after = it.sinks or it.full_every
    file.add(f"{at}{'post_attention_norm' if after else 'ffn_norm'}.weight", (it.width,))
    if it.after_norms:
        file.add(f"{at}post_attention_norm.weight", (it.width,))
        file.add(f"{at}post_ffw_norm.weight", (it.width,))
    if not it.experts:
        file.matrix(f"{at}ffn_gate.weight", it.hidden, it.width)
        file.matrix(f"{at}ffn_up.weight", it.hidden, it.width)
        file.matrix(f"{at}ffn_down.weight", it.width, it.hidden)
        return
    file.add(f"{at}ffn_gate_inp.weight", (it.experts, it.width))
    kind = Type.MXFP4 if it.sinks else Type.Q4_K
    for part, rows, columns in (
        ("gate", it.hidden, it.width),
        ("up", it.hidden, it.width),
        ("down", it.width, it.hidden),
    ):
        file.add(f"{at}ffn_{part}_exps.weight", (it.experts, rows, columns), kind)
        if it.sinks:
            file.add(f"{at}ffn_{part}_exps.bias", (it.experts, rows))
    if it.sinks:
        file.add(f"{at}ffn_gate_inp.bias", (it.experts,))


def _attention(file: _File, it: Dimensions, at: str) -> None:
    query, cache = it.heads * it.head, it.cache_heads * it.head
    # A gated attention computes its gate in the same product.
    file.matrix(f"{at}attn_q.weight", query * (2 if it.full_every else 1), it.width)
    file.matrix(f"{at}attn_k.weight", cache, it.width)
    file.matrix(f"{at}attn_v.weight", cache, it.width)
    file.matrix(f"{at}attn_output.weight", it.width, query)
    if it.biases:
        for part, size in (("q", query), ("k", cache), ("v", cache)):
            file.add(f"{at}attn_{part}.bias", (size,))
    if it.sinks:
        file.add(f"{at}attn_output.bias", (it.width,))
        file.add(f"{at}attn_sinks.weight", (it.heads,))
    if it.query_norms:
        file.add(f"{at}attn_q_norm.weight", (it.head,))
        file.add(f"{at}attn_k_norm.weight", (it.head,))


def _recurrent(file: _File, it: Dimensions, at: str) -> None:
    inner = it.state_heads * it.state
    mixed = inner + 2 * it.state_groups * it.state
    file.matrix(f"{at}attn_qkv.weight", mixed, it.width)
    file.matrix(f"{at}attn_gate.weight", inner, it.width)
    file.add(f"{at}ssm_conv1d.weight", (mixed, 4))
    file.add(f"{at}ssm_dt.bias", (it.state_heads,))
    file.add(f"{at}ssm_a", (it.state_heads,))
    file.matrix(f"{at}ssm_beta.weight", it.state_heads, it.width)
    file.matrix(f"{at}ssm_alpha.weight", it.state_heads, it.width)
    file.add(f"{at}ssm_norm.weight", (it.state,))
    file.matrix(f"{at}ssm_out.weight", it.width, inner)


if __name__ == "__main__":
    for key, one in MODELS.items():
        write(Path(sys.argv[1]) / f"{key}.gguf", one, one.vocabulary)
