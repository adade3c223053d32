//! The twelve element types, and single values of them.

use std::fmt;

use half::{bf16, f16};

/// Hands the list of element types to another macro: variant, Rust type, name, bytes, what it is.
macro_rules! with_dtypes {
    ($macro:ident) => {
        $macro! {
            F32, f32, "f32", 4, "32-bit float.";
            F64, f64, "f64", 8, "64-bit float.";
            S32, i32, "s32", 4, "32-bit signed integer.";
            S64, i64, "s64", 8, "64-bit signed integer.";
            U32, u32, "u32", 4, "32-bit unsigned integer.";
            U8, u8, "u8", 1, "8-bit unsigned integer: pixels. Saturates when stored.";
            F16, f16, "f16", 2, "16-bit float of IEEE 754, computed in `f32`.";
            BF16, bf16, "bf16", 2, "16-bit float with the range of `f32`, computed in `f32`.";
            S8, i8, "s8", 1, "8-bit signed integer. Saturates when stored.";
            S16, i16, "s16", 2, "16-bit signed integer. Saturates when stored.";
            U16, u16, "u16", 2, "16-bit unsigned integer. Saturates when stored.";
            U64, u64, "u64", 8, "64-bit unsigned integer.";
        }
    };
}
pub(crate) use with_dtypes;

macro_rules! declare {
    ($($variant:ident, $rust:ty, $name:literal, $size:literal, $doc:literal;)+) => {
        /// The type of a buffer's elements.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "lowercase")]
        pub enum DType {
            $(#[doc = $doc] $variant,)+
        }

        impl DType {
            /// All element types, in the order in which tables list them.
            pub const ALL: [DType; 12] = [$(DType::$variant),+];

            /// The name used in every front end: `f32`, `u8` …
            pub const fn name(self) -> &'static str {
                match self {
                    $(DType::$variant => $name,)+
                }
            }

            /// Bytes per element.
            pub const fn size(self) -> usize {
                match self {
                    $(DType::$variant => $size,)+
                }
            }
        }

        /// One value of an element type.
        #[derive(Clone, Copy, Debug)]
        pub enum Scalar {
            $(#[doc = $doc] $variant($rust),)+
        }

        impl Scalar {
            /// The element type of this value.
            pub const fn dtype(self) -> DType {
                match self {
                    $(Scalar::$variant(_) => DType::$variant,)+
                }
            }
        }

        impl fmt::Display for Scalar {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Scalar::$variant(value) => write!(f, "{value:?}"),)+
                }
            }
        }

        $(
            impl sealed::Sealed for $rust {}
            impl Element for $rust {
                const DTYPE: DType = DType::$variant;
                fn to_scalar(self) -> Scalar {
                    Scalar::$variant(self)
                }
                fn from_scalar(value: Scalar) -> $rust {
                    match value {
                        Scalar::$variant(value) => value,
                        other => Self::from_scalar(Scalar::from_f64(Self::DTYPE, other.as_f64())),
                    }
                }
            }
            impl From<$rust> for Scalar {
                fn from(value: $rust) -> Scalar {
                    Scalar::$variant(value)
                }
            }
        )+
    };
}
with_dtypes!(declare);

impl DType {
    /// The element type of that name, if there is one.
    pub fn from_name(name: &str) -> Option<DType> {
        Self::ALL.into_iter().find(|dtype| dtype.name() == name)
    }

