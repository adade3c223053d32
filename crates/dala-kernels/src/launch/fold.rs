//! The launcher of folds: every reduction, `softmax`, norms.
//!
//! One unit folds one line, or as many lines side by side as a vector has lanes. Nothing is shared between units, so that
//! the same kernel runs where there are no barriers worth using; long lines are cut into pieces by whoever lowers.

use cubecl::client::Client;
use cubecl::prelude::*;
use dala_spec::expr::{BinaryOp, CompareOp, LogicOp, Ty};
use dala_spec::work::{Finish, Fold, FoldOp, Fragment};
use dala_spec::{DType, DeviceFacts, Scalar, Support};

use super::{Bound, Geometry, LaunchRefused, dividing_width};
use crate::device::args::{Buffers, Scalars};
use crate::device::arithmetic::{Generator, Lanes};
use crate::device::emit::Layout;
use crate::device::fragment::{
    CompileCount, Part, Values, Whereabouts, count_compilation, fragment_store, fragment_value,
};

/// What shapes the code of a fold.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
struct FoldCode {
    phases: Vec<(FoldOp, Part)>,
    finish: Part,
    /// Whether the finish writes one element for each of a line's, not one for the line.
    each: bool,
    /// Whether the lanes of a vector are neighbours on one line, not on neighbouring lines.
    along: bool,
    /// The type the values have.
    ty: Ty,
    /// How the finish is laid out.
    finish_layout: Layout,
}

/// How many elements a unit takes at a time.
pub fn width(fold: &Fold, facts: &DeviceFacts) -> usize {
    let (Finish::Each(finish) | Finish::Once(finish)) = &fold.finish;
    let mut programs = fold.phases.iter().map(|phase| &phase.of).chain([finish]).map(|fragment| &fragment.program);
    let bytes = facts.u8 == Support::Packed
        && programs.any(|program| program.inputs().iter().any(|input| input.dtype == DType::U8));
    match vector_width(fold, facts) {
        // Parts of a word are taken one by one.
        2 if bytes => 1,
        width => width,
    }
}

fn vector_width(fold: &Fold, facts: &DeviceFacts) -> usize {
    let max = if facts.cpu { 16 } else { 4 };
    if fold.inner > 1 {
        return dividing_width(fold.inner, max);
    }
    // A line must start and end, and each of its pieces too, where a vector does.
    let length = dividing_width(fold.length, max);
    if fold.piece < fold.length { length.min(dividing_width(fold.piece, max)) } else { length }
}

/// Whether what is written can be: bytes that travel four to a word are written four at a time.
pub(super) fn launches(fold: &Fold, facts: &DeviceFacts) -> bool {
    let (finish, each) = match &fold.finish {
        Finish::Each(finish) => (finish, true),
        Finish::Once(finish) => (finish, false),
    };
    let written = if each || fold.inner > 1 { width(fold, facts) } else { 1 };
    let bytes = finish.program.outputs().first() == Some(&DType::U8) && facts.u8 == Support::Packed;
    !bytes || written >= 4
}

fn items(fold: &Fold, width: usize) -> usize {
    let side_by_side = if fold.inner > 1 { fold.inner / width } else { 1 };
    fold.outer * fold.pieces() * side_by_side
}

pub(super) fn geometry(fold: &Fold, facts: &DeviceFacts) -> Geometry {
    let width = width(fold, facts);
    Geometry::spread(items(fold, width), width, facts)
}

pub(super) fn launch(
    client: &Client,
    compiled: &CompileCount,
    fold: &Fold,
    geometry: Geometry,
    bound: &Bound,
) -> Result<(), LaunchRefused> {
    let (width, along) = (geometry.width, fold.inner == 1);
    let items = items(fold, width);
    geometry.check(items)?;
    let (finish, each) = match &fold.finish {
        Finish::Each(finish) => (finish, true),
        Finish::Once(finish) => (finish, false),
    };
    let layout = bound.layout(width);
    let finish_layout = if each || !along { layout } else { bound.layout(1) };
    let fragments: Vec<&Fragment> = fold.phases.iter().map(|phase| &phase.of).chain([finish]).collect();
    let elements = fold.outer * fold.length * fold.inner;
    let column = if along { fold.length } else { fold.inner } / width;
    let reads = bound.fragment_reads(&fragments, layout, 0, elements / width, column)?;
    let written = if each { elements } else { fold.outer * fold.pieces() * fold.inner };
    let binding = finish_layout.binding(finish.program.outputs()[0], 1);
    let output = bound.output(0, binding.elem, binding.width, written / finish_layout.width)?;
    let mut parts = Part::list(fragments);
    let (Some(finish), Some(ty)) = (parts.pop(), parts.first().map(|part| Ty::of(part.program().outputs()[0]))) else {
        return Err(LaunchRefused("a fold without phases".to_owned()));
    };
    let phases = fold.phases.iter().map(|phase| phase.how).zip(parts).collect();
    let code = FoldCode { phases, finish, each, along, ty, finish_layout };
    macro_rules! launch_with {
        ($type:ty) => {
            // SAFETY: every position is below `items` times the length of a line, which the buffers were checked to hold.
            unsafe {
                fold_lines::launch_unchecked::<$type>(
                    client,
                    geometry.count(),
                    CubeDim::new_1d(geometry.units),
                    width,
                    reads,
                    vec![output],
                    bound.scalars(),
                    fold.length as u32,
                    if along { 1 } else { fold.inner / width } as u32,
                    fold.piece.min(fold.length.max(1)) as u32,
                    fold.pieces() as u32,
                    items as u32,
                    geometry.steps,
                    code,
                    layout,
                    compiled.clone(),
                )
            }
        };
    }
    match ty {
        Ty::F32 => launch_with!(f32),
        Ty::F64 => launch_with!(f64),
        Ty::S32 => launch_with!(i32),
        Ty::S64 => launch_with!(i64),
        Ty::U32 => launch_with!(u32),
        Ty::Bool => return Err(LaunchRefused("truth values are not folded".to_owned())),
    }
    Ok(())
}

