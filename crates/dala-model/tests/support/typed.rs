//! Tensors of golden files, as elements of their own types.

use dala_spec::{DType, Data};
use safetensors::Dtype;
use safetensors::tensor::TensorView;

/// A tensor's elements and shape.
pub(crate) fn elements(tensor: &TensorView<'_>) -> Result<(Data, Vec<usize>), String> {
    let dtype = match tensor.dtype() {
        Dtype::F32 => DType::F32,
        Dtype::F64 => DType::F64,
        Dtype::F16 => DType::F16,
        Dtype::BF16 => DType::BF16,
        Dtype::I64 => DType::S64,
        Dtype::I32 => DType::S32,
        Dtype::I16 => DType::S16,
        Dtype::I8 => DType::S8,
        Dtype::U8 | Dtype::BOOL => DType::U8,
        Dtype::U16 => DType::U16,
        Dtype::U32 => DType::U32,
        Dtype::U64 => DType::U64,
        other => return Err(format!("golden values of type {other:?}")),
    };
    Ok((Data::from_bytes(dtype, tensor.data()), tensor.shape().to_vec()))
}
