//! `ScatterElements` (before version 11 `Scatter`) and `ScatterND`: a value with updates put where indices say. Of several updates for one
//! place the last counts, or all are joined with what is there.

use dala_spec::{Params, SpecError};

use super::call::NodeCall;
use super::gather_elements::indices_at;
use super::operator::{Kind, Operator, Outcome};
use crate::ModelError;
use crate::lower::Lowerer;
use crate::op::Compute;

pub(super) const SCATTER: Operator = Operator::new("Scatter", Kind::Layout, elements).inputs(3, 3);
pub(super) const SCATTER_ELEMENTS: Operator = Operator::new("ScatterElements", Kind::Layout, elements).inputs(3, 3);

pub(super) const SCATTER_ND: Operator = Operator::new("ScatterND", Kind::Layout, |call| {
    let (dims, indices, updates) = (call.dims(0)?, call.dims(1)?, call.dims(2)?);
    let bad = || call.shape_mismatch("indices with a last axis for places in the value", indices);
    let (&depth, lead) = indices.split_last().ok_or_else(bad)?;
    let rest = dims.get(depth..).ok_or_else(bad)?;
    if updates != [lead, rest].concat() {
        return Err(call.shape_mismatch("an update for each of the indices", updates));
    }
    outcome(call, "scatter_nd", Params::new())
})
.inputs(3, 3);

fn elements(call: &NodeCall<'_>) -> Result<Outcome, ModelError> {
    let (dims, indices, updates) = (call.dims(0)?, call.dims(1)?, call.dims(2)?);
    let axis = call.axis(call.int("axis", 0)?, dims.len(), "axis")?;
    let fits = |(own, (size, count)): (usize, (&usize, &usize))| own == axis || count <= size;
    if indices.len() != dims.len() || !dims.iter().zip(indices).enumerate().all(fits) {
        return Err(call.shape_mismatch(format!("indices no larger than the value, but for axis {axis}"), indices));
    }
    if updates != indices {
        return Err(call.shape_mismatch("an update for each of the indices", updates));
    }
    outcome(call, "scatter_elements", Params::new().with("axis", axis as i64))
}

fn outcome(call: &NodeCall<'_>, kernel: &'static str, params: Params) -> Result<Outcome, ModelError> {
    indices_at(call, 1)?;
    call.same_dtype(2)?;
    let reduction = match call.text("reduction", "none")? {
        known @ ("none" | "add" | "mul" | "max" | "min") => known,
        other => return Err(call.bad_attribute("reduction", "none, add, mul, max or min", other)),
    };
    let scatter = Scatter { kernel, params: params.with("reduction", reduction) };
    Ok(Outcome::layer(scatter, [call.input(0)?, call.input(1)?, call.input(2)?], call.value(0)?.ty.clone()))
}

#[derive(Debug)]
struct Scatter {
    kernel: &'static str,
    params: Params,
}

impl Compute for Scatter {
    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let inputs = [to.first(1)?, to.first(0)?, to.first(2)?];
        to.call_first(self.kernel, &inputs, &self.params)
    }
}

#[cfg(test)]
mod tests {
    use dala_spec::Data;

    use crate::builder::{Net, constants, floats, int, integers, text};

    #[test]
    fn constants_are_updated() {
        let x = || floats(&[4], vec![1.0, 2.0, 3.0, 4.0]);
        let inputs = || vec![x(), integers(&[3], &[1, -1, 1]), floats(&[3], vec![10.0, 20.0, 30.0])];
        let of = |reduction| constants(18, "ScatterElements", inputs(), vec![text("reduction", reduction)]).1;
        assert_eq!(of("none"), Data::F32(vec![1.0, 30.0, 3.0, 20.0]));
        assert_eq!(of("add"), Data::F32(vec![1.0, 42.0, 3.0, 24.0]));
        assert_eq!(of("mul"), Data::F32(vec![1.0, 600.0, 3.0, 80.0]));
        assert_eq!(of("max"), Data::F32(vec![1.0, 30.0, 3.0, 20.0]));
        assert_eq!(of("min"), Data::F32(vec![1.0, 2.0, 3.0, 4.0]));
        let inputs = vec![x(), integers(&[2, 1], &[2, 9]), floats(&[2], vec![10.0, 20.0])];
        // What is outside is left out.
        assert_eq!(constants(18, "ScatterND", inputs, vec![]).1, Data::F32(vec![1.0, 2.0, 10.0, 4.0]));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let code = |op: &str, indices: &[i64], updates: &[i64], attributes| {
            let net = Net::new(18).x(&[2, 3]).input("i", 7, indices).input("u", 1, updates);
            net.node(op, &["x", "i", "u"], "y", attributes).output("y").code()
        };
        assert_eq!(code("ScatterElements", &[2, 9], &[2, 9], vec![int("axis", 1)]), "read");
        assert_eq!(code("Scatter", &[1, 2], &[1, 2], vec![]), "read");
        assert_eq!(code("ScatterElements", &[3, 3], &[3, 3], vec![int("axis", 1)]), "shape_mismatch");
        assert_eq!(code("ScatterElements", &[2, 3], &[2, 2], vec![int("axis", 1)]), "shape_mismatch");
        assert_eq!(code("ScatterElements", &[2, 3], &[2, 3], vec![text("reduction", "mean")]), "bad_attribute");
        assert_eq!(code("ScatterND", &[5, 1], &[5, 3], vec![]), "read");
        assert_eq!(code("ScatterND", &[5, 2], &[5, 3], vec![]), "shape_mismatch");
        assert_eq!(code("ScatterND", &[5, 3], &[5], vec![]), "shape_mismatch");
    }
}
