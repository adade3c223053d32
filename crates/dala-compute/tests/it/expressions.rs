//! Random expressions on every device, against the reference interpreter.
//!
//! Divisions and functions are approximated, and each device may do so in its own way. So the interpreter here carries a
//! bound of the error beside every value. Where the bound cannot decide a comparison or a rounding, the element proves
//! nothing and is left out; the share of such elements is bounded and printed.

use dala_compute::{
    Buffer, DType, Data, Definition, Device, ParamKind, Params, Scalar, Shape, Support, TensorType, param,
};
use dala_spec::expr::{
    BinaryOp, LogicOp, Op, UnaryOp, answers, apply_binary, apply_unary, cast, compare, store, widen,
};
use dala_spec::{Expr, Program, Scope, validate};

use crate::support::{Random, device_names, property_cases, upload};

#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    Number(DType),
    Condition,
}

/// Writes random expressions that type-check.
struct Writer<'a> {
    random: &'a mut Random,
    inputs: Vec<DType>,
    dtypes: Vec<DType>,
    rank: usize,
}

impl Writer<'_> {
    /// The type in which values of `dtype` are computed.
    fn register(dtype: DType) -> DType {
        dtype.register()
    }

    fn leaf(&mut self, dtype: DType) -> String {
        let own: Vec<usize> = (0..self.inputs.len()).filter(|i| Self::register(self.inputs[*i]) == dtype).collect();
        match self.random.below(6) {
            0 => match dtype {
                DType::F32 | DType::F64 => format!("{dtype}({:.3})", self.random.unit() * 4.0),
                // Typed, because literals alone compute exactly and may then fit no integer type.
                DType::U32 | DType::U64 => format!("{dtype}({})", self.random.below(50)),
                other => format!("{other}({})", self.random.below(100) as i64 - 50),
            },
            // By itself a param takes the widest float type of the call.
            1 if dtype == DType::F32 => "f32(gain)".to_owned(),
            2 if dtype == DType::S32 => {
                let axis = self.random.below(self.rank);
                self.random.pick(&[
                    "index".to_owned(),
                    format!("coord({axis})"),
                    format!("dim({axis})"),
                    "channel".into(),
                ])
            }
            3 if dtype == DType::S32 => "steps".to_owned(),
            _ if !own.is_empty() => {
                let input = self.random.pick(&own);
                match self.random.below(6) {
                    0 => format!("x{input}.{}", self.random.pick(&["r", "g", "b"])),
                    1 => format!("gather(x{input}, {})", self.leaf(DType::S32)),
                    _ => format!("x{input}"),
                }
            }
            _ => format!("{dtype}(x{})", self.random.below(self.inputs.len())),
        }
    }

    fn any(&mut self, kind: Kind, depth: usize) -> String {
        let Kind::Number(dtype) = kind else { return self.condition(depth) };
        if depth == 0 {
            return self.leaf(dtype);
        }
        let depth = depth - 1;
        let same = |writer: &mut Self| writer.any(kind, depth);
        let is_float = dtype.is_float();
        match self.random.below(12) {
            0 => format!("({} + {})", same(self), same(self)),
            1 => format!("({} - {})", same(self), same(self)),
            2 | 3 => format!("({} * {})", same(self), same(self)),
            4 => format!("({} / {})", same(self), same(self)),
            5 => format!("{}({}, {})", self.random.pick(&["min", "max"]), same(self), same(self)),
            6 => format!("select({}, {}, {})", self.condition(depth), same(self), same(self)),
            7 => format!("clamp({}, {}, {})", same(self), same(self), same(self)),
            // A negative literal does not fit u32.
            8 if matches!(dtype, DType::U32 | DType::U64) => format!("(-{dtype}({}))", same(self)),
            8 => format!("(-({}))", same(self)),
            9 if is_float => {
                let known = UnaryOp::ALL.iter().filter(|op| op.is_approximate()).map(|op| op.name());
                let names: Vec<&str> = known.chain(["sigmoid", "gelu", "sqrt", "exp"]).collect();
                format!("{}({})", self.random.pick(&names), same(self))
            }
            10 if is_float && self.random.below(4) == 0 => {
                format!("{}({}, {})", self.random.pick(&["rem", "mod", "minimum", "maximum"]), same(self), same(self))
            }
            10 if is_float => {
                let names = ["abs", "floor", "ceil", "round", "relu", "trunc", "round_away", "sign"];
                format!("{}({})", self.random.pick(&names), same(self))
            }
            9 | 10 if !is_float => match self.random.below(8) {
                0 => format!("({} % {})", same(self), same(self)),
                1 => format!("mod({}, {})", same(self), same(self)),
                2 => format!("({} & {} | {})", same(self), same(self), same(self)),
                3 => format!("({} ^ ~{dtype}({}))", same(self), same(self)),
                4 => format!("({} << {dtype}({}))", same(self), self.random.below(70)),
                5 => format!("({} >> ({} & {dtype}(31)))", same(self), same(self)),
                6 => format!("{}({dtype}({}))", self.random.pick(&["count_ones", "leading_zeros"]), same(self)),
                _ => format!("({} >> {})", same(self), same(self)),
            },
            _ => {
                let other = self.random.pick(&self.dtypes.clone());
                let inner = self.any(Kind::Number(Self::register(other)), depth);
                match self.random.below(3) {
                    // Through a type that is narrower than its register the value saturates or is rounded.
                    _ if Self::register(other) == dtype && other != dtype => format!("{other}({inner})"),
                    0 if !is_float => format!("wrap_{dtype}({inner})"),
                    1 if !is_float => format!("saturate_{dtype}({inner})"),
                    _ => format!("{dtype}({inner})"),
                }
            }
        }
    }

    fn condition(&mut self, depth: usize) -> String {
        let depth = depth.saturating_sub(1);
        match self.random.below(5) {
            0 if depth > 0 => format!("({} && {})", self.condition(depth), self.condition(depth)),
            1 if depth > 0 => format!("({} || !{})", self.condition(depth), self.condition(depth)),
            2 => {
                let dtype =
                    self.random.pick(&self.dtypes.iter().copied().filter(|own| own.is_float()).collect::<Vec<_>>());
                let value = self.any(Kind::Number(Self::register(dtype)), depth);
                format!("{}({value})", self.random.pick(&["is_nan", "is_inf"]))
            }
            _ => {
                let dtype = Self::register(self.random.pick(&self.dtypes.clone()));
                let op = self.random.pick(&["<", "<=", ">", ">=", "==", "!="]);
                let (a, b) = (self.any(Kind::Number(dtype), depth), self.any(Kind::Number(dtype), depth));
                format!("({a} {op} {b})")
            }
        }
    }
}

