//! Pipelines as text: chains and TOML files, read, written, checked and planned.

use std::fmt::Write;

use dala_plan::PipelineText;
use dala_spec::{DType, ParamKind, TensorType};

use super::plan::Planner;
use crate::{Progress, Random, Target};

const STAGES: &[&str] = &["read", "written", "checked", "planned"];

const WORDS: [&str; 40] = [
    "[[stage]]\n",
    "kernel = ",
    "inputs = [",
    "input = ",
    "output = ",
    "params = { ",
    " }",
    "copy = ",
    "to = ",
    "barrier = true\n",
    "[buffers.a]\n",
    "dtype = ",
    "shape = [",
    "\"relu\"",
    "\"f32\"",
    "\"u8\"",
    "\"input\"",
    "\"output\"",
    "\"a\"",
    " | ",
    "(",
    ")",
    "=",
    ",",
    "[",
    "]",
    "true",
    "inf",
    "nan",
    "-",
    "1e400",
    "#",
    "'''",
    "\\u0000",
    "blur",
    "reduce_sum",
    "axes",
    "reflect",
    "\n",
    "é",
];

fn words(planner: &Planner) -> Vec<&'static str> {
    // The list of kernels lives as long as the program.
    let kernels = planner.kernels.iter().flat_map(|kernel| {
        let names = std::iter::once(&kernel.spec.name).chain(kernel.spec.params.iter().map(|param| &param.name));
        names.map(|name| &*name.clone().leak()).collect::<Vec<_>>()
    });
    WORDS.into_iter().chain(kernels).collect()
}

/// The type of what a text reads and does not declare: any text chooses one.
fn default_type(text: &str) -> TensorType {
    let shapes: [&[usize]; 6] = [&[48, 64, 3], &[5], &[2, 3, 4], &[480, 640, 4], &[1, 8, 8, 3], &[17, 33]];
    let seed = text.len();
    TensorType::new([DType::U8, DType::F32, DType::F32, DType::S32][seed % 4], shapes[seed / 4 % 6])
}

/// Reads what was read from text once more, from what is written of it; then checks and plans it.
#[expect(clippy::panic, reason = "a panic is how a target says that a rule was broken")]
fn read(text: &str, result: Result<PipelineText, dala_plan::TextError>, planner: &Planner, progress: &mut Progress) {
    let pipeline = match result {
        Ok(pipeline) => pipeline,
        Err(error) => {
            assert!(error.to_string().len() <= 4 * text.len() + 1000, "a long message");
            return progress.note_message(&error.message);
        }
    };
    progress.past("read");
    let written = pipeline.to_toml();
    match PipelineText::from_toml(&written) {
        // Compared as text: a NaN equals nothing.
        Ok(again) => assert_eq!(again.to_toml(), written, "written otherwise the second time"),
        Err(error) => panic!("does not read what it wrote: {}", error.message),
    }
    progress.past("written");
    planner.plan(&planner.bound(&pipeline, &default_type(text)), progress);
}

/// Chains: `blur(radius=3) | grayscale`.
#[derive(Default)]
pub(super) struct Chain {
    planner: Planner,
}

