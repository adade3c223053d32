//! The launcher of separable filters on a CPU: rows of any length, pixels of any number of channels, any border.
//!
//! A unit sums the rows above and below into a line of its own, which stays in its cache, with what lies beyond both ends of the
//! row; then it sums along that line. Vectors begin at any element: the last one of a row ends where the row does, and computes
//! some elements once more.

use cubecl::prelude::*;
use dala_plan::DeviceFacts;
use dala_plan::work::width::{APART, fitting_width};
use dala_plan::work::{Border, Stencil};

use super::taps::{OUTSIDE, StencilCode, load, weight, weights};
use super::{Bound, Geometry, LaunchRefused};
use crate::device::args::{Buffers, Scalars};
use crate::device::emit::Layout;
use crate::device::fragment::{
    CompileCount, Values, Whereabouts, count_compilation, fragment_store, fragment_value, pixels_store_apart, read_at,
    write_at,
};

/// The largest radius whose taps have code of their own.
const MAX_UNROLLED: usize = 4;

/// How many elements are computed at a time: fewer in short rows, whose last vector overlaps the one before by much of the row.
fn lanes(stencil: &Stencil) -> usize {
    match stencil.pixels {
        None => {
            let row = stencil.width * stencil.channels;
            fitting_width(row, if row < SHORT { 16 } else { 32 })
        }
        Some(_) => fitting_width(stencil.width, if stencil.width < SHORT / 2 { 8 } else { 16 }),
    }
}

/// Rows of fewer elements are short.
const SHORT: usize = 256;

/// Lines begin at multiples of this.
const STEP: usize = Stencil::LINE_STEP;

pub(super) fn geometry(stencil: &Stencil, facts: &DeviceFacts) -> Geometry {
    Geometry::spread(stencil.height, lanes(stencil), facts)
}

pub(super) fn launch(stencil: &Stencil, bound: &Bound) -> Result<(), LaunchRefused> {
    let geometry = bound.launch.geometry;
    let Stencil { height, width, channels, radius, .. } = *stencil;
    let lanes = lanes(stencil);
    geometry.check(height)?;
    let layout = bound.layout_of_lines(lanes);
    let (row, total) = (width * channels, height * width * channels);
    let reads = bound.fragment_reads(&[&stencil.load, &stencil.store], layout, 0, total, row)?;
    let output = match &stencil.pixels {
        None => bound.output(0, layout.binding(stencil.store.program.outputs()[0], 1).elem, 1, total)?,
        Some(pixels) => {
            let binding = layout.output(&pixels.program, 0);
            bound.output(0, binding.elem, 1, height * width * binding.vectors / lanes)?
        }
    };
    let own = Stencil::lines(width, channels, radius, stencil.filters.len());
    let lines = bound.slice_mut(1, 4, geometry.units as usize * own)?;
    // SAFETY: rows and vectors are kept inside the picture, which the buffers were checked to hold, and each unit has lines of
    // its own: the cubes of a unit run one after the other on a CPU.
    unsafe {
        filter_lines::launch_unchecked(
            bound.client,
            geometry.count(),
            CubeDim::new_1d(geometry.units),
            lanes,
            reads,
            vec![output],
            lines,
            bound.scalars(),
            weights(stencil),
            height as u32,
            width as u32,
            geometry.steps,
            StencilCode::new(stencil, true, radius <= MAX_UNROLLED),
            layout,
            bound.compiled.clone(),
        );
    }
    Ok(())
}

/// Where a place of an axis is found; negative if it counts as zeros.
#[cube]
fn place(at: i32, len: i32, #[comptime] border: Border) -> i32 {
    if comptime!(border == Border::Clamp) {
        max(min(at, len - 1i32), 0i32)
    } else if comptime!(border == Border::Wrap) {
        let rest = at % len;
        select(rest < 0i32, rest + len, rest)
    } else if comptime!(border == Border::Reflect) {
        // A single place has no other beside it.
        let period = max(2i32 * (len - 1i32), 1i32);
        let rest = at % period;
        let rest = select(rest < 0i32, rest + period, rest);
        min(min(rest, period - rest), len - 1i32)
    } else {
        select(at < len, at, -1i32)
    }
}

