//! Functions that devices do not have, or do not have well enough.

use cubecl::ir::pliron::value::Value;
use dala_spec::Scalar;
use dala_spec::expr::{BinaryOp, CompareOp, Ty, UnaryOp};

use super::arithmetic::{Generator, Lanes};
use super::floats::Float;

impl Generator<'_> {
    /// How many bits are set, or how many zeros lead: in halves where a value has 64 bits.
    pub(super) fn count_bits(&self, op: UnaryOp, ty: Ty, a: Value) -> Value {
        let words = |value: Value| match op {
            UnaryOp::CountOnes => self.ones(value),
            _ => self.zeros_before(value),
        };
        let unsigned = |value: Value, ty: Ty, to: Ty| self.cast(Lanes { value, ty }, to);
        let count = if ty.bits() == 32 {
            words(unsigned(a, ty, Ty::U32))
        } else {
            let whole = unsigned(a, ty, Ty::U64);
            let high = self.binary(BinaryOp::Shr, Ty::U64, whole, self.constant(Scalar::U64(32)));
            let (low, high) = (unsigned(whole, Ty::U64, Ty::U32), unsigned(high, Ty::U64, Ty::U32));
            let (low_count, high_count) = (words(low), words(high));
            let sum = self.binary(BinaryOp::Add, Ty::U32, low_count, high_count);
            let high_is_zero = self.compare(CompareOp::Eq, Ty::U32, high, self.constant(Scalar::U32(0)));
            match op {
                UnaryOp::CountOnes => sum,
                _ => self.select(high_is_zero, sum, high_count),
            }
        };
        self.cast(Lanes { value: count, ty: Ty::U32 }, ty)
    }

    /// How many bits of words are set: sums of pairs, of fours, of bytes, of all.
    fn ones(&self, word: Value) -> Value {
        let operate = |op, a, b| self.binary(op, Ty::U32, a, b);
        let number = |value: u32| self.constant(Scalar::U32(value));
        let shifted = |value: Value, amount: u32| operate(BinaryOp::Shr, value, number(amount));
        let masked = |value: Value, mask: u32| operate(BinaryOp::BitAnd, value, number(mask));
        let pairs = operate(BinaryOp::Sub, word, masked(shifted(word, 1), 0x5555_5555));
        let fours = operate(BinaryOp::Add, masked(pairs, 0x3333_3333), masked(shifted(pairs, 2), 0x3333_3333));
        let bytes = masked(operate(BinaryOp::Add, fours, shifted(fours, 4)), 0x0F0F_0F0F);
        shifted(operate(BinaryOp::Mul, bytes, number(0x0101_0101)), 24)
    }

    /// How many zeros of words lead: those that are left when everything below the first one is set.
    fn zeros_before(&self, word: Value) -> Value {
        let filled = [1, 2, 4, 8, 16].into_iter().fold(word, |value, amount| {
            let below = self.binary(BinaryOp::Shr, Ty::U32, value, self.constant(Scalar::U32(amount)));
            self.binary(BinaryOp::BitOr, Ty::U32, value, below)
        });
        self.binary(BinaryOp::Sub, Ty::U32, self.constant(Scalar::U32(32)), self.ones(filled))
    }

    pub(super) fn power(&self, ty: Ty, x: Value, y: Value) -> Value {
        let x = Float::new(self, ty, x);
        x.pow(x.with(y)).value
    }

    /// The angle of the point (x, y).
    pub(super) fn atan2(&self, ty: Ty, y: Value, x: Value) -> Value {
        let y = Float::new(self, ty, y);
        y.atan2(y.with(x)).value
    }

    /// What division of floats leaves, with the sign of `x`. Programs have that of integers as a difference.
    pub(super) fn remainder(&self, ty: Ty, x: Value, y: Value) -> Value {
        let x = Float::new(self, ty, x);
        x.remainder(x.with(y)).value
    }

    /// A function of floats.
    pub(super) fn function(&self, op: UnaryOp, ty: Ty, x: Value) -> Value {
        let x = Float::new(self, ty, x);
        let result = match op {
            UnaryOp::IsInf => return x.magnitude().equals(x.infinite_bits()).value,
            UnaryOp::RoundAway => x.round_away(),
            UnaryOp::Trunc => x.abs().floor().signed_as(x),
            UnaryOp::Cbrt => x.cbrt(),
            UnaryOp::Exp => x.exp(),
            UnaryOp::Expm1 => x.expm1(),
            UnaryOp::Log => x.log(),
            UnaryOp::Log1p => x.log1p(),
            UnaryOp::Sin => x.sin(),
            UnaryOp::Cos => x.cos(),
            UnaryOp::Tan => x.tan(),
            UnaryOp::Asin => x.asin(),
            UnaryOp::Acos => x.acos(),
            UnaryOp::Atan => x.atan(),
            UnaryOp::Sinh => x.sinh(),
            UnaryOp::Cosh => x.cosh(),
            UnaryOp::Tanh => x.tanh(),
            UnaryOp::Asinh => x.asinh(),
            UnaryOp::Acosh => x.acosh(),
            UnaryOp::Atanh => x.atanh(),
            UnaryOp::Erf => x.erf(),
            UnaryOp::ErfInv => x.erf_inv(),
            other => {
                self.scope.push_error(format!("no {} on {ty}", other.name()));
                x
            }
        };
        result.value
    }
}

