//! Expressions: parsed, printed, type-checked for some call, interpreted on a few elements.

use dala_spec::expr::interpret;
use dala_spec::{DType, Data, Expr, KernelSpec, NUMBERS, OutputDType, OutputShape, ParamKind, Params, Program, Scope};
use dala_spec::{Scalar, TensorType, param, validate};

use crate::{Progress, Random, Target};

/// An expression and the call it is for: the first line of an input says which call, the rest is the expression.
pub(super) struct Expression;

const INPUTS: [&str; 3] = ["x", "y", "table"];
const SHAPES: [&[usize]; 9] = [&[], &[1], &[0], &[5], &[2, 3], &[2, 3, 4], &[3, 2, 1], &[2, 0, 3], &[1, 2, 2, 5]];
const UNARY: [&str; 13] =
    ["abs", "floor", "ceil", "round", "exp", "log", "sqrt", "sin", "cos", "tanh", "erf", "sigmoid", "gelu"];
const CASTS: [&str; 15] = [
    "f32",
    "f64",
    "s32",
    "s64",
    "u32",
    "u8",
    "f16",
    "bf16",
    "s8",
    "s16",
    "u16",
    "u64",
    "wrap_u8",
    "wrap_s16",
    "saturate_s32",
];

/// What an input's first byte and length choose: it is part of the input, so that a saved one says all.
struct Chosen {
    types: Vec<TensorType>,
    output: TensorType,
    params: Params,
}

fn chosen(line: &str) -> Chosen {
    // Any line chooses something.
    let mut random = Random::new(line.bytes().fold(0, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into())));
    let shape = random.pick(&SHAPES);
    let mut dtype = || random.pick(&DType::ALL);
    let (x, y, table, output) = (dtype(), dtype(), dtype(), dtype());
    // Half of the calls are of one type, so that more expressions fit.
    let one = random.chance(50);
    let y_shape = if random.chance(30) { &[1][..] } else { shape };
    let side = random.pick(&[1, 3, 7]);
    let types = vec![
        TensorType::new(x, shape),
        TensorType::new(if one { x } else { y }, y_shape),
        TensorType::new(if one { x } else { table }, [side]),
    ];
    let gain = random.float();
    let params = Params::new().with("gain", gain).with("count", random.number()).with("on", random.chance(50));
    Chosen { types, output: TensorType::new(if one { x } else { output }, shape), params }
}

/// Values where something changes.
fn data(ty: &TensorType, random: &mut Random) -> Data {
    let value = |_| match ty.dtype.is_float() {
        true => Scalar::from_f64(ty.dtype, random.float()),
        false => Scalar::from_i64(ty.dtype, random.number()),
    };
    Data::collect(ty.dtype, (0..ty.shape.len()).map(value).collect::<Vec<_>>())
}

fn spec() -> KernelSpec {
    KernelSpec::pointwise("fuzzed")
        .output(OutputShape::Inputs, OutputDType::OneOf(NUMBERS))
        .input("x", NUMBERS)
        .input("y", NUMBERS)
        .side_input("table", NUMBERS)
        .param(param("gain", ParamKind::Number).default(1))
        .param(param("count", ParamKind::Int).default(1))
        .param(param("on", ParamKind::Bool).default(true))
}

