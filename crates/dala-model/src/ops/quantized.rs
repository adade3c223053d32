//! Whole numbers that stand for others, `(number - zero) * scale`: what operators on them share.
//!
//! Products of bytes are summed exactly: in floats where no sum can be larger than those count, otherwise in 32-bit integers.

use dala_spec::{DType, Data, Params, Scalar, Shape, SpecError, TensorType};

use super::call::{NodeCall, broadcast};
use super::operator::Given;
use crate::ModelError;
use crate::lower::Lowerer;

/// A cell as elements of a type; integers that do not fit saturate.
pub(super) fn cast(to: &mut Lowerer<'_>, cell: usize, dtype: DType) -> Result<usize, SpecError> {
    let from = to.calls.ty(cell).clone();
    if from.dtype == dtype {
        return Ok(cell);
    }
    to.call("cast", &[cell], TensorType { dtype, ..from }, &Params::new().with("overflow", "saturate"))
}

/// A kernel on two cells of one type, which are repeated to fit.
pub(super) fn pair(to: &mut Lowerer<'_>, kernel: &str, a: usize, b: usize) -> Result<usize, SpecError> {
    let (left, right) = (to.calls.ty(a), to.calls.ty(b));
    let dims = broadcast(left.shape.dims(), right.shape.dims()).unwrap_or_default();
    let ty = TensorType::new(left.dtype, dims);
    to.call(kernel, &[a, b], ty, &Params::new())
}

/// An input that has one element, or one for each along an axis, as a cell that is repeated to fit what has this rank.
pub(super) fn along(
    to: &mut Lowerer<'_>,
    place: usize,
    axis: Option<usize>,
    rank: usize,
    dtype: DType,
) -> Result<usize, SpecError> {
    let cell = to.first(place)?;
    let ty = to.calls.ty(cell).clone();
    let mut dims = vec![1; rank];
    if let Some(size) = axis.and_then(|axis| dims.get_mut(axis)) {
        *size = ty.shape.len();
    }
    let seen = to.calls.view(cell, TensorType::new(ty.dtype, dims));
    cast(to, seen, dtype)
}

/// Whether an input is known to be nothing but zeros.
pub(super) fn is_zero(to: &Lowerer<'_>, place: usize) -> bool {
    let constant = to.value(place).constant.as_deref();
    constant.is_some_and(|data| data.iter().all(|value| value.as_f64() == 0.0))
}

/// Floats as whole numbers of a type: `round(x / scale) + zero`, or `round(x * scale) + zero` by another kernel, saturated.
pub(super) fn quantize(
    to: &mut Lowerer<'_>,
    (kernel, x, scale): (&str, usize, usize),
    zero: Option<usize>,
    dtype: DType,
) -> Result<usize, SpecError> {
    let scaled = pair(to, kernel, x, scale)?;
    let ty = to.calls.ty(scaled).clone();
    let mut whole = to.call("round", &[scaled], ty, &Params::new())?;
    if let Some(zero) = zero {
        whole = pair(to, "elementwise_add", whole, zero)?;
    }
    cast(to, whole, dtype)
}

/// An input of bytes.
pub(super) fn bytes(call: &NodeCall<'_>, place: usize) -> Result<DType, ModelError> {
    match call.dtype(place)? {
        dtype @ (DType::U8 | DType::S8) => Ok(dtype),
        other => Err(call.type_mismatch("elements of type u8 or s8", other)),
    }
}

/// The zero of input `of`, which has its type: one for all, or `each`. One that is left out is zero.
pub(super) fn zero(call: &NodeCall<'_>, place: usize, of: usize, each: Each) -> Result<Given, ModelError> {
    let dtype = call.dtype(of)?;
    let Some(number) = call.number(place) else {
        return Ok(Given::Filled(Shape::from(Vec::new()), Scalar::from_i64(dtype, 0)));
    };
    if call.dtype(place)? != dtype {
        return Err(call.type_mismatch(format!("a zero of type {dtype}"), call.dtype(place)?));
    }
    one_or(call, place, each)?;
    Ok(Given::Value(number))
}

/// A scale: one for all, or `each`.
pub(super) fn scale(call: &NodeCall<'_>, place: usize, each: Each) -> Result<Given, ModelError> {
    if !call.dtype(place)?.is_float() {
        return Err(call.type_mismatch("a scale of floats", call.dtype(place)?));
    }
    one_or(call, place, each)?;
    Ok(Given::Value(call.input(place)?))
}

