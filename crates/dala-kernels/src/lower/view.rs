//! The same elements in another order: bits are moved, whatever they mean, so that every type can be moved everywhere.

use dala_plan::work::{COPY_AXES, StridedCopy};
use dala_plan::{DeviceFacts, Task};
use dala_spec::{DType, Expr, Shape, Signature, SpecError, TensorType};

use super::map;

/// The largest type in which runs of so many bytes can be moved.
pub(crate) fn word_of(bytes: usize) -> DType {
    match bytes {
        _ if bytes.is_multiple_of(4) => DType::U32,
        _ if bytes.is_multiple_of(2) => DType::U16,
        _ => DType::U8,
    }
}

/// Where each element of an output is found in an input.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct View {
    /// The output's dimensions.
    pub(crate) dims: Vec<usize>,
    /// Where the first element is found.
    pub(crate) offset: usize,
    /// How far one step along each axis moves in the input.
    pub(crate) strides: Vec<i64>,
}

/// How far one step along each axis of a row-major buffer moves.
pub(crate) fn strides(dims: &[usize]) -> Vec<i64> {
    let mut strides = vec![1; dims.len()];
    for axis in (0..dims.len().saturating_sub(1)).rev() {
        strides[axis] = strides[axis + 1] * dims[axis + 1] as i64;
    }
    strides
}

impl View {
    /// The axes in another order.
    pub(crate) fn permuted(dims: &[usize], order: &[usize]) -> (View, Shape) {
        let own = strides(dims);
        let new: Vec<usize> = order.iter().map(|axis| dims[*axis]).collect();
        let view = View { dims: new.clone(), offset: 0, strides: order.iter().map(|axis| own[*axis]).collect() };
        (view, Shape::new(new))
    }

    /// The launch that moves the elements.
    pub(crate) fn task(
        self,
        dtype: DType,
        input_len: usize,
        call: &Signature,
        facts: &DeviceFacts,
    ) -> Result<Task, SpecError> {
        let (view, dtype, input_len) = self.in_words(dtype, input_len);
        let view = view.merged();
        if let (true, Some(moved)) = (StridedCopy::fits(dtype.size(), facts), view.moved(dtype.size(), input_len)) {
            return Ok(Task::StridedCopy(moved));
        }
        let moved = |(axis, stride): (usize, &i64)| {
            let step = Expr::size(stride.unsigned_abs() as usize) * Expr::coord(axis);
            if *stride < 0 { -step } else { step }
        };
        let index = view.strides.iter().enumerate().map(moved).fold(Expr::size(view.offset), |sum, step| sum + step);
        let expr = Expr::input("x").gather(index);
        map(&expr, &[("x", TensorType::new(dtype, [input_len]))], TensorType::new(dtype, view.dims), call)
    }

    /// The same view as a move of words, if it has few enough axes.
    fn moved(&self, word: usize, input_len: usize) -> Option<StridedCopy> {
        let (columns, column_stride) =
            (self.dims.last().copied().unwrap_or(1), self.strides.last().copied().unwrap_or(1));
        let rows = self.dims.len().saturating_sub(1);
        let (mut axes, mut strides) = ([1; COPY_AXES], [0; COPY_AXES]);
        let unused = COPY_AXES.checked_sub(rows)?;
        axes[unused..].copy_from_slice(&self.dims[..rows]);
        strides[unused..].copy_from_slice(&self.strides[..rows]);
        let count = self.dims.iter().product();
        Some(StridedCopy {
            word,
            axes,
            strides,
            columns,
            column_stride,
            from: self.offset,
            to: 0,
            row_stride: columns,
            sizes: (input_len, count),
        })
    }

    /// The same view in the largest pieces that it leaves whole: 32-bit words where it can.
    fn in_words(mut self, dtype: DType, input_len: usize) -> (View, DType, usize) {
        match dtype.size() {
            4 => (self, DType::U32, input_len),
            8 => {
                self.dims.push(2);
                self.strides.iter_mut().for_each(|stride| *stride *= 2);
                self.strides.push(1);
                self.offset *= 2;
                (self, DType::U32, input_len * 2)
            }
            size => {
                let each = 4 / size;
                let is_whole = |value: &i64| value % each as i64 == 0;
                let whole = match (self.dims.split_last(), self.strides.split_last()) {
                    (Some((last, _)), Some((1, others))) => {
                        last.is_multiple_of(each) && others.iter().all(is_whole) && self.offset.is_multiple_of(each)
                    }
                    _ => false,
                };
                if !whole || !input_len.is_multiple_of(each) {
                    return (self, word_of(size), input_len);
                }
                let axis = self.dims.len() - 1;
                self.dims[axis] /= each;
                self.strides[..axis].iter_mut().for_each(|stride| *stride /= each as i64);
                self.offset /= each;
                (self, DType::U32, input_len / each)
            }
        }
    }

    /// Neighbouring axes that are walked through as one, as one.
    fn merged(self) -> View {
        let mut merged = View { dims: Vec::new(), offset: self.offset, strides: Vec::new() };
        for (dim, stride) in self.dims.into_iter().zip(self.strides) {
            match (merged.dims.last_mut(), merged.strides.last_mut()) {
                _ if dim == 1 => {}
                (Some(last_dim), Some(last_stride)) if *last_stride == stride * dim as i64 => {
                    *last_dim *= dim;
                    *last_stride = stride;
                }
                _ => {
                    merged.dims.push(dim);
                    merged.strides.push(stride);
                }
            }
        }
        merged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_that_stay_together_are_one() {
        let (view, _) = View::permuted(&[2, 3, 4, 5], &[1, 0, 2, 3]);
        assert_eq!(view.merged(), View { dims: vec![3, 2, 20], offset: 0, strides: vec![20, 60, 1] });
        let (view, _) = View::permuted(&[2, 1, 4], &[0, 1, 2]);
        assert_eq!(view.merged(), View { dims: vec![8], offset: 0, strides: vec![1] });
    }

    #[test]
    fn pixels_of_four_bytes_move_as_words() {
        let (view, _) = View::permuted(&[2, 3, 4], &[1, 0, 2]);
        let (view, dtype, len) = view.in_words(DType::U8, 24);
        assert_eq!((view.dims, view.strides, dtype, len), (vec![3, 2, 1], vec![1, 3, 1], DType::U32, 6));
    }
}
