//! `DFT`: the discrete Fourier transform along an axis, and `STFT`: that of windows along a signal. Both are products with tables of
//! cosines and sines. Complex numbers are a last axis of two: real and imaginary part.

use dala_spec::{DType, Data, Params, Scalar, Shape, SpecError, TensorType};

use super::call::NodeCall;
use super::operator::{Given, Kind, Operator, Outcome};
use crate::ModelError;
use crate::limits::MAX_ELEMENTS;
use crate::lower::Lowerer;
use crate::op::Compute;

/// The axis is an attribute up to version 19 and an input after.
pub(super) const DFT: Operator = Operator::new("DFT", Kind::Axes, transform).inputs(1, 3);

pub(super) const STFT: Operator = Operator::new("STFT", Kind::Windows, windows).inputs(2, 4);

/// How numbers become frequencies.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Table {
    /// How many numbers are transformed; those missing are zeros.
    length: usize,
    /// How many frequencies there are, and of how many parts: two, or one where only the real part is wanted.
    to: (usize, usize),
    inverse: bool,
    /// Whether the numbers are the first half of frequencies of which the other half mirrors them.
    half: bool,
}

impl Table {
    /// What each of `from` numbers of `parts` adds to each part of each frequency.
    fn weights(
        self,
        call: &NodeCall<'_>,
        from: usize,
        parts: usize,
        dtype: DType,
    ) -> Result<(Shape, Data), ModelError> {
        let (frequencies, made) = self.to;
        let ty = call.output(dtype, vec![from, parts, frequencies, made])?;
        // Tables grow with the square of the length: they count as what is computed on the host.
        call.budget.need(ty.shape.len(), call.node)?;
        let (length, sign) = (self.length as u128, if self.inverse { 1.0 } else { -1.0 });
        let scale = if self.inverse { 1.0 / self.length as f64 } else { 1.0 };
        let mut weights = Vec::with_capacity(ty.shape.len());
        for at in 0..from {
            // Between the first and the middle one, each stands for its mirror image too.
            let twice = self.half && at > 0 && 2 * at < self.length;
            let scale = match at < self.length {
                true => scale * if twice { 2.0 } else { 1.0 },
                false => 0.0,
            };
            for part in 0..parts {
                for frequency in 0..frequencies {
                    // The angle in whole steps first, so that nothing of it is lost.
                    let step = (at as u128 * frequency as u128 % length.max(1)) as f64;
                    let angle = sign * std::f64::consts::TAU * step / self.length as f64;
                    let (sin, cos) = angle.sin_cos();
                    let both = if part == 0 { [cos, sin] } else { [-sin, cos] };
                    weights.extend(both.into_iter().take(made).map(|own| Scalar::from_f64(dtype, own * scale)));
                }
            }
        }
        Ok((ty.shape, Data::collect(dtype, weights)))
    }
}

/// The length of a transform, if it is given.
fn length(call: &NodeCall<'_>, place: usize, what: &str) -> Result<Option<usize>, ModelError> {
    let Some(scalar) = call.scalar(place, what)? else { return Ok(None) };
    let found = usize::try_from(scalar.as_i64()).ok().filter(|length| (1..=MAX_ELEMENTS).contains(length));
    found.map(Some).ok_or_else(|| call.bad_value(what, "at least 1", scalar))
}

