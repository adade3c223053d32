//! A buffer with elements added around it: `before` and `after` say how many along each axis. What is added is one value
//! (`constant`), the nearest element (`edge`), or the buffer mirrored at its first and last element (`reflect`), which is at most
//! one element less than there are.

use dala_plan::work::Map;
use dala_plan::{DeviceFacts, Lowering, Place, Task};
use dala_spec::expr::{CompareOp, UnaryOp};
use dala_spec::{
    Class, DType, Data, Expr, KernelSpec, NUMBERS, OutputDType, ParamKey, ParamKind, ParamValue, Params, Scalar, Shape,
    ShapeCall, ShapeProblem, Signature, SpecError, TensorType, param,
};

use crate::keys::{AFTER, BEFORE, MODE, VALUE};
use crate::lower::{map, position, view::strides};
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let around = |key: ParamKey, text| param(key, ParamKind::IntList).default(Vec::<i64>::new()).summary(text);
    let spec = KernelSpec::new("pad", Class::View)
        .summary("Elements added around a buffer")
        .input("x", NUMBERS)
        .computed("the input's, with what is added along each axis", OutputDType::Inputs, shape)
        .param(around(BEFORE, "how many elements are added before each axis; none if empty"))
        .param(around(AFTER, "how many elements are added after each axis; none if empty"))
        .param(
            param(MODE, ParamKind::words(&["constant", "reflect", "edge"]))
                .default("constant")
                .summary("what is added: the value, the buffer mirrored, or the nearest element"),
        )
        .param(
            param(VALUE, ParamKind::Number)
                .default(0)
                .summary("the value that is added; its fraction is cut off in integers"),
        );
    Kernel::lowered(spec, lower)
        .example(&[&[3, 4]], &[6, 5])
        .example_params(|| Params::new().with("before", vec![1i64, 0]).with("after", vec![2i64, 1]))
        .reference(reference)
}

/// An axis: its size, and how much is added before and after it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Axis {
    size: usize,
    before: usize,
    after: usize,
}

impl Axis {
    fn is_padded(self) -> bool {
        self.before + self.after > 0
    }

    fn padded(self) -> usize {
        self.size.saturating_add(self.before).saturating_add(self.after)
    }
}

/// The axes of a call; the param that does not fit otherwise.
fn axes(dims: &[usize], before: &[i64], after: &[i64], mode: &str) -> Result<Vec<Axis>, ShapeProblem> {
    let list = |name: &'static str, list: &[i64]| -> Result<Vec<usize>, ShapeProblem> {
        let list = if list.is_empty() { vec![0; dims.len()] } else { list.to_vec() };
        if list.len() != dims.len() {
            let wanted = format!("of {} dimensions, as `{name}` has them", list.len());
            return Err(ShapeProblem::Input(0, wanted));
        }
        let most = |size: usize| if mode == "reflect" { size.saturating_sub(1) } else { i32::MAX as usize };
        let fits = |(own, size): (&i64, &usize)| {
            let most = most(*size);
            let own = usize::try_from(*own).ok().filter(|own| *own <= most);
            own.ok_or(ShapeProblem::Param(name, 0.0, most as f64))
        };
        list.iter().zip(dims).map(fits).collect()
    };
    let (before, after) = (list(BEFORE.name(), before)?, list(AFTER.name(), after)?);
    let sides = before.into_iter().zip(after);
    Ok(dims.iter().zip(sides).map(|(size, (before, after))| Axis { size: *size, before, after }).collect())
}

fn of_call(call: &Signature) -> Result<Vec<Axis>, ShapeProblem> {
    let params = &call.params;
    let dims = call.inputs[0].shape.dims();
    axes(dims, params.ints(BEFORE), params.ints(AFTER), params.word(MODE))
}

fn shape(call: &ShapeCall) -> Result<Shape, ShapeProblem> {
    let (params, dims) = (call.params, call.inputs[0].shape.dims());
    let mode = params.word(MODE);
    let axes = axes(dims, params.ints(BEFORE), params.ints(AFTER), mode)?;
    match mode != "constant" && axes.iter().any(|axis| axis.size == 0 && axis.is_padded()) {
        true => Err(ShapeProblem::Input(0, "at least one element along every padded axis".to_owned())),
        false => Ok(Shape::new(axes.into_iter().map(Axis::padded).collect::<Vec<_>>())),
    }
}

