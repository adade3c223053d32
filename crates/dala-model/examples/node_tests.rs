//! Runs the node tests of the `onnx` package, which `scripts/onnx-node-tests` writes, and says which operators give what they must.
//!
//! `node_tests [--device NAME] [--dir FOLDER] [--list] [--operators] [FILTER]...`
//!
//! A line for each case that is wrong or refused, with `--list` for each that passed as well, with `--operators` for each operator,
//! and the counts. A filter is part of a case's name, or an operator with `=` before it: `=Conv`. Exits with 1 if a case is wrong.
#![allow(clippy::print_stdout, missing_docs, reason = "a measurement that people run")]

use std::collections::BTreeMap;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use dala_compute::Device;
use dala_model::proto::{ModelProto, TensorProto, ValueInfoProto};
use prost::Message;
use values::{difference, elements, run};

#[path = "../tests/support/values.rs"]
mod values;

/// The versions of the operators that are read; what is older or newer is read as the nearest.
const OLDEST: i64 = 7;
const NEWEST: i64 = 23;

struct Options {
    device: String,
    folder: PathBuf,
    list: bool,
    operators: bool,
    filters: Vec<String>,
}

impl Options {
    fn read(mut words: impl Iterator<Item = String>) -> Result<Options, Box<dyn Error>> {
        let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
        let folder = home.join(".cache/dala-compute/onnx-nodes");
        let mut options =
            Options { device: "cpu".to_owned(), folder, list: false, operators: false, filters: Vec::new() };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
            match word.as_str() {
                "--device" => options.device = value()?,
                "--dir" => options.folder = value()?.into(),
                "--list" => options.list = true,
                "--operators" => options.operators = true,
                option if option.starts_with('-') => return Err(format!("there is no option {option}").into()),
                _ => options.filters.push(word),
            }
        }
        Ok(options)
    }
}

/// How a case went.
enum Verdict {
    Passed,
    Wrong(String),
    Refused(String),
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let options = Options::read(std::env::args().skip(1))?;
    let device = Device::open(&options.device)?;
    let folder = std::fs::read_dir(&options.folder)
        .map_err(|error| format!("{}: {error}; scripts/onnx-node-tests writes it", options.folder.display()))?;
    let mut cases: Vec<PathBuf> = folder.flatten().map(|entry| entry.path()).collect();
    cases.retain(|path| path.join("model.onnx").is_file());
    cases.sort();
    // What a panic says is shown in its case's line.
    std::panic::set_hook(Box::new(|_| {}));
    let mut counts: BTreeMap<String, [usize; 3]> = BTreeMap::new();
    for path in cases {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let case = Case::open(&path)?;
        let operator = case.operator();
        let chosen = |filter: &String| match filter.strip_prefix('=') {
            Some(own) => own == operator,
            None => name.contains(filter),
        };
        if !options.filters.is_empty() && !options.filters.iter().any(chosen) {
            continue;
        }
        let verdict = catch_unwind(AssertUnwindSafe(|| case.check(&device)));
        let verdict = verdict.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            Verdict::Wrong(format!("panic: {}", text.or(panic.downcast_ref::<&str>().copied()).unwrap_or_default()))
        });
        let place = match &verdict {
            Verdict::Passed => 0,
            Verdict::Wrong(_) => 1,
            Verdict::Refused(_) => 2,
        };
        counts.entry(operator).or_default()[place] += 1;
        match verdict {
            Verdict::Passed if options.list => println!("passed   {name}"),
            Verdict::Passed => {}
            Verdict::Wrong(why) => println!("wrong    {name}: {}", why.replace('\n', " ")),
            Verdict::Refused(why) => println!("refused  {name}: {}", why.replace('\n', " ")),
        }
    }
    if options.operators {
        for (operator, [passed, wrong, refused]) in &counts {
            println!("operator {operator}: {passed} passed, {wrong} wrong, {refused} refused");
        }
    }
    let sum = |place: usize| counts.values().map(|counts| counts[place]).sum::<usize>();
    println!("{} passed, {} wrong, {} refused", sum(0), sum(1), sum(2));
    Ok(if sum(1) == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A model, and what must come out of it for what goes in.
struct Case {
    model: ModelProto,
    /// Inputs and outputs of each run; `None` for what is no tensor.
    sets: Vec<[Vec<Option<TensorProto>>; 2]>,
    rtol: f64,
    atol: f64,
}

impl Case {
    fn open(path: &Path) -> Result<Case, Box<dyn Error>> {
        let mut model = ModelProto::decode(std::fs::read(path.join("model.onnx"))?.as_slice())?;
        model.opset_import.iter_mut().for_each(|set| set.version = set.version.clamp(OLDEST, NEWEST));
        let graph = model.graph.clone().unwrap_or_default();
        let mut sets = Vec::new();
        loop {
            let folder = path.join(format!("test_data_set_{}", sets.len()));
            if !folder.is_dir() {
                break;
            }
            let values = |kind: &str, ports: &[ValueInfoProto]| {
                let file = |(number, port): (usize, &ValueInfoProto)| {
                    let bytes = std::fs::read(folder.join(format!("{kind}_{number}.pb"))).ok()?;
                    let tensor = TensorProto::decode(bytes.as_slice()).ok()?;
                    Some(TensorProto { name: port.name.clone(), ..tensor })
                };
                ports.iter().enumerate().map(file).collect()
            };
            sets.push([values("input", &graph.input), values("output", &graph.output)]);
        }
        let tolerance = std::fs::read_to_string(path.join("tolerance.json"))?;
        let number = |name: &str| -> Result<f64, Box<dyn Error>> {
            let (_, rest) = tolerance.split_once(&format!("\"{name}\":")).ok_or("no tolerance")?;
            Ok(rest.split([',', '}']).next().unwrap_or_default().trim().parse()?)
        };
        Ok(Case { rtol: number("rtol")?, atol: number("atol")?, model, sets })
    }

    /// The operator that it is about; of functions that are spelled out, no one.
    fn operator(&self) -> String {
        match self.model.graph.as_ref().map(|graph| graph.node.as_slice()) {
            Some([node]) => node.op_type.clone(),
            _ => "several".to_owned(),
        }
    }

    fn check(&self, device: &Device) -> Verdict {
        for [inputs, outputs] in &self.sets {
            if inputs.iter().chain(outputs).any(Option::is_none) {
                return Verdict::Refused("it has values that are no tensors".to_owned());
            }
            let inputs: Vec<TensorProto> = inputs.iter().flatten().cloned().collect();
            let found = match run(device, &self.model, &inputs) {
                Ok(found) => found,
                Err(error) if error.code() == "internal" => return Verdict::Wrong(error.to_string()),
                Err(error) => return Verdict::Refused(error.to_string()),
            };
            for (place, (expected, found)) in outputs.iter().flatten().zip(&found).enumerate() {
                let expected = match elements(expected.clone()) {
                    Ok(expected) => expected,
                    Err(error) => return Verdict::Refused(error.to_string()),
                };
                let is_float = expected.0.dtype.is_float();
                let allowed = |value: f64| if is_float { self.atol + self.rtol * value.abs() } else { 0.0 };
                if let Some(why) = difference(found, &expected, allowed) {
                    return Verdict::Wrong(format!("output {place}: {why}"));
                }
            }
        }
        Verdict::Passed
    }
}
