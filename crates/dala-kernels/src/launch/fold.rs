//! The launcher of folds: every reduction, `softmax`, norms.
//!
//! One unit folds one line, or as many lines side by side as a vector has lanes. Nothing is shared between units, so that
//! the same kernel runs where there are no barriers worth using; long lines are cut into pieces by whoever lowers.
//!
//! Where vectors begin at any element, lines have any length: the first vector of a line overlaps the second, and only those of
//! its lanes count that the second does not have. Side by side, the last vector overlaps the one before and writes the same.

use cubecl::prelude::*;
use dala_plan::DeviceFacts;
use dala_plan::work::{Finish, Fold, FoldOp, TaskKind};
use dala_spec::Scalar;
use dala_spec::expr::{BinaryOp, CompareOp, LogicOp, Ty};

use super::{Bound, Geometry, LaunchRefused, Launcher, check_elements};
use crate::device::args::{Buffers, Scalars};
use crate::device::arithmetic::{Generator, Lanes};
use crate::device::emit::Layout;
use crate::device::fragment::{
    CompileCount, FragmentCode, Values, Whereabouts, count_compilation, fragment_store, fragment_value,
};

/// What shapes the code of a fold.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
struct FoldCode {
    phases: Vec<(FoldOp, FragmentCode)>,
    finish: FragmentCode,
    /// Whether the finish writes one element for each of a line's, not one for the line.
    each: bool,
    /// Whether the lanes of a vector are neighbours on one line, not on neighbouring lines.
    along: bool,
    /// The type the values have.
    ty: Ty,
    /// How the finish is laid out.
    finish_layout: Layout,
}

fn items(fold: &Fold, width: usize) -> usize {
    fold.outer * fold.pieces() * sides(fold, width)
}

/// How many vectors lie side by side.
fn sides(fold: &Fold, width: usize) -> usize {
    if fold.inner > 1 { fold.inner.div_ceil(width) } else { 1 }
}

impl Launcher for Fold {
    fn geometry(&self, facts: &DeviceFacts) -> Geometry {
        let width = self.width(facts);
        Geometry::spread(items(self, width), width, facts)
    }

