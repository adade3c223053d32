//! Computes layers on the host whose inputs are all constants: shape arithmetic, and weights made from weights.

mod arithmetic;
mod moves;

use std::sync::Arc;

use dala_spec::{Data, Scalar, Shape, TensorType};

use crate::error::shown;
use crate::graph::Node;
use crate::{BinaryOp, ModelError, Op};

pub(crate) use moves::slice;

/// Gives the same expression for the list inside, whatever its element type, as data of that type.
macro_rules! map_data {
    ($data:expr, $values:ident => $body:expr) => {
        match $data {
            dala_spec::Data::F32($values) => dala_spec::Data::F32($body),
            dala_spec::Data::F64($values) => dala_spec::Data::F64($body),
            dala_spec::Data::S32($values) => dala_spec::Data::S32($body),
            dala_spec::Data::S64($values) => dala_spec::Data::S64($body),
            dala_spec::Data::U32($values) => dala_spec::Data::U32($body),
            dala_spec::Data::U8($values) => dala_spec::Data::U8($body),
        }
    };
}
pub(crate) use map_data;

/// A constant that a layer reads.
pub(crate) type Constant<'a> = (&'a Shape, &'a Arc<Data>);

/// How much work a layer is, in elements; `usize::MAX` for one that is never computed here.
pub(crate) fn cost(op: &Op, inputs: &[Constant<'_>], ty: &TensorType) -> usize {
    let read = inputs.iter().fold(0usize, |sum, (shape, _)| sum.saturating_add(shape.len()));
    let made = ty.shape.len();
    match op {
        Op::Conv { .. }
        | Op::BatchNorm { .. }
        | Op::GlobalAveragePool
        | Op::AveragePool { .. }
        | Op::MaxPool { .. }
        | Op::Softmax { .. }
        | Op::Resize { .. } => usize::MAX,
        Op::Gemm { transpose_a, .. } => {
            let inner = inputs.first().and_then(|(shape, _)| shape.dims().get(usize::from(!transpose_a)));
            made.saturating_mul(inner.copied().unwrap_or(usize::MAX)).saturating_add(read)
        }
        Op::MatMul => {
            let inner = inputs.first().and_then(|(shape, _)| shape.dims().last());
            made.saturating_mul(inner.copied().unwrap_or(usize::MAX)).saturating_add(read)
        }
        // These do not look at everything they read.
        Op::Slice { .. } | Op::Gather { .. } => made,
        _ => made.max(read),
    }
}

/// The result of a layer, or `None` if it is left to the device.
pub(crate) fn evaluate(
    op: &Op,
    inputs: &[Constant<'_>],
    ty: &TensorType,
    node: &Node,
) -> Result<Option<Data>, ModelError> {
    let data = match (op, inputs) {
        (Op::Binary(op), [a, b]) => {
            if *op == BinaryOp::Div && !ty.dtype.is_float() && b.1.iter().any(|value| value.as_i64() == 0) {
                return Err(ModelError::BadValue {
                    node: shown(&node.name),
                    input: "the second input".to_owned(),
                    expected: "other than 0".to_owned(),
                    found: "0".to_owned(),
                });
            }
            arithmetic::binary(*op, *a, *b, &ty.shape)
        }
        (Op::Gemm { alpha, beta, transpose_a, transpose_b }, [a, b, c]) => {
            arithmetic::gemm([*a, *b, *c], [*alpha, *beta], [*transpose_a, *transpose_b], &ty.shape)
        }
        (Op::MatMul, [a, b]) => arithmetic::mat_mul(*a, *b, &ty.shape),
        (Op::ReduceMean { axes }, [x]) => arithmetic::mean(*x, axes, ty.shape.len()),
        (Op::Cast, [(_, data)]) => Some(cast(data, ty)),
        (Op::Reshape, [(_, data)]) => Some(Data::clone(data)),
        (Op::Transpose { perm }, [(shape, data)]) => moves::transpose(data, shape, perm),
        (Op::Slice { starts, steps }, [(shape, data)]) => {
            let signed = |list: &[usize]| list.iter().map(|&value| value as i64).collect::<Vec<_>>();
            slice(data, shape.dims(), &ty.shape, &signed(starts), &signed(steps))
        }
        (Op::Concat { axis }, inputs) => moves::concat(inputs, *axis),
        (Op::Gather { axis }, [(shape, data), (_, indices)]) => moves::gather(data, shape, indices, *axis),
        (Op::Pad { before, mode, .. }, [(shape, data)]) => moves::pad(data, shape, &ty.shape, before, *mode),
        (op, [(_, data)]) => arithmetic::unary(op, data),
        _ => None,
    };
    Ok(data.filter(|data| data.len() == ty.shape.len() && data.dtype() == ty.dtype))
}

/// Integers to integers keep their low bits, everything else goes as Rust's `as` does.
fn cast(data: &Data, ty: &TensorType) -> Data {
    let float = data.dtype().is_float();
    Data::collect(
        ty.dtype,
        data.iter().map(|value| match float {
            true => Scalar::from_f64(ty.dtype, value.as_f64()),
            false => Scalar::from_i64(ty.dtype, value.as_i64()),
        }),
    )
}

/// 1 for every element that is not zero.
pub(crate) fn to_bool(data: &Data) -> Data {
    Data::U8(data.iter().map(|value| u8::from(value.as_f64() != 0.0)).collect())
}

#[cfg(test)]
mod tests {
    use dala_spec::Data;

    use crate::Network;
    use crate::builder::{Net, float, floats, int, integers, ints, list, scalar, value};
    use crate::proto::{AttributeProto, TensorProto};

    /// The result of a node on constants.
    fn folded(
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
        output(&network)
    }

    fn output(network: &Network) -> (Vec<usize>, Data) {
        let value = &network.values[network.outputs[0]];
        (value.ty.shape.dims().to_vec(), value.constant.as_deref().unwrap().clone())
    }

    fn matrix() -> TensorProto {
        floats(&[2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    }

    #[test]
    fn elements_are_moved() {
        let f32s = |values: &[f32]| Data::F32(values.to_vec());
        let turned = folded(13, "Transpose", vec![matrix()], vec![]);
        assert_eq!(turned, (vec![3, 2], f32s(&[1.0, 4.0, 2.0, 5.0, 3.0, 6.0])));
        let joined = folded(13, "Concat", vec![matrix(), floats(&[2, 1], vec![7.0, 8.0])], vec![int("axis", 1)]);
        assert_eq!(joined, (vec![2, 4], f32s(&[1.0, 2.0, 3.0, 7.0, 4.0, 5.0, 6.0, 8.0])));
        let columns = folded(13, "Gather", vec![matrix(), list(&[-1, 0])], vec![int("axis", 1)]);
        assert_eq!(columns, (vec![2, 2], f32s(&[3.0, 1.0, 6.0, 4.0])));
        let back = vec![matrix(), list(&[-1]), list(&[i64::MIN]), list(&[1]), list(&[-2])];
        assert_eq!(folded(13, "Slice", back, vec![]), (vec![2, 2], f32s(&[3.0, 1.0, 6.0, 4.0])));
        let padded = folded(13, "Pad", vec![matrix(), list(&[0, 1, 0, 0]), scalar(9.0)], vec![]);
        assert_eq!(padded, (vec![2, 4], f32s(&[9.0, 1.0, 2.0, 3.0, 9.0, 4.0, 5.0, 6.0])));
        let mirrored = folded(9, "Pad", vec![matrix()], vec![ints("pads", &[0, 2, 0, 0]), mode("reflect")]);
        assert_eq!(mirrored, (vec![2, 5], f32s(&[3.0, 2.0, 1.0, 2.0, 3.0, 6.0, 5.0, 4.0, 5.0, 6.0])));
        assert_eq!(folded(13, "Reshape", vec![matrix(), list(&[-1])], vec![]).0, [6]);
    }

    fn mode(name: &'static str) -> AttributeProto {
        crate::builder::text("mode", name)
    }

    #[test]
    fn numbers_are_computed() {
        let f32s = |values: &[f32]| Data::F32(values.to_vec());
        let sum = folded(13, "Add", vec![matrix(), floats(&[2, 1], vec![10.0, 20.0])], vec![]);
        assert_eq!(sum, (vec![2, 3], f32s(&[11.0, 12.0, 13.0, 24.0, 25.0, 26.0])));
        let quotient = folded(13, "Div", vec![list(&[7, -7, i64::MIN]), list(&[2, 2, -1])], vec![]);
        assert_eq!(quotient, (vec![3], Data::S64(vec![3, -3, i64::MIN])));
        let product = folded(13, "MatMul", vec![matrix(), floats(&[3], vec![1.0, 0.0, -1.0])], vec![]);
        assert_eq!(product, (vec![2], f32s(&[-2.0, -2.0])));
        let square = vec![int("transB", 1), float("alpha", 0.5)];
        assert_eq!(folded(13, "Gemm", vec![matrix(), matrix()], square).1, f32s(&[7.0, 16.0, 16.0, 38.5]));
        let mean = folded(13, "ReduceMean", vec![matrix()], vec![ints("axes", &[0]), int("keepdims", 0)]);
        assert_eq!(mean, (vec![3], f32s(&[2.5, 3.5, 4.5])));
        let whole = folded(13, "Cast", vec![floats(&[3], vec![-1.5, 2.9, 300.0])], vec![int("to", 7)]);
        assert_eq!(whole.1, Data::S64(vec![-1, 2, 300]));
        let truth = folded(13, "Cast", vec![list(&[0, 256, -1])], vec![int("to", 9)]);
        assert_eq!(truth.1, Data::U8(vec![0, 1, 1]));
        let positive = folded(13, "Relu", vec![floats(&[3], vec![-1.0, 0.0, 2.0])], vec![]);
        assert_eq!(positive.1, f32s(&[0.0, 0.0, 2.0]));
    }

    #[test]
    fn shapes_follow_the_batch() {
        let net = Net::new(13)
            .x(&[-1, 6, 2])
            .tensor("zero", integers(&[], &[0]))
            .ints("first", &[0])
            .ints("rest", &[3, -1])
            .node("Shape", &["x"], "shape", vec![])
            .node("Gather", &["shape", "zero"], "batch", vec![])
            .node("Unsqueeze", &["batch", "first"], "list", vec![])
            .node("Concat", &["list", "rest"], "target", vec![int("axis", 0)])
            .node("Reshape", &["x", "target"], "y", vec![])
            .output("y");
        let network = net.resolve(5).unwrap();
        assert_eq!(network.layers.len(), 1);
        assert_eq!(network.layers[0].inputs, network.inputs);
        assert_eq!(network.values.len(), 2);
        assert_eq!(network.values[network.outputs[0]].ty.shape.dims(), [5, 3, 4]);
    }

    #[test]
    fn large_constants_are_refused() {
        let fill = |shape: &[i64]| {
            let net = Net::new(13).x(&[-1]).ints("shape", shape);
            let one = value("value", floats(&[1], vec![1.0]));
            net.node("ConstantOfShape", &["shape"], "y", vec![one]).output("y").code()
        };
        assert_eq!(fill(&[100, 100]), "read");
        assert_eq!(fill(&[1 << 30]), "too_large");
        assert_eq!(fill(&[i64::MAX, i64::MAX]), "too_large");
        assert_eq!(fill(&[-1]), "bad_value");
        let zero = Net::new(13).x(&[-1]).ints("a", &[1]).ints("b", &[0]).node("Div", &["a", "b"], "y", vec![]);
        assert_eq!(zero.output("y").code(), "bad_value");
    }
}
