//! Channels first and channels last.

/// A shape of so many axes: fewer are those at the end.
pub(super) fn padded(dims: &[usize], rank: usize) -> Vec<usize> {
    let missing = rank.saturating_sub(dims.len());
    [&vec![1; missing], dims].concat()
}

/// The shape with its channels, the second axis, last.
pub(super) fn channels_last(dims: &[usize]) -> Vec<usize> {
    Order::Last.axes(dims)
}

/// The shape of a picture with its channels last.
pub(crate) fn dims_last(dims: &[usize]) -> [usize; 4] {
    let mut last = [1; 4];
    for (own, size) in last.iter_mut().zip(channels_last(&padded(dims, 4))) {
        *own = size;
    }
    last
}

/// The order of the axes of pictures, and of what has fewer or more axes behind its channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Channels first, as in the file; also the order of everything that has no channels.
    First,
    /// Channels last.
    Last,
}

impl Order {
    /// Where an axis of the file is, of `rank` axes.
    pub(crate) fn axis(self, axis: usize, rank: usize) -> usize {
        match (self, axis) {
            (Order::First, axis) | (Order::Last, axis @ 0) => axis,
            (Order::Last, 1) => rank.saturating_sub(1),
            (Order::Last, axis) => axis - 1,
        }
    }

    /// A number for each axis of the file, in this order.
    pub(crate) fn axes<T: Copy>(self, list: &[T]) -> Vec<T> {
        match (self, list) {
            (Order::Last, [batch, channels, rest @ ..]) => [&[*batch], rest, &[*channels]].concat(),
            _ => list.to_vec(),
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
        assert_eq!(channels_last(&[2, 3, 7]), [2, 7, 3]);
        assert_eq!((0..5).map(|axis| Order::Last.axis(axis, 5)).collect::<Vec<_>>(), [0, 4, 1, 2, 3]);
    }
}
