//! What a pixel costs in pictures of all sizes: none should be slow because of its width, its height or its channels.

use anyhow::Result;
use dala_compute::{DType, Device, Params, Plan, TensorType};

use super::plan_of;
use super::report::{Curve, Row, milliseconds};

const ROUNDS: usize = 20;
/// A size that seems to cost more than this times another is measured again beside it: what else the machine does only ever adds.
const EVEN: f64 = 1.1;
const MOST_REPEATS: usize = 60;
/// The other side, while one is varied: long enough for what a run costs beside its pixels not to count.
const OTHER: usize = 256;

/// Types and shapes of all inputs, and the shape of the result.
type Shapes = (Vec<(DType, Vec<usize>)>, Vec<usize>);

/// A kernel that is measured.
struct Case {
    name: &'static str,
    kernel: &'static str,
    params: fn() -> Params,
    /// The numbers of channels; none for matrices.
    channels: &'static [usize],
    /// What follows from height, width and channels.
    shapes: fn([usize; 3]) -> Shapes,
}

impl Case {
    /// How long sides are.
    fn lengths(&self) -> Vec<usize> {
        match self.kernel {
            "matmul" => (1000..=1030).collect(),
            _ => (1..=67).chain(1900..=1940).collect(),
        }
    }

    /// All sides but one of a product grow together, as people multiply square matrices.
    fn other(&self) -> usize {
        if self.kernel == "matmul" { 1024 } else { OTHER }
    }
}

/// A picture of bytes.
fn picture(size: [usize; 3]) -> (DType, Vec<usize>) {
    (DType::U8, size.to_vec())
}

fn floats(shape: &[usize]) -> (DType, Vec<usize>) {
    (DType::F32, shape.to_vec())
}

fn same(size: [usize; 3]) -> Shapes {
    (vec![picture(size)], size.to_vec())
}

fn cases() -> Vec<Case> {
    const ALL: &[usize] = &[1, 2, 3, 4];
    let filter = |name, kernel, params| Case { name, kernel, params, channels: ALL, shapes: same };
    let resize = |name, params, shapes| Case { name, kernel: "resize", params, channels: ALL, shapes };
    let matrix = |name, kernel, params, shapes| Case { name, kernel, params, channels: &[], shapes };
    let up = |size @ [height, width, channels]: [usize; 3]| {
        (vec![picture(size)], vec![height * 3 / 2, width * 3 / 2, channels])
    };
    let down = |size @ [height, width, channels]: [usize; 3]| {
        (vec![picture(size)], vec![height.div_ceil(2), width.div_ceil(2), channels])
    };
    let matrices = |[rows, columns, _]: [usize; 3]| (vec![floats(&[rows, columns])], vec![rows, columns]);
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
            shapes: |size @ [height, width, _]| (vec![picture(size)], vec![height, width]),
            ..filter("grayscale", "grayscale", Params::new)
        },
        Case {
            shapes: |size| (vec![picture(size), (DType::U8, vec![256])], size.to_vec()),
            ..filter("lut", "lut", Params::new)
        },
        filter("flip", "flip", Params::new),
        Case {
            shapes: |[height, width, channels]| {
                let inputs = [&[1, height, width, channels][..], &[3, 3, channels, 16], &[16]];
                (inputs.map(floats).to_vec(), vec![1, height, width, 16])
            },
            ..filter("conv2d 3 x 3", "conv2d", || Params::new().with("padding", vec![1, 1, 1, 1]))
        },
        matrix("softmax", "softmax", Params::new, matrices),
        matrix(
            "sum of rows",
            "reduce_sum",
            || Params::new().with("axes", vec![1]),
            |[rows, columns, _]| (vec![floats(&[rows, columns])], vec![rows]),
        ),
        matrix(
            "sum of columns",
            "reduce_sum",
            || Params::new().with("axes", vec![0]),
            |[rows, columns, _]| (vec![floats(&[rows, columns])], vec![columns]),
        ),
        matrix("matmul", "matmul", Params::new, |[rows, columns, _]| {
            (vec![floats(&[rows, 1024]), floats(&[1024, columns])], vec![rows, columns])
        }),
    ]
}

