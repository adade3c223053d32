//! The launcher of windows that become one pixel each, every channel by itself: convolutions of single channels, and pooling.
//!
//! A unit has a few channels of a run of pixels in one row. It keeps their weights in registers while it walks along.

use cubecl::prelude::*;
use dala_plan::DeviceFacts;
use dala_plan::work::{Pool, PoolOp};
use dala_spec::DType;
use dala_spec::expr::{BinaryOp, Ty};

use super::matmul::WindowCode;
use super::{Bound, Geometry, LaunchRefused, Launcher, settled};
use crate::device::args::{Buffers, Scalars};
use crate::device::arithmetic::Generator;
use crate::device::emit::Layout;
use crate::device::fragment::{CompileCount, FragmentCode, Values, Whereabouts, count_compilation, fragment_store};

/// Windows of more pixels are walked through by loops.
fn most_unrolled(facts: &DeviceFacts) -> usize {
    if facts.cpu { 25 } else { 9 }
}

/// How many windows inside a picture are computed together.
const GROUP: u32 = 4;

/// How many pixels of a row one piece of work has.
fn run(pool: &Pool, facts: &DeviceFacts) -> usize {
    if facts.cpu { pool.windows.to[1].max(1) } else { 4 }
}

fn items(pool: &Pool, facts: &DeviceFacts, width: usize) -> usize {
    let [rows, columns] = pool.windows.to;
    pool.batch * rows * columns.div_ceil(run(pool, facts)) * (pool.windows.channels / width)
}

/// What shapes the code.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
struct PoolCode {
    store: FragmentCode,
    op: PoolOp,
    windows: WindowCode,
    unrolled: bool,
    /// Whether neighbouring windows are computed together: on cores, which have the registers.
    grouped: bool,
    ty: Ty,
}

impl Launcher for Pool {
    fn geometry(&self, facts: &DeviceFacts) -> Geometry {
        let width = self.width(facts);
        Geometry::spread(items(self, facts, width), width, facts)
    }

    fn launch(&self, bound: &Bound) -> Result<(), LaunchRefused> {
        let geometry = bound.launch.geometry;
        let (facts, width, size, windows) = (bound.launch.facts, geometry.width, self.dtype.size(), &self.windows);
        if !windows.channels.is_multiple_of(width) || windows.is_empty() {
            return Err(LaunchRefused(format!("pixels of {} do not end where a vector does", windows.channels)));
        }
        let (items, run) = (items(self, facts, width), run(self, facts));
        geometry.check(items)?;
        let vectors = windows.channels / width;
        let x = bound.slice(0, size * width, self.batch * windows.from[0] * windows.from[1] * vectors)?;
        let weights = match self.op {
            PoolOp::Weighted => bound.slice(1, size * width, windows.size[0] * windows.size[1] * vectors)?,
            // Not read.
            _ => bound.slice(0, size * width, 1)?,
        };
        let layout = bound.layout(width);
        let results = self.batch * windows.to[0] * windows.to[1] * vectors;
        let reads = bound.fragment_reads(&[&self.store], layout, self.operands(), results, vectors)?;
        let binding = layout.binding(self.store.program.outputs()[0], 1);
        let outputs = vec![bound.output(0, binding.elem, binding.width, results)?];
        let [store] = FragmentCode::each([&self.store], self.operands());
        let ty = if self.dtype == DType::F64 { Ty::F64 } else { Ty::F32 };
        let unrolled = windows.size[0] * windows.size[1] <= most_unrolled(facts);
        let code = PoolCode { store, op: self.op, windows: WindowCode::of(windows), unrolled, grouped: facts.cpu, ty };
        let both = |sizes: [usize; 2]| sizes.map(|size| size as u32);
        let ([from_rows, from_columns], [to_rows, to_columns]) = (both(windows.from), both(windows.to));
        let (cubes, dim, count) = (geometry.count(), CubeDim::new_1d(geometry.units), bound.compiled.clone());
        let (vectors, run, items, steps) = (vectors as u32, run as u32, items as u32, geometry.steps);
        macro_rules! launch_with {
            ($type:ty) => {
                // SAFETY: pixels outside of the pictures are not read, and results have places in the output.
                unsafe {
                    pool_runs::launch_unchecked::<$type>(
                        bound.client,
                        cubes,
                        dim,
                        width,
                        x,
                        weights,
                        reads,
                        outputs,
                        bound.scalars(),
                        from_rows,
                        from_columns,
                        to_rows,
                        to_columns,
                        vectors,
                        run,
                        items,
                        steps,
                        0,
                        code,
                        layout,
                        count,
                    )
                }
            };
        }
        match self.dtype {
            DType::F64 => launch_with!(f64),
            _ => launch_with!(f32),
        }
        Ok(())
    }
}

