//! Writes small ONNX files for tests.
#![allow(dead_code, clippy::unwrap_used, reason = "each test binary uses another part, and fails by panicking")]

use dala_model::proto::{
    AttributeProto, DimensionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto,
    TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto, attribute_type, element_type,
};
use dala_model::{Model, ModelError, Network};
use dala_spec::Data;
use prost::Message;

/// A file in the making.
#[derive(Clone)]
pub(crate) struct Net {
    pub(crate) model: ModelProto,
}

impl Net {
    pub(crate) fn new(opset: i64) -> Net {
        let sets = vec![OperatorSetIdProto { domain: String::new(), version: opset }];
        Net {
            model: ModelProto {
                ir_version: 8,
                graph: Some(GraphProto::default()),
                opset_import: sets,
                ..ModelProto::default()
            },
        }
    }

    pub(crate) fn graph(&mut self) -> &mut GraphProto {
        self.model.graph.get_or_insert_default()
    }

    /// An input; a negative dimension is one with a name instead of a number.
    pub(crate) fn input(mut self, name: &str, elem_type: i32, dims: &[i64]) -> Net {
        let dim = dims.iter().map(|&dim| match dim {
            ..0 => DimensionProto { dim_value: None, dim_param: Some("n".to_owned()) },
            _ => DimensionProto { dim_value: Some(dim), dim_param: None },
        });
        let shape = Some(TensorShapeProto { dim: dim.collect() });
        let ty = TypeProto { tensor_type: Some(TensorTypeProto { elem_type, shape }) };
        self.graph().input.push(ValueInfoProto { name: name.to_owned(), r#type: Some(ty) });
        self
    }

    pub(crate) fn x(self, dims: &[i64]) -> Net {
        self.input("x", element_type::FLOAT, dims)
    }

    pub(crate) fn tensor(mut self, name: &str, tensor: TensorProto) -> Net {
        self.graph().initializer.push(TensorProto { name: name.to_owned(), ..tensor });
        self
    }

    pub(crate) fn floats(self, name: &str, dims: &[i64], values: Vec<f32>) -> Net {
        self.tensor(name, floats(dims, values))
    }

    /// Weights of some size between -1 and 1.
    pub(crate) fn weights(self, name: &str, dims: &[i64]) -> Net {
        let len = dims.iter().product::<i64>();
        self.floats(name, dims, (0..len).map(|i| ((i * 37 + 11) % 64) as f32 / 32.0 - 1.0).collect())
    }

    pub(crate) fn ints(self, name: &str, values: &[i64]) -> Net {
        self.tensor(name, integers(&[values.len() as i64], values))
    }

    pub(crate) fn node(mut self, op: &str, inputs: &[&str], output: &str, attribute: Vec<AttributeProto>) -> Net {
        self.graph().node.push(NodeProto {
            overload: String::new(),
            input: inputs.iter().map(|&name| name.to_owned()).collect(),
            output: vec![output.to_owned()],
            name: format!("the_{output}"),
            op_type: op.to_owned(),
            attribute,
            domain: String::new(),
        });
        self
    }

    /// A node of several outputs.
    pub(crate) fn node_of(
        mut self,
        op: &str,
        inputs: &[&str],
        outputs: &[&str],
        attribute: Vec<AttributeProto>,
    ) -> Net {
        self = self.node(op, inputs, outputs[0], attribute);
        if let Some(node) = self.graph().node.last_mut() {
            node.output = outputs.iter().map(|&name| name.to_owned()).collect();
        }
        self
    }

    /// Its graph as an attribute of a node.
    pub(crate) fn inside(mut self, name: &str) -> AttributeProto {
        let graph = self.graph().encode_to_vec();
        AttributeProto {
            name: name.to_owned(),
            g: Some(graph.into()),
            r#type: attribute_type::GRAPH,
            ..AttributeProto::default()
        }
    }

    pub(crate) fn output(mut self, name: &str) -> Net {
        self.graph().output.push(ValueInfoProto { name: name.to_owned(), r#type: None });
        self
    }

    /// An output whose element type the file says.
    pub(crate) fn typed_output(mut self, name: &str, elem_type: i32) -> Net {
        let ty = TypeProto { tensor_type: Some(TensorTypeProto { elem_type, shape: None }) };
        self.graph().output.push(ValueInfoProto { name: name.to_owned(), r#type: Some(ty) });
        self
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.model.encode_to_vec()
    }

    pub(crate) fn resolve(&self, batch: usize) -> Result<Network, ModelError> {
        Model::read(self.bytes())?.resolve(batch)
    }

    /// The dimensions of the first output for a batch of two.
    pub(crate) fn dims(&self) -> Result<Vec<usize>, ModelError> {
        let network = self.resolve(2)?;
        Ok(network.values[network.outputs[0]].ty.shape.dims().to_vec())
    }

    /// The code of the error that reading gives.
    pub(crate) fn code(&self) -> &'static str {
        match Model::read(self.bytes()) {
            Ok(_) => "read",
            Err(error) => error.code(),
        }
    }
}

/// `y = op(x, constants…)` with an `x` of these dimensions.
pub(crate) fn single(
    opset: i64,
    op: &str,
    x: &[i64],
    constants: Vec<TensorProto>,
    attributes: Vec<AttributeProto>,
) -> Net {
    let mut net = Net::new(opset).x(x);
    let names: Vec<String> = (0..constants.len()).map(|number| format!("c{number}")).collect();
    for (name, tensor) in names.iter().zip(constants) {
        net = net.tensor(name, tensor);
    }
    let inputs: Vec<&str> = std::iter::once("x").chain(names.iter().map(String::as_str)).collect();
    net.node(op, &inputs, "y", attributes).output("y")
}

/// The shape and elements of `op(constants…)`, which is computed while the file is read.
pub(crate) fn constants(
    opset: i64,
    op: &str,
    constants: Vec<TensorProto>,
    attributes: Vec<AttributeProto>,
) -> (Vec<usize>, Data) {
    let mut net = Net::new(opset).x(&[-1]);
    let names: Vec<String> = (0..constants.len()).map(|number| format!("c{number}")).collect();
    for (name, tensor) in names.iter().zip(constants) {
        net = net.tensor(name, tensor);
    }
    let inputs: Vec<&str> = names.iter().map(String::as_str).collect();
    let network = net.node(op, &inputs, "y", attributes).output("y").resolve(1).unwrap();
    assert!(network.layers.is_empty(), "{op} was not computed");
    let value = &network.values[network.outputs[0]];
    (value.ty.shape.dims().to_vec(), value.constant.as_deref().unwrap().clone())
}

pub(crate) fn floats(dims: &[i64], values: Vec<f32>) -> TensorProto {
    TensorProto { dims: dims.to_vec(), data_type: element_type::FLOAT, float_data: values, ..TensorProto::default() }
}

/// Floats that are all alike.
pub(crate) fn some_floats(dims: &[i64]) -> TensorProto {
    floats(dims, vec![0.5; dims.iter().product::<i64>() as usize])
}

pub(crate) fn integers(dims: &[i64], values: &[i64]) -> TensorProto {
    let raw = values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    TensorProto {
        dims: dims.to_vec(),
        data_type: element_type::INT64,
        raw_data: Some(raw.into()),
        ..TensorProto::default()
    }
}

/// Integers of 8, 16 or 32 bits.
pub(crate) fn small_integers(dims: &[i64], data_type: i32, values: &[i32]) -> TensorProto {
    TensorProto { dims: dims.to_vec(), data_type, int32_data: values.to_vec(), ..TensorProto::default() }
}

/// A list of integers as a constant input.
pub(crate) fn list(values: &[i64]) -> TensorProto {
    integers(&[values.len() as i64], values)
}

pub(crate) fn scalar(value: f32) -> TensorProto {
    floats(&[], vec![value])
}

pub(crate) fn int(name: &str, value: i64) -> AttributeProto {
    AttributeProto { name: name.to_owned(), i: Some(value), r#type: attribute_type::INT, ..Default::default() }
}

pub(crate) fn ints(name: &str, values: &[i64]) -> AttributeProto {
    AttributeProto { name: name.to_owned(), ints: values.to_vec(), r#type: attribute_type::INTS, ..Default::default() }
}

pub(crate) fn float(name: &str, value: f32) -> AttributeProto {
    AttributeProto { name: name.to_owned(), f: Some(value), r#type: attribute_type::FLOAT, ..Default::default() }
}

pub(crate) fn text(name: &str, value: &'static str) -> AttributeProto {
    let bytes = bytes::Bytes::from_static(value.as_bytes());
    AttributeProto { name: name.to_owned(), s: Some(bytes), r#type: attribute_type::STRING, ..Default::default() }
}

pub(crate) fn value(name: &str, tensor: TensorProto) -> AttributeProto {
    let t = Some(Box::new(tensor));
    AttributeProto { name: name.to_owned(), t, r#type: attribute_type::TENSOR, ..Default::default() }
}

/// A small network that uses most operators, with an open batch.
pub(crate) fn everything() -> Net {
    let window = |size: i64, stride: i64, pad: i64| {
        vec![ints("kernel_shape", &[size; 2]), ints("strides", &[stride; 2]), ints("pads", &[pad; 4])]
    };
    Net::new(13)
        .x(&[-1, 3, 17, 16])
        .weights("w1", &[8, 3, 3, 3])
        .weights("w2", &[8, 1, 3, 3])
        .weights("b2", &[8])
        .weights("one", &[8])
        .floats("variance", &[8], vec![0.5; 8])
        .tensor("zero", scalar(0.0))
        .tensor("six", scalar(6.0))
        .weights("matrix", &[10, 8])
        .weights("half", &[10, 4])
        .ints("first", &[0])
        .ints("rest", &[-1])
        .ints("two", &[2])
        .ints("four", &[4])
        .ints("pads", &[0, 0, 1, 1, 0, 0, 1, 1])
        .floats("scales", &[4], vec![1.0, 1.0, 2.0, 2.0])
        .node("Conv", &["x", "w1"], "conv", window(3, 2, 1))
        .node("BatchNormalization", &["conv", "one", "b2", "one", "variance"], "norm", vec![float("epsilon", 1e-3)])
        .node("Clip", &["norm", "zero", "six"], "clip", vec![])
        .node("Conv", &["clip", "w2", "b2"], "depth", {
            let mut attributes = vec![text("auto_pad", "SAME_UPPER"), int("group", 8)];
            attributes.push(ints("dilations", &[1, 1]));
            attributes
        })
        .node("HardSwish", &["depth"], "swish", vec![])
        .node("Add", &["clip", "swish"], "sum", vec![])
        .node("Identity", &["sum"], "same", vec![])
        .node("MaxPool", &["same"], "max", window(2, 2, 0).into_iter().chain([int("ceil_mode", 1)]).collect())
        .node("AveragePool", &["same"], "mean", window(3, 2, 1))
        .node("Concat", &["max", "max"], "both", vec![int("axis", 1)])
        .node("Slice", &["both", "first", "four", "two"], "part", vec![])
        .node("Pad", &["part", "pads", "zero"], "padded", vec![text("mode", "constant")])
        .node("Resize", &["mean", "", "scales"], "large", vec![text("mode", "linear")])
        .node("LeakyRelu", &["large"], "leaky", vec![float("alpha", 0.1)])
        .node("ReduceMean", &["leaky"], "reduced", vec![ints("axes", &[2, 3]), int("keepdims", 0)])
        .node("Sigmoid", &["reduced"], "gate", vec![])
        .node("Tanh", &["gate"], "tanh", vec![])
        .node("GlobalAveragePool", &["same"], "pooled", vec![])
        .node("Shape", &["pooled"], "shape", vec![])
        .node("Slice", &["shape", "first", "length", "first"], "batch", vec![])
        .node("Constant", &[], "length", vec![ints("value_ints", &[1])])
        .node("Concat", &["batch", "rest"], "target", vec![int("axis", 0)])
        .node("Reshape", &["pooled", "target"], "flat", vec![])
        .node("Mul", &["flat", "tanh"], "weighed", vec![])
        .node("Dropout", &["weighed"], "kept", vec![])
        .node("Gemm", &["kept", "matrix"], "logits", vec![int("transB", 1), float("alpha", 0.5)])
        .node("Transpose", &["half"], "turned", vec![ints("perm", &[1, 0])])
        .node("ConstantOfShape", &["four"], "ones", vec![value("value", floats(&[1], vec![1.0]))])
        .node("Unsqueeze", &["ones", "first"], "row", vec![])
        .node("MatMul", &["row", "turned"], "offset", vec![])
        .node("Squeeze", &["offset", "first"], "plain", vec![])
        .node("Sub", &["logits", "plain"], "moved", vec![])
        .node("Softmax", &["moved"], "probabilities", vec![int("axis", -1)])
        .node("Gather", &["probabilities", "first"], "best", vec![int("axis", 1)])
        .node("Cast", &["best"], "double", vec![int("to", 11)])
        .output("probabilities")
        .output("double")
        .output("padded")
}
