//! What a pixel costs in pictures of all sizes: none should be slow because of its width, its height or its channels.

use anyhow::Result;
use dala_compute::{Buffer, DType, Device, Params, Pipeline, Plan, Stage};

use super::{Row, milliseconds};

/// Sizes that are compared are at most this much larger or smaller.
const NEAR: f64 = 0.05;
/// Smaller pictures cost more for each pixel, whatever their size.
const SMALL: usize = 64;
const ROUNDS: usize = 20;
/// The other side, while one is varied.
const OTHER: usize = 96;

/// Types and shapes of the inputs after the first, and the shape of the result.
type Shapes = (Vec<(DType, Vec<usize>)>, Vec<usize>);

/// A kernel that is measured.
struct Case {
    name: &'static str,
    kernel: &'static str,
    params: fn() -> Params,
    dtype: DType,
    /// The numbers of channels; none for matrices.
    channels: &'static [usize],
    /// What follows from the first input's shape.
    shapes: fn([usize; 3]) -> Shapes,
}

fn same([height, width, channels]: [usize; 3]) -> Shapes {
    (Vec::new(), vec![height, width, channels])
}

fn cases() -> Vec<Case> {
    const ALL: &[usize] = &[1, 3, 4];
    let filter = |name, kernel, params| Case { name, kernel, params, dtype: DType::U8, channels: ALL, shapes: same };
    let resize =
        |name, params, shapes| Case { name, kernel: "resize", params, dtype: DType::U8, channels: ALL, shapes };
    let matrix = |name, kernel, params, shapes| Case { name, kernel, params, dtype: DType::F32, channels: &[], shapes };
    let up = |[height, width, channels]: [usize; 3]| (Vec::new(), vec![height * 3 / 2, width * 3 / 2, channels]);
    let down =
        |[height, width, channels]: [usize; 3]| (Vec::new(), vec![height.div_ceil(2), width.div_ceil(2), channels]);
    vec![
        filter("blur radius 1", "blur", || Params::new().with("radius", 1)),
        filter("blur radius 3", "blur", || Params::new().with("radius", 3)),
        filter("blur radius 20", "blur", || Params::new().with("radius", 20)),
        filter("sharpen", "sharpen", Params::new),
        filter("sobel", "sobel", Params::new),
        resize("resize up, bilinear", Params::new, up),
        resize("resize up, bicubic", || Params::new().with("filter", "bicubic"), up),
        resize("resize down, bilinear", Params::new, down),
        resize("resize down, bicubic", || Params::new().with("filter", "bicubic"), down),
        Case {
            channels: &[3, 4],
            shapes: |[height, width, _]| (Vec::new(), vec![height, width]),
            ..filter("grayscale", "grayscale", Params::new)
        },
        Case {
            shapes: |[height, width, channels]| (vec![(DType::U8, vec![256])], vec![height, width, channels]),
            ..filter("lut", "lut", Params::new)
        },
        matrix("softmax", "softmax", Params::new, |[rows, columns, _]| (Vec::new(), vec![rows, columns])),
        matrix(
            "sum of rows",
            "reduce_sum",
            || Params::new().with("axes", vec![1]),
            |[rows, _, _]| (Vec::new(), vec![rows]),
        ),
        matrix(
            "sum of columns",
            "reduce_sum",
            || Params::new().with("axes", vec![0]),
            |[_, columns, _]| (Vec::new(), vec![columns]),
        ),
        matrix("matmul", "matmul", Params::new, |[rows, columns, _]| {
            (vec![(DType::F32, vec![columns, rows])], vec![rows, rows])
        }),
    ]
}

fn plan(device: &Device, case: &Case, size: [usize; 3]) -> Result<Plan> {
    let shape = if case.channels.is_empty() { size[..2].to_vec() } else { size.to_vec() };
    let (others, result) = (case.shapes)(size);
    let mut inputs = vec![Buffer::zeros(device, case.dtype, shape)?];
    for (dtype, shape) in others {
        inputs.push(Buffer::zeros(device, dtype, shape)?);
    }
    let output = Buffer::zeros(device, case.dtype, result)?;
    let stage = Stage::run_kernel(case.kernel, inputs.iter().collect::<Vec<_>>(), &output, (case.params)());
    Ok(device.compile(&Pipeline::new().stage(stage))?)
}

/// Milliseconds for a million pixels of each size, the best of several rounds by turns.
fn costs(device: &Device, case: &Case, sizes: &[[usize; 3]]) -> Result<Vec<f64>> {
    let plans = sizes.iter().map(|size| plan(device, case, *size)).collect::<Result<Vec<_>>>()?;
    let mut best = vec![f64::INFINITY; plans.len()];
    for round in 0..ROUNDS + 2 {
        for (plan, best) in plans.iter().zip(&mut best) {
            let time = milliseconds(|| Ok(plan.run()?))?;
            // The first ones build kernels.
            if round >= 2 {
                *best = best.min(time);
            }
        }
    }
    let pixels = |[height, width, _]: [usize; 3]| (height * width) as f64 / 1e6;
    Ok(best.into_iter().zip(sizes).map(|(time, size)| time / pixels(*size)).collect())
}

/// The worst cost beside the best one of a size that is nearly the same.
fn worst(lengths: &[usize], costs: &[f64]) -> (f64, f64) {
    let near = |a: usize, b: usize| (a as f64 - b as f64).abs() <= NEAR * a as f64;
    let of = |at: usize| {
        let best = (0..lengths.len()).filter(|other| near(lengths[at], lengths[*other]));
        (costs[at], best.map(|other| costs[other]).fold(f64::INFINITY, f64::min))
    };
    let all = (0..lengths.len()).filter(|at| lengths[*at] >= SMALL).map(of);
    all.max_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1))).unwrap_or((0.0, 0.0))
}

pub(super) fn measure(device: &Device) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for case in cases() {
        let channels = if case.channels.is_empty() { &[1][..] } else { case.channels };
        for channels in channels.iter().copied() {
            let lengths: Vec<usize> = match case.kernel {
                "matmul" => (1000..=1030).step_by(3).collect(),
                _ => (1..=67).chain(1900..=1940).collect(),
            };
            let wide: Vec<[usize; 3]> = lengths.iter().map(|width| [OTHER, *width, channels]).collect();
            let high: Vec<[usize; 3]> = lengths.iter().map(|height| [*height, OTHER, channels]).collect();
            let name = match case.channels {
                [] => case.name.to_owned(),
                _ => format!("{}, {channels} channels", case.name),
            };
            for (side, sizes) in [("width", wide), ("height", high)] {
                let found = costs(device, &case, &sizes)?;
                rows.push(Row::new(format!("{name}, {side}"), "best near it", worst(&lengths, &found)));
            }
        }
    }
    Ok(rows)
}
