//! Conversion to the output's element type. Floats lose their fraction and saturate, NaN becomes 0; integers that do not fit
//! saturate or wrap as the caller says: by default those of 8 and 16 bits saturate, and those of 32 and 64 bits wrap.

use dala_spec::expr::Overflow;
use dala_spec::{Data, Expr, KernelSpec, NUMBERS, OutputDType, OutputShape, ParamKind, Scalar, Signature, param};

use crate::keys::OVERFLOW;
use crate::lower::overflow::chosen;
use crate::reference::kernel_cases;
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::pointwise("cast")
        .summary("Conversion to the output's element type")
        .input("x", NUMBERS)
        .output(OutputShape::Inputs, OutputDType::OneOf(NUMBERS))
        .param(
            param(OVERFLOW, ParamKind::words(&["usual", "wrap", "saturate"]))
                .default("usual")
                .summary("what becomes of integers that do not fit"),
        );
    Kernel::pointwise(spec, |call: &Signature| Expr::input("x").cast_with(chosen(&call.params), call.output.dtype))
        .reference(reference)
}

fn reference(call: &Reference) -> Data {
    let (to, overflow) = (call.dtype(), chosen(call.params()));
    let saturates = match overflow {
        Overflow::Usual => to.size() < 4,
        Overflow::Wrap => false,
        Overflow::Saturate => true,
    };
    call.map(|value| match value.as_integer() {
        Some(integer) if saturates => Scalar::saturating(to, integer),
        Some(integer) => Scalar::wrapping(to, integer),
        // A float becomes a wide integer first, which is then wrapped.
        None if overflow == Overflow::Wrap && !to.is_float() && to.size() < 4 => {
            Scalar::wrapping(to, (value.as_f64() as i32).into())
        }
        None => Scalar::from_f64(to, value.as_f64()),
    })
}

kernel_cases! {
    floats_truncate_and_saturate: [F32(vec![1.9, -1.9, 3e9, f32::NAN])], Params::new() => S32(vec![1, -1, i32::MAX, 0]);
    pixels_saturate: [F64(vec![-1.0, 2.7, 300.0])], Params::new() => U8(vec![0, 2, 255]);
    integers_wrap: [S64(vec![-1, 1 << 32])], Params::new() => U32(vec![u32::MAX, 0]);
    integers_into_pixels_saturate: [S64(vec![-1, 1 << 40])], Params::new() => U8(vec![0, 255]);
    pixels_to_floats: [U8(vec![0, 255])], Params::new() => F32(vec![0.0, 255.0]);
    small_integers_saturate: [S32(vec![-40_000, 200, 70_000])], Params::new() => S16(vec![-32_768, 200, 32_767]);
    or_wrap: [S32(vec![-1, 200, 256])], Params::new().with("overflow", "wrap") => S8(vec![-1, -56, 0]);
    large_integers_wrap: [U64(vec![u64::MAX, 1 << 32])], Params::new() => S32(vec![-1, 0]);
    or_saturate: [S64(vec![-1, 1 << 40])], Params::new().with("overflow", "saturate") => U32(vec![0, u32::MAX]);
    halves: [F32(vec![1.0 + f32::EPSILON, 65_520.0])], Params::new() => F16(vec![f16::ONE, f16::INFINITY]);
}
