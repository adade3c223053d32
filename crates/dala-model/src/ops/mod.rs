//! The operators of ONNX that are read: a file for each, or for a few that differ in a name, and a line in [`OPERATORS`].
//!
//! An [`Operator`](operator::Operator) says what it accepts, what becomes of its nodes and, by the [`Compute`](crate::op::Compute)
//! that it makes, how that is computed. To add one, write its file with its tests beside these, add it to the list, and renew the
//! table in `docs/MODELS.md` by `DALA_UPDATE=1 cargo test -p dala-model --lib table`.

mod arg_max;
mod attention;
mod batch_normalization;
mod binary;
mod call;
mod cast;
mod clip;
mod concat;
mod constant;
mod constant_of_shape;
mod control;
pub(crate) mod conv;
mod conv_integer;
mod conv_transpose;
mod cum_sum;
mod declared;
mod depth_to_space;
mod dropout;
mod dynamic_quantize_linear;
mod einsum;
mod expand;
mod flatten;
mod fourier;
mod gather;
mod gather_elements;
mod gemm;
mod grid_sample;
mod identity;
mod mat_mul;
mod mat_mul_integer;
mod non_max_suppression;
mod non_zero;
mod normalization;
mod one_hot;
mod operator;
mod pad;
mod pool;
mod quantize_linear;
mod quantized;
mod range;
mod recurrent;
mod reduce;
mod reshape;
mod resize;
mod reverse_sequence;
mod rotary_embedding;
mod scatter;
mod several;
mod shape;
mod slice;
mod softmax;
mod split;
mod squeeze;
mod top_k;
mod transpose;
mod tree_ensemble;
mod trilu;
mod unary;
mod unique;
mod unsqueeze;
mod window;
mod window_function;

use std::borrow::Cow;

pub(crate) use call::{NodeCall, tensor_type};
pub(crate) use declared::Declared;
pub(crate) use operator::{Control, Given, Operator, Outcome};