impl Target for Expression {
    fn name(&self) -> &'static str {
        "expression"
    }

    fn stages(&self) -> &'static [&'static str] {
        &["parsed", "printed", "built", "interpreted"]
    }

    fn short(&self) -> usize {
        150_000
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        let texts = [
            "clamp(x * gain + 1, 0, 1)",
            "select(x > 0 && !(y <= 1), x, y)",
            "gather(table, s32(index) % 3) / 2",
            "x.r * 0.25 + x.g * 0.5 + channel(x, 2)",
            "f32(coord(0)) / f32(dim(0)) + relu(x, 0.1)",
            "-x % (y - count) + s32(on)",
            "pow(abs(x), 0.5) + sigmoid(gelu(tanh(erf(x))))",
            "f64(9223372036854775807) + u8(300)",
        ];
        let long = [
            format!("x{}", " + x".repeat(900)),
            format!("{}x{}", "(".repeat(90), ")".repeat(90)),
            format!("{}x{}", "(".repeat(40), format!("{})", " * y + 1".repeat(12)).repeat(40)),
        ];
        let texts = texts.into_iter().map(str::to_owned).chain(long);
        texts.enumerate().map(|(number, text)| format!("{number}\n{text}").into_bytes()).collect()
    }

    fn words(&self) -> Vec<&'static str> {
        let others = [
            "x",
            "y",
            "table",
            "gain",
            "count",
            "on",
            "index",
            "channel",
            "true",
            "false",
            "min",
            "max",
            "pow",
            "select",
            "clamp",
            "relu",
            "coord(",
            "dim(",
            "channel(",
            "gather(table, ",
            "(",
            ")",
            ",",
            "+",
            "-",
            "*",
            "/",
            "%",
            "<",
            "<=",
            "==",
            "!=",
            "&&",
            "||",
            "!",
            ".r",
            ".a",
            "1e400",
            "9223372036854775808",
            "0.1",
            "é",
            "\n",
            "(((((((((",
        ];
        [&others[..], &UNARY, &CASTS].concat()
    }

    fn generate(&self, random: &mut Random) -> Option<Vec<u8>> {
        let mut text = format!("{}\n", random.below(10_000));
        let depth = random.pick(&[1, 2, 3, 4, 6]);
        number(&mut text, depth, random);
        // The tree of such a text leans to one side, as deep as it is long.
        if random.below(200) == 0 {
            let (nested, chain) = (1 + random.below(99), random.below(999));
            let link = random.pick(&[" + x", " * y", " - 1", " && true", " / gain"]);
            let tail = format!("{})", link.repeat(chain));
            let inner = text.split_off(text.find('\n').unwrap_or_default() + 1);
            text += &format!("{}{inner}{}", "(".repeat(nested), tail.repeat(nested));
        }
        Some(text.into_bytes())
    }

    #[expect(clippy::panic, reason = "a panic is how a target says that a rule was broken")]
    fn run(&mut self, input: &[u8], progress: &mut Progress) {
        let text = String::from_utf8_lossy(input);
        let (line, text) = text.split_once('\n').unwrap_or(("", &text));
        let scope = Scope::new(INPUTS, ["gain", "count", "on"]);
        let expr = match Expr::parse(text, &scope) {
            Ok(expr) => expr,
            Err(error) => {
                progress.note_message(&error.message);
                assert!(error.to_string().len() <= 3 * text.len() + 1000, "a long message");
                return;
            }
        };
        progress.past("parsed");
        // What is printed is read as the same.
        let printed = expr.to_string();
        match Expr::parse(&printed, &scope) {
            Ok(again) => assert_eq!(again.to_string(), printed, "printed otherwise the second time"),
            Err(error) => panic!("does not read what it printed: {}", error.message),
        }
        progress.past("printed");
        let _ = (expr.tolerance(|name| name == "count"), expr.only_gathers("table"));
        let Chosen { types, output, params } = chosen(line);
        let Ok(signature) = validate(&spec(), &types, &output, &params) else { return };
        let program = match Program::build(&expr, &INPUTS, &signature) {
            Ok(program) => program,
            Err(error) => return progress.note_message(&error.message),
        };
        let values = match program.param_values("fuzzed", &signature) {
            Ok(values) => values,
            Err(error) => return progress.note(error.code()),
        };
        progress.past("built");
        let kinds: std::collections::BTreeSet<_> = program.ops().iter().map(std::mem::discriminant).map(hash).collect();
        progress.note((kinds, program.pixel(), output.dtype, program.ops().len().ilog2()));
        // Long programs are slow by their length alone.
        if program.ops().len() <= 4000 {
            let mut random = Random::new(1);
            let inputs: Vec<Data> = types.iter().map(|ty| data(ty, &mut random)).collect();
            let results = interpret(&program, &inputs, &values, &output.shape);
            assert_eq!((results.len(), results[0].len()), (1, output.shape.len()), "elements are missing");
            progress.past("interpreted");
        }
    }
}