/// Adds the elements of a row, or of a pair of rows, to the sum of each filter.
#[cube]
#[expect(clippy::too_many_arguments, reason = "the arguments of a kernel")]
fn add_row<N: Size>(
    reads: &Buffers,
    params: &Scalars,
    rows: &Array<usize>,
    down: &Array<f32>,
    sums: &mut Array<Vector<f32, N>>,
    tap: usize,
    at: usize,
    some: u32,
    #[comptime] pair: bool,
    #[comptime] code: StencilCode,
    #[comptime] layout: Layout,
) {
    let taps = comptime!(2 * code.radius + 1);
    let row = rows[tap];
    let other = rows[taps - 1usize - tap];
    if comptime!(code.border == Border::Zero) {
        if row != OUTSIDE {
            let value = load::<N>(reads, params, row, other, at, some, pair, comptime!(code.clone()), layout);
            #[unroll]
            for filter in 0..comptime!(code.filters) {
                sums[filter] += value * Vector::new(down[tap * comptime!(code.filters) + filter]);
            }
        }
    } else {
        let value = load::<N>(reads, params, row, other, at, some, pair, comptime!(code.clone()), layout);
        #[unroll]
        for filter in 0..comptime!(code.filters) {
            sums[filter] += value * Vector::new(down[tap * comptime!(code.filters) + filter]);
        }
    }
}

/// Writes what lies beyond both ends of a row beside it.
#[cube]
fn write_ends(lines: &mut [f32], line: usize, width: u32, #[comptime] code: StencilCode) {
    let channels = comptime!(code.channels);
    let beyond = comptime!(code.radius * channels);
    let begin = line + comptime!(Stencil::before(code.radius, channels));
    let end = begin + width as usize * channels;
    for i in 0..beyond {
        let pixel = i / channels;
        let channel = i % channels;
        let left = place(pixel as i32 - comptime!(code.radius as i32), width as i32, comptime!(code.border));
        let right = place(pixel as i32 + width as i32, width as i32, comptime!(code.border));
        if comptime!(code.border == Border::Zero) {
            lines[begin - beyond + i] = 0.0f32;
            lines[end + i] = 0.0f32;
        } else {
            lines[begin - beyond + i] = lines[begin + left as usize * channels + channel];
            lines[end + i] = lines[begin + right as usize * channels + channel];
        }
    }
}

/// The weighted sum along a line, for the elements from `at` on.
#[cube]
fn sum_along<N: Size>(
    lines: &[f32],
    across: &Array<f32>,
    at: usize,
    #[comptime] filter: usize,
    #[comptime] code: StencilCode,
) -> Vector<f32, N> {
    let taps = comptime!(2 * code.radius + 1);
    let mut sum = Vector::<f32, N>::new(0.0f32);
    #[unroll(code.unrolled)]
    for tap in 0..taps {
        let own = across[tap * comptime!(code.filters) + filter];
        sum += read_at::<f32, N>(lines, at + tap * comptime!(code.channels)) * Vector::new(own);
    }
    sum
}

/// The sums of all filters for the elements from `at` on.
#[cube]
fn all_sums<N: Size>(
    lines: &[f32],
    across: &Array<f32>,
    line: usize,
    length: usize,
    at: usize,
    #[comptime] code: StencilCode,
) -> Values {
    let mut values = Values::new();
    #[unroll]
    for filter in 0..comptime!(code.filters) {
        let first = comptime!(Stencil::before(code.radius, code.channels) - code.radius * code.channels);
        let from = line + filter * length + at + first;
        let sum = sum_along::<N>(lines, across, from, filter, comptime!(code.clone()));
        values.push::<Vector<f32, N>>(sum);
    }
    values
}

