//! Functions of angles, and their inverses.

use super::floats::{Bits, Float};

/// `(sin(r) / r - 1) / z` with `z = r²` and |r| up to a quarter of pi: 2^-35 and 2^-66.
const SIN: (&[f64], &[f64]) = (
    &[2.7248702e-06, -0.00019840077, 0.008333332, -0.16666667],
    &[
        -7.586455940017973e-13,
        1.605852751943773e-10,
        -2.5052106206531682e-08,
        2.755731921926441e-06,
        -0.00019841269841264968,
        0.008333333333333331,
        -0.16666666666666666,
    ],
);

/// `(cos(r) - 1 + z / 2) / z²` on the same: 2^-29 and 2^-59.
const COS: (&[f64], &[f64]) = (
    &[2.4546931e-05, -0.0013888298, 0.041666664],
    &[
        -1.1382280957702634e-11,
        2.0876141380294955e-09,
        -2.7557317248229367e-07,
        2.480158729872029e-05,
        -0.0013888888888887367,
        0.041666666666666664,
    ],
);

/// `(atan(t) / t - 1) / z` with `z = t²` and |t| up to the root of 2 less 1: 2^-31 and 2^-60.
const ATAN: (&[f64], &[f64]) = (
    &[0.050478205, -0.08624553, 0.11071348, -0.1428415, 0.19999978, -0.33333334],
    &[
        0.01628357235648259,
        -0.0345685906686069,
        0.045515165635903104,
        -0.052304374642516874,
        0.05878926715756726,
        -0.066664246872465,
        0.07692296363979952,
        -0.09090908753118594,
        0.11111111105147764,
        -0.14285714285659748,
        0.19999999999999804,
        -0.3333333333333333,
    ],
);

/// `(asin(x) / x - 1) / z` with `z = x²` and |x| up to a half: 2^-28 and 2^-60.
const ASIN: (&[f64], &[f64]) = (
    &[0.033700727, 0.017143717, 0.031101728, 0.04459932, 0.07500095, 0.16666666],
    &[
        0.02963502626354855,
        -0.019277545928584557,
        0.019579201619744684,
        0.0030350071727267623,
        0.009322101501082774,
        0.00962140274734483,
        0.011566511821890942,
        0.013963775787848137,
        0.017352816768546473,
        0.022372157435623815,
        0.030381944475693704,
        0.04464285714255019,
        0.07500000000000119,
        0.16666666666666666,
    ],
);

/// A quarter of pi as two numbers of each type.
const QUARTER: [(f64, f64); 2] =
    [(0.7853981852531433, -2.1855695000931213e-08), (std::f64::consts::FRAC_PI_4, 3.061616997868383e-17)];

/// The bits of 2 / pi after 25 zeros and the point, from the first.
const TWO_OVER_PI: [u64; 8] =
    [0x28, 0xBE60_DB93, 0x9105_4A7F, 0x09D5_F47D, 0x4D37_7036, 0xD8A5_664F, 0x10E4_107F, 0x9458_EAF7];

/// Half of pi in parts of 33 bits, so that their products with numbers below 2^20 are exact, and a rest.
const HALF_PI: [f64; 4] = [1.5707963267341256, 6.077100506303966e-11, 2.0222662487111665e-21, 8.4784276603689e-32];

impl<'g> Float<'g> {
    /// A positive angle as a number of quarter turns, of which two bits count, and a rest of at most half of one.
    fn turned(self) -> (Bits<'g>, Float<'g>) {
        let (quarters, rest) = self.pick(Float::turned_by_bits as fn(_) -> _, Float::turned_by_parts)(self);
        // Small angles stay as they are.
        let small = self.magnitude().below(self.bits_of(std::f64::consts::FRAC_PI_4));
        (small.select(quarters.number(0), quarters), small.select(self, rest))
    }