fn transform(call: &NodeCall<'_>) -> Result<Outcome, ModelError> {
    let (dtype, dims) = (call.float()?, call.dims(0)?);
    let axis = match call.opset {
        ..20 => call.int("axis", 1)?,
        _ => call.scalar(2, "axis")?.map_or(-2, |axis| axis.as_i64()),
    };
    let axis = call.axis(axis, dims.len(), "axis")?;
    let (Some((&parts @ (1 | 2), _)), Some(&size)) = (dims.split_last(), dims.get(axis)) else {
        return Err(call.shape_mismatch("a last axis of one or two parts", dims));
    };
    if axis + 1 == dims.len() || size == 0 {
        return Err(call.shape_mismatch("numbers along the axis, which is not the last one", dims));
    }
    let (inverse, onesided) = (call.flag("inverse", false)?, call.flag("onesided", false)?);
    let half = inverse && onesided;
    let length = length(call, 1, "dft_length")?.unwrap_or(if half { 2 * (size - 1).max(1) } else { size });
    let to = match (onesided, inverse) {
        (false, _) => (length, 2),
        (true, false) => (length / 2 + 1, 2),
        (true, true) => (length, 1),
    };
    let from = if half { size.min(length / 2 + 1) } else { size };
    let table = Table { length, to, inverse, half };
    let mut made = dims.to_vec();
    made.get_mut(axis).into_iter().for_each(|dim| *dim = to.0);
    made.last_mut().into_iter().for_each(|dim| *dim = to.1);
    let ty = call.output(dtype, made)?;
    let (shape, mut weights) = table.weights(call, from, parts, dtype)?;
    let (mut rows, extra) = (shape.len(), (size - from) * parts * to.0 * to.1);
    if extra > 0 {
        // What is past the half is not looked at.
        rows += extra;
        let zeros = std::iter::repeat_n(Scalar::from_i64(dtype, 0), extra);
        weights = Data::collect(dtype, weights.iter().chain(zeros).collect::<Vec<_>>());
    }
    let columns = to.0 * to.1;
    let shape = Shape::from(vec![rows / columns.max(1), columns]);
    let inputs = [("x", Given::Value(call.input(0)?)), ("table", Given::Constant(shape, weights))];
    Ok(Outcome::layer_of(Transform { axis }, inputs, ty))
}

/// A product of the numbers along an axis with a table, the second input.
#[derive(Debug)]
struct Transform {
    axis: usize,
}

impl Compute for Transform {
    fn cost(&self, _: &[&Shape], _: &[TensorType]) -> Option<usize> {
        None
    }

    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let (dims, output) = (to.dims(0), to.output());
        let last = dims.len() - 1;
        // The axis beside the parts, and back.
        let there: Vec<i64> =
            (0..last).filter(|own| *own != self.axis).chain([self.axis, last]).map(|own| own as i64).collect();
        let mut back = vec![0; dims.len()];
        for (place, own) in there.iter().enumerate() {
            back[*own as usize] = place as i64;
        }
        let x = to.first(0)?;
        let x = to.turn_named(&to.value(0).name, x, &there)?;
        let (inside, made) = (to.dims(1)[0], to.dims(1)[1]);
        let rows = to.value(0).ty.shape.len() / inside.max(1);
        let x = to.calls.view(x, TensorType::new(output.dtype, [rows, inside]));
        let table = to.first(1)?;
        let y = to.call("matmul", &[x, table], TensorType::new(output.dtype, [rows, made]), &Params::new())?;
        let turned: Vec<usize> = there.iter().map(|own| output.shape.dims()[*own as usize]).collect();
        let y = to.calls.view(y, TensorType::new(output.dtype, turned));
        let y = to.turn_named(to.layer(), y, &back)?;
        to.give_first(0, y);
        Ok(())
    }
}

fn windows(call: &NodeCall<'_>) -> Result<Outcome, ModelError> {
    let dtype = call.float()?;
    let (batch, size, parts) = match *call.dims(0)? {
        [batch, size] => (batch, size, 1),
        [batch, size, parts @ (1 | 2)] => (batch, size, parts),
        ref dims => return Err(call.shape_mismatch("a signal {batch, length, 1 or 2}", dims)),
    };
    let step = length(call, 1, "frame_step")?.unwrap_or(1);
    let given = length(call, 3, "frame_length")?;
    let window = match call.number(2) {
        Some(number) => {
            call.same_dtype(2)?;
            match *call.dims(2)? {
                [length] if given.is_none_or(|given| given == length) && length > 0 => Some((number, length)),
                ref dims => return Err(call.shape_mismatch("a window as long as a frame", dims)),
            }
        }
        None => None,
    };
    let Some(frame) = window.map(|(_, length)| length).or(given) else {
        return Err(call.bad_value("frame_length", "given, or a window", "nothing"));
    };
    let room = size.checked_sub(frame);
    let room = room.ok_or_else(|| call.bad_value("frame_length", format!("at most {size}"), frame))?;
    /// How far apart windows of a convolution may be.
    const LARGEST: usize = 4096;
    if step > LARGEST {
        return Err(call.unsupported(format!("not supported: frames more than {LARGEST} apart")));
    }
    let frames = room / step + 1;
    let frequencies = if call.flag("onesided", true)? { frame / 2 + 1 } else { frame };
    let table = Table { length: frame, to: (frequencies, 2), inverse: false, half: false };
    let ty = call.output(dtype, vec![batch, frames, frequencies, 2])?;
    let (_, weights) = table.weights(call, frame, parts, dtype)?;
    let shape = Shape::from(vec![1, frame, parts, frequencies * 2]);
    let zeros = Given::Filled(Shape::from(vec![frequencies * 2]), Scalar::from_i64(dtype, 0));
    let mut inputs =
        vec![("x", Given::Value(call.input(0)?)), ("table", Given::Constant(shape, weights)), ("bias", zeros)];
    inputs.extend(window.map(|(number, _)| ("window", Given::Value(number))));
    Ok(Outcome::layer_of(Frames { step, parts }, inputs, ty))
}

