//! The operators of ONNX that are read: a file for each, or for a few that differ in a name, and a line in [`OPERATORS`].
//!
//! An [`Operator`](operator::Operator) says what it accepts, what becomes of its nodes and, by the [`Compute`](crate::op::Compute)
//! that it makes, how that is computed. To add one, write its file with its tests beside these, add it to the list, and renew the
//! table in `docs/MODELS.md` by `DALA_UPDATE=1 cargo test -p dala-model --lib table`.

mod average_pool;
mod batch_normalization;
mod binary;
mod call;
mod cast;
mod clip;
mod concat;
mod constant;
mod constant_of_shape;
pub(crate) mod conv;
mod conv_transpose;
mod cum_sum;
mod declared;
mod dropout;
mod flatten;
mod fourier;
mod gather;
mod gather_elements;
mod gemm;
mod global_average_pool;
mod grid_sample;
mod identity;
mod mat_mul;
mod max_pool;
mod non_max_suppression;
mod non_zero;
mod operator;
mod pad;
mod recurrent;
mod reduce_mean;
mod reshape;
mod resize;
mod reverse_sequence;
mod scatter;
mod shape;
mod slice;
mod softmax;
mod softsign;
mod split;
mod squeeze;
mod top_k;
mod transpose;
mod tree_ensemble;
mod unary;
mod unique;
mod unsqueeze;
mod window;
mod window_function;

use std::borrow::Cow;

pub(crate) use call::{NodeCall, tensor_type};
pub(crate) use declared::Declared;
pub(crate) use operator::{Given, Operator, Outcome};

/// All operators, by name.
pub(crate) static OPERATORS: &[Operator] = &[
    unary::ABS,
    unary::ACOS,
    unary::ACOSH,
    binary::ADD,
    binary::AND,
    unary::ASIN,
    unary::ASINH,
    unary::ATAN,
    unary::ATANH,
    average_pool::AVERAGE_POOL,
    batch_normalization::BATCH_NORMALIZATION,
    window_function::BLACKMAN_WINDOW,
    cast::CAST,
    unary::CEIL,
    clip::CLIP,
    concat::CONCAT,
    constant::CONSTANT,
    constant_of_shape::CONSTANT_OF_SHAPE,
    conv::CONV,
    conv_transpose::CONV_TRANSPOSE,
    unary::COS,
    unary::COSH,
    cum_sum::CUM_SUM,
    fourier::DFT,
    binary::DIV,
    dropout::DROPOUT,
    binary::EQUAL,
    unary::ERF,
    unary::EXP,
    flatten::FLATTEN,
    unary::FLOOR,
    recurrent::GRU,
    gather::GATHER,
    gather_elements::GATHER_ELEMENTS,
    gather_elements::GATHER_ND,
    gemm::GEMM,
    global_average_pool::GLOBAL_AVERAGE_POOL,
    binary::GREATER,
    binary::GREATER_OR_EQUAL,
    grid_sample::GRID_SAMPLE,
    window_function::HAMMING_WINDOW,
    window_function::HANN_WINDOW,
    unary::HARD_SIGMOID,
    unary::HARD_SWISH,
    identity::IDENTITY,
    unary::IS_NAN,
    recurrent::LSTM,
    unary::LEAKY_RELU,
    binary::LESS,
    binary::LESS_OR_EQUAL,
    unary::LOG,
    mat_mul::MAT_MUL,
    max_pool::MAX_POOL,
    window_function::MEL_WEIGHT_MATRIX,
    binary::MOD,
    binary::MUL,
    unary::NEG,
    non_max_suppression::NON_MAX_SUPPRESSION,
    non_zero::NON_ZERO,
    unary::NOT,
    binary::OR,
    pad::PAD,
    binary::POW,
    recurrent::RNN,
    reduce_mean::REDUCE_MEAN,
    unary::RELU,
    reshape::RESHAPE,
    resize::RESIZE,
    reverse_sequence::REVERSE_SEQUENCE,
    unary::ROUND,
    fourier::STFT,
    scatter::SCATTER,
    scatter::SCATTER_ELEMENTS,
    scatter::SCATTER_ND,
    shape::SHAPE,
    unary::SIGMOID,
    unary::SIGN,
    unary::SIN,
    unary::SINH,
    slice::SLICE,
    softmax::SOFTMAX,
    softsign::SOFTSIGN,
    split::SPLIT,
    unary::SQRT,
    squeeze::SQUEEZE,
    binary::SUB,
    unary::TAN,
    unary::TANH,
    top_k::TOP_K,
    transpose::TRANSPOSE,
    unique::UNIQUE,
    unsqueeze::UNSQUEEZE,
    binary::WHERE,
    binary::XOR,
    tree_ensemble::TREE_ENSEMBLE,
    tree_ensemble::TREE_ENSEMBLE_CLASSIFIER,
    tree_ensemble::TREE_ENSEMBLE_REGRESSOR,
];

