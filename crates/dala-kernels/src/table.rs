//! The table of kernels and element types: native, packed or refused on a device.

use dala_spec::{DType, DeviceFacts, NUMBERS, OutputDType, Params, Support, TensorType, validate};

use crate::Kernel;

/// How a device with `facts` runs `kernel` on elements of `dtype`: inputs and output where they have one type, the
/// input of `cast`, the output of kernels without inputs.
pub fn support(kernel: &Kernel, dtype: DType, facts: &DeviceFacts) -> Support {
    let spec = &kernel.spec;
    let takes = spec.inputs.iter().all(|input| input.dtypes.contains(&dtype));
    let gives = match spec.output.dtype {
        OutputDType::OneOf(dtypes) if spec.inputs.is_empty() => dtypes.contains(&dtype),
        _ => true,
    };
    if !takes || !gives {
        return Support::Refused;
    }
    let ty = |dtype| TensorType::new(dtype, [4, 4]);
    // A cast stands for its easiest target: what counts is the element type in question.
    let output = match spec.output.dtype {
        OutputDType::OneOf(dtypes) if !spec.inputs.is_empty() && dtypes == NUMBERS && dtype != DType::F32 => DType::F32,
        OutputDType::OneOf(_) if !spec.inputs.is_empty() => DType::S32,
        _ => dtype,
    };
    let inputs = vec![ty(dtype); spec.inputs.len()];
    let params = example_params(kernel);
    let Ok(signature) = validate(spec, &inputs, &ty(output), &params) else { return Support::Refused };
    let Ok(program) = kernel.program(&signature) else { return Support::Refused };
    program.support(facts).unwrap_or(Support::Refused)
}

/// A whole number for every param that has no default.
pub fn example_params(kernel: &Kernel) -> Params {
    let required = kernel.spec.params.iter().filter(|param| param.default.is_none());
    required.fold(Params::new(), |params, param| params.with(param.name.clone(), 2))
}
