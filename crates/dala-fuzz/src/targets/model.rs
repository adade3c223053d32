//! ONNX files: read, resolved for a batch, made a kernel, planned.

use bytes::Bytes;
use dala_kernels::{Registry, compile};
use dala_model::proto::{AttributeProto, ModelProto, TensorProto};
use dala_plan::{CellSpec, PipelineSpec, StageSpec};
use dala_spec::TensorType;
use prost::Message;

use super::facts;
use crate::{Progress, Random, Target};

#[path = "../../../dala-model/tests/builder/mod.rs"]
mod builder;

use builder::{everything, floats, int, ints, list, scalar, single, text};

const FILES: [&[u8]; 5] = [
    include_bytes!("../../../dala-model/tests/data/zoo_of_operators.onnx"),
    include_bytes!("../../../dala-model/tests/data/squeezenet.onnx"),
    include_bytes!("../../../dala-model/tests/data/mobilenet_v3.onnx"),
    include_bytes!("../../../dala-model/tests/data/resnet.onnx"),
    include_bytes!("../../../dala-model/tests/data/efficientnet_lite.onnx"),
];

pub(super) struct Model {
    registry: Registry,
    /// Files that can be read, taken apart.
    nets: Vec<ModelProto>,
}

impl Default for Model {
    fn default() -> Model {
        let nets = seeds().iter().filter_map(|seed| ModelProto::decode(&seed[..]).ok()).collect();
        Model { registry: Registry::built_in(), nets }
    }
}

/// Small nets, of one operator each, besides the files.
fn seeds() -> Vec<Vec<u8>> {
    let x = [-1, 2, 6, 6];
    let window = || vec![ints("kernel_shape", &[3, 3]), ints("strides", &[2, 1]), ints("pads", &[1, 0, 1, 0])];
    let mut nets = vec![
        everything(),
        single(13, "Conv", &x, vec![floats(&[2, 2, 3, 3], vec![0.5; 36])], window()),
        single(13, "MaxPool", &x, vec![], window()),
        single(13, "AveragePool", &x, vec![], window()),
        single(13, "Reshape", &x, vec![list(&[0, -1])], vec![]),
        single(13, "Pad", &x, vec![list(&[0, 0, 1, 1, 0, 0, 1, 1]), scalar(1.0)], vec![text("mode", "reflect")]),
        single(13, "Slice", &x, vec![list(&[0, 1]), list(&[9, -1]), list(&[2, 3]), list(&[1, 2])], vec![]),
        single(18, "ReduceMean", &x, vec![list(&[2, 3])], vec![int("keepdims", 0)]),
        single(13, "Unsqueeze", &x, vec![list(&[0, 5])], vec![]),
        single(13, "Gather", &x, vec![list(&[1, 0, -1])], vec![int("axis", 2)]),
        single(13, "Transpose", &x, vec![], vec![ints("perm", &[0, 3, 1, 2])]),
        single(13, "Softmax", &x, vec![], vec![int("axis", 1)]),
        single(13, "Clip", &x, vec![scalar(0.0), scalar(6.0)], vec![]),
        single(13, "MatMul", &[-1, 6], vec![floats(&[6, 4], vec![0.5; 24])], vec![]),
        single(13, "Flatten", &x, vec![], vec![int("axis", 2)]),
        single(13, "Cast", &x, vec![], vec![int("to", 7)]),
    ];
    // A kernel has one output.
    let mut one = everything();
    one.graph().output.truncate(1);
    nets.push(one);
    nets.iter().map(builder::Net::bytes).chain(FILES.map(<[u8]>::to_vec)).collect()
}

