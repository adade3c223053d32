//! The one place where a call is checked against its kernel's spec.

use crate::params::ResolvedParams;
use crate::{
    DType, KernelSpec, OutputDType, OutputShape, Params, Shape, ShapeCall, ShapeProblem, ShapeRule, SpecError,
    TensorType,
};

/// A call that fits its kernel: the types of all arguments, and every param with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Signature {
    /// The inputs, in order.
    pub inputs: Vec<TensorType>,
    /// The output.
    pub output: TensorType,
    /// The params, complete.
    pub params: ResolvedParams,
}

impl Signature {
    /// Whether input `index` is one element that counts for the whole output.
    pub fn is_broadcast(&self, index: usize) -> bool {
        self.inputs.get(index).is_some_and(|input| input.shape.len() == 1) && self.output.shape.len() != 1
    }
}

/// Checks a call of `spec` on `inputs` and `output` with `params`.
///
/// # Errors
///
/// Every problem found, never an empty list.
pub fn validate(
    spec: &KernelSpec,
    inputs: &[TensorType],
    output: &TensorType,
    params: &Params,
) -> Result<Signature, Vec<SpecError>> {
    let mut problems = Vec::new();
    let fits = (spec.inputs.len()..=spec.max_inputs).contains(&inputs.len());
    if fits {
        check_dtypes(spec, inputs, output, &mut problems);
        check_shapes(spec, inputs, output, &mut problems);
    } else {
        problems.push(SpecError::Arity {
            kernel: spec.name.clone(),
            expected: match spec.inputs.len() {
                count if count == spec.max_inputs => count.to_string(),
                count => format!("{count} to {}", spec.max_inputs),
            },
            actual: inputs.len(),
        });
    }
    let before = problems.len();
    let params = ResolvedParams::resolve(&spec.name, &spec.params, params, &mut problems);
    // A computed shape needs every input and every param.
    if let (OutputShape::Computed(rule), true, true) = (&spec.output.shape, fits, problems.len() == before) {
        problems.extend(check_rule(spec, rule, inputs, output, &params));
    }
    if problems.is_empty() {
        Ok(Signature { inputs: inputs.to_vec(), output: output.clone(), params })
    } else {
        Err(problems)
    }
}

/// Checks that a call has as many outputs as its kernel, each another; `outputs` are whatever tells them apart.
///
/// # Errors
///
/// [`SpecError::Outputs`].
pub fn validate_outputs<T: PartialEq>(spec: &KernelSpec, outputs: &[T]) -> Result<(), SpecError> {
    let first = |(place, output): &(usize, &T)| !outputs[..*place].contains(output);
    let (expected, actual) = (spec.outputs(), outputs.iter().enumerate().filter(first).count());
    match (actual, outputs.len()) == (expected, expected) {
        true => Ok(()),
        false => Err(SpecError::Outputs { kernel: spec.name.clone(), expected, actual }),
    }
}

/// Checks the outputs of a call after the first.
///
/// # Errors
///
/// The first problem found.
pub fn validate_further(spec: &KernelSpec, inputs: &[TensorType], outputs: &[TensorType]) -> Result<(), SpecError> {
    let Some(further) = &spec.further else { return Ok(()) };
    for (number, (expected, found)) in further_types(spec, inputs)?.iter().zip(outputs).enumerate() {
        let argument = || format!("output `{}`", further.names.get(number).map_or("", String::as_str));
        if expected.dtype != found.dtype {
            return Err(SpecError::DTypeMismatch {
                kernel: spec.name.clone(),
                argument: argument(),
                expected: vec![expected.dtype],
                actual: found.dtype,
            });
        }
        if expected.shape != found.shape {
            return Err(SpecError::ShapeMismatch {
                kernel: spec.name.clone(),
                argument: argument(),
                expected: expected.shape.to_string(),
                actual: found.shape.to_string(),
            });
        }
    }
    Ok(())
}

/// The types of a call's outputs after the first.
///
/// # Errors
///
/// The inputs do not fit.
pub fn further_types(spec: &KernelSpec, inputs: &[TensorType]) -> Result<Vec<TensorType>, SpecError> {
    let Some(further) = &spec.further else { return Ok(Vec::new()) };
    (further.types)(inputs).map_err(|problem| {
        let (argument, expected, actual) = match problem {
            ShapeProblem::Input(index, expected) => {
                (spec.input_name(index), expected, inputs.get(index).map(|input| input.shape.to_string()))
            }
            ShapeProblem::Output(expected) => ("an output".to_owned(), expected, None),
            ShapeProblem::Param(name, ..) => (format!("param `{name}`"), "another value".to_owned(), None),
        };
        let (kernel, actual) = (spec.name.clone(), actual.unwrap_or_else(|| "what does not fit".to_owned()));
        SpecError::ShapeMismatch { kernel, argument, expected, actual }
    })
}

