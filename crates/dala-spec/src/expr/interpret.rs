//! Runs programs on the host, one element at a time: what devices are checked against.

use super::program::{LogicOp, Op, Program};
use super::scalar_ops::{answers, apply_binary, apply_unary, cast, compare, store, widen};
use crate::{Data, Scalar, Shape};

#[derive(Clone, Copy)]
enum Register {
    Number(Scalar),
    Truth(bool),
}

impl Register {
    fn number(self) -> Scalar {
        match self {
            Register::Number(value) => value,
            Register::Truth(value) => Scalar::S32(value.into()),
        }
    }

    fn truth(self) -> bool {
        match self {
            Register::Number(value) => value.as_f64() != 0.0,
            Register::Truth(value) => value,
        }
    }
}

/// Runs `program` over every element of `shape`. `params` holds the value of each of the program's param slots.
///
/// Returns one list per output. Elements that an input does not have count as zero.
///
/// # Panics
///
/// There are fewer inputs or params than the program has, or `shape` has fewer dimensions than it uses.
pub fn interpret(program: &Program, inputs: &[Data], params: &[Scalar], shape: &Shape) -> Vec<Data> {
    let mut outputs: Vec<Vec<Scalar>> = vec![Vec::with_capacity(shape.len()); program.outputs().len()];
    let mut registers: Vec<Register> = Vec::with_capacity(program.ops().len());
    for index in 0..shape.len() {
        registers.clear();
        for op in program.ops() {
            let number = |reg: usize| registers[reg].number();
            let truth = |reg: usize| registers[reg].truth();
            let value = match *op {
                Op::Input { slot } => {
                    let input = program.inputs()[slot];
                    let at = match program.pixel() {
                        _ if input.broadcast => 0,
                        // A pixel of one channel counts for all channels of the output.
                        Some(own) => index / own * input.channels + (index % own).min(input.channels - 1),
                        None => index,
                    };
                    Register::Number(load(&inputs[slot], at))
                }
                Op::Channel { slot, channel, of } => {
                    let pixel = index / program.pixel().unwrap_or(of);
                    Register::Number(load(&inputs[slot], pixel * of + channel))
                }
                Op::Gather { slot, index } => {
                    let last = inputs[slot].len().saturating_sub(1) as i64;
                    let at = number(index).as_i64().clamp(0, last);
                    Register::Number(load(&inputs[slot], at as usize))
                }
                Op::Const(value) => Register::Number(value),
                Op::Param(slot) => Register::Number(params[slot]),
                Op::Index => Register::Number(Scalar::S32(index as i32)),
                Op::Coord(axis) => {
                    let inner: usize = shape.dims()[axis + 1..].iter().product();
                    Register::Number(Scalar::S32((index / inner % shape.dims()[axis]) as i32))
                }
                Op::Dim(axis) => Register::Number(Scalar::S32(shape.dims()[axis] as i32)),
                Op::Unary(op, a) if op.is_question() => Register::Truth(answers(op, number(a))),
                Op::Unary(op, a) => Register::Number(apply_unary(op, number(a))),
                Op::Binary(op, a, b) => Register::Number(apply_binary(op, number(a), number(b))),
                Op::Compare(op, a, b) => Register::Truth(compare(op, number(a), number(b))),
                Op::Logic(LogicOp::And, a, b) => Register::Truth(truth(a) && truth(b)),
                Op::Logic(LogicOp::Or, a, b) => Register::Truth(truth(a) || truth(b)),
                Op::Not(a) => Register::Truth(!truth(a)),
                Op::Select(c, a, b) => registers[if truth(c) { a } else { b }],
                Op::Cast(a, dtype) => Register::Number(widen(cast(number(a), dtype))),
                Op::Stored(a, dtype) => Register::Number(widen(store(number(a), dtype))),
                Op::Store { slot, value } => {
                    outputs[slot].push(store(number(value), program.outputs()[slot]));
                    registers[value]
                }
            };
            registers.push(value);
        }
    }
    program.outputs().iter().zip(outputs).map(|(dtype, values)| Data::collect(*dtype, values)).collect()
}

fn load(data: &Data, index: usize) -> Scalar {
    widen(data.get(index).unwrap_or(Scalar::from_i64(data.dtype(), 0)))
}