/// `erf(x) / x - 1` with x² up to 1: 2^-30 and 2^-63.
const ERF: (&[f64], &[f64]) = (
    &[7.875875e-05, -0.00080168643, 0.0051890872, -0.026854211, 0.11283594, -0.37612626, 0.12837917],
    &[
        5.957176147748911e-11,
        -1.1372848856791674e-09,
        1.4659775274047436e-08,
        -1.6350312701054695e-07,
        1.6461000484121368e-06,
        -1.4925595266831182e-05,
        0.0001205533111164271,
        -0.000854832698083379,
        0.0052239776248180145,
        -0.026866170645076792,
        0.11283791670954879,
        -0.3761263890318375,
        0.1283791670955126,
    ],
);

/// `(1 - erf(x)) exp(x²)` in `1 / (1 + x / 2)`, with x from 1 to 4 and to 6: 2^-27 and 2^-58.
const ERF_FAR: (&[f64], &[f64]) = (
    &[-0.053630427, -0.0570652, 0.40349504, 0.101495415, 0.33075714, 0.27363434, 0.0006051184],
    &[
        -0.07440021243346044,
        0.5535022023245029,
        -1.8535316382081848,
        3.6426059404027527,
        -4.583844406614994,
        3.799359906028882,
        -2.1298439188930316,
        0.9210072415249974,
        -0.3377317752090611,
        0.0031605924750990814,
        -0.011294696331083888,
        0.08342915067749279,
        0.17661452876291867,
        0.24676994208173553,
        0.28210194185256204,
        0.28209433744603646,
        1.273194538411999e-08,
    ],
);

/// The inverse of erf over x in `w - 2.5`, with `w = -log(1 - x²)` up to 5: 2^-28 and 2^-59.
const ERF_INV: (&[f64], &[f64]) = (
    &[
        4.6719323e-10,
        -8.73901e-09,
        1.5984305e-08,
        4.654174e-07,
        -3.4234142e-06,
        -4.959692e-06,
        0.00021825773,
        -0.0012527485,
        -0.00417732,
        0.2466403,
        1.5014093,
    ],
    &[
        -6.890747263782666e-20,
        1.700908089393591e-19,
        4.909393921888345e-18,
        -2.6828646429085144e-17,
        -1.3661917890666732e-16,
        1.896729354143592e-15,
        -2.8811110175240593e-15,
        -7.612669130138496e-14,
        5.356343166393055e-13,
        9.115660381671943e-13,
        -3.110278672226475e-11,
        1.1960698817209524e-10,
        9.073036495405582e-10,
        -1.0861168938287872e-08,
        1.3416803755242823e-08,
        4.787252185239e-07,
        -3.416619596565087e-06,
        -4.996079598850206e-06,
        0.00021825026434406123,
        -0.0012527079078110321,
        -0.004177317724383624,
        0.246640276744167,
        1.501409351110792,
    ],
);

/// The same in `v - 3`, with `v` the root of `w`, up to 4.05 and 3.75: 2^-27 and 2^-58.
const ERF_INV_FAR: (&[f64], &[f64]) = (
    &[
        -3.39211e-05,
        0.00016734097,
        -0.00027271552,
        -0.00012967877,
        0.0014736344,
        -0.0035624425,
        0.0056878044,
        -0.0076436102,
        0.009445306,
        1.0016752,
        2.8329768,
    ],
    &[
        1.3031741551143193e-08,
        -1.3823767203338424e-08,
        -6.766593193210827e-08,
        1.8209013588113415e-07,
        -7.638992915117903e-08,
        -6.544900448530779e-07,
        1.998316664364035e-06,
        -1.6481448773788692e-06,
        -5.947166980783252e-06,
        2.19335944830575e-05,
        -2.287323083751538e-05,
        -4.646035400600706e-05,
        0.00020551662443648084,
        -0.00028312441016495966,
        -0.0001488981078937435,
        0.0014837373416879095,
        -0.0035587940155128086,
        0.00568518241802725,
        -0.00764380557007492,
        0.009445522011987069,
        1.0016752766934,
        2.8329767987282706,
    ],
);

