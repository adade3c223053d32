//! The same elements in another buffer. Moves bytes, so that every element type can be copied on every device.

use dala_spec::{Data, Expr, KernelSpec, NUMBERS};

use crate::reference::kernel_cases;
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::pointwise("copy").summary("The same elements in another buffer").input("x", NUMBERS);
    Kernel::pointwise(spec, |_| Expr::input("x")).reference(reference)
}

fn reference(call: &Reference) -> Data {
    call.map(|value| value)
}

kernel_cases! {
    floats: [F32(vec![-0.0, f32::INFINITY])], Params::new() => F32(vec![-0.0, f32::INFINITY]);
    pixels: [U8(vec![1, 2, 3])], Params::new() => U8(vec![1, 2, 3]);
}