/// A convolution of the signal, the first input, with a table, the second; the third is zeros, and the fourth the window, if there is one.
#[derive(Debug)]
struct Frames {
    step: usize,
    parts: usize,
}

impl Compute for Frames {
    fn cost(&self, _: &[&Shape], _: &[TensorType]) -> Option<usize> {
        None
    }

    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let (dims, output) = (to.dims(0), to.output());
        let x = to.first(0)?;
        let x = to.calls.view(x, TensorType::new(output.dtype, [dims[0], 1, dims[1], self.parts]));
        let (mut table, ty) = (to.first(1)?, to.value(1).ty.clone());
        if to.inputs() > 3 {
            let frame = ty.shape.dims()[1];
            let window = to.first(3)?;
            let window = to.calls.view(window, TensorType::new(output.dtype, [1, frame, 1, 1]));
            table = to.call("elementwise_mul", &[table, window], ty.clone(), &Params::new())?;
        }
        let zeros = to.first(2)?;
        let made = [dims[0], 1, output.shape.dims()[1], ty.shape.dims()[3]];
        let params = Params::new().with("stride", vec![1, self.step as i64]);
        let y = to.call("conv2d", &[x, table, zeros], TensorType::new(output.dtype, made), &params)?;
        let y = to.calls.view(y, output.clone());
        to.give_first(0, y);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::builder::{Net, int, integers, single, some_floats};

    #[test]
    fn sizes_follow_from_lengths() {
        let number = |value: i64| integers(&[], &[value]);
        let dims = |net: Net| {
            crate::lower::lower(&net.resolve(2).unwrap()).unwrap();
            net.dims().unwrap()
        };
        assert_eq!(dims(single(17, "DFT", &[2, 10, 1], vec![], vec![int("axis", 1)])), [2, 10, 2]);
        assert_eq!(dims(single(17, "DFT", &[2, 10, 4, 2], vec![number(7)], vec![int("onesided", 1)])), [2, 4, 4, 2]);
        assert_eq!(
            dims(single(20, "DFT", &[2, 10, 2], vec![number(16), number(-2)], vec![int("inverse", 1)])),
            [2, 16, 2]
        );
        let both = vec![int("inverse", 1), int("onesided", 1)];
        assert_eq!(dims(single(20, "DFT", &[2, 6, 2], vec![], both)), [2, 10, 1]);
        assert_eq!(single(20, "DFT", &[2, 10, 3], vec![], vec![]).code(), "shape_mismatch");
        let window = || some_floats(&[16]);
        assert_eq!(dims(single(17, "STFT", &[2, 128, 1], vec![number(8), window()], vec![])), [2, 15, 9, 2]);
        let whole = vec![int("onesided", 0)];
        assert_eq!(dims(single(17, "STFT", &[2, 128, 1], vec![number(8), window()], whole)), [2, 15, 16, 2]);
        assert_eq!(single(17, "STFT", &[2, 8, 1], vec![number(8), window()], vec![]).code(), "bad_value");
        assert_eq!(single(17, "STFT", &[2, 8, 1], vec![number(8)], vec![]).code(), "bad_value");
    }
}