#[cube(launch_unchecked)]
#[expect(clippy::too_many_arguments, reason = "the arguments of a kernel")]
fn filter_lines<N: Size>(
    reads: &Buffers,
    outputs: &mut Buffers,
    lines: &mut [f32],
    params: &Scalars,
    weights: &Scalars,
    height: u32,
    width: u32,
    steps: u32,
    #[comptime] code: StencilCode,
    #[comptime] layout: Layout,
    #[comptime] compiled: CompileCount,
) {
    count_compilation(compiled);
    let (radius, filters, channels, lanes) = comptime!((code.radius, code.filters, code.channels, layout.width as u32));
    let (taps, before) = comptime!((2 * radius + 1, Stencil::before(radius, channels)));
    let row = width * comptime!(channels as u32);
    let length = (row as usize + comptime!(before + radius * channels + STEP - 1)) / STEP * STEP;
    let line = UNIT_POS as usize * (length * filters + APART);
    let vectors = (row + comptime!(lanes - 1)) / lanes;
    let last = row - lanes;
    // Side by side for each tap.
    let mut down = Array::<f32>::new(comptime!(filters * taps));
    let mut across = Array::<f32>::new(comptime!(filters * taps));
    #[unroll]
    for filter in 0..filters {
        #[unroll]
        for tap in 0..taps {
            down[comptime!(tap * filters + filter)] = weight(weights, comptime!(filter * 2 * taps + tap));
            across[comptime!(tap * filters + filter)] = weight(weights, comptime!((filter * 2 + 1) * taps + tap));
        }
    }
    let mut rows = Array::<usize>::new(taps);
    let mut sums = Array::<Vector<f32, N>>::new(filters);
    let first = ABSOLUTE_POS as u32 * steps;
    let end = min(first + steps, height);
    for y in first..end {
        for tap in 0..taps {
            let above = place(y as i32 + tap as i32 - comptime!(radius as i32), height as i32, comptime!(code.border));
            let found = above as u32 * row;
            rows[tap] = select(above < 0i32, OUTSIDE, found as usize);
        }
        for vector in 0..vectors {
            let at = min(vector * lanes, last) as usize;
            #[unroll]
            for filter in 0..filters {
                sums[filter] = Vector::<f32, N>::new(0.0f32);
            }
            // Of a pair of rows, the upper one stands for both; the rest are alone.
            let pairs = comptime!(if code.paired { radius } else { 0 });
            #[unroll(code.unrolled)]
            for tap in 0..pairs {
                let code = comptime!(code.clone());
                add_row::<N>(reads, params, &rows, &down, &mut sums, tap, at, height, true, code, layout);
            }
            #[unroll(code.unrolled)]
            for tap in pairs..comptime!(taps - pairs) {
                let code = comptime!(code.clone());
                add_row::<N>(reads, params, &rows, &down, &mut sums, tap, at, height, false, code, layout);
            }
            #[unroll]
            for filter in 0..filters {
                write_at::<f32, N>(lines, line + filter * length + before + at, sums[filter]);
            }
        }
        #[unroll]
        for filter in 0..filters {
            write_ends(lines, line + filter * length, width, comptime!(code.clone()));
        }
        let own_row = (y * row) as usize;
        if comptime!(code.pixels.is_none()) {
            for vector in 0..vectors {
                let at = min(vector * lanes, last) as usize;
                let values = all_sums::<N>(&*lines, &across, line, length, at, comptime!(code.clone()));
                let place = Whereabouts { position: own_row + at, column: at, some: height };
                fragment_store(reads, outputs, params, &values, place, comptime!(code.store.clone()), layout);
            }
        } else {
            let groups = (width + comptime!(lanes - 1)) / lanes;
            let last_pixel = width - lanes;
            for group in 0..groups {
                let pixel = min(group * lanes, last_pixel);
                let mut elements = Values::new();
                #[unroll]
                for number in 0..channels {
                    let at = pixel as usize * channels + comptime!(number * layout.width);
                    let values = all_sums::<N>(&*lines, &across, line, length, at, comptime!(code.clone()));
                    let place = Whereabouts { position: own_row + at, column: at, some: height };
                    let store = comptime!(code.store.clone());
                    if comptime!(code.bytes) {
                        let value = fragment_value::<Vector<i32, N>>(reads, params, &values, place, store, layout);
                        elements.push::<Vector<i32, N>>(value);
                    } else {
                        let value = fragment_value::<Vector<f32, N>>(reads, params, &values, place, store, layout);
                        elements.push::<Vector<f32, N>>(value);
                    }
                }
                let place =
                    Whereabouts { position: (y * width + pixel) as usize, column: pixel as usize, some: height };
                let pixels = comptime!(code.pixels.clone().unwrap_or_else(|| code.store.clone()));
                pixels_store_apart(&elements, outputs, params, place, pixels, layout);
            }
        }
    }
}
