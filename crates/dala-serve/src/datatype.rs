//! Element types by their names in the protocol.

use std::fmt;

/// The type of a tensor's elements, as the protocol names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Datatype {
    /// One byte an element, 0 or 1.
    Bool,
    /// Unsigned, 8 bits.
    Uint8,
    /// Unsigned, 16 bits.
    Uint16,
    /// Unsigned, 32 bits.
    Uint32,
    /// Unsigned, 64 bits.
    Uint64,
    /// Signed, 8 bits.
    Int8,
    /// Signed, 16 bits.
    Int16,
    /// Signed, 32 bits.
    Int32,
    /// Signed, 64 bits.
    Int64,
    /// IEEE half precision.
    Fp16,
    /// The upper half of an `Fp32`.
    Bf16,
    /// IEEE single precision.
    Fp32,
    /// IEEE double precision.
    Fp64,
    /// Texts or other bytes of any length: each element is its length in four bytes, then itself.
    Bytes,
}

impl Datatype {
    /// Every type there is.
    pub const ALL: [Datatype; 14] = [
        Datatype::Bool,
        Datatype::Uint8,
        Datatype::Uint16,
        Datatype::Uint32,
        Datatype::Uint64,
        Datatype::Int8,
        Datatype::Int16,
        Datatype::Int32,
        Datatype::Int64,
        Datatype::Fp16,
        Datatype::Bf16,
        Datatype::Fp32,
        Datatype::Fp64,
        Datatype::Bytes,
    ];

    /// As requests and answers spell it.
    pub fn name(self) -> &'static str {
        match self {
            Datatype::Bool => "BOOL",
            Datatype::Uint8 => "UINT8",
            Datatype::Uint16 => "UINT16",
            Datatype::Uint32 => "UINT32",
            Datatype::Uint64 => "UINT64",
            Datatype::Int8 => "INT8",
            Datatype::Int16 => "INT16",
            Datatype::Int32 => "INT32",
            Datatype::Int64 => "INT64",
            Datatype::Fp16 => "FP16",
            Datatype::Bf16 => "BF16",
            Datatype::Fp32 => "FP32",
            Datatype::Fp64 => "FP64",
            Datatype::Bytes => "BYTES",
        }
    }

    /// The type of this name, if there is one.
    pub fn by_name(name: &str) -> Option<Datatype> {
        Datatype::ALL.into_iter().find(|datatype| datatype.name() == name)
    }

    /// What an element takes; `None` for `Bytes`, whose elements differ.
    pub fn size_bytes(self) -> Option<usize> {
        match self {
            Datatype::Bool | Datatype::Uint8 | Datatype::Int8 => Some(1),
            Datatype::Uint16 | Datatype::Int16 | Datatype::Fp16 | Datatype::Bf16 => Some(2),
            Datatype::Uint32 | Datatype::Int32 | Datatype::Fp32 => Some(4),
            Datatype::Uint64 | Datatype::Int64 | Datatype::Fp64 => Some(8),
            Datatype::Bytes => None,
        }
    }
}

impl fmt::Display for Datatype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        for datatype in Datatype::ALL {
            assert_eq!(Datatype::by_name(datatype.name()), Some(datatype));
        }
        assert_eq!(Datatype::by_name("FP8"), None);
        assert_eq!(Datatype::by_name("fp32"), None);
    }
}
