//! Devices that nobody has: what planning needs to know of them.

use dala_spec::{DeviceFacts, Support};

/// A CPU with everything, a GPU with 32-bit types only, and one that binds next to nothing.
pub(super) fn devices() -> [DeviceFacts; 3] {
    let cpu = DeviceFacts {
        name: "cpu".to_owned(),
        f64: true,
        s64: true,
        u8: Support::Native,
        f64_functions: true,
        reorders_floats: false,
        max_bindings: 1024,
        cpu: true,
        units_per_cube: 2,
        vectors_per_unit: 512,
    };
    let gpu = DeviceFacts {
        name: "gpu".to_owned(),
        f64: false,
        s64: false,
        u8: Support::Packed,
        f64_functions: false,
        reorders_floats: true,
        max_bindings: 30,
        cpu: false,
        units_per_cube: 256,
        vectors_per_unit: 8,
    };
    let small =
        DeviceFacts { name: "small".to_owned(), f64: true, max_bindings: 4, u8: Support::Refused, ..gpu.clone() };
    [cpu, gpu, small]
}
