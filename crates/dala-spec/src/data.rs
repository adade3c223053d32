//! Typed data on the host: what a reference computes on, and what a front end shows.

use std::borrow::Cow;

use half::{bf16, f16};

use crate::dtype::with_dtypes;
use crate::{DType, Element, Scalar};

/// What is read from bytes has room for whole pieces of so many.
const ROOM_STEP: usize = 512;

macro_rules! declare {
    ($($variant:ident, $rust:ty, $name:literal, $size:literal, $doc:literal;)+) => {
        /// A list of elements of one type.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Data {
            $(#[doc = $doc] $variant(Vec<$rust>),)+
        }

        impl Data {
            /// The element type.
            pub fn dtype(&self) -> DType {
                match self {
                    $(Data::$variant(_) => DType::$variant,)+
                }
            }

            /// `values` as elements of `dtype`; a value of another type is converted as Rust's `as` does.
            pub fn collect(dtype: DType, values: impl IntoIterator<Item = Scalar>) -> Data {
                Data::collect_from(dtype, &mut values.into_iter())
            }

            /// Compiled once, and not once for each caller and type: each kernel's reference is a caller.
            fn collect_from(dtype: DType, values: &mut dyn Iterator<Item = Scalar>) -> Data {
                match dtype {
                    $(DType::$variant => Data::$variant(values.map(<$rust>::from_scalar).collect()),)+
                }
            }

            /// So many elements, all of them zero.
            pub fn zeros(dtype: DType, len: usize) -> Data {
                match dtype {
                    $(DType::$variant => Data::$variant(vec![<$rust>::default(); len]),)+
                }
            }

            /// The elements in little-endian `bytes`; bytes past the last whole element are left out. There is room for whole
            /// vectors of any device at the end.
            pub fn from_bytes(dtype: DType, bytes: &[u8]) -> Data {
                match dtype {
                    $(DType::$variant => {
                        let chunks = bytes.as_chunks().0;
                        let mut values = Vec::with_capacity(bytes.len().next_multiple_of(ROOM_STEP) / dtype.size());
                        values.extend(chunks.iter().map(|chunk| <$rust>::from_le_bytes(*chunk)));
                        Data::$variant(values)
                    })+
                }
            }
        }

        /// Does the same with the elements, whatever they are.
        macro_rules! each {
            ($data:expr, $values:ident => $body:expr) => {
                match $data {
                    $(Data::$variant($values) => $body,)+
                }
            };
        }
    };
}
with_dtypes!(declare);

impl Data {
    /// The number of elements.
    pub fn len(&self) -> usize {
        each!(self, values => values.len())
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element at `index`, if there is one.
    pub fn get(&self, index: usize) -> Option<Scalar> {
        each!(self, values => values.get(index).map(|value| value.to_scalar()))
    }

    /// The elements in order.
    pub fn iter(&self) -> impl Iterator<Item = Scalar> + '_ {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// The elements as little-endian bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.as_bytes().into_owned()
    }

    /// The same where they are, on machines of that order.
    pub fn as_bytes(&self) -> Cow<'_, [u8]> {
        if cfg!(target_endian = "little") {
            return Cow::Borrowed(each!(self, values => bytemuck::cast_slice(values)));
        }
        Cow::Owned(each!(self, values => values.iter().flat_map(|value| value.to_le_bytes()).collect()))
    }

    /// The bytes of the elements where they are, in the machine's order: to be read into.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        each!(self, values => bytemuck::cast_slice_mut(values))
    }

    /// The bytes that its memory has room for, at least as many as the elements have.
    pub fn room_bytes(&self) -> usize {
        each!(self, values => values.capacity()).saturating_mul(self.dtype().size())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_round_trip() {
        for dtype in DType::ALL {
            let data = Data::collect(dtype, (0..5).map(|v| Scalar::from_i64(dtype, v)));
            assert_eq!(data.len(), 5);
            assert_eq!(Data::from_bytes(dtype, &data.to_bytes()), data);
        }
    }
}