/// A value and a bound of its error; nothing if the error decides what the value is.
#[derive(Clone, Copy, Debug)]
enum Bounded {
    Number(Scalar, f64),
    Truth(bool),
    Undecided,
}

/// A result with its error, undecided where devices may flush to zero or overflow differently.
fn bounded(value: Scalar, error: f64) -> Bounded {
    let magnitude = value.as_f64().abs();
    let tiny = if value.dtype() == DType::F32 { 1e-36 } else { 1e-300 };
    if value.dtype().is_float() {
        // Drivers may take `x - x` and `0 * x` for zero without asking whether `x` is finite.
        if magnitude.is_nan() {
            return Bounded::Undecided;
        }
        if magnitude != 0.0 && magnitude < tiny {
            return Bounded::Undecided;
        }
        if error > 0.0 && !(magnitude + error).is_finite() || error.is_nan() {
            return Bounded::Undecided;
        }
        if error > 0.0 && value.dtype() == DType::F32 && magnitude + error > f64::from(f32::MAX) {
            return Bounded::Undecided;
        }
    }
    Bounded::Number(value, error)
}

/// The error of an approximated function: what the argument's error makes of it, and its own.
fn function(op: UnaryOp, a: Scalar, error: f64) -> Bounded {
    let dtype = a.dtype();
    let (x, value) = (a.as_f64(), apply_unary(op, a));
    let at = |x: f64| apply_unary(op, Scalar::F64(x)).as_f64();
    let magnitude = value.as_f64().abs();
    if error > 0.0 && x.abs() <= error && matches!(op, UnaryOp::Log | UnaryOp::Sqrt) {
        return Bounded::Undecided;
    }
    let own = match op {
        UnaryOp::Sqrt => 4.0 * magnitude,
        UnaryOp::Exp => (8.0 + 2.0 * x.abs()) * magnitude,
        UnaryOp::Log => 8.0 * magnitude + 8.0,
        // Large arguments lose their place in the circle.
        UnaryOp::Sin | UnaryOp::Cos | UnaryOp::Tan if x.abs() > 100.0 => return Bounded::Undecided,
        UnaryOp::Sin | UnaryOp::Cos => 8.0 + 4.0 * x.abs(),
        // The other side of a pole is far away.
        UnaryOp::Tan if magnitude > 1000.0 || error * magnitude * magnitude > 0.1 => return Bounded::Undecided,
        UnaryOp::Tanh => 16.0,
        other => 2.0 * magnitude * f64::from(other.ulps().unwrap_or(0)),
    };
    let spread = if error > 0.0 { (at(x + error) - at(x)).abs().max((at(x - error) - at(x)).abs()) } else { 0.0 };
    if !x.is_finite() || x.is_nan() {
        // Exact inputs give exact limits, except where drivers compute infinity minus infinity.
        return if matches!(op, UnaryOp::Sqrt | UnaryOp::Exp | UnaryOp::Log) && error == 0.0 {
            Bounded::Number(value, 0.0)
        } else {
            Bounded::Undecided
        };
    }
    bounded(value, spread + own * dtype.epsilon())
}