fn check_dtypes(spec: &KernelSpec, inputs: &[TensorType], output: &TensorType, problems: &mut Vec<SpecError>) {
    let mut mismatch = |argument: String, expected: &[DType], actual: DType| {
        problems.push(SpecError::DTypeMismatch {
            kernel: spec.name.clone(),
            argument,
            expected: expected.to_vec(),
            actual,
        });
    };
    for (index, found) in inputs.iter().enumerate() {
        if let Some(input) = spec.input_at(index).filter(|input| !input.dtypes.contains(&found.dtype)) {
            mismatch(spec.input_name(index), input.dtypes, found.dtype);
        }
    }
    match spec.output.dtype {
        OutputDType::OneOf(dtypes) if !dtypes.contains(&output.dtype) => {
            mismatch("the output".to_owned(), dtypes, output.dtype);
        }
        OutputDType::OneOf(_) => {}
        // One type for all, or for all but the first.
        rule @ (OutputDType::Inputs | OutputDType::Rest) => {
            let own = usize::from(rule == OutputDType::Rest);
            let Some(first) = inputs.get(own) else { return };
            for (index, found) in inputs.iter().enumerate().skip(own + 1) {
                if found.dtype != first.dtype {
                    mismatch(spec.input_name(index), &[first.dtype], found.dtype);
                }
            }
            if output.dtype != first.dtype {
                mismatch("the output".to_owned(), &[first.dtype], output.dtype);
            }
        }
        OutputDType::First => {
            let Some(first) = inputs.first().filter(|first| first.dtype != output.dtype) else { return };
            mismatch("the output".to_owned(), &[first.dtype], output.dtype);
        }
    }
}

fn check_shapes(spec: &KernelSpec, inputs: &[TensorType], output: &TensorType, problems: &mut Vec<SpecError>) {
    let mut mismatch = |argument: String, expected: &dyn std::fmt::Display, actual: &Shape| {
        problems.push(SpecError::ShapeMismatch {
            kernel: spec.name.clone(),
            argument,
            expected: expected.to_string(),
            actual: actual.to_string(),
        });
    };
    for (input, found) in spec.inputs.iter().zip(inputs).filter(|(input, _)| input.side) {
        if found.shape.is_empty() && !output.shape.is_empty() {
            mismatch(format!("input `{}`", input.name), &"of at least one element", &found.shape);
        }
    }
    match &spec.output.shape {
        OutputShape::Any | OutputShape::Computed(_) => {}
        OutputShape::Inputs => {
            let inputs: Vec<(&str, &TensorType)> = spec
                .inputs
                .iter()
                .zip(inputs)
                .filter(|(input, _)| !input.side)
                .map(|(input, found)| (input.name.as_str(), found))
                .collect();
            // The shape of all is that of the first input that is more (or less) than one element.
            let Some(shape) = inputs
                .iter()
                .map(|(_, input)| &input.shape)
                .find(|shape| shape.len() != 1)
                .or(inputs.first().map(|(_, input)| &input.shape))
            else {
                return;
            };
            for (name, found) in &inputs {
                if found.shape.len() != 1 && found.shape != *shape {
                    mismatch(format!("input `{name}`"), shape, &found.shape);
                }
            }
            // One element is one element, whatever its rank.
            if output.shape != *shape && !(shape.len() == 1 && output.shape.len() == 1) {
                mismatch("the output".to_owned(), shape, &output.shape);
            }
        }
        OutputShape::Broadcast => {
            let (mut shape, mut several) = (Shape::default(), Shape::default());
            for (input, found) in spec.inputs.iter().zip(inputs).filter(|(input, _)| !input.side) {
                let Some(both) = shape.broadcast(&found.shape) else {
                    let expected = format!("that broadcasts with {shape}");
                    return mismatch(format!("input `{}`", input.name), &expected, &found.shape);
                };
                if found.shape.len() != 1 {
                    several = several.broadcast(&found.shape).unwrap_or_default();
                }
                shape = both;
            }
            // One element is one element, whatever its rank.
            let single = shape.len() == 1 && output.shape.len() == 1;
            if output.shape != shape && output.shape != several && !single {
                mismatch("the output".to_owned(), &shape, &output.shape);
            }
        }
        OutputShape::Image => match output.shape.dims() {
            [_, _] | [_, _, 1..=4] => {}
            [_, _, _] => problems.push(SpecError::ShapeMismatch {
                kernel: spec.name.clone(),
                argument: "the output".to_owned(),
                expected: "{height, width, channels} with 1 to 4 channels".to_owned(),
                actual: output.shape.to_string(),
            }),
            dims => problems.push(SpecError::RankMismatch {
                kernel: spec.name.clone(),
                argument: "the output".to_owned(),
                expected: "2 or 3".to_owned(),
                actual: dims.len(),
            }),
        },
    }
}

