//! Calls of every kernel, with types, shapes and params that nobody thought of. Written as a pipeline of one stage, so that one
//! that fails can be read.

use std::fmt::Write;

use dala_kernels::{Kernel, Work};
use dala_plan::{PipelineText, StageSpec};
use dala_spec::{DType, Data, OutputShape, ParamValue, Scalar, TensorType, validate};

use super::pipeline::{params, shape};
use super::plan::Planner;
use crate::{Progress, Random, Target};

/// The most elements of a call that is also computed in plain Rust.
const MOST_COMPUTED: usize = 2048;

#[derive(Default)]
pub(super) struct Params {
    planner: Planner,
}

impl Target for Params {
    fn name(&self) -> &'static str {
        "params"
    }

    fn stages(&self) -> &'static [&'static str] {
        &["read", "checked", "planned", "computed"]
    }

    fn short(&self) -> usize {
        60_000
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        self.planner.kernels.iter().map(|kernel| written(kernel, &mut Random::new(0), true).into_bytes()).collect()
    }

    fn words(&self) -> Vec<&'static str> {
        vec![
            "\"f32\"",
            "\"f64\"",
            "\"u8\"",
            "\"s64\"",
            "shape = [",
            "0, ",
            "1, ",
            "-1",
            "nan",
            "inf",
            "true",
            "[",
            "]",
            "\"a0\"",
        ]
    }

    fn generate(&self, random: &mut Random) -> Option<Vec<u8>> {
        let kernel = random.pick(&self.planner.kernels);
        Some(written(&kernel, random, false).into_bytes())
    }

    fn run(&mut self, input: &[u8], progress: &mut Progress) {
        let text = String::from_utf8_lossy(input);
        let Ok(pipeline) = PipelineText::from_toml(&text) else { return };
        progress.past("read");
        let spec = self.planner.bound(&pipeline, &TensorType::new(DType::F32, [4, 5, 3]));
        self.planner.plan(&spec, progress);
        let Ok(checked) = spec.check(|name| self.planner.registry.get(name).map(|kernel| &kernel.spec)) else { return };
        let ([StageSpec::Run { kernel, .. }], [Some(signature)]) = (&spec.stages[..], &checked.signatures[..]) else {
            return;
        };
        let Ok(kernel) = self.planner.registry.get(kernel) else { return };
        // What was found valid is valid again.
        let given = text_params(&spec.stages[0]);
        let again = validate(&kernel.spec, &signature.inputs, &signature.output, &given);
        assert!(again.is_ok(), "found valid once, and not again");
        let elements = signature.inputs.iter().chain([&signature.output]).map(|ty| ty.shape.len());
        let wide = |value: &ParamValue| match value {
            ParamValue::Int(value) => *value > 16,
            ParamValue::Float(value) => *value > 16.0,
            _ => false,
        };
        // References are written for reading: what they do with wide windows takes long.
        if elements.fold(0, usize::saturating_add) > MOST_COMPUTED || given.iter().any(|(_, value)| wide(value)) {
            return;
        }
        let mut random = Random::new(input.len() as u64);
        let inputs: Vec<Data> = signature.inputs.iter().map(|ty| data(ty, &mut random)).collect();
        match kernel.on_host(signature, &inputs) {
            Ok(Some(result)) => {
                assert_eq!(result.len(), signature.output.shape.len(), "the reference gives too few or many elements");
                progress.past("computed");
            }
            Ok(None) => progress.note("no reference"),
            Err(error) => progress.note(error.code()),
        }
    }
}

fn text_params(stage: &StageSpec) -> dala_spec::Params {
    match stage {
        StageSpec::Run { params, .. } => params.clone(),
        _ => dala_spec::Params::new(),
    }
}

fn data(ty: &TensorType, random: &mut Random) -> Data {
    let value = |_| match ty.dtype.is_float() {
        true => Scalar::from_f64(ty.dtype, random.float()),
        false => Scalar::from_i64(ty.dtype, random.number()),
    };
    Data::collect(ty.dtype, (0..ty.shape.len()).map(value).collect::<Vec<_>>())
}

