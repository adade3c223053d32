//! `Transpose`: axes in another order.

use dala_spec::{Params, SpecError};

use super::call::NodeCall;
use super::operator::{Kind, Operator, Outcome};
use crate::ModelError;
use crate::lower::{Lowerer, Order, ints};
use crate::op::Compute;

pub(super) const TRANSPOSE: Operator = Operator::new("Transpose", Kind::Layout, infer);

fn infer(call: &NodeCall<'_>) -> Result<Outcome, ModelError> {
    let dims = call.dims(0)?;
    let perm = match call.ints("perm")? {
        Some(given) => {
            let bad = || call.bad_attribute("perm", format!("{} axes, each once", dims.len()), format!("{given:?}"));
            if given.len() != dims.len() {
                return Err(bad());
            }
            call.axes(given, dims.len()).map_err(|_| bad())?
        }
        None => (0..dims.len()).rev().collect(),
    };
    let input = call.input(0)?;
    if perm.iter().enumerate().all(|(axis, &from)| axis == from) {
        return Ok(Outcome::same(input));
    }
    let turned = perm.iter().filter_map(|&axis| dims.get(axis).copied());
    let ty = call.output(call.dtype(0)?, turned.collect())?;
    Ok(Outcome::layer(Transpose { perm }, [input], ty))
}

#[derive(Debug)]
struct Transpose {
    /// For each axis of the output, the axis of the input.
    perm: Vec<usize>,
}

impl Compute for Transpose {
    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let rank = self.perm.len();
        let to_last = Order::Last.axes(&(0..rank).collect::<Vec<_>>());
        let to_first: Vec<usize> = (0..rank).map(|axis| Order::Last.axis(axis, rank)).collect();
        // What it asks for may be there already.
        if rank > 2 && self.perm == to_last && to.order(0) == Order::Last {
            let cell = to.last(0)?;
            to.give_first(0, cell);
        } else if rank > 3 && self.perm == to_first && to.order(0) == Order::First {
            let cell = to.first(0)?;
            to.give_last(0, cell);
        } else {
            let x = to.first(0)?;
            return to.call_first("transpose", &[x], &Params::new().with("axes", ints(&self.perm)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use dala_spec::Data;

    use crate::builder::{constants, floats, ints, single};

    #[test]
    fn each_axis_has_one_place() {
        let turned = |perm: &[i64]| single(13, "Transpose", &[-1, 1, 4, 1], vec![], vec![ints("perm", perm)]);
        assert_eq!(turned(&[0, 2, 3, 1]).dims().unwrap(), [2, 4, 1, 1]);
        assert_eq!(turned(&[0, 2, 2, 1]).code(), "bad_attribute");
        assert_eq!(turned(&[0]).code(), "bad_attribute");
    }

    #[test]
    fn constants_are_turned() {
        let matrix = floats(&[2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let turned = constants(13, "Transpose", vec![matrix], vec![]);
        assert_eq!(turned, (vec![3, 2], Data::F32(vec![1.0, 4.0, 2.0, 5.0, 3.0, 6.0])));
    }
}
