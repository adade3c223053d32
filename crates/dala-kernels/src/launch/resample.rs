//! The launcher of resampling in one pass, for cores: a unit sums rows into a line of its own, which stays in its cache, and makes
//! the new row's pixels from that. Rows have any length, and pixels any number of channels.

use cubecl::prelude::*;
use dala_plan::DeviceFacts;
use dala_plan::work::Resample;
use dala_plan::work::width::fitting_width;

use super::{Bound, Geometry, LaunchRefused, Launcher};
use crate::device::args::{Buffers, Scalars};
use crate::device::emit::Layout;
use crate::device::fragment::{
    CompileCount, FragmentCode, Values, Whereabouts, count_compilation, fragment_store, fragment_value, only, read_at,
    side_by_side, write_at,
};

/// What shapes the code.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
struct ResampleCode {
    load: FragmentCode,
    store: FragmentCode,
    channels: usize,
    /// How many rows and columns are summed, where each has code of its own; otherwise 0.
    taps: (usize, usize),
}

/// The most taps that have code of their own.
const MAX_UNROLLED: usize = 8;

/// How many pixels of the result, and as many elements of the picture, are computed at a time.
fn lanes(resample: &Resample) -> usize {
    let columns = resample.to.1;
    fitting_width(columns.min(resample.from.1 * resample.channels), if columns < SHORT { 8 } else { 16 })
}

/// Rows of fewer pixels are computed in narrower vectors: less of them is computed twice.
const SHORT: usize = 128;

impl Launcher for Resample {
    fn geometry(&self, facts: &DeviceFacts) -> Geometry {
        Geometry::spread(self.to.0, lanes(self), facts)
    }

    fn launch(&self, bound: &Bound) -> Result<(), LaunchRefused> {
        let geometry = bound.launch.geometry;
        let Resample { from, to, taps, channels, .. } = *self;
        if !Resample::fits(bound.launch.facts) || taps.0 > from.0 || taps.1 > from.1 || channels > 4 {
            return Err(LaunchRefused("the picture or the device does not suit resampling in one pass".to_owned()));
        }
        geometry.check(to.0)?;
        let lanes = lanes(self);
        let layout = bound.layout_of_lines(lanes);
        let first_rows = bound.slice(0, 4, to.0)?;
        let row_weights = bound.slice(1, 4, to.0 * taps.0)?;
        let first_columns = bound.slice(2, 4, to.1)?;
        let column_weights = bound.slice(3, 4, to.1 * taps.1)?;
        let reads = bound.fragment_reads(&[&self.load], layout, 4, from.0 * from.1 * channels, 0)?;
        let binding = layout.binding(self.store.program.outputs()[0], 1);
        let output = bound.output(0, binding.elem, 1, to.0 * to.1 * channels)?;
        let line = Resample::line(from.1, channels);
        let lines = bound.slice_mut(1, 4, geometry.units as usize * line)?;
        let [load, store] = FragmentCode::each([&self.load, &self.store], 4);
        let unrolled = |taps: usize| if taps <= MAX_UNROLLED { taps } else { 0 };
        let code = ResampleCode { load, store, channels, taps: (unrolled(taps.0), unrolled(taps.1)) };
        // SAFETY: windows of rows and columns lie inside the picture, as their maker made sure, and each unit has a line of its
        // own: the cubes of a unit run one after the other on a CPU.
        unsafe {
            resample_rows::launch_unchecked(
                bound.client,
                geometry.count(),
                CubeDim::new_1d(geometry.units),
                lanes,
                channels.next_power_of_two(),
                first_rows,
                row_weights,
                first_columns,
                column_weights,
                reads,
                vec![output],
                lines,
                bound.scalars(),
                from.1 as u32,
                to.0 as u32,
                to.1 as u32,
                line as u32,
                taps.0 as u32,
                taps.1 as u32,
                geometry.steps,
                code,
                layout,
                bound.compiled.clone(),
            );
        }
        Ok(())
    }
}

/// The elements from `at` on, times a weight.
#[cube]
fn weighed<N: Size>(
    reads: &Buffers,
    params: &Scalars,
    at: Whereabouts,
    weight: f32,
    #[comptime] code: ResampleCode,
    #[comptime] layout: Layout,
) -> Vector<f32, N> {
    let part = comptime!(code.load.clone());
    fragment_value::<Vector<f32, N>>(reads, params, &Values::new(), at, part, layout) * Vector::new(weight)
}

