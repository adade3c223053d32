//! Reductions over any axes: lines are folded one group of neighbouring axes at a time.

use dala_plan::work::{Argument, Finish, Fold, FoldOp, Fragment, Phase};
use dala_plan::{DeviceFacts, Lowering, Place, Task};
use dala_spec::expr::{BinaryOp, CompareOp, apply_binary, cast, compare};
use dala_spec::{
    Class, DType, DTypes, Data, Expr, KernelSpec, NUMBERS, OutputDType, ParamKind, Params, Scalar, Shape, ShapeCall,
    ShapeProblem, Signature, SpecError, TensorType, Tolerance, param,
};

use super::{map, shapes, view::View};
use crate::kernel::{LowerFn, ReferenceFn};
use crate::keys::{AXES, KEEP_DIMS};
use crate::{Kernel, Reference};

/// The spec of a kernel that reduces the axes of its param `axes`.
pub(crate) fn spec(
    name: &str,
    summary: &str,
    dtypes: DTypes,
    output: OutputDType,
    shape: fn(&ShapeCall) -> Result<Shape, ShapeProblem>,
) -> KernelSpec {
    KernelSpec::new(name, Class::Reduction)
        .summary(summary)
        .input("x", dtypes)
        .computed("the input's without the reduced axes", output, shape)
        .param(
            param(AXES, ParamKind::IntList)
                .default(Vec::<i64>::new())
                .summary("the axes that are reduced, counted from the end if negative; all if empty"),
        )
        .param(param(KEEP_DIMS, ParamKind::Bool).default(false).summary("whether reduced axes stay, with size 1"))
}

/// A kernel of such a spec, with the small call that suits all of them.
pub(crate) fn kernel(spec: KernelSpec, lower: LowerFn, reference: ReferenceFn) -> Kernel {
    Kernel::lowered(spec, lower)
        .example(&[&[5, 12]], &[5])
        .example_params(|| Params::new().with("axes", 1))
        .reference(reference)
}

/// A kernel that accumulates in its output's type, to which values are converted first.
pub(crate) fn accumulating(name: &str, summary: &str, lower: LowerFn, reference: ReferenceFn) -> Kernel {
    const WIDE: DTypes =
        &[DType::F32, DType::F64, DType::S32, DType::S64, DType::U32, DType::F16, DType::BF16, DType::U64];
    let spec = spec(name, summary, NUMBERS, OutputDType::OneOf(WIDE), shapes::without_axes)
        .tolerance(Tolerance::close(64.0, 64.0));
    kernel(spec, lower, reference).example_dtype(DType::S32)
}

/// The lowering of such a kernel.
pub(crate) fn accumulated(call: &Signature, facts: &DeviceFacts, how: FoldOp) -> Result<Lowering, SpecError> {
    reduced(
        call,
        facts,
        &axes(call)?,
        &Reduction { how, dtype: call.output.dtype.register(), finish: Expr::input("r") },
    )
}

/// The same in plain Rust, from `start` on: floats in f64, integers in 64 bits that wrap.
pub(crate) fn accumulated_reference(
    call: &Reference,
    start: i64,
    floats: fn(f64, f64) -> f64,
    integers: fn(i64, i64) -> i64,
) -> Data {
    let dtype = call.dtype();
    reference(call, |line| {
        if dtype.is_float() {
            let values = line.iter().map(|value| value.as_f64());
            return Scalar::from_f64(dtype, values.fold(start as f64, floats));
        }
        let values = line.iter().map(|value| cast(*value, dtype).as_i64());
        Scalar::from_i64(dtype, values.fold(start, integers))
    })
}

/// The lowering of a kernel that picks one of the elements.
pub(crate) fn picked(call: &Signature, facts: &DeviceFacts, how: FoldOp) -> Result<Lowering, SpecError> {
    let dtype = call.output.dtype.register();
    reduced(call, facts, &axes(call)?, &Reduction { how, dtype, finish: Expr::input("r") })
}

/// The same in plain Rust: `op` gives one of two elements.
pub(crate) fn picked_reference(call: &Reference, op: BinaryOp) -> Data {
    reference(call, |line| {
        let first = line.first().copied().unwrap_or(Scalar::U8(0));
        line.iter().skip(1).fold(first, |best, value| apply_binary(op, best, *value))
    })
}

