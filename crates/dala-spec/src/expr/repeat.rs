//! Inputs that are repeated: a row that counts for all rows, a number for each channel of a picture.

use super::builder::Builder;
use super::program::{BinaryOp, Op, ParamSource, Program, Reg};
use crate::{DType, Scalar};

impl Program {
    /// The number of elements after which an input is repeated, where every read of it is at the element's position modulo that
    /// number.
    pub fn period(&self, slot: usize) -> Option<usize> {
        let mut period = None;
        for op in self.ops() {
            match *op {
                Op::Gather { slot: own, index } if own == slot => {
                    let found = self.modulus(index)?;
                    if period.replace(found).is_some_and(|before| before != found) {
                        return None;
                    }
                }
                Op::Input { slot: own } | Op::Channel { slot: own, .. } if own == slot => return None,
                _ => {}
            }
        }
        period
    }

    /// The same program, where these inputs are read at the element's own place: for those who see to it that the elements there
    /// are the right ones.
    pub fn read_plainly(&self, slots: &[usize]) -> Program {
        Builder::rewritten(self, |op| match op {
            Op::Gather { slot, .. } if slots.contains(&slot) => Op::Input { slot },
            other => other,
        })
    }

    /// `n`, if a register holds the position modulo `n`: `index - index / n * n`. The quotient is that of integers, or a product
    /// with the reciprocal, half a step up, rounded down.
    fn modulus(&self, reg: Reg) -> Option<usize> {
        let op = |reg: Reg| self.ops()[reg];
        let Op::Binary(BinaryOp::Sub, at, product) = op(reg) else { return None };
        let (quotient, Scalar::S32(size)) = self.with_fixed(BinaryOp::Mul, product)? else { return None };
        let reciprocal = Scalar::F32((1.0 / f64::from(size)) as f32);
        let above = match op(quotient) {
            Op::Binary(BinaryOp::Div, above, below) if self.fixed(below) == Some(Scalar::S32(size)) => above,
            Op::Cast(product, DType::S32) => {
                let (raised, factor) = self.with_fixed(BinaryOp::Mul, product)?;
                let (float, half) = self.with_fixed(BinaryOp::Add, raised)?;
                match op(float) {
                    Op::Cast(above, DType::F32) if (factor, half) == (reciprocal, Scalar::F32(0.5)) => above,
                    _ => return None,
                }
            }
            _ => return None,
        };
        let size = usize::try_from(size).ok().filter(|size| *size > 0);
        size.filter(|_| op(at) == Op::Index && op(above) == Op::Index)
    }

    /// The other operand and the value, where a register holds a value combined with one that is known, in either order.
    fn with_fixed(&self, op: BinaryOp, reg: Reg) -> Option<(Reg, Scalar)> {
        let Op::Binary(own, a, b) = self.ops()[reg] else { return None };
        let found = self.fixed(b).map(|value| (a, value)).or_else(|| Some((b, self.fixed(a)?)));
        found.filter(|_| own == op)
    }

    /// What a register holds, where that is known before anything runs.
    fn fixed(&self, reg: Reg) -> Option<Scalar> {
        match self.ops()[reg] {
            Op::Const(value) => Some(value),
            Op::Param(slot) => match self.params()[slot].source {
                ParamSource::Fixed(value) => Some(value),
                ParamSource::Param { .. } => None,
            },
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::expr::{Program, interpret};
    use crate::{DType, Data, Expr, ResolvedParams, Scope, Shape, Signature, TensorType};

    fn program(text: &str) -> Program {
        let expr = Expr::parse(text, &Scope::new(["x", "y"], [""; 0])).unwrap();
        let inputs = vec![TensorType::new(DType::F32, [12]), TensorType::new(DType::F32, [3])];
        let output = TensorType::new(DType::F32, [12]);
        Program::build(&expr, &["x", "y"], &Signature { inputs, output, params: ResolvedParams::default() }).unwrap()
    }

    #[test]
    fn positions_modulo_a_number_are_known() {
        assert_eq!(program("x + gather(y, index - index / 3 * 3)").period(1), Some(3));
        // Others are not: another number, another position, or elements that are read plainly as well.
        for text in [
            "x + gather(y, index - index / 3 * 4)",
            "x + gather(y, index / 3 * 3)",
            "x + gather(y, index - (index + 1) / 3 * 3)",
            "x + gather(y, index - index / 3 * 3) + gather(y, 0)",
            "x + gather(x, index - index / 3 * 3)",
        ] {
            assert_eq!(program(text).period(if text.contains("gather(x") { 0 } else { 1 }), None, "{text}");
        }
    }

    #[test]
    fn plain_programs_need_no_positions() {
        let plain = program("x * gather(y, index - index / 3 * 3)").read_plainly(&[1]);
        assert!(!plain.uses_position() && !plain.reads_neighbours());
        let inputs = [Data::F32(vec![2.0, 3.0]), Data::F32(vec![5.0, 7.0])];
        assert_eq!(interpret(&plain, &inputs, &[], &Shape::from([2])), [Data::F32(vec![10.0, 21.0])]);
    }
}
