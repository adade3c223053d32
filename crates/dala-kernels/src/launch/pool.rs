//! The launcher of windows that become one pixel each, every channel by itself: convolutions of single channels, and pooling.
//!
//! A unit has a few channels of a run of pixels in one row. It keeps their weights in registers while it walks along.

use cubecl::client::Client;
use cubecl::prelude::*;
use dala_spec::expr::{BinaryOp, Ty};
use dala_spec::work::{Pool, PoolOp};
use dala_spec::{DType, DeviceFacts};

use super::matmul::WindowCode;
use super::{Bound, Geometry, LaunchRefused, dividing_width, settled};
use crate::device::args::{Buffers, Scalars};
use crate::device::arithmetic::Generator;
use crate::device::emit::Layout;
use crate::device::fragment::{CompileCount, Part, Values, Whereabouts, count_compilation, fragment_store};

/// Windows of more pixels are walked through by loops.
const MAX_UNROLLED: usize = 25;

/// How many pixels of a row one piece of work has.
fn run(pool: &Pool, facts: &DeviceFacts) -> usize {
    if facts.cpu { pool.windows.to[1].max(1) } else { 4 }
}

fn width(pool: &Pool, facts: &DeviceFacts) -> usize {
    dividing_width(pool.windows.channels, if facts.cpu { 64 / pool.dtype.size() } else { 4 })
}

fn items(pool: &Pool, facts: &DeviceFacts, width: usize) -> usize {
    let [rows, columns] = pool.windows.to;
    pool.batch * rows * columns.div_ceil(run(pool, facts)) * (pool.windows.channels / width)
}

pub(super) fn geometry(pool: &Pool, facts: &DeviceFacts) -> Geometry {
    let width = width(pool, facts);
    Geometry::spread(items(pool, facts, width), width, facts)
}

/// What shapes the code.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
struct PoolCode {
    store: Part,
    op: PoolOp,
    windows: WindowCode,
    unrolled: bool,
    ty: Ty,
}

