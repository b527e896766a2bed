"""The model for onnxruntime and its voices, grown from a skeleton of 35 kB.

The skeleton is the real graph; each large weight in it is reduced to its shape and, in its
doc_string, to "mean std".
"""

from __future__ import annotations

import json
import lzma
import math
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper

Signature = Literal["v1.0", "v1.1"]
Floats = npt.NDArray[np.float32]

SKELETON = Path(__file__).with_name("kokoro-skeleton.onnx.xz")
# The published voices; a name's first letter is its language, its second who speaks.
VOICES = """
af_alloy af_aoede af_bella af_heart af_jessica af_kore af_nicole af_nova af_river af_sarah
af_sky am_adam am_echo am_eric am_fenrir am_liam am_michael am_onyx am_puck am_santa bf_alice
bf_emma bf_isabella bf_lily bm_daniel bm_fable bm_george bm_lewis ef_dora em_alex em_santa
ff_siwis hf_alpha hf_beta hm_omega hm_psi if_sara im_nicola jf_alpha jf_gongitsune jf_nezumi
jf_tebukuro jm_kumo pf_dora pm_alex pm_santa zf_xiaobei zf_xiaoni zf_xiaoxiao zf_xiaoyi
zm_yunjian zm_yunxi zm_yunxia zm_yunyang
"""


def noise(name: str, count: int, mean: float, std: float) -> Floats:
    """Return uniform values from PCG64's raw stream, which numpy keeps the same for ever."""
    bits = np.random.PCG64([0, zlib.crc32(name.encode())]).random_raw((count + 1) // 2)
    values = np.asarray(bits).astype("<u8").view("<u4")[:count].astype(np.float32)
    values *= np.float32(math.sqrt(12) * std / 2**32)
    values += np.float32(mean - math.sqrt(3) * std)
    return values


def model(signature: Signature = "v1.0", config: Mapping[str, object] | None = None) -> bytes:
    """Return the whole model, 325 MB.

    v1.0 is `tokens, style, speed -> audio`, v1.1 `input_ids, style, speed -> waveform, duration`,
    with `config` (that of kokoro_onnx) inside, where one is given.
    """
    proto = onnx.load_from_string(lzma.decompress(SKELETON.read_bytes()))
    for tensor in proto.graph.initializer:
        if tensor.doc_string:
            mean, std = map(float, tensor.doc_string.split())
            tensor.raw_data = noise(tensor.name, math.prod(tensor.dims), mean, std).tobytes()
            tensor.ClearField("doc_string")
    if signature == "v1.0":
        del proto.graph.output[1:]
    else:
        _rename(proto.graph)
        if config:
            helper.set_model_props(proto, {"kokoro_config": json.dumps(config)})
    content: bytes = proto.SerializeToString(deterministic=True)
    return content


def _rename(graph: onnx.GraphProto) -> None:
    """Give the graph the names of the newer exports."""
    graph.input[0].name = "input_ids"
    graph.output[0].name = "waveform"
    graph.node.insert(0, helper.make_node("Identity", ["input_ids"], ["tokens"]))
    graph.node.append(helper.make_node("Identity", ["audio"], ["waveform"]))


def voices() -> dict[str, Floats]:
    """Return a style per voice that drifts a little with the number of tokens, as real ones do."""
    length = np.linspace(-1, 1, 510, dtype=np.float32)[:, None, None]
    return {
        name: noise(name, 256, 0, 0.12) + length * noise(name + "+", 256, 0, 0.02)
        for name in VOICES.split()
    }
