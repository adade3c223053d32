//! Products of matrices.

use super::{Call, Input, Outcome, broadcast};
use crate::{ModelError, Op};

pub(super) fn gemm(call: &Call<'_>) -> Result<Outcome, ModelError> {
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
            Input::Value(number)
        }
        None => Input::Zeros("bias", call.output(dtype, vec![columns])?),
    };
    let inputs = vec![Input::Value(call.input(0)?), Input::Value(call.input(1)?), c];
    let ty = call.output(dtype, vec![rows, columns])?;
    Ok(Outcome::Layer { op: Op::Gemm { alpha, beta, transpose_a, transpose_b }, inputs, ty })
}

pub(super) fn mat_mul(call: &Call<'_>) -> Result<Outcome, ModelError> {
    call.float()?;
    call.same_dtype(1)?;
    let (a, b) = (call.dims(0)?, call.dims(1)?);
    let mismatch = || call.shape_mismatch(format!("a second input to multiply {a:?} with"), b);
    // A list counts as a row on the left and as a column on the right; the axis that adds is not in the result.
    let (stack_a, rows, inner_a) = match *a {
        [ref stack @ .., rows, inner] => (stack, Some(rows), inner),
        [inner] => (&[][..], None, inner),
        [] => return Err(mismatch()),
    };
    let (stack_b, inner_b, columns) = match *b {
        [ref stack @ .., inner, columns] => (stack, inner, Some(columns)),
        [inner] => (&[][..], inner, None),
        [] => return Err(mismatch()),
    };
    if inner_a != inner_b {
        return Err(mismatch());
    }
    let mut dims = broadcast(stack_a, stack_b).ok_or_else(mismatch)?;
    dims.extend(rows);
    dims.extend(columns);
    let ty = call.output(call.dtype(0)?, dims)?;
    Ok(Outcome::layer(Op::MatMul, [call.input(0)?, call.input(1)?], ty))
}

#[cfg(test)]
mod tests {
    use crate::builder::{Net, floats, int, single};
    use crate::proto::AttributeProto;

    fn dims(net: Net) -> Result<Vec<usize>, &'static str> {
        let network = net.resolve(2).map_err(|error| error.code())?;
        Ok(network.values[network.outputs[0]].ty.shape.dims().to_vec())
    }

    fn weights(dims: &[i64]) -> crate::proto::TensorProto {
        floats(dims, vec![0.5; dims.iter().product::<i64>() as usize])
    }

    #[test]
    fn a_third_matrix_is_always_there() {
        let gemm = |constants: &[&[i64]], attributes: Vec<AttributeProto>| {
            single(13, "Gemm", &[-1, 3], constants.iter().map(|dims| weights(dims)).collect(), attributes)
        };
        assert_eq!(dims(gemm(&[&[3, 5]], vec![])), Ok(vec![2, 5]));
        assert_eq!(gemm(&[&[3, 5]], vec![]).resolve(2).unwrap().layers[0].inputs.len(), 3);
        assert_eq!(dims(gemm(&[&[5, 3], &[5]], vec![int("transB", 1)])), Ok(vec![2, 5]));
        assert_eq!(dims(gemm(&[&[3, 5], &[]], vec![])), Ok(vec![2, 5]));
        assert_eq!(dims(gemm(&[&[3, 5], &[3]], vec![])), Err("shape_mismatch"));
        assert_eq!(dims(gemm(&[&[4, 5]], vec![])), Err("shape_mismatch"));
        assert_eq!(dims(gemm(&[&[3, 5, 1]], vec![])), Err("shape_mismatch"));
    }

    #[test]
    fn stacks_are_repeated_to_fit() {
        let product = |x: &[i64], c: &[i64]| dims(single(13, "MatMul", x, vec![weights(c)], vec![]));
        assert_eq!(product(&[-1, 3], &[3, 4]), Ok(vec![2, 4]));
        assert_eq!(product(&[-1, 1, 2, 3], &[5, 3, 4]), Ok(vec![2, 5, 2, 4]));
        assert_eq!(product(&[2], &[2]), Ok(vec![]));
        assert_eq!(product(&[-1, 3], &[3]), Ok(vec![2]));
        assert_eq!(product(&[-1, 3], &[4, 3]), Err("shape_mismatch"));
        assert_eq!(product(&[-1, 3], &[]), Err("shape_mismatch"));
    }
}