fn hash(value: impl std::hash::Hash) -> u64 {
    use std::hash::Hasher;
    let mut hasher = std::hash::DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Writes an expression that is a number, mostly.
fn number(text: &mut String, depth: usize, random: &mut Random) {
    if depth == 0 {
        return leaf(text, random);
    }
    match random.below(20) {
        0..=6 => {
            // Without brackets the order of operators is put to the test.
            let brackets = random.chance(60);
            text.push_str(if brackets { "(" } else { "" });
            number(text, depth - 1, random);
            text.push_str(random.pick(&[" + ", " - ", " * ", " / ", " % ", "+", "-"]));
            number(text, depth - 1, random);
            text.push_str(if brackets { ")" } else { "" });
        }
        7 => call(text, random.pick(&["min", "max", "pow"]), 2, depth, random),
        8 => call(text, "clamp", 3, depth, random),
        9 => call(text, "relu", 1 + random.clone().below(2), depth, random),
        10 | 11 => call(text, random.pick(&UNARY), 1, depth, random),
        12..=14 => call(text, random.pick(&CASTS), 1, depth, random),
        15 => {
            text.push('-');
            number(text, depth - 1, random);
        }
        16 => {
            text.push_str(random.pick(&["gather(table, ", "gather(x, s32(", "gather(y, index + "]));
            let casts = text.ends_with("s32(");
            number(text, depth - 1, random);
            text.push_str(if casts { "))" } else { ")" });
        }
        17 | 18 => {
            text.push_str("select(");
            truth(text, depth - 1, random);
            for _ in 0..2 {
                text.push_str(", ");
                number(text, depth - 1, random);
            }
            text.push(')');
        }
        _ => leaf(text, random),
    }
}

/// Writes an expression that is a condition.
fn truth(text: &mut String, depth: usize, random: &mut Random) {
    match random.below(6) {
        0 => text.push_str(random.pick(&["true", "false", "on", "!on"])),
        1 if depth > 0 => {
            text.push_str("!(");
            truth(text, depth - 1, random);
            text.push(')');
        }
        2 if depth > 0 => {
            text.push('(');
            truth(text, depth - 1, random);
            text.push_str(random.pick(&[" && ", " || ", " == "]));
            truth(text, depth - 1, random);
            text.push(')');
        }
        _ => {
            number(text, depth.saturating_sub(1), random);
            text.push_str(random.pick(&[" < ", " <= ", " > ", " >= ", " == ", " != "]));
            number(text, depth.saturating_sub(1), random);
        }
    }
}

fn call(text: &mut String, name: &str, arguments: usize, depth: usize, random: &mut Random) {
    text.push_str(name);
    for argument in 0..arguments {
        text.push_str(if argument == 0 { "(" } else { ", " });
        number(text, depth - 1, random);
    }
    text.push(')');
}

fn leaf(text: &mut String, random: &mut Random) {
    match random.below(12) {
        0..=3 => text.push_str(random.pick(&["x", "x", "x", "y", "table"])),
        4 => text.push_str(random.pick(&["gain", "count"])),
        5 => text.push_str(random.pick(&["index", "channel", "coord(0)", "dim(0)", "coord(1)", "dim(2)", "coord(3)"])),
        6 => text.push_str(random.pick(&["x.r", "x.g", "y.b", "x.a", "channel(x, 1)", "channel(y, 4)"])),
        7 => text.push_str(&format!("{:?}", random.float().abs())),
        8 => text.push_str(&random.number().to_string()),
        _ => text.push_str(&random.below(10).to_string()),
    }
}
