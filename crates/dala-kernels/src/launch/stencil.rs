//! The launcher of small separable filters: both directions in one pass. A CPU works [line by line](super::lines); this is how GPUs do it.
//!
//! A unit walks along a row. For each vector of elements it sums the rows above and below, aligned loads all of them; the
//! neighbours to the left and right are then lanes of the vectors before and after, which it still has in registers. That
//! asks for rows that end where a vector does, and for a radius within the next vector: other calls take the way of
//! [`axis_sum`](super::axis_sum).

use cubecl::prelude::*;
use dala_plan::DeviceFacts;
use dala_plan::work::{Border, Stencil, TaskKind};
use dala_spec::Scalar;

use super::taps::{OUTSIDE, StencilCode, load, weight, weights};
use super::{Bound, Geometry, LaunchRefused, Launcher, lines};
use crate::device::args::{Buffers, Scalars};
use crate::device::arithmetic::Generator;
use crate::device::emit::Layout;
use crate::device::fragment::{
    CompileCount, Values, Whereabouts, count_compilation, fragment_store, fragment_value, pixels_store,
};

/// How many vectors of a row one unit computes.
fn chunk(vectors: usize) -> usize {
    vectors.min(8)
}

fn sizes(stencil: &Stencil) -> (usize, usize, usize) {
    let width = stencil.vector_width().unwrap_or(1);
    let vectors = stencil.width * stencil.channels / width;
    (width, vectors, vectors.div_ceil(chunk(vectors).max(1)))
}

impl Launcher for Stencil {
    fn geometry(&self, facts: &DeviceFacts) -> Geometry {
        if facts.cpu {
            return lines::geometry(self, facts);
        }
        let (width, _, chunks) = sizes(self);
        Geometry::spread(self.height * chunks, width, facts)
    }

    fn launch(&self, bound: &Bound) -> Result<(), LaunchRefused> {
        let geometry = bound.launch.geometry;
        let facts = bound.launch.facts;
        let taps = 2 * self.radius + 1;
        let complete = |weights: &[f32]| weights.len() == taps;
        let all_complete = self.filters.iter().all(|filter| complete(&filter.down) && complete(&filter.across));
        if !self.launches(facts) || !all_complete {
            return Err(LaunchRefused("the picture or the filter does not suit a stencil".to_owned()));
        }
        if facts.cpu {
            return lines::launch(self, bound);
        }
        let (width, vectors, chunks) = sizes(self);
        geometry.check(self.height * chunks)?;
        let layout = bound.layout(width);
        let total = self.height * vectors;
        let reads = bound.fragment_reads(&[&self.load, &self.store], layout, 0, total, vectors)?;
        let output = match &self.pixels {
            None => {
                let binding = layout.binding(self.store.program.outputs()[0], 1);
                bound.output(0, binding.elem, binding.width, total)?
            }
            Some(pixels) => {
                let layout = Layout { width: width / Stencil::PIXEL, ..layout };
                let binding = layout.output(&pixels.program, 0);
                bound.output(0, binding.elem, binding.width, total * binding.vectors)?
            }
        };
        // SAFETY: rows and vectors are kept inside the picture, which the buffers were checked to hold.
        unsafe {
            filter_rows::launch_unchecked(
                bound.client,
                geometry.count(),
                CubeDim::new_1d(geometry.units),
                width,
                reads,
                vec![output],
                bound.scalars(),
                weights(self),
                self.height as u32,
                vectors as u32,
                chunk(vectors) as u32,
                chunks as u32,
                geometry.steps,
                StencilCode::new(self, chunks == 1, true),
                layout,
                bound.compiled.clone(),
            );
        }
        Ok(())
    }
}

/// The lanes that lie `offset` lanes further on, reaching into the vectors before and after.
#[cube]
fn shifted<N: Size>(
    before: Vector<f32, N>,
    here: Vector<f32, N>,
    after: Vector<f32, N>,
    #[comptime] offset: i32,
    #[comptime] width: usize,
) -> Vector<f32, N> {
    intrinsic!(|scope| {
        let make = Generator { scope, width };
        let sources = [before.read_value(scope), here.read_value(scope), after.read_value(scope)];
        if offset == 0 {
            return sources[1].into();
        }
        let lane = |lane: usize| {
            let at = (lane as i32 + offset + width as i32) as usize;
            make.extract(sources[at / width], at % width, width)
        };
        let lanes: Vec<_> = (0..width).map(lane).collect();
        make.construct(&lanes).into()
    })
}

