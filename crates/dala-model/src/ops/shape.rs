//! `Shape`: the sizes of a value, or from version 15 on part of them; and `Size`: how many elements it has.

use dala_spec::{Data, Shape};

use super::call::NodeCall;
use super::operator::{Kind, Operator, Outcome};
use crate::ModelError;

pub(super) const SHAPE: Operator = Operator::new("Shape", Kind::Layout, infer);

pub(super) const SIZE: Operator = Operator::new("Size", Kind::Layout, |call| {
    let len = call.value(0)?.ty.shape.len();
    Ok(Outcome::constant(Shape::default(), Data::S64(vec![len as i64])))
});

fn infer(call: &NodeCall<'_>) -> Result<Outcome, ModelError> {
    let dims = call.dims(0)?;
    let rank = dims.len() as i64;
    // From version 15 on, a part of the shape; the ends are moved into it.
    let place = |given: i64| (if given < 0 { given.saturating_add(rank) } else { given }).clamp(0, rank) as usize;
    let (start, end) = (place(call.int("start", 0)?), place(call.int("end", rank)?));
    let part: Vec<i64> = dims.get(start..end).unwrap_or_default().iter().map(|&dim| dim as i64).collect();
    Ok(Outcome::constant(Shape::from([part.len()]), Data::S64(part)))
}

#[cfg(test)]
mod tests {
    use dala_spec::Data;

    use crate::builder::{Net, constants, int, integers, some_floats};

    #[test]
    fn parts_of_shapes_lie_inside_them() {
        let shape = |attributes| constants(15, "Shape", vec![some_floats(&[2, 3, 4])], attributes).1;
        assert_eq!(shape(vec![int("start", -2)]), Data::S64(vec![3, 4]));
        assert_eq!(shape(vec![int("start", -9), int("end", -1)]), Data::S64(vec![2, 3]));
        assert_eq!(shape(vec![int("start", 2), int("end", 1)]), Data::S64(vec![]));
        assert_eq!(constants(15, "Size", vec![some_floats(&[2, 3, 4])], vec![]), (vec![], Data::S64(vec![24])));
    }

    #[test]
    fn shapes_follow_the_batch() {
        let net = Net::new(13)
            .x(&[-1, 6, 2])
            .tensor("zero", integers(&[], &[0]))
            .ints("first", &[0])
            .ints("rest", &[3, -1])
            .node("Shape", &["x"], "shape", vec![])
            .node("Gather", &["shape", "zero"], "batch", vec![])
            .node("Unsqueeze", &["batch", "first"], "list", vec![])
            .node("Concat", &["list", "rest"], "target", vec![int("axis", 0)])
            .node("Reshape", &["x", "target"], "y", vec![])
            .output("y");
        let network = net.resolve(5).unwrap();
        assert_eq!(network.layers.len(), 1);
        assert_eq!(network.layers[0].inputs, network.inputs);
        assert_eq!(network.values.len(), 2);
        assert_eq!(network.values[network.outputs[0]].ty.shape.dims(), [5, 3, 4]);
    }
}
