//! Shapes of buffers, and shape plus element type.

use std::fmt;

use smallvec::SmallVec;

use crate::DType;

/// The dimensions of a buffer, row-major; no dimensions is a scalar, and a dimension may be zero.
// Few dimensions, and cloned with every call: no memory of their own.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Shape(SmallVec<[usize; 4]>);

impl Shape {
    /// A shape of these dimensions.
    pub fn new(dims: impl Into<Vec<usize>>) -> Shape {
        Shape(SmallVec::from_slice(&dims.into()))
    }

    /// The dimensions, outermost first.
    pub fn dims(&self) -> &[usize] {
        &self.0
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// The number of elements, or `None` if it does not fit a `usize`.
    pub fn checked_len(&self) -> Option<usize> {
        // A zero anywhere makes the product zero, however large the others are.
        if self.0.contains(&0) {
            return Some(0);
        }
        self.0.iter().try_fold(1usize, |len, &dim| len.checked_mul(dim))
    }

    /// The number of elements, saturated.
    pub fn len(&self) -> usize {
        self.checked_len().unwrap_or(usize::MAX)
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The shape that two broadcast to: axes are compared from the last one on, and one that has size 1, or is not there, takes
    /// the other's size. None if two sizes differ otherwise.
    pub fn broadcast(&self, other: &Shape) -> Option<Shape> {
        let (long, short) = if self.rank() >= other.rank() { (self, other) } else { (other, self) };
        let mut dims = long.0.clone();
        let shared = long.rank() - short.rank();
        for (own, size) in dims[shared..].iter_mut().zip(short.dims()) {
            *own = match (*own, *size) {
                (own, size) if own == size => own,
                (1, size) => size,
                (own, 1) => own,
                _ => return None,
            };
        }
        Some(Shape(dims))
    }
}

/// A shape seen as a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageShape {
    /// Rows.
    pub height: usize,
    /// Pixels in a row.
    pub width: usize,
    /// Elements in a pixel: 1 to 4.
    pub channels: usize,
}

impl Shape {
    /// The shape as a picture: `{height, width}` or `{height, width, channels}` with 1 to 4 channels.
    pub fn image(&self) -> Option<ImageShape> {
        match *self.dims() {
            [height, width] => Some(ImageShape { height, width, channels: 1 }),
            [height, width, channels @ 1..=4] => Some(ImageShape { height, width, channels }),
            _ => None,
        }
    }

    /// As [`image`](Shape::image), of gray levels or colours, as files and screens have them: two channels are neither.
    pub fn picture(&self) -> Option<ImageShape> {
        self.image().filter(|image| image.channels != 2)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (i, dim) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{dim}")?;
        }
        f.write_str("}")
    }
}

impl From<&[usize]> for Shape {
    fn from(dims: &[usize]) -> Shape {
        Shape(SmallVec::from_slice(dims))
    }
}

impl<const N: usize> From<[usize; N]> for Shape {
    fn from(dims: [usize; N]) -> Shape {
        Shape(SmallVec::from_slice(&dims))
    }
}

impl<const N: usize> From<&[usize; N]> for Shape {
    fn from(dims: &[usize; N]) -> Shape {
        Shape(SmallVec::from_slice(dims))
    }
}

impl From<Vec<usize>> for Shape {
    fn from(dims: Vec<usize>) -> Shape {
        Shape(SmallVec::from_vec(dims))
    }
}

/// What a buffer holds: element type and shape.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// The element type.
    pub dtype: DType,
    /// The dimensions.
    pub shape: Shape,
}

impl TensorType {
    /// Elements of `dtype` in `shape`.
    pub fn new(dtype: DType, shape: impl Into<Shape>) -> TensorType {
        TensorType { dtype, shape: shape.into() }
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.dtype, self.shape)
    }
}

/// What is wrong with a call's shapes.
#[derive(Clone, Debug, PartialEq)]
pub enum ShapeProblem {
    /// An input's shape, and what it must be instead.
    Input(usize, String),
    /// The output's shape, and what it must be instead.
    Output(String),
    /// A param that does not fit the shapes: its name, the smallest and the largest value that would.
    Param(&'static str, f64, f64),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_count_elements() {
        assert_eq!(Shape::from([]).len(), 1);
        assert_eq!(Shape::from([2, 3]).len(), 6);
        assert_eq!(Shape::from([usize::MAX, 2]).checked_len(), None);
        assert_eq!(Shape::from([usize::MAX, 2, 0]).checked_len(), Some(0));
    }

    #[test]
    fn shapes_print_as_tuples() {
        assert_eq!(Shape::from([480, 640, 4]).to_string(), "{480, 640, 4}");
        assert_eq!(Shape::from([]).to_string(), "{}");
    }
}
