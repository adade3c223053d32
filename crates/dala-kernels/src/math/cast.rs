//! Conversion to the output's element type. Floats lose their fraction and saturate, NaN becomes 0; integers wrap, except
//! that pixels saturate.

use dala_spec::{Data, Expr, KernelSpec, NUMBERS, OutputDType, OutputShape, Scalar, Signature};

use crate::reference::kernel_cases;
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::pointwise("cast")
        .summary("Conversion to the output's element type")
        .input("x", NUMBERS)
        .output(OutputShape::Inputs, OutputDType::OneOf(NUMBERS));
    Kernel::pointwise(spec, |call: &Signature| Expr::input("x").cast(call.output.dtype)).reference(reference)
}

fn reference(call: &Reference) -> Data {
    let to = call.dtype();
    let pixel = |x: i64| Scalar::U8(x.clamp(0, 255) as u8);
    call.map(|value| match value {
        Scalar::F32(x) if to == dala_spec::DType::F64 => Scalar::F64(x.into()),
        Scalar::F32(x) => Scalar::from_f64(to, x.into()),
        Scalar::F64(x) => Scalar::from_f64(to, x),
        Scalar::S32(x) if to == dala_spec::DType::U8 => pixel(x.into()),
        Scalar::S64(x) if to == dala_spec::DType::U8 => pixel(x),
        Scalar::U32(x) if to == dala_spec::DType::U8 => pixel(x.into()),
        Scalar::S32(x) => Scalar::from_i64(to, x.into()),
        Scalar::S64(x) => Scalar::from_i64(to, x),
        Scalar::U32(x) => Scalar::from_i64(to, x.into()),
        Scalar::U8(x) => Scalar::from_i64(to, x.into()),
    })
}

kernel_cases! {
    floats_truncate_and_saturate: [F32(vec![1.9, -1.9, 3e9, f32::NAN])], Params::new() => S32(vec![1, -1, i32::MAX, 0]);
    pixels_saturate: [F64(vec![-1.0, 2.7, 300.0])], Params::new() => U8(vec![0, 2, 255]);
    integers_wrap: [S64(vec![-1, 1 << 32])], Params::new() => U32(vec![u32::MAX, 0]);
    integers_into_pixels_saturate: [S64(vec![-1, 1 << 40])], Params::new() => U8(vec![0, 255]);
    pixels_to_floats: [U8(vec![0, 255])], Params::new() => F32(vec![0.0, 255.0]);
}