fn binary(op: BinaryOp, a: Scalar, ea: f64, b: Scalar, eb: f64) -> Bounded {
    let value = apply_binary(op, a, b);
    if !a.dtype().is_float() {
        return Bounded::Number(value, 0.0);
    }
    let (x, y, v) = (a.as_f64().abs(), b.as_f64().abs(), value.as_f64().abs());
    let rounding = a.dtype().epsilon() * v;
    let inexact = ea > 0.0 || eb > 0.0;
    let error = match op {
        BinaryOp::Add | BinaryOp::Sub => ea + eb + if inexact { rounding } else { 0.0 },
        BinaryOp::Mul => x * eb + y * ea + ea * eb + if inexact { rounding } else { 0.0 },
        BinaryOp::Min | BinaryOp::Max => ea.max(eb),
        BinaryOp::Div if !x.is_finite() || !y.is_finite() || y == 0.0 => {
            return if inexact { Bounded::Undecided } else { bounded(value, 0.0) };
        }
        BinaryOp::Div if y <= 2.0 * eb => return Bounded::Undecided,
        BinaryOp::Div => (ea + v * eb) / (y - eb) + 4.0 * rounding,
        // Exact while the quotient has all of its digits.
        BinaryOp::Rem if inexact || x / y > 1e6 => return Bounded::Undecided,
        BinaryOp::Rem => 0.0,
        _ => return Bounded::Undecided,
    };
    if inexact && (!x.is_finite() || !y.is_finite()) {
        return Bounded::Undecided;
    }
    bounded(value, error)
}

/// A value as another float, which may be narrower than what it is computed in.
fn to_float(a: Scalar, error: f64, to: DType, convert: impl Fn(Scalar, DType) -> Scalar) -> Bounded {
    let magnitude = a.as_f64().abs();
    if to == DType::F16 && error > 0.0 && magnitude + error > 65_000.0 {
        return Bounded::Undecided;
    }
    let rounding = if error > 0.0 { to.epsilon() * magnitude.max(to.smallest_normal()) } else { 0.0 };
    bounded(widen(convert(a, to)), error + rounding)
}

