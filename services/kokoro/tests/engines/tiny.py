"""Graphs with Kokoro's two signatures without its weights, and one that runs for an hour."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def write(path: Path, *, newer: bool = False, whole_speeds: bool = False, config: str = "") -> Path:
    """Write a graph whose sound is 600 samples per token, over the speed, each the style's sum."""
    ids = "input_ids" if newer else "tokens"
    speed = TensorProto.INT32 if whole_speeds else TensorProto.FLOAT
    nodes = [
        helper.make_node("Size", [ids], ["count"]),
        helper.make_node("Cast", ["count"], ["count_f"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["speed"], ["speed_f"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["count_f", "frame"], ["samples"]),
        helper.make_node("Div", ["samples", "speed_f"], ["length_f"]),
        helper.make_node("Cast", ["length_f"], ["length"], to=TensorProto.INT64),
        helper.make_node("ReduceSum", ["style"], ["level"], keepdims=0),
        helper.make_node("Expand", ["level", "length"], ["waveform" if newer else "audio"]),
        helper.make_node("Identity", [ids], ["duration"]),
    ]
    outputs = [
        helper.make_tensor_value_info("waveform" if newer else "audio", TensorProto.FLOAT, [None])
    ]
    if newer:
        outputs.append(helper.make_tensor_value_info("duration", TensorProto.INT64, [1, None]))
    _save(path, nodes, _inputs(ids, speed), outputs, [_floats("frame", 600.0)], config)
    return path


def write_endless(path: Path) -> Path:
    """Write a graph that multiplies matrices for about an hour."""
    body = helper.make_graph(
        [
            helper.make_node("MatMul", ["m", "m"], ["m2"]),
            helper.make_node("Identity", ["go"], ["again"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("m", TensorProto.FLOAT, [256, 256]),
        ],
        [
            helper.make_tensor_value_info("again", TensorProto.BOOL, []),
            helper.make_tensor_value_info("m2", TensorProto.FLOAT, [256, 256]),
        ],
    )
    nodes = [
        helper.make_node("Size", ["tokens"], ["count"]),
        helper.make_node("Mul", ["count", "many"], ["trips"]),
        helper.make_node("Loop", ["trips", "", "zeros"], ["last"], body=body),
        helper.make_node("ReduceSum", ["last"], ["sum"], keepdims=0),
        helper.make_node("ReduceSum", ["style"], ["style_sum"], keepdims=0),
        helper.make_node("Add", ["sum", "style_sum"], ["sums"]),
        helper.make_node("Add", ["sums", "speed"], ["audio"]),
    ]
    constants = [
        numpy_helper.from_array(np.array(10_000_000), "many"),
        numpy_helper.from_array(np.zeros((256, 256), np.float32), "zeros"),
    ]
    outputs = [helper.make_tensor_value_info("audio", TensorProto.FLOAT, [None])]
    _save(path, nodes, _inputs("tokens", TensorProto.FLOAT), outputs, constants, "")
    return path


def _inputs(ids: str, speed: int) -> list[onnx.ValueInfoProto]:
    return [
        helper.make_tensor_value_info(ids, TensorProto.INT64, [1, None]),
        helper.make_tensor_value_info("style", TensorProto.FLOAT, [1, 256]),
        helper.make_tensor_value_info("speed", speed, [1]),
    ]


def _floats(name: str, value: float) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array([value], np.float32), name)


def _save(
    path: Path,
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    constants: list[onnx.TensorProto],
    config: str,
) -> None:
    graph = helper.make_graph(nodes, "tiny", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    if config:
        helper.set_model_props(model, {"kokoro_config": config})
    onnx.save(model, path)