pub(super) fn launch(
    client: &Client,
    compiled: &CompileCount,
    pool: &Pool,
    geometry: Geometry,
    bound: &Bound,
) -> Result<(), LaunchRefused> {
    let (facts, width, size, windows) = (bound.launch.facts, geometry.width, pool.dtype.size(), &pool.windows);
    if !windows.channels.is_multiple_of(width) || windows.is_empty() {
        return Err(LaunchRefused(format!("pixels of {} do not end where a vector does", windows.channels)));
    }
    let (items, run) = (items(pool, facts, width), run(pool, facts));
    geometry.check(items)?;
    let vectors = windows.channels / width;
    let x = bound.slice(0, size * width, pool.batch * windows.from[0] * windows.from[1] * vectors)?;
    let weights = match pool.op {
        PoolOp::Weighted => bound.slice(1, size * width, windows.size[0] * windows.size[1] * vectors)?,
        // Not read.
        _ => bound.slice(0, size * width, 1)?,
    };
    let layout = bound.layout(width);
    let results = pool.batch * windows.to[0] * windows.to[1] * vectors;
    let reads = bound.fragment_reads(&[&pool.store], layout, pool.operands(), results, vectors)?;
    let binding = layout.binding(pool.store.program.outputs()[0], 1);
    let outputs = vec![bound.output(0, binding.elem, binding.width, results)?];
    let [store] = Part::each([&pool.store], pool.operands());
    let ty = if pool.dtype == DType::F64 { Ty::F64 } else { Ty::F32 };
    let unrolled = windows.size[0] * windows.size[1] <= MAX_UNROLLED;
    let code = PoolCode { store, op: pool.op, windows: WindowCode::of(windows), unrolled, ty };
    let both = |sizes: [usize; 2]| sizes.map(|size| size as u32);
    let ([from_rows, from_columns], [to_rows, to_columns]) = (both(windows.from), both(windows.to));
    let (cubes, dim, count) = (geometry.count(), CubeDim::new_1d(geometry.units), compiled.clone());
    let (vectors, run, items, steps) = (vectors as u32, run as u32, items as u32, geometry.steps);
    macro_rules! launch_with {
        ($type:ty) => {
            // SAFETY: pixels outside of the pictures are not read, and results have places in the output.
            unsafe {
                pool_runs::launch_unchecked::<$type>(
                    client,
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
    match pool.dtype {
        DType::F64 => launch_with!(f64),
        _ => launch_with!(f32),
    }
    Ok(())
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
    let op = comptime!(code.op);
    let windows = comptime!(code.windows);
    let (size, stride, dilation, padding) =
        comptime!((windows.size, windows.stride, windows.dilation, windows.padding));
    let taps = comptime!(if code.unrolled { (size[0] * size[1]) as usize } else { 1 });
    let reach_down = comptime!(((size[0] - 1) * dilation[0]) as i32);
    let reach_right = comptime!(((size[1] - 1) * dilation[1]) as i32);
    let runs = (to_columns + run - 1u32) / run;
    let (ty, width) = comptime!((code.ty, layout.width));
    let first = ABSOLUTE_POS as u32 * steps;
    let end = min(first + steps, items);
    for item in first..end {
        // Neighbours are channels of the same pixels.
        let channel = settled(item % vectors, nothing);
        let part = settled((item / vectors) % runs, nothing);
        let row = settled(item / vectors / runs, nothing);
        let picture = settled(row / to_rows, nothing) * from_rows;
        let top = (settled(row % to_rows, nothing) * comptime!(stride[0])) as i32 - comptime!(padding[0]);
        let inside_rows = top >= 0i32 && top + reach_down < from_rows as i32;
        let mut own = Array::<Vector<E, N>>::new(taps);
        if comptime!(code.unrolled && op == PoolOp::Weighted) {
            #[unroll]
            for tap in 0..taps {
                own[tap] = weights[(comptime!(tap as u32) * vectors + channel) as usize];
            }
        }
        let stop = min((part + 1u32) * run, to_columns);
        for column in part * run..stop {
            let left = (column * comptime!(stride[1])) as i32 - comptime!(padding[1]);
            let mut sum = Vector::<E, N>::new(E::from_int(0));
            let mut counted = comptime!(size[0] * size[1]).runtime();
            if comptime!(!windows.leave) || (inside_rows && left >= 0i32 && left + reach_right < from_columns as i32) {
                let base = ((picture + top as u32) * from_columns + left as u32) * vectors + channel;
                if comptime!(code.unrolled) {
                    #[unroll]
                    for tap in 0..taps {
                        let down = comptime!((tap as u32 / size[1]) * dilation[0]);
                        let right = comptime!((tap as u32 % size[1]) * dilation[1]);
                        let value = x[(base + (down * from_columns + right) * vectors) as usize];
                        if comptime!(op == PoolOp::Max && tap == 0) {
                            sum = value;
                        } else {
                            sum = take::<E, N>(sum, value, own[tap], op, ty, width);
                        }
                    }
                } else {
                    if comptime!(op == PoolOp::Max) {
                        sum = x[base as usize];
                    }
                    for down in 0..comptime!(size[0]) {
                        for right in 0..comptime!(size[1]) {
                            let away = down * comptime!(dilation[0]) * from_columns + right * comptime!(dilation[1]);
                            let value = x[(base + away * vectors) as usize];
                            let mut weight = value;
                            if comptime!(op == PoolOp::Weighted) {
                                weight = weights[((down * comptime!(size[1]) + right) * vectors + channel) as usize];
                            }
                            sum = take::<E, N>(sum, value, weight, op, ty, width);
                        }
                    }
                }
            } else {
                counted = 0u32;
                for down in 0..comptime!(size[0]) {
                    let y = top + (down * comptime!(dilation[0])) as i32;
                    if y >= 0i32 && y < from_rows as i32 {
                        for right in 0..comptime!(size[1]) {
                            let at = left + (right * comptime!(dilation[1])) as i32;
                            if at >= 0i32 && at < from_columns as i32 {
                                let found = ((picture + y as u32) * from_columns + at as u32) * vectors + channel;
                                let value = x[found as usize];
                                let mut weight = value;
                                if comptime!(op == PoolOp::Weighted) {
                                    let tap = down * comptime!(size[1]) + right;
                                    weight = weights[(tap * vectors + channel) as usize];
                                }
                                if comptime!(op == PoolOp::Max) {
                                    if counted == 0u32 {
                                        sum = value;
                                    }
                                }
                                sum = take::<E, N>(sum, value, weight, op, ty, width);
                                counted += 1u32;
                            }
                        }
                    }
                }
            }
            let mut values = Values::new();
            values.push::<Vector<E, N>>(sum);
            values.push::<Vector<E, N>>(Vector::new(E::cast_from(counted)));
            let position = (row * to_columns + column) * vectors + channel;
            let at = Whereabouts { position: position as usize, column: channel as usize, some: items };
            fragment_store(reads, outputs, params, &values, at, comptime!(code.store.clone()), layout);
        }
    }
}