/// The same in `v - 5` up to 6.05, where only f64 comes: 2^-55.
const ERF_INV_FARTHEST: &[f64] = &[
    5.197729492644069e-13,
    6.427537816018758e-12,
    -2.391946250415093e-11,
    1.1801209212767915e-11,
    7.939029812122504e-11,
    -3.742042592828956e-10,
    1.301197818785744e-09,
    -3.5421459600220882e-09,
    7.834704969863609e-09,
    -1.5207931321079777e-08,
    2.9011349111561525e-08,
    -6.757518476370285e-08,
    2.2905525181085534e-07,
    -9.930248925203977e-07,
    4.5260520605911205e-06,
    -1.9681771274259022e-05,
    7.599527814197785e-05,
    -0.00021503011979471425,
    -0.0001387193183818478,
    1.0103004648645448,
    4.849906401408584,
];

/// The cube root from 1 to 8, to two digits.
const CBRT: [f64; 5] = [-0.00028821995, 0.0069891694, -0.0679728, 0.41218147, 0.6538963];

impl<'g> Float<'g> {
    /// To the nearest whole number, halves away from zero.
    fn round_away(self) -> Float<'g> {
        let x = self.abs();
        let whole = x.floor();
        let up = (x - whole).at_least(0.5);
        up.select(whole + 1.0, whole).signed_as(self)
    }

    fn cbrt(self) -> Float<'g> {
        let (exponent, m) = self.abs().apart(1.0);
        // The exponent by three; a half keeps the quotient away from whole numbers.
        let third = ((exponent + 0.5) * (1.0 / 3.0)).floor();
        let m = m * (exponent - third * 3.0).power_of_two();
        // Halley's method, which triples the digits.
        let root = (0..2).fold(m.polynomial(&CBRT), |root, _| {
            let cube = root * root * root;
            root + root * ((m - cube) / (cube * 2.0 + m))
        });
        let result = (root * third.power_of_two()).signed_as(self);
        let magnitude = self.magnitude();
        ((magnitude - 1).below(self.infinite_bits() - 1)).select(result, self)
    }

    fn erf(self) -> Float<'g> {
        // Beyond, the result is 1.
        let x = self.abs().min(self.pick(4.0, 6.0));
        let square = x * x;
        let near = x + x * square.polynomial(self.pick(ERF.0, ERF.1));
        let far = (1.0 / (x * 0.5 + 1.0)).polynomial(self.pick(ERF_FAR.0, ERF_FAR.1));
        let far = 1.0 - (-square).exp() * far;
        x.below(1.0).select(near, far).signed_as(self).unless_nan(self)
    }

    fn erf_inv(self) -> Float<'g> {
        let x = self.abs();
        let w = -((1.0 - x) * (x + 1.0)).log();
        let root = w.sqrt();
        let far = (root - 3.0).polynomial(self.pick(ERF_INV_FAR.0, ERF_INV_FAR.1));
        let farthest = |far| root.above(3.75).select((root - 5.0).polynomial(ERF_INV_FARTHEST), far);
        let far = if self.fraction_bits() == 52 { farthest(far) } else { far };
        let near = (w - 2.5).polynomial(self.pick(ERF_INV.0, ERF_INV.1));
        let result = x * w.below(5.0).select(near, far);
        let edge = x.equals(1.0).select(self.infinity(), self.nan());
        x.below(1.0).select(result, edge).signed_as(self).unless_nan(self)
    }

    /// What division leaves, exactly, where the quotient is below 2^33 in f32 and below 2^75 in f64; some number of the right
    /// sign and size beyond.
    fn remainder(self, y: Float<'g>) -> Float<'g> {
        let step = self.pick(11, 25);
        let ((above, x), (below, d)) = (self.abs().apart(1.0), y.abs().apart(1.0));
        let difference = (above - below).max(0.0).min(f64::from(3 * step));
        // Long division with digits of so many bits; products with halves of the divisor are exact.
        let inverse = 1.0 / d;
        let (high, low) = d.halves();
        let rest = (0..3).rev().fold(x * difference.power_of_two(), |rest, place| {
            let (up, down) = (f64::from(step * place).exp2(), f64::from(-step * place).exp2());
            let digit = (rest * inverse * down).floor();
            let rest = (rest - digit * (high * up)).held() - digit * (low * up);
            let divisor = d * up;
            // The digit may be one too large or too small.
            let rest = rest.below(0.0).select(rest + divisor, rest);
            rest.at_least(divisor).select(rest - divisor, rest).held()
        });
        let result = self.magnitude().below(y.magnitude()).select(self.abs(), rest.scaled(below)).signed_as(self);
        let (a, b, infinite) = (self.magnitude(), y.magnitude(), self.infinite_bits());
        let defined = a.below(infinite) & b.below(infinite + 1) & b.above(0);
        defined.select(result, self.nan())
    }
}