/// One more element of a window.
#[cube]
fn take<E: Float, N: Size>(
    sum: Vector<E, N>,
    value: Vector<E, N>,
    weight: Vector<E, N>,
    #[comptime] op: PoolOp,
    #[comptime] ty: Ty,
    #[comptime] width: usize,
) -> Vector<E, N> {
    if comptime!(op == PoolOp::Weighted) {
        fma(value, weight, sum)
    } else if comptime!(op == PoolOp::Sum) {
        sum + value
    } else {
        larger::<Vector<E, N>>(sum, value, ty, width)
    }
}

/// The larger of two, as everywhere: what is not a number loses.
#[cube]
fn larger<T: CubePrimitive>(a: T, b: T, #[comptime] ty: Ty, #[comptime] width: usize) -> T {
    intrinsic!(|scope| {
        let (a, b) = (a.read_value(scope), b.read_value(scope));
        Generator { scope, width }.binary(BinaryOp::Max, ty, a, b).into()
    })
}

/// Where a unit works.
#[derive(CubeType, Clone, Copy)]
struct Spot {
    /// The first row of its picture.
    picture: u32,
    /// The first row of its windows, which may lie above the picture.
    top: i32,
    /// Its row of the result, among all.
    row: u32,
    /// Its vector of channels.
    channel: u32,
    from_rows: u32,
    from_columns: u32,
    to_columns: u32,
    vectors: u32,
    /// Some count that is at least one.
    some: u32,
    /// Zero, which compilers do not know: loops that go so much further are not unrolled.
    nothing: u32,
}

/// Stores what became of one window.
#[cube]
#[expect(clippy::too_many_arguments, reason = "the arguments of a kernel")]
fn store<E: Float, N: Size>(
    reads: &Buffers,
    outputs: &mut Buffers,
    params: &Scalars,
    sum: Vector<E, N>,
    counted: u32,
    spot: &Spot,
    column: u32,
    #[comptime] code: PoolCode,
    #[comptime] layout: Layout,
) {
    let mut values = Values::new();
    values.push::<Vector<E, N>>(sum);
    values.push::<Vector<E, N>>(Vector::new(E::cast_from(counted)));
    let position = (spot.row * spot.to_columns + column) * spot.vectors + spot.channel;
    let at = Whereabouts { position: position as usize, column: spot.channel as usize, some: spot.some };
    fragment_store(reads, outputs, params, &values, at, comptime!(code.store.clone()), layout);
}

/// A window that may lie partly outside of its picture.
#[cube]
#[expect(clippy::too_many_arguments, reason = "the arguments of a kernel")]
fn any_window<E: Float, N: Size>(
    x: &[Vector<E, N>],
    weights: &[Vector<E, N>],
    reads: &Buffers,
    outputs: &mut Buffers,
    params: &Scalars,
    spot: &Spot,
    column: u32,
    #[comptime] code: PoolCode,
    #[comptime] layout: Layout,
) {
    let (op, ty, width, windows) = comptime!((code.op, code.ty, layout.width, code.windows));
    let (size, dilation) = comptime!((windows.size, windows.dilation));
    let left = (column * comptime!(windows.stride[1])) as i32 - comptime!(windows.padding[1]);
    let mut sum = Vector::<E, N>::new(E::from_int(0));
    let mut counted = 0u32;
    for down in 0..comptime!(size[0]) + spot.nothing {
        let y = spot.top + (down * comptime!(dilation[0])) as i32;
        if y >= 0i32 && y < spot.from_rows as i32 {
            for right in 0..comptime!(size[1]) + spot.nothing {
                let at = left + (right * comptime!(dilation[1])) as i32;
                if at >= 0i32 && at < spot.from_columns as i32 {
                    let pixel = (spot.picture + y as u32) * spot.from_columns + at as u32;
                    let value = x[(pixel * spot.vectors + spot.channel) as usize];
                    let mut weight = value;
                    if comptime!(op == PoolOp::Weighted) {
                        let tap = down * comptime!(size[1]) + right;
                        weight = weights[(tap * spot.vectors + spot.channel) as usize];
                    }
                    if comptime!(op == PoolOp::Max) {
                        // The first one starts.
                        sum = select(counted == 0u32, value, sum);
                    }
                    sum = take::<E, N>(sum, value, weight, op, ty, width);
                    counted += 1u32;
                }
            }
        }
    }
    store::<E, N>(reads, outputs, params, sum, counted, spot, column, code, layout);
}