/// Two values as one.
#[cube]
fn combine<T: CubePrimitive>(a: T, b: T, #[comptime] how: FoldOp, #[comptime] ty: Ty, #[comptime] width: usize) -> T {
    intrinsic!(|scope| {
        let op = match how {
            FoldOp::Sum => BinaryOp::Add,
            FoldOp::Product => BinaryOp::Mul,
            FoldOp::Max | FoldOp::ArgMax => BinaryOp::Max,
            FoldOp::Min | FoldOp::ArgMin => BinaryOp::Min,
        };
        let (a, b) = (a.read_value(scope), b.read_value(scope));
        Generator { scope, width }.binary(op, ty, a, b).into()
    })
}

/// `then` where the first pair of value and position is better than the second, `other` elsewhere.
#[cube]
fn better<T: CubePrimitive, V: CubePrimitive, P: CubePrimitive>(
    value: V,
    place: P,
    best: V,
    best_place: P,
    then: T,
    other: T,
    #[comptime] how: FoldOp,
    #[comptime] ty: Ty,
    #[comptime] width: usize,
) -> T {
    intrinsic!(|scope| {
        let make = Generator { scope, width };
        let (value, best) = (value.read_value(scope), best.read_value(scope));
        let beats = if how == FoldOp::ArgMax { CompareOp::Gt } else { CompareOp::Lt };
        let beats = make.compare(beats, ty, value, best);
        let equal = make.compare(CompareOp::Eq, ty, value, best);
        let earlier = make.compare(CompareOp::Lt, Ty::S32, place.read_value(scope), best_place.read_value(scope));
        let first = make.logic(LogicOp::And, equal, earlier);
        let mut better = make.logic(LogicOp::Or, beats, first);
        if ty.is_float() {
            // NaN loses to everything, wherever it was found.
            let number = make.not(make.is_nan(value));
            let replaces = make.logic(LogicOp::And, make.is_nan(best), number);
            better = make.logic(LogicOp::Or, better, replaces);
        }
        make.select(better, then.read_value(scope), other.read_value(scope)).into()
    })
}

/// The positions of a vector's lanes: `first`, and onwards if they are neighbours on a line.
#[cube]
fn places<N: Size>(first: u32, #[comptime] along: bool, #[comptime] width: usize) -> Vector<i32, N> {
    intrinsic!(|scope| {
        let make = Generator { scope, width };
        let one = Generator { scope, width: 1 };
        let first = one.cast(Lanes { value: first.read_value(scope), ty: Ty::U32 }, Ty::S32);
        let first = make.broadcast(first);
        if !along || width == 1 {
            return first.into();
        }
        let lanes: Vec<_> = (0..width).map(|lane| one.constant(Scalar::S32(lane as i32))).collect();
        make.binary(BinaryOp::Add, Ty::S32, first, make.construct(&lanes)).into()
    })
}

#[cube]
fn start_of<A: Numeric, N: Size>(#[comptime] how: FoldOp) -> Vector<A, N> {
    let start = if comptime!(how == FoldOp::Product) { A::from_int(1) } else { A::from_int(0) };
    Vector::new(start)
}

