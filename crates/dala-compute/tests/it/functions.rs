//! Every function of floats on every device: against results of mpmath, and over the whole range against the interpreter.
//!
//! `tests/golden/functions.safetensors` is made by `make_functions.py` there, and holds correctly rounded results.

use dala_compute::{Buffer, DType, Data, Definition, Device, Scalar, Support};
use dala_spec::expr::{BinaryOp, UnaryOp, answers, apply_binary, apply_unary};
use safetensors::SafeTensors;

use crate::support::{Random, device_names, devices, filled_with_rubbish, property_cases, upload};

/// How many arguments of each function are compared with the interpreter.
fn swept_arguments() -> usize {
    400 * property_cases()
}

#[derive(Clone, Copy, PartialEq)]
enum Function {
    Unary(UnaryOp),
    Binary(BinaryOp),
}

impl Function {
    fn all() -> impl Iterator<Item = Function> {
        let unary =
            UnaryOp::ALL.iter().filter(|op| op.is_approximate() || matches!(op, UnaryOp::RoundAway | UnaryOp::Trunc));
        let binary = BinaryOp::ALL.iter().filter(|op| op.is_approximate() || **op == BinaryOp::Rem);
        unary.map(|op| Function::Unary(*op)).chain(binary.map(|op| Function::Binary(*op)))
    }

    fn name(self) -> &'static str {
        match self {
            Function::Unary(op) => op.name(),
            Function::Binary(op) => op.name(),
        }
    }

    fn ulps(self) -> u32 {
        match self {
            Function::Unary(op) => op.ulps(),
            Function::Binary(op) => op.ulps(),
        }
        .unwrap_or(0)
    }

    fn is_of_angles(self) -> bool {
        matches!(self, Function::Unary(UnaryOp::Sin | UnaryOp::Cos | UnaryOp::Tan))
    }

    fn interpreted(self, x: Scalar, y: Option<Scalar>) -> Scalar {
        match self {
            Function::Unary(op) => apply_unary(op, x),
            Function::Binary(op) => apply_binary(op, x, y.unwrap()),
        }
    }

    /// Whether the documentation promises anything of these arguments.
    fn promises(self, x: Scalar, y: Option<Scalar>) -> bool {
        let (x, y, double) = (x.as_f64().abs(), y.map(Scalar::as_f64), x.dtype() == DType::F64);
        match self {
            Function::Binary(BinaryOp::Rem) => {
                let (y, largest) = (y.unwrap().abs(), if double { 75_f64 } else { 33.0 }.exp2());
                !x.is_finite() || y.is_nan() || y == 0.0 || x / y < largest
            }
            _ if self.is_of_angles() && double => x < 1e6 || !x.is_finite(),
            _ => true,
        }
    }
}

/// Arguments and results.
struct Case {
    x: Data,
    y: Option<Data>,
    out: Data,
}

