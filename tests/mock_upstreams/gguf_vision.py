"""Writes a projector in LLaVA's format with made-up weights, which turns a picture into tokens."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy.typing as npt

from tests.mock_upstreams.gguf_tensors import Floats, Weights, add, ones, zeros


@dataclass(frozen=True, slots=True)
class VisionShape:
    """The encoder's size: a square `image` of pixels in square patches."""

    image: int
    patch: int
    blocks: int
    width: int
    hidden: int
    heads: int

    @property
    def patches(self) -> int:
        """Return how many tokens a picture becomes."""
        return (self.image // self.patch) ** 2


def write_projector(path: Path, name: str, shape: VisionShape, text_width: int) -> None:
    """Write the file that llama-server takes as `--mmproj` beside a text model of this width."""
    writer = gguf.GGUFWriter(path, "clip")
    writer.add_name(f"{name} projector")
    writer.add_description("made up by the mock upstreams: random weights")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_bool("clip.has_vision_encoder", True)
    writer.add_string("clip.projector_type", "mlp")
    writer.add_bool("clip.use_gelu", True)
    writer.add_vision_image_size(shape.image)
    writer.add_vision_patch_size(shape.patch)
    writer.add_vision_embedding_length(shape.width)
    writer.add_vision_feed_forward_length(shape.hidden)
    writer.add_vision_projection_dim(text_width)
    writer.add_vision_head_count(shape.heads)
    writer.add_vision_block_count(shape.blocks)
    writer.add_vision_attention_layernorm_eps(1e-5)
    writer.add_vision_image_mean([0.5, 0.5, 0.5])
    writer.add_vision_image_std([0.5, 0.5, 0.5])
    _add_tensors(writer, Weights.named(f"{name} projector"), shape, text_width)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_tensors(
    writer: gguf.GGUFWriter, weights: Weights, shape: VisionShape, text_width: int
) -> None:
    """Add the encoder's embedding and blocks and the two matrices of the projector."""
    width = shape.width
    patch = weights.uniform(width, 3, shape.patch, shape.patch, deviation=0.05)
    tensors: dict[str, npt.NDArray[Any]] = {
        "v.class_embd": weights.uniform(width, deviation=0.5),
        "v.patch_embd.weight": patch,
        "v.position_embd.weight": weights.uniform(shape.patches + 1, width, deviation=0.2),
        **_norm("v.pre_ln", width),
    }
    for block in range(shape.blocks):
        for part in ("attn_q", "attn_k", "attn_v", "attn_out"):
            tensors |= _linear(weights, f"v.blk.{block}.{part}", width, width)
        tensors |= _norm(f"v.blk.{block}.ln1", width) | _norm(f"v.blk.{block}.ln2", width)
        tensors |= _linear(weights, f"v.blk.{block}.ffn_up", shape.hidden, width)
        tensors |= _linear(weights, f"v.blk.{block}.ffn_down", width, shape.hidden)
    tensors |= _linear(weights, "mm.0", text_width, width)
    tensors |= _linear(weights, "mm.2", text_width, text_width)
    add(writer, tensors)


def _norm(name: str, width: int) -> dict[str, Floats]:
    """Return a neutral layer norm."""
    return {f"{name}.weight": ones(width), f"{name}.bias": zeros(width)}


def _linear(weights: Weights, name: str, rows: int, columns: int) -> dict[str, npt.NDArray[Any]]:
    """Return one matrix with its bias."""
    return {f"{name}.weight": weights.matrix(rows, columns), f"{name}.bias": zeros(rows)}