/// How many scales or zeros there may be: a list, or as many along an axis, counted from the last, of what has size one elsewhere.
pub(super) struct Each(pub(super) usize, pub(super) usize);

/// An error unless the input has one element, or `each`.
fn one_or(call: &NodeCall<'_>, place: usize, Each(count, axis): Each) -> Result<(), ModelError> {
    let dims = call.dims(place)?;
    let others = dims.iter().rev().enumerate().filter(|(place, _)| *place != axis).all(|(_, size)| *size == 1);
    if dims == [count] || (others && dims.iter().rev().nth(axis).is_none_or(|size| [1, count].contains(size))) {
        return Ok(());
    }
    Err(call.shape_mismatch(format!("one scale or zero, or {count}"), &dims))
}

/// Whether an input of one element, or of one for each along an axis, has the latter.
pub(super) fn is_list(to: &Lowerer<'_>, place: usize) -> bool {
    to.value(place).ty.shape.len() > 1
}

/// The type to sum products of bytes in: floats if no sum can leave the whole numbers that they hold. The weights are
/// input `place`; `column` says which sum one is part of, and `inner` products make a sum.
pub(super) fn sums_in(
    to: &Lowerer<'_>,
    place: usize,
    zero: usize,
    inner: usize,
    column: impl Fn(usize) -> usize,
) -> DType {
    /// The largest that a byte less its zero can be, and where floats begin to leave out whole numbers.
    const LARGEST: i64 = 255;
    const WHOLE: i64 = 1 << 24;
    let value = |place: usize| to.value(place).constant.as_deref();
    let largest = match (value(place), value(zero)) {
        (Some(data), Some(zero)) => largest_sum(data, zero, column),
        _ => (inner as i64).saturating_mul(LARGEST),
    };
    if largest.saturating_mul(LARGEST) <= WHOLE { DType::F32 } else { DType::S32 }
}

/// The largest sum of what weights are away from their zero.
fn largest_sum(data: &Data, zero: &Data, column: impl Fn(usize) -> usize) -> i64 {
    let at = |column: usize| zero.get(column % zero.len().max(1)).map_or(0, Scalar::as_i64);
    let mut sums: Vec<i64> = Vec::new();
    for (index, value) in data.iter().enumerate() {
        let column = column(index);
        if sums.len() <= column {
            sums.resize(column + 1, 0);
        }
        if let Some(sum) = sums.get_mut(column) {
            *sum += (value.as_i64() - at(column)).abs();
        }
    }
    sums.into_iter().max().unwrap_or_default()
}

/// Bytes of an input less their zero, as elements of a type.
pub(super) fn centred(
    to: &mut Lowerer<'_>,
    cell: usize,
    zero: (usize, Option<usize>),
    dtype: DType,
) -> Result<usize, SpecError> {
    let wide = cast(to, cell, dtype)?;
    let (place, axis) = zero;
    if is_zero(to, place) {
        return Ok(wide);
    }
    let rank = to.calls.ty(wide).shape.rank();
    let axis = axis.filter(|_| is_list(to, place));
    let zero = along(to, place, axis, rank, dtype)?;
    pair(to, "elementwise_sub", wide, zero)
}

/// Sums of products in the type of the first output: `round(sum * (a * b / y)) + zero`, by the scales of both factors and of the result.
/// A scale is a place and the axis of the sums that it goes along; `zero` is the place of the result's zero.
pub(super) fn rescaled(
    to: &mut Lowerer<'_>,
    sums: usize,
    [a, b, y]: [(usize, Option<usize>); 3],
    zero: usize,
) -> Result<usize, SpecError> {
    let (rank, dtype) = (to.calls.ty(sums).shape.rank(), to.output().dtype);
    let mut scale = |(place, axis): (usize, Option<usize>)| {
        let axis = axis.filter(|_| is_list(to, place));
        along(to, place, axis, rank, DType::F32)
    };
    let (a, b, y) = (scale(a)?, scale(b)?, scale(y)?);
    let factor = pair(to, "elementwise_mul", a, b)?;
    let factor = pair(to, "elementwise_div", factor, y)?;
    let zero = match is_zero(to, zero) {
        true => None,
        false => Some(along(to, zero, None, rank, DType::F32)?),
    };
    let sums = cast(to, sums, DType::F32)?;
    quantize(to, ("elementwise_mul", sums, factor), zero, dtype)
}
