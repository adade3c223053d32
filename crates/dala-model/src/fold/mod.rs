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
