//! How close results must be.

use crate::{DType, Scalar};

/// How close a device's result is to the reference. Integers of 32 and 64 bits are always equal.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Tolerance {
    /// How close floats are.
    pub floats: Closeness,
    /// How many levels a small integer may be off: one that is computed in floats may be rounded to either side.
    pub levels: u8,
}

/// How close floats are to their reference.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Closeness {
    /// Equal in value.
    Exact,
    /// At most so many units in the last place of the output's type away.
    Ulps(u32),
    /// At most `absolute + relative * |reference|` away in f32; f64 is held to the same in its own precision.
    Close {
        /// Error relative to the value, in units of the type's epsilon.
        epsilons: f64,
        /// Error allowed at any value, in units of the type's epsilon.
        absolute_epsilons: f64,
    },
}

impl Tolerance {
    /// Equal in value.
    pub const EXACT: Tolerance = Tolerance { floats: Closeness::Exact, levels: 0 };

    /// Floats at most so many units in the last place away, bytes equal.
    pub const fn ulps(ulps: u32) -> Tolerance {
        Tolerance { floats: Closeness::Ulps(ulps), levels: 0 }
    }

    /// Floats at most so many epsilons of the value plus so many epsilons away, bytes equal.
    pub const fn close(epsilons: f64, absolute_epsilons: f64) -> Tolerance {
        Tolerance { floats: Closeness::Close { epsilons, absolute_epsilons }, levels: 0 }
    }

    /// The same with bytes that may be so many levels off.
    pub const fn levels(mut self, levels: u8) -> Tolerance {
        self.levels = levels;
        self
    }

    /// Whether `actual` is close enough to `expected`, an element of the same type.
    pub fn accepts(self, expected: Scalar, actual: Scalar) -> bool {
        match (expected, actual) {
            _ if expected.dtype() != actual.dtype() => false,
            _ if expected.dtype().is_float() => {
                self.floats.accepts(expected.dtype(), expected.as_f64(), actual.as_f64())
            }
            _ if expected.dtype().narrow_range().is_some() => {
                expected.as_i64().abs_diff(actual.as_i64()) <= self.levels.into()
            }
            _ => expected == actual,
        }
    }
}

impl Closeness {
    fn accepts(self, dtype: DType, expected: f64, actual: f64) -> bool {
        if expected == actual || (expected.is_nan() && actual.is_nan()) {
            return true;
        }
        if !expected.is_finite() || !actual.is_finite() {
            return false;
        }
        // A 16-bit float is rounded from an f32 that is this close, perhaps to the other side.
        let rounding = match self {
            Closeness::Exact => 0.0,
            _ if dtype == dtype.register() => 0.0,
            _ => dtype.epsilon() * expected.abs().max(dtype.smallest_normal()),
        };
        let dtype = dtype.register();
        let epsilon = dtype.epsilon();
        // Below the smallest normal number devices may flush to zero.
        let tiny = dtype.smallest_normal();
        let allowed = match self {
            Closeness::Exact => tiny,
            Closeness::Ulps(ulps) => f64::from(ulps) * epsilon * expected.abs() + tiny,
            Closeness::Close { epsilons, absolute_epsilons } => {
                epsilons * epsilon * expected.abs() + absolute_epsilons * epsilon
            }
        };
        (expected - actual).abs() <= allowed + rounding
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerances_are_in_units_of_the_output_type() {
        let next = 1.0 + f32::EPSILON;
        assert!(Tolerance::ulps(1).accepts(Scalar::F32(1.0), Scalar::F32(next)));
        assert!(!Tolerance::ulps(1).accepts(Scalar::F64(1.0), Scalar::F64(next.into())));
        assert!(!Tolerance::EXACT.accepts(Scalar::F32(1.0), Scalar::F32(next)));
        assert!(Tolerance::EXACT.accepts(Scalar::F32(f32::NAN), Scalar::F32(f32::NAN)));
        assert!(!Tolerance::ulps(9).accepts(Scalar::F32(f32::INFINITY), Scalar::F32(1.0)));
        assert!(!Tolerance::ulps(9).accepts(Scalar::S32(1), Scalar::S32(2)));
        assert!(!Tolerance::close(9.0, 9.0).accepts(Scalar::S64(i64::MAX), Scalar::S64(i64::MAX - 1)));
    }

    #[test]
    fn bytes_may_be_off_by_levels_and_nothing_else_may() {
        let byte = |a, b| (Scalar::U8(a), Scalar::U8(b));
        for (levels, (expected, actual), accepted) in
            [(0, byte(7, 7), true), (0, byte(7, 8), false), (1, byte(7, 6), true), (1, byte(0, 255), false)]
        {
            let tolerance = Tolerance::close(64.0, 64.0).levels(levels);
            assert_eq!(tolerance.accepts(expected, actual), accepted, "{levels} levels, {expected} and {actual}");
        }
        assert!(!Tolerance::EXACT.levels(1).accepts(Scalar::U32(7), Scalar::U32(8)));
    }
}
