//! Exponentials, logarithms, powers and hyperbolic functions of floats.

use super::floats::Float;

// Each polynomial is given for f32 and for f64, with the largest error of its own.

/// `(exp(r) - 1 - r) / r²` where |r| is at most half of log(2): 2^-29 and 2^-59.
const EXP: (&[f64], &[f64]) = (
    &[0.0001989108, 0.0013933731, 0.0083333105, 0.041666463, 0.16666667, 0.5],
    &[
        2.09147553258932e-09,
        2.5105312729622103e-08,
        2.755727347871858e-07,
        2.755725517000089e-06,
        2.480158732567746e-05,
        0.0001984126987500228,
        0.0013888888888883711,
        0.008333333333326084,
        0.04166666666666667,
        0.1666666666666667,
        0.5,
    ],
);

/// `(2 atanh(s) / s - 2 - 2/3 z) / z²` with `z = s²` up to 0.0295: 2^-30 and 2^-59.
const LOG: (&[f64], &[f64]) = (
    &[0.1912243, 0.2220469, 0.2857153, 0.4],
    &[
        0.11725771221811145,
        0.11705988156500907,
        0.13334813971292003,
        0.15384594791762352,
        0.1818181833699257,
        0.2222222222164882,
        0.2857142857142938,
        0.4,
    ],
);

/// The logarithm of 2 as two numbers: the first has so few digits that its products with exponents are exact.
const LN_2: [(f64, f64); 2] = [(0.693359375, -2.1219444005469058e-4), (0.6931471804855391, 7.440617110012397e-11)];

/// Two thirds, and what its rounding leaves out.
const TWO_THIRDS: [(f64, f64); 2] =
    [(0.6666666865348816, -1.9868214925130207e-08), (0.6666666666666666, 3.700743415417188e-17)];

impl<'g> Float<'g> {
    /// `exp(x + low) = 2^n (1 + r + rest)`, for `x` inside of what exponents hold and a small `low`; `r` is exact.
    fn exp_apart(self, low: Float<'g>) -> (Float<'g>, Float<'g>, Float<'g>) {
        let (high_part, low_part) = self.pick(LN_2[0], LN_2[1]);
        let n = (self * std::f64::consts::LOG2_E + 0.5).floor();
        let r = (self - n * high_part).held();
        let low = low - n * low_part;
        let sum = r + low;
        (n, r, low + sum * sum * sum.polynomial(self.pick(EXP.0, EXP.1)))
    }