/// All operators, by name.
pub(crate) static OPERATORS: &[Operator] = &[
    unary::ABS,
    unary::ACOS,
    unary::ACOSH,
    binary::ADD,
    binary::AND,
    arg_max::ARG_MAX,
    arg_max::ARG_MIN,
    unary::ASIN,
    unary::ASINH,
    unary::ATAN,
    unary::ATANH,
    attention::ATTENTION,
    pool::AVERAGE_POOL,
    batch_normalization::BATCH_NORMALIZATION,
    binary::BIT_SHIFT,
    binary::BITWISE_AND,
    unary::BITWISE_NOT,
    binary::BITWISE_OR,
    binary::BITWISE_XOR,
    window_function::BLACKMAN_WINDOW,
    cast::CAST,
    cast::CAST_LIKE,
    unary::CEIL,
    unary::CELU,
    pad::CENTER_CROP_PAD,
    clip::CLIP,
    concat::CONCAT,
    control::CONCAT_FROM_SEQUENCE,
    constant::CONSTANT,
    constant_of_shape::CONSTANT_OF_SHAPE,
    conv::CONV,
    conv_integer::CONV_INTEGER,
    conv_transpose::CONV_TRANSPOSE,
    unary::COS,
    unary::COSH,
    cum_sum::CUM_SUM,
    fourier::DFT,
    depth_to_space::DEPTH_TO_SPACE,
    quantize_linear::DEQUANTIZE_LINEAR,
    binary::DIV,
    dropout::DROPOUT,
    dynamic_quantize_linear::DYNAMIC_QUANTIZE_LINEAR,
    einsum::EINSUM,
    unary::ELU,
    binary::EQUAL,
    unary::ERF,
    unary::EXP,
    expand::EXPAND,
    range::EYE_LIKE,
    flatten::FLATTEN,
    unary::FLOOR,
    recurrent::GRU,
    gather::GATHER,
    gather_elements::GATHER_ELEMENTS,
    gather_elements::GATHER_ND,
    unary::GELU,
    gemm::GEMM,
    reduce::GLOBAL_AVERAGE_POOL,
    reduce::GLOBAL_LP_POOL,
    reduce::GLOBAL_MAX_POOL,
    binary::GREATER,
    binary::GREATER_OR_EQUAL,
    grid_sample::GRID_SAMPLE,
    normalization::GROUP_NORMALIZATION,
    window_function::HAMMING_WINDOW,
    window_function::HANN_WINDOW,
    unary::HARD_SIGMOID,
    unary::HARD_SWISH,
    softmax::HARDMAX,
    identity::IDENTITY,
    control::IF,
    normalization::INSTANCE_NORMALIZATION,
    unary::IS_INF,
    unary::IS_NAN,
    normalization::LRN,
    recurrent::LSTM,
    normalization::LAYER_NORMALIZATION,
    unary::LEAKY_RELU,
    binary::LESS,
    binary::LESS_OR_EQUAL,
    unary::LOG,
    softmax::LOG_SOFTMAX,
    control::LOOP,
    normalization::LP_NORMALIZATION,
    pool::LP_POOL,
    mat_mul::MAT_MUL,
    mat_mul_integer::MAT_MUL_INTEGER,
    several::MAX,
    pool::MAX_POOL,
    several::MEAN,
    normalization::MEAN_VARIANCE_NORMALIZATION,
    window_function::MEL_WEIGHT_MATRIX,
    several::MIN,
    unary::MISH,
    binary::MOD,
    binary::MUL,
    unary::NEG,
    non_max_suppression::NON_MAX_SUPPRESSION,
    non_zero::NON_ZERO,
    unary::NOT,
    one_hot::ONE_HOT,
    binary::OR,
    binary::P_RELU,
    pad::PAD,
    binary::POW,
    conv_integer::Q_LINEAR_CONV,
    mat_mul_integer::Q_LINEAR_MAT_MUL,
    quantize_linear::QUANTIZE_LINEAR,
    normalization::RMS_NORMALIZATION,
    recurrent::RNN,
    range::RANGE,
    unary::RECIPROCAL,
    reduce::REDUCE_L1,
    reduce::REDUCE_L2,
    reduce::REDUCE_LOG_SUM,
    reduce::REDUCE_LOG_SUM_EXP,
    reduce::REDUCE_MAX,
    reduce::REDUCE_MEAN,
    reduce::REDUCE_MIN,
    reduce::REDUCE_PROD,
    reduce::REDUCE_SUM,
    reduce::REDUCE_SUM_SQUARE,
    unary::RELU,
    reshape::RESHAPE,
    resize::RESIZE,
    reverse_sequence::REVERSE_SEQUENCE,
    rotary_embedding::ROTARY_EMBEDDING,
    unary::ROUND,
    fourier::STFT,
    control::SCAN,
    scatter::SCATTER,
    scatter::SCATTER_ELEMENTS,
    scatter::SCATTER_ND,
    unary::SELU,
    control::SEQUENCE_AT,
    control::SEQUENCE_CONSTRUCT,
    control::SEQUENCE_EMPTY,
    control::SEQUENCE_ERASE,
    control::SEQUENCE_INSERT,
    control::SEQUENCE_LENGTH,
    shape::SHAPE,
    unary::SHRINK,
    unary::SIGMOID,
    unary::SIGN,
    unary::SIN,
    unary::SINH,
    shape::SIZE,
    slice::SLICE,
    softmax::SOFTMAX,
    unary::SOFTPLUS,
    unary::SOFTSIGN,
    depth_to_space::SPACE_TO_DEPTH,
    split::SPLIT,
    control::SPLIT_TO_SEQUENCE,
    unary::SQRT,
    squeeze::SQUEEZE,
    binary::SUB,
    several::SUM,
    unary::SWISH,
    unary::TAN,
    unary::TANH,
    unary::THRESHOLDED_RELU,
    expand::TILE,
    top_k::TOP_K,
    transpose::TRANSPOSE,
    trilu::TRILU,
    unique::UNIQUE,
    unsqueeze::UNSQUEEZE,
    resize::UPSAMPLE,
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
    use crate::cases::{Case, Cases};

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
    fn every_operator_has_cases() {
        let cases = Cases::open().cases;
        let missing = |name: &&str| !cases.iter().map(Case::operator).any(|operator| operator == *name);
        let missing: Vec<&str> = OPERATORS.iter().map(|operator| operator.name).filter(missing).collect();
        assert!(missing.is_empty(), "scripts/operator-cases has no cases of {missing:?}");
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
