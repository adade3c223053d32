//! The kernel of docs/ADDING_A_KERNEL.md, so that it compiles and computes what the page says.

pub mod reduce_range;

use dala_spec::{DType, Data, Params, TensorType, validate};

#[test]
fn the_kernel_of_the_guide_is_right() {
    let kernel = reduce_range::kernel();
    let types = [TensorType::new(DType::F32, [2, 3])];
    let x = Data::F32(vec![1.0f32, 5.0, 2.0, -1.0, 0.5, 4.0]);
    for (axis, output, expected) in [(-1, vec![2], vec![4.0f32, 5.0]), (0, vec![3], vec![2.0, 4.5, 2.0])] {
        let output = TensorType::new(DType::F32, output);
        let params = Params::new().with("axis", axis);
        let signature = validate(&kernel.spec, &types, &output, &params).unwrap();
        let computed = kernel.on_host(&signature, std::slice::from_ref(&x)).unwrap();
        assert_eq!(computed, Some(Data::F32(expected)), "axis {axis}");
    }
}
