//! Larger of two buffers, which broadcast: `max(a, b)`. Where one operand is NaN, the other is the result.

use dala_spec::{Data, KernelSpec, NUMBERS, OutputDType, OutputShape, Signature};

use crate::lower::broadcast::pair;
use crate::reference::{kernel_cases, on_pairs};
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::pointwise("elementwise_max")
        .summary("Larger of two buffers, which broadcast: `max(a, b)`")
        .input("a", NUMBERS)
        .input("b", NUMBERS)
        .output(OutputShape::Broadcast, OutputDType::Inputs);
    let work = |call: &Signature| {
        let (a, b) = pair(call);
        a.max(b)
    };
    Kernel::pointwise(spec, work).reference(reference)
}

fn reference(call: &Reference) -> Data {
    call.zip(on_pairs!(x, y; float x.max(y); int x.max(y)))
}

kernel_cases! {
    floats: [F32(vec![1.0, f32::NAN, 3.0]), F32(vec![2.0, 5.0, f32::NAN])], Params::new() => F32(vec![2.0, 5.0, 3.0]);
    integers: [U32(vec![1, u32::MAX]), U32(vec![2, 4])], Params::new() => U32(vec![2, u32::MAX]);
}
