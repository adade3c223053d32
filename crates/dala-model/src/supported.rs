//! What is not supported of the operators that are read, as far as a node alone tells.

use std::collections::{HashMap, HashSet};

use crate::graph::Operator;
use crate::proto::NodeProto;

/// Why a node cannot be read, if it cannot. `ranks` are those of the weights; `read` are the values that are used.
pub(crate) fn why_not(
    node: &NodeProto,
    operator: Operator,
    opset: i64,
    ranks: &HashMap<&str, usize>,
    read: &HashSet<&str>,
) -> Option<String> {
    // An attribute of the wrong type looks absent here, and is reported when it is used.
    let attribute = |name: &str| node.attribute.iter().find(|attribute| attribute.name == name);
    let int = |name: &str| attribute(name).and_then(|attribute| attribute.i);
    let text = |name: &str| attribute(name).and_then(|attribute| attribute.s.as_ref()).map(|text| &text[..]);
    let ints = |name: &str| attribute(name).map(|attribute| attribute.ints.as_slice()).unwrap_or_default();
    let says = |name: &str, words: &[&str]| match text(name) {
        Some(found) => words.iter().any(|word| word.as_bytes() == found),
        None => true,
    };

    if node.output.iter().skip(1).any(|output| read.contains(output.as_str())) {
        return Some("its second output is used".to_owned());
    }
    let why = match operator {
        Operator::Conv | Operator::AveragePool | Operator::MaxPool => {
            let window = ints("kernel_shape").len();
            let weight = (operator == Operator::Conv).then(|| ranks.get(node.input.get(1)?.as_str())).flatten();
            let rank = if window > 0 { window } else { weight.map_or(2, |rank| rank.saturating_sub(2)) };
            let both = int("ceil_mode") == Some(1) && int("count_include_pad") == Some(1);
            match operator {
                _ if rank != 2 => return Some(two_axes_only(rank)),
                Operator::AveragePool if both => "ceil_mode together with count_include_pad",
                Operator::AveragePool if ints("dilations").iter().any(|&step| step != 1) => "dilations",
                Operator::MaxPool if int("storage_order").is_some_and(|order| order != 0) => "storage_order",
                _ => return None,
            }
        }
        Operator::BatchNormalization if int("training_mode").is_some_and(|mode| mode != 0) => "training_mode",
        Operator::BatchNormalization if opset < 9 && int("spatial") == Some(0) => "spatial = 0",
        Operator::Resize if !says("mode", &["nearest", "linear"]) => "modes other than nearest and linear",
        Operator::Resize if !says("coordinate_transformation_mode", RESIZE_COORDINATES) => {
            "coordinate modes other than half_pixel, pytorch_half_pixel, asymmetric and align_corners"
        }
        Operator::Resize if int("antialias").is_some_and(|value| value != 0) => "antialias",
        Operator::Resize if !says("keep_aspect_ratio_policy", &["stretch"]) => "keep_aspect_ratio_policy",
        Operator::Pad if !says("mode", &["constant", "reflect", "edge"]) => {
            "modes other than constant, reflect and edge"
        }
        Operator::Constant if ["value_string", "value_strings"].iter().any(|name| attribute(name).is_some()) => "texts",
        Operator::Constant if attribute("sparse_value").is_some() => "sparse values",
        _ => return None,
    };
    Some(format!("not supported: {why}"))
}

const RESIZE_COORDINATES: &[&str] = &["half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"];

/// The reason for a convolution or pooling that is not over pictures.
pub(crate) fn two_axes_only(rank: usize) -> String {
    format!("works along {rank} axes, only height and width are supported")
}