/// A call of a kernel. One that is plain is its example.
fn written(kernel: &Kernel, random: &mut Random, plain: bool) -> String {
    let spec = &kernel.spec;
    let mut shapes: Vec<Vec<i64>> = match kernel.example {
        Some(example) => example.inputs.iter().map(|dims| dims.iter().map(|size| *size as i64).collect()).collect(),
        None => vec![vec![4, 5, 3]; spec.inputs.len()],
    };
    if !plain {
        if matches!(kernel.work, Work::Pointwise(_)) && random.chance(60) {
            let all = shape(random);
            shapes.iter_mut().for_each(|own| own.clone_from(&all));
        }
        (0..random.below(4)).for_each(|_| bend(&mut shapes, random));
        if random.chance(10) && spec.max_inputs > shapes.len() {
            let extra = random.below(spec.max_inputs.min(6));
            shapes.extend(std::iter::repeat_n(shapes.last().cloned().unwrap_or_default(), extra));
        }
    }
    let one = random.pick(&DType::ALL);
    let mut text = String::new();
    for (number, shape) in shapes.iter().enumerate() {
        let known = spec.input_at(number).map_or(&[DType::F32][..], |input| input.dtypes);
        let dtype = match () {
            () if plain => known[0],
            // Most kernels want one type for all.
            () if known.contains(&one) && random.chance(85) => one,
            () if random.chance(95) => random.pick(known),
            () => random.pick(&DType::ALL),
        };
        let _ = write!(text, "[buffers.a{number}]\ndtype = \"{dtype}\"\nshape = {shape:?}\n");
    }
    let free = matches!(spec.output.shape, OutputShape::Any | OutputShape::Image | OutputShape::Computed(_));
    if plain || free || random.chance(10) {
        let dims = match kernel.example {
            _ if !plain && random.chance(30) => shape(random),
            Some(example) => example.output.iter().map(|size| *size as i64).collect(),
            None => shapes.first().cloned().unwrap_or_else(|| vec![4, 5, 3]),
        };
        let dtype = kernel.example.and_then(|example| example.dtype).unwrap_or(if plain { DType::F32 } else { one });
        // Left out where it follows: then it fits.
        match random.below(4) {
            0 | 1 if !plain => {}
            2 if !plain => {
                let _ = write!(text, "[buffers.out]\nshape = {dims:?}\n");
            }
            _ => {
                let _ = write!(text, "[buffers.out]\ndtype = \"{dtype}\"\nshape = {dims:?}\n");
            }
        }
    }
    let inputs: Vec<String> = (0..shapes.len()).map(|number| format!("\"a{number}\"")).collect();
    let _ = write!(text, "[[stage]]\nkernel = \"{}\"\ninputs = [{}]\noutput = \"out\"\n", spec.name, inputs.join(", "));
    let values: Vec<String> = match kernel.example {
        Some(example) if plain || random.chance(30) => {
            let params = (example.params)();
            params.iter().map(|(name, value)| format!("{name} = {}", toml_value(value))).collect()
        }
        _ => params(&spec.params, random, 3).into_iter().map(|(name, value)| format!("{name} = {value}")).collect(),
    };
    let _ = writeln!(text, "params = {{ {} }}", values.join(", "));
    text
}

fn toml_value(value: &ParamValue) -> String {
    match value {
        ParamValue::Enum(word) => format!("{word:?}"),
        // Lists have other brackets in messages.
        other => other.to_string().replace('{', "[").replace('}', "]"),
    }
}

/// Another size, in all places where there was the old one, so that what belongs together stays equal; at times in one.
fn bend(shapes: &mut [Vec<i64>], random: &mut Random) {
    let sizes: Vec<i64> = shapes.iter().flatten().copied().collect();
    if sizes.is_empty() {
        return;
    }
    let old = random.pick(&sizes);
    let new = match random.below(12) {
        0 => random.number().saturating_abs(),
        1 => random.pick(&[0, 65_536, 1 << 31, 1 << 20]),
        _ => random.pick(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 33, 64]),
    };
    let single = random.chance(25);
    for size in shapes.iter_mut().flatten().filter(|size| **size == old) {
        *size = new;
        if single {
            return;
        }
    }
}