/// Which element of a window a column is to one of several neighbouring windows, if it is one.
fn tap(column: u32, window: u32, windows: WindowCode) -> Option<u32> {
    let from = column.checked_sub(window * windows.stride[1])?;
    let (tap, rest) = (from / windows.dilation[1], from % windows.dilation[1]);
    (rest == 0 && tap < windows.size[1]).then_some(tap)
}

/// `group` neighbouring windows that lie inside their picture: what they share is loaded once. `rows` are the places of the first
/// window's rows.
#[cube]
#[expect(clippy::too_many_arguments, reason = "the arguments of a kernel")]
fn inner_windows<E: Float, N: Size>(
    x: &[Vector<E, N>],
    own: &Array<Vector<E, N>>,
    reads: &Buffers,
    outputs: &mut Buffers,
    params: &Scalars,
    spot: &Spot,
    column: u32,
    rows: &Array<usize>,
    offsets: &Array<usize>,
    #[comptime] group: u32,
    #[comptime] code: PoolCode,
    #[comptime] layout: Layout,
) {
    let (op, ty, width, windows) = comptime!((code.op, code.ty, layout.width, code.windows));
    let size = comptime!(windows.size);
    let covered = comptime!((group - 1) * windows.stride[1] + (size[1] - 1) * windows.dilation[1] + 1);
    let mut sums = Array::<Vector<E, N>>::new(comptime!(group as usize));
    #[unroll]
    for window in 0..group {
        sums[comptime!(window as usize)] = Vector::new(E::from_int(0));
    }
    #[unroll]
    for down in 0..comptime!(size[0]) {
        #[unroll]
        for at in 0..covered {
            if comptime!((0..group).any(|window| tap(at, window, windows).is_some())) {
                let value = x[rows[comptime!(down as usize)] + offsets[comptime!(at as usize)]];
                #[unroll]
                for window in 0..group {
                    let right = comptime!(tap(at, window, windows));
                    if comptime!(right.is_some()) {
                        let element = comptime!((down * size[1] + right.unwrap_or(0)) as usize);
                        let sum = comptime!(window as usize);
                        if comptime!(op == PoolOp::Max && element == 0) {
                            sums[sum] = value;
                        } else if comptime!(op == PoolOp::Weighted) {
                            sums[sum] = fma(value, own[element], sums[sum]);
                        } else {
                            sums[sum] = take::<E, N>(sums[sum], value, value, op, ty, width);
                        }
                    }
                }
            }
        }
    }
    let counted = comptime!(size[0] * size[1]);
    #[unroll]
    for window in 0..group {
        let sum = sums[comptime!(window as usize)];
        let at = column + window;
        store::<E, N>(reads, outputs, params, sum, counted, spot, at, comptime!(code.clone()), layout);
    }
}

