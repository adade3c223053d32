//! Quotient of two buffers, which broadcast: `a / b`. Integers truncate, and by zero give 0; floats follow IEEE 754.

use dala_spec::{Data, KernelSpec, NUMBERS, OutputDType, OutputShape, Signature, Tolerance};

use crate::lower::broadcast::pair;
use crate::reference::{kernel_cases, on_pairs};
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::pointwise("elementwise_div")
        .alias("divide")
        .summary("Quotient of two buffers, which broadcast: `a / b`")
        .input("a", NUMBERS)
        .input("b", NUMBERS)
        .output(OutputShape::Broadcast, OutputDType::Inputs)
        .tolerance(Tolerance::ulps(3));
    let work = |call: &Signature| {
        let (a, b) = pair(call);
        a / b
    };
    Kernel::pointwise(spec, work).reference(reference)
}

fn reference(call: &Reference) -> Data {
    // Integers have no quotient in two cases: by zero, and the smallest number by -1.
    call.zip(on_pairs!(x, y; float x / y; int x.checked_div(y).unwrap_or(if y == 0 { 0 } else { x })))
}

kernel_cases! {
    floats: [F32(vec![1.0, 1.0, -1.0]), F32(vec![4.0, 0.0, 0.0])], Params::new() => F32(vec![0.25, f32::INFINITY, f32::NEG_INFINITY]);
    integers_truncate: [S32(vec![-7, 7, 7, i32::MIN]), S32(vec![2, -2, 0, -1])], Params::new() => S32(vec![-3, -3, 0, i32::MIN]);
    pixels: [U8(vec![7, 7]), U8(vec![2, 0])], Params::new() => U8(vec![3, 0]);
}
