//! Types, errors, simplification and meaning of expressions.

use super::*;
use crate::{Data, KernelSpec, NUMBERS, Params, Scope, TensorType, expr::interpret, param, validate};

/// A call of an expression on inputs `x`, `y` of the given types, with a float `gain`, a number `n`, an int `k` and a
/// bool `on`.
fn signature(inputs: &[DType], output: DType, shape: &[usize], n: f64) -> Signature {
    let mut spec = KernelSpec::pointwise("test")
        .output(crate::OutputShape::Any, crate::OutputDType::OneOf(NUMBERS))
        .param(param("gain", ParamKind::Float))
        .param(param("n", ParamKind::Number))
        .param(param("k", ParamKind::Int))
        .param(param("on", ParamKind::Bool))
        .param(param("size", ParamKind::Ints(2)).default(vec![1i64, 2]));
    for (_, name) in inputs.iter().zip(["x", "y"]) {
        spec = spec.input(name, NUMBERS);
    }
    let types: Vec<TensorType> = inputs.iter().map(|dtype| TensorType::new(*dtype, shape)).collect();
    let params = Params::new().with("gain", 1.5).with("n", n).with("k", 3).with("on", true);
    validate(&spec, &types, &TensorType::new(output, shape), &params).unwrap()
}

fn build(text: &str, inputs: &[DType], output: DType) -> Result<Program, ExprError> {
    build_n(text, inputs, output, 2.0)
}

fn build_n(text: &str, inputs: &[DType], output: DType, n: f64) -> Result<Program, ExprError> {
    let scope = Scope::new(["x", "y"], ["gain", "n", "k", "on", "size"]);
    let expr = Expr::parse(text, &scope).unwrap();
    Program::build(&expr, &["x", "y"], &signature(inputs, output, &[2, 3, 4], n))
}

fn compute(text: &str, x: Data, output: DType) -> Data {
    let scope = Scope::new(["x"], ["gain", "n", "k", "on"]);
    let expr = Expr::parse(text, &scope).unwrap();
    let signature = signature(&[x.dtype()], output, &[x.len()], 2.0);
    let program = Program::build(&expr, &["x"], &signature).unwrap();
    let params = program.param_values("test", &signature).unwrap();
    interpret(&program, &[x], &params, &signature.output.shape).remove(0)
}

#[test]
fn literals_and_params_take_the_type_they_meet() {
    use DType::{F32, F64, S32, U8};
    let types = |text: &str, input: DType| build(text, &[input], input).unwrap().types().to_vec();
    assert!(types("x + 1", S32).iter().all(|ty| *ty == Ty::S32));
    assert!(types("x + 1", F64).iter().all(|ty| *ty == Ty::F64));
    assert!(types("x * n + k", U8).iter().all(|ty| *ty == Ty::S32));
    assert!(types("x * gain", S32).contains(&Ty::F32));
    assert!(types("(1 - gain) * x", F64).iter().all(|ty| *ty == Ty::F64));
    assert!(types("sqrt(x)", S32).contains(&Ty::F32));
    assert!(!types("x * 2", F32).contains(&Ty::S32));
}

#[test]
fn a_number_is_whole_or_not() {
    let whole = build_n("x * n", &[DType::S32], DType::S32, 2.0).unwrap();
    let fraction = build_n("x * n", &[DType::S32], DType::S32, 2.5).unwrap();
    assert!(whole.types().iter().all(|ty| *ty == Ty::S32));
    assert!(fraction.types().contains(&Ty::F32));
    assert!(!whole.same_code(&fraction));
    assert!(whole.same_code(&build_n("x * n", &[DType::S32], DType::S32, -7.0).unwrap()));
}

