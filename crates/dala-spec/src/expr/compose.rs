//! Programs made of programs: what fusion does to code.

use std::collections::HashMap;

use super::builder::Builder;
use super::program::{InputSlot, Op, ParamSlot, ParamSource, Program, Reg};
use crate::{DType, Scalar, Shape};

/// Where an input of a part comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feed {
    /// The whole's input of that number.
    Input(usize),
    /// An output of an earlier part, by the numbers of both.
    Part(usize, usize),
}

/// A program that becomes part of another.
#[derive(Clone, Debug)]
pub struct Part<'a> {
    /// The program.
    pub program: &'a Program,
    /// Where each of its inputs comes from.
    pub feeds: Vec<Feed>,
    /// The shape it runs over: where its channels are an axis, that axis may be asked for by one of them.
    pub shape: &'a Shape,
    /// How many elements of its outputs belong to one pixel of the whole; 1 where the whole runs over elements.
    pub channels: usize,
}

/// Which element of a pixel is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    /// The one that the program is run for.
    Own,
    /// One in particular.
    Channel(usize),
}

struct Composer<'a> {
    builder: Builder,
    inputs: Vec<InputSlot>,
    parts: &'a [Part<'a>],
    pixel: Option<usize>,
    /// What each part's outputs came to, where they were asked for.
    results: HashMap<(usize, At), Vec<Reg>>,
    /// Where each part's run-time values are among the whole's.
    params: Vec<Vec<Option<Reg>>>,
}

impl Program {
    /// The same code with run-time values that are settled: a call's params.
    pub fn bound(&self, values: &[Scalar]) -> Program {
        let slot = |(slot, value): (&ParamSlot, &Scalar)| ParamSlot { ty: slot.ty, source: ParamSource::Fixed(*value) };
        let params = self.params().iter().zip(values).map(slot).collect();
        self.with_params(params)
    }

    /// The same code as a part of a pipeline's stage, whose params it takes.
    pub fn of_stage(&self, stage: usize) -> Program {
        let slot = |slot: &ParamSlot| match &slot.source {
            ParamSource::Param { name, .. } => {
                ParamSlot { ty: slot.ty, source: ParamSource::Param { stage, name: name.clone() } }
            }
            ParamSource::Fixed(_) => slot.clone(),
        };
        self.with_params(self.params().iter().map(slot).collect())
    }

    /// The program that hands elements of a type on, unchanged.
    pub fn identity(dtype: DType) -> Program {
        let mut builder = Builder::new(vec![InputSlot::elements(dtype)]);
        let value = builder.input(0);
        builder.store(value, dtype);
        builder.finish()
    }

    /// One program that does what these parts do one after the other, where some get what earlier ones give. Every result is
    /// rounded as if it had been stored and loaded again.
    ///
    /// `outputs` says what is stored: a part, and one of its outputs. The whole runs over pixels of `pixel` elements, or over
    /// elements. None if that cannot be said as one program.
    pub fn compose(
        inputs: Vec<InputSlot>,
        pixel: Option<usize>,
        parts: &[Part],
        outputs: &[(usize, usize)],
    ) -> Option<Program> {
        let params = parts.iter().map(|part| vec![None; part.program.params().len()]).collect();
        let builder = Builder::over(inputs.clone(), pixel);
        let mut composer = Composer { builder, inputs, parts, pixel, results: HashMap::new(), params };
        for (part, output) in outputs {
            let value = composer.results(*part, At::Own)?[*output];
            composer.builder.store(value, parts[*part].program.outputs()[*output]);
        }
        Some(composer.builder.finish())
    }
}

