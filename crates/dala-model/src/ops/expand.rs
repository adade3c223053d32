//! `Expand`: a value repeated to a constant shape, and `Tile`: one value after the other, as often as constants say.

use dala_spec::{SpecError, TensorType};

use super::call::{NodeCall, broadcast};
use super::operator::{Kind, Operator, Outcome};
use crate::ModelError;
use crate::limits::MAX_ELEMENTS;
use crate::lower::Lowerer;
use crate::op::Compute;

pub(super) const EXPAND: Operator = Operator::new("Expand", Kind::Layout, |call| {
    let dims = call.dims(0)?;
    let shape = sizes(call, "the shape")?;
    let mismatch = || call.shape_mismatch(format!("one that can be repeated to fit {shape:?}"), dims);
    let dims = broadcast(dims, &shape).ok_or_else(mismatch)?;
    repeated(call, dims, Repeat::Expand)
})
.inputs(2, 2);

pub(super) const TILE: Operator = Operator::new("Tile", Kind::Layout, |call| {
    let dims = call.dims(0)?;
    let times = sizes(call, "repeats")?;
    if times.len() != dims.len() {
        return Err(call.bad_value("repeats", format!("{} numbers", dims.len()), format!("{times:?}")));
    }
    let tiled = dims.iter().zip(&times).map(|(&dim, &times)| dim.saturating_mul(times));
    repeated(call, tiled.collect(), Repeat::Tile)
})
.inputs(2, 2);

/// The second input, which is a constant list of sizes.
fn sizes(call: &NodeCall<'_>, what: &str) -> Result<Vec<usize>, ModelError> {
    let size = |given: i64| {
        let size = usize::try_from(given).ok().filter(|&size| size <= MAX_ELEMENTS);
        size.ok_or_else(|| call.bad_value(what, "numbers of at least 0", given))
    };
    call.integers(1, what)?.into_iter().map(size).collect()
}

fn repeated(call: &NodeCall<'_>, dims: Vec<usize>, how: Repeat) -> Result<Outcome, ModelError> {
    let from = &call.value(0)?.ty;
    let ty = call.output(from.dtype, dims)?;
    match ty == *from {
        true => Ok(Outcome::same(call.input(0)?)),
        false => Ok(Outcome::layer(how, [call.input(0)?], ty)),
    }
}

/// The output's shape says how often.
#[derive(Debug)]
enum Repeat {
    Expand,
    Tile,
}

impl Compute for Repeat {
    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let (mut x, output) = (to.first(0)?, to.output().clone());
        let mut repeated = output.shape.dims().to_vec();
        if let Repeat::Tile = self {
            // Each axis gets one before it along which it is repeated.
            let from = to.dims(0);
            let seen: Vec<usize> = from.iter().flat_map(|&size| [1, size]).collect();
            repeated =
                from.iter().zip(output.shape.dims()).flat_map(|(&size, &all)| [all / size.max(1), size]).collect();
            x = to.calls.view(x, TensorType::new(output.dtype, seen));
        }
        let made = to.repeated(x, &repeated)?;
        let seen = to.calls.view(made, output);
        to.give_first(0, seen);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use dala_spec::Data;

    use crate::builder::{Net, constants, floats, list, single};

    #[test]
    fn sizes_of_one_grow() {
        let column = floats(&[2, 1], vec![1.0, 2.0]);
        let wide = constants(13, "Expand", vec![column, list(&[1, 1, 3])], vec![]);
        assert_eq!(wide, (vec![1, 2, 3], Data::F32(vec![1.0, 1.0, 1.0, 2.0, 2.0, 2.0])));
        let one = constants(13, "Expand", vec![floats(&[1], vec![4.0]), list(&[2, 2])], vec![]);
        assert_eq!(one, (vec![2, 2], Data::F32(vec![4.0; 4])));
        assert_eq!(single(13, "Expand", &[-1, 3], vec![list(&[1, 1])], vec![]).resolve(2).unwrap().layers.len(), 0);
        assert_eq!(single(13, "Expand", &[1, 3], vec![list(&[2, 2])], vec![]).code(), "shape_mismatch");
        assert_eq!(single(13, "Expand", &[1, 3], vec![list(&[-1, 3])], vec![]).code(), "bad_value");
        let open = Net::new(13).x(&[3]).input("s", 7, &[1]).node("Expand", &["x", "s"], "y", vec![]).output("y");
        assert_eq!(open.code(), "not_constant");
    }

    #[test]
    fn tiles_follow_each_other() {
        let matrix = floats(&[2, 2], vec![1.0, 2.0, 3.0, 4.0]);
        let tiled = constants(13, "Tile", vec![matrix, list(&[1, 2])], vec![]);
        assert_eq!(tiled, (vec![2, 4], Data::F32(vec![1.0, 2.0, 1.0, 2.0, 3.0, 4.0, 3.0, 4.0])));
        assert_eq!(single(13, "Tile", &[-1, 3], vec![list(&[0, 2])], vec![]).dims().unwrap(), [0, 6]);
        assert_eq!(single(13, "Tile", &[-1, 3], vec![list(&[2])], vec![]).code(), "bad_value");
        assert_eq!(single(13, "Tile", &[-1, 3], vec![list(&[1 << 30, 1 << 30])], vec![]).code(), "too_large");
    }
}
