//! The list of all kernels: one line each.

use crate::{Kernel, image, math};

/// Every built-in kernel.
pub fn built_in() -> Vec<Kernel> {
    vec![
        math::abs::kernel(),
        math::cast::kernel(),
        math::clamp::kernel(),
        math::copy::kernel(),
        math::elementwise_add::kernel(),
        math::elementwise_div::kernel(),
        math::elementwise_max::kernel(),
        math::elementwise_min::kernel(),
        math::elementwise_mul::kernel(),
        math::elementwise_sub::kernel(),
        math::exp::kernel(),
        math::fill::kernel(),
        math::gelu::kernel(),
        math::log::kernel(),
        math::neg::kernel(),
        math::relu::kernel(),
        math::scalar_add::kernel(),
        math::scalar_mul::kernel(),
        math::sigmoid::kernel(),
        math::sqrt::kernel(),
        math::tanh::kernel(),
        image::generate_gradient::kernel(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every file in a family's folder is a kernel on the list, under its own name.
    #[test]
    fn every_file_is_listed() {
        let mut files = Vec::new();
        for family in ["math", "image"] {
            let folder = format!("{}/src/{family}", env!("CARGO_MANIFEST_DIR"));
            for entry in std::fs::read_dir(folder).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                files.extend(name.strip_suffix(".rs").filter(|name| *name != "mod").map(str::to_owned));
            }
        }
        files.sort();
        let mut listed: Vec<String> = built_in().into_iter().map(|kernel| kernel.spec.name).collect();
        listed.sort();
        assert_eq!(files, listed);
    }

    #[test]
    fn every_kernel_says_what_it_does_and_has_a_reference() {
        for kernel in built_in() {
            assert!(!kernel.spec.summary.is_empty() && kernel.reference.is_some(), "{}", kernel.spec.name);
        }
    }
}
