//! The names of the API: whatever a public function takes or gives can be written down by its user.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Names of the language and of the standard library.
const KNOWN: &[&str] = &[
    "Arc",
    "AsRef",
    "Box",
    "Context",
    "Duration",
    "Fn",
    "FnMut",
    "FnOnce",
    "From",
    "Into",
    "IntoIterator",
    "Item",
    "Iterator",
    "None",
    "Option",
    "Output",
    "Path",
    "Pin",
    "Poll",
    "Result",
    "Self",
    "Send",
    "Some",
    "String",
    "Sync",
    "Vec",
];

fn files(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files(&path, found),
            false => found.push((path.display().to_string(), fs::read_to_string(&path).unwrap())),
        }
    }
}

/// The capitalised words of a text.
fn types(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    // One letter is a parameter of the function.
    words.filter(|word| word.len() > 1 && word.starts_with(|c: char| c.is_ascii_uppercase()))
}

/// What the crate hands out: at its root, and in its public modules.
fn handed_out(sources: &[(String, String)]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (path, text) in sources {
        let module = ["lib.rs", "kernel.rs", "interop.rs", "trace/mod.rs"].iter().any(|own| path.ends_with(own));
        if !module || path.contains("engine") {
            continue;
        }
        for (at, _) in text.match_indices("pub use ") {
            names.extend(types(&text[at..at + text[at..].find(';').unwrap()]).map(str::to_owned));
        }
        for kind in ["pub struct ", "pub enum ", "pub trait ", "pub type "] {
            names.extend(text.match_indices(kind).filter_map(|(at, _)| types(&text[at..]).next()).map(str::to_owned));
        }
    }
    names
}

/// The lint against `pub` items that nobody reaches is an error: every `pub fn` is one of the API's.
#[test]
fn what_functions_take_and_give_has_a_public_name() {
    let mut sources = Vec::new();
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut sources);
    let names = handed_out(&sources);
    assert!(names.len() > 100 && names.contains("Buffer") && names.contains("CubeFunction"), "{names:?}");
    let (mut missing, mut count) = (BTreeMap::new(), 0);
    for (path, text) in &sources {
        for (at, _) in text.match_indices("pub fn ") {
            let signature = &text[at..at + text[at..].find(" {\n").unwrap()];
            count += 1;
            for ty in types(signature).filter(|ty| !KNOWN.contains(ty) && !names.contains(*ty)) {
                missing.entry(ty.to_owned()).or_insert_with(|| format!("{path}: {signature}"));
            }
        }
    }
    assert!(count > 100, "only {count} functions");
    assert!(missing.is_empty(), "no name in dala_compute: {missing:#?}");
    assert!(!names.contains("Bare"), "the bare engine is no part of the API");
}

/// The types that are reached through others, by name: this compiles or does not.
#[test]
fn fields_and_results_of_types_have_names_too() {
    use dala_compute::kernel::{
        Class, Closeness, InputSpec, Kernel, Lowering, OutputRule, Place, Reference, Signature, Task, Tolerance,
    };
    use dala_compute::prelude::*;
    use dala_compute::{
        Blueprint, BlueprintStep, CheckedPipeline, DeviceInfo, EngineError, ExprError, External, KernelSpec, Limits,
        PipelineSpec, PipelineText, QueueStats, Shape, ShapeProblem, SpecError, StageProblem, Stats, TensorType,
        TextError, Unsupported, Verdict,
    };
    fn assert_named<T: ?Sized>() {}
    let _: fn(&Plan) -> &Blueprint = Plan::blueprint;
    let _: fn(&Blueprint) -> &Vec<BlueprintStep> = |plan| &plan.steps;
    let _: fn(&Blueprint) -> &Vec<External> = |plan| &plan.externals;
    let _: fn(&Blueprint) -> &Vec<Verdict> = |plan| &plan.verdicts;
    let _: fn(&BlueprintStep) -> (&Task, &Vec<Place>) = |step| (&step.task, &step.reads);
    let _: fn(&PipelineText, &[(&str, TensorType)]) -> PipelineSpec = PipelineText::spec;
    let _: fn(&str) -> Result<PipelineText, TextError> = |text| PipelineText::from_chain(text);
    let _: fn(&KernelSpec) -> (Class, Tolerance) = |spec| (spec.class, spec.tolerance);
    let _: fn(&KernelSpec) -> (&Vec<InputSpec>, &OutputRule) = |spec| (&spec.inputs, &spec.output);
    let _: fn(Tolerance) -> Closeness = |tolerance| tolerance.floats;
    let _: fn(&Device) -> Vec<std::sync::Arc<Kernel>> = Device::kernels;
    let _: fn(&DeviceInfo) -> &Limits = |info| &info.limits;
    let _: fn(&Stats) -> QueueStats = |stats| stats.queue;
    let _: fn(&Reference<'_>) -> Shape = |call| call.signature.output.shape.clone();
    assert_named::<(CheckedPipeline, StageProblem, EngineError, SpecError, ExprError, ShapeProblem, Unsupported)>();
    assert_named::<(Signature, Lowering)>();
}
