//! `HannWindow`, `HammingWindow` and `BlackmanWindow`: windows for signals, and `MelWeightMatrix`: which frequencies belong to which band as
//! people hear them. All of constants.

use dala_spec::{DType, Data, Scalar, Shape};

use super::call::NodeCall;
use super::operator::{Kind, Operator, Outcome};
use crate::ModelError;
use crate::proto::element_type;

pub(super) const BLACKMAN_WINDOW: Operator =
    Operator::new("BlackmanWindow", Kind::Others, |call| window(call, [0.42, 0.5, 0.08]));
pub(super) const HAMMING_WINDOW: Operator =
    Operator::new("HammingWindow", Kind::Others, |call| window(call, [25.0 / 46.0, 1.0 - 25.0 / 46.0, 0.0]));
pub(super) const HANN_WINDOW: Operator =
    Operator::new("HannWindow", Kind::Others, |call| window(call, [0.5, 0.5, 0.0]));

fn number(call: &NodeCall<'_>, place: usize, what: &str) -> Result<Scalar, ModelError> {
    let missing = || call.bad_value(what, "there", "nothing");
    call.scalar(place, what)?.ok_or_else(missing)
}

fn size(call: &NodeCall<'_>, place: usize, what: &str) -> Result<usize, ModelError> {
    let found = number(call, place, what)?;
    usize::try_from(found.as_i64()).map_err(|_| call.bad_value(what, "at least 0", found))
}

/// The element type that the node asks for.
fn asked(call: &NodeCall<'_>) -> Result<DType, ModelError> {
    let given = call.int("output_datatype", 1)?;
    let dtype = i32::try_from(given).ok().and_then(|given| element_type::dtype(given).ok());
    dtype.ok_or_else(|| call.bad_attribute("output_datatype", "an element type that is read", given))
}

/// A sum of a constant and two cosines.
fn window(call: &NodeCall<'_>, [mean, once, twice]: [f64; 3]) -> Result<Outcome, ModelError> {
    let (size, dtype) = (size(call, 0, "size")?, asked(call)?);
    let ty = call.output(dtype, vec![size])?;
    call.budget.need(size, call.node)?;
    let round = if call.flag("periodic", true)? { size } else { size.saturating_sub(1) }.max(1) as f64;
    let value = |at: usize| {
        let angle = std::f64::consts::TAU * at as f64 / round;
        Scalar::from_f64(dtype, mean - once * angle.cos() + twice * (2.0 * angle).cos())
    };
    Ok(Outcome::constant(ty.shape, Data::collect(dtype, (0..size).map(value))))
}

pub(super) const MEL_WEIGHT_MATRIX: Operator = Operator::new("MelWeightMatrix", Kind::Others, |call| {
    let (bands, length) = (size(call, 0, "num_mel_bins")?, size(call, 1, "dft_length")?);
    let rate = number(call, 2, "sample_rate")?.as_f64();
    let (low, high) = (number(call, 3, "lower_edge_hertz")?.as_f64(), number(call, 4, "upper_edge_hertz")?.as_f64());
    let dtype = asked(call)?;
    let frequencies = length / 2 + 1;
    let ty = call.output(dtype, vec![frequencies, bands])?;
    call.budget.need(ty.shape.len(), call.node)?;
    let heard = |hertz: f64| 2595.0 * (1.0 + hertz / 700.0).log10();
    let step = (heard(high) - heard(low)) / (bands as f64 + 2.0);
    // Where each band starts, in whole frequencies; the middle and the end are where the next two start.
    let edge = |band: usize| {
        let hertz = 700.0 * (10f64.powf((band as f64 * step + heard(low)) / 2595.0) - 1.0);
        ((length as f64 + 1.0) * hertz / rate).floor()
    };
    let mut weights = Vec::with_capacity(ty.shape.len());
    for frequency in 0..frequencies {
        for band in 0..bands {
            let (at, [start, middle, end]) = (frequency as f64, [edge(band), edge(band + 1), edge(band + 2)]);
            let weight = match at {
                _ if start == middle && at == middle => 1.0,
                _ if start != middle && at >= start && at <= middle => (at - start) / (middle - start),
                _ if end != middle && at >= middle && at < end => (end - at) / (end - middle),
                _ => 0.0,
            };
            weights.push(Scalar::from_f64(dtype, weight));
        }
    }
    Ok(Outcome::constant(Shape::from(vec![frequencies, bands]), Data::collect(dtype, weights)))
})
.inputs(5, 5);

#[cfg(test)]
mod tests {
    use dala_spec::Data;

    use crate::builder::{constants, int, integers};

    #[test]
    fn windows_are_periodic_unless_told_otherwise() {
        let of = |op: &str, attributes| match constants(17, op, vec![integers(&[], &[4])], attributes).1 {
            Data::F32(values) => values.iter().map(|value| (value * 100.0).round() as i32).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        };
        assert_eq!(of("HannWindow", vec![]), [0, 50, 100, 50]);
        assert_eq!(of("HannWindow", vec![int("periodic", 0)]), [0, 75, 75, 0]);
        assert_eq!(of("HammingWindow", vec![]), [9, 54, 100, 54]);
        assert_eq!(of("BlackmanWindow", vec![]), [0, 34, 100, 34]);
    }
}
