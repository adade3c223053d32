"""Make tiny ONNX networks with random weights, and golden results for them.

Run it with no arguments. It writes, next to itself, one `<net>.onnx` per
network and one `nets.safetensors` holding, for each network,

    <net>/b1/input   <net>/b1/output     (batch of 1)
    <net>/b3/input   <net>/b3/output     (batch of 3)

The results come from ONNX Runtime on the CPU, one thread, with graph
optimisations disabled, so every node runs as it is written in the file.

The networks are not trained. They keep the structure of the well known
families (and the old or odd spellings those files use), at a few thousand
weights each. All numbers come from seeded generators, so running the script
twice gives the same bytes. Another version of ONNX Runtime, or another kind of
processor, may change the last bits of the outputs.

Needs: numpy, onnx, onnxruntime, safetensors.
"""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import save

HERE = Path(__file__).resolve().parent
INT64_MAX = np.iinfo(np.int64).max
MAX_NET_BYTES = 60_000
MAX_TOTAL_BYTES = 600_000


class Net:
    """A graph under construction: nodes and weights are added in order.

    Each method that adds a node returns the name of its output, so a network
    reads as a chain of calls.
    """

    def __init__(self, name, opset, ir_version, input_shape, seed):
        self.name = name
        self.opset = opset
        self.ir_version = ir_version
        self.input_shape = tuple(input_shape)  # without the batch
        self.seed = seed
        self.rng = np.random.default_rng(seed)
        self.nodes = []
        self.weights = []
        self.count = 0

    def fresh(self, stem):
        """A name not used before in this graph."""
        self.count += 1
        return f"{stem.lower()}_{self.count}"

    def const(self, values, dtype=np.float32, stem="const"):
        """Add an initializer and return its name."""
        name = self.fresh(stem)
        array = np.asarray(values, dtype=dtype)
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def ints(self, values):
        """Add an int64 initializer and return its name."""
        return self.const(values, np.int64, "ints")

    def op(self, kind, *inputs, output=None, **attributes):
        """Add one node with one output and return the output's name."""
        output = output or self.fresh(kind)
        self.nodes.append(
            helper.make_node(
                kind, list(inputs), [output], name=f"node_{output}", **attributes
            )
        )
        return output

    def conv(self, x, cin, cout, k, bias=True, group=1, gain=1.0, **attributes):
        """Convolution with a square kernel and variance-keeping weights."""
        fan_in = cin // group * k * k
        w = self.rng.standard_normal((cout, cin // group, k, k))
        w *= gain * np.sqrt(2.0 / fan_in)
        inputs = [x, self.const(w, stem="weight")]
        if bias:
            b = self.rng.uniform(-0.3, 0.3, cout)
            inputs.append(self.const(b, stem="bias"))
        return self.op(
            "Conv", *inputs, kernel_shape=[k, k], group=group, **attributes
        )

    def batch_norm(self, x, channels):
        """BatchNormalization for inference, with uneven statistics."""
        rng = self.rng
        return self.op(
            "BatchNormalization",
            x,
            self.const(rng.uniform(0.6, 1.2, channels), stem="scale"),
            self.const(rng.uniform(-0.3, 0.3, channels), stem="shift"),
            self.const(rng.uniform(-0.4, 0.4, channels), stem="mean"),
            self.const(rng.uniform(0.5, 2.0, channels), stem="var"),
            epsilon=1e-5,
        )

    def model(self, output_features):
        """Close the graph: `input` and `output`, both with a symbolic batch."""
        graph = helper.make_graph(
            self.nodes,
            self.name,
            [
                helper.make_tensor_value_info(
                    "input", TensorProto.FLOAT, ["batch", *self.input_shape]
                )
            ],
            [
                helper.make_tensor_value_info(
                    "output", TensorProto.FLOAT, ["batch", output_features]
                )
            ],
            self.weights,
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", self.opset)],
            ir_version=self.ir_version,
            producer_name="make_nets",
        )
        onnx.checker.check_model(model, full_check=True)
        return model


def squeezenet():
    """Fire modules, pooling with ceil_mode, and the old Softmax.

    Both pools see a size at which rounding up differs from rounding down:
    12x14 gives 6x7 (not 5x6), and 6x7 gives 3x3 (not 2x3).
    """
    net = Net("squeezenet", opset=11, ir_version=6, input_shape=(3, 26, 30), seed=101)

    def fire(x, cin, squeeze, expand):
        s = net.op("Relu", net.conv(x, cin, squeeze, 1))
        a = net.op("Relu", net.conv(s, squeeze, expand, 1))
        b = net.op("Relu", net.conv(s, squeeze, expand, 3, pads=[1, 1, 1, 1]))
        return net.op("Concat", a, b, axis=1)

    def pool(x):
        return net.op(
            "MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1
        )

    x = net.op("Relu", net.conv("input", 3, 16, 3, strides=[2, 2]))
    x = pool(x)
    x = fire(x, 16, 6, 12)
    x = fire(x, 24, 6, 12)
    x = pool(x)
    x = fire(x, 24, 8, 16)
    x = net.op("Dropout", x, ratio=0.5)
    x = net.op("Relu", net.conv(x, 32, 10, 1))
    x = net.op("GlobalAveragePool", x)
    x = net.op("Reshape", x, net.ints([0, -1]))
    net.op("Softmax", x, output="output")  # axis left out: 1 before opset 13
    return net, net.model(10)


def resnet():
    """Residual blocks with the BatchNormalization nodes kept.

    One BatchNormalization follows a Relu and feeds both a padded convolution
    and the shortcut, so it cannot be folded into a convolution before it.
    """
    net = Net("resnet", opset=13, ir_version=7, input_shape=(3, 32, 32), seed=102)

    def conv_bn(x, cin, cout, k, stride=1):
        pad = k // 2
        x = net.conv(
            x, cin, cout, k, bias=False, strides=[stride] * 2, pads=[pad] * 4
        )
        return net.batch_norm(x, cout)

    def basic(x, cin, cout, stride=1):
        y = net.op("Relu", conv_bn(x, cin, cout, 3, stride))
        y = conv_bn(y, cout, cout, 3)
        if stride != 1 or cin != cout:
            x = conv_bn(x, cin, cout, 1, stride)
        return net.op("Relu", net.op("Add", y, x))

    def bottleneck(x, cin, mid, cout, stride=1):
        y = net.op("Relu", conv_bn(x, cin, mid, 1))
        y = net.op("Relu", conv_bn(y, mid, mid, 3, stride))
        y = conv_bn(y, mid, cout, 1)
        if stride != 1 or cin != cout:
            x = conv_bn(x, cin, cout, 1, stride)
        return net.op("Relu", net.op("Add", y, x))

    x = net.op("Relu", conv_bn("input", 3, 8, 7, 2))
    x = net.op(
        "MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]
    )
    x = basic(x, 8, 8)
    x = net.batch_norm(x, 8)  # not directly after a Conv
    x = basic(x, 8, 12, 2)
    x = bottleneck(x, 12, 8, 32, 2)
    x = bottleneck(x, 32, 8, 32)
    x = net.op("GlobalAveragePool", x)
    x = net.op("Flatten", x, axis=1)
    w = net.const(net.rng.standard_normal((10, 32)) * 0.2, stem="weight")
    b = net.const(net.rng.uniform(-0.5, 0.5, 10), stem="bias")
    net.op("Gemm", x, w, b, output="output", alpha=1.0, beta=1.0, transB=1)
    return net, net.model(10)


def efficientnet_lite():
    """Depthwise convolutions, relu6 by attributes, and uneven padding.

    With stride 2, SAME_UPPER pads 30 rows by (0, 1) and 31 columns by (1, 1),
    and later 7 rows by (2, 2) and 8 columns by (1, 2).
    """
    net = Net(
        "efficientnet_lite", opset=10, ir_version=5, input_shape=(3, 30, 31), seed=103
    )

    def relu6(x):
        return net.op("Clip", x, min=0.0, max=6.0)

    def block(x, cin, mid, cout, k, **depthwise):
        y = relu6(net.conv(x, cin, mid, 1, gain=1.5, auto_pad="SAME_UPPER"))
        y = relu6(net.conv(y, mid, mid, k, group=mid, gain=1.5, **depthwise))
        y = net.conv(y, mid, cout, 1, gain=0.7)
        if cin == cout and "strides" not in depthwise:
            y = net.op("Add", y, x)
        return y

    x = net.conv("input", 3, 8, 3, gain=2.5, strides=[2, 2], auto_pad="SAME_UPPER")
    x = relu6(x)  # 15 x 16
    x = block(x, 8, 16, 8, 3, auto_pad="SAME_UPPER")
    x = block(x, 8, 24, 12, 5, strides=[2, 2], pads=[1, 1, 2, 2])  # 7 x 8
    x = block(x, 12, 24, 12, 3, pads=[0, 2, 2, 0])
    x = block(x, 12, 24, 16, 5, strides=[2, 2], auto_pad="SAME_UPPER")  # 4 x 4
    x = block(x, 16, 32, 16, 5, auto_pad="SAME_UPPER")
    x = block(x, 16, 32, 16, 3, strides=[2, 2], pads=[0, 0, 1, 1])  # 2 x 2
    x = relu6(net.conv(x, 16, 32, 1, gain=1.5))
    x = net.op("GlobalAveragePool", x)
    x = net.op("Squeeze", x, axes=[2, 3])
    w = net.const(net.rng.standard_normal((32, 10)) * 0.06, stem="weight")
    b = net.const(net.rng.uniform(-0.5, 0.5, 10), stem="bias")
    x = net.op("Add", net.op("MatMul", x, w), b)
    net.op("Softmax", x, output="output", axis=1)
    return net, net.model(10)


def mobilenet_v3():
    """Inverted residuals with HardSwish and squeeze-excite."""
    net = Net("mobilenet_v3", opset=14, ir_version=7, input_shape=(3, 32, 28), seed=104)

    def hard_sigmoid(x):
        return net.op("HardSigmoid", x, alpha=1.0 / 6.0, beta=0.5)

    def squeeze_excite(x, channels, mid):
        s = net.op("GlobalAveragePool", x)
        s = net.op("Relu", net.conv(s, channels, mid, 1, gain=2.0))
        s = hard_sigmoid(net.conv(s, mid, channels, 1, gain=3.0))
        return net.op("Mul", x, s)

    def block(x, cin, mid, cout, k, stride, act, excite):
        y = net.op(act, net.conv(x, cin, mid, 1))
        y = net.conv(
            y, mid, mid, k, group=mid, strides=[stride] * 2, pads=[k // 2] * 4
        )
        y = net.op(act, y)
        if excite:
            y = squeeze_excite(y, mid, mid // 4)
        y = net.conv(y, mid, cout, 1)
        if cin == cout and stride == 1:
            y = net.op("Add", y, x)
        return y

    x = net.conv("input", 3, 8, 3, gain=2.0, strides=[2, 2], pads=[1, 1, 1, 1])
    x = net.op("HardSwish", x)
    x = block(x, 8, 16, 8, 3, 1, "Relu", excite=True)
    x = block(x, 8, 24, 12, 3, 2, "Relu", excite=False)
    x = block(x, 12, 32, 16, 5, 2, "HardSwish", excite=True)
    x = block(x, 16, 32, 16, 5, 1, "HardSwish", excite=True)
    x = net.op("HardSwish", net.conv(x, 16, 32, 1))
    x = net.op("GlobalAveragePool", x)
    x = net.op("Flatten", x, axis=1)
    w = net.const(net.rng.standard_normal((24, 32)) * 0.25, stem="weight")
    b = net.const(net.rng.uniform(-0.3, 0.3, 24), stem="bias")
    x = net.op("HardSwish", net.op("Gemm", x, w, b, transB=1))
    w = net.const(net.rng.standard_normal((10, 24)) * 0.3, stem="weight")
    b = net.const(net.rng.uniform(-0.3, 0.3, 10), stem="bias")
    net.op("Gemm", x, w, b, output="output", transB=1)
    return net, net.model(10)


def zoo_of_operators():
    """One small part per operator, flattened and concatenated to one output.

    The parts stand in a fixed order, noted at each with its count of features,
    so that a wrong part can be told from its place in the output.
    """
    net = Net(
        "zoo_of_operators", opset=13, ir_version=7, input_shape=(4, 10, 12), seed=105
    )
    x = "input"
    parts = []

    def part(y, features):
        """Flatten a part and keep it for the final Concat."""
        parts.append((net.op("Flatten", y, axis=1), features))

    def cut(y, starts, ends, axes=None, steps=None):
        """Slice, leaving out the optional inputs that are not given."""
        inputs = [y, net.ints(starts), net.ints(ends)]
        if axes is not None:
            inputs.append(net.ints(axes))
        if steps is not None:
            inputs.append(net.ints(steps))
        return net.op("Slice", *inputs)

    # Slice: negative bounds, an end of INT64_MAX, steps, and no axes at all.
    part(cut(x, [-3, -9], [-1, -2], axes=[1, 2]), 2 * 7 * 12)
    part(cut(x, [1, 2], [INT64_MAX, 11], axes=[2, -1], steps=[2, 3]), 4 * 5 * 3)
    part(cut(x, [0, 1, -4, 3], [INT64_MAX, 3, INT64_MAX, -3]), 2 * 4 * 6)

    # Pad: constant, different on each side.
    two = cut(x, [0], [2], axes=[1])
    pads = net.ints([0, 0, 1, 2, 0, 0, 3, 0])
    y = net.op("Pad", two, pads, net.const(0.5), mode="constant")
    part(y, 2 * 14 * 14)

    # Transpose to channels last.
    part(net.op("Transpose", x, perm=[0, 2, 3, 1]), 10 * 12 * 4)

    # Squeeze one channel away, transpose what is left, and put two axes back.
    y = net.op("Squeeze", cut(x, [2], [3], axes=[1]), net.ints([1]))
    y = net.op("Transpose", y, perm=[0, 2, 1])
    part(net.op("Unsqueeze", y, net.ints([1, -1])), 12 * 10)

    # Resize: nearest doubles; linear makes one side larger and one smaller.
    one = cut(x, [-1], [INT64_MAX], axes=[1])
    y = net.op(
        "Resize", one, "", net.const([1, 1, 2, 2]), mode="nearest",
        coordinate_transformation_mode="asymmetric", nearest_mode="floor",
    )
    part(y, 20 * 24)
    y = net.op(
        "Resize", two, "", net.const([1, 1, 1.5, 0.75]), mode="linear",
        coordinate_transformation_mode="half_pixel",
    )
    part(y, 2 * 15 * 9)

    # Gather channels by constant indices, one of them negative.
    y = net.op("Gather", x, net.ints([2, -4, 1]), axis=1)
    part(cut(y, [0], [3], axes=[2]), 3 * 3 * 12)

    # ReduceMean, Sub and Div: normalise each image, then one mean without
    # keeping the axis.
    centred = net.op("Sub", x, net.op("ReduceMean", x, axes=[1, 2, 3], keepdims=1))
    scale = net.const(net.rng.uniform(0.5, 2.0, (1, 4, 1, 1)))
    part(net.op("Div", centred, scale), 4 * 10 * 12)
    part(net.op("ReduceMean", x, axes=[-1], keepdims=0), 4 * 10)

    # Sigmoid, on values wide enough to saturate.
    part(net.op("Sigmoid", net.op("Mul", one, net.const(8.0))), 10 * 12)

    # AveragePool: the padding counted, and not counted.
    for include in (1, 0):
        y = net.op(
            "AveragePool", x, kernel_shape=[3, 3], strides=[2, 2],
            pads=[1, 1, 1, 1], count_include_pad=include,
        )
        part(y, 4 * 5 * 6)

    # MatMul: four dimensions by a matrix, and four by four.
    w = net.const(net.rng.standard_normal((12, 5)) * 0.3, stem="weight")
    part(net.op("MatMul", x, w), 4 * 10 * 5)
    y = net.op("Transpose", one, perm=[0, 1, 3, 2])
    part(net.op("MatMul", one, y), 10 * 10)

    # Cast: to int32 and back drops the fraction, towards zero.
    y = net.op("Cast", net.op("Mul", one, net.const(4.0)), to=TensorProto.INT32)
    part(net.op("Cast", y, to=TensorProto.FLOAT), 10 * 12)

    # Cast of a size taken from Shape, used as a divisor.
    y = net.op("Gather", net.op("Shape", x), net.ints(3), axis=0)
    part(net.op("Div", one, net.op("Cast", y, to=TensorProto.FLOAT)), 10 * 12)

    # Shape -> Gather -> Concat -> Reshape with the symbolic batch: first by a
    # scalar index with Unsqueeze, then by a list of one index.
    y = net.op("Gather", net.op("Shape", x), net.ints(0), axis=0)
    y = net.op("Unsqueeze", y, net.ints([0]))
    y = net.op("Concat", y, net.ints([6, 80]), axis=0)
    y = net.op("Reshape", x, y)
    y = net.op("Transpose", y, perm=[0, 2, 1])
    z = net.op("Gather", net.op("Shape", y), net.ints([0]), axis=0)
    z = net.op("Concat", z, net.ints([-1]), axis=0)
    parts.append((net.op("Reshape", y, z), 480))

    net.op("Concat", *[name for name, _ in parts], output="output", axis=1)
    return net, net.model(sum(features for _, features in parts))


def run(model_bytes, batch):
    """The network's output by ONNX Runtime, without graph optimisations."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    session = ort.InferenceSession(
        model_bytes, options, providers=["CPUExecutionProvider"]
    )
    return session.run(["output"], {"input": batch})[0]


def main():
    """Write every network and the golden file, and print their sizes."""
    golden = {}
    total = 0
    builders = (squeezenet, resnet, efficientnet_lite, mobilenet_v3, zoo_of_operators)
    for build in builders:
        net, model = build()
        data = model.SerializeToString(deterministic=True)
        assert len(data) < MAX_NET_BYTES, (net.name, len(data))
        (HERE / f"{net.name}.onnx").write_bytes(data)
        total += len(data)
        rng = np.random.default_rng(net.seed + 1000)
        for size in (1, 3):
            batch = rng.standard_normal((size, *net.input_shape)).astype(np.float32)
            output = run(data, batch)
            assert output.dtype == np.float32 and np.isfinite(output).all()
            golden[f"{net.name}/b{size}/input"] = batch
            golden[f"{net.name}/b{size}/output"] = np.ascontiguousarray(output)
        print(f"{net.name}.onnx: {len(data)} bytes, output {output.shape}")
    data = save(golden)
    total += len(data)
    assert total < MAX_TOTAL_BYTES, total
    (HERE / "nets.safetensors").write_bytes(data)
    print(f"nets.safetensors: {len(data)} bytes; everything: {total} bytes")


if __name__ == "__main__":
    main()