impl Composer<'_> {
    /// The values of a part's outputs, as they are before they are stored.
    fn results(&mut self, number: usize, at: At) -> Option<Vec<Reg>> {
        if let Some(results) = self.results.get(&(number, at)) {
            return Some(results.clone());
        }
        let part = &self.parts[number];
        let program = part.program;
        let mut registers: Vec<Reg> = Vec::with_capacity(program.ops().len());
        let mut results = vec![0; program.outputs().len()];
        for (op, ty) in program.ops().iter().zip(program.types()) {
            let reg = |reg: Reg| registers[reg];
            let value = match *op {
                Op::Input { slot } => self.element(part.feeds[slot], at)?,
                Op::Channel { slot, channel, of } => match part.feeds[slot] {
                    Feed::Input(input) => self.builder.channel(input, channel, of),
                    feed => self.element(feed, At::Channel(channel))?,
                },
                Op::Gather { slot, index } => match part.feeds[slot] {
                    Feed::Input(input) => self.builder.gather(input, reg(index)),
                    Feed::Part(..) => return None,
                },
                Op::Const(value) => self.builder.constant(value),
                Op::Param(slot) => match self.params[number][slot] {
                    Some(reg) => reg,
                    None => {
                        let reg = self.builder.new_param(program.params()[slot].clone());
                        self.params[number][slot] = Some(reg);
                        reg
                    }
                },
                Op::Coord(axis) if axis >= 2 && axis + 1 == part.shape.rank() => match at {
                    At::Channel(channel) => self.builder.constant(Scalar::S32(channel as i32)),
                    At::Own => self.builder.position(*op),
                },
                Op::Index if at != At::Own => return None,
                Op::Index | Op::Coord(_) | Op::Dim(_) => self.builder.position(*op),
                Op::Unary(op, a) => self.builder.unary(op, reg(a)),
                Op::Binary(op, a, b) => self.builder.binary(op, reg(a), reg(b)),
                Op::Compare(op, a, b) => self.builder.compare(op, reg(a), reg(b)),
                Op::Logic(op, a, b) => self.builder.logic(op, reg(a), reg(b)),
                Op::Not(a) => self.builder.not(reg(a)),
                Op::Select(c, a, b) => self.builder.select(reg(c), reg(a), reg(b)),
                Op::Cast(a, dtype) => self.builder.cast(reg(a), dtype),
                Op::Stored(a, dtype) => self.builder.stored(reg(a), dtype),
                Op::Store { slot, value } => {
                    results[slot] = reg(value);
                    reg(value)
                }
            };
            debug_assert_eq!(self.builder.ty(value), *ty, "an op changed its type");
            registers.push(value);
        }
        self.results.insert((number, at), results.clone());
        Some(results)
    }

    /// An element of what an input is fed with, as it is loaded.
    fn element(&mut self, feed: Feed, at: At) -> Option<Reg> {
        match (feed, at) {
            (Feed::Input(input), At::Own) => Some(self.builder.input(input)),
            (Feed::Input(input), At::Channel(channel)) => {
                // A pixel of one channel counts for all channels.
                let of = self.inputs[input].channels;
                Some(self.builder.channel(input, channel.min(of - 1), of))
            }
            (Feed::Part(part, output), at) => {
                let of = self.parts[part].channels;
                let at = match at {
                    At::Own if of == self.pixel.unwrap_or(1) => At::Own,
                    At::Own if of == 1 => At::Channel(0),
                    At::Own => return None,
                    At::Channel(channel) if Some(1) == self.pixel && of == 1 && channel == 0 => At::Own,
                    At::Channel(channel) => At::Channel(channel.min(of - 1)),
                };
                let value = self.results(part, at)?[output];
                Some(self.builder.stored(value, self.parts[part].program.outputs()[output]))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::interpret;
    use crate::{Data, Expr, ResolvedParams, Scope, Signature, TensorType};

    fn program(text: &str, inputs: &[(&str, DType, &[usize])], output: (DType, &[usize])) -> Program {
        let names: Vec<&str> = inputs.iter().map(|input| input.0).collect();
        let expr = Expr::parse(text, &Scope::new(names.clone(), [""; 0])).unwrap();
        let types = inputs.iter().map(|(_, dtype, dims)| TensorType::new(*dtype, *dims)).collect();
        let output = TensorType::new(output.0, output.1);
        Program::build(&expr, &names, &Signature { inputs: types, output, params: ResolvedParams::default() }).unwrap()
    }

    #[test]
    fn every_boundary_rounds() {
        let dims: &[usize] = &[4];
        let half = program("x * 0.5", &[("x", DType::U8, dims)], (DType::U8, dims));
        let twice = program("x * 2", &[("x", DType::U8, dims)], (DType::U8, dims));
        let shape = Shape::from(dims);
        let part = |program, feeds| Part { program, feeds, shape: &shape, channels: 1 };
        let parts = [part(&half, vec![Feed::Input(0)]), part(&twice, vec![Feed::Part(0, 0)])];
        let whole = Program::compose(vec![InputSlot::elements(DType::U8)], None, &parts, &[(1, 0), (0, 0)]).unwrap();
        let out = interpret(&whole, &[Data::U8(vec![1, 3, 5, 255])], &[], &shape);
        // 0.5, 1.5, 2.5 and 127.5 are rounded half to even before they are doubled.
        assert_eq!(out, [Data::U8(vec![0, 4, 4, 255]), Data::U8(vec![0, 2, 2, 128])]);
    }

    #[test]
    fn parts_are_asked_for_single_channels() {
        let (rgba, gray): (&[usize], &[usize]) = (&[1, 2, 4], &[1, 2]);
        // Leaves alpha alone, as colour filters do.
        let invert = program("select(channel == 3, x, 255 - x)", &[("x", DType::U8, rgba)], (DType::U8, rgba));
        let red_and_alpha = program("x.r + x.a", &[("x", DType::U8, rgba)], (DType::U8, gray));
        let (rgba, gray) = (Shape::from(rgba), Shape::from(gray));
        let parts = [
            Part { program: &invert, feeds: vec![Feed::Input(0)], shape: &rgba, channels: 4 },
            Part { program: &red_and_alpha, feeds: vec![Feed::Part(0, 0)], shape: &gray, channels: 1 },
        ];
        let input = InputSlot { channels: 4, ..InputSlot::elements(DType::U8) };
        let whole = Program::compose(vec![input], Some(1), &parts, &[(1, 0)]).unwrap();
        let out = interpret(&whole, &[Data::U8(vec![250, 9, 9, 7, 200, 9, 9, 0])], &[], &gray);
        assert_eq!(out, [Data::U8(vec![12, 55])]);
    }

    #[test]
    fn run_time_values_stay_apart() {
        let dims: &[usize] = &[2];
        let names = ["x"];
        let build = |value: f64| {
            let expr = Expr::input("x") + Expr::number(value);
            let ty = TensorType::new(DType::F32, dims);
            let signature = Signature { inputs: vec![ty.clone()], output: ty, params: ResolvedParams::default() };
            Program::build(&expr, &names, &signature).unwrap()
        };
        let shape = Shape::from(dims);
        let whole = |a: f64, b: f64| {
            let (first, second) = (build(a), build(b));
            let part = |program, feeds| Part { program, feeds, shape: &shape, channels: 1 };
            let parts = [part(&first, vec![Feed::Input(0)]), part(&second, vec![Feed::Part(0, 0)])];
            Program::compose(vec![InputSlot::elements(DType::F32)], None, &parts, &[(1, 0)]).unwrap()
        };
        // Values that happen to be equal compile to the same code as others.
        assert!(whole(1.0, 1.0).same_code(&whole(1.0, 2.0)));
    }
}
