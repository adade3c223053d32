//! `QuantizeLinear` and `DequantizeLinear`: between floats and the whole numbers that stand for them, with one scale and zero for all,
//! for each along an axis, or for each block along one.

use dala_spec::{DType, SpecError, TensorType};

use super::call::NodeCall;
use super::operator::{Kind, Operator, Outcome};
use super::quantized::{along, cast, is_zero, pair, quantize};
use crate::ModelError;
use crate::attribute::Attribute;
use crate::lower::{Lowerer, Order};
use crate::op::Compute;
use crate::proto::element_type;

/// Rounded half to even, and saturated.
pub(super) const QUANTIZE_LINEAR: Operator = Operator::new("QuantizeLinear", Kind::Elements, |call| {
    if !call.dtype(1)?.is_float() {
        return Err(call.type_mismatch("a scale of floats", call.dtype(1)?));
    }
    let named = output_dtype(call)?;
    let dtype = match (call.has(2), named) {
        (true, _) => call.dtype(2)?,
        (false, named) => named.unwrap_or(DType::U8),
    };
    if named.is_some_and(|named| named != dtype) {
        return Err(call.bad_attribute("output_dtype", format!("{dtype}, as the zero is"), "another type"));
    }
    narrow(call, dtype)?;
    layer(call, Linear { along: Along::of(call)?, back: false }, dtype)
})
.inputs(2, 3);

/// `(x - zero) * scale`.
pub(super) const DEQUANTIZE_LINEAR: Operator = Operator::new("DequantizeLinear", Kind::Elements, |call| {
    let (from, scale) = (call.dtype(0)?, call.dtype(1)?);
    if from != DType::S32 {
        narrow(call, from)?;
    }
    if call.has(2) {
        call.same_dtype(2)?;
    }
    let to = output_dtype(call)?.unwrap_or(scale);
    if !scale.is_float() || !to.is_float() {
        return Err(call.type_mismatch("a scale of floats", scale));
    }
    layer(call, Linear { along: Along::of(call)?, back: true }, to)
})
.inputs(2, 3);

/// The type that an attribute names.
fn output_dtype(call: &NodeCall<'_>) -> Result<Option<DType>, ModelError> {
    let number = match call.attribute("output_dtype") {
        None | Some(Attribute::Int(0)) => return Ok(None),
        Some(Attribute::Int(number)) => i32::try_from(*number).unwrap_or(0),
        Some(other) => return Err(call.bad_attribute("output_dtype", "an integer", other.kind())),
    };
    let what = || format!("the result of node `{}`", call.name());
    let found = |found: &str| ModelError::ElementType { what: what(), found: found.to_owned() };
    element_type::dtype(number).map(Some).map_err(found)
}

/// An error unless elements of the type are what floats are quantized to.
fn narrow(call: &NodeCall<'_>, dtype: DType) -> Result<(), ModelError> {
    match dtype {
        DType::U8 | DType::S8 | DType::U16 | DType::S16 => Ok(()),
        other => Err(call.type_mismatch("elements of type u8, s8, u16 or s16", other)),
    }
}

fn layer(call: &NodeCall<'_>, linear: Linear, dtype: DType) -> Result<Outcome, ModelError> {
    let ty = call.output(dtype, call.dims(0)?.to_vec())?;
    let inputs = [Some(call.input(0)?), Some(call.input(1)?), call.number(2)];
    Ok(Outcome::layer(linear, inputs.into_iter().flatten(), ty))
}

/// What has a scale and a zero of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Along {
    All,
    /// Each along an axis.
    Axis(usize),
    /// Each block of so many along an axis.
    Blocks(usize, usize),
}

impl Along {
    fn of(call: &NodeCall<'_>) -> Result<Along, ModelError> {
        let (x, scale) = (call.dims(0)?, call.dims(1)?);
        let is_one = |dims: &[usize]| matches!(dims, [] | [1]);
        if call.has(2) && call.dims(2)? != scale && !(is_one(scale) && is_one(call.dims(2)?)) {
            return Err(call.shape_mismatch("zeros in the shape of the scales", call.dims(2)?));
        }
        let block = call.int("block_size", 0)?;
        let size = usize::try_from(block).map_err(|_| call.bad_attribute("block_size", "at least 0", block))?;
        if size == 0 && is_one(scale) {
            return Ok(Along::All);
        }
        let axis = call.axis(call.int("axis", 1)?, x.len(), "axis")?;
        let along = x.get(axis).copied().unwrap_or_default();
        if size == 0 {
            return match scale {
                [own] if *own == along => Ok(Along::Axis(axis)),
                _ => Err(call.shape_mismatch(format!("one scale, or {along} of them"), scale)),
            };
        }
        let count = scale.get(axis).copied().unwrap_or_default();
        let others = |dims: &[usize]| -> Vec<usize> {
            dims.iter().enumerate().filter(|(place, _)| *place != axis).map(|(_, size)| *size).collect()
        };
        if scale.len() != x.len() || others(scale) != others(x) || along.div_ceil(size) != count {
            return Err(call.shape_mismatch(format!("a scale for each {size} along axis {axis}"), scale));
        }
        if !along.is_multiple_of(size) {
            return Err(call.unsupported("not supported: a last block that is not full"));
        }
        Ok(Along::Blocks(axis, size))
    }
}

/// Over values, scales and zeros, if they are given.
#[derive(Debug)]
struct Linear {
    along: Along,
    /// From whole numbers to floats.
    back: bool,
}