fn plan(device: &Device, case: &Case, size: [usize; 3]) -> Result<Plan> {
    let (inputs, result) = (case.shapes)(size);
    let dtype = inputs.first().map_or(DType::F32, |(dtype, _)| *dtype);
    let inputs = inputs.into_iter().map(|(dtype, shape)| TensorType::new(dtype, shape));
    plan_of(device, case.kernel, inputs, TensorType::new(dtype, result), (case.params)())
}

/// What pictures of each length cost, the best of several rounds by turns.
fn curve(device: &Device, case: &Case, side: &'static str, channels: usize) -> Result<Curve> {
    let other = case.other();
    let size = |length: usize| if side == "width" { [other, length, channels] } else { [length, other, channels] };
    let lengths = case.lengths();
    let plans = lengths.iter().map(|length| plan(device, case, size(*length))).collect::<Result<Vec<_>>>()?;
    let points = lengths.into_iter().map(|length| (length, f64::INFINITY)).collect();
    let mut curve = Curve { side, other, points };
    let again = |point: &mut (usize, f64), plan: &Plan| -> Result<()> {
        // The first finds caches full of other pictures, helpers asleep and kernels unbuilt.
        plan.run()?;
        let pixels = (point.0 * other) as f64 / 1e6;
        point.1 = point.1.min(milliseconds(|| Ok(plan.run()?))? / pixels);
        Ok(())
    };
    for _ in 0..ROUNDS {
        curve.points.iter_mut().zip(&plans).try_for_each(|(point, plan)| again(point, plan))?;
    }
    for _ in 0..MOST_REPEATS {
        let Some((worst, best)) = curve.worst().filter(|(worst, best)| worst.1 > EVEN * best.1) else { break };
        let pair: Vec<usize> = (0..plans.len()).filter(|at| [worst, best].contains(&curve.points[*at])).collect();
        for _ in 0..ROUNDS {
            pair.iter().try_for_each(|at| again(&mut curve.points[*at], &plans[*at]))?;
        }
    }
    Ok(curve)
}

pub(super) fn measure(device: &Device) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for case in cases() {
        let channels = if case.channels.is_empty() { &[1][..] } else { case.channels };
        for channels in channels.iter().copied() {
            let curves = ["width", "height"].map(|side| curve(device, &case, side, channels));
            let curves = curves.into_iter().collect::<Result<Vec<Curve>>>()?;
            let worst = curves.iter().filter_map(|curve| Some((curve, curve.worst()?)));
            let worst = worst.max_by(|(_, (a, b)), (_, (c, d))| (a.1 / b.1).total_cmp(&(c.1 / d.1)));
            let Some((curve, (worst, best))) = worst else { continue };
            let name = match (case.channels, channels) {
                ([], _) => case.name.to_owned(),
                (_, 1) => format!("{}, 1 channel", case.name),
                _ => format!("{}, {channels} channels", case.name),
            };
            let base = format!("{} {} beside {}", curve.side, worst.0, best.0);
            rows.push(Row { curves, ..Row::new(name, base, (worst.1, best.1)) });
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_is_found_beside_its_neighbours() {
        // Small ones cost more and do not count; 70 is slow beside 68; 1900 is far from both.
        let points = vec![(3, 90.0), (64, 9.0), (68, 2.0), (70, 3.0), (1900, 1.0), (1903, 1.1)];
        let curve = Curve { side: "width", other: 96, points };
        assert_eq!(curve.worst(), Some(((70, 3.0), (68, 2.0))));
        assert!(Curve { side: "width", other: 96, points: vec![(3, 1.0)] }.worst().is_none());
    }

    #[test]
    fn every_kernel_that_is_heavy_is_measured() {
        let names: Vec<&str> = cases().iter().map(|case| case.kernel).collect();
        for kernel in ["blur", "sharpen", "sobel", "resize", "grayscale", "lut", "conv2d", "matmul", "softmax"] {
            assert!(names.contains(&kernel), "{kernel}");
        }
    }
}
