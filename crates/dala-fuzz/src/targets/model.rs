//! ONNX files: read, resolved for a batch, made a kernel, planned.

use bytes::Bytes;
use dala_kernels::Registry;
use dala_model::proto::ModelProto;
use prost::Message;

use super::facts;
use crate::{Progress, Random, Target};

#[path = "../../../dala-model/tests/builder/mod.rs"]
mod builder;
#[path = "../../../dala-model/tests/hostile/mod.rs"]
mod hostile;

use hostile::Step;

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
        let files = FILES.iter().filter_map(|file| ModelProto::decode(*file).ok());
        Model { registry: Registry::built_in(), nets: hostile::seeds().into_iter().chain(files).collect() }
    }
}

impl Target for Model {
    fn name(&self) -> &'static str {
        "model"
    }

    fn stages(&self) -> &'static [&'static str] {
        &["read", "resolved", "made a kernel", "planned"]
    }

    fn short(&self) -> usize {
        15_000
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        self.nets.iter().map(Message::encode_to_vec).collect()
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
        let mut net = match random.below(100) {
            0..5 => hostile::bomb(random).1,
            5..50 => random.pick(&self.nets[..hostile::OWN]),
            50..90 => random.pick(&self.nets[..self.nets.len() - FILES.len()]),
            _ => random.pick(&self.nets),
        };
        for _ in 0..1 + random.below(3) {
            hostile::damage(&mut net, &self.nets, random);
        }
        Some(net.encode_to_vec())
    }

    fn run(&mut self, input: &[u8], progress: &mut Progress) {
        let model = dala_model::Model::read(Bytes::copy_from_slice(input));
        hostile::drive(model, &self.registry, &facts::devices()[..2], &mut |step| match step {
            Step::Past(stage) => progress.past(stage),
            Step::Count(count) => progress.note(count),
            Step::Refused(code, message) => {
                progress.note(code);
                progress.note_message(&message);
            }
        });
    }
}