impl Target for Model {
    fn name(&self) -> &'static str {
        "model"
    }

    fn stages(&self) -> &'static [&'static str] {
        &["read", "resolved", "made a kernel", "planned"]
    }

    fn short(&self) -> usize {
        60_000
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        seeds()
    }

    fn words(&self) -> Vec<&'static str> {
        vec![
            "Conv",
            "Relu",
            "Add",
            "Mul",
            "MatMul",
            "Gemm",
            "Reshape",
            "Concat",
            "Slice",
            "Gather",
            "Shape",
            "Constant",
            "Resize",
            "Pad",
            "Cast",
            "Softmax",
            "Split",
            "Loop",
            "kernel_shape",
            "strides",
            "pads",
            "dilations",
            "group",
            "axis",
            "axes",
            "perm",
            "value",
            "to",
            "mode",
            "SAME_UPPER",
            "keepdims",
            "\u{8}\u{1}",
            "\0\0\0\0",
        ]
    }

    fn generate(&self, random: &mut Random) -> Option<Vec<u8>> {
        // Small ones are quick, and most of what can be said is in them.
        let mut net = match random.chance(85) {
            true => self.nets[random.below(self.nets.len().min(18))].clone(),
            false => random.pick(&self.nets),
        };
        for _ in 0..1 + random.below(3) {
            self.bend(&mut net, random);
        }
        Some(net.encode_to_vec())
    }

    fn run(&mut self, input: &[u8], progress: &mut Progress) {
        let model = match dala_model::Model::read(Bytes::copy_from_slice(input)) {
            Ok(model) => model,
            Err(error) => {
                let message = error.to_string();
                assert!(message.len() < 4000, "a message of {} bytes", message.len());
                progress.note(error.code());
                return progress.note_message(&message);
            }
        };
        progress.past("read");
        let smallest = model.smallest_batch();
        for batch in [smallest, smallest.saturating_mul(3), 7] {
            match model.resolve(batch) {
                Ok(network) => {
                    progress.past("resolved");
                    progress.note(network.layers.len().min(64));
                    assert!(
                        network.outputs.iter().all(|output| *output < network.values.len()),
                        "an output is missing"
                    );
                }
                Err(error) => progress.note(error.code()),
            }
        }
        let kernel = match model.kernel("net") {
            Ok(kernel) => kernel,
            Err(error) => {
                assert!(error.to_string().len() < 4000, "a long message");
                progress.note(error.code());
                return progress.note_message(&error.to_string());
            }
        };
        progress.past("made a kernel");
        // Open sizes are something small.
        let size = |dim: &dala_model::Dim| dim.size(smallest).unwrap_or(8);
        let ty =
            |port: &dala_model::Port| TensorType::new(port.dtype, port.dims.iter().map(size).collect::<Vec<usize>>());
        let mut cells: Vec<CellSpec> =
            model.inputs().iter().map(|port| CellSpec::external(&port.name, ty(port))).collect();
        cells.extend(model.outputs().iter().map(|port| CellSpec::external("out", ty(port))));
        let inputs: Vec<usize> = (0..model.inputs().len()).collect();
        let outputs: Vec<usize> = (inputs.len()..cells.len()).collect();
        let stage = StageSpec::Run { kernel: "net".to_owned(), inputs, outputs, params: dala_spec::Params::new() };
        let spec = PipelineSpec { cells, stages: vec![stage] };
        let mut registry = self.registry.clone();
        if let Err(error) = registry.add(kernel) {
            return progress.note(error.code());
        }
        for facts in &facts::devices()[..2] {
            match compile(&spec, &registry, facts, true) {
                Ok(blueprint) => {
                    progress.past("planned");
                    progress.note(blueprint.steps.len().min(64));
                    assert!(!blueprint.explain().is_empty(), "no text");
                }
                Err(problems) => problems.iter().for_each(|problem| {
                    assert_ne!(problem.error.code(), "internal", "a fault of ours: {}", problem.error);
                    progress.note(problem.error.code());
                }),
            }
        }
    }
}