    /// Whether this is a float.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F64 | DType::F16 | DType::BF16)
    }

    /// Whether this is a signed integer.
    pub const fn is_signed(self) -> bool {
        matches!(self, DType::S8 | DType::S16 | DType::S32 | DType::S64)
    }

    /// The smallest and the largest value of an integer type that is narrower than what it is computed in, and therefore
    /// saturates when it is stored.
    pub const fn narrow_range(self) -> Option<(i32, i32)> {
        match self {
            DType::U8 => Some((0, 255)),
            DType::S8 => Some((-128, 127)),
            DType::U16 => Some((0, 65_535)),
            DType::S16 => Some((-32_768, 32_767)),
            _ => None,
        }
    }

    /// The smallest and the largest value of an integer type.
    pub const fn integer_range(self) -> Option<(i128, i128)> {
        match self {
            DType::S32 => Some((i32::MIN as i128, i32::MAX as i128)),
            DType::S64 => Some((i64::MIN as i128, i64::MAX as i128)),
            DType::U32 => Some((0, u32::MAX as i128)),
            DType::U64 => Some((0, u64::MAX as i128)),
            narrow => match narrow.narrow_range() {
                Some((low, high)) => Some((low as i128, high as i128)),
                None => None,
            },
        }
    }

    /// The distance from 1 to the next larger value of a float type.
    pub const fn epsilon(self) -> f64 {
        match self {
            DType::F64 => f64::EPSILON,
            DType::F16 => 1.0 / 1024.0,
            DType::BF16 => 1.0 / 128.0,
            _ => f32::EPSILON as f64,
        }
    }

    /// The smallest positive value of a float type that has all of its digits.
    pub const fn smallest_normal(self) -> f64 {
        match self {
            DType::F64 => f64::MIN_POSITIVE,
            DType::F16 => 1.0 / 16_384.0,
            _ => f32::MIN_POSITIVE as f64,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Scalar {
    /// The bits of the value: what makes two values the same, NaN and signed zero included.
    pub const fn bits(self) -> u64 {
        match self {
            Scalar::F32(v) => v.to_bits() as u64,
            Scalar::F64(v) => v.to_bits(),
            Scalar::S32(v) => v as u32 as u64,
            Scalar::S64(v) => v as u64,
            Scalar::U32(v) => v as u64,
            Scalar::U8(v) => v as u64,
            Scalar::F16(v) => v.to_bits() as u64,
            Scalar::BF16(v) => v.to_bits() as u64,
            Scalar::S8(v) => v as u8 as u64,
            Scalar::S16(v) => v as u16 as u64,
            Scalar::U16(v) => v as u64,
            Scalar::U64(v) => v,
        }
    }

    /// The value as a 64-bit float, rounded if it has to be.
    pub fn as_f64(self) -> f64 {
        match self {
            Scalar::F32(v) => v.into(),
            Scalar::F64(v) => v,
            Scalar::F16(v) => v.into(),
            Scalar::BF16(v) => v.into(),
            Scalar::U64(v) => v as f64,
            integer => integer.as_i64() as f64,
        }
    }

    /// The value as an integer, converted as Rust's `as` does.
    pub fn as_i64(self) -> i64 {
        match self {
            Scalar::S32(v) => v.into(),
            Scalar::S64(v) => v,
            Scalar::U32(v) => v.into(),
            Scalar::U8(v) => v.into(),
            Scalar::S8(v) => v.into(),
            Scalar::S16(v) => v.into(),
            Scalar::U16(v) => v.into(),
            Scalar::U64(v) => v as i64,
            float => float.as_f64() as i64,
        }
    }

    /// The value of an integer type.
    pub fn as_integer(self) -> Option<i128> {
        match self {
            Scalar::U64(v) => Some(v.into()),
            other => (!other.dtype().is_float()).then(|| other.as_i64().into()),
        }
    }

    /// `value` converted as Rust's `as` does: floats saturate and lose their fraction. 16-bit floats are rounded from `f32`, as
    /// devices do.
    pub fn from_f64(dtype: DType, value: f64) -> Scalar {
        match dtype {
            DType::F32 => Scalar::F32(value as f32),
            DType::F64 => Scalar::F64(value),
            DType::S32 => Scalar::S32(value as i32),
            DType::S64 => Scalar::S64(value as i64),
            DType::U32 => Scalar::U32(value as u32),
            DType::U8 => Scalar::U8(value as u8),
            DType::F16 => Scalar::F16(f16::from_f32(value as f32)),
            DType::BF16 => Scalar::BF16(bf16::from_f32(value as f32)),
            DType::S8 => Scalar::S8(value as i8),
            DType::S16 => Scalar::S16(value as i16),
            DType::U16 => Scalar::U16(value as u16),
            DType::U64 => Scalar::U64(value as u64),
        }
    }

    /// `value` converted as Rust's `as` does: integers wrap.
    pub fn from_i64(dtype: DType, value: i64) -> Scalar {
        Scalar::wrapping(dtype, value.into())
    }

    /// An integer converted as Rust's `as` does: it wraps.
    pub fn wrapping(dtype: DType, value: i128) -> Scalar {
        match dtype {
            DType::F32 => Scalar::F32(value as f32),
            DType::F64 => Scalar::F64(value as f64),
            DType::S32 => Scalar::S32(value as i32),
            DType::S64 => Scalar::S64(value as i64),
            DType::U32 => Scalar::U32(value as u32),
            DType::U8 => Scalar::U8(value as u8),
            DType::F16 => Scalar::F16(f16::from_f32(value as f32)),
            DType::BF16 => Scalar::BF16(bf16::from_f32(value as f32)),
            DType::S8 => Scalar::S8(value as i8),
            DType::S16 => Scalar::S16(value as i16),
            DType::U16 => Scalar::U16(value as u16),
            DType::U64 => Scalar::U64(value as u64),
        }
    }

    /// An integer converted to the nearest value of `dtype`.
    pub fn saturating(dtype: DType, value: i128) -> Scalar {
        let (low, high) = dtype.integer_range().unwrap_or((value, value));
        Scalar::wrapping(dtype, value.clamp(low, high))
    }
}

impl serde::Serialize for Scalar {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Scalar::F32(v) => serializer.serialize_f32(v),
            Scalar::U64(v) => serializer.serialize_u64(v),
            float if float.dtype().is_float() => serializer.serialize_f64(float.as_f64()),
            integer => serializer.serialize_i64(integer.as_i64()),
        }
    }
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        self.dtype() == other.dtype() && self.bits() == other.bits()
    }
}

