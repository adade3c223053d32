//! `MatMul`: the product of matrices, or of stacks of them, as NumPy's `matmul`.

use dala_spec::{DType, Data, Params, Scalar, Shape, SpecError, TensorType};

use super::call::{NodeCall, broadcast};
use super::operator::{Kind, Operator, Outcome};
use crate::ModelError;
use crate::lower::Lowerer;
use crate::op::Compute;

pub(super) const MAT_MUL: Operator = Operator::new("MatMul", Kind::Matrices, infer).inputs(2, 2);

fn infer(call: &NodeCall<'_>) -> Result<Outcome, ModelError> {
    if call.dtype(0)? != DType::S32 {
        call.float()?;
    }
    call.same_dtype(1)?;
    let ty = call.output(call.dtype(0)?, product(call, 1)?)?;
    Ok(Outcome::layer(MatMul, [call.input(0)?, call.input(1)?], ty))
}

/// The sizes of the product of the first input and another.
pub(super) fn product(call: &NodeCall<'_>, second: usize) -> Result<Vec<usize>, ModelError> {
    let (a, b) = (call.dims(0)?, call.dims(second)?);
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
    Ok(dims)
}

/// The work of a product whose first input has the inner size along `axis`.
pub(super) fn cost(reads: &[&Shape], makes: &[TensorType], axis: usize) -> Option<usize> {
    let inner = *reads.first()?.dims().get(axis)?;
    let read = reads.iter().fold(0usize, |sum, shape| sum.saturating_add(shape.len()));
    Some(makes.first()?.shape.len().saturating_mul(inner).saturating_add(read))
}

#[derive(Debug)]
struct MatMul;

impl Compute for MatMul {
    fn cost(&self, reads: &[&Shape], makes: &[TensorType]) -> Option<usize> {
        cost(reads, makes, reads.first()?.rank().checked_sub(1)?)
    }

    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let (a, b) = (to.first(0)?, to.first(1)?);
        let made = multiply(to, a, b)?;
        to.give_first(0, made);
        Ok(())
    }
}

/// The product of two cells in the shape of the first output.
pub(super) fn multiply(to: &mut Lowerer<'_>, mut a: usize, mut b: usize) -> Result<usize, SpecError> {
    let dtype = to.calls.ty(a).dtype;
    let shape = to.output().shape.clone();
    // Vectors count as matrices of one row, or of one column.
    let (left, right) = (to.calls.ty(a).shape.clone(), to.calls.ty(b).shape.clone());
    let mut dims = shape.dims().to_vec();
    if let [size] = *left.dims() {
        a = to.calls.view(a, TensorType::new(dtype, [1, size]));
        dims.insert(dims.len() - usize::from(right.rank() > 1), 1);
    }
    if let [size] = *right.dims() {
        b = to.calls.view(b, TensorType::new(dtype, [size, 1]));
        dims.push(1);
    }
    let stack = dims[..dims.len() - 2].to_vec();
    a = stacked(to, a, &stack)?;
    b = stacked(to, b, &stack)?;
    let made = to.call("matmul", &[a, b], TensorType::new(dtype, dims), &Params::new())?;
    Ok(to.calls.view(made, TensorType { dtype, shape }))
}

/// Matrices, as many as the product has: repeated where there are fewer, unless there is one for all.
fn stacked(to: &mut Lowerer<'_>, cell: usize, stack: &[usize]) -> Result<usize, SpecError> {
    let ty = to.calls.ty(cell).clone();
    let [own @ .., rows, columns] = ty.shape.dims() else { return Ok(cell) };
    if own == stack {
        return Ok(cell);
    }
    if own.iter().all(|size| *size == 1) {
        return Ok(to.calls.view(cell, TensorType::new(ty.dtype, [*rows, *columns])));
    }
    // The sum with nothing has the larger shape of the two.
    let zeros = Data::collect(ty.dtype, std::iter::repeat_n(Scalar::from_f64(ty.dtype, 0.0), stack.iter().product()));
    let zeros = to.constant(zeros, &[stack, &[1, 1]].concat());
    let full = TensorType::new(ty.dtype, [stack, &[*rows, *columns]].concat());
    let name = format!("{}, repeated", to.layer());
    to.calls.call(&name, "elementwise_add", &[cell, zeros], full, &Params::new())
}

#[cfg(test)]
mod tests {
    use dala_spec::Data;

    use crate::builder::{constants, floats, single, some_floats};

    #[test]
    fn stacks_are_repeated_to_fit() {
        let product = |x: &[i64], c: &[i64]| {
            single(13, "MatMul", x, vec![some_floats(c)], vec![]).dims().map_err(|error| error.code())
        };
        assert_eq!(product(&[-1, 3], &[3, 4]), Ok(vec![2, 4]));
        assert_eq!(product(&[-1, 1, 2, 3], &[5, 3, 4]), Ok(vec![2, 5, 2, 4]));
        assert_eq!(product(&[2], &[2]), Ok(vec![]));
        assert_eq!(product(&[-1, 3], &[3]), Ok(vec![2]));
        assert_eq!(product(&[-1, 3], &[4, 3]), Err("shape_mismatch"));
        assert_eq!(product(&[-1, 3], &[]), Err("shape_mismatch"));
    }

    #[test]
    fn constants_are_multiplied() {
        let matrix = floats(&[2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let product = constants(13, "MatMul", vec![matrix, floats(&[3], vec![1.0, 0.0, -1.0])], vec![]);
        assert_eq!(product, (vec![2], Data::F32(vec![-2.0, -2.0])));
    }
}