fn check_rule(
    spec: &KernelSpec,
    rule: &ShapeRule,
    inputs: &[TensorType],
    output: &TensorType,
    params: &ResolvedParams,
) -> Option<SpecError> {
    let kernel = spec.name.clone();
    let mismatch = |argument: String, expected: String, actual: &Shape| {
        Some(SpecError::ShapeMismatch { kernel: kernel.clone(), argument, expected, actual: actual.to_string() })
    };
    match (rule.shape)(&ShapeCall { inputs, output: Some(&output.shape), params }) {
        Ok(shape) if shape == output.shape => None,
        Ok(shape) => mismatch("the output".to_owned(), shape.to_string(), &output.shape),
        Err(ShapeProblem::Output(expected)) => mismatch("the output".to_owned(), expected, &output.shape),
        Err(ShapeProblem::Input(index, expected)) => mismatch(spec.input_name(index), expected, &inputs[index].shape),
        Err(ShapeProblem::Param(name, min, max)) => {
            let actual = params.get(name).map(ToString::to_string).unwrap_or_default();
            Some(SpecError::ParamRange { kernel, param: name.to_owned(), min, max, actual })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FLOATS, NUMBERS, ParamKind, param};

    fn spec() -> KernelSpec {
        KernelSpec::pointwise("mix")
            .input("a", FLOATS)
            .input("b", NUMBERS)
            .param(param("t", ParamKind::Float).default(0.5).range(0.0, 1.0))
    }

    fn f32s(dims: &[usize]) -> TensorType {
        TensorType::new(DType::F32, dims)
    }

    fn codes(inputs: &[TensorType], output: &TensorType, params: Params) -> Vec<&'static str> {
        match validate(&spec(), inputs, output, &params) {
            Ok(_) => Vec::new(),
            Err(problems) => problems.iter().map(SpecError::code).collect(),
        }
    }

    #[test]
    fn equal_shapes_and_single_elements_fit() {
        assert_eq!(codes(&[f32s(&[2, 3]), f32s(&[2, 3])], &f32s(&[2, 3]), Params::new()), [""; 0]);
        assert_eq!(codes(&[f32s(&[2, 3]), f32s(&[])], &f32s(&[2, 3]), Params::new()), [""; 0]);
        assert_eq!(codes(&[f32s(&[1]), f32s(&[0])], &f32s(&[0]), Params::new()), [""; 0]);
        assert_eq!(codes(&[f32s(&[]), f32s(&[1])], &f32s(&[1, 1]), Params::new()), [""; 0]);
    }

    #[test]
    fn shapes_broadcast() {
        let spec = spec().output(OutputShape::Broadcast, OutputDType::Inputs);
        let fits = |a: &[usize], b: &[usize], output: &[usize]| {
            validate(&spec, &[f32s(a), f32s(b)], &f32s(output), &Params::new()).is_ok()
        };
        assert!(fits(&[4, 5], &[4, 5], &[4, 5]) && fits(&[4, 5], &[5], &[4, 5]) && fits(&[4, 1], &[5], &[4, 5]));
        assert!(fits(&[2, 1, 3], &[4, 1], &[2, 4, 3]) && fits(&[0, 3], &[1, 3], &[0, 3]));
        // One element does not add axes, unless it is asked to.
        assert!(fits(&[4], &[1, 1], &[4]) && fits(&[4], &[1, 1], &[1, 4]) && fits(&[1], &[], &[1, 1]));
        assert!(!fits(&[4, 5], &[4], &[4, 5]) && !fits(&[4, 5], &[2, 1], &[4, 5]));
        assert!(!fits(&[5], &[5], &[1, 5]) && !fits(&[4, 1], &[1, 5], &[4, 1]) && !fits(&[0], &[1], &[1]));
    }

    #[test]
    fn everything_wrong_is_said_at_once() {
        let inputs = [TensorType::new(DType::S32, [4]), f32s(&[5])];
        let found = codes(&inputs, &f32s(&[6]), Params::new().with("t", 2));
        assert_eq!(
            found,
            [
                "dtype_mismatch",
                "dtype_mismatch",
                "dtype_mismatch",
                "shape_mismatch",
                "shape_mismatch",
                "param_out_of_range"
            ]
        );
        assert_eq!(codes(&[f32s(&[4])], &f32s(&[4]), Params::new()), ["arity"]);
    }

    #[test]
    fn messages_name_the_argument() {
        let problems = validate(&spec(), &[f32s(&[4]), f32s(&[5])], &f32s(&[4]), &Params::new()).unwrap_err();
        assert_eq!(problems[0].to_string(), "input `b` of kernel `mix` must have shape {4}, found {5}");
    }
}
