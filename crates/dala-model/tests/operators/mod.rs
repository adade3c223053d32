//! Every operator by itself, held against what ONNX Runtime gave: `scripts/operator-cases` makes the cases.

#[path = "../support/cases.rs"]
mod cases;
#[path = "../support/values.rs"]
mod values;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use cases::{Case, Cases};
use dala_compute::Device;
use dala_model::proto::{ModelProto, element_type};

use crate::support::devices;

/// How a case went where it did not fail.
enum Went {
    Right,
    /// The device has no 64-bit types.
    Refused,
}

/// `DALA_OPERATOR_CASES` is `all`, or part of the names of those to be run.
#[test]
fn operators_agree() {
    let asked = std::env::var("DALA_OPERATOR_CASES").unwrap_or_default();
    let cases = Cases::open().cases;
    let mut wrong = Vec::new();
    for name in devices() {
        let device = Device::open(&name).unwrap();
        let start = Instant::now();
        let chosen = cases.iter().filter(|case| matches!(asked.as_str(), "" | "all") || case.name.contains(&asked));
        let (mut right, mut refused) = (0, 0);
        for case in chosen {
            let mut forms = vec![("", case.clone())];
            if name == "cpu" {
                forms.push((" (of weights)", of_weights(case)));
            }
            for (form, case) in forms {
                match catch_unwind(AssertUnwindSafe(|| check(&device, &case))) {
                    Ok(Ok(Went::Right)) => right += 1,
                    Ok(Ok(Went::Refused)) => refused += 1,
                    Ok(Err(why)) => wrong.push(format!("{name} {}{form}: {why}", case.name)),
                    Err(_) => wrong.push(format!("{name} {}{form}: a panic", case.name)),
                }
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        println!("{name}: {right} agree, {refused} are of 64-bit types that it has not, {seconds:.1} s");
    }
    assert!(wrong.is_empty(), "{} cases are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

fn check(device: &Device, case: &Case) -> Result<Went, String> {
    let model = case.model.as_ref().ok_or("it has no model")?;
    let found = match values::run(device, model, &case.inputs) {
        Ok(found) => found,
        Err(error) if error.code() == "unsupported_dtype" && holds_wide(model, case) => return Ok(Went::Refused),
        Err(error) => return Err(format!("{}: {error}", error.code())),
    };
    if [found.len(), case.tolerance.len()] != [case.outputs.len(); 2] {
        return Err(format!("{} outputs instead of {}", found.len(), case.outputs.len()));
    }
    for ((found, expected), allowed) in found.iter().zip(&case.outputs).zip(&case.tolerance) {
        let wanted = values::elements(expected.clone()).map_err(|error| error.to_string())?;
        if let Some(why) = values::difference(found, &wanted, |_| *allowed) {
            return Err(format!("{}: {why}, {allowed:.1e} allowed", expected.name));
        }
    }
    Ok(Went::Right)
}

/// Whether there are 64-bit types in it.
fn holds_wide(model: &ModelProto, case: &Case) -> bool {
    let weights = model.graph.iter().flat_map(|graph| &graph.initializer);
    let mut tensors = case.inputs.iter().chain(&case.outputs).chain(weights);
    tensors.any(|tensor| [element_type::INT64, element_type::DOUBLE].contains(&tensor.data_type))
}

/// The same with everything in the file, and so computed while it is read.
fn of_weights(case: &Case) -> Case {
    let mut case = case.clone();
    if let Some(graph) = case.model.as_mut().and_then(|model| model.graph.as_mut()) {
        graph.input.clear();
        graph.initializer.append(&mut case.inputs);
    }
    case
}
