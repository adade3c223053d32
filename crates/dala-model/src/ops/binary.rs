//! Arithmetic on two values, each repeated along axes where it has size one (`Add`, `Pow`, `Mod` …), comparisons and logic, which
//! give truth values, and `Where`.

use dala_spec::{DType, Shape};

use super::call::{NodeCall, broadcast};
use super::operator::{Kind, Operator, Outcome};
use super::unary::Each;
use crate::ModelError;

pub(super) const ADD: Operator = arithmetic("Add", |call| infer(call, "elementwise_add"));
pub(super) const MUL: Operator = arithmetic("Mul", |call| infer(call, "elementwise_mul"));
pub(super) const SUB: Operator = arithmetic("Sub", |call| infer(call, "elementwise_sub"));

/// Both of one type.
pub(super) const POW: Operator = arithmetic("Pow", |call| {
    call.float()?;
    infer(call, "pow")
});

/// The remainder with the sign of the second value, or with that of the first where `fmod` says so, as it must for floats.
pub(super) const MOD: Operator = arithmetic("Mod", |call| match call.flag("fmod", false)? {
    true => infer(call, "remainder"),
    false if call.dtype(0)?.is_float() => Err(call.bad_attribute("fmod", "1 for floats", 0)),
    false => infer(call, "modulo"),
});

pub(super) const BITWISE_AND: Operator = arithmetic("BitwiseAnd", |call| bits(call, "bitwise_and"));
pub(super) const BITWISE_OR: Operator = arithmetic("BitwiseOr", |call| bits(call, "bitwise_or"));
pub(super) const BITWISE_XOR: Operator = arithmetic("BitwiseXor", |call| bits(call, "bitwise_xor"));
pub(super) const BIT_SHIFT: Operator = arithmetic("BitShift", |call| match call.text("direction", "")? {
    "LEFT" => bits(call, "shift_left"),
    "RIGHT" => bits(call, "shift_right"),
    other => Err(call.bad_attribute("direction", "LEFT or RIGHT", other)),
});

/// The first value where it is not negative, times the second where it is; the second is repeated to fit the first.
pub(super) const P_RELU: Operator = arithmetic("PRelu", |call| {
    let (x, slope) = (call.dims(0)?, call.dims(1)?);
    if broadcast(x, slope).as_deref() != Some(x) {
        return Err(call.shape_mismatch(format!("slopes that can be repeated to fit {}", Shape::from(x)), slope));
    }
    of_type(call, Each::text("select(a < 0, a * b, a)"), call.dtype(0)?)
});

pub(super) const AND: Operator = arithmetic("And", |call| question(call, "logical_and"));
pub(super) const EQUAL: Operator = arithmetic("Equal", |call| question(call, "equal"));
pub(super) const GREATER: Operator = arithmetic("Greater", |call| question(call, "greater"));
pub(super) const GREATER_OR_EQUAL: Operator = arithmetic("GreaterOrEqual", |call| question(call, "greater_equal"));
pub(super) const LESS: Operator = arithmetic("Less", |call| question(call, "less"));
pub(super) const LESS_OR_EQUAL: Operator = arithmetic("LessOrEqual", |call| question(call, "less_equal"));
pub(super) const OR: Operator = arithmetic("Or", |call| question(call, "logical_or"));
pub(super) const XOR: Operator = arithmetic("Xor", |call| question(call, "logical_xor"));

/// The second value where the first holds, the third elsewhere.
pub(super) const WHERE: Operator = Operator::new("Where", Kind::Elements, |call| {
    let (condition, dtype) = (call.dtype(0)?, call.dtype(1)?);
    if condition != DType::U8 {
        return Err(call.type_mismatch("truth values", condition));
    }
    if call.dtype(2)? != dtype {
        return Err(call.type_mismatch(format!("elements of type {dtype}"), call.dtype(2)?));
    }
    let dims = (1..3).try_fold(call.dims(0)?.to_vec(), |dims, place| repeated(call, &dims, place))?;
    let inputs = [call.input(0)?, call.input(1)?, call.input(2)?];
    Ok(Outcome::layer(Each::new("where"), inputs, call.output(dtype, dims)?))
})
.inputs(3, 3);

/// Of integers, towards zero.
pub(super) const DIV: Operator = arithmetic("Div", |call| {
    let outcome = infer(call, "elementwise_div")?;
    let (a, b) = (call.value(0)?, call.value(1)?);
    if let (false, Some(_), Some(data)) = (b.ty.dtype.is_float(), &a.constant, &b.constant)
        && call.budget.take(data.len())
        && data.iter().any(|value| value.as_i64() == 0)
    {
        return Err(call.bad_value("the second input", "other than 0", 0));
    }
    Ok(outcome)
});

const fn arithmetic(name: &'static str, infer: fn(&NodeCall<'_>) -> Result<Outcome, ModelError>) -> Operator {
    Operator::new(name, Kind::Elements, infer).inputs(2, 2)
}

fn bits(call: &NodeCall<'_>, kernel: &'static str) -> Result<Outcome, ModelError> {
    call.integer()?;
    infer(call, kernel)
}

/// What an input and others before it are repeated to.
pub(super) fn repeated(call: &NodeCall<'_>, dims: &[usize], place: usize) -> Result<Vec<usize>, ModelError> {
    let own = call.dims(place)?;
    let expected = || format!("a second input that can be repeated to fit {}", Shape::from(dims));
    broadcast(dims, own).ok_or_else(|| call.shape_mismatch(expected(), &own))
}