#[test]
fn errors_point_at_the_place() {
    use DType::{F32, S32, S64, U32};
    for (text, inputs, message, span) in [
        ("x + y", &[S32, U32][..], "s32 and u32 do not mix: cast one of them", (0, 5)),
        ("1 + (x * y)", &[S64, F32][..], "s64 and f32 do not mix: cast one of them", (5, 10)),
        ("x && on", &[F32][..], "a number where a condition is needed: compare it, as in `x != 0`", (0, 1)),
        ("x + (x > 0)", &[F32][..], "a condition where a number is needed: use `select` or a cast", (5, 10)),
        ("select(x > 0, x, on)", &[F32][..], "a condition where f32 is needed: use `select` or a cast", (17, 19)),
        ("x + coord(3)", &[S32][..], "there is no axis 3: the output has rank 3", (4, 12)),
        ("channel(x, 4)", &[F32][..], "there is no channel 4: the input has 4", (0, 13)),
        ("(x + 1).r", &[F32][..], "only inputs have channels and positions: write `x.r`", (1, 6)),
        ("x * -1", &[U32][..], "-1 does not fit u32", (4, 6)),
        ("x & 2", &[F32][..], "`&` is for integers: cast both sides", (0, 5)),
        ("~x", &[F32][..], "`~` is for integers: cast it, as in `s32(x)`", (1, 2)),
        ("x >> y", &[S32, U32][..], "s32 and u32 do not mix: cast one of them", (0, 6)),
        ("x * size", &[F32][..], "`size` is a tuple of 2 ints, and expressions compute with numbers", (4, 8)),
    ] {
        let error = build(text, inputs, F32).unwrap_err();
        assert_eq!((error.message.as_str(), error.span), (message, Some(span)), "in {text}");
    }
}

#[test]
fn programs_are_simplified() {
    let len = |text: &str, input: DType| build(text, &[input], input).unwrap().ops().len();
    assert_eq!(len("x * 1 + 0 * 2", DType::S32), 2, "identities and constants");
    assert_eq!(len("(x + 1) * (x + 1)", DType::F32), 5, "equal parts become one");
    assert_eq!(len("(x + 1) * (1 + x)", DType::F32), 5, "also the other way round");
    assert_eq!(len("select(2 > 1, x, sqrt(x))", DType::F32), 2, "what is not needed goes");
    assert_eq!(len("u8(u8(x))", DType::U8), 2, "pixels are pixels");
    assert_eq!(len("x + 0.0", DType::F32), 4, "adding zero changes -0.0");
}

#[test]
fn dangerous_constants_become_run_time_values() {
    let program = build("x / 0.0", &[DType::F32], DType::F32).unwrap();
    assert!(matches!(program.params(), [slot] if slot.source == ParamSource::Fixed(Scalar::F32(0.0))));
    let program = build("x + 1e99", &[DType::F32], DType::F32).unwrap();
    assert!(matches!(program.params(), [slot] if slot.source == ParamSource::Fixed(Scalar::F32(f32::INFINITY))));
}

#[test]
fn programs_print() {
    let program = build("clamp(x * gain, 0, 1)", &[DType::U8], DType::U8).unwrap();
    let expected = "\
        %0 = input 0 u8\n\
        %1 = f32(%0)\n\
        %2 = param gain f32\n\
        %3 = mul %1 %2\n\
        %4 = f32 0.0\n\
        %5 = max %3 %4\n\
        %6 = f32 1.0\n\
        %7 = min %5 %6\n\
        store 0 u8 %7\n";
    assert_eq!(program.to_string(), expected);
}

#[test]
fn expressions_compute_what_they_say() {
    let floats = |values: &[f32]| Data::F32(values.to_vec());
    assert_eq!(compute("x * (1 / 2)", floats(&[3.0]), DType::F32), floats(&[1.5]), "literals divide exactly");
    assert_eq!(compute("x / 2", Data::S32(vec![-3, 3]), DType::S32), Data::S32(vec![-1, 1]));
    assert_eq!(compute("x / 2.0", Data::S32(vec![-3, 5]), DType::S32), Data::S32(vec![-2, 2]));
    assert_eq!(compute("x % 3", Data::S32(vec![-4, 4]), DType::S32), Data::S32(vec![-1, 1]));
    assert_eq!(compute("x > 1", floats(&[0.0, 2.0]), DType::U8), Data::U8(vec![0, 1]));
    assert_eq!(compute("relu(x) * 2", floats(&[-1.0, 2.0]), DType::F32), floats(&[0.0, 4.0]));
    assert_eq!(compute("index * k", floats(&[0.0; 3]), DType::S64), Data::S64(vec![0, 3, 6]));
    assert_eq!(compute("select(on, x, 0)", floats(&[5.0]), DType::F32), floats(&[5.0]));
    assert_eq!(compute("(x > 1) == (x > 2)", floats(&[0.0, 1.5, 3.0]), DType::S32), Data::S32(vec![1, 0, 1]));
    assert_eq!(compute("-x", Data::U8(vec![3]), DType::S32), Data::S32(vec![-3]), "pixels widen");
    assert_eq!(compute("pow(x, 2)", Data::S32(vec![-3]), DType::S32), Data::S32(vec![9]));
}