/// A pixel of the result: the weighted sum of pixels of a line, from `at` on.
#[cube]
fn pixel<Q: Size>(
    lines: &[f32],
    weights: &[f32],
    at: usize,
    first_weight: usize,
    taps: usize,
    #[comptime] code: ResampleCode,
) -> Vector<f32, Q> {
    let channels = comptime!(code.channels);
    let mut sum = Vector::<f32, Q>::new(0.0f32);
    if comptime!(code.taps.1 > 0) {
        #[unroll]
        for tap in 0..comptime!(code.taps.1) {
            sum += read_at::<f32, Q>(lines, at + comptime!(tap * channels)) * Vector::new(weights[first_weight + tap]);
        }
    } else {
        for tap in 0..taps {
            sum += read_at::<f32, Q>(lines, at + tap * channels) * Vector::new(weights[first_weight + tap]);
        }
    }
    sum
}

#[cube(launch_unchecked)]
#[expect(clippy::too_many_arguments, reason = "the arguments of a kernel")]
fn resample_rows<N: Size, Q: Size>(
    first_rows: &[i32],
    row_weights: &[f32],
    first_columns: &[i32],
    column_weights: &[f32],
    reads: &Buffers,
    outputs: &mut Buffers,
    lines: &mut [f32],
    params: &Scalars,
    width: u32,
    rows: u32,
    columns: u32,
    line: u32,
    taps_down: u32,
    taps_across: u32,
    steps: u32,
    #[comptime] code: ResampleCode,
    #[comptime] layout: Layout,
    #[comptime] compiled: CompileCount,
) {
    count_compilation(compiled);
    let (channels, lanes) = comptime!((code.channels, layout.width as u32));
    let stride = width as usize * channels;
    let vectors = (stride as u32 + comptime!(lanes - 1)) / lanes;
    let last = stride as u32 - lanes;
    let groups = (columns + comptime!(lanes - 1)) / lanes;
    let last_pixel = columns - lanes;
    let own = UNIT_POS as usize * line as usize;
    let first = ABSOLUTE_POS as u32 * steps;
    let end = min(first + steps, rows);
    for row in first..end {
        let top = first_rows[row as usize] as usize * stride;
        let weights = row as usize * taps_down as usize;
        for vector in 0..vectors {
            // The last vectors of a row end where it does, and compute some elements once more.
            let at = min(vector * lanes, last) as usize;
            let mut sum = Vector::<f32, N>::new(0.0f32);
            if comptime!(code.taps.0 > 0) {
                #[unroll]
                for tap in 0..comptime!(code.taps.0) {
                    let place = Whereabouts { position: top + tap * stride + at, column: at, some: rows };
                    let weight = row_weights[weights + tap];
                    sum += weighed::<N>(reads, params, place, weight, comptime!(code.clone()), layout);
                }
            } else {
                for tap in 0..taps_down as usize {
                    let place = Whereabouts { position: top + tap * stride + at, column: at, some: rows };
                    let weight = row_weights[weights + tap];
                    sum += weighed::<N>(reads, params, place, weight, comptime!(code.clone()), layout);
                }
            }
            write_at::<f32, N>(lines, own + at, sum);
        }
        for group in 0..groups {
            let x = min(group * lanes, last_pixel) as usize;
            let mut pixels = Values::new();
            #[unroll]
            for number in 0..comptime!(layout.width) {
                let from = own + first_columns[x + number] as usize * channels;
                let first_weight = (x + number) * taps_across as usize;
                let taps = taps_across as usize;
                let made = pixel::<Q>(&*lines, column_weights, from, first_weight, taps, comptime!(code.clone()));
                pixels.push::<Vector<f32, Q>>(made);
            }
            let elements = side_by_side(&pixels, channels);
            #[unroll]
            for part in 0..channels {
                let column = x * channels + comptime!(part * layout.width);
                let position = row as usize * (columns as usize * channels) + column;
                let at = Whereabouts { position, column, some: rows };
                let values = only(&elements, part);
                fragment_store(reads, outputs, params, &values, at, comptime!(code.store.clone()), layout);
            }
        }
    }
}
