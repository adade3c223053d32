//! Many numbers into one over axes: `ReduceSum`, `ReduceMax`, `ReduceL2` and their like, and `GlobalAveragePool` and its like, which
//! do so over all axes behind the channels. Axes are an attribute in old versions and an input in new ones.

use dala_spec::{DType, Params, Scalar, Shape, SpecError, TensorType};

use super::call::NodeCall;
use super::operator::{Given, Kind, Operator, Outcome};
use crate::ModelError;
use crate::lower::{Lowerer, Order, ints};
use crate::op::Compute;

pub(super) const REDUCE_L1: Operator = reduction("ReduceL1", |call| infer(call, How::Norm(1)));
pub(super) const REDUCE_L2: Operator = reduction("ReduceL2", |call| infer(call, How::Norm(2)));
pub(super) const REDUCE_LOG_SUM: Operator = reduction("ReduceLogSum", |call| infer(call, How::LogSum));
pub(super) const REDUCE_LOG_SUM_EXP: Operator = reduction("ReduceLogSumExp", |call| infer(call, How::LogSumExp));
pub(super) const REDUCE_MAX: Operator = reduction("ReduceMax", |call| infer(call, How::Max));
pub(super) const REDUCE_MEAN: Operator = reduction("ReduceMean", |call| infer(call, How::Mean));
pub(super) const REDUCE_MIN: Operator = reduction("ReduceMin", |call| infer(call, How::Min));
pub(super) const REDUCE_PROD: Operator = reduction("ReduceProd", |call| infer(call, How::Prod));
pub(super) const REDUCE_SUM: Operator = reduction("ReduceSum", |call| infer(call, How::Sum));
pub(super) const REDUCE_SUM_SQUARE: Operator = reduction("ReduceSumSquare", |call| infer(call, How::SumSquare));

pub(super) const GLOBAL_AVERAGE_POOL: Operator = global("GlobalAveragePool", |call| pooled(call, How::Mean));
pub(super) const GLOBAL_LP_POOL: Operator = global("GlobalLpPool", |call| pooled(call, How::Norm(power(call)?)));
pub(super) const GLOBAL_MAX_POOL: Operator = global("GlobalMaxPool", |call| pooled(call, How::Max));

const fn reduction(name: &'static str, infer: fn(&NodeCall<'_>) -> Result<Outcome, ModelError>) -> Operator {
    Operator::new(name, Kind::Axes, infer).inputs(1, 2)
}

const fn global(name: &'static str, infer: fn(&NodeCall<'_>) -> Result<Outcome, ModelError>) -> Operator {
    Operator::new(name, Kind::Windows, infer)
}

/// How numbers become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    LogSum,
    LogSumExp,
    Max,
    Mean,
    Min,
    /// The root of the sum of powers, by the exponent.
    Norm(u32),
    Prod,
    Sum,
    SumSquare,
}

impl How {
    /// The kernel that adds up, or chooses.
    fn kernel(self) -> &'static str {
        match self {
            How::Max => "reduce_max",
            How::Mean => "reduce_mean",
            How::Min => "reduce_min",
            How::Prod => "reduce_prod",
            _ => "reduce_sum",
        }
    }

    /// What becomes of each number first.
    fn before(self) -> Option<&'static str> {
        match self {
            How::Norm(1) => Some("abs(x)"),
            How::Norm(2) | How::SumSquare => Some("x * x"),
            How::Norm(_) => Some("pow(abs(x), p)"),
            _ => None,
        }
    }

    /// What becomes of the result.
    fn after(self) -> Option<&'static str> {
        match self {
            How::LogSum => Some("log(x)"),
            How::Norm(1) => None,
            How::Norm(2) => Some("sqrt(x)"),
            How::Norm(_) => Some("pow(x, 1 / p)"),
            _ => None,
        }
    }

    /// The type to compute in: halves and fractions of integers need more digits than they have.
    fn computed_in(self, dtype: DType) -> DType {
        let plain = self.before().is_none() && self.after().is_none() && self != How::LogSumExp;
        match dtype {
            DType::F32 | DType::F64 => dtype,
            DType::F16 | DType::BF16 => {
                if plain {
                    dtype
                } else {
                    DType::F32
                }
            }
            _ if plain && self != How::Mean => dtype,
            _ if matches!(self, How::Norm(1) | How::SumSquare) => dtype,
            _ => DType::F32,
        }
    }

    /// What no numbers at all become.
    fn of_nothing(self, dtype: DType) -> Scalar {
        let extreme = |value: f64| match dtype.is_float() {
            true => Scalar::from_f64(dtype, value),
            false if value > 0.0 => Scalar::saturating(dtype, i128::MAX),
            false => Scalar::saturating(dtype, i128::MIN),
        };
        match self {
            How::LogSum | How::LogSumExp | How::Max => extreme(f64::NEG_INFINITY),
            How::Min => extreme(f64::INFINITY),
            How::Mean if dtype.is_float() => Scalar::from_f64(dtype, f64::NAN),
            How::Prod => Scalar::from_i64(dtype, 1),
            _ => Scalar::from_i64(dtype, 0),
        }
    }
}