/// The operator of that name. Those that are not of ONNX itself have their domain before it.
pub(crate) fn find(domain: &str, name: &str) -> Option<&'static Operator> {
    let name = match domain {
        "" | "ai.onnx" => Cow::Borrowed(name),
        _ => Cow::Owned(format!("{domain}.{name}")),
    };
    let place = OPERATORS.binary_search_by(|operator| operator.name.cmp(&name)).ok()?;
    OPERATORS.get(place)
}

#[cfg(test)]
mod tests {
    use super::OPERATORS;
    use super::operator::Kind;
    use crate::builder::{int, ints, list, single};

    #[test]
    fn operators_are_found_by_name() {
        assert!(OPERATORS.is_sorted_by(|a, b| a.name < b.name), "the list is not in order");
        for operator in OPERATORS {
            assert_eq!(super::find("", operator.name).map(|found| found.name), Some(operator.name));
        }
        assert!(super::find("", "Nothing").is_none());
        let trees = "TreeEnsembleRegressor";
        assert!(super::find("", trees).is_none() && super::find("ai.onnx.ml", trees).is_some());
    }

    #[test]
    fn the_committed_table_is_true() {
        const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/MODELS.md");
        const HEAD: &str = "| kind | operators |\n|---|---|\n";
        let rows = [
            ("windows", Kind::Windows),
            ("matrices", Kind::Matrices),
            ("element by element", Kind::Elements),
            ("along axes", Kind::Axes),
            ("order and shape", Kind::Layout),
            ("others", Kind::Others),
        ];
        let row = |(title, kind): (&str, Kind)| {
            let own = OPERATORS.iter().filter(|operator| operator.kind == kind);
            let names: Vec<String> = own.map(|operator| format!("`{}`", operator.name)).collect();
            format!("| {title} | {} |\n", names.join(", "))
        };
        let table = format!("{HEAD}{}", rows.map(row).concat());
        let text = std::fs::read_to_string(PATH).unwrap();
        let (before, rest) = text.split_once(HEAD).unwrap();
        let after = rest.find("\n\n").map_or("", |end| &rest[end + 1..]);
        let renewed = format!("{before}{table}{after}");
        if std::env::var("DALA_UPDATE").is_ok() {
            std::fs::write(PATH, renewed).unwrap();
        } else {
            assert!(text == renewed, "docs/MODELS.md is stale: run with DALA_UPDATE=1\n{table}");
        }
    }

    #[test]
    fn moves_to_the_same_place_vanish() {
        for net in [
            single(13, "Reshape", &[-1, 4], vec![list(&[0, 4])], vec![]),
            single(13, "Flatten", &[-1, 4], vec![], vec![]),
            single(13, "Transpose", &[-1, 4], vec![], vec![ints("perm", &[0, 1])]),
            single(13, "Concat", &[-1, 4], vec![], vec![int("axis", 1)]),
            single(13, "Pad", &[-1, 4], vec![list(&[0; 4])], vec![]),
            single(13, "Slice", &[-1, 4], vec![list(&[0]), list(&[9]), list(&[1])], vec![]),
            single(13, "Identity", &[-1, 4], vec![], vec![]),
            single(13, "Dropout", &[-1, 4], vec![], vec![]),
        ] {
            let network = net.resolve(3).unwrap();
            assert!(network.layers.is_empty());
            assert_eq!(network.outputs, network.inputs);
        }
    }
}