/// A kernel that says where an element is.
pub(crate) fn locating(name: &str, summary: &str, lower: LowerFn, reference: ReferenceFn) -> Kernel {
    let positions = OutputDType::OneOf(&[DType::S32, DType::U32, DType::S64]);
    let spec = spec(name, summary, NUMBERS, positions, shapes::without_full_axes);
    kernel(spec, lower, reference).example_dtype(DType::S32)
}

/// The lowering of such a kernel.
pub(crate) fn located(call: &Signature, facts: &DeviceFacts, how: FoldOp) -> Result<Lowering, SpecError> {
    let dtype = call.inputs[0].dtype.register();
    let finish = Expr::input("r").cast(call.output.dtype);
    reduced(call, facts, &axes(call)?, &Reduction { how, dtype, finish })
}

/// The same in plain Rust: the first of those that nothing `beats`. NaN loses to everything.
pub(crate) fn located_reference(call: &Reference, beats: CompareOp) -> Data {
    reference(call, |line| {
        let mut best = 0;
        for (at, value) in line.iter().enumerate() {
            let replaces = line[best].as_f64().is_nan() && !value.as_f64().is_nan();
            if compare(beats, *value, line[best]) || replaces {
                best = at;
            }
        }
        Scalar::from_i64(call.dtype(), best as i64)
    })
}

/// The axes that a call of such a kernel reduces.
pub(crate) fn axes(call: &Signature) -> Result<Vec<usize>, ShapeProblem> {
    let rank = call.inputs[0].shape.rank();
    shapes::axes("axes", call.params.ints(AXES), rank)
}

/// What a plain fold of each line gives, for references: `f` gets the values of a line in order.
pub(crate) fn reference(call: &Reference, f: impl Fn(&[Scalar]) -> Scalar) -> Data {
    let lines = call.lines(&axes(call.signature).unwrap_or_default());
    let value = |at: &usize| call.inputs[0].get(*at).unwrap_or(Scalar::U8(0));
    let fold = |line: &Vec<usize>| f(&line.iter().map(value).collect::<Vec<_>>());
    Data::collect(call.dtype(), lines.iter().map(fold))
}

/// What is folded, and how.
pub(crate) struct Reduction {
    /// How values become one.
    pub(crate) how: FoldOp,
    /// The type they have then.
    pub(crate) dtype: DType,
    /// What is made of the result `r`.
    pub(crate) finish: Expr,
}

/// Lines shorter than this are never cut.
const SHORTEST_PIECE: usize = 4096;
/// Pieces begin at multiples of this.
const STEP: usize = 64;

/// Folds the input over `axes` and stores what the finish makes of each result.
pub(crate) fn reduced(
    call: &Signature,
    facts: &DeviceFacts,
    axes: &[usize],
    reduction: &Reduction,
) -> Result<Lowering, SpecError> {
    let mut lowering = Lowering::new();
    let input = &call.inputs[0];
    let mut groups = groups(input.shape.dims(), axes);
    let mut source = (Place::Input(0), input.dtype);
    let folded = groups.iter().filter(|group| group.1).count();
    if reduction.how.is_position() && folded > 1 {
        // One position over several axes: they are brought together first.
        let kept = (0..input.shape.rank()).filter(|axis| !axes.contains(axis));
        let order: Vec<usize> = kept.chain(axes.iter().copied()).collect();
        let (view, shape) = View::permuted(input.shape.dims(), &order);
        let together = lowering.transient(TensorType::new(input.dtype, shape));
        lowering.step(view.task(input.dtype, input.shape.len(), call, facts)?, [source.0], together);
        source.0 = together;
        let size = |wanted: bool| groups.iter().filter(|group| group.1 == wanted).map(|group| group.0).product();
        groups = vec![(size(false), false), (size(true), true)];
    }
    if folded == 0 {
        groups.push((1, true));
    }
    let position_type = if reduction.how.is_position() { DType::S32 } else { reduction.dtype };
    while let Some(at) = groups.iter().rposition(|group| group.1) {
        let outer = groups[..at].iter().map(|group| group.0).product();
        let inner = groups[at + 1..].iter().map(|group| group.0).product();
        let length = groups[at].0;
        groups.remove(at);
        let last = !groups.iter().any(|group| group.1);
        let finish = if last { Some(&reduction.finish) } else { None };
        let writes = match last {
            true => Place::Output,
            false => lowering.transient(TensorType::new(reduction.dtype, [outer * inner])),
        };
        let line = Line { outer, length, inner };
        fold(&mut lowering, call, facts, source, writes, line, reduction, finish)?;
        source = (writes, position_type);
    }
    Ok(lowering)
}

