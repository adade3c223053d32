//! `Range`: numbers from a constant start up to a constant limit, and `EyeLike`: a matrix with ones on a diagonal.

use dala_spec::{DType, Data, Scalar, Shape};

use super::call::NodeCall;
use super::operator::{Kind, Operator, Outcome};
use crate::ModelError;
use crate::attribute::Attribute;
use crate::limits::MAX_ELEMENTS;
use crate::proto::element_type;

pub(super) const RANGE: Operator = Operator::new("Range", Kind::Others, range).inputs(3, 3);
pub(super) const EYE_LIKE: Operator = Operator::new("EyeLike", Kind::Others, eye);

fn range(call: &NodeCall<'_>) -> Result<Outcome, ModelError> {
    let dtype = call.dtype(0)?;
    let mut given = [Scalar::U8(0); 3];
    for (place, (scalar, name)) in given.iter_mut().zip(["start", "limit", "delta"]).enumerate() {
        call.same_dtype(place)?;
        *scalar = call.scalar(place, name)?.unwrap_or(*scalar);
    }
    let [start, limit, delta] = given;
    if delta.as_f64() == 0.0 {
        return Err(call.bad_value("delta", "other than 0", 0));
    }
    let len = match dtype.is_float() {
        true => ((limit.as_f64() - start.as_f64()) / delta.as_f64()).ceil().max(0.0),
        false => {
            let (distance, step) =
                (i128::from(limit.as_i64()) - i128::from(start.as_i64()), i128::from(delta.as_i64()));
            let whole = distance / step + i128::from(distance % step != 0 && (distance < 0) == (step < 0));
            whole.max(0) as f64
        }
    };
    // What is no number has no length either.
    let len = if len <= MAX_ELEMENTS as f64 { len as usize } else { usize::MAX };
    let shape = call.output(dtype, vec![len])?.shape;
    call.budget.need(len, call.node)?;
    let element = |index: usize| match dtype.is_float() {
        true => Scalar::from_f64(dtype, start.as_f64() + index as f64 * delta.as_f64()),
        false => Scalar::wrapping(dtype, i128::from(start.as_i64()) + index as i128 * i128::from(delta.as_i64())),
    };
    Ok(Outcome::constant(shape, Data::collect(dtype, (0..len).map(element))))
}

fn eye(call: &NodeCall<'_>) -> Result<Outcome, ModelError> {
    let dims = call.dims(0)?;
    let &[rows, columns] = dims else { return Err(call.shape_mismatch("a matrix", dims)) };
    let dtype = match call.attribute("dtype") {
        None => call.dtype(0)?,
        Some(Attribute::Int(dtype)) => named_type(call, *dtype)?,
        Some(other) => return Err(call.bad_attribute("dtype", "an integer", other.kind())),
    };
    let diagonal = call.int("k", 0)?;
    call.budget.need(rows.saturating_mul(columns), call.node)?;
    let element = |row: usize, column: usize| {
        let own = (row as i64).checked_add(diagonal) == Some(column as i64);
        Scalar::from_i64(dtype, own.into())
    };
    let elements = (0..rows).flat_map(|row| (0..columns).map(move |column| element(row, column)));
    Ok(Outcome::constant(Shape::from([rows, columns]), Data::collect(dtype, elements)))
}

/// An element type by its number in the format.
pub(super) fn named_type(call: &NodeCall<'_>, number: i64) -> Result<DType, ModelError> {
    element_type::dtype(i32::try_from(number).unwrap_or(0)).map_err(|found| ModelError::ElementType {
        what: format!("the result of node `{}`", call.name()),
        found: found.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use dala_spec::Data;

    use crate::builder::{Net, constants, floats, int, integers, scalar, single};

    #[test]
    fn ranges_stop_before_the_limit() {
        let whole = |list: [i64; 3]| constants(13, "Range", list.map(|own| integers(&[], &[own])).to_vec(), vec![]).1;
        assert_eq!(whole([2, 9, 3]), Data::S64(vec![2, 5, 8]));
        assert_eq!(whole([2, 8, 3]), Data::S64(vec![2, 5]));
        assert_eq!(whole([10, 6, -3]), Data::S64(vec![10, 7]));
        assert_eq!(whole([1, 0, 1]), Data::S64(vec![]));
        let halves = constants(13, "Range", [1.0, 2.5, 0.5].map(scalar).to_vec(), vec![]);
        assert_eq!(halves, (vec![3], Data::F32(vec![1.0, 1.5, 2.0])));
        let code = |list: [i64; 3]| {
            let names = ["a", "b", "c"];
            let net = Net::new(13).x(&[1]);
            let net = names.iter().zip(list).fold(net, |net, (name, own)| net.tensor(name, integers(&[], &[own])));
            net.node("Range", &names, "y", vec![]).output("y").code()
        };
        assert_eq!(code([0, 1, 0]), "bad_value");
        assert_eq!(code([i64::MIN, i64::MAX, 1]), "too_large");
    }

    #[test]
    fn ones_are_on_a_diagonal() {
        let eye = |attributes| constants(13, "EyeLike", vec![floats(&[2, 3], vec![0.5; 6])], attributes).1;
        assert_eq!(eye(vec![]), Data::F32(vec![1.0, 0.0, 0.0, 0.0, 1.0, 0.0]));
        assert_eq!(eye(vec![int("k", 1), int("dtype", 7)]), Data::S64(vec![0, 1, 0, 0, 0, 1]));
        assert_eq!(single(13, "EyeLike", &[1, 2, 3], vec![], vec![]).code(), "shape_mismatch");
    }
}