/// One element of a program's output, with its error.
fn element(program: &Program, inputs: &[Data], params: &[Scalar], shape: &Shape, index: usize) -> Bounded {
    let load = |slot: usize, at: usize| Bounded::Number(widen(inputs[slot].get(at).unwrap()), 0.0);
    let mut registers: Vec<Bounded> = Vec::new();
    for op in program.ops() {
        let number = |reg: usize| match registers[reg] {
            Bounded::Number(value, error) => Some((value, error)),
            _ => None,
        };
        let truth = |reg: usize| match registers[reg] {
            Bounded::Truth(value) => Some(value),
            _ => None,
        };
        let int = |value: usize| Bounded::Number(Scalar::S32(value as i32), 0.0);
        let to_integer = |a: Scalar, error: f64, convert: &dyn Fn(Scalar) -> Scalar| {
            let shifted = |by: f64| convert(Scalar::from_f64(a.dtype(), a.as_f64() + by)).as_f64();
            let decided = error == 0.0 || shifted(error) == shifted(-error);
            if decided { Bounded::Number(widen(convert(a)), 0.0) } else { Bounded::Undecided }
        };
        let value = match *op {
            Op::Input { slot } => load(slot, if program.inputs()[slot].broadcast { 0 } else { index }),
            Op::Channel { slot, channel, of } => load(slot, index / of * of + channel),
            Op::Gather { slot, index } => match number(index) {
                Some((at, 0.0)) => load(slot, at.as_i64().clamp(0, inputs[slot].len() as i64 - 1) as usize),
                _ => Bounded::Undecided,
            },
            Op::Const(value) => Bounded::Number(value, 0.0),
            Op::Param(slot) => Bounded::Number(params[slot], 0.0),
            Op::Index => int(index),
            Op::Coord(axis) => {
                let inner: usize = shape.dims()[axis + 1..].iter().product();
                int(index / inner % shape.dims()[axis])
            }
            Op::Dim(axis) => int(shape.dims()[axis]),
            Op::Unary(op, a) => match number(a) {
                None => Bounded::Undecided,
                Some((a, _)) if op.is_question() => Bounded::Truth(answers(op, a)),
                Some((a, error)) if op.is_approximate() => function(op, a, error),
                Some((a, error)) if !matches!(op, UnaryOp::Neg | UnaryOp::Abs) && error > 0.0 => {
                    to_integer(a, error, &|a| apply_unary(op, a))
                }
                Some((a, error)) => Bounded::Number(apply_unary(op, a), error),
            },
            Op::Binary(op, a, b) => match (number(a), number(b)) {
                (Some((a, ea)), Some((b, eb))) => binary(op, a, ea, b, eb),
                _ => Bounded::Undecided,
            },
            Op::Compare(op, a, b) => match (number(a), number(b)) {
                (Some((a, ea)), Some((b, eb))) if ea + eb == 0.0 => Bounded::Truth(compare(op, a, b)),
                (Some((a, ea)), Some((b, eb))) if (a.as_f64() - b.as_f64()).abs() > 2.0 * (ea + eb) => {
                    Bounded::Truth(compare(op, a, b))
                }
                _ => Bounded::Undecided,
            },
            Op::Logic(op, a, b) => match (op, truth(a), truth(b)) {
                (LogicOp::And, Some(a), Some(b)) => Bounded::Truth(a && b),
                (LogicOp::Or, Some(a), Some(b)) => Bounded::Truth(a || b),
                _ => Bounded::Undecided,
            },
            Op::Not(a) => truth(a).map_or(Bounded::Undecided, |a| Bounded::Truth(!a)),
            Op::Select(c, a, b) => truth(c).map_or(Bounded::Undecided, |c| registers[if c { a } else { b }]),
            Op::Cast(a, to) => match number(a) {
                None => Bounded::Undecided,
                Some((a, error)) if !to.is_float() => to_integer(a, error, &|a| cast(a, to)),
                Some((a, error)) => to_float(a, error, to, cast),
            },
            Op::Stored(a, to) => match number(a) {
                None => Bounded::Undecided,
                Some((a, error)) => to_integer(a, error, &|a| store(a, to)),
            },
            Op::Store { slot, value } => {
                let to = program.outputs()[slot];
                return match (number(value), truth(value)) {
                    (Some((a, error)), _) if !to.is_float() => to_integer(a, error, &|a| store(a, to)),
                    (Some((a, error)), _) => to_float(a, error, to, store),
                    (_, Some(truth)) => Bounded::Number(widen(Scalar::from_i64(to, truth.into())), 0.0),
                    _ => Bounded::Undecided,
                };
            }
        };
        registers.push(value);
    }
    Bounded::Undecided
}

/// Ordinary numbers: the traps have tests of their own, and here they would hide everything else.
fn tame(dtype: DType, len: usize, random: &mut Random) -> Data {
    let value = |_| match dtype {
        float if float.is_float() => Scalar::from_f64(dtype, (random.unit() * 1000.0).round() / 64.0),
        small if small.size() < 4 => Scalar::from_i64(small, random.next() as i64),
        DType::U32 | DType::U64 if random.below(9) > 0 => Scalar::from_i64(dtype, random.below(1000) as i64),
        other if random.below(9) == 0 => Scalar::from_i64(other, random.next() as i64),
        other => Scalar::from_i64(other, random.below(400) as i64 - 200),
    };
    Data::collect(dtype, (0..len).map(value).collect::<Vec<_>>())
}

struct Counts {
    elements: usize,
    undecided: usize,
}

