//! `DynamicQuantizeLinear`: floats as bytes, by a scale and a zero such that the smallest, the largest and zero are among them.

use std::sync::Arc;

use dala_spec::{DType, Data, Params, SpecError, TensorType};

use super::operator::{Given, Kind, Operator, Outcome};
use super::quantized::{cast, pair, quantize};
use crate::lower::Lowerer;
use crate::op::Compute;

/// The bytes, the scale and the zero.
pub(super) const DYNAMIC_QUANTIZE_LINEAR: Operator = Operator::new("DynamicQuantizeLinear", Kind::Elements, |call| {
    if call.dtype(0)? != DType::F32 {
        return Err(call.type_mismatch("elements of type f32", call.dtype(0)?));
    }
    let one = |dtype: DType| TensorType::new(dtype, []);
    let types = vec![call.output(DType::U8, call.dims(0)?.to_vec())?, one(DType::F32), one(DType::U8)];
    let inputs = vec![("x", Given::Value(call.input(0)?))];
    Ok(Outcome::Layer { compute: Arc::new(Dynamic), inputs, types })
})
.outputs(3);

#[derive(Debug)]
struct Dynamic;

impl Compute for Dynamic {
    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let order = to.order(0);
        let x = to.read(0, order)?;
        let (scale, zero) = scale_and_zero(to, x)?;
        to.give_first(1, scale);
        let byte = cast(to, zero, DType::U8)?;
        to.give_first(2, byte);
        let rank = to.calls.ty(x).shape.rank();
        let mut spread = |cell: usize| to.calls.view(cell, TensorType::new(DType::F32, vec![1; rank]));
        let (scale, zero) = (spread(scale), spread(zero));
        let made = quantize(to, ("elementwise_div", x, scale), Some(zero), DType::U8)?;
        to.give(0, order, made);
        Ok(())
    }
}

/// The scale and the zero of floats, each of no axes.
pub(super) fn scale_and_zero(to: &mut Lowerer<'_>, x: usize) -> Result<(usize, usize), SpecError> {
    let one = TensorType::new(DType::F32, []);
    let mut number = |value: f32| to.constant(Data::F32(vec![value]), &[]);
    let (nothing, unit, steps) = (number(0.0), number(1.0), number(255.0));
    let axes = (0..to.calls.ty(x).shape.rank() as i64).collect::<Vec<i64>>();
    let mut extreme = |reduce: &str, of: &str| {
        let params = Params::new().with("axes", axes.clone()).with("keep_dims", false);
        let found = if axes.is_empty() { x } else { to.call(reduce, &[x], one.clone(), &params)? };
        pair(to, of, found, nothing)
    };
    let (low, high) = (extreme("reduce_min", "elementwise_min")?, extreme("reduce_max", "elementwise_max")?);
    let range = pair(to, "elementwise_sub", high, low)?;
    let scale = pair(to, "elementwise_div", range, steps)?;
    // Where all is zero, any scale will do.
    let flat = to.call("equal", &[range, nothing], TensorType::new(DType::U8, []), &Params::new())?;
    let scale = to.call("where", &[flat, unit, scale], one.clone(), &Params::new())?;
    let below = pair(to, "elementwise_sub", nothing, low)?;
    let zero = pair(to, "elementwise_div", below, scale)?;
    let zero = to.call("round", &[zero], one.clone(), &Params::new())?;
    let zero = pair(to, "elementwise_min", zero, steps)?;
    Ok((scale, zero))
}

#[cfg(test)]
mod tests {
    use dala_spec::Data;

    use crate::builder::Net;

    #[test]
    fn scale_and_zero_follow_from_the_values() {
        let mut net = Net::new(13).x(&[-1]).floats("a", &[4], vec![-1.0, 0.0, 2.0, 4.1]).node(
            "DynamicQuantizeLinear",
            &["a"],
            "y",
            vec![],
        );
        net.graph().node[0].output.extend(["scale".to_owned(), "zero".to_owned()]);
        let network = net.output("y").output("scale").output("zero").resolve(1).unwrap();
        let found: Vec<&Data> =
            network.outputs.iter().map(|&output| network.values[output].constant.as_deref().unwrap()).collect();
        assert_eq!(found, [&Data::U8(vec![0, 50, 150, 255]), &Data::F32(vec![0.02]), &Data::U8(vec![50])]);
    }
}
