//! Product with a number: `x * scalar`. Whole numbers on integers compute in integers and wrap; other numbers on integers compute in
//! f32, round half to even and saturate.

use dala_spec::{Data, Expr, KernelSpec, NUMBERS, ParamKind, Scalar, param};

use crate::keys::SCALAR;
use crate::reference::{kernel_cases, on_numbers};
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::pointwise("scalar_mul")
        .alias("scale")
        .summary("Product with a number: `x * scalar`")
        .input("x", NUMBERS)
        .param(param(SCALAR, ParamKind::Number).summary("the number"));
    Kernel::pointwise(spec, |_| Expr::input("x") * Expr::param(SCALAR)).reference(reference)
}

fn reference(call: &Reference) -> Data {
    let scalar = call.number(SCALAR);
    let whole = scalar.fract() == 0.0;
    call.map(|value| match value {
        Scalar::F64(x) => Scalar::F64(x * scalar),
        integer if whole && !integer.dtype().is_float() => {
            on_numbers!(x; float x; int x.wrapping_mul(scalar as _))(integer)
        }
        other => Scalar::F32(other.as_f64() as f32 * scalar as f32),
    })
}

kernel_cases! {
    half_of_integers_rounds_to_even: [S32(vec![1, 3, -5])], Params::new().with("scalar", 0.5) => S32(vec![0, 2, -2]);
    whole_numbers_stay_integers: [S32(vec![i32::MAX])], Params::new().with("scalar", 2.0) => S32(vec![-2]);
    pixels_round_and_saturate: [U8(vec![1, 3, 200])], Params::new().with("scalar", 1.5) => U8(vec![2, 4, 255]);
    floats: [F32(vec![1.0, -2.0])], Params::new().with("scalar", 2.5) => F32(vec![2.5, -5.0]);
}