    fn launch(&self, bound: &Bound) -> Result<(), LaunchRefused> {
        let geometry = bound.launch.geometry;
        let (width, along) = (geometry.width, self.inner == 1);
        let items = items(self, width);
        geometry.check(items)?;
        let (finish, each) = (self.finish.fragment(), matches!(self.finish, Finish::Each(_)));
        let layout = bound.layout_of_lines(width);
        let finish_layout = if each || !along { layout } else { Layout { width: 1, ..layout } };
        let fragments = self.fragments();
        let elements = self.outer * self.length * self.inner;
        check_elements(elements)?;
        let column = if along { self.length } else { self.inner };
        let reads =
            bound.fragment_reads(&fragments, layout, 0, layout.positions(elements), layout.positions(column))?;
        let written = if each { elements } else { self.outer * self.pieces() * self.inner };
        let binding = finish_layout.binding(finish.program.outputs()[0], 1);
        let output = bound.output(0, binding.elem, binding.width, finish_layout.positions(written))?;
        let mut parts = FragmentCode::list(fragments);
        let (Some(finish), Some(ty)) = (parts.pop(), parts.first().map(|part| Ty::of(part.program().outputs()[0])))
        else {
            return Err(LaunchRefused("a fold without phases".to_owned()));
        };
        let phases = self.phases.iter().map(|phase| phase.how).zip(parts).collect();
        let code = FoldCode { phases, finish, each, along, ty, finish_layout };
        macro_rules! launch_with {
            ($type:ty) => {
                // SAFETY: every vector ends inside of its line, or its row of lines, and the buffers were checked to hold them all.
                unsafe {
                    fold_lines::launch_unchecked::<$type>(
                        bound.client,
                        geometry.count(),
                        CubeDim::new_1d(geometry.units),
                        width,
                        reads,
                        vec![output],
                        bound.scalars(),
                        self.length as u32,
                        self.inner as u32,
                        self.piece.min(self.length.max(1)) as u32,
                        self.pieces() as u32,
                        sides(self, width) as u32,
                        items as u32,
                        geometry.steps,
                        code,
                        layout,
                        bound.compiled.clone(),
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
            Ty::U64 => launch_with!(u64),
            Ty::Bool => return Err(LaunchRefused("truth values are not folded".to_owned())),
        }
        Ok(())
    }
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

/// `value` in its first lanes, as many as `count`, and `other` in the rest.
#[cube]
fn first_lanes<A: Numeric, N: Size>(
    value: Vector<A, N>,
    other: Vector<A, N>,
    count: u32,
    #[comptime] width: usize,
) -> Vector<A, N> {
    let place = places::<N>(0u32, true, width);
    intrinsic!(|scope| {
        let make = Generator { scope, width };
        let one = Generator { scope, width: 1 };
        let count = one.cast(Lanes { value: count.read_value(scope), ty: Ty::U32 }, Ty::S32);
        let counts = make.compare(CompareOp::Lt, Ty::S32, place.read_value(scope), make.broadcast(count));
        make.select(counts, value.read_value(scope), other.read_value(scope)).into()
    })
}

/// A line, or lines side by side, as a unit goes along.
#[derive(CubeType, Clone, Copy)]
struct Walk {
    /// Its first element.
    base: u32,
    /// Where it is along the last axis.
    column: u32,
    /// How far apart its elements are.
    inner: u32,
    /// Some count that is at least one.
    some: u32,
}

/// Where the element of a line is that is `further` elements away from its first.
#[cube]
fn whereabouts(walk: &Walk, further: u32, #[comptime] along: bool, #[comptime] layout: Layout) -> Whereabouts {
    let unit = comptime!(layout.unit() as u32);
    let mut column = walk.column;
    if comptime!(along) {
        column += further;
    }
    Whereabouts {
        position: ((walk.base + further * walk.inner) / unit) as usize,
        column: (column / unit) as usize,
        some: walk.some,
    }
}

/// Folds lines of `length` elements that are `inner` elements apart.
#[cube(launch_unchecked)]
#[expect(clippy::too_many_arguments, reason = "the arguments of a kernel")]
fn fold_lines<A: Numeric, N: Size>(
    reads: &Buffers,
    outputs: &mut Buffers,
    params: &Scalars,
    length: u32,
    inner: u32,
    piece: u32,
    pieces: u32,
    sides: u32,
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
    let lanes = comptime!(layout.width as u32);
    // Elements of a line that one vector holds.
    let pace = comptime!(if code.along { layout.width as u32 } else { 1u32 });
    // Elements that a position of the finish counts.
    let finish_unit = comptime!(code.finish_layout.unit() as u32);
    let first = ABSOLUTE_POS as u32 * steps;
    let end = min(first + steps, items);
    for item in first..end {
        // Side by side, then piece by piece, then block by block.
        let side = item % sides;
        let line = item / sides;
        let number = line % pieces;
        let block = line / pieces;
        let begin = number * piece;
        let stop = min(begin + piece, length);
        let count = stop - begin;
        let mut column = begin;
        let mut base = (block * length + begin) * inner;
        if comptime!(!along) {
            column = min(side * lanes, inner - lanes);
            base += column;
        }
        let walk = Walk { base, column, inner, some: items };
        // The elements that count of the first vector, and how many vectors follow.
        let mut head = count % pace;
        head = select(head == 0u32, comptime!(pace), head);
        let more = (max(count, head) - head) / pace;

        // What later phases see, in all lanes, and what the line comes to.
        let mut results = Values::new();
        let mut finals = Values::new();
        #[unroll]
        for phase in 0..comptime!(code.phases.len()) {
            let how = comptime!(code.phases[phase].0);
            let part = comptime!(code.phases[phase].1.clone());
            let at = whereabouts(&walk, 0u32, along, layout);
            if comptime!(how.is_position()) {
                let mut best =
                    fragment_value::<Vector<A, N>>(reads, params, &results, at, comptime!(part.clone()), layout);
                let mut place = places::<N>(begin, along, width);
                for i in 0..more {
                    let along_line = head + i * pace;
                    let at = whereabouts(&walk, along_line, along, layout);
                    let value =
                        fragment_value::<Vector<A, N>>(reads, params, &results, at, comptime!(part.clone()), layout);
                    let here = places::<N>(begin + along_line, along, width);
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
                // A line without elements has a sum and a product.
                let mut value = start_of::<A, N>(how);
                if count > 0u32 {
                    value =
                        fragment_value::<Vector<A, N>>(reads, params, &results, at, comptime!(part.clone()), layout);
                    // The largest and the smallest do not mind to be met twice.
                    if comptime!(along && layout.free && width > 1 && matches!(how, FoldOp::Sum | FoldOp::Product)) {
                        value = first_lanes::<A, N>(value, start_of::<A, N>(how), head, width);
                    }
                }
                for i in 0..more {
                    let along_line = head + i * pace;
                    let at = whereabouts(&walk, along_line, along, layout);
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
            for i in 0..select(count == 0u32, 0u32, more + 1u32) {
                // The first vector begins with the line, the others where the one before ends.
                let along_line = max(head + i * pace, comptime!(pace)) - pace;
                let at = whereabouts(&walk, along_line, along, layout);
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
            let mut own = 0u32;
            if comptime!(!along) {
                own = column;
            }
            let at = Whereabouts {
                position: ((line * inner + own) / finish_unit) as usize,
                column: (own / finish_unit) as usize,
                some: items,
            };
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