#[cube(launch_unchecked)]
#[expect(clippy::too_many_arguments, reason = "the arguments of a kernel")]
fn pool_runs<E: Float, N: Size>(
    x: &[Vector<E, N>],
    weights: &[Vector<E, N>],
    reads: &Buffers,
    outputs: &mut Buffers,
    params: &Scalars,
    from_rows: u32,
    from_columns: u32,
    to_rows: u32,
    to_columns: u32,
    vectors: u32,
    run: u32,
    items: u32,
    steps: u32,
    nothing: u32,
    #[comptime] code: PoolCode,
    #[comptime] layout: Layout,
    #[comptime] compiled: CompileCount,
) {
    count_compilation(compiled);
    let windows = comptime!(code.windows);
    let (size, stride, dilation, padding) =
        comptime!((windows.size, windows.stride, windows.dilation, windows.padding));
    let taps = comptime!(if code.unrolled { (size[0] * size[1]) as usize } else { 1 });
    let reach_down = comptime!(((size[0] - 1) * dilation[0]) as i32);
    let reach_right = comptime!((size[1] - 1) * dilation[1]);
    let runs = to_columns.div_ceil(run);
    let first = ABSOLUTE_POS as u32 * steps;
    let end = min(first + steps, items);
    for item in first..end {
        // Neighbours are channels of the same pixels.
        let channel = settled(item % vectors, nothing);
        let part = settled((item / vectors) % runs, nothing);
        let row = settled(item / vectors / runs, nothing);
        let picture = settled(row / to_rows, nothing) * from_rows;
        let top = (settled(row % to_rows, nothing) * comptime!(stride[0])) as i32 - comptime!(padding[0]);
        let spot =
            Spot { picture, top, row, channel, from_rows, from_columns, to_columns, vectors, some: items, nothing };
        let begin = part * run;
        let stop = min(begin + run, to_columns);
        if comptime!(code.unrolled) {
            // Windows from `begin` to `inner` and from `outer` to `stop` may leave the picture.
            let mut inner = min(max(begin, comptime!((padding[1] as u32).div_ceil(stride[1]))), stop);
            let mut outer = stop;
            if top >= 0i32
                && top + reach_down < from_rows as i32
                && from_columns + comptime!(padding[1] as u32) > reach_right
            {
                let last = (from_columns + comptime!(padding[1] as u32) - 1u32 - reach_right) / comptime!(stride[1]);
                outer = max(min(last + 1u32, stop), inner);
            } else {
                inner = stop;
            }
            if outer > inner {
                let mut own = Array::<Vector<E, N>>::new(taps);
                if comptime!(code.op == PoolOp::Weighted) {
                    #[unroll]
                    for tap in 0..taps {
                        own[tap] = weights[(comptime!(tap as u32) * vectors + channel) as usize];
                    }
                }
                let mut rows = Array::<usize>::new(comptime!(size[0] as usize));
                let left = inner * comptime!(stride[1]) - comptime!(padding[1] as u32);
                #[unroll]
                for down in 0..comptime!(size[0]) {
                    let pixel = (picture + top as u32 + comptime!(down * dilation[0])) * from_columns + left;
                    rows[comptime!(down as usize)] = (pixel * vectors + channel) as usize;
                }
                let group = comptime!(if code.grouped { GROUP } else { 1 });
                let covered = comptime!(((group - 1) * stride[1] + reach_right + 1) as usize);
                let mut offsets = Array::<usize>::new(covered);
                #[unroll]
                for at in 0..covered {
                    offsets[at] = (comptime!(at as u32) * vectors) as usize;
                }
                let mut column = inner;
                if comptime!(code.grouped) {
                    for _ in 0..(outer - inner) / GROUP {
                        inner_windows::<E, N>(
                            x,
                            &own,
                            reads,
                            outputs,
                            params,
                            &spot,
                            column,
                            &rows,
                            &offsets,
                            GROUP,
                            comptime!(code.clone()),
                            layout,
                        );
                        #[unroll]
                        for down in 0..comptime!(size[0] as usize) {
                            rows[down] += (comptime!(GROUP * stride[1]) * vectors) as usize;
                        }
                        column += GROUP;
                    }
                }
                for _ in 0..outer - column {
                    inner_windows::<E, N>(
                        x,
                        &own,
                        reads,
                        outputs,
                        params,
                        &spot,
                        column,
                        &rows,
                        &offsets,
                        1u32,
                        comptime!(code.clone()),
                        layout,
                    );
                    #[unroll]
                    for down in 0..comptime!(size[0] as usize) {
                        rows[down] += (comptime!(stride[1]) * vectors) as usize;
                    }
                    column += 1u32;
                }
            }
            let before = inner - begin;
            for number in 0..before + (stop - outer) {
                let column = select(number < before, begin + number, outer + number - before);
                any_window::<E, N>(x, weights, reads, outputs, params, &spot, column, comptime!(code.clone()), layout);
            }
        } else {
            for column in begin..stop {
                any_window::<E, N>(x, weights, reads, outputs, params, &spot, column, comptime!(code.clone()), layout);
            }
        }
    }
}