impl Target for Chain {
    fn name(&self) -> &'static str {
        "chain"
    }

    fn stages(&self) -> &'static [&'static str] {
        STAGES
    }

    fn short(&self) -> usize {
        80_000
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        let chains = [
            "blur(radius=3) | sharpen(amount=0.5) | grayscale",
            "relu(slope=0.1)|exp | scalar_mul( scalar = -2.5e-3 ,)",
            "reduce_sum(axes=[0, 1], keep_dims=true)",
            "transpose(axes=(2,0,1)) | softmax(axis=-1)",
            "pad(before=[1,1,0], after=[0,2,0], mode=reflect) | crop(top=1, left=1)",
            "clamp(min=-inf, max=inf) | brightness_contrast(contrast=-1)",
        ];
        chains.into_iter().map(|chain| chain.as_bytes().to_vec()).collect()
    }

    fn words(&self) -> Vec<&'static str> {
        words(&self.planner)
    }

    fn generate(&self, random: &mut Random) -> Option<Vec<u8>> {
        // Mostly kernels of one input, or the chain fits nothing.
        let mut text = String::new();
        for number in 0..1 + random.below(random.clone().pick(&[1, 2, 4, 12])) {
            let kernel = random.pick(&self.planner.kernels);
            if kernel.spec.inputs.len() != 1 && !random.chance(5) {
                continue;
            }
            text.push_str(if number > 0 && !text.is_empty() { " | " } else { "" });
            text.push_str(&kernel.spec.name);
            let params = params(&kernel.spec.params, random, 3);
            let params: Vec<String> = params.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
            if !params.is_empty() {
                let _ = write!(text, "({})", params.join(", ").replace('"', ""));
            }
        }
        Some(text.into_bytes())
    }

    fn run(&mut self, input: &[u8], progress: &mut Progress) {
        let text = String::from_utf8_lossy(input);
        read(&text, PipelineText::from_chain(&text), &self.planner, progress);
    }
}

/// Pipeline files.
#[derive(Default)]
pub(super) struct Toml {
    planner: Planner,
}

impl Target for Toml {
    fn name(&self) -> &'static str {
        "toml"
    }

    fn stages(&self) -> &'static [&'static str] {
        STAGES
    }

    fn short(&self) -> usize {
        80_000
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        let texts = [
            "[buffers.soft]\ndtype = \"u8\"\nshape = [480, 640, 4]\n\n[[stage]]\nkernel = \"blur\"\ninput = \"input\"\n\
             output = \"soft\"\nparams = { radius = 3, sigma = 1.5 }\n\n[[stage]]\ncopy = \"soft\"\nto = \"output\"\n",
            "[[stage]]\nkernel = 'elementwise_add'\ninputs = ['input', 'input']\noutput = 'a'\n[[stage]]\nbarrier = true\n\
             [[stage]]\nkernel = 'relu'\ninput = 'a'\noutput = 'b'\nparams.slope = 0.5\n",
            "stage = [{ kernel = 'exp', input = 'input', output = 'a' }, { copy = 'a', to = 'b' }]\n",
        ];
        texts.into_iter().map(|text| text.as_bytes().to_vec()).collect()
    }

    fn words(&self) -> Vec<&'static str> {
        words(&self.planner)
    }

    fn generate(&self, random: &mut Random) -> Option<Vec<u8>> {
        let names = ["input", "a", "b", "c", "output"];
        let mut text = String::new();
        for name in names {
            if random.chance(10) {
                let _ = write!(text, "[buffers.{name}]\n{}", declared(random));
            }
        }
        // Mostly from what was written to what was not.
        let mut last = 0;
        for _ in 0..1 + random.below(random.clone().pick(&[2, 4, 8, 20])) {
            let from = names[if random.chance(80) { last } else { random.below(names.len()) }];
            let next = if random.chance(80) { (last + 1) % names.len() } else { random.below(names.len()) };
            let to = names[next];
            match random.below(12) {
                0 => text.push_str("[[stage]]\nbarrier = true\n"),
                1 => {
                    let _ = write!(text, "[[stage]]\ncopy = \"{from}\"\nto = \"{to}\"\n");
                    last = next;
                }
                _ => {
                    let kernel = random.pick(&self.planner.kernels);
                    let inputs = vec![format!("\"{from}\""); kernel.spec.inputs.len()];
                    let _ = write!(
                        text,
                        "[[stage]]\nkernel = \"{}\"\ninputs = [{}]\n",
                        kernel.spec.name,
                        inputs.join(", ")
                    );
                    let params = params(&kernel.spec.params, random, 2);
                    let params: Vec<String> = params.iter().map(|(name, value)| format!("{name} = {value}")).collect();
                    let _ = write!(text, "output = \"{to}\"\nparams = {{ {} }}\n", params.join(", "));
                    last = next;
                }
            }
        }
        Some(text.into_bytes())
    }

    fn run(&mut self, input: &[u8], progress: &mut Progress) {
        let text = String::from_utf8_lossy(input);
        read(&text, PipelineText::from_toml(&text), &self.planner, progress);
    }
}