fn infer(call: &NodeCall<'_>, how: How) -> Result<Outcome, ModelError> {
    let rank = call.dims(0)?.len();
    let input_since = if how == How::Sum { 13 } else { 18 };
    let given = call.integers_from("axes", 1, input_since)?.filter(|axes| !axes.is_empty());
    let axes = match given {
        Some(given) => {
            let mut axes = call.axes(&given, rank)?;
            axes.sort_unstable();
            axes
        }
        None if call.opset >= input_since && call.flag("noop_with_empty_axes", false)? => Vec::new(),
        None => (0..rank).collect(),
    };
    over(call, how, axes, call.flag("keepdims", true)?)
}

/// A layer over these axes, which are in order.
fn over(call: &NodeCall<'_>, how: How, axes: Vec<usize>, keep: bool) -> Result<Outcome, ModelError> {
    let (dims, dtype) = (call.dims(0)?, call.dtype(0)?);
    let small = !dtype.is_float() && dtype.size() < 4;
    if small && !matches!(how, How::Max | How::Min) {
        return Err(call.type_mismatch("floats, or integers of 32 or 64 bits", dtype));
    }
    let kept = dims.iter().enumerate().filter_map(|(axis, &dim)| match axes.contains(&axis) {
        true => keep.then_some(1),
        false => Some(dim),
    });
    let ty = call.output(dtype, kept.collect())?;
    if dims.contains(&0) && !ty.shape.is_empty() {
        return Ok(Outcome::Given(vec![Given::Filled(ty.shape, how.of_nothing(dtype))]));
    }
    if axes.is_empty() && how.before().is_none() && how.after().is_none() && how != How::LogSumExp {
        return Ok(Outcome::same(call.input(0)?));
    }
    Ok(Outcome::layer(Reduce { how, axes }, [call.input(0)?], ty))
}

/// A layer over all that is behind the channels.
fn pooled(call: &NodeCall<'_>, how: How) -> Result<Outcome, ModelError> {
    call.float()?;
    let dims = call.dims(0)?;
    if dims.len() < 3 || dims.iter().skip(2).any(|&size| size == 0) {
        return Err(call.shape_mismatch("batch, channels and at least one element behind them", dims));
    }
    over(call, how, (2..dims.len()).collect(), true)
}

/// The exponent of a norm.
pub(super) fn power(call: &NodeCall<'_>) -> Result<u32, ModelError> {
    let p = call.int("p", 2)?;
    u32::try_from(p).ok().filter(|&p| p > 0).ok_or_else(|| call.bad_attribute("p", "at least 1", p))
}

/// The output's shape says whether the axes are kept with size one.
#[derive(Debug, PartialEq)]
struct Reduce {
    how: How,
    /// The axes, in order.
    axes: Vec<usize>,
}

impl Compute for Reduce {
    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let rank = to.dims(0).len();
        let kept = rank == to.output().shape.rank();
        // Where the axes go, what is left is in the file's order only without those behind the channels.
        let behind = rank > 2 && self.axes.iter().copied().eq(2..rank);
        let order = if kept || behind { to.order(0) } else { Order::First };
        let mut axes: Vec<usize> = self.axes.iter().map(|&axis| order.axis(axis, rank)).collect();
        axes.sort_unstable();
        let x = to.read(0, order)?;
        let order = if kept { order } else { Order::First };
        let made = reduced(to, x, self.how, &axes, to.output_in(order))?;
        to.give(0, order, made);
        Ok(())
    }
}

