//! Channels first and channels last.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_axes_are_the_last_ones() {
        assert_eq!(dims_last(&[7, 5]), [1, 7, 5, 1]);
        assert_eq!(dims_last(&[3, 1, 1]), [1, 1, 1, 3]);
    }
}
