//! Pipelines to TOML.

use std::fmt::Write;

use dala_spec::ParamValue;
use toml_writer::{ToTomlKey, ToTomlValue, TomlStringBuilder};

use crate::{PipelineSpec, StageSpec};

pub(super) fn write(spec: &PipelineSpec) -> String {
    let mut parts = Vec::new();
    for cell in spec.cells.iter().filter(|cell| cell.dtype.is_some() || cell.shape.is_some()) {
        let mut part = format!("[buffers.{}]\n", cell.name.to_toml_key());
        if let Some(dtype) = cell.dtype {
            let _ = writeln!(part, "dtype = \"{dtype}\"");
        }
        if let Some(shape) = &cell.shape {
            let _ = writeln!(part, "shape = {:?}", shape.dims());
        }
        parts.push(part);
    }
    let name = |cell: usize| quoted(&spec.cells[cell].name);
    for stage in &spec.stages {
        let mut part = "[[stage]]\n".to_owned();
        // Writing to a string does not fail.
        let _ = match stage {
            StageSpec::Run { kernel, inputs, outputs, params } => {
                let _ = writeln!(part, "kernel = {}", quoted(kernel));
                if !inputs.is_empty() {
                    let inputs: Vec<String> = inputs.iter().map(|input| name(*input)).collect();
                    let _ = writeln!(part, "inputs = [{}]", inputs.join(", "));
                }
                let outputs: Vec<String> = outputs.iter().map(|output| name(*output)).collect();
                let _ = match outputs.as_slice() {
                    [output] => writeln!(part, "output = {output}"),
                    several => writeln!(part, "outputs = [{}]", several.join(", ")),
                };
                let params: Vec<String> =
                    params.iter().map(|(name, value)| format!("{} = {}", name.to_toml_key(), param(value))).collect();
                match params.is_empty() {
                    true => Ok(()),
                    false => writeln!(part, "params = {{ {} }}", params.join(", ")),
                }
            }
            StageSpec::Copy { from, to } => writeln!(part, "copy = {}\nto = {}", name(*from), name(*to)),
            StageSpec::Barrier => writeln!(part, "barrier = true"),
        };
        parts.push(part);
    }
    parts.join("\n")
}

fn param(value: &ParamValue) -> String {
    // The shortest text that reads back as the same float.
    let float = |value: &f64| format!("{value:?}").to_ascii_lowercase();
    match value {
        ParamValue::Bool(flag) => flag.to_string(),
        ParamValue::Int(whole) => whole.to_string(),
        ParamValue::Float(number) => float(number),
        ParamValue::Enum(word) => quoted(word),
        ParamValue::Ints(numbers) => format!("{numbers:?}"),
        ParamValue::Floats(numbers) => format!("[{}]", numbers.iter().map(float).collect::<Vec<_>>().join(", ")),
    }
}

/// A text between quotes, on one line.
fn quoted(text: &str) -> String {
    TomlStringBuilder::new(text).as_basic().to_toml_value()
}

#[cfg(test)]
mod tests {
    use dala_spec::{DType, Params, Shape};
    use proptest::prelude::*;

    use super::*;
    use crate::{CellSpec, PipelineText};

    #[test]
    fn a_saved_chain_is_a_readable_file() {
        let text = PipelineText::from_chain("blur(radius=3) | grayscale").unwrap();
        let expected = "\
[[stage]]
kernel = \"blur\"
inputs = [\"input\"]
output = \"t0\"
params = { radius = 3 }

[[stage]]
kernel = \"grayscale\"
inputs = [\"t0\"]
output = \"output\"
";
        assert_eq!(text.to_toml(), expected);
    }

    fn param_value() -> impl Strategy<Value = ParamValue> {
        let float = || any::<f64>().prop_filter("a NaN equals nothing", |value| !value.is_nan());
        prop_oneof![
            any::<bool>().prop_map(ParamValue::Bool),
            any::<i64>().prop_map(ParamValue::Int),
            float().prop_map(ParamValue::Float),
            any::<String>().prop_map(ParamValue::Enum),
            prop::collection::vec(any::<i64>(), 0..4).prop_map(ParamValue::Ints),
            prop::collection::vec(float(), 1..4).prop_map(ParamValue::Floats),
        ]
    }

    proptest! {
        #[test]
        fn whatever_is_written_reads_back(
            kernel in any::<String>(),
            buffer in "[\\p{L}0-9_-]{1,6}",
            params in prop::collection::btree_map(any::<String>(), param_value(), 0..4),
            dtype in prop::option::of(prop::sample::select(DType::ALL.to_vec())),
            shape in prop::option::of(prop::collection::vec(0usize..1000, 0..4)),
        ) {
            let params = params.into_iter().fold(Params::new(), |params, (name, value)| params.with(name, value));
            let cell = CellSpec { dtype, shape: shape.map(Shape::from), ..CellSpec::transient(buffer) };
            let run = StageSpec::Run { kernel, inputs: vec![0, 0], outputs: vec![0], params };
            let text = PipelineText { spec: PipelineSpec { cells: vec![cell], stages: vec![run, StageSpec::Barrier] } };
            prop_assert_eq!(PipelineText::from_toml(&text.to_toml()), Ok(text));
        }
    }
}
