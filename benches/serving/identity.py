"""Writes an ONNX model that returns its inputs: one pair INPUT_TYPE, OUTPUT_TYPE for each type, of shape [rows, 4].

    identity.py OUT.onnx [TYPE,...]
"""

import sys

import onnx
from onnx import TensorProto, helper

TYPES = {
    "BOOL": TensorProto.BOOL, "UINT8": TensorProto.UINT8, "UINT16": TensorProto.UINT16, "UINT32": TensorProto.UINT32, "UINT64": TensorProto.UINT64,
    "INT8": TensorProto.INT8, "INT16": TensorProto.INT16, "INT32": TensorProto.INT32, "INT64": TensorProto.INT64,
    "FP16": TensorProto.FLOAT16, "FP32": TensorProto.FLOAT, "FP64": TensorProto.DOUBLE, "BYTES": TensorProto.STRING,
}

chosen = sys.argv[2].split(",") if len(sys.argv) > 2 else list(TYPES)
graph = helper.make_graph(
    [helper.make_node("Identity", [f"INPUT_{name}"], [f"OUTPUT_{name}"]) for name in chosen],
    "identity",
    [helper.make_tensor_value_info(f"INPUT_{name}", TYPES[name], ["rows", 4]) for name in chosen],
    [helper.make_tensor_value_info(f"OUTPUT_{name}", TYPES[name], ["rows", 4]) for name in chosen],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
onnx.checker.check_model(model)
onnx.save(model, sys.argv[1])
