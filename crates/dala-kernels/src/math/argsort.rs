//! Where the elements of each line along an axis are in order: the first position is that of the smallest, or of the largest with
//! `descending`. Equal ones stay in their order, and NaN comes last. The output may have fewer along the axis: the first ones.
//!
//! Sorted by a network of comparisons, a launch for each of its levels: the same on every device, whatever the values.

use dala_plan::{DeviceFacts, Lowering, Place};
use dala_spec::expr::{BinaryOp, CompareOp, LogicOp, UnaryOp, compare};
use dala_spec::{
    Class, DType, Data, Expr, KernelSpec, NUMBERS, OutputDType, ParamKind, Params, Scalar, Shape, ShapeCall,
    ShapeProblem, Signature, SpecError, TensorType, param,
};

use crate::keys::{AXIS, DESCENDING};
use crate::lower::reduce::Line;
use crate::lower::{map, position, shapes};
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::new("argsort", Class::Reduction)
        .summary("Where the elements of each line along an axis are in order")
        .input("x", NUMBERS)
        .computed(
            "the input's, or fewer along the axis",
            OutputDType::OneOf(&[DType::S32, DType::U32, DType::S64]),
            shape,
        )
        .param(param(AXIS, ParamKind::Int).default(-1).summary("the axis, counted from the end if negative"))
        .param(param(DESCENDING, ParamKind::Bool).default(false).summary("whether the largest comes first"));
    Kernel::lowered(spec, lower)
        .example(&[&[3, 5]], &[3, 4])
        .example_dtype(DType::S32)
        .example_params(|| Params::new().with("descending", true))
        .reference(reference)
}

fn shape(call: &ShapeCall) -> Result<Shape, ShapeProblem> {
    let (dims, chosen) = (call.inputs[0].shape.dims(), shapes::chosen(call)?);
    let axis = shapes::axis("axis", call.params.int(AXIS), dims.len())?;
    let fits = |(own, (size, count)): (usize, (&usize, &usize))| count == size || own == axis && count < size;
    match chosen.rank() == dims.len() && dims.iter().zip(chosen.dims()).enumerate().all(fits) {
        true => Ok(chosen.clone()),
        false => Err(ShapeProblem::Output(format!("{}, or fewer along axis {axis}", call.inputs[0].shape))),
    }
}

fn line(call: &Signature) -> Result<Line, ShapeProblem> {
    let dims = call.inputs[0].shape.dims();
    Ok(Line::along(dims, shapes::axis("axis", call.params.int(AXIS), dims.len())?))
}

/// Whether value `a` comes before value `b`, whatever their positions.
fn before(a: &Expr, b: &Expr, descending: bool, float: bool) -> Expr {
    let op = if descending { CompareOp::Gt } else { CompareOp::Lt };
    let plain = a.clone().compare(op, b.clone());
    if !float {
        return plain;
    }
    let is_number = a.clone().compare(CompareOp::Eq, a.clone());
    plain.logic(LogicOp::Or, b.clone().unary(UnaryOp::IsNan).logic(LogicOp::And, is_number))
}

