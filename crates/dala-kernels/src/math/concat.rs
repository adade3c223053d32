//! Buffers one after the other along an axis. All other axes are equal.

use dala_plan::work::StridedCopy;
use dala_plan::{DeviceFacts, Lowering, Place, Task};
use dala_spec::expr::CompareOp;
use dala_spec::{
    Class, DType, Data, Expr, KernelSpec, NUMBERS, OutputDType, ParamKind, Shape, ShapeCall, ShapeProblem, Signature,
    SpecError, TensorType, param,
};

use crate::keys::AXIS;
use crate::lower::view::word_of;
use crate::lower::{map, shapes};
use crate::{Kernel, Reference};

/// The most buffers in one call.
const MOST: usize = 32;

/// The most that one program chooses between.
const JOINED: usize = 8;

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::new("concat", Class::View)
        .summary("Buffers one after the other along an axis")
        .input("x", NUMBERS)
        .repeat_last(MOST)
        .computed("the inputs', with their sizes along the axis summed", OutputDType::Inputs, shape)
        .param(param(AXIS, ParamKind::Int).default(0).summary("the axis, counted from the end if negative"));
    Kernel::lowered(spec, lower)
        .example(&[&[3, 4], &[3, 2]], &[3, 6])
        .example_params(|| [("axis", 1)].into())
        .reference(reference)
}

fn shape(call: &ShapeCall) -> Result<Shape, ShapeProblem> {
    let mut dims = call.inputs[0].shape.dims().to_vec();
    let axis = shapes::axis("axis", call.params.int(AXIS), dims.len())?;
    for (index, input) in call.inputs.iter().enumerate().skip(1) {
        let own = input.shape.dims();
        let fits = own.len() == dims.len() && (0..dims.len()).all(|other| other == axis || own[other] == dims[other]);
        if !fits {
            let wanted = format!("{}, but for axis {axis}", call.inputs[0].shape);
            return Err(ShapeProblem::Input(index, wanted));
        }
        dims[axis] = dims[axis].saturating_add(own[axis]);
    }
    Ok(Shape::new(dims))
}

/// How many elements of each input lie together, between those of the others.
fn runs(call: &Signature) -> Result<Vec<usize>, ShapeProblem> {
    let rank = call.output.shape.rank();
    let axis = shapes::axis("axis", call.params.int(AXIS), rank)?;
    Ok(call.inputs.iter().map(|input| input.shape.dims()[axis..].iter().product()).collect())
}

fn lower(call: &Signature, facts: &DeviceFacts) -> Result<Lowering, SpecError> {
    let (mut lowering, dtype) = (Lowering::new(), call.output.dtype);
    // Inputs without elements take no part.
    let used: Vec<usize> = (0..call.inputs.len()).filter(|index| !call.inputs[*index].shape.is_empty()).collect();
    let runs = runs(call)?;
    // Bits are moved, whatever they mean: as words where runs allow it.
    let bytes = used.iter().map(|index| runs[*index] * dtype.size());
    let word = word_of(bytes.clone().fold(4, |word, bytes| word | bytes));
    let mut parts: Vec<(Place, usize)> =
        used.iter().map(|index| Place::Input(*index)).zip(bytes.map(|bytes| bytes / word.size())).collect();
    let together: usize = parts.iter().map(|(_, run)| run).sum();
    if together == 0 {
        return Ok(lowering);
    }
    let blocks = call.output.shape.len() * dtype.size() / word.size() / together;
    if StridedCopy::fits(word.size(), facts) {
        let mut to = 0;
        for (place, run) in parts {
            let part = StridedCopy {
                word: word.size(),
                axes: [1, 1, blocks],
                strides: [0, 0, run as i64],
                columns: run,
                column_stride: 1,
                from: 0,
                to,
                row_stride: together,
                sizes: (blocks * run, blocks * together),
            };
            lowering.step(Task::StridedCopy(part), [place], Place::Output);
            to += run;
        }
        return Ok(lowering);
    }
    // Where a device binds fewer buffers, some are joined before.
    let bound = (facts.max_bindings - 1).min(JOINED);
    while parts.len() > bound {
        let mut groups = Vec::new();
        for group in parts.chunks(bound) {
            let run = group.iter().map(|(_, run)| run).sum();
            let joined = lowering.transient(TensorType::new(word, [blocks, run]));
            join(&mut lowering, call, word, blocks, group, joined)?;
            groups.push((joined, run));
        }
        parts = groups;
    }
    join(&mut lowering, call, word, blocks, &parts, Place::Output)?;
    Ok(lowering)
}

/// Joins runs of words: in each block, one of each part.
fn join(
    lowering: &mut Lowering,
    call: &Signature,
    word: DType,
    blocks: usize,
    parts: &[(Place, usize)],
    writes: Place,
) -> Result<(), SpecError> {
    let names: Vec<String> = (0..parts.len()).map(|number| format!("x{number}")).collect();
    let (row, column) = (Expr::coord(0), Expr::coord(1));
    let together: usize = parts.iter().map(|(_, run)| run).sum();
    let mut end = together;
    let mut expr: Option<Expr> = None;
    for (name, (_, run)) in names.iter().zip(parts).rev() {
        let start = end - run;
        let at = row.clone() * Expr::size(*run) + (column.clone() - Expr::size(start));
        let own = Expr::input(name).gather(at);
        expr = Some(match expr {
            None => own,
            Some(later) => Expr::select(column.clone().compare(CompareOp::Lt, Expr::size(end)), own, later),
        });
        end = start;
    }
    let Some(expr) = expr else { return Ok(()) };
    let named = names.iter().zip(parts).map(|(name, (_, run))| (name.as_str(), TensorType::new(word, [blocks * run])));
    let task = map(&expr, &named.collect::<Vec<_>>(), TensorType::new(word, [blocks, together]), call)?;
    lowering.step(task, parts.iter().map(|(place, _)| *place).collect::<Vec<_>>(), writes);
    Ok(())
}

fn reference(call: &Reference) -> Data {
    let runs = runs(call.signature).unwrap_or_default();
    let together: usize = runs.iter().sum();
    call.moved(|index| {
        let (block, mut at) = (index / together, index % together);
        let mut input = 0;
        while at >= runs[input] {
            at -= runs[input];
            input += 1;
        }
        (input, block * runs[input] + at)
    })
}
