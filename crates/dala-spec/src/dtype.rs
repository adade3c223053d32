//! The six element types, and single values of them.

use std::fmt;

/// The type of a buffer's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// 32-bit float.
    F32,
    /// 64-bit float.
    F64,
    /// 32-bit signed integer.
    S32,
    /// 64-bit signed integer.
    S64,
    /// 32-bit unsigned integer.
    U32,
    /// 8-bit unsigned integer: pixels. Arithmetic on it saturates.
    U8,
}

impl DType {
    /// All element types, in the order in which tables list them.
    pub const ALL: [DType; 6] = [DType::F32, DType::F64, DType::S32, DType::S64, DType::U32, DType::U8];

    /// The name used in every front end: `f32`, `u8` …
    pub const fn name(self) -> &'static str {
        match self {
            DType::F32 => "f32",
            DType::F64 => "f64",
            DType::S32 => "s32",
            DType::S64 => "s64",
            DType::U32 => "u32",
            DType::U8 => "u8",
        }
    }

    /// The element type of that name, if there is one.
    pub fn from_name(name: &str) -> Option<DType> {
        Self::ALL.into_iter().find(|dtype| dtype.name() == name)
    }

    /// Bytes per element.
    pub const fn size(self) -> usize {
        match self {
            DType::U8 => 1,
            DType::F32 | DType::S32 | DType::U32 => 4,
            DType::F64 | DType::S64 => 8,
        }
    }

    /// Whether this is `f32` or `f64`.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F64)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One value of an element type.
#[derive(Clone, Copy, Debug, serde::Serialize)]
#[serde(untagged)]
pub enum Scalar {
    /// A 32-bit float.
    F32(f32),
    /// A 64-bit float.
    F64(f64),
    /// A 32-bit signed integer.
    S32(i32),
    /// A 64-bit signed integer.
    S64(i64),
    /// A 32-bit unsigned integer.
    U32(u32),
    /// An 8-bit unsigned integer.
    U8(u8),
}

impl Scalar {
    /// The element type of this value.
    pub const fn dtype(self) -> DType {
        match self {
            Scalar::F32(_) => DType::F32,
            Scalar::F64(_) => DType::F64,
            Scalar::S32(_) => DType::S32,
            Scalar::S64(_) => DType::S64,
            Scalar::U32(_) => DType::U32,
            Scalar::U8(_) => DType::U8,
        }
    }

    /// The bits of the value: what makes two values the same, NaN and signed zero included.
    pub const fn bits(self) -> u64 {
        match self {
            Scalar::F32(v) => v.to_bits() as u64,
            Scalar::F64(v) => v.to_bits(),
            Scalar::S32(v) => v as u32 as u64,
            Scalar::S64(v) => v as u64,
            Scalar::U32(v) => v as u64,
            Scalar::U8(v) => v as u64,
        }
    }

    /// The value as a 64-bit float, rounded if it has to be.
    pub const fn as_f64(self) -> f64 {
        match self {
            Scalar::F32(v) => v as f64,
            Scalar::F64(v) => v,
            Scalar::S32(v) => v as f64,
            Scalar::S64(v) => v as f64,
            Scalar::U32(v) => v as f64,
            Scalar::U8(v) => v as f64,
        }
    }

    /// The value as an integer, converted as Rust's `as` does.
    pub const fn as_i64(self) -> i64 {
        match self {
            Scalar::F32(v) => v as i64,
            Scalar::F64(v) => v as i64,
            Scalar::S32(v) => v as i64,
            Scalar::S64(v) => v,
            Scalar::U32(v) => v as i64,
            Scalar::U8(v) => v as i64,
        }
    }

    /// `value` converted as Rust's `as` does: floats saturate and lose their fraction.
    pub const fn from_f64(dtype: DType, value: f64) -> Scalar {
        match dtype {
            DType::F32 => Scalar::F32(value as f32),
            DType::F64 => Scalar::F64(value),
            DType::S32 => Scalar::S32(value as i32),
            DType::S64 => Scalar::S64(value as i64),
            DType::U32 => Scalar::U32(value as u32),
            DType::U8 => Scalar::U8(value as u8),
        }
    }

    /// `value` converted as Rust's `as` does: integers wrap.
    pub const fn from_i64(dtype: DType, value: i64) -> Scalar {
        match dtype {
            DType::F32 => Scalar::F32(value as f32),
            DType::F64 => Scalar::F64(value as f64),
            DType::S32 => Scalar::S32(value as i32),
            DType::S64 => Scalar::S64(value),
            DType::U32 => Scalar::U32(value as u32),
            DType::U8 => Scalar::U8(value as u8),
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

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::F32(v) => write!(f, "{v:?}"),
            Scalar::F64(v) => write!(f, "{v:?}"),
            Scalar::S32(v) => write!(f, "{v}"),
            Scalar::S64(v) => write!(f, "{v}"),
            Scalar::U32(v) => write!(f, "{v}"),
            Scalar::U8(v) => write!(f, "{v}"),
        }
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that is an element type: `f32 f64 i32 i64 u32 u8`.
pub trait Element: sealed::Sealed + bytemuck::Pod + Send + Sync + PartialEq + fmt::Debug {
    /// The element type it is.
    const DTYPE: DType;
    /// The value as a [`Scalar`].
    fn to_scalar(self) -> Scalar;
}

macro_rules! elements {
    ($($rust:ty => $variant:ident),+) => {$(
        impl sealed::Sealed for $rust {}
        impl Element for $rust {
            const DTYPE: DType = DType::$variant;
            fn to_scalar(self) -> Scalar {
                Scalar::$variant(self)
            }
        }
        impl From<$rust> for Scalar {
            fn from(value: $rust) -> Scalar {
                Scalar::$variant(value)
            }
        }
    )+};
}
elements!(f32 => F32, f64 => F64, i32 => S32, i64 => S64, u32 => U32, u8 => U8);