fn golden(function: Function, dtype: DType) -> Case {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/functions.safetensors");
    let bytes = std::fs::read(path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let read = |part: &str| {
        let view = file.tensor(&format!("{}/{dtype}/{part}", function.name())).ok()?;
        Some(Data::from_bytes(dtype, view.data()))
    };
    Case { x: read("x").unwrap(), y: read("y"), out: read("out").unwrap() }
}

/// Arguments of all sizes, and more of ordinary ones; results of the interpreter.
fn swept(function: Function, dtype: DType) -> Case {
    let mut random = Random(7);
    let mut arguments = || {
        let argument = |index| {
            let bits = random.next();
            let any = if dtype == DType::F32 { f32::from_bits(bits as u32).into() } else { f64::from_bits(bits) };
            Scalar::from_f64(dtype, [any, random.unit() * 8.0, random.unit(), random.unit() * 100.0][index % 4])
        };
        Data::collect(dtype, (0..swept_arguments()).map(argument).collect::<Vec<_>>())
    };
    let x = arguments();
    let y = matches!(function, Function::Binary(_)).then(arguments);
    let at = |index: usize| function.interpreted(x.get(index).unwrap(), y.as_ref().map(|y| y.get(index).unwrap()));
    let out = Data::collect(dtype, (0..x.len()).map(at).collect::<Vec<_>>());
    Case { x, y, out }
}

/// How far two numbers are apart, in numbers that lie between; far for NaN and what is none.
fn distance(expected: Scalar, actual: Scalar) -> u64 {
    let place = |value: Scalar| match value {
        Scalar::F32(value) => i64::from(value.abs().to_bits()) * if value.is_sign_negative() { -1 } else { 1 },
        other => {
            let value = other.as_f64();
            value.abs().to_bits() as i64 * if value.is_sign_negative() { -1 } else { 1 }
        }
    };
    let (a, b) = (expected.as_f64(), actual.as_f64());
    match (a.is_nan(), b.is_nan()) {
        (true, true) => 0,
        (false, false) if a == 0.0 && b == 0.0 => u64::from(a.is_sign_negative() != b.is_sign_negative()) << 40,
        (false, false) => place(expected).abs_diff(place(actual)),
        _ => u64::MAX,
    }
}

fn smallest(dtype: DType) -> f64 {
    if dtype == DType::F32 { f32::MIN_POSITIVE.into() } else { f64::MIN_POSITIVE }
}

/// Largest distance where results are normal numbers, with the argument it is at.
fn compare(
    what: &str,
    function: Function,
    case: &Case,
    actual: &Data,
    allowed: u64,
    flushes: bool,
) -> (u64, String, Vec<String>) {
    let (mut worst, mut place, mut failures) = (0, String::new(), Vec::new());
    for (index, (expected, actual)) in case.out.iter().zip(actual.iter()).enumerate() {
        let (x, y) = (case.x.get(index).unwrap(), case.y.as_ref().map(|y| y.get(index).unwrap()));
        let at = || y.map_or(format!("{x:?}"), |y| format!("{x:?}, {y:?}"));
        if !function.promises(x, y) {
            let (x, actual) = (x.as_f64(), actual.as_f64());
            let is_possible = match (function, y) {
                (_, Some(y)) => actual.abs() < y.as_f64().abs() && actual.is_sign_negative() == x.is_sign_negative(),
                (Function::Unary(UnaryOp::Tan), _) => actual.is_finite(),
                _ => actual.abs() <= 1.0,
            };
            if !is_possible {
                failures.push(format!("{what} {}({}) is {actual:?}", function.name(), at()));
            }
            continue;
        }
        let tiny = smallest(x.dtype());
        // Graphics devices may take numbers below the smallest normal one for zero.
        let is_small = |value: Scalar| flushes && value.as_f64().abs() < tiny;
        if is_small(expected) && (expected.as_f64() - actual.as_f64()).abs() <= tiny {
            continue;
        }
        let apart = distance(expected, actual);
        if apart > worst {
            (worst, place) = (apart, at());
        }
        if apart > allowed {
            failures.push(format!("{what} {}({}) is {actual:?}, not {expected:?}", function.name(), at()));
        }
    }
    (worst, place, failures)
}

fn run(device: &Device, function: Function, case: &Case) -> Data {
    let dtype = case.x.dtype();
    let name = format!("own_{}", function.name());
    let (names, text): (&[&str], String) = match case.y {
        None => (&["x"], format!("{}(x)", function.name())),
        Some(_) => (&["x", "y"], format!("{}(x, y)", function.name())),
    };
    if !device.kernels().iter().any(|kernel| kernel.spec.name == name) {
        device.define(&name, &text, Definition::inputs(names.iter().copied())).unwrap();
    }
    let shape = [case.x.len()];
    let inputs: Vec<Buffer> =
        [Some(&case.x), case.y.as_ref()].into_iter().flatten().map(|data| upload(device, data, shape)).collect();
    let target = filled_with_rubbish(device, dtype, shape);
    device
        .run(&name, &inputs.iter().collect::<Vec<_>>(), &target, ())
        .unwrap_or_else(|error| panic!("{text} of {dtype}: {error}"));
    target.read_data().unwrap()
}

#[test]
fn functions_on_every_device() {
    let mut failures = Vec::new();
    for name in device_names() {
        let device = Device::open(&name).unwrap();
        let flushes = name != "cpu";
        for dtype in [DType::F32, DType::F64] {
            if device.info().dtypes.contains(&(dtype, Support::Refused)) {
                continue;
            }
            for function in Function::all() {
                let allowed = u64::from(function.ulps());
                let case = golden(function, dtype);
                let (exact, at, wrong) = compare(
                    &format!("{name} golden"),
                    function,
                    &case,
                    &run(&device, function, &case),
                    allowed,
                    flushes,
                );
                failures.extend(wrong);
                let case = swept(function, dtype);
                // The interpreter itself is up to two places off in f64.
                let slack = if dtype == DType::F64 { 2 } else { 0 };
                let (near, at_near, wrong) = compare(
                    &format!("{name} swept"),
                    function,
                    &case,
                    &run(&device, function, &case),
                    allowed + slack,
                    flushes,
                );
                failures.extend(wrong.into_iter().take(20));
                println!(
                    "functions on {name}: {} of {dtype} at most {exact} ulps off ({at}), {near} from the interpreter ({at_near}), {allowed} allowed",
                    function.name()
                );
            }
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

/// The interpreter, which other tests compare devices with, agrees with mpmath too.
#[test]
fn functions_of_the_interpreter() {
    let mut failures = Vec::new();
    for dtype in [DType::F32, DType::F64] {
        for function in Function::all() {
            let case = golden(function, dtype);
            let at = |index: usize| {
                function.interpreted(case.x.get(index).unwrap(), case.y.as_ref().map(|y| y.get(index).unwrap()))
            };
            let actual = Data::collect(dtype, (0..case.x.len()).map(at).collect::<Vec<_>>());
            let allowed = if dtype == DType::F32 { 1 } else { 2 };
            let (worst, at, wrong) = compare("interpreter", function, &case, &actual, allowed, false);
            println!("functions of the interpreter: {} of {dtype} at most {worst} ulps off ({at})", function.name());
            failures.extend(wrong);
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

/// Questions are answered the same everywhere.
#[test]
fn questions_on_every_device() {
    for device in devices() {
        for dtype in [DType::F32, DType::F64] {
            if device.info().dtypes.contains(&(dtype, Support::Refused)) {
                continue;
            }
            let x = golden(Function::Unary(UnaryOp::Trunc), dtype).x;
            for op in [UnaryOp::IsNan, UnaryOp::IsInf] {
                let name = format!("{}_{dtype}", op.name());
                device.define(&name, &format!("{}(x)", op.name()), Definition::inputs(["x"])).unwrap();
                let target = filled_with_rubbish(&device, DType::U8, [x.len()]);
                device.run(&name, &[&upload(&device, &x, [x.len()])], &target, ()).unwrap();
                for (x, answer) in x.iter().zip(target.read_data().unwrap().iter()) {
                    assert_eq!(answer.as_i64() != 0, answers(op, x), "{device:?}: {}({x:?})", op.name());
                }
            }
        }
    }
}

/// Powers of small whole numbers are whole numbers.
#[test]
fn whole_powers_are_exact() {
    for device in devices() {
        for dtype in [DType::F32, DType::F64] {
            if device.info().dtypes.contains(&(dtype, Support::Refused)) {
                continue;
            }
            let largest = if dtype == DType::F32 { 24_f64 } else { 53.0 }.exp2();
            let pairs = (1..1000).flat_map(|x| (1..54).map(move |y| (f64::from(x), f64::from(y))));
            let pairs: Vec<_> = pairs.filter(|(x, y)| x.powf(*y) <= largest).collect();
            let column = |value: &dyn Fn(&(f64, f64)) -> f64| {
                Data::collect(dtype, pairs.iter().map(|pair| Scalar::from_f64(dtype, value(pair))).collect::<Vec<_>>())
            };
            let out = column(&|(x, y)| (0..*y as usize).map(|_| x).product());
            let case = Case { x: column(&|pair| pair.0), y: Some(column(&|pair| pair.1)), out };
            let power = Function::Binary(BinaryOp::Pow);
            let (_, _, failures) = compare("whole", power, &case, &run(&device, power, &case), 0, false);
            assert!(failures.is_empty(), "{device:?}: {} failures:\n{}", failures.len(), failures.join("\n"));
        }
    }
}
