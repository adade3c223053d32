//! Expressions and programs as text.

use std::fmt;

use super::{Expr, Infix, LogicOp, Node, Op, ParamSource, Program};

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_expr(f, self, 0)
    }
}

/// Writes `expr` where an operator of strength `around` surrounds it, with parentheses if it needs them.
fn write_expr(f: &mut fmt::Formatter<'_>, expr: &Expr, around: u8) -> fmt::Result {
    match &*expr.node {
        Node::Input(name) | Node::Param(name) | Node::Local(name) => f.write_str(name),
        Node::Let(name, value, rest) => {
            // Inside of something else only Rust can make one: it reads well all the same.
            let (open, close) = if around > 0 { ("(", ")") } else { ("", "") };
            write!(f, "{open}let {name} = ")?;
            write_expr(f, value, 0)?;
            f.write_str("; ")?;
            write_expr(f, rest, 0)?;
            f.write_str(close)
        }
        Node::Int(value) => write!(f, "{value}"),
        Node::Float(value) => write!(f, "{value:?}"),
        Node::Bool(value) => write!(f, "{value}"),
        Node::Index => f.write_str("index"),
        Node::Channel => f.write_str("channel"),
        Node::Coord(axis) => write!(f, "coord({axis})"),
        Node::Dim(axis) => write!(f, "dim({axis})"),
        Node::ChannelOf(of, channel) => {
            let Some(letter) = ["r", "g", "b", "a"].get(*channel) else {
                f.write_str("channel(")?;
                write_expr(f, of, 0)?;
                return write!(f, ", {channel})");
            };
            // As it is read, so that it nests no deeper: a channel may follow what needs no parentheses anywhere.
            match &*of.node {
                Node::Input(_) | Node::ChannelOf(..) | Node::Gather(..) | Node::Cast(..) | Node::Call(..) => {
                    write_expr(f, of, 0)?;
                }
                _ => {
                    f.write_str("(")?;
                    write_expr(f, of, 0)?;
                    f.write_str(")")?;
                }
            }
            write!(f, ".{letter}")
        }
        Node::Gather(of, index) => {
            f.write_str("gather(")?;
            write_expr(f, of, 0)?;
            f.write_str(", ")?;
            write_expr(f, index, 0)?;
            f.write_str(")")
        }
        Node::Size(value) => write!(f, "{value}"),
        Node::Number(value) => write!(f, "{value:?}"),
        Node::Negate(of) => {
            f.write_str("-")?;
            write_expr(f, of, Infix::PREFIX)
        }
        Node::Not(of) => {
            f.write_str("!")?;
            write_expr(f, of, Infix::PREFIX)
        }
        Node::BitNot(of) => {
            f.write_str("~")?;
            write_expr(f, of, Infix::PREFIX)
        }
        Node::Infix(op, left, right) => {
            let (symbol, strength) = op.place();
            let open = strength < around;
            if open {
                f.write_str("(")?;
            }
            // Comparisons do not chain, so both sides of one need parentheses around another.
            let left_around = if matches!(op, Infix::Compare(_)) { strength + 1 } else { strength };
            write_expr(f, left, left_around)?;
            write!(f, " {symbol} ")?;
            write_expr(f, right, strength + 1)?;
            if open {
                f.write_str(")")?;
            }
            Ok(())
        }
        Node::Cast(overflow, dtype, of) => {
            write!(f, "{}{dtype}(", overflow.prefix())?;
            write_expr(f, of, 0)?;
            f.write_str(")")
        }
        Node::Call(function, arguments) => {
            write!(f, "{}(", function.name())?;
            for (i, argument) in arguments.iter().enumerate() {
                if i > 0 {
                    f.write_str(", ")?;
                }
                write_expr(f, argument, 0)?;
            }
            f.write_str(")")
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (register, (op, ty)) in self.ops().iter().zip(self.types()).enumerate() {
            if !matches!(op, Op::Store { .. }) {
                write!(f, "%{register} = ")?;
            }
            match op {
                Op::Input { slot } => write!(f, "input {slot} {}", self.inputs()[*slot].dtype)?,
                Op::Channel { slot, channel, of } => write!(f, "input {slot} channel {channel} of {of}")?,
                Op::Gather { slot, index } => write!(f, "input {slot} at %{index}")?,
                Op::Const(value) => write!(f, "{ty} {value}")?,
                Op::Param(slot) => match &self.params()[*slot].source {
                    ParamSource::Param { name, .. } => write!(f, "param {name} {ty}")?,
                    ParamSource::Fixed(value) => write!(f, "{ty} {value}")?,
                },
                Op::Index => f.write_str("index")?,
                Op::Coord(axis) => write!(f, "coord {axis}")?,
                Op::Dim(axis) => write!(f, "dim {axis}")?,
                Op::Unary(op, a) => write!(f, "{} %{a}", op.name())?,
                Op::Binary(op, a, b) => write!(f, "{} %{a} %{b}", op.name())?,
                Op::Compare(op, a, b) => write!(f, "%{a} {} %{b}", op.symbol())?,
                Op::Logic(LogicOp::And, a, b) => write!(f, "%{a} && %{b}")?,
                Op::Logic(LogicOp::Or, a, b) => write!(f, "%{a} || %{b}")?,
                Op::Not(a) => write!(f, "!%{a}")?,
                Op::Select(c, a, b) => write!(f, "select %{c} %{a} %{b}")?,
                Op::Cast(a, dtype) => write!(f, "{dtype}(%{a})")?,
                Op::Stored(a, dtype) => write!(f, "stored {dtype} %{a}")?,
                Op::Store { slot, value } => write!(f, "store {slot} {} %{value}", self.outputs()[*slot])?,
            }
            f.write_str("\n")?;
        }
        Ok(())
    }
}