impl Eq for Scalar {}

impl std::hash::Hash for Scalar {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.dtype().hash(state);
        self.bits().hash(state);
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that is an element type: `f32 f64 f16 bf16`, and integers of 8 to 64 bits. `f16` and `bf16` are those of the
/// crate `half`.
pub trait Element: sealed::Sealed + bytemuck::Pod + Send + Sync + PartialEq + fmt::Debug {
    /// The element type it is.
    const DTYPE: DType;
    /// The value as a [`Scalar`].
    fn to_scalar(self) -> Scalar;
    /// A value of this type; one of another is converted as [`Scalar::from_f64`] does.
    fn from_scalar(value: Scalar) -> Self;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_sizes_fit_the_rust_types() {
        for dtype in DType::ALL {
            assert_eq!(DType::from_name(dtype.name()), Some(dtype));
            assert_eq!(dtype.name().trim_start_matches(char::is_alphabetic), (8 * dtype.size()).to_string());
            assert_eq!(Scalar::from_i64(dtype, 1).dtype(), dtype);
            if let Some((low, high)) = dtype.integer_range() {
                assert_eq!((high - low + 1).ilog2() as usize, 8 * dtype.size(), "{dtype}");
                assert_eq!(low < 0, dtype.is_signed());
                for value in [low, high] {
                    assert_eq!(Scalar::wrapping(dtype, value).as_integer(), Some(value));
                    assert_eq!(Scalar::saturating(dtype, 2 * value).as_integer(), Some(value.max(low).min(high)));
                }
            }
        }
    }

    #[test]
    fn sixteen_bit_floats_round_half_to_even_and_overflow() {
        let half = |value| Scalar::from_f64(DType::F16, value).as_f64();
        assert_eq!(
            [half(2049.0), half(2051.0), half(65_519.0), half(65_520.0)],
            [2048.0, 2052.0, 65_504.0, f64::INFINITY]
        );
        assert_eq!(Scalar::from_f64(DType::BF16, 257.0).as_f64(), 256.0);
        assert_eq!(half(6e-8), f64::powi(2.0, -24));
    }
}