/// The vector beyond an end of a row, made of the vector at that end.
#[cube]
fn beyond<N: Size>(
    edge: Vector<f32, N>,
    other_edge: Vector<f32, N>,
    #[comptime] left: bool,
    #[comptime] code: StencilCode,
    #[comptime] width: usize,
) -> Vector<f32, N> {
    intrinsic!(|scope| {
        let make = Generator { scope, width };
        let (edge, other) = (edge.read_value(scope), other_edge.read_value(scope));
        let channels = code.channels;
        match code.border {
            Border::Wrap => other.into(),
            Border::Zero => make.constant(Scalar::F32(0.0)).into(),
            Border::Clamp | Border::Reflect => {
                let lane = |lane: usize| {
                    // How far away the pixel is, counted from 1 at the edge; pixels that nobody asks for are any.
                    let away = if left { (width - 1 - lane) / channels + 1 } else { lane / channels + 1 };
                    let channel = lane % channels;
                    // Vectors are whole pixels only if their width is a multiple: channels then lie elsewhere.
                    let channel = if left { (lane + channels * width - width) % channels } else { channel };
                    let pixel = match code.border {
                        Border::Reflect => away.min(code.radius),
                        _ => 0,
                    };
                    let at = if left { pixel * channels + channel } else { width - (pixel + 1) * channels + channel };
                    make.extract(edge, at, width)
                };
                let lanes: Vec<_> = (0..width).map(lane).collect();
                make.construct(&lanes).into()
            }
        }
    })
}

/// Where row `y` moved by `tap - radius` is found.
#[cube]
fn row_of(y: u32, height: u32, #[comptime] tap: usize, #[comptime] radius: usize, #[comptime] border: Border) -> u32 {
    let mut row = y;
    if comptime!(tap < radius) {
        let up = comptime!((radius - tap) as u32);
        if comptime!(border == Border::Reflect) {
            row = select(y >= up, y - up, up - y);
        } else if comptime!(border == Border::Wrap) {
            row = select(y >= up, y - up, y + height - up);
        } else {
            row = max(y, up) - up;
        }
    } else if comptime!(tap > radius) {
        let down = y + comptime!((tap - radius) as u32);
        if comptime!(border == Border::Reflect) {
            row = select(down < height, down, 2u32 * (height - 1u32) - down);
        } else if comptime!(border == Border::Wrap) {
            row = select(down < height, down, down - height);
        } else {
            row = min(down, height - 1u32);
        }
    }
    row
}

/// Whether row `y` moved by `tap - radius` lies inside the picture.
#[cube]
fn is_inside(y: u32, height: u32, #[comptime] tap: usize, #[comptime] radius: usize) -> bool {
    if comptime!(tap < radius) {
        y >= comptime!((radius - tap) as u32)
    } else {
        y + comptime!((tap - radius.min(tap)) as u32) < height
    }
}

/// The weighted sums over rows of vector `q`, one for each filter.
#[cube]
#[expect(clippy::too_many_arguments, reason = "the arguments of a kernel")]
fn sum_rows<N: Size>(
    reads: &Buffers,
    params: &Scalars,
    rows: &Array<usize>,
    down: &Array<f32>,
    sums: &mut Array<Vector<f32, N>>,
    q: usize,
    some: u32,
    #[comptime] code: StencilCode,
    #[comptime] layout: Layout,
) {
    let taps = comptime!(2 * code.radius + 1);
    // Of a pair of rows, the upper one stands for both.
    let loads = comptime!(if code.paired { code.radius + 1 } else { taps });
    #[unroll]
    for tap in 0..loads {
        let pair = comptime!(code.paired && tap < code.radius);
        let other = rows[comptime!(taps - 1 - tap)];
        let mut value = Vector::<f32, N>::new(0.0f32);
        if comptime!(code.border == Border::Zero) {
            if rows[tap] != OUTSIDE {
                value = load::<N>(reads, params, rows[tap], other, q, some, pair, comptime!(code.clone()), layout);
            }
        } else {
            value = load::<N>(reads, params, rows[tap], other, q, some, pair, comptime!(code.clone()), layout);
        }
        #[unroll]
        for filter in 0..comptime!(code.filters) {
            let weighed = value * Vector::new(down[comptime!(filter * taps + tap)]);
            if comptime!(tap == 0) {
                sums[filter] = weighed;
            } else {
                sums[filter] += weighed;
            }
        }
    }
}

