//! Random pipelines: fused, unfused, stage by stage, and the references of their stages must agree.

use dala_compute::{
    Buffer, DType, Data, Device, Error, Operand, Params, Pipeline, PlanOptions, Scalar, Stage, TensorType, Transient,
};

use crate::support::{Random, device_names, ordinary, upload};

/// A buffer of a random pipeline.
#[derive(Clone)]
struct Cell {
    ty: Option<TensorType>,
    transient: bool,
    written: bool,
    /// Whether the pipeline is told the transient's type.
    declared: bool,
}

/// One stage over numbered buffers.
#[derive(Clone, Debug)]
enum Step {
    Run(&'static str, Vec<usize>, usize, Params),
    Copy(usize, usize),
    Barrier,
}

struct Sketch {
    cells: Vec<Cell>,
    steps: Vec<Step>,
}

const PICTURES: [&[usize]; 4] = [&[6, 16, 4], &[6, 16], &[5, 16, 3], &[7, 9, 4]];
const LINES: [&[usize]; 3] = [&[48], &[6, 16], &[4, 33]];

fn random_type(random: &mut Random) -> TensorType {
    match random.below(3) {
        0 => TensorType::new(DType::U8, random.pick(&PICTURES)),
        1 => TensorType::new(DType::F32, random.pick(&PICTURES)),
        _ => TensorType::new(random.pick(&DType::ALL), random.pick(&LINES)),
    }
}

impl Sketch {
    /// Up to 40 stages over 12 buffers, mixed types, transients, barriers, copies, in-place stages.
    fn random(random: &mut Random) -> Sketch {
        let few: Vec<TensorType> = (0..3).map(|_| random_type(random)).collect();
        let cells = (0..12)
            .map(|index| {
                let transient = index > 0 && random.below(5) > 1;
                let ty = (!transient).then(|| random.pick(&few));
                Cell { written: !transient, ty, transient, declared: random.below(2) == 0 }
            })
            .collect();
        let mut sketch = Sketch { cells, steps: Vec::new() };
        let wanted = 1 + random.below(40).min(random.below(40));
        for _ in 0..20 * wanted {
            if sketch.steps.len() == wanted {
                break;
            }
            sketch.add(random);
        }
        // Some of what would be gone at the end is to be looked at, so that the work for it is done.
        for cell in sketch.cells.iter_mut().filter(|cell| cell.ty.is_some()) {
            cell.transient &= random.below(3) > 0;
        }
        sketch
    }

    fn add(&mut self, random: &mut Random) {
        if random.below(20) == 0 {
            self.steps.push(Step::Barrier);
            return;
        }
        let written: Vec<usize> = (0..self.cells.len()).filter(|cell| self.cells[*cell].written).collect();
        // Mostly what was just made, so that chains come about.
        let last = self.steps.iter().rev().find_map(|step| match step {
            Step::Run(_, _, output, _) | Step::Copy(_, output) => Some(*output),
            Step::Barrier => None,
        });
        let from = last.filter(|_| random.below(3) > 0).unwrap_or_else(|| random.pick(&written));
        let Some(ty) = self.cells[from].ty.clone() else { return };
        if random.below(12) == 0 {
            if let Some(to) = self.target(random, &ty)
                && to != from
            {
                self.steps.push(Step::Copy(from, to));
            }
            return;
        }
        let Some((kernel, others, output, params)) = call(random, &ty) else { return };
        let mut inputs = vec![from];
        if others > 0 {
            let alike: Vec<usize> =
                written.iter().copied().filter(|cell| self.cells[*cell].ty.as_ref() == Some(&ty)).collect();
            inputs.push(random.pick(&alike));
        }
        if let Some(to) = self.target(random, &output) {
            // What does not follow from the stage must be said.
            self.cells[to].declared |= output.dtype != ty.dtype || kernel == "cast";
            self.steps.push(Step::Run(kernel, inputs, to, params));
        }
    }

    /// A buffer of that type to write to: one that has it, or one that has none yet.
    fn target(&mut self, random: &mut Random, ty: &TensorType) -> Option<usize> {
        let fits = |cell: &Cell| cell.ty.as_ref().is_none_or(|own| own == ty);
        let fitting: Vec<usize> = (0..self.cells.len()).filter(|cell| fits(&self.cells[*cell])).collect();
        if fitting.is_empty() {
            return None;
        }
        let to = random.pick(&fitting);
        self.cells[to].ty = Some(ty.clone());
        self.cells[to].written = true;
        Some(to)
    }