fn infer(call: &NodeCall<'_>, kernel: &'static str) -> Result<Outcome, ModelError> {
    of_type(call, Each::new(kernel), call.dtype(0)?)
}

/// A comparison, or logic: truth values are bytes.
fn question(call: &NodeCall<'_>, kernel: &'static str) -> Result<Outcome, ModelError> {
    of_type(call, Each::new(kernel), DType::U8)
}

fn of_type(call: &NodeCall<'_>, each: Each, dtype: DType) -> Result<Outcome, ModelError> {
    call.same_dtype(1)?;
    let ty = call.output(dtype, repeated(call, call.dims(0)?, 1)?)?;
    Ok(Outcome::layer(each, [call.input(0)?, call.input(1)?], ty))
}

#[cfg(test)]
mod tests {
    use dala_spec::Data;

    use crate::builder::{Net, constants, floats, int, list, single, text};

    #[test]
    fn shapes_are_repeated_to_fit() {
        let dims = |x: &[i64], c: &[i64]| {
            let c = floats(c, vec![1.0; c.iter().product::<i64>() as usize]);
            let network = single(13, "Mul", x, vec![c], vec![]).resolve(1);
            network.map(|network| network.values[network.outputs[0]].ty.shape.dims().to_vec())
        };
        assert_eq!(dims(&[1, 3, 1, 5], &[4, 1]).unwrap(), [1, 3, 4, 5]);
        assert_eq!(dims(&[1], &[]).unwrap(), [1]);
        assert_eq!(dims(&[1, 3], &[2]).unwrap_err().code(), "shape_mismatch");
    }

    #[test]
    fn constants_are_computed() {
        let matrix = floats(&[2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let sum = constants(13, "Add", vec![matrix, floats(&[2, 1], vec![10.0, 20.0])], vec![]);
        assert_eq!(sum, (vec![2, 3], Data::F32(vec![11.0, 12.0, 13.0, 24.0, 25.0, 26.0])));
        let quotient = constants(13, "Div", vec![list(&[7, -7, i64::MIN]), list(&[2, 2, -1])], vec![]);
        assert_eq!(quotient, (vec![3], Data::S64(vec![3, -3, i64::MIN])));
        let zero = Net::new(13).x(&[-1]).ints("a", &[1]).ints("b", &[0]).node("Div", &["a", "b"], "y", vec![]);
        assert_eq!(zero.output("y").code(), "bad_value");
    }

    #[test]
    fn comparisons_give_truth_values() {
        let pair = || vec![floats(&[3], vec![1.0, 2.0, 3.0]), floats(&[3], vec![2.0, 2.0, f32::NAN])];
        for (op, expected) in [
            ("Equal", [0, 1, 0]),
            ("Greater", [0, 0, 0]),
            ("GreaterOrEqual", [0, 1, 0]),
            ("Less", [1, 0, 0]),
            ("LessOrEqual", [1, 1, 0]),
        ] {
            assert_eq!(constants(16, op, pair(), vec![]).1, Data::U8(expected.to_vec()), "{op}");
        }
    }

    #[test]
    fn bits_are_those_of_integers() {
        let of = |op: &str, attributes| constants(18, op, vec![list(&[12, 5]), list(&[10, 1])], attributes).1;
        assert_eq!(of("BitwiseAnd", vec![]), Data::S64(vec![8, 1]));
        assert_eq!(of("BitwiseOr", vec![]), Data::S64(vec![14, 5]));
        assert_eq!(of("BitwiseXor", vec![]), Data::S64(vec![6, 4]));
        assert_eq!(of("BitShift", vec![text("direction", "LEFT")]), Data::S64(vec![12 << 10, 10]));
        assert_eq!(of("BitShift", vec![text("direction", "RIGHT")]), Data::S64(vec![0, 2]));
        assert_eq!(single(18, "BitwiseAnd", &[2], vec![floats(&[1], vec![1.0])], vec![]).code(), "dtype_mismatch");
    }

    #[test]
    fn slopes_fit_the_value() {
        let x = floats(&[2, 2], vec![-1.0, 2.0, -3.0, 4.0]);
        let slopes = floats(&[2, 1], vec![0.5, 2.0]);
        assert_eq!(constants(16, "PRelu", vec![x, slopes], vec![]).1, Data::F32(vec![-0.5, 2.0, -6.0, 4.0]));
        let more = floats(&[2, 1, 1], vec![0.5, 2.0]);
        assert_eq!(single(16, "PRelu", &[1, 2], vec![more], vec![]).code(), "shape_mismatch");
    }

    #[test]
    fn remainders_have_the_sign_that_is_asked_for() {
        let pair = || vec![list(&[7, -7, 7]), list(&[3, 3, -3])];
        assert_eq!(constants(13, "Mod", pair(), vec![]).1, Data::S64(vec![1, 2, -2]));
        assert_eq!(constants(13, "Mod", pair(), vec![int("fmod", 1)]).1, Data::S64(vec![1, -1, 1]));
        let power = constants(13, "Pow", vec![floats(&[2], vec![2.0, 9.0]), floats(&[1], vec![0.5])], vec![]);
        assert_eq!(power.1, Data::F32(vec![std::f32::consts::SQRT_2, 3.0]));
        assert_eq!(single(13, "Mod", &[2], vec![floats(&[1], vec![1.0])], vec![]).code(), "bad_attribute");
    }
}