impl Linear {
    /// An input of scales or zeros, to be repeated.
    fn spread(&self, to: &mut Lowerer<'_>, place: usize, order: Order, dtype: DType) -> Result<usize, SpecError> {
        let rank = to.dims(0).len();
        match self.along {
            Along::All => along(to, place, None, rank, dtype),
            Along::Axis(axis) => along(to, place, Some(order.axis(axis, rank)), rank, dtype),
            Along::Blocks(axis, _) => {
                let cell = to.first(place)?;
                let mut dims = to.dims(place).to_vec();
                dims.insert(axis + 1, 1);
                let seen = TensorType::new(to.calls.ty(cell).dtype, dims);
                let seen = to.calls.view(cell, seen);
                cast(to, seen, dtype)
            }
        }
    }
}

impl Compute for Linear {
    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let order = if matches!(self.along, Along::Blocks(..)) { Order::First } else { to.order(0) };
        let mut x = to.read(0, order)?;
        let whole = to.calls.ty(x).clone();
        if let Along::Blocks(axis, size) = self.along {
            let mut dims = whole.shape.dims().to_vec();
            dims.insert(axis + 1, size);
            if let Some(count) = dims.get_mut(axis) {
                *count /= size;
            }
            x = to.calls.view(x, TensorType::new(whole.dtype, dims));
        }
        let scale = self.spread(to, 1, order, DType::F32)?;
        let zeros = to.inputs() > 2 && !is_zero(to, 2);
        let made = to.output().dtype;
        let made = if self.back {
            let mut wide = cast(to, x, DType::S32)?;
            if zeros {
                let zero = self.spread(to, 2, order, DType::S32)?;
                wide = pair(to, "elementwise_sub", wide, zero)?;
            }
            let wide = cast(to, wide, DType::F32)?;
            let scaled = pair(to, "elementwise_mul", wide, scale)?;
            cast(to, scaled, made)?
        } else {
            let zero = if zeros { Some(self.spread(to, 2, order, DType::F32)?) } else { None };
            let x = cast(to, x, DType::F32)?;
            quantize(to, ("elementwise_div", x, scale), zero, made)?
        };
        let ty = TensorType { dtype: to.output().dtype, shape: whole.shape };
        let made = to.calls.view(made, ty);
        to.give(0, order, made);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use dala_spec::Data;

    use crate::builder::{Net, constants, floats, int, small_integers};
    use crate::proto::element_type;

    #[test]
    fn numbers_are_rounded_to_even_and_saturated() {
        let x = || floats(&[6], vec![0.0, 1.0, 3.0, -1.0, 1000.0, -1000.0]);
        let bytes = constants(13, "QuantizeLinear", vec![x(), floats(&[], vec![2.0])], vec![]);
        assert_eq!(bytes.1, Data::U8(vec![0, 0, 2, 0, 255, 0]));
        let zero = small_integers(&[], element_type::INT8, &[10]);
        let signed = constants(13, "QuantizeLinear", vec![x(), floats(&[], vec![2.0]), zero], vec![]);
        assert_eq!(signed.1, Data::S8(vec![10, 10, 12, 10, 127, -128]));
        let list = small_integers(&[1], element_type::INT8, &[10]);
        let same = constants(13, "QuantizeLinear", vec![x(), floats(&[], vec![2.0]), list], vec![]);
        assert_eq!(same, signed);
        let short = constants(21, "QuantizeLinear", vec![x(), floats(&[], vec![2.0])], vec![int("output_dtype", 5)]);
        assert_eq!(short.1, Data::S16(vec![0, 0, 2, 0, 500, -500]));
    }

    #[test]
    fn scales_may_go_along_an_axis_or_be_of_blocks() {
        let x = || small_integers(&[2, 4], element_type::INT8, &[1, 2, 3, 4, 5, 6, 7, 8]);
        let back = |scale, axis| constants(21, "DequantizeLinear", vec![x(), scale], axis).1;
        let rows = back(floats(&[2], vec![1.0, 10.0]), vec![int("axis", 0)]);
        assert_eq!(rows, Data::F32(vec![1.0, 2.0, 3.0, 4.0, 50.0, 60.0, 70.0, 80.0]));
        let columns = back(floats(&[4], vec![1.0, 2.0, 3.0, 4.0]), vec![]);
        assert_eq!(columns, Data::F32(vec![1.0, 4.0, 9.0, 16.0, 5.0, 12.0, 21.0, 32.0]));
        let blocks = back(floats(&[2, 2], vec![1.0, 2.0, 3.0, 4.0]), vec![int("block_size", 2)]);
        assert_eq!(blocks, Data::F32(vec![1.0, 2.0, 6.0, 8.0, 15.0, 18.0, 28.0, 32.0]));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let net = |scale: &[i64], attributes| {
            let net = Net::new(21).x(&[2, 5]).floats("s", scale, vec![1.0; scale.iter().product::<i64>() as usize]);
            net.node("QuantizeLinear", &["x", "s"], "y", attributes).output("y").code()
        };
        assert_eq!(net(&[5], vec![]), "read");
        assert_eq!(net(&[2], vec![]), "shape_mismatch");
        assert_eq!(net(&[2, 3], vec![int("block_size", 2)]), "unsupported_operator");
        assert_eq!(net(&[2, 2], vec![int("block_size", 2)]), "shape_mismatch");
        assert_eq!(net(&[2], vec![int("axis", 2)]), "bad_value");
        assert_eq!(net(&[], vec![int("output_dtype", 17)]), "unsupported_element_type");
        assert_eq!(net(&[], vec![int("output_dtype", 6)]), "dtype_mismatch");
    }
}