/// Folds lines of `length` vectors that are `stride` vectors apart.
#[cube(launch_unchecked)]
#[expect(clippy::too_many_arguments, reason = "the arguments of a kernel")]
fn fold_lines<A: Numeric, N: Size>(
    reads: &Buffers,
    outputs: &mut Buffers,
    params: &Scalars,
    length: u32,
    stride: u32,
    piece: u32,
    pieces: u32,
    items: u32,
    steps: u32,
    #[comptime] code: FoldCode,
    #[comptime] layout: Layout,
    #[comptime] compiled: CompileCount,
) {
    count_compilation(compiled);
    let along = comptime!(code.along);
    let width = comptime!(layout.width);
    let ty = comptime!(code.ty);
    let lanes = comptime!(if code.along { layout.width as u32 } else { 1u32 });
    let first = ABSOLUTE_POS as u32 * steps;
    let end = min(first + steps, items);
    for item in first..end {
        // Side by side, then piece by piece, then block by block.
        let side = item % stride;
        let line = item / stride;
        let number = line % pieces;
        let block = line / pieces;
        let begin = number * piece;
        let stop = min(begin + piece, length);
        let count = (stop - begin) / lanes;
        let base = block * (length / lanes) * stride + (begin / lanes) * stride + side;

        // What later phases see, in all lanes, and what the line comes to.
        let mut results = Values::new();
        let mut finals = Values::new();
        #[unroll]
        for phase in 0..comptime!(code.phases.len()) {
            let how = comptime!(code.phases[phase].0);
            let part = comptime!(code.phases[phase].1.clone());
            if comptime!(how.is_position()) {
                let at = Whereabouts { position: base as usize, column: 0usize, some: items };
                let mut best =
                    fragment_value::<Vector<A, N>>(reads, params, &results, at, comptime!(part.clone()), layout);
                let mut place = places::<N>(begin, along, width);
                for i in 1..count {
                    let at = Whereabouts { position: (base + i * stride) as usize, column: i as usize, some: items };
                    let value =
                        fragment_value::<Vector<A, N>>(reads, params, &results, at, comptime!(part.clone()), layout);
                    let here = places::<N>(begin + i * lanes, along, width);
                    let new_place = better::<Vector<i32, N>, Vector<A, N>, Vector<i32, N>>(
                        value, here, best, place, here, place, how, ty, width,
                    );
                    best = better::<Vector<A, N>, Vector<A, N>, Vector<i32, N>>(
                        value, here, best, place, value, best, how, ty, width,
                    );
                    place = new_place;
                }
                if comptime!(along) {
                    let mut top = best.extract(0usize);
                    let mut found = place.extract(0usize);
                    #[unroll]
                    for lane in 1..width {
                        let value = best.extract(lane);
                        let here = place.extract(lane);
                        let new_place = better::<i32, A, i32>(value, here, top, found, here, found, how, ty, 1usize);
                        top = better::<A, A, i32>(value, here, top, found, value, top, how, ty, 1usize);
                        found = new_place;
                    }
                    finals.push::<i32>(found);
                    results.push::<Vector<i32, N>>(Vector::new(found));
                } else {
                    finals.push::<Vector<i32, N>>(place);
                    results.push::<Vector<i32, N>>(place);
                }
            } else {
                // Sums and products start from nothing; the largest and the smallest from the first.
                let from_first = comptime!(matches!(how, FoldOp::Max | FoldOp::Min));
                let mut value = start_of::<A, N>(how);
                if comptime!(from_first) {
                    let at = Whereabouts { position: base as usize, column: 0usize, some: items };
                    value =
                        fragment_value::<Vector<A, N>>(reads, params, &results, at, comptime!(part.clone()), layout);
                }
                let begin_at = comptime!(if from_first { 1u32 } else { 0u32 });
                for i in begin_at..count {
                    let at = Whereabouts { position: (base + i * stride) as usize, column: i as usize, some: items };
                    let next =
                        fragment_value::<Vector<A, N>>(reads, params, &results, at, comptime!(part.clone()), layout);
                    value = combine::<Vector<A, N>>(value, next, how, ty, width);
                }
                if comptime!(along) {
                    let mut whole = value.extract(0usize);
                    #[unroll]
                    for lane in 1..width {
                        whole = combine::<A>(whole, value.extract(lane), how, ty, 1usize);
                    }
                    finals.push::<A>(whole);
                    results.push::<Vector<A, N>>(Vector::new(whole));
                } else {
                    finals.push::<Vector<A, N>>(value);
                    results.push::<Vector<A, N>>(value);
                }
            }
        }
        let finish = comptime!(code.finish.clone());
        if comptime!(code.each) {
            for i in 0..count {
                let at = Whereabouts { position: (base + i * stride) as usize, column: i as usize, some: items };
                fragment_store(
                    reads,
                    outputs,
                    params,
                    &results,
                    at,
                    comptime!(finish.clone()),
                    comptime!(code.finish_layout),
                );
            }
        } else {
            let at = Whereabouts { position: item as usize, column: side as usize, some: items };
            fragment_store(
                reads,
                outputs,
                params,
                &finals,
                at,
                comptime!(finish.clone()),
                comptime!(code.finish_layout),
            );
        }
    }
}