    /// For f32, of any size: multiplies its digits by those bits of 2 / pi that matter, with integers of 32 bits.
    fn turned_by_bits(self) -> (Bits<'g>, Float<'g>) {
        let bits = self.bits();
        let exponent = bits >> 23;
        let from = exponent.at_least(126).select(exponent - 126, bits.number(0));
        let (word, bit) = (from >> 5, from & 31);
        let digits = (bits & 0x7F_FFFF) | 0x80_0000;
        let beyond: Vec<_> = (1..5).map(|index| word.at_least(index)).collect();
        let words: Vec<_> = (0..4)
            .map(|index| {
                let first = bits.number(TWO_OVER_PI[index]);
                let later = beyond.iter().zip(&TWO_OVER_PI[index + 1..]);
                later.fold(first, |word, (is_later, later)| is_later.select(bits.number(*later), word))
            })
            .collect();
        let window = |index: usize| (words[index] << bit) | ((words[index + 1] >> 1) >> (bit ^ 31));
        let upper_product = |word: Bits<'g>| {
            let ((a, b), (c, d)) = ((digits >> 16, digits & 0xFFFF), (word >> 16, word & 0xFFFF));
            let (upper, lower) = (b * c, a * d);
            let carry = (((b * d) >> 16) + (upper & 0xFFFF) + (lower & 0xFFFF)) >> 16;
            a * c + (upper >> 16) + (lower >> 16) + carry
        };
        let middle = digits * window(1);
        let second = middle + upper_product(window(2));
        let carry = second.below(middle).select(bits.number(1), bits.number(0));
        let first = digits * window(0) + upper_product(window(1)) + carry;
        // Two bits before the point, 30 and 32 after it, and the nearest whole number taken off.
        let quarters = (first + 0x2000_0000) >> 30;
        let rest =
            (first - (quarters << 30)).rounded(true) * (-30_f64).exp2() + second.rounded(false) * (-62_f64).exp2();
        (quarters, rest * std::f64::consts::FRAC_PI_2)
    }

    /// For f64: takes multiples of half of pi off, part by part. Beyond 2^20 quarter turns digits are lost.
    fn turned_by_parts(self) -> (Bits<'g>, Float<'g>) {
        let n = (self * std::f64::consts::FRAC_2_PI + 0.5).floor();
        let rest = HALF_PI.iter().fold(self, |rest, part| (rest - n * *part).held());
        let quarters = (n + (1_u64 << 52) as f64).bits();
        // Where nothing is left of the angle, at least the result is one that an angle could have.
        (quarters, rest.max(-0.8).min(0.8))
    }

    /// The sine and the cosine of the rest of an angle.
    fn sin_cos(self) -> (Float<'g>, Float<'g>) {
        let z = self * self;
        let sin = self + self * z * z.polynomial(self.pick(SIN.0, SIN.1));
        let cos = 1.0 - (z * 0.5 - z * z * z.polynomial(self.pick(COS.0, COS.1)));
        (sin, cos)
    }

    /// A function of a positive angle: of the sine, the cosine, whether they change places, and the number of quarter turns.
    fn of_angle(self, quarter: u64) -> Float<'g> {
        let (quarters, rest) = self.turned();
        let (sin, cos) = rest.sin_cos();
        let quarters = quarters + quarter;
        let value = (quarters & 1).equals(0).select(sin, cos);
        let sign = (quarters >> 1) << (self.pick(31, 63));
        (value.bits() ^ sign).float()
    }

    /// NaN where an angle is infinite or NaN.
    fn of_finite(self, result: Float<'g>) -> Float<'g> {
        self.magnitude().below(self.infinite_bits()).select(result, self.nan())
    }

    pub(super) fn sin(self) -> Float<'g> {
        let result = self.abs().of_angle(0);
        self.of_finite((result.bits() ^ (self.bits() & self.sign_bit())).float())
    }

    pub(super) fn cos(self) -> Float<'g> {
        self.of_finite(self.abs().of_angle(1))
    }

    pub(super) fn tan(self) -> Float<'g> {
        let (quarters, rest) = self.abs().turned();
        let (sin, cos) = rest.sin_cos();
        let even = (quarters & 1).equals(0);
        let result = even.select(sin, -cos) / even.select(cos, sin);
        self.of_finite((result.bits() ^ (self.bits() & self.sign_bit())).float())
    }

    pub(super) fn atan(self) -> Float<'g> {
        self.abs().angle(self.number(1.0)).signed_as(self).unless_nan(self)
    }

    /// The angle of a point whose coordinates are not negative; this one is upwards. Neither both zero nor both infinite.
    fn angle(self, x: Float<'g>) -> Float<'g> {
        let y = self;
        let (high, low) = self.pick(QUARTER[0], QUARTER[1]);
        // By which eighth of a turn it is nearest to: of none, one or two of them the tangent is small.
        let one = y.above(x * (std::f64::consts::SQRT_2 - 1.0));
        let two = y.above(x * (std::f64::consts::SQRT_2 + 1.0));
        let above = two.select(-x, one.select(y - x, y));
        let below = two.select(y, one.select(y + x, x));
        let t = above / below;
        let z = t * t;
        let eighths = two.select(y.number(2.0), one.select(y.number(1.0), y.number(0.0)));
        let rest = t * z * z.polynomial(self.pick(ATAN.0, ATAN.1));
        eighths * high + (t + (rest + eighths * low))
    }

    /// The angle of the point (x, y), where this is y: from -pi to pi, with the sign of y.
    pub(super) fn atan2(self, x: Float<'g>) -> Float<'g> {
        let (a, b) = (self.abs(), x.abs());
        let largest = a.max(b);
        // A diagonal where both are infinite, no angle where both are zero, and sums and products that stay finite.
        let infinite = a.equals(self.infinity()) & b.equals(self.infinity());
        let (edge, tiny) = self.pick((1e37, 1e-30), (1e300, 1e-280));
        let factor = self.pick(2_f64.powi(30), 2_f64.powi(100));
        let small = largest.below(tiny).select(self.number(factor), self.number(1.0));
        let scale = largest.above(edge).select(self.number(1.0 / factor), small);
        let one = self.number(1.0);
        let a = infinite.select(one, a * scale);
        let b = infinite.select(one, b * scale);
        let nothing = a.equals(0.0) & b.equals(0.0);
        let angle = a.angle(nothing.select(one, b));
        let (high, low) = self.pick(QUARTER[0], QUARTER[1]);
        let behind = (x.bits() & self.sign_bit()).above(0);
        let angle = behind.select(4.0 * high - (angle - 4.0 * low), angle);
        angle.signed_as(self).unless_nan(self).unless_nan(x)
    }

    /// `asin(x) - x` for `x` up to a half, with its square at hand.
    fn asin_rest(self, square: Float<'g>) -> Float<'g> {
        self * square * square.polynomial(self.pick(ASIN.0, ASIN.1))
    }

    /// What the inverses of sine and cosine begin with: whether |x| is above a half, and then the root of half its distance to
    /// 1, or |x| elsewhere; and the rest of that one's arc sine.
    fn half_angle(self) -> (super::floats::Truth<'g>, Float<'g>, Float<'g>) {
        let x = self.abs();
        let far = x.above(0.5);
        let half = (1.0 - x) * 0.5;
        let square = far.select(half, x * x);
        let root = far.select(half.max(0.0).sqrt(), x);
        (far, root, root.asin_rest(square))
    }

    pub(super) fn asin(self) -> Float<'g> {
        let (far, root, rest) = self.half_angle();
        let (high, low) = self.pick(QUARTER[0], QUARTER[1]);
        let far_result = 2.0 * high - ((root + rest) * 2.0 - 2.0 * low);
        let result = far.select(far_result, root + rest).signed_as(self);
        self.magnitude().above(self.bits_of(1.0)).select(self.nan(), result)
    }

    pub(super) fn acos(self) -> Float<'g> {
        let (far, root, rest) = self.half_angle();
        let (high, low) = self.pick(QUARTER[0], QUARTER[1]);
        let double = (root + rest) * 2.0;
        let behind = 4.0 * high - (double - 4.0 * low);
        let negative = self.below(0.0);
        let near = 2.0 * high - (self - (2.0 * low - negative.select(-rest, rest)));
        let result = far.select(negative.select(behind, double), near);
        self.magnitude().above(self.bits_of(1.0)).select(self.nan(), result)
    }
}