/// The cell of what a cell becomes over axes, which are in order: elements of `ty`, whose shape says whether the axes stay.
pub(super) fn reduced(
    to: &mut Lowerer<'_>,
    mut x: usize,
    how: How,
    axes: &[usize],
    ty: TensorType,
) -> Result<usize, SpecError> {
    let (dtype, none) = (how.computed_in(ty.dtype), Params::new());
    let typed = |shape: &Shape| TensorType { dtype, shape: shape.clone() };
    let (from, params) = (
        to.calls.ty(x).shape.clone(),
        match how {
            How::Norm(p) if p > 2 => Params::new().with("p", f64::from(p)),
            _ => Params::new(),
        },
    );
    if let Some(text) = how.before() {
        x = to.map(text, &[("x", x)], typed(&from), &params)?;
    } else if to.calls.ty(x).dtype != dtype && how != How::Mean {
        x = to.call("cast", &[x], typed(&from), &none)?;
    }
    let add = |to: &mut Lowerer<'_>, x: usize, kernel: &str, shape: &Shape| -> Result<usize, SpecError> {
        if axes.is_empty() {
            return Ok(to.calls.view(x, typed(shape)));
        }
        let over = Params::new().with("axes", ints(axes)).with("keep_dims", from.rank() == shape.rank());
        to.call(kernel, &[x], typed(shape), &over)
    };
    let mut made = match how {
        How::LogSumExp => {
            // The largest becomes zero first, so that no power is too large.
            let one = |(axis, &size): (usize, &usize)| if axes.contains(&axis) { 1 } else { size };
            let wide = Shape::from(from.dims().iter().enumerate().map(one).collect::<Vec<usize>>());
            let largest = add(to, x, "reduce_max", &wide)?;
            let moved = to.map("select(is_inf(x), 0, x)", &[("x", largest)], typed(&wide), &none)?;
            let powers = to.map("exp(x - m)", &[("x", x), ("m", moved)], typed(&from), &none)?;
            let sum = add(to, powers, "reduce_sum", &ty.shape)?;
            let moved = to.calls.view(moved, typed(&ty.shape));
            to.map("log(s) + m", &[("s", sum), ("m", moved)], typed(&ty.shape), &none)?
        }
        how => add(to, x, how.kernel(), &ty.shape)?,
    };
    if let Some(text) = how.after() {
        made = to.map(text, &[("x", made)], typed(&ty.shape), &params)?;
    }
    if dtype != ty.dtype {
        made = to.call("cast", &[made], ty, &none)?;
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use dala_spec::Data;

    use crate::builder::{constants, floats, int, integers, ints, list, single};

    #[test]
    fn axes_are_kept_unless_told_otherwise() {
        let x = &[-1, 3, 4, 5];
        let dims = |net: crate::builder::Net| net.dims().unwrap();
        assert_eq!(dims(single(13, "ReduceMean", x, vec![], vec![ints("axes", &[-1, 2])])), [2, 3, 1, 1]);
        assert_eq!(dims(single(18, "ReduceMax", x, vec![list(&[2, 3])], vec![int("keepdims", 0)])), [2, 3]);
        assert_eq!(dims(single(13, "ReduceSum", x, vec![list(&[1])], vec![int("keepdims", 0)])), [2, 4, 5]);
        assert_eq!(dims(single(18, "ReduceL2", x, vec![], vec![int("keepdims", 0)])), Vec::<usize>::new());
        assert_eq!(dims(single(18, "ReduceMean", x, vec![], vec![int("noop_with_empty_axes", 1)])), [2, 3, 4, 5]);
        assert_eq!(dims(single(13, "GlobalMaxPool", x, vec![], vec![])), [2, 3, 1, 1]);
        assert_eq!(dims(single(13, "GlobalAveragePool", &[-1, 3, 4], vec![], vec![])), [2, 3, 1]);
        assert_eq!(single(18, "ReduceMean", x, vec![list(&[1, 1])], vec![]).code(), "bad_value");
        assert_eq!(single(13, "GlobalMaxPool", &[-1, 3], vec![], vec![]).code(), "shape_mismatch");
    }

    #[test]
    fn constants_are_computed() {
        for (op, expected) in [
            ("ReduceL1", [5.0, 7.0]),
            ("ReduceL2", [17f32.sqrt(), 5.0]),
            ("ReduceLogSum", [3f32.ln(), 7f32.ln()]),
            ("ReduceLogSumExp", [(4f32.exp() + (-1f32).exp()).ln(), (4f32.exp() + 3f32.exp()).ln()]),
            ("ReduceMax", [4.0, 4.0]),
            ("ReduceMean", [1.5, 3.5]),
            ("ReduceMin", [-1.0, 3.0]),
            ("ReduceProd", [-4.0, 12.0]),
            ("ReduceSum", [3.0, 7.0]),
            ("ReduceSumSquare", [17.0, 25.0]),
        ] {
            let matrix = floats(&[2, 2], vec![-1.0, 4.0, 4.0, 3.0]);
            let axes = ints("axes", &[1]);
            let (dims, data) = constants(11, op, vec![matrix], vec![axes, int("keepdims", 0)]);
            let Data::F32(found) = data else { panic!("{op}") };
            assert_eq!(dims, [2]);
            assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-5), "{op} gives {found:?}");
        }
    }

    #[test]
    fn integers_stay_integers() {
        let of = |op: &str| constants(18, op, vec![integers(&[3], &[-2, 5, -6])], vec![int("keepdims", 0)]).1;
        assert_eq!(of("ReduceSum"), Data::S64(vec![-3]));
        assert_eq!(of("ReduceMax"), Data::S64(vec![5]));
        assert_eq!(of("ReduceProd"), Data::S64(vec![60]));
        assert_eq!(of("ReduceL1"), Data::S64(vec![13]));
        assert_eq!(of("ReduceL2"), Data::S64(vec![8]));
        assert_eq!(of("ReduceMean"), Data::S64(vec![-1]));
    }

    #[test]
    fn nothing_becomes_what_changes_nothing() {
        let of = |op: &str| constants(18, op, vec![floats(&[2, 0], vec![]), list(&[1])], vec![]);
        assert_eq!(of("ReduceSum"), (vec![2, 1], Data::F32(vec![0.0; 2])));
        assert_eq!(of("ReduceProd").1, Data::F32(vec![1.0; 2]));
        assert_eq!(of("ReduceMax").1, Data::F32(vec![f32::NEG_INFINITY; 2]));
        assert_eq!(of("ReduceMin").1, Data::F32(vec![f32::INFINITY; 2]));
        assert_eq!(of("ReduceLogSumExp").1, Data::F32(vec![f32::NEG_INFINITY; 2]));
    }
}
