//! `NonZero`: where a constant has elements other than zero. How many there are decides shapes, so values are refused.

use dala_spec::{Data, Shape};

use super::operator::{Kind, Operator, Outcome};

pub(super) const NON_ZERO: Operator = Operator::new("NonZero", Kind::Others, |call| {
    let dims = call.dims(0)?;
    call.constant(0, "the first input")?;
    let Some(data) = call.looked_at(0)? else { return Ok(Outcome::same(call.input(0)?)) };
    let set = |value: &(usize, dala_spec::Scalar)| value.1.as_f64() != 0.0;
    let found: Vec<usize> = data.iter().enumerate().filter(set).map(|(place, _)| place).collect();
    let mut places = Vec::new();
    let mut stride = data.len();
    for &size in dims {
        stride /= size.max(1);
        places.extend(found.iter().map(|place| (place / stride.max(1) % size.max(1)) as i64));
    }
    Ok(Outcome::constant(Shape::from(vec![dims.len(), found.len()]), Data::S64(places)))
});

#[cfg(test)]
mod tests {
    use dala_spec::Data;

    use crate::builder::{constants, floats, single};

    #[test]
    fn places_are_listed_by_axis() {
        let matrix = floats(&[2, 2], vec![1.0, 0.0, f32::NAN, -4.0]);
        assert_eq!(constants(13, "NonZero", vec![matrix], vec![]), (vec![2, 3], Data::S64(vec![0, 1, 1, 0, 0, 1])));
        assert_eq!(single(13, "NonZero", &[2], vec![], vec![]).code(), "not_constant");
    }
}
