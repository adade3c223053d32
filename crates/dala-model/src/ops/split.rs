//! `Split`: a value in parts along an axis. Their sizes are an attribute up to version 12 and a constant input after; parts are
//! equal if there are none, but for the last from version 18 on.

use std::sync::Arc;

use dala_spec::{Params, SpecError};

use super::call::NodeCall;
use super::operator::{Given, Kind, Operator, Outcome};
use crate::ModelError;
use crate::limits::MAX_NAMES;
use crate::lower::Lowerer;
use crate::op::Compute;

pub(super) const SPLIT: Operator = Operator::new("Split", Kind::Layout, infer).inputs(1, 2).outputs(MAX_NAMES);

fn infer(call: &NodeCall<'_>) -> Result<Outcome, ModelError> {
    let dims = call.dims(0)?;
    let axis = call.axis(call.int("axis", 0)?, dims.len(), "axis")?;
    let size = dims.get(axis).copied().unwrap_or_default();
    let sizes = match call.integers_from("split", 1, 13)? {
        Some(given) => {
            let sizes: Vec<usize> = given.iter().filter_map(|&size| usize::try_from(size).ok()).collect();
            let sum = sizes.iter().fold(0usize, |sum, &size| sum.saturating_add(size));
            if sizes.len() != given.len() || sizes.len() != call.outputs || sum != size {
                let expected = format!("{} sizes that add up to {size}", call.outputs);
                return Err(call.bad_value("split", expected, format!("{given:?}")));
            }
            sizes
        }
        None => equal_parts(call, size)?,
    };
    if sizes.len() == 1 {
        return Ok(Outcome::same(call.input(0)?));
    }
    let mut types = Vec::with_capacity(sizes.len());
    for size in sizes {
        let mut dims = dims.to_vec();
        dims.get_mut(axis).into_iter().for_each(|dim| *dim = size);
        types.push(call.output(call.dtype(0)?, dims)?);
    }
    let inputs = vec![("x", Given::Value(call.input(0)?))];
    Ok(Outcome::Layer { compute: Arc::new(Split { axis }), inputs, types })
}

/// The sizes of as many parts as the node has outputs.
fn equal_parts(call: &NodeCall<'_>, size: usize) -> Result<Vec<usize>, ModelError> {
    let count = call.int("num_outputs", call.outputs as i64)?;
    if count != call.outputs as i64 {
        return Err(call.bad_attribute("num_outputs", call.outputs, count));
    }
    let part = size.div_ceil(call.outputs.max(1));
    let sizes: Vec<usize> = (0..call.outputs).map(|place| part.min(size.saturating_sub(place * part))).collect();
    if call.opset < 18 && sizes.iter().any(|&own| own != part) {
        return Err(call.shape_mismatch(format!("{} parts of the same size", call.outputs), call.dims(0)?));
    }
    Ok(sizes)
}

#[derive(Debug)]
struct Split {
    axis: usize,
}

impl Compute for Split {
    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let order = to.order(0);
        let x = to.read(0, order)?;
        let mut starts = vec![0i64; to.dims(0).len()];
        for place in 0..to.outputs() {
            to.make(place, order, "slice", &[x], &Params::new().with("start", order.axes(&starts)))?;
            starts[self.axis] += to.output_at(place).shape.dims()[self.axis] as i64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use dala_spec::Data;

    use crate::ModelError;
    use crate::builder::{Net, int, ints};
    use crate::proto::AttributeProto;

    /// `x` of `{batch, 7}` in three parts, which are all outputs; `split` is their sizes as an input.
    fn net(opset: i64, split: Option<&[i64]>, attributes: Vec<AttributeProto>) -> Net {
        let mut net = Net::new(opset).x(&[-1, 7]);
        if let Some(split) = split {
            net = net.ints("split", split);
        }
        net = net.node("Split", &["x", "split"][..1 + usize::from(split.is_some())], "a", attributes);
        net.graph().node[0].output.extend(["b".to_owned(), "c".to_owned()]);
        net.output("a").output("b").output("c")
    }

    fn sizes(net: &Net) -> Result<Vec<usize>, ModelError> {
        let network = net.resolve(2)?;
        assert_eq!(network.layers.len(), 1);
        Ok(network.outputs.iter().map(|&output| network.values[output].ty.shape.dims()[1]).collect())
    }

    #[test]
    fn sizes_are_given_or_follow() {
        let axis = || vec![int("axis", -1)];
        assert_eq!(sizes(&net(13, Some(&[4, 1, 2]), axis())).unwrap(), [4, 1, 2]);
        assert_eq!(sizes(&net(11, None, vec![int("axis", 1), ints("split", &[1, 0, 6])])).unwrap(), [1, 0, 6]);
        assert_eq!(sizes(&net(18, None, vec![int("axis", 1), int("num_outputs", 3)])).unwrap(), [3, 3, 1]);
        assert_eq!(net(13, None, axis()).code(), "shape_mismatch");
        assert_eq!(net(18, None, vec![int("axis", 1), int("num_outputs", 4)]).code(), "bad_attribute");
        for bad in [&[4, 1, 3][..], &[7, 0], &[8, 0, -1], &[i64::MAX; 3]] {
            assert_eq!(net(13, Some(bad), axis()).code(), "bad_value", "{bad:?}");
        }
    }

    #[test]
    fn parts_of_constants_are_constants() {
        let mut net = Net::new(13).x(&[-1, 5, 6]).node("Shape", &["x"], "shape", vec![]);
        net = net.ints("sizes", &[1, 2]).node("Split", &["shape", "sizes"], "batch", vec![]);
        net.graph().node[1].output.push("rest".to_owned());
        let network = net.output("rest").output("batch").resolve(4).unwrap();
        assert!(network.layers.is_empty());
        let constant = |place: usize| network.values[network.outputs[place]].constant.as_deref().cloned();
        assert_eq!([constant(0), constant(1)], [Some(Data::S64(vec![5, 6])), Some(Data::S64(vec![4]))]);
    }

    #[test]
    fn outputs_may_be_left_out() {
        let mut net = net(13, Some(&[4, 1, 2]), vec![int("axis", 1)]);
        net.graph().node[0].output[1].clear();
        net.graph().output.remove(1);
        let network = net.resolve(1).unwrap();
        assert_eq!(network.layers[0].outputs.len(), 3);
        assert_eq!(network.values[network.outputs[1]].ty.shape.dims(), [1, 2]);
    }
}