impl Model {
    /// Changes one thing about a net.
    fn bend(&self, net: &mut ModelProto, random: &mut Random) {
        let other = random.pick(&self.nets);
        if random.chance(3) {
            net.opset_import.iter_mut().for_each(|set| set.version = 5 + random.below(20) as i64);
        }
        let (Some(graph), Some(other)) = (&mut net.graph, &other.graph) else { return };
        let names: Vec<String> =
            graph.node.iter().flat_map(|node| node.output.clone()).chain(["x".to_owned()]).collect();
        let small = |random: &mut Random| if random.chance(70) { random.below(9) as i64 - 2 } else { random.number() };
        match random.below(10) {
            0 | 1 if !graph.initializer.is_empty() => {
                let number = random.below(graph.initializer.len());
                bend_tensor(&mut graph.initializer[number], random);
            }
            2 if !graph.input.is_empty() => {
                let number = random.below(graph.input.len());
                let tensor = graph.input[number].r#type.get_or_insert_default().tensor_type.get_or_insert_default();
                let dims = &mut tensor.shape.get_or_insert_default().dim;
                match (random.below(4), dims.len()) {
                    (0, _) => tensor.elem_type = random.below(17) as i32,
                    (1, _) => dims.truncate(random.below(4)),
                    (_, 0) => {}
                    (_, len) => dims[random.below(len)].dim_value = Some(small(random)),
                }
            }
            _ if graph.node.is_empty() => {}
            3 => {
                // An operator from elsewhere between two of these.
                if let Some(node) = (!other.node.is_empty()).then(|| random.pick(&other.node)) {
                    let number = random.below(graph.node.len());
                    let (op_type, attribute) = (node.op_type, node.attribute);
                    let own = &mut graph.node[number];
                    own.op_type = op_type;
                    if random.chance(70) {
                        own.attribute = attribute;
                    }
                }
            }
            4 => {
                let number = random.below(graph.node.len());
                let node = &mut graph.node[number];
                match random.below(5) {
                    0 => node.input.push(random.pick(&names)),
                    1 => node.input.truncate(random.below(3)),
                    2 => node.output.push("more".to_owned()),
                    _ => node.input.iter_mut().take(2).for_each(|input| *input = random.pick(&names)),
                }
            }
            5 => {
                // Another end: whatever is not needed for it is left out.
                if let Some(output) = graph.output.first_mut() {
                    output.name = random.pick(&names);
                    graph.output.truncate(1);
                }
            }
            _ => {
                let number = random.below(graph.node.len());
                let attributes = &mut graph.node[number].attribute;
                let name = random.pick(&[
                    "axis",
                    "axes",
                    "pads",
                    "strides",
                    "kernel_shape",
                    "dilations",
                    "group",
                    "perm",
                    "keepdims",
                    "alpha",
                    "to",
                    "ceil_mode",
                    "auto_pad",
                    "mode",
                    "transB",
                    "epsilon",
                    "count_include_pad",
                    "allowzero",
                ]);
                match attributes.len() {
                    len if len > 0 && random.chance(80) => bend_attribute(&mut attributes[random.below(len)], random),
                    _ if random.chance(50) => attributes.push(int(name, small(random))),
                    _ => {
                        let values: Vec<i64> = (0..random.below(5)).map(|_| small(random)).collect();
                        attributes.push(ints(name, &values));
                    }
                }
            }
        }
    }
}

fn bend_attribute(attribute: &mut AttributeProto, random: &mut Random) {
    let small = |random: &mut Random| if random.chance(70) { random.below(9) as i64 - 2 } else { random.number() };
    match random.below(8) {
        0 => attribute.r#type = random.below(14) as i32,
        1 => attribute.name = random.pick(&["axis", "pads", "strides", "perm", "", "x"]).to_owned(),
        2 => attribute.ints.push(small(random)),
        3 => attribute.ints.truncate(random.below(4)),
        _ => {
            attribute.ints.iter_mut().for_each(|value| {
                if random.chance(40) {
                    *value = small(random);
                }
            });
            attribute.i = attribute.i.map(|_| small(random));
            attribute.f = attribute.f.map(|_| random.float() as f32);
            if let Some(tensor) = &mut attribute.t {
                bend_tensor(tensor, random);
            }
        }
    }
}

/// Other dimensions, and mostly as much data as they say.
fn bend_tensor(tensor: &mut TensorProto, random: &mut Random) {
    match random.below(6) {
        0 => tensor.data_type = random.below(17) as i32,
        1 => tensor.raw_data = Some(vec![0; random.below(100)].into()),
        // Lists of integers are shapes, axes and pads.
        2 | 3 if tensor.data_type == dala_model::proto::element_type::INT64 => {
            let len = tensor.dims.iter().fold(1i64, |len, dim| len.saturating_mul(*dim)).clamp(0, 64);
            let value =
                |random: &mut Random| if random.chance(70) { random.below(9) as i64 - 2 } else { random.number() };
            let bytes: Vec<u8> = (0..len).flat_map(|_| value(random).to_le_bytes()).collect();
            tensor.raw_data = Some(bytes.into());
        }
        4 => tensor.float_data.iter_mut().for_each(|value| *value = random.float() as f32),
        _ => {
            let sizes = [0, 1, 2, 3, 4, 6, 8, -1, 1 << 31, i64::MAX];
            match tensor.dims.len() {
                len if len > 0 && random.chance(70) => tensor.dims[random.below(len)] = random.pick(&sizes),
                _ if random.chance(50) => tensor.dims.push(random.pick(&sizes)),
                _ => {
                    tensor.dims.pop();
                }
            }
            let len = tensor.dims.iter().try_fold(1i64, |len, dim| len.checked_mul(*dim)).unwrap_or(-1);
            if (0..10_000).contains(&len) && !tensor.float_data.is_empty() {
                tensor.float_data.resize(len as usize, 0.5);
            }
        }
    }
}
