//! Difference of two buffers, which broadcast: `a - b`. Integers wrap; pixels saturate; NaN propagates.

use dala_spec::{Data, KernelSpec, NUMBERS, OutputDType, OutputShape, Signature};

use crate::lower::broadcast::pair;
use crate::lower::overflow;
use crate::reference::{kernel_cases, on_pairs};
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::pointwise("elementwise_sub")
        .alias("subtract")
        .summary("Difference of two buffers, which broadcast: `a - b`")
        .input("a", NUMBERS)
        .input("b", NUMBERS)
        .output(OutputShape::Broadcast, OutputDType::Inputs);
    let work = |call: &Signature| {
        let (a, b) = pair(call);
        overflow::kept(call, a - b)
    };
    Kernel::pointwise(overflow::with_param(spec), work).reference(reference)
}

fn reference(call: &Reference) -> Data {
    let plain = on_pairs!(x, y; float x - y; int x.wrapping_sub(y));
    call.zip(|a, b| overflow::kept_value(call, plain(a, b)))
}

kernel_cases! {
    floats: [F64(vec![1.0, 2.5]), F64(vec![4.0, -2.5])], Params::new() => F64(vec![-3.0, 5.0]);
    integers_wrap: [U32(vec![0]), U32(vec![1])], Params::new() => U32(vec![u32::MAX]);
    pixels_saturate: [U8(vec![1, 9]), U8(vec![2, 3])], Params::new() => U8(vec![0, 6]);
    small_integers_wrap_if_asked: [S8(vec![-100, 1]), S8(vec![100, 2])], Params::new().with("overflow", "wrap") => S8(vec![56, -1]);
}