/// Neighbouring axes that can be walked through as one, as one. A value may be added to whole runs of elements at once.
fn merged(axes: Vec<Axis>, constant: bool) -> Vec<Axis> {
    let mut merged: Vec<Axis> = Vec::new();
    for axis in axes {
        match merged.last_mut() {
            Some(last) if !axis.is_padded() && (constant || !last.is_padded()) => {
                last.size *= axis.size;
                last.before *= axis.size;
                last.after *= axis.size;
            }
            _ => merged.push(axis),
        }
    }
    merged
}

fn lower(call: &Signature, _: &DeviceFacts) -> Result<Lowering, SpecError> {
    let (input, dtype, mut lowering) = (&call.inputs[0], call.output.dtype, Lowering::new());
    let (axes, mode) = (of_call(call)?, call.params.word(MODE));
    if !axes.iter().any(|axis| axis.is_padded()) {
        lowering.step(Task::Map(Map::copy(&call.output)), [Place::Input(0)], Place::Output);
        return Ok(lowering);
    }
    let value = || Expr::param(VALUE).cast(dtype);
    if input.shape.is_empty() {
        // There is nothing to look at, only something to add.
        lowering.step(map(&value(), &[], call.output.clone(), call)?, [], Place::Output);
        return Ok(lowering);
    }
    let axes = merged(axes, mode == "constant");
    let sizes: Vec<usize> = axes.iter().map(|axis| axis.size).collect();
    let padded: Vec<usize> = axes.iter().map(|axis| axis.padded()).collect();
    let from_first = |(at, axis): (Expr, &Axis)| if axis.before > 0 { at - Expr::size(axis.before) } else { at };
    let places: Vec<Expr> = position::coordinates(&padded).into_iter().zip(&axes).map(from_first).collect();
    let inside = |(place, axis): (&Expr, &Axis)| {
        let last = || Expr::size(axis.size - 1);
        match mode {
            "edge" if axis.is_padded() => place.clone().clamp(0, last()),
            "reflect" if axis.is_padded() => last() - (last() - place.clone().unary(UnaryOp::Abs)).unary(UnaryOp::Abs),
            _ => place.clone(),
        }
    };
    let strides = strides(&sizes).into_iter().map(|stride| stride as usize);
    let mut expr = Expr::input("x").gather(position::place(places.iter().zip(&axes).map(inside).zip(strides)));
    if mode == "constant" {
        for (place, axis) in places.into_iter().zip(&axes).filter(|(_, axis)| axis.is_padded()) {
            // What is below zero is very large without a sign.
            let size = Expr::size(axis.size).cast(DType::U32);
            expr = Expr::select(place.cast(DType::U32).compare(CompareOp::Lt, size), expr, value());
        }
    }
    let flat = |len: usize| TensorType::new(dtype, [len]);
    let named = [("x", flat(input.shape.len()))];
    lowering.step(map(&expr, &named, flat(call.output.shape.len()), call)?, [Place::Input(0)], Place::Output);
    Ok(lowering)
}

fn reference(call: &Reference) -> Data {
    let (axes, mode, dtype) = (of_call(call.signature).unwrap_or_default(), call.params().word(MODE), call.dtype());
    let value = match call.params().get(VALUE.name()) {
        Some(ParamValue::Int(value)) if dtype.size() >= 4 => Scalar::from_i64(dtype, *value),
        _ => Scalar::from_f64(dtype, call.number(VALUE)),
    };
    let element = |index: usize| {
        let (mut rest, mut at, mut stride) = (index, 0, 1);
        for axis in axes.iter().rev() {
            let place = (rest % axis.padded()) as i64 - axis.before as i64;
            rest /= axis.padded();
            let last = axis.size as i64 - 1;
            let own = match mode {
                "edge" => place.clamp(0, last),
                "reflect" if place < 0 => -place,
                "reflect" if place > last => 2 * last - place,
                _ if place < 0 || place > last => return value,
                _ => place,
            };
            at += own as usize * stride;
            stride *= axis.size;
        }
        call.inputs[0].get(at).unwrap_or(value)
    };
    Data::collect(dtype, (0..call.len()).map(element))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_elements_are_padded_as_one() {
        let plain = |size| Axis { size, before: 0, after: 0 };
        let rows = Axis { size: 5, before: 1, after: 2 };
        let axes = vec![plain(2), plain(3), rows, plain(4), plain(2)];
        assert_eq!(merged(axes.clone(), false), [plain(6), rows, plain(8)]);
        assert_eq!(merged(axes, true), [plain(6), Axis { size: 40, before: 8, after: 16 }]);
    }
}