/// An element type and a shape, or one of them.
pub(super) fn declared(random: &mut Random) -> String {
    let mut text = String::new();
    if random.chance(90) {
        let _ = writeln!(text, "dtype = \"{}\"", random.pick(&DType::ALL));
    }
    if random.chance(90) {
        let _ = writeln!(text, "shape = {:?}", shape(random));
    }
    text
}

/// A shape: mostly a small one, at times one that fits no memory.
pub(super) fn shape(random: &mut Random) -> Vec<i64> {
    let rank = random.pick(&[0, 1, 1, 2, 2, 3, 3, 3, 4, 4, 5, 9]);
    let size = |random: &mut Random| match random.below(20) {
        0 => random.number().saturating_abs(),
        1 => random.pick(&[0, 65_535, 65_536, 1 << 16, 1 << 31]),
        _ => random.pick(&[1, 1, 2, 3, 4, 5, 7, 8, 16, 17, 33, 64]),
    };
    (0..rank).map(|_| size(random)).collect()
}

/// Values for params: most fit their kind, one in so many is anything.
pub(super) fn params(specs: &[dala_spec::ParamSpec], random: &mut Random, wild: usize) -> Vec<(String, String)> {
    let mut values = Vec::new();
    for spec in specs {
        // One without a default has to be there.
        if spec.default.is_some() && random.chance(50) {
            continue;
        }
        let value = if random.chance(wild) { any_value(random) } else { value(spec, random) };
        values.push((spec.name.clone(), value));
    }
    if random.chance(wild) {
        values.push((random.pick(&["axis", "radius", "é", "size", "scalar"]).to_owned(), any_value(random)));
    }
    values
}

fn value(spec: &dala_spec::ParamSpec, random: &mut Random) -> String {
    let small = |random: &mut Random| match spec.range {
        Some((min, max)) if random.chance(70) => {
            (min + random.below(1001) as f64 / 1000.0 * (max - min).min(20.0)) as i64
        }
        _ if random.chance(15) => random.number(),
        _ => random.below(5) as i64 - 1,
    };
    match &spec.kind {
        ParamKind::Int => small(random).to_string(),
        ParamKind::Number if random.chance(50) => small(random).to_string(),
        ParamKind::Float | ParamKind::Number => match spec.range {
            Some((min, max)) if random.chance(80) => {
                format!("{:?}", min + random.below(1001) as f64 / 1000.0 * (max - min).min(20.0))
            }
            _ => float(random),
        },
        ParamKind::Bool => random.chance(50).to_string(),
        ParamKind::Enum(words) => format!("\"{}\"", random.pick(words)),
        ParamKind::Ints(len) => list((0..*len).map(|_| small(random).to_string())),
        ParamKind::IntList => {
            let len = random.below(5);
            // As often as not, axes that are all there.
            let first = random.below(4) as i64;
            let rising = random.chance(40);
            list((0..len as i64).map(|place| if rising { first + place } else { small(random) }.to_string()))
        }
        ParamKind::Floats => {
            let len = random.pick(&[0, 1, 3, 3, 4, 9]);
            list((0..len).map(|_| float(random)))
        }
    }
}

fn float(random: &mut Random) -> String {
    // As TOML and chains write them.
    format!("{:?}", random.float()).to_ascii_lowercase()
}

fn list(values: impl Iterator<Item = String>) -> String {
    format!("[{}]", values.collect::<Vec<_>>().join(", "))
}

fn any_value(random: &mut Random) -> String {
    match random.below(6) {
        0 => random.number().to_string(),
        1 => float(random),
        2 => "true".to_owned(),
        3 => format!("\"{}\"", random.pick(&["clamp", "reflect", "", "x", "bilinear"])),
        4 => {
            let len = random.pick(&[0, 1, 2, 3, 40]);
            list((0..len).map(|_| random.number().to_string()))
        }
        _ => {
            let len = random.below(5);
            list((0..len).map(|_| float(random)))
        }
    }
}
