//! Indices that callers give: of 32 or 64 bits, and counted from the end where they are negative.

use dala_spec::expr::CompareOp;
use dala_spec::{DType, DTypes, Expr, TensorType};

/// Their element types.
pub(crate) const INDICES: DTypes = &[DType::S32, DType::S64, DType::U32];

/// How programs see them: where a device does not compute with 64 bits, it still can look at both halves.
pub(crate) fn words(indices: &TensorType) -> TensorType {
    match indices.dtype {
        DType::S64 => TensorType::new(DType::U32, [2 * indices.shape.len()]),
        dtype => TensorType::new(dtype, [indices.shape.len()]),
    }
}

/// The index at `at` of input `name`, kept inside an axis of `size`.
pub(crate) fn kept(name: &str, dtype: DType, at: Expr, size: usize) -> Expr {
    let last = || Expr::size(size - 1);
    match dtype {
        DType::U32 => Expr::input(name).gather(at).min(last().cast(DType::U32)).cast(DType::S32),
        _ => from_start(name, dtype, at, size).clamp(0, last()),
    }
}

/// The index at `at` of input `name`, counted from the start of an axis of `size`: it may be outside still.
pub(crate) fn from_start(name: &str, dtype: DType, at: Expr, size: usize) -> Expr {
    let found = |at: Expr| Expr::input(name).gather(at);
    let index = match dtype {
        DType::U32 => return found(at).min(Expr::size(i32::MAX as usize).cast(DType::U32)).cast(DType::S32),
        // Two words, of which the second says whether the first is all there is.
        DType::S64 => {
            let low = found(at.clone() * 2).cast(DType::S32);
            let high = found(at * 2 + 1).cast(DType::S32);
            let sign =
                |of: &Expr, below: Expr, other: Expr| Expr::select(of.clone().compare(CompareOp::Lt, 0), below, other);
            let small = high.clone().compare(CompareOp::Eq, sign(&low, Expr::from(-1), Expr::from(0)));
            let far = sign(&high, Expr::from(i32::MIN).cast(DType::S32), Expr::size(i32::MAX as usize));
            Expr::select(small, low.clone(), far)
        }
        _ => found(at),
    };
    let from_end = index.clone() + Expr::size(size);
    Expr::select(index.clone().compare(CompareOp::Lt, 0), from_end, index)
}

/// Whether a place is inside an axis of `size`.
pub(crate) fn is_inside(place: Expr, size: usize) -> Expr {
    // What is below zero is very large without a sign.
    place.cast(DType::U32).compare(CompareOp::Lt, Expr::size(size).cast(DType::U32))
}

/// The same in plain Rust: none where it is outside.
pub(crate) fn inside(index: i64, size: usize) -> Option<usize> {
    let index = if index < 0 { index.saturating_add(size as i64) } else { index };
    usize::try_from(index).ok().filter(|index| *index < size)
}

/// The same, with the nearest inside for what is outside.
pub(crate) fn nearest(index: i64, size: usize) -> usize {
    let index = if index < 0 { index.saturating_add(size as i64) } else { index };
    index.clamp(0, size as i64 - 1) as usize
}