/// Folds a transient of the reduction's own type, and writes the output.
pub(crate) fn summed(
    lowering: &mut Lowering,
    call: &Signature,
    facts: &DeviceFacts,
    source: Place,
    line: Line,
    reduction: &Reduction,
) -> Result<(), SpecError> {
    let source = (source, reduction.dtype);
    fold(lowering, call, facts, source, Place::Output, line, reduction, Some(&reduction.finish))
}

/// The sizes of a fold.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// How many blocks there are.
    pub outer: usize,
    /// How many elements a line has.
    pub length: usize,
    /// How many lines lie side by side.
    pub inner: usize,
}

impl Line {
    /// The lines along one axis, which there must be.
    pub fn along(dims: &[usize], axis: usize) -> Line {
        Line { outer: dims[..axis].iter().product(), length: dims[axis], inner: dims[axis + 1..].iter().product() }
    }

    /// A fold of whole lines.
    pub fn fold(self, phases: Vec<Phase>, finish: Finish) -> Fold {
        Fold { outer: self.outer, length: self.length, inner: self.inner, piece: self.length.max(1), phases, finish }
    }
}

/// How long the pieces of a line are if it is cut into at most `wanted`, none of which is too short for whole vectors.
fn piece(length: usize, wanted: usize) -> usize {
    let first = length.div_ceil(wanted).max(SHORTEST_PIECE).next_multiple_of(STEP);
    let is_whole = |piece: &usize| length.is_multiple_of(*piece) || length % piece >= STEP;
    (first..).step_by(STEP).find(is_whole).unwrap_or(first)
}

#[expect(clippy::too_many_arguments, reason = "one step of `reduced`")]
fn fold(
    lowering: &mut Lowering,
    call: &Signature,
    facts: &DeviceFacts,
    source: (Place, DType),
    writes: Place,
    line: Line,
    reduction: &Reduction,
    finish: Option<&Expr>,
) -> Result<(), SpecError> {
    let Reduction { how, dtype, .. } = *reduction;
    let value = Expr::input("x").cast(dtype);
    let load = Fragment::build(&value, &[Argument::own("x", 0, source.1)], dtype, &call.params)?;
    let result_type = if how.is_position() { DType::S32 } else { dtype };
    let plain = Expr::input("r");
    let once = |expr: &Expr, to: DType| -> Result<Finish, SpecError> {
        let argument = Argument::value("r", 0, result_type);
        Ok(Finish::Once(Fragment::build(expr, &[argument], to, &call.params)?))
    };
    let phases = vec![Phase { how, of: load }];
    // Enough lines for every unit to have one, by cutting long ones.
    let wanted = if facts.cpu { 4 * facts.units_per_cube as usize } else { 256 };
    let whole = line.fold(phases.clone(), once(&plain, result_type)?);
    let side_by_side = if line.inner > 1 { line.inner.div_ceil(whole.width(facts)) } else { 1 };
    let lines = line.outer * side_by_side;
    if lines < wanted && line.length >= 2 * SHORTEST_PIECE {
        let cut = Fold { piece: piece(line.length, wanted), ..whole };
        let pieces = cut.pieces();
        if how.is_position() {
            return locate(lowering, call, facts, source, writes, line, cut, reduction);
        }
        let between = lowering.transient(TensorType::new(dtype, [line.outer * pieces * line.inner]));
        lowering.step(Task::Fold(cut), [source.0], between);
        let rest = Line { length: pieces, ..line };
        return fold(lowering, call, facts, (between, dtype), writes, rest, reduction, finish);
    }
    let output = match finish {
        Some(_) => call.output.dtype,
        None => result_type,
    };
    let expr = finish.unwrap_or(&plain);
    let written = if line.inner == 1 { 1 } else { whole.width(facts) };
    if written < facts.per_word(output) {
        // Parts of words cannot be written there: as whole numbers first, then words of them.
        let wide = output.register();
        let shape = Shape::new([line.outer * line.inner]);
        let numbers = lowering.transient(TensorType::new(wide, shape.clone()));
        lowering.step(Task::Fold(line.fold(phases, once(expr, wide)?)), [source.0], numbers);
        let named = [("r", TensorType::new(wide, shape.clone()))];
        lowering.step(map(&plain, &named, TensorType::new(output, shape), call)?, [numbers], writes);
        return Ok(());
    }
    lowering.step(Task::Fold(line.fold(phases, once(expr, output)?)), [source.0], writes);
    Ok(())
}

