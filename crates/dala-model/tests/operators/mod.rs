//! Every operator by itself, held against what ONNX Runtime gave: `scripts/operator-cases` makes the cases.

#[path = "../support/cases.rs"]
mod cases;
#[path = "../support/values.rs"]
mod values;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use cases::{Case, Cases};
use dala_compute::Device;
use dala_model::LoadError;
use dala_model::proto::{
    DimensionProto, ModelProto, TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto, element_type,
};

use crate::support::devices;

/// Seconds after which a case is worth a line.
const SLOW: u64 = 2;

/// How a case went where it did not fail.
enum Went {
    Right,
    /// The device has no 64-bit types.
    Refused,
}

/// All cases on the CPU device, in three forms; every few of them on others, which take longer. With
/// `DALA_OPERATOR_CASES=all` it is all of them everywhere, with part of a name those of such names.
#[test]
fn operators_agree() {
    let asked = std::env::var("DALA_OPERATOR_CASES").unwrap_or_default();
    let cases = Cases::open().cases;
    println!("{} cases of {} operators", cases.len(), cases.iter().map(Case::operator).collect::<BTreeSet<_>>().len());
    let mut wrong = Vec::new();
    for name in devices() {
        let device = Device::open(&name).unwrap();
        let start = Instant::now();
        let every = match name.as_str() {
            "cpu" => 1,
            "vulkan" => 4,
            _ => 8,
        };
        let chosen = cases.iter().enumerate().filter(|(place, case)| match asked.as_str() {
            "" => place % every == 0,
            "all" => true,
            part => case.name.contains(part),
        });
        let (mut right, mut refused) = (0, 0);
        for (_, case) in chosen {
            let mut forms = vec![("", case.clone())];
            if name == "cpu" {
                forms.push((" (of weights)", of_weights(case)));
                forms.push((" (of inputs)", of_inputs(case)));
            }
            for (form, case) in forms {
                let began = Instant::now();
                match catch_unwind(AssertUnwindSafe(|| check(&device, &case))) {
                    Ok(Ok(Went::Right)) => right += 1,
                    Ok(Ok(Went::Refused)) => refused += 1,
                    Ok(Err(why)) => wrong.push(format!("{name} {}{form}: {why}", case.name)),
                    Err(_) => wrong.push(format!("{name} {}{form}: a panic", case.name)),
                }
                if began.elapsed().as_secs() >= SLOW {
                    println!("{name} {}{form} took {:.1} s", case.name, began.elapsed().as_secs_f64());
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
        Err(error) if lacks_wide(&error) && holds_wide(model, case) => return Ok(Went::Refused),
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

/// Whether the reason is that a device does not compute on 64-bit types.
fn lacks_wide(error: &LoadError) -> bool {
    let text = error.to_string();
    error.code() == "unsupported" && ["s64", "f64"].iter().any(|wide| text.contains(&format!("compute on {wide}")))
}

/// Whether there are 64-bit types in it, or behind it.
fn holds_wide(model: &ModelProto, case: &Case) -> bool {
    // Powers of integers are computed in 64-bit floats.
    if case.operator() == "Pow" && case.inputs.iter().any(|tensor| tensor.data_type == element_type::INT32) {
        return true;
    }
    let weights = model.graph.iter().flat_map(|graph| &graph.initializer);
    let mut tensors = case.inputs.iter().chain(&case.outputs).chain(weights);
    tensors.any(|tensor| [element_type::INT64, element_type::DOUBLE].contains(&tensor.data_type))
}

/// The same with nothing in the file: what decides about shapes is read while it runs.
fn of_inputs(case: &Case) -> Case {
    let mut case = case.clone();
    if let Some(graph) = case.model.as_mut().and_then(|model| model.graph.as_mut()) {
        for weight in std::mem::take(&mut graph.initializer) {
            let dim = weight.dims.iter().map(|size| DimensionProto { dim_value: Some(*size), dim_param: None });
            let shape = Some(TensorShapeProto { dim: dim.collect() });
            let tensor_type = Some(TensorTypeProto { elem_type: weight.data_type, shape });
            let r#type = Some(TypeProto { tensor_type });
            graph.input.push(ValueInfoProto { name: weight.name.clone(), r#type });
            case.inputs.push(weight);
        }
    }
    case
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
