//! The list of all kernels: one line each.

use crate::Kernel;

/// Hands the list to another macro: families, and the kernels of each. A kernel called `name` is the file `name.rs` in its family's
/// folder.
macro_rules! with_kernels {
    ($macro:ident) => {
        $macro! {
            /// Pictures.
            image {
                blur,
                box_blur,
                brightness_contrast,
                crop,
                flip,
                generate_gradient,
                grayscale,
                lut,
                overlay_alpha,
                preprocess,
                resize,
                sharpen,
                sobel,
                threshold,
            }
            /// Arithmetic, element by element and over axes; matrices and views.
            math {
                abs,
                argmax,
                argmin,
                argsort,
                cast,
                clamp,
                concat,
                copy,
                cumulative_sum,
                elementwise_add,
                elementwise_div,
                elementwise_max,
                elementwise_min,
                elementwise_mul,
                elementwise_sub,
                exp,
                fill,
                gather,
                gather_elements,
                gather_nd,
                gelu,
                histogram,
                log,
                matmul,
                neg,
                pad,
                reduce_max,
                reduce_mean,
                reduce_min,
                reduce_prod,
                reduce_sum,
                relu,
                reshape,
                scalar_add,
                scalar_mul,
                scatter_elements,
                scatter_nd,
                sigmoid,
                slice,
                sqrt,
                tanh,
                transpose,
                weighted_gather,
            }
            /// Parts of neural networks.
            nn {
                avg_pool2d,
                batch_norm,
                conv2d,
                dense,
                global_avg_pool,
                grid_sample,
                hard_sigmoid,
                hard_swish,
                layer_norm,
                log_softmax,
                max_pool2d,
                softmax,
            }
        }
    };
}
pub(crate) use with_kernels;

macro_rules! build {
    ($($(#[$doc:meta])* $family:ident { $($kernel:ident,)+ })+) => {
        vec![$($(crate::$family::$kernel::kernel(),)+)+]
    };
}

/// Every built-in kernel.
pub fn built_in() -> Vec<Kernel> {
    let mut kernels: Vec<Kernel> = with_kernels!(build);
    kernels.extend(crate::elementwise::kernels());
    kernels
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
        let with_files: Vec<Kernel> = with_kernels!(build);
        let mut listed: Vec<String> = with_files.into_iter().map(|kernel| kernel.spec.name).collect();
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
