//! Typed data on the host: what a reference computes on, and what a front end shows.

use crate::{DType, Element, Scalar};

/// A list of elements of one type.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// 32-bit floats.
    F32(Vec<f32>),
    /// 64-bit floats.
    F64(Vec<f64>),
    /// 32-bit signed integers.
    S32(Vec<i32>),
    /// 64-bit signed integers.
    S64(Vec<i64>),
    /// 32-bit unsigned integers.
    U32(Vec<u32>),
    /// 8-bit unsigned integers.
    U8(Vec<u8>),
}

macro_rules! each {
    ($data:expr, $values:ident => $body:expr) => {
        match $data {
            Data::F32($values) => $body,
            Data::F64($values) => $body,
            Data::S32($values) => $body,
            Data::S64($values) => $body,
            Data::U32($values) => $body,
            Data::U8($values) => $body,
        }
    };
}

impl Data {
    /// The element type.
    pub fn dtype(&self) -> DType {
        match self {
            Data::F32(_) => DType::F32,
            Data::F64(_) => DType::F64,
            Data::S32(_) => DType::S32,
            Data::S64(_) => DType::S64,
            Data::U32(_) => DType::U32,
            Data::U8(_) => DType::U8,
        }
    }

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

    /// `values` as elements of `dtype`; a value of another type is converted as Rust's `as` does.
    pub fn collect(dtype: DType, values: impl IntoIterator<Item = Scalar>) -> Data {
        macro_rules! gather {
            ($variant:ident, $rust:ty) => {
                Data::$variant(
                    values
                        .into_iter()
                        .map(|value| match value {
                            Scalar::$variant(value) => value,
                            other => other.as_f64() as $rust,
                        })
                        .collect(),
                )
            };
        }
        match dtype {
            DType::F32 => gather!(F32, f32),
            DType::F64 => gather!(F64, f64),
            DType::S32 => gather!(S32, i32),
            DType::S64 => gather!(S64, i64),
            DType::U32 => gather!(U32, u32),
            DType::U8 => gather!(U8, u8),
        }
    }

    /// The elements as little-endian bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        each!(self, values => values.iter().flat_map(|value| value.to_le_bytes()).collect())
    }

    /// The elements in little-endian `bytes`; bytes past the last whole element are left out.
    pub fn from_bytes(dtype: DType, bytes: &[u8]) -> Data {
        macro_rules! parse {
            ($variant:ident, $rust:ty) => {
                Data::$variant(bytes.as_chunks().0.iter().map(|chunk| <$rust>::from_le_bytes(*chunk)).collect())
            };
        }
        match dtype {
            DType::F32 => parse!(F32, f32),
            DType::F64 => parse!(F64, f64),
            DType::S32 => parse!(S32, i32),
            DType::S64 => parse!(S64, i64),
            DType::U32 => parse!(U32, u32),
            DType::U8 => parse!(U8, u8),
        }
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
