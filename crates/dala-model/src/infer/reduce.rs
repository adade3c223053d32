//! Operators that bring an axis down to one number, or weigh along one.

use super::{Call, Outcome};
use crate::{ModelError, Op};

pub(super) fn softmax(call: &Call<'_>) -> Result<Outcome, ModelError> {
    call.float()?;
    let ty = call.value(0)?.ty.clone();
    let rank = ty.shape.rank();
    // Before version 13 the value was taken as a matrix, split at the axis.
    let matrix = call.opset < 13;
    let axis = call.axis(call.int("axis", if matrix { 1 } else { -1 })?, rank, "axis")?;
    let axes = (axis..if matrix { rank } else { axis + 1 }).collect();
    Ok(Outcome::layer(Op::Softmax { axis, axes }, [call.input(0)?], ty))
}

pub(super) fn mean(call: &Call<'_>) -> Result<Outcome, ModelError> {
    let dtype = call.float()?;
    let dims = call.dims(0)?;
    let given = call.integers_from("axes", 1, 18)?.filter(|axes| !axes.is_empty());
    let keep = call.flag("keepdims", true)?;
    let axes = match given {
        Some(given) => {
            let mut axes = call.axes(&given, dims.len())?;
            axes.sort_unstable();
            axes
        }
        None if call.opset >= 18 && call.flag("noop_with_empty_axes", false)? => {
            return Ok(Outcome::Same(call.input(0)?));
        }
        None => (0..dims.len()).collect(),
    };
    let kept = dims.iter().enumerate().filter_map(|(axis, &dim)| match axes.contains(&axis) {
        true => keep.then_some(1),
        false => Some(dim),
    });
    let ty = call.output(dtype, kept.collect())?;
    Ok(Outcome::layer(Op::ReduceMean { axes }, [call.input(0)?], ty))
}

#[cfg(test)]
mod tests {
    use crate::Op;
    use crate::builder::{int, ints, list, single};

    #[test]
    fn old_files_weigh_over_all_later_axes() {
        let op = |opset, attributes| {
            single(opset, "Softmax", &[-1, 3, 4], vec![], attributes).resolve(1).unwrap().layers[0].op.clone()
        };
        assert_eq!(op(13, vec![]), Op::Softmax { axis: 2, axes: vec![2] });
        assert_eq!(op(11, vec![]), Op::Softmax { axis: 1, axes: vec![1, 2] });
        assert_eq!(op(13, vec![int("axis", -2)]), Op::Softmax { axis: 1, axes: vec![1] });
        assert_eq!(single(13, "Softmax", &[-1, 3], vec![], vec![int("axis", 2)]).code(), "bad_value");
    }

    #[test]
    fn means_keep_their_axes_unless_told_otherwise() {
        let x = &[-1, 3, 4, 5];
        let dims = |net: crate::builder::Net| {
            let network = net.resolve(2).unwrap();
            network.values[network.outputs[0]].ty.shape.dims().to_vec()
        };
        assert_eq!(dims(single(13, "ReduceMean", x, vec![], vec![ints("axes", &[-1, 2])])), [2, 3, 1, 1]);
        assert_eq!(dims(single(18, "ReduceMean", x, vec![list(&[2, 3])], vec![int("keepdims", 0)])), [2, 3]);
        assert_eq!(dims(single(18, "ReduceMean", x, vec![], vec![int("keepdims", 0)])), Vec::<usize>::new());
        assert_eq!(dims(single(18, "ReduceMean", x, vec![], vec![int("noop_with_empty_axes", 1)])), [2, 3, 4, 5]);
        assert_eq!(single(18, "ReduceMean", x, vec![list(&[1, 1])], vec![]).code(), "bad_value");
    }
}
