//! `MatMulInteger` and `QLinearMatMul`: products of matrices of bytes, with zeros for each row of the first and each column of the second.

use dala_spec::{DType, Shape, SpecError, TensorType};

use super::call::NodeCall;
use super::mat_mul::{self, multiply, product};
use super::operator::{Given, Kind, Operator, Outcome};
use super::quantized::{Each, bytes, cast, centred, rescaled, scale, sums_in, zero};
use crate::ModelError;
use crate::lower::Lowerer;
use crate::op::Compute;

/// The sums themselves.
pub(super) const MAT_MUL_INTEGER: Operator = Operator::new("MatMulInteger", Kind::Matrices, |call| {
    let (rows, columns) = sizes(call, 1)?;
    let ty = call.output(DType::S32, product(call, 1)?)?;
    let inputs = [
        ("a", Given::Value(call.input(0)?)),
        ("b", Given::Value(call.input(1)?)),
        ("a zero", zero(call, 2, 0, Each(rows, 1))?),
        ("b zero", zero(call, 3, 1, Each(columns, 0))?),
    ];
    Ok(Outcome::layer_of(Integers { scaled: false }, inputs, ty))
})
.inputs(2, 4);

/// The sums as bytes, by a scale and a zero of their own.
pub(super) const Q_LINEAR_MAT_MUL: Operator = Operator::new("QLinearMatMul", Kind::Matrices, |call| {
    let (rows, columns) = sizes(call, 3)?;
    let ty = call.output(bytes(call, 7)?, product(call, 3)?)?;
    let inputs = [
        ("a", Given::Value(call.input(0)?)),
        ("b", Given::Value(call.input(3)?)),
        ("a zero", zero(call, 2, 0, Each(rows, 1))?),
        ("b zero", zero(call, 5, 3, Each(columns, 0))?),
        ("a scale", scale(call, 1, Each(rows, 1))?),
        ("b scale", scale(call, 4, Each(columns, 0))?),
        ("scale", scale(call, 6, Each(1, 0))?),
        ("zero", zero(call, 7, 7, Each(1, 0))?),
    ];
    Ok(Outcome::layer_of(Integers { scaled: true }, inputs, ty))
})
.inputs(8, 8);

/// Rows of the first matrix and columns of the second, both of bytes.
fn sizes(call: &NodeCall<'_>, second: usize) -> Result<(usize, usize), ModelError> {
    bytes(call, 0)?;
    bytes(call, second)?;
    let rows = call.dims(0)?.iter().rev().nth(1).copied().unwrap_or(1);
    let columns = if call.dims(second)?.len() > 1 { call.dims(second)?.last().copied() } else { None };
    Ok((rows, columns.unwrap_or(1)))
}

/// Over two matrices and their zeros; where the result has a scale, the scales of both, its own, and its zero.
#[derive(Debug)]
struct Integers {
    scaled: bool,
}

impl Compute for Integers {
    fn cost(&self, reads: &[&Shape], makes: &[TensorType]) -> Option<usize> {
        mat_mul::cost(reads, makes, reads.first()?.rank().checked_sub(1)?)
    }

    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let (left, right) = (to.dims(0), to.dims(1));
        let (inner, columns) = match *right {
            [.., inner, columns] => (inner, columns),
            _ => (to.value(1).ty.shape.len(), 1),
        };
        let (block, row) = ((inner * columns).max(1), columns.max(1));
        let wide = sums_in(to, 1, 3, inner, |index| index / block * columns + index % row);
        let (a, b) = (to.first(0)?, to.first(1)?);
        let a = centred(to, a, (2, left.len().checked_sub(2)), wide)?;
        let b = centred(to, b, (3, right.len().checked_sub(1).filter(|_| right.len() > 1)), wide)?;
        let sums = multiply(to, a, b)?;
        let made = match self.scaled {
            false => cast(to, sums, DType::S32)?,
            true => {
                let rank = to.output().shape.rank();
                let rows = rank.checked_sub(if right.len() > 1 { 2 } else { 1 }).filter(|_| left.len() > 1);
                let columns = rank.checked_sub(1).filter(|_| right.len() > 1);
                rescaled(to, sums, [(4, rows), (5, columns), (6, None)], 7)?
            }
        };
        to.give_first(0, made);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use dala_spec::Data;

    use crate::builder::{Net, constants, floats, small_integers};
    use crate::proto::element_type::{INT8, UINT8};

    #[test]
    fn rows_and_columns_have_zeros() {
        let a = || small_integers(&[2, 2], UINT8, &[11, 7, 3, 255]);
        let b = || small_integers(&[2, 2], INT8, &[1, -128, 4, 127]);
        assert_eq!(constants(10, "MatMulInteger", vec![a(), b()], vec![]).1, Data::S32(vec![39, -519, 1023, 32001]));
        let zeros = vec![small_integers(&[2], UINT8, &[1, 5]), small_integers(&[2], INT8, &[1, -1])];
        let found = constants(10, "MatMulInteger", [vec![a(), b()], zeros].concat(), vec![]);
        assert_eq!(found.1, Data::S32(vec![18, -502, 750, 32254]));
    }

    #[test]
    fn results_have_a_scale() {
        let a = small_integers(&[1, 2], UINT8, &[130, 126]);
        let b = small_integers(&[2, 2], UINT8, &[200, 10, 20, 250]);
        let zero = |value| small_integers(&[], UINT8, &[value]);
        let scale = |value| floats(&[], vec![value]);
        let inputs = vec![a, scale(0.5), zero(128), b, scale(0.25), zero(0), scale(2.0), zero(100)];
        assert_eq!(constants(10, "QLinearMatMul", inputs, vec![]).1, Data::U8(vec![122, 70]));
    }

    #[test]
    fn zeros_must_fit() {
        let net = |zero: &[i64], kind: i32| {
            let len = zero.iter().product::<i64>() as usize;
            let net = Net::new(13).input("x", UINT8, &[2, 3]).tensor("b", small_integers(&[3, 4], INT8, &[1; 12]));
            let net = net.tensor("z", small_integers(zero, kind, &vec![1; len]));
            net.node("MatMulInteger", &["x", "b", "", "z"], "y", vec![]).output("y").code()
        };
        assert_eq!(net(&[4], INT8), "read");
        assert_eq!(net(&[1, 4], INT8), "read");
        assert_eq!(net(&[], INT8), "read");
        assert_eq!(net(&[3], INT8), "shape_mismatch");
        assert_eq!(net(&[4], UINT8), "dtype_mismatch");
        assert_eq!(
            Net::new(13).x(&[2, 2]).node("MatMulInteger", &["x", "x"], "y", vec![]).output("y").code(),
            "dtype_mismatch"
        );
    }
}
