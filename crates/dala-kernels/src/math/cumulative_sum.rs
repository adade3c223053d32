//! The sum of each element and all before it along an axis; without itself if `exclusive`, and of those after it if `reverse`.
//! Integers wrap; those of 8 and 16 bits saturate, and 16-bit floats are rounded, at the end.
//!
//! A launch for each power of two: each element adds the sum that so many elements before it ends with.

use dala_plan::{DeviceFacts, Lowering, Place};
use dala_spec::expr::{BinaryOp, CompareOp, apply_binary, store, widen};
use dala_spec::{
    Class, Data, Expr, KernelSpec, NUMBERS, OutputDType, ParamKind, Scalar, Signature, SpecError, TensorType,
    Tolerance, param,
};

use crate::keys::{AXIS, EXCLUSIVE, REVERSE};
use crate::lower::reduce::Line;
use crate::lower::{map, position, shapes};
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::new("cumulative_sum", Class::Reduction)
        .alias("cumsum")
        .summary("The sum of each element and all before it along an axis")
        .input("x", NUMBERS)
        .computed("the input's", OutputDType::Inputs, shapes::with_axis)
        .param(param(AXIS, ParamKind::Int).default(-1).summary("the axis, counted from the end if negative"))
        .param(param(EXCLUSIVE, ParamKind::Bool).default(false).summary("whether an element itself does not count"))
        .param(param(REVERSE, ParamKind::Bool).default(false).summary("whether those after an element are summed"))
        .tolerance(Tolerance::close(64.0, 64.0));
    Kernel::lowered(spec, lower).example(&[&[3, 7]], &[3, 7]).reference(reference)
}

fn line(call: &Signature) -> Result<Line, SpecError> {
    let dims = call.inputs[0].shape.dims();
    Ok(Line::along(dims, shapes::axis("axis", call.params.int(AXIS), dims.len())?))
}

fn lower(call: &Signature, _: &DeviceFacts) -> Result<Lowering, SpecError> {
    let (x, mut lowering) = (&call.inputs[0], Lowering::new());
    let Line { outer, length, inner } = line(call)?;
    let (exclusive, reverse) = (call.params.flag(EXCLUSIVE), call.params.flag(REVERSE));
    let flat = |dtype| TensorType::new(dtype, [x.shape.len()]);
    let wide = x.dtype.register();
    let along = || position::coordinates(&[outer, length, inner]).into_iter().nth(1).unwrap_or(Expr::from(0));
    // What is so far before, or after, and zero past the end.
    let moved = |apart: usize| {
        let far = Expr::size(apart.saturating_mul(inner));
        let (at, there) = match reverse {
            false => (Expr::index() - far, along().compare(CompareOp::Ge, Expr::size(apart))),
            true => (Expr::index() + far, along().compare(CompareOp::Lt, Expr::size(length - apart))),
        };
        Expr::select(there, Expr::input("x").gather(at), Expr::from(0))
    };
    let mut steps = Vec::new();
    if exclusive {
        steps.push(moved(1));
    }
    let mut apart = 1;
    while apart < length {
        steps.push(Expr::input("x").gather(Expr::index()) + moved(apart));
        apart *= 2;
    }
    if steps.is_empty() {
        steps.push(Expr::input("x"));
    }
    let (mut source, mut from, last) = (Place::Input(0), x.dtype, steps.len() - 1);
    for (number, expr) in steps.into_iter().enumerate() {
        let (to, dtype) = match number == last {
            true => (Place::Output, x.dtype),
            false => (lowering.transient(flat(wide)), wide),
        };
        lowering.step(map(&expr, &[("x", flat(from))], flat(dtype), call)?, [source], to);
        (source, from) = (to, dtype);
    }
    Ok(lowering)
}

fn reference(call: &Reference) -> Data {
    let Ok(Line { outer, length, inner }) = line(call.signature) else { return call.numbers(|_| f64::NAN) };
    let (exclusive, reverse, dtype) = (call.params().flag(EXCLUSIVE), call.params().flag(REVERSE), call.dtype());
    let mut out = vec![Scalar::from_i64(dtype, 0); call.len()];
    for line in 0..outer * inner {
        let mut float = 0.0;
        let mut integer = widen(Scalar::from_i64(dtype, 0));
        for number in 0..length {
            let at = if reverse { length - 1 - number } else { number };
            let at = (line / inner * length + at) * inner + line % inner;
            let before = (float, integer);
            let value = call.inputs[0].get(at).unwrap_or(Scalar::U8(0));
            match dtype.is_float() {
                true => float += value.as_f64(),
                false => integer = apply_binary(BinaryOp::Add, integer, widen(value)),
            }
            let (float, integer) = if exclusive { before } else { (float, integer) };
            out[at] = if dtype.is_float() { Scalar::from_f64(dtype, float) } else { store(integer, dtype) };
        }
    }
    Data::collect(dtype, out)
}
