//! Sum with a number: `x + scalar`. Whole numbers on integers compute in integers and wrap; other numbers on integers compute in
//! f32, round half to even and saturate.

use dala_spec::{Data, Expr, KernelSpec, NUMBERS, ParamKind, Scalar, param};

use crate::keys::SCALAR;
use crate::reference::kernel_cases;
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::pointwise("scalar_add")
        .summary("Sum with a number: `x + scalar`")
        .input("x", NUMBERS)
        .param(param(SCALAR, ParamKind::Number).summary("the number"));
    Kernel::pointwise(spec, |_| Expr::input("x") + Expr::param(SCALAR)).reference(reference)
}

fn reference(call: &Reference) -> Data {
    let scalar = call.number(SCALAR);
    let whole = scalar.fract() == 0.0;
    // What f32 gives, rounded half to even.
    let rounded = |x: f32| f64::from((x + scalar as f32).round_ties_even());
    call.map(|value| match value {
        Scalar::F32(x) => Scalar::F32(x + scalar as f32),
        Scalar::F64(x) => Scalar::F64(x + scalar),
        Scalar::S32(x) if whole => Scalar::S32(x.wrapping_add(scalar as i32)),
        Scalar::S64(x) if whole => Scalar::S64(x.wrapping_add(scalar as i64)),
        Scalar::U32(x) if whole => Scalar::U32(x.wrapping_add(scalar as u32)),
        Scalar::U8(x) if whole => Scalar::U8(i32::from(x).wrapping_add(scalar as i32).clamp(0, 255) as u8),
        Scalar::S32(x) => Scalar::S32(rounded(x as f32) as i32),
        Scalar::S64(x) => Scalar::S64(rounded(x as f32) as i64),
        Scalar::U32(x) => Scalar::U32(rounded(x as f32) as u32),
        Scalar::U8(x) => Scalar::U8(rounded(f32::from(x)) as u8),
    })
}

kernel_cases! {
    floats: [F64(vec![1.0, -2.0])], Params::new().with("scalar", 2.5) => F64(vec![3.5, 0.5]);
    integers_wrap: [S64(vec![i64::MAX])], Params::new().with("scalar", 1) => S64(vec![i64::MIN]);
    pixels_saturate: [U8(vec![10, 250])], Params::new().with("scalar", -20) => U8(vec![0, 230]);
    a_fraction_on_integers_rounds: [S32(vec![1, 2])], Params::new().with("scalar", 0.5) => S32(vec![2, 2]);
}
