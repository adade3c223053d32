//! The list of all kernels: one line each.

use crate::{Kernel, image, math, nn};

/// Every built-in kernel.
pub fn built_in() -> Vec<Kernel> {
    vec![
        image::blur::kernel(),
        image::box_blur::kernel(),
        image::brightness_contrast::kernel(),
        image::crop::kernel(),
        image::flip::kernel(),
        image::generate_gradient::kernel(),
        image::grayscale::kernel(),
        image::lut::kernel(),
        image::overlay_alpha::kernel(),
        image::preprocess::kernel(),
        image::resize::kernel(),
        image::sharpen::kernel(),
        image::sobel::kernel(),
        image::threshold::kernel(),
        math::abs::kernel(),
        math::argmax::kernel(),
        math::argmin::kernel(),
        math::cast::kernel(),
        math::clamp::kernel(),
        math::concat::kernel(),
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
        math::histogram::kernel(),
        math::log::kernel(),
        math::matmul::kernel(),
        math::neg::kernel(),
        math::reduce_max::kernel(),
        math::reduce_mean::kernel(),
        math::reduce_min::kernel(),
        math::reduce_prod::kernel(),
        math::reduce_sum::kernel(),
        math::relu::kernel(),
        math::reshape::kernel(),
        math::scalar_add::kernel(),
        math::scalar_mul::kernel(),
        math::sigmoid::kernel(),
        math::slice::kernel(),
        math::sqrt::kernel(),
        math::tanh::kernel(),
        math::transpose::kernel(),
        nn::dense::kernel(),
        nn::layer_norm::kernel(),
        nn::log_softmax::kernel(),
        nn::softmax::kernel(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every file in a family's folder is a kernel on the list, under its own name.
    #[test]
    fn every_file_is_listed() {
        let mut files = Vec::new();
        for family in ["image", "math", "nn"] {
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