#[cube(launch_unchecked)]
#[expect(clippy::too_many_arguments, reason = "the arguments of a kernel")]
fn filter_rows<N: Size>(
    reads: &Buffers,
    outputs: &mut Buffers,
    params: &Scalars,
    weights: &Scalars,
    height: u32,
    vectors: u32,
    chunk: u32,
    chunks: u32,
    steps: u32,
    #[comptime] code: StencilCode,
    #[comptime] layout: Layout,
    #[comptime] compiled: CompileCount,
) {
    count_compilation(compiled);
    let (radius, filters) = comptime!((code.radius, code.filters));
    let width = comptime!(layout.width);
    let taps = comptime!(2 * radius + 1);
    let items = height * chunks;
    let first = ABSOLUTE_POS as u32 * steps;
    let end = min(first + steps, items);
    for item in first..end {
        let mut y = item;
        let mut begin = 0usize;
        let mut stop = vectors as usize;
        if comptime!(!code.whole_rows) {
            let part = (item % chunks) * chunk;
            y = item / chunks;
            begin = part as usize;
            stop = min(part + chunk, vectors) as usize;
        }
        let last = vectors as usize - 1usize;
        let own_row = (y * vectors) as usize;
        let mut rows = Array::<usize>::new(taps);
        let mut down = Array::<f32>::new(comptime!(filters * taps));
        #[unroll]
        for tap in 0..taps {
            rows[tap] = (row_of(y, height, tap, radius, comptime!(code.border)) * vectors) as usize;
            if comptime!(code.border == Border::Zero) {
                rows[tap] = select(is_inside(y, height, tap, radius), rows[tap], OUTSIDE);
            }
            #[unroll]
            for filter in 0..filters {
                down[comptime!(filter * taps + tap)] = weight(weights, comptime!(filter * 2 * taps + tap));
            }
        }
        let mut before = Array::<Vector<f32, N>>::new(filters);
        let mut here = Array::<Vector<f32, N>>::new(filters);
        let mut after = Array::<Vector<f32, N>>::new(filters);
        let mut far = Array::<Vector<f32, N>>::new(filters);
        sum_rows::<N>(reads, params, &rows, &down, &mut here, begin, items, comptime!(code.clone()), layout);
        if begin > 0usize {
            sum_rows::<N>(
                reads,
                params,
                &rows,
                &down,
                &mut before,
                begin - 1usize,
                items,
                comptime!(code.clone()),
                layout,
            );
        } else {
            if comptime!(code.border == Border::Wrap) {
                sum_rows::<N>(reads, params, &rows, &down, &mut far, last, items, comptime!(code.clone()), layout);
            }
            #[unroll]
            for filter in 0..filters {
                if comptime!(code.border == Border::Wrap) {
                    before[filter] = far[filter];
                } else {
                    before[filter] = beyond::<N>(here[filter], here[filter], true, comptime!(code.clone()), width);
                }
            }
        }
        for q in begin..stop {
            if q < last {
                sum_rows::<N>(
                    reads,
                    params,
                    &rows,
                    &down,
                    &mut after,
                    q + 1usize,
                    items,
                    comptime!(code.clone()),
                    layout,
                );
            } else {
                if comptime!(code.border == Border::Wrap) {
                    sum_rows::<N>(
                        reads,
                        params,
                        &rows,
                        &down,
                        &mut far,
                        0usize,
                        items,
                        comptime!(code.clone()),
                        layout,
                    );
                }
                #[unroll]
                for filter in 0..filters {
                    if comptime!(code.border == Border::Wrap) {
                        after[filter] = far[filter];
                    } else {
                        after[filter] = beyond::<N>(here[filter], here[filter], false, comptime!(code.clone()), width);
                    }
                }
            }
            let mut values = Values::new();
            #[unroll]
            for filter in 0..filters {
                let mut sum = Vector::<f32, N>::new(0.0f32);
                #[unroll]
                for tap in 0..taps {
                    let offset = comptime!((tap as i32 - radius as i32) * code.channels as i32);
                    let lanes = shifted::<N>(before[filter], here[filter], after[filter], offset, width);
                    let own = weight(weights, comptime!((filter * 2 + 1) * taps + tap));
                    sum += lanes * Vector::new(own);
                }
                values.push::<Vector<f32, N>>(sum);
            }
            let at = Whereabouts { position: own_row + q, column: q, some: items };
            if comptime!(code.pixels.is_none()) {
                fragment_store(reads, outputs, params, &values, at, comptime!(code.store.clone()), layout);
            } else {
                let pixels = comptime!(code.pixels.clone().unwrap_or_else(|| code.store.clone()));
                let here = Whereabouts { position: own_row + q, column: q, some: items };
                let store = comptime!(code.store.clone());
                if comptime!(code.bytes) {
                    let value = fragment_value::<Vector<i32, N>>(reads, params, &values, at, store, layout);
                    pixels_store::<Vector<i32, N>>(value, outputs, params, here, pixels, true, layout);
                } else {
                    let value = fragment_value::<Vector<f32, N>>(reads, params, &values, at, store, layout);
                    pixels_store::<Vector<f32, N>>(value, outputs, params, here, pixels, false, layout);
                }
            }
            #[unroll]
            for filter in 0..filters {
                before[filter] = here[filter];
                here[filter] = after[filter];
            }
        }
    }
}
