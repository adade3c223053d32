//! Channels first and channels last.

use dala_spec::Data;

/// A shape of four axes: fewer are those at the end.
pub(super) fn four(dims: &[usize]) -> [usize; 4] {
    let mut four = [1; 4];
    for (own, size) in four.iter_mut().rev().zip(dims.iter().rev()) {
        *own = *size;
    }
    four
}

/// The shape with its channels last.
pub(crate) fn dims_last(dims: &[usize]) -> [usize; 4] {
    let [batch, channels, height, width] = four(dims);
    [batch, height, width, channels]
}

/// The order of a picture's axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Channels first, as in the file; also the order of everything that is no picture.
    First,
    /// Channels last.
    Last,
}

impl Order {
    /// Where an axis of the file is.
    pub(crate) fn axis(self, axis: usize) -> usize {
        match self {
            Order::First => axis,
            Order::Last => [0, 3, 1, 2][axis.min(3)],
        }
    }

    /// A number for each axis of the file, in this order.
    pub(crate) fn axes<T: Copy + Default>(self, list: &[T]) -> Vec<T> {
        let at = |axis: usize| list.get(axis).copied().unwrap_or_default();
        match self {
            Order::First => list.to_vec(),
            Order::Last => vec![at(0), at(2), at(3), at(1)],
        }
    }
}

/// Elements of four axes in another order: `axes` says for each new axis which one it was.
pub(crate) fn turned(data: &Data, dims: &[usize; 4], axes: [usize; 4]) -> Data {
    let strides = [dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1];
    let to = axes.map(|axis| dims[axis]);
    let step = axes.map(|axis| strides[axis]);
    let mut places = Vec::with_capacity(data.len());
    for a in 0..to[0] {
        for b in 0..to[1] {
            for c in 0..to[2] {
                let start = a * step[0] + b * step[1] + c * step[2];
                places.extend((0..to[3]).map(|d| start + d * step[3]));
            }
        }
    }
    fn pick<T: Copy + Default>(from: &[T], places: &[usize]) -> Vec<T> {
        places.iter().map(|place| from.get(*place).copied().unwrap_or_default()).collect()
    }
    match data {
        Data::F32(values) => Data::F32(pick(values, &places)),
        Data::F64(values) => Data::F64(pick(values, &places)),
        Data::S32(values) => Data::S32(pick(values, &places)),
        Data::S64(values) => Data::S64(pick(values, &places)),
        Data::U32(values) => Data::U32(pick(values, &places)),
        Data::U8(values) => Data::U8(pick(values, &places)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turning_there_and_back_changes_nothing() {
        let data = Data::S32((0..120).collect());
        let last = turned(&data, &[2, 3, 4, 5], [0, 2, 3, 1]);
        // Channel 2 of the pixel in row 1, column 4 of the second picture.
        assert_eq!(last.get(((4 + 1) * 5 + 4) * 3 + 2), data.get(((3 + 2) * 4 + 1) * 5 + 4));
        assert_eq!(turned(&last, &[2, 4, 5, 3], [0, 3, 1, 2]), data);
    }

    #[test]
    fn few_axes_are_the_last_ones() {
        assert_eq!(dims_last(&[7, 5]), [1, 7, 5, 1]);
        assert_eq!(dims_last(&[3, 1, 1]), [1, 1, 1, 3]);
    }
}