    fn build(&self, device: &Device, random: &mut Random) -> (Pipeline, Vec<Option<Buffer>>) {
        let mut buffers = Vec::new();
        let mut operands = Vec::new();
        for cell in &self.cells {
            match (&cell.ty, cell.transient) {
                (Some(ty), false) => {
                    let buffer = upload(device, &ordinary(random, ty), ty.shape.clone());
                    operands.push(Operand::from(&buffer));
                    buffers.push(Some(buffer));
                }
                (ty, _) => {
                    let mut transient = Transient::new();
                    if let (Some(ty), true) = (ty, cell.declared) {
                        transient = transient.dtype(ty.dtype).shape(ty.shape.clone());
                    }
                    operands.push(Operand::from(&transient));
                    buffers.push(None);
                }
            }
        }
        let stage = |step: &Step| match step {
            Step::Run(kernel, inputs, output, params) => {
                let inputs = inputs.iter().map(|input| &operands[*input]);
                Stage::run_kernel(*kernel, inputs, &operands[*output], params)
            }
            Step::Copy(from, to) => Stage::copy_buffer(&operands[*from], &operands[*to]),
            Step::Barrier => Stage::barrier(),
        };
        (Pipeline::from(self.steps.iter().map(stage).collect::<Vec<_>>()), buffers)
    }
}

/// A kernel for elements of this type: its name, how many more inputs of the type it takes, its output's type, its params.
fn call(random: &mut Random, ty: &TensorType) -> Option<(&'static str, usize, TensorType, Params)> {
    let none = Params::new;
    let same = ty.clone();
    let dims = ty.shape.dims();
    let image = ty.shape.image();
    let pixel = matches!(ty.dtype, DType::U8 | DType::F32) && image.is_some();
    let float = ty.dtype.is_float();
    let number = random.pick(if matches!(ty.dtype, DType::U32 | DType::U64) {
        &[3.0, 0.5, 0.75, 1.5, 2.0]
    } else {
        &[-1.0, 0.5, 0.75, 1.5, 2.0]
    });
    Some(match random.below(if pixel { 16 } else { 11 }) {
        0 => ("scalar_mul", 0, same, none().with("scalar", number)),
        1 => ("scalar_add", 0, same, none().with("scalar", number)),
        2 => ("relu", 0, same, none().with("slope", random.pick(&[0.0, 0.25]))),
        3 => (
            random.pick(&["elementwise_add", "elementwise_sub", "elementwise_max", "elementwise_min"]),
            1,
            same,
            none(),
        ),
        4 => ("elementwise_mul", 1, same, none()),
        5 => ("clamp", 0, same, none().with("min", 0).with("max", 200)),
        6 => (random.pick(&["abs", "neg", "copy"]), 0, same, none()),
        7 if float => (random.pick(&["sigmoid", "tanh"]), 0, same, none()),
        8 => ("cast", 0, TensorType::new(random.pick(&[DType::F32, DType::U8, DType::S32]), ty.shape.clone()), none()),
        9 | 10 if dims.is_empty() => return None,
        9 if float => (random.pick(&["softmax", "log_softmax"]), 0, same, none()),
        9 => ("transpose", 0, TensorType::new(ty.dtype, dims.iter().rev().copied().collect::<Vec<_>>()), none()),
        10 => {
            let (kernel, dtype) = match random.below(2) {
                0 => ("reduce_max", ty.dtype),
                _ => ("reduce_sum", if ty.dtype.narrow_range().is_some() { DType::S32 } else { ty.dtype }),
            };
            (kernel, 0, TensorType::new(dtype, &dims[..dims.len() - 1]), none().with("axes", dims.len() as i64 - 1))
        }
        11 => ("blur", 0, same, none().with("radius", random.pick(&[1i64, 2]))),
        12 => ("sharpen", 0, same, none().with("amount", 0.5)),
        13 => ("brightness_contrast", 0, same, none().with("brightness", 0.1).with("contrast", 1.2)),
        14 if dims.len() == 3 => ("grayscale", 0, TensorType::new(ty.dtype, &dims[..2]), none()),
        14 => ("flip", 0, same, none()),
        15 => (random.pick(&["threshold", "sobel", "box_blur"]), 0, same, none()),
        _ => return None,
    })
}

fn cases() -> u64 {
    std::env::var("DALA_PIPELINE_CASES").ok().and_then(|count| count.parse().ok()).unwrap_or(100)
}

fn contents(buffers: &[Option<Buffer>]) -> Vec<Option<Data>> {
    buffers.iter().map(|buffer| buffer.as_ref().map(|buffer| buffer.read_data().unwrap())).collect()
}

fn restore(buffers: &[Option<Buffer>], data: &[Option<Data>]) {
    for (buffer, data) in buffers.iter().zip(data) {
        if let (Some(buffer), Some(data)) = (buffer, data) {
            buffer.write_bytes(&data.to_bytes()).unwrap();
        }
    }
}

/// Whether two results agree: integers equal, bytes one level apart at most in few places, floats close.
fn agree(expected: &Data, actual: &Data, stages: usize) -> Result<(), String> {
    let mut off = 0;
    for (index, (e, a)) in expected.iter().zip(actual.iter()).enumerate() {
        let (x, y) = (e.as_f64(), a.as_f64());
        let fine = match expected.dtype() {
            dtype if dtype.narrow_range().is_some() => {
                off += usize::from(x != y);
                (x - y).abs() <= 1.0
            }
            dtype if dtype.is_float() => {
                // 16-bit floats are rounded in each stage, from values that are close in f32.
                let each = if dtype.size() == 2 { 2.0 } else { 64.0 };
                let close = each * stages as f64 * dtype.epsilon() * x.abs().max(1.0);
                x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= close
            }
            _ => same_integer(e, a),
        };
        if !fine {
            return Err(format!("element {index} is {a}, and should be {e}"));
        }
    }
    match off as f64 > (expected.len() as f64 * 0.001).max(1.0) {
        true => Err(format!("{off} of {} bytes are one level off", expected.len())),
        false => Ok(()),
    }
}

fn same_integer(a: Scalar, b: Scalar) -> bool {
    a.as_i64() == b.as_i64()
}

#[test]
fn random_pipelines() {
    for name in device_names() {
        let device = Device::open(&name).unwrap();
        let (mut compared, mut refused, mut stages, mut launches, mut exact) = (0, 0, 0, 0, 0);
        for seed in 0.. {
            if compared == cases() {
                break;
            }
            assert!(seed < 4 * cases() + 40, "{name} refuses too many");
            let mut random = Random(seed * 7919 + 1);
            let sketch = Sketch::random(&mut random);
            let (pipeline, buffers) = sketch.build(&device, &mut random);
            let what = || format!("{name}, seed {seed}: {:?}", sketch.steps);
            let plan = match device.compile(&pipeline) {
                Ok(plan) => plan,
                Err(Error::Pipeline { problems }) if problems.iter().all(|problem| problem.code() == "unsupported") => {
                    refused += 1;
                    continue;
                }
                Err(error) => panic!("{}: {error}", what()),
            };
            let explain = || format!("{}\n{}", what(), plan.explain());
            // Every stage against its reference, and the fused plan against the stages.
            let found = plan.verify(&[]).unwrap_or_else(|error| panic!("{}: {error}", explain()));
            assert!(found.is_right(), "{}\n{}", found.difference.unwrap(), explain());
            // The plan without fusion against the plan, in place: memory and order are the planner's alone.
            let before = contents(&buffers);
            let unfused = device.compile_with(&pipeline, PlanOptions::unfused()).unwrap();
            unfused.run().unwrap_or_else(|error| panic!("{}: {error}", what()));
            let expected = contents(&buffers);
            for round in 0..3 {
                restore(&buffers, &before);
                plan.run().unwrap_or_else(|error| panic!("{}: {error}", explain()));
                let actual = contents(&buffers);
                for (cell, (expected, actual)) in expected.iter().zip(&actual).enumerate() {
                    if let (Some(expected), Some(actual)) = (expected, actual) {
                        let agreed = agree(expected, actual, sketch.steps.len());
                        agreed.unwrap_or_else(|why| panic!("run {round}, buffer {cell}: {why}\n{}", explain()));
                    }
                }
                exact += u64::from(round == 0 && expected == actual);
            }
            compared += 1;
            stages += plan.stage_count();
            launches += plan.launches();
        }
        println!(
            "random pipelines on {name}: {compared} compared ({exact} to the bit), {refused} refused by element type, {stages} stages in {launches} launches"
        );
    }
}