    /// Outside of this range exponentials, and halves of them, are zero or infinite.
    fn exp_clamped(self) -> Float<'g> {
        let (low, high) = self.pick((-104.0, 90.0), (-746.0, 712.0));
        self.max(low).min(high)
    }

    pub(super) fn exp(self) -> Float<'g> {
        self.exp_times(0.0)
    }

    /// The exponential times two to the power of `n`.
    fn exp_times(self, n: f64) -> Float<'g> {
        let (own, r, rest) = self.exp_clamped().exp_apart(self.number(0.0));
        (r + rest + 1.0).scaled(own + n).unless_nan(self)
    }

    pub(super) fn expm1(self) -> Float<'g> {
        let most = (self.fraction_bits() + 6) as f64;
        let (n, r, rest) = self.exp_clamped().max(-60.0).exp_apart(self.number(0.0));
        let e = r + rest;
        let two = n.min(most).power_of_two();
        // Where 1 is less than half of the last digit, it is not there.
        let result = n.at_least(most).select((e + 1.0).scaled(n), two * e + (two - 1.0));
        self.equals(0.0).select(self, result).unless_nan(self)
    }

    /// `2^k (1 + f)` as a logarithm, and a correction to it.
    fn log_together(self, k: Float<'g>, correction: Float<'g>) -> Float<'g> {
        let (high, low) = self.pick(LN_2[0], LN_2[1]);
        let f = self;
        let s = f / (f + 2.0);
        let (z, half) = (s * s, f * f * 0.5);
        let rest = z * (z * z.polynomial(self.pick(LOG.0, LOG.1)) + 2.0 / 3.0);
        k * high - ((half - (s * (half + rest) + (k * low + correction))) - f)
    }

    pub(super) fn log(self) -> Float<'g> {
        let (k, m) = self.apart(std::f64::consts::FRAC_1_SQRT_2);
        let result = (m - 1.0).log_together(k, self.number(0.0));
        let bits = self.bits();
        // In bits, because devices may take small numbers for zero.
        let positive = (bits - 1).below(self.infinite_bits() - 1);
        let of_zero = (bits << 1).equals(0).select(-self.infinity(), self.nan());
        let other = bits.equals(self.infinite_bits()).select(self, of_zero);
        positive.select(result, other)
    }

    pub(super) fn log1p(self) -> Float<'g> {
        let result = self.log1p_times(self.number(0.0));
        let other = self.equals(-1.0).select(-self.infinity(), self.nan());
        let other = self.equals(self.infinity()).select(self, other);
        let inside = self.above(-1.0) & self.below(self.infinity());
        self.equals(0.0).select(self, inside.select(result, other))
    }

    /// The logarithm of `1 + x`, times two to the power of `n`, for finite `x` above -1.
    fn log1p_times(self, n: Float<'g>) -> Float<'g> {
        let sum = (self + 1.0).held();
        // What the sum's rounding left out.
        let lost = sum.at_least(2.0).select(1.0 - (sum - self).held(), self - (sum - 1.0).held());
        let (k, m) = sum.apart(std::f64::consts::FRAC_1_SQRT_2);
        let near = k.equals(0.0);
        let correction = near.select(self.number(0.0), lost / sum);
        near.select(self, m - 1.0).log_together(k + n, correction)
    }

    pub(super) fn sinh(self) -> Float<'g> {
        let x = self.abs();
        let large = self.pick(9.0, 20.0);
        let e = x.min(large).expm1();
        let result = (e + e / (e + 1.0)) * 0.5;
        x.above(large).select(x.exp_times(-1.0), result).signed_as(self).unless_nan(self)
    }

    pub(super) fn cosh(self) -> Float<'g> {
        let half = self.abs().exp_times(-1.0);
        (half + 0.25 / half).unless_nan(self)
    }

    pub(super) fn tanh(self) -> Float<'g> {
        let x = self.abs();
        let e = (x.min(20.0) * 2.0).expm1();
        let result = x.below(0.5).select(e / (e + 2.0), 1.0 - 2.0 / (e + 2.0));
        result.signed_as(self).unless_nan(self)
    }

    /// Whether it is the same with 1 added to it, and so is its square.
    fn is_large(self) -> super::floats::Truth<'g> {
        self.above(self.pick(28_f64, 57.0).exp2())
    }

    pub(super) fn asinh(self) -> Float<'g> {
        let x = self.abs();
        let square = x * x;
        let near = x + square / ((square + 1.0).sqrt() + 1.0);
        x.log_of_double_or(near).signed_as(self).unless_nan(self)
    }

    pub(super) fn acosh(self) -> Float<'g> {
        let t = self - 1.0;
        let near = t + (t * 2.0 + t * t).sqrt();
        self.at_least(1.0).select(self.log_of_double_or(near), self.nan())
    }

    /// The logarithm of twice this where it is large, of 1 and `near` elsewhere.
    fn log_of_double_or(self, near: Float<'g>) -> Float<'g> {
        let large = self.is_large();
        let one = large.select(self.number(1.0), self.number(0.0));
        let result = large.select(self, near).log1p_times(one);
        self.equals(self.infinity()).select(self, result)
    }

    pub(super) fn atanh(self) -> Float<'g> {
        let x = self.abs();
        let result = (x * 2.0 / (1.0 - x)).log1p_times(self.number(0.0)) * 0.5;
        let edge = x.equals(1.0).select(self.infinity(), self.nan());
        x.below(1.0).select(result, edge).signed_as(self).unless_nan(self)
    }

    /// The logarithm of a positive number as a sum of two, to nearly twice the digits: powers multiply its error.
    fn log_in_two(self) -> (Float<'g>, Float<'g>) {
        let ((high, low), (third_high, third_low)) = self.pick((LN_2[0], TWO_THIRDS[0]), (LN_2[1], TWO_THIRDS[1]));
        let (k, m) = self.apart(std::f64::consts::FRAC_1_SQRT_2);
        let f = m - 1.0;
        // s = f / (2 + f), and the rest of that division.
        let (d, d_low) = self.number(2.0).add_exactly(f);
        let s = (f / d).held();
        let (product, error) = s.multiply_exactly(d);
        let s_low = (((f - product) - error) - s * d_low) / d;
        // 2 s + s z (2/3 + z P(z)), z = s².
        let (z, error) = s.multiply_exactly(s);
        let z_low = error + s * s_low * 2.0;
        let (t, error) = self.number(third_high).add_exactly(z * z.polynomial(self.pick(LOG.0, LOG.1)));
        let t_low = error + third_low;
        let (w, error) = z.multiply_exactly(t);
        let w_low = error + (z * t_low + z_low * t);
        let (v, error) = s.multiply_exactly(w);
        let v_low = error + (s * w_low + s_low * w);
        let (sum, first) = (k * high).add_exactly(s * 2.0);
        let (sum, second) = sum.add_exactly(v);
        sum.add_exactly((first + second) + ((s_low * 2.0 + v_low) + k * low))
    }

    /// This to the power of `y`, as C has it.
    pub(super) fn pow(self, y: Float<'g>) -> Float<'g> {
        let x = self.abs();
        let (log, log_low) = x.log_in_two();
        let (product, error) = y.multiply_exactly(log);
        let clamped = product.exp_clamped();
        // Outside, errors may be NaN, and do not matter.
        let low = product.equals(clamped).select(error + y * log_low, self.number(0.0));
        let (n, r, rest) = clamped.exp_apart(low);
        // Rounded once, so that powers that are numbers of the type come out as such.
        let (sum, error) = self.number(1.0).add_exactly(r);
        let power = (sum + (error + rest)).scaled(n);
        // The ends: zero and infinity to a power are one of these two.
        let grows = x.above(1.0);
        let ends = x.magnitude().equals(0) | x.equals(self.infinity());
        let up = y.above(0.0);
        let infinite = (grows & up) | (!grows & !up);
        let power = ends.select(infinite.select(self.infinity(), self.number(0.0)), power);
        let power = power.unless_nan(y).unless_nan(self);
        // Below zero only whole exponents have a result, and odd ones keep the sign.
        let half = y * 0.5;
        let is_odd = !half.floor().equals(half) & y.floor().equals(y);
        let negated = is_odd.select(power.signed_as(self), power);
        let rootless = self.below(0.0) & !y.floor().equals(y) & !x.equals(self.infinity());
        let power = rootless.select(self.nan(), negated);
        let one = self.number(1.0);
        let minus_one = self.equals(-1.0) & y.magnitude().equals(self.infinite_bits());
        (y.equals(0.0) | self.equals(1.0) | minus_one).select(one, power)
    }
}