/// One position in each line, of which `cut` finds one in each piece: what is there is compared once more.
#[expect(clippy::too_many_arguments, reason = "one step of `reduced`")]
fn locate(
    lowering: &mut Lowering,
    call: &Signature,
    facts: &DeviceFacts,
    (source, from): (Place, DType),
    writes: Place,
    Line { outer, length, inner }: Line,
    cut: Fold,
    reduction: &Reduction,
) -> Result<(), SpecError> {
    let dtype = reduction.dtype;
    let (pieces, all) = (cut.pieces(), TensorType::new(from, [outer * length * inner]));
    let found = TensorType::new(DType::S32, [outer, cut.pieces(), inner]);
    let positions = lowering.transient(found.clone());
    lowering.step(Task::Fold(cut), [source], positions);

    let place = |block: Expr, of: usize, at: Expr, side: Expr| (block * Expr::size(of) + at) * Expr::size(inner) + side;
    let at = place(Expr::coord(0), length, Expr::input("at"), Expr::coord(2));
    let value = Expr::input("x").gather(at).cast(dtype);
    let values = TensorType::new(dtype, [outer, pieces, inner]);
    let compared = lowering.transient(values.clone());
    let step = map(&value, &[("x", all), ("at", found.clone())], values, call)?;
    lowering.step(step, [source, positions], compared);

    let best = lowering.transient(TensorType::new(DType::S32, [outer, inner]));
    let line = Line { outer, length: pieces, inner };
    fold(lowering, call, facts, (compared, dtype), best, line, reduction, None)?;

    let at = place(Expr::coord(0), pieces, Expr::input("best"), Expr::coord(1));
    let finish = reduction.finish.with_inputs(&[("r", Expr::input("at").gather(at))]);
    let named = [("at", found), ("best", TensorType::new(DType::S32, [outer, inner]))];
    let step = map(&finish, &named, TensorType::new(call.output.dtype, [outer, inner]), call)?;
    lowering.step(step, [positions, best], writes);
    Ok(())
}

/// Neighbouring axes that are all kept or all folded, as one: its size, and whether it is folded.
fn groups(dims: &[usize], axes: &[usize]) -> Vec<(usize, bool)> {
    let mut groups: Vec<(usize, bool)> = Vec::new();
    for (axis, size) in dims.iter().enumerate() {
        let folded = axes.contains(&axis);
        match groups.last_mut() {
            Some(last) if last.1 == folded => last.0 *= size,
            _ => groups.push((*size, folded)),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_never_too_short_for_vectors() {
        for wanted in [8, 256] {
            for length in (8192..40_000).step_by(7).chain([1 << 20, (1 << 24) + 1, 16_777_259]) {
                let piece = piece(length, wanted);
                let last = length - (length.div_ceil(piece) - 1) * piece;
                assert!(
                    piece.is_multiple_of(STEP) && last >= STEP && length.div_ceil(piece) <= wanted,
                    "{length}: {piece}"
                );
            }
        }
    }

    #[test]
    fn neighbouring_axes_are_one_group() {
        assert_eq!(groups(&[2, 3, 4, 5], &[1, 2]), [(2, false), (12, true), (5, false)]);
        assert_eq!(groups(&[2, 3, 4], &[0, 2]), [(2, true), (3, false), (4, true)]);
        assert_eq!(groups(&[], &[]), []);
    }
}
