//! `Gemm`: `alpha * a * b + beta * c` of matrices; `c` is repeated to fit.

use dala_spec::{Params, Scalar, Shape, SpecError, TensorType};

use super::call::{NodeCall, broadcast};
use super::operator::{Given, Kind, Operator, Outcome};
use crate::ModelError;
use crate::lower::Lowerer;
use crate::op::Compute;

pub(super) const GEMM: Operator = Operator::new("Gemm", Kind::Matrices, infer).inputs(2, 3);

fn infer(call: &NodeCall<'_>) -> Result<Outcome, ModelError> {
    let dtype = call.float()?;
    call.same_dtype(1)?;
    let (transpose_a, transpose_b) = (call.flag("transA", false)?, call.flag("transB", false)?);
    let (alpha, beta) = (call.float_attribute("alpha", 1.0)?, call.float_attribute("beta", 1.0)?);
    let matrix = |place: usize, transposed: bool| match *call.dims(place)? {
        [rows, columns] if transposed => Ok((columns, rows)),
        [rows, columns] => Ok((rows, columns)),
        ref other => Err(call.shape_mismatch("matrices", other)),
    };
    let ((rows, inner), (inner_b, columns)) = (matrix(0, transpose_a)?, matrix(1, transpose_b)?);
    if inner != inner_b {
        return Err(call.shape_mismatch(format!("a second matrix for {inner} columns of the first"), call.dims(1)?));
    }
    let c = match call.number(2) {
        Some(number) => {
            call.same_dtype(2)?;
            let dims = call.dims(2)?;
            if broadcast(dims, &[rows, columns]).as_deref() != Some(&[rows, columns][..]) {
                let expected = format!("a third input that can be repeated to fit {{{rows}, {columns}}}");
                return Err(call.shape_mismatch(expected, dims));
            }
            Given::Value(number)
        }
        None => Given::Filled(call.output(dtype, vec![columns])?.shape, Scalar::from_i64(dtype, 0)),
    };
    let inputs = [("a", Given::Value(call.input(0)?)), ("b", Given::Value(call.input(1)?)), ("bias", c)];
    let ty = call.output(dtype, vec![rows, columns])?;
    Ok(Outcome::layer_of(Gemm { alpha, beta, transpose_a, transpose_b }, inputs, ty))
}

/// Over `a`, `b` and `c`, which is always there.
#[derive(Debug)]
struct Gemm {
    alpha: f32,
    beta: f32,
    transpose_a: bool,
    transpose_b: bool,
}

impl Compute for Gemm {
    fn cost(&self, reads: &[&Shape], makes: &[TensorType]) -> Option<usize> {
        super::mat_mul::cost(reads, makes, usize::from(!self.transpose_a))
    }

    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let (a, b, c) = (to.first(0)?, to.first(1)?, to.first(2)?);
        let ty = to.output().clone();
        let columns = ty.shape.dims().last().copied().unwrap_or_default();
        let is_bias = to.calls.ty(c).shape.len() == columns && matches!(to.calls.ty(c).shape.dims(), [_] | [1, _]);
        if self.alpha == 1.0 && self.beta == 1.0 && !self.transpose_a && is_bias {
            let bias = to.calls.view(c, TensorType::new(ty.dtype, [columns]));
            let params = Params::new().with("transpose_weight", self.transpose_b);
            return to.call_first("dense", &[a, b, bias], &params);
        }
        let params = Params::new().with("transpose_a", self.transpose_a).with("transpose_b", self.transpose_b);
        let product = to.call("matmul", &[a, b], ty, &params)?;
        let inputs = [scaled(to, product, self.alpha)?, scaled(to, c, self.beta)?];
        to.call_first("elementwise_add", &inputs, &Params::new())
    }
}

fn scaled(to: &mut Lowerer<'_>, cell: usize, factor: f32) -> Result<usize, SpecError> {
    if factor == 1.0 {
        return Ok(cell);
    }
    let ty = to.calls.ty(cell).clone();
    to.call("scalar_mul", &[cell], ty, &Params::new().with("scalar", f64::from(factor)))
}

#[cfg(test)]
mod tests {
    use dala_spec::Data;

    use crate::builder::{constants, float, floats, int, single, some_floats};
    use crate::proto::AttributeProto;

    #[test]
    fn a_third_matrix_is_always_there() {
        let gemm = |constants: &[&[i64]], attributes: Vec<AttributeProto>| {
            single(13, "Gemm", &[-1, 3], constants.iter().map(|dims| some_floats(dims)).collect(), attributes)
        };
        let dims = |constants: &[&[i64]], attributes| gemm(constants, attributes).dims().map_err(|error| error.code());
        assert_eq!(dims(&[&[3, 5]], vec![]), Ok(vec![2, 5]));
        assert_eq!(gemm(&[&[3, 5]], vec![]).resolve(2).unwrap().layers[0].inputs.len(), 3);
        assert_eq!(dims(&[&[5, 3], &[5]], vec![int("transB", 1)]), Ok(vec![2, 5]));
        assert_eq!(dims(&[&[3, 5], &[]], vec![]), Ok(vec![2, 5]));
        assert_eq!(dims(&[&[3, 5], &[3]], vec![]), Err("shape_mismatch"));
        assert_eq!(dims(&[&[4, 5]], vec![]), Err("shape_mismatch"));
        assert_eq!(dims(&[&[3, 5, 1]], vec![]), Err("shape_mismatch"));
    }

    #[test]
    fn constants_are_multiplied() {
        let matrix = || floats(&[2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let square = vec![int("transB", 1), float("alpha", 0.5)];
        let product = constants(13, "Gemm", vec![matrix(), matrix()], square);
        assert_eq!(product.1, Data::F32(vec![7.0, 16.0, 16.0, 38.5]));
    }
}