fn lower(call: &Signature, _: &DeviceFacts) -> Result<Lowering, SpecError> {
    let (x, mut lowering) = (&call.inputs[0], Lowering::new());
    let Line { outer, length, inner } = line(call)?;
    let descending = call.params.flag(DESCENDING);
    let slots = length.next_power_of_two();
    let sorted = TensorType::new(DType::S32, [outer, slots, inner]);
    let float = x.dtype.is_float();
    // Of slots that hold a position each; those past the end come last.
    let mut held: Option<Place> = None;
    let mut group = 2;
    while group <= slots {
        let mut apart = group / 2;
        while apart > 0 {
            let mut coordinates = position::coordinates(&[outer, slots, inner]).into_iter();
            let mut next = || coordinates.next().unwrap_or(Expr::from(0));
            let (block, slot, side) = (next(), next(), next());
            let partner = Expr::local("slot").bits(BinaryOp::BitXor, Expr::size(apart));
            let at = |slot: Expr| {
                (Expr::local("block") * Expr::size(slots) + slot) * Expr::size(inner) + Expr::local("side")
            };
            let position = |slot: Expr| match held {
                Some(_) => Expr::input("held").gather(at(slot)),
                None => slot,
            };
            let value = |position: Expr| {
                let at =
                    (Expr::local("block") * Expr::size(length) + position) * Expr::size(inner) + Expr::local("side");
                Expr::input("x").gather(at)
            };
            let (a, b) = (Expr::local("a"), Expr::local("b"));
            let (va, vb) = (Expr::local("va"), Expr::local("vb"));
            let past = |position: &Expr| position.clone().compare(CompareOp::Ge, Expr::size(length));
            let earlier = a.clone().compare(CompareOp::Lt, b.clone());
            // Neither before the other: as they were.
            let same = !before(&vb, &va, descending, float);
            let first =
                before(&va, &vb, descending, float).logic(LogicOp::Or, same.logic(LogicOp::And, earlier.clone()));
            let first =
                Expr::select(past(&a), past(&b).logic(LogicOp::And, earlier), past(&b).logic(LogicOp::Or, first));
            let is_lower = Expr::local("slot").compare(CompareOp::Lt, Expr::local("partner"));
            let forward = Expr::local("slot").bits(BinaryOp::BitAnd, Expr::size(group)).compare(CompareOp::Eq, 0);
            let wants_first = is_lower.compare(CompareOp::Eq, forward);
            let pick = Expr::select(wants_first.compare(CompareOp::Eq, first), a, b);
            let pick =
                Expr::with_local("va", value(Expr::local("a")), Expr::with_local("vb", value(Expr::local("b")), pick));
            let low = Expr::local("slot").min(Expr::local("partner"));
            let high = Expr::local("slot").max(Expr::local("partner"));
            let pick = Expr::with_local("a", position(low), Expr::with_local("b", position(high), pick));
            let pick = Expr::with_local("partner", partner, pick);
            let pick = Expr::with_local("slot", slot, Expr::with_local("side", side, pick));
            let pick = Expr::with_local("block", block, pick);
            let flat = TensorType::new(DType::S32, [sorted.shape.len()]);
            let mut named = vec![("x", TensorType::new(x.dtype, [x.shape.len()]))];
            let mut reads = vec![Place::Input(0)];
            if let Some(place) = held {
                named.push(("held", flat.clone()));
                reads.push(place);
            }
            let place = lowering.transient(sorted.clone());
            lowering.step(map(&pick, &named, flat, call)?, reads, place);
            held = Some(place);
            apart /= 2;
        }
        group *= 2;
    }
    // Positions of 64 bits are two words, of which the second is zero.
    let each = if call.output.dtype == DType::S64 { 2 } else { 1 };
    let count = call.output.shape.len() / (outer * inner).max(1);
    let mut coordinates = position::coordinates(&[outer, count, inner, each]).into_iter();
    let mut next = || coordinates.next().unwrap_or(Expr::from(0));
    let (block, slot, side, word) = (next(), next(), next(), next());
    let slot = match held {
        Some(_) => Expr::input("held").gather((block * Expr::size(slots) + slot) * Expr::size(inner) + side),
        None => slot,
    };
    let (expr, dtype) = match each {
        1 => (slot.cast(call.output.dtype), call.output.dtype),
        _ => (Expr::select(word.compare(CompareOp::Eq, 0), slot, Expr::from(0)).cast(DType::U32), DType::U32),
    };
    let output = TensorType::new(dtype, [call.output.shape.len() * each]);
    let named = held.map(|_| ("held", TensorType::new(DType::S32, [sorted.shape.len()])));
    let task = map(&expr, &named.into_iter().collect::<Vec<_>>(), output, call)?;
    lowering.step(task, held.into_iter().collect::<Vec<_>>(), Place::Output);
    Ok(lowering)
}

fn reference(call: &Reference) -> Data {
    let Ok(Line { outer, length, inner }) = line(call.signature) else { return Data::S32(Vec::new()) };
    let count = call.len() / (outer * inner).max(1);
    let op = if call.params().flag(DESCENDING) { CompareOp::Gt } else { CompareOp::Lt };
    let mut out = vec![Scalar::from_i64(call.dtype(), 0); call.len()];
    for line in 0..outer * inner {
        let (block, side) = (line / inner, line % inner);
        let value = |at: usize| call.inputs[0].get((block * length + at) * inner + side).unwrap_or(Scalar::U8(0));
        let mut order: Vec<usize> = (0..length).collect();
        order.sort_by(|a, b| {
            let (a, b) = (value(*a), value(*b));
            let nan = |value: Scalar| value.as_f64().is_nan();
            match (compare(op, a, b), compare(op, b, a)) {
                (true, _) => std::cmp::Ordering::Less,
                (_, true) => std::cmp::Ordering::Greater,
                _ => nan(a).cmp(&nan(b)),
            }
        });
        for (slot, at) in order.into_iter().take(count).enumerate() {
            out[(block * count + slot) * inner + side] = Scalar::from_i64(call.dtype(), at as i64);
        }
    }
    Data::collect(call.dtype(), out)
}
