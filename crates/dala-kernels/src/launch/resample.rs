//! The launcher of resampling in one pass, for cores: a unit sums rows into a row of its own, which stays in its cache, and makes the
//! new row's pixels from that, four at a time.

use cubecl::client::Client;
use cubecl::prelude::*;
use dala_spec::DeviceFacts;
use dala_spec::work::Resample;

use super::{Bound, Geometry, LaunchRefused};
use crate::device::args::{Buffers, Scalars};
use crate::device::arithmetic::Generator;
use crate::device::emit::Layout;
use crate::device::fragment::{
    CompileCount, Part, Values, Whereabouts, count_compilation, fragment_store, fragment_value,
};

/// What shapes the code.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
struct ResampleCode {
    load: Part,
    store: Part,
    taps: (usize, usize),
}

/// Pixels of a vector.
const GROUP: usize = Resample::LANES / Resample::CHANNELS;

pub(super) fn geometry(resample: &Resample, facts: &DeviceFacts) -> Geometry {
    Geometry::spread(resample.to.0, Resample::LANES, facts)
}

pub(super) fn launch(
    client: &Client,
    compiled: &CompileCount,
    resample: &Resample,
    geometry: Geometry,
    bound: &Bound,
) -> Result<(), LaunchRefused> {
    let Resample { from, to, taps, .. } = *resample;
    if !Resample::fits(bound.launch.facts, from, to, taps) {
        return Err(LaunchRefused("the picture or the device does not suit resampling in one pass".to_owned()));
    }
    geometry.check(to.0)?;
    let layout = bound.layout(Resample::LANES);
    let (vectors, groups) = (from.1 / GROUP, to.1 / GROUP);
    let first_rows = bound.slice(0, 4, to.0)?;
    let row_weights = bound.slice(1, 4, to.0 * taps.0)?;
    let first_columns = bound.slice(2, 4, to.1)?;
    let column_weights = bound.slice(3, 4 * Resample::LANES, groups * taps.1)?;
    let reads = bound.fragment_reads(&[&resample.load], layout, 4, from.0 * vectors, 0)?;
    let binding = layout.binding(resample.store.program.outputs()[0], 1);
    let output = bound.output(0, binding.elem, binding.width, to.0 * groups)?;
    let scratch = bound.slice_mut(1, 4 * Resample::CHANNELS, geometry.units as usize * from.1)?;
    let [load, store] = Part::each([&resample.load, &resample.store], 4);
    // SAFETY: windows of rows and columns lie inside the picture, as their maker made sure, and each unit has a row of its
    // own: the cubes of a unit run one after the other on a CPU.
    unsafe {
        resample_rows::launch_unchecked(
            client,
            geometry.count(),
            CubeDim::new_1d(geometry.units),
            Resample::LANES,
            Resample::CHANNELS,
            first_rows,
            row_weights,
            first_columns,
            column_weights,
            reads,
            vec![output],
            scratch,
            bound.scalars(),
            from.1 as u32,
            to.0 as u32,
            groups as u32,
            geometry.steps,
            ResampleCode { load, store, taps },
            layout,
            compiled.clone(),
        );
    }
    Ok(())
}

/// One pixel of a vector of four.
#[cube]
fn pixel<N: Size, Q: Size>(pixels: Vector<f32, N>, #[comptime] number: usize) -> Vector<f32, Q> {
    intrinsic!(|scope| {
        let make = Generator { scope, width: Resample::CHANNELS };
        let pixels = pixels.read_value(scope);
        let lanes: Vec<_> = (0..Resample::CHANNELS)
            .map(|channel| make.extract(pixels, number * Resample::CHANNELS + channel, Resample::LANES))
            .collect();
        make.construct(&lanes).into()
    })
}

/// Four pixels as one vector.
#[cube]
fn joined<N: Size, Q: Size>(
    a: Vector<f32, Q>,
    b: Vector<f32, Q>,
    c: Vector<f32, Q>,
    d: Vector<f32, Q>,
) -> Vector<f32, N> {
    intrinsic!(|scope| {
        let make = Generator { scope, width: Resample::LANES };
        let pixels = [a, b, c, d].map(|pixel| pixel.read_value(scope));
        let lanes: Vec<_> = (0..Resample::LANES)
            .map(|lane| make.extract(pixels[lane / Resample::CHANNELS], lane % Resample::CHANNELS, Resample::CHANNELS))
            .collect();
        make.construct(&lanes).into()
    })
}

#[cube(launch_unchecked)]
#[expect(clippy::too_many_arguments, reason = "the arguments of a kernel")]
fn resample_rows<N: Size, Q: Size>(
    first_rows: &[i32],
    row_weights: &[f32],
    first_columns: &[i32],
    column_weights: &[Vector<f32, N>],
    reads: &Buffers,
    outputs: &mut Buffers,
    scratch: &mut [Vector<f32, Q>],
    params: &Scalars,
    width: u32,
    rows: u32,
    groups: u32,
    steps: u32,
    #[comptime] code: ResampleCode,
    #[comptime] layout: Layout,
    #[comptime] compiled: CompileCount,
) {
    count_compilation(compiled);
    let (taps_down, taps_across) = comptime!((code.taps.0, code.taps.1));
    let nothing = Values::new();
    let vectors = width as usize / GROUP;
    let own = UNIT_POS as usize * width as usize;
    let first = ABSOLUTE_POS as u32 * steps;
    let end = min(first + steps, rows);
    for row in first..end {
        let top = first_rows[row as usize] as usize * vectors;
        let mut down = Array::<f32>::new(taps_down);
        #[unroll]
        for tap in 0..taps_down {
            down[tap] = row_weights[row as usize * taps_down + tap];
        }
        for v in 0..vectors {
            let mut sum = Vector::<f32, N>::new(0.0f32);
            #[unroll]
            for tap in 0..taps_down {
                let at = Whereabouts { position: top + tap * vectors + v, column: v, some: rows };
                let part = comptime!(code.load.clone());
                let value = fragment_value::<Vector<f32, N>>(reads, params, &nothing, at, part, layout);
                sum += value * Vector::new(down[tap]);
            }
            #[unroll]
            for number in 0..GROUP {
                scratch[own + v * GROUP + number] = pixel::<N, Q>(sum, number);
            }
        }
        for group in 0..groups as usize {
            let mut columns = Array::<usize>::new(GROUP);
            #[unroll]
            for number in 0..GROUP {
                columns[number] = own + first_columns[group * GROUP + number] as usize;
            }
            let mut sum = Vector::<f32, N>::new(0.0f32);
            #[unroll]
            for tap in 0..taps_across {
                let pixels = joined::<N, Q>(
                    scratch[columns[0] + tap],
                    scratch[columns[1] + tap],
                    scratch[columns[2] + tap],
                    scratch[columns[3] + tap],
                );
                sum += pixels * column_weights[group * taps_across + tap];
            }
            let mut values = Values::new();
            values.push::<Vector<f32, N>>(sum);
            let position = row as usize * groups as usize + group;
            let at = Whereabouts { position, column: group, some: rows };
            fragment_store(reads, outputs, params, &values, at, comptime!(code.store.clone()), layout);
        }
    }
}
