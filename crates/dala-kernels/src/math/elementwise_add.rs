//! Sum of two buffers, which broadcast: `a + b`. Integers wrap; pixels saturate; NaN propagates.

use dala_spec::{Data, KernelSpec, NUMBERS, OutputDType, OutputShape, Signature};

use crate::lower::broadcast::pair;
use crate::lower::overflow;
use crate::reference::{kernel_cases, on_pairs};
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::pointwise("elementwise_add")
        .alias("add")
        .summary("Sum of two buffers, which broadcast: `a + b`")
        .input("a", NUMBERS)
        .input("b", NUMBERS)
        .output(OutputShape::Broadcast, OutputDType::Inputs);
    let work = |call: &Signature| {
        let (a, b) = pair(call);
        overflow::kept(call, a + b)
    };
    Kernel::pointwise(overflow::with_param(spec), work).reference(reference)
}

fn reference(call: &Reference) -> Data {
    let plain = on_pairs!(x, y; float x + y; int x.wrapping_add(y));
    call.zip(|a, b| overflow::kept_value(call, plain(a, b)))
}

kernel_cases! {
    floats: [F32(vec![1.0, 2.5]), F32(vec![4.0, -2.5])], Params::new() => F32(vec![5.0, 0.0]);
    integers_wrap: [S32(vec![i32::MAX]), S32(vec![1])], Params::new() => S32(vec![i32::MIN]);
    pixels_saturate: [U8(vec![200, 1]), U8(vec![100, 2])], Params::new() => U8(vec![255, 3]);
    one_element_counts_for_all: [S64(vec![1, 2, 3]), S64(vec![10])], Params::new() => S64(vec![11, 12, 13]);
    small_integers_wrap_if_asked: [U8(vec![200, 1]), U8(vec![100, 2])], Params::new().with("overflow", "wrap") => U8(vec![44, 3]);
}
