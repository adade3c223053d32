//! A test picture: red grows from left to right, green from top to bottom, blue is half, alpha is full. One channel alone
//! grows from left to right. Pixels of integers span 0 to 255, of floats 0 to 1.

use dala_spec::expr::CompareOp;
use dala_spec::{DType, Data, Expr, KernelSpec, OutputDType, OutputShape, Scalar, Signature, Tolerance};

use crate::{Kernel, Reference};

/// The element types of pictures.
const PIXELS: &[DType] = &[DType::U8, DType::F32];

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::pointwise("generate_gradient")
        .summary("A test picture: red grows to the right, green downwards")
        .output(OutputShape::Image, OutputDType::OneOf(PIXELS))
        .tolerance(Tolerance::ulps(4).levels(1));
    Kernel::pointwise(spec, work).reference(reference)
}

fn work(call: &Signature) -> Expr {
    let float = |expr: Expr| expr.cast(DType::F32);
    // From 0 at the first to 1 at the last; one alone is 0.
    let along = |axis| float(Expr::coord(axis)) / float((Expr::dim(axis) - 1).max(1));
    let is = |channel| Expr::channel().compare(CompareOp::Eq, channel);
    let blue_or_alpha = Expr::select(is(2), Expr::from(0.5), Expr::from(1.0));
    let colour = Expr::select(is(0), along(1), Expr::select(is(1), along(0), blue_or_alpha));
    if call.output.dtype == DType::U8 { colour * 255 } else { colour }
}

fn reference(call: &Reference) -> Data {
    let dims = call.signature.output.shape.dims();
    let (height, width, channels) = (dims[0], dims[1], dims.get(2).copied().unwrap_or(1));
    let along = |at: usize, size: usize| at as f32 / size.saturating_sub(1).max(1) as f32;
    let element = |index: usize| {
        let (x, y) = (index / channels % width, index / channels / width);
        let value = match index % channels {
            0 => along(x, width),
            1 => along(y, height),
            2 => 0.5,
            _ => 1.0,
        };
        match call.dtype() {
            DType::U8 => Scalar::U8((value * 255.0).round_ties_even() as u8),
            _ => Scalar::F32(value),
        }
    };
    Data::collect(call.dtype(), (0..call.len()).map(element))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dala_spec::{Params, TensorType, expr::interpret, validate};

    fn picture(dims: &[usize]) -> Data {
        let kernel = kernel();
        let output = TensorType::new(DType::U8, dims);
        let signature = validate(&kernel.spec, &[], &output, &Params::new()).unwrap();
        let program = kernel.program(&signature).unwrap().unwrap();
        let values = program.param_values("generate_gradient", &signature).unwrap();
        let interpreted = interpret(&program, &[], &values, &signature.output.shape);
        let reference = reference(&Reference { inputs: &[], signature: &signature });
        assert_eq!(interpreted, std::slice::from_ref(&reference));
        reference
    }

    #[test]
    fn corners() {
        let expected = vec![0, 0, 128, 255, 255, 0, 128, 255, 0, 255, 128, 255, 255, 255, 128, 255];
        assert_eq!(picture(&[2, 2, 4]), Data::U8(expected));
        assert_eq!(picture(&[1, 1, 3]), Data::U8(vec![0, 0, 128]));
        assert_eq!(picture(&[1, 3]), Data::U8(vec![0, 128, 255]));
    }
}
