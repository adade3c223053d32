//! The table of kernels and element types: native, packed or refused on a device.

use dala_plan::{DeviceFacts, Support};
use dala_spec::{DType, NUMBERS, OutputDType, Params, TensorType, validate};

use crate::Kernel;

/// How a device with `facts` runs `kernel` on elements of `dtype`: inputs and output where they have one type, the
/// input of `cast`, the output of kernels without inputs.
pub fn support(kernel: &Kernel, dtype: DType, facts: &DeviceFacts) -> Support {
    let Some((inputs, output, params)) = example(kernel, dtype) else { return Support::Refused };
    let Ok(signature) = validate(&kernel.spec, &inputs, &output, &params) else { return Support::Refused };
    let Ok(lowering) = kernel.lower(&signature, facts) else { return Support::Refused };
    lowering.support(facts).unwrap_or(Support::Refused)
}

/// A small call of `kernel` on elements of `dtype`; none if it does not take them.
pub fn example(kernel: &Kernel, dtype: DType) -> Option<(Vec<TensorType>, TensorType, Params)> {
    let spec = &kernel.spec;
    let decides = if spec.output.dtype == OutputDType::Rest { spec.inputs.get(1) } else { spec.inputs.first() };
    let takes = match decides {
        // Tables and the like have types of their own.
        Some(first) => first.dtypes.contains(&dtype),
        None => matches!(spec.output.dtype, OutputDType::OneOf(dtypes) if dtypes.contains(&dtype)),
    };
    if !takes {
        return None;
    }
    // A cast stands for its easiest target: what counts is the element type in question.
    let output = match spec.output.dtype {
        OutputDType::OneOf(_) if kernel.example.is_some_and(|example| example.dtype.is_some()) => {
            kernel.example.and_then(|example| example.dtype).unwrap_or(dtype)
        }
        OutputDType::OneOf([only]) => *only,
        OutputDType::OneOf(dtypes) if !spec.inputs.is_empty() && dtypes == NUMBERS && dtype != DType::F32 => DType::F32,
        OutputDType::OneOf(dtypes) if dtypes.contains(&dtype) && kernel.example.is_some() => dtype,
        OutputDType::OneOf(_) if !spec.inputs.is_empty() => DType::S32,
        _ => dtype,
    };
    let (inputs, shape, params) = match kernel.example {
        Some(example) => (example.inputs.to_vec(), example.output, (example.params)()),
        None => (vec![&[4, 4][..]; spec.inputs.len()], &[4, 4][..], example_params(kernel)),
    };
    let input = |(index, shape): (usize, &&[usize])| {
        let own = spec.input_at(index).filter(|input| !input.dtypes.contains(&dtype));
        TensorType::new(own.and_then(|input| input.dtypes.first().copied()).unwrap_or(dtype), *shape)
    };
    Some((inputs.iter().enumerate().map(input).collect(), TensorType::new(output, shape), params))
}

/// A whole number for every param that has no default.
pub fn example_params(kernel: &Kernel) -> Params {
    let required = kernel.spec.params.iter().filter(|param| param.default.is_none());
    required.fold(Params::new(), |params, param| params.with(param.name.clone(), 2))
}