fn check_case(device: &Device, seed: u64, counts: &mut Counts) {
    let mut random = Random(seed);
    let dtypes: Vec<DType> = device
        .info()
        .dtypes
        .iter()
        .filter(|(_, support)| *support != Support::Refused)
        .map(|(dtype, _)| *dtype)
        .collect();
    let inputs: Vec<DType> = (0..1 + random.below(3)).map(|_| random.pick(&dtypes)).collect();
    let output = random.pick(&dtypes);
    let shape: Vec<usize> = random.pick(&[
        vec![37, 9, 3],
        vec![5, 13, 4],
        vec![301, 1, 3],
        vec![1, 1, 3],
        vec![2, 3, 11, 3],
        vec![17, 64, 4],
    ]);
    let kind = random.pick(&[Kind::Number(Writer::register(output)), Kind::Number(DType::F32), Kind::Condition]);
    let depth = 1 + random.below(4);
    let mut writer = Writer { random: &mut random, inputs: inputs.clone(), dtypes, rank: shape.len() };
    let text = writer.any(kind, depth);

    let names: Vec<String> = (0..inputs.len()).map(|i| format!("x{i}")).collect();
    let specs = [param("gain", ParamKind::Float), param("steps", ParamKind::Int)];
    let scope = Scope::new(names.clone(), ["gain", "steps"]);
    let expr = Expr::parse(&text, &scope).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    // What is printed is what was read.
    assert_eq!(Expr::parse(&expr.to_string(), &scope).unwrap().to_string(), expr.to_string());

    let name = format!("case_{seed}");
    let definition = specs.iter().fold(Definition::inputs(&names), |definition, spec| definition.param(spec.clone()));
    device.define(&name, &text, definition).unwrap();
    let kernel = device.kernels().into_iter().find(|kernel| kernel.spec.name == name).unwrap();
    let params =
        Params::new().with("gain", (random.unit() * 8.0 * 64.0).round() / 64.0).with("steps", random.below(9) as i64);
    let types: Vec<TensorType> = inputs.iter().map(|dtype| TensorType::new(*dtype, shape.as_slice())).collect();
    let result_type = TensorType::new(output, shape.as_slice());
    let signature = validate(&kernel.spec, &types, &result_type, &params).unwrap();
    let program = kernel.program(&signature).unwrap_or_else(|error| panic!("seed {seed}: {text}\n{error}")).unwrap();
    let values = program.param_values(&name, &signature).unwrap();

    let len: usize = shape.iter().product();
    let data: Vec<Data> = inputs.iter().map(|dtype| tame(*dtype, len, &mut random)).collect();
    let buffers: Vec<Buffer> = data.iter().map(|data| upload(device, data, shape.as_slice())).collect();
    let target = Buffer::zeros(device, output, shape.as_slice()).unwrap();
    device
        .run(&name, &buffers.iter().collect::<Vec<_>>(), &target, &params)
        .unwrap_or_else(|error| panic!("seed {seed}: {text} on {inputs:?} -> {output}: {error}"));
    let actual = target.read_data().unwrap();
    for index in 0..len {
        counts.elements += 1;
        let Bounded::Number(expected, error) = element(&program, &data, &values, &signature.output.shape, index) else {
            counts.undecided += 1;
            continue;
        };
        let actual = actual.get(index).unwrap();
        let (e, a) = (expected.as_f64(), actual.as_f64());
        let same = match (expected.as_integer(), actual.as_integer()) {
            (Some(a), Some(b)) => a == b,
            _ => e == a || (e.is_nan() && a.is_nan()) || (e - a).abs() <= error,
        };
        assert!(
            same,
            "seed {seed} on {device:?}: {text}\non {inputs:?} -> {output}, element {index} is {actual}, expected {expected} ± {error:e}\n\
             inputs {:?}, params {params:?}\n{program}",
            data.iter().map(|data| data.get(index).unwrap().to_string()).collect::<Vec<_>>()
        );
    }
}

#[test]
fn random_expressions() {
    for name in device_names() {
        let device = Device::open(&name).unwrap();
        let mut counts = Counts { elements: 0, undecided: 0 };
        for case in 0..property_cases() {
            check_case(&device, case as u64, &mut counts);
        }
        let share = 100.0 * counts.undecided as f64 / counts.elements as f64;
        println!(
            "expressions on {name}: {} random ones, {} elements compared, {share:.1} % of the elements left out",
            property_cases(),
            counts.elements - counts.undecided
        );
        assert!(share < 30.0, "{share} % of the elements prove nothing");
    }
}
