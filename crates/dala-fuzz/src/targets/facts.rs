//! Devices that nobody has: what planning needs to know of them.

use dala_plan::{DeviceFacts, Support};

/// A CPU with everything, a GPU with 32-bit types only, and one that binds next to nothing.
pub(super) fn devices() -> [DeviceFacts; 3] {
    let (cpu, gpu) = (DeviceFacts::of_a_cpu(), DeviceFacts::of_a_gpu());
    let small =
        DeviceFacts { name: "small".to_owned(), f64: true, max_bindings: 4, narrow: Support::Refused, ..gpu.clone() };
    [cpu, gpu, small]
}
