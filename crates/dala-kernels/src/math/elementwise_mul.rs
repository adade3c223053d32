//! Product of two buffers, which broadcast: `a * b`. Integers wrap; pixels saturate; NaN propagates.

use dala_spec::{Data, KernelSpec, NUMBERS, OutputDType, OutputShape, Signature};

use crate::lower::broadcast::pair;
use crate::lower::overflow;
use crate::reference::{kernel_cases, on_pairs};
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::pointwise("elementwise_mul")
        .alias("multiply")
        .summary("Product of two buffers, which broadcast: `a * b`")
        .input("a", NUMBERS)
        .input("b", NUMBERS)
        .output(OutputShape::Broadcast, OutputDType::Inputs);
    let work = |call: &Signature| {
        let (a, b) = pair(call);
        overflow::kept(call, a * b)
    };
    Kernel::pointwise(overflow::with_param(spec), work).reference(reference)
}

fn reference(call: &Reference) -> Data {
    let plain = on_pairs!(x, y; float x * y; int x.wrapping_mul(y));
    call.zip(|a, b| overflow::kept_value(call, plain(a, b)))
}

kernel_cases! {
    floats: [F32(vec![1.5, -2.0]), F32(vec![4.0, 0.5])], Params::new() => F32(vec![6.0, -1.0]);
    integers_wrap: [S32(vec![65_536]), S32(vec![65_536])], Params::new() => S32(vec![0]);
    pixels_saturate: [U8(vec![16, 15]), U8(vec![16, 17])], Params::new() => U8(vec![255, 255]);
    small_integers_wrap_if_asked: [U16(vec![300, 2]), U16(vec![300, 3])], Params::new().with("overflow", "wrap") => U16(vec![24_464, 6]);
}
