//! Pictures in another size: rows and columns picked, or mixed by a matrix of weights.

use dala_spec::{DType, Data, Params, SpecError, TensorType};

use super::Lowerer;
use crate::{Coordinates, Layer, ResizeMode, Rounding};

/// One axis that changes its size.
struct Axis {
    from: usize,
    to: usize,
    scale: f64,
    coordinates: Coordinates,
}

impl Axis {
    /// Where a place of the result lies.
    fn place(&self, at: usize) -> f64 {
        let (at, from, to) = (at as f64, self.from as f64, self.to as f64);
        match self.coordinates {
            Coordinates::HalfPixel => (at + 0.5) / self.scale - 0.5,
            Coordinates::PytorchHalfPixel if self.to == 1 => 0.0,
            Coordinates::PytorchHalfPixel => (at + 0.5) / self.scale - 0.5,
            Coordinates::Asymmetric => at / self.scale,
            Coordinates::AlignCorners if self.to == 1 => 0.0,
            Coordinates::AlignCorners => at * (from - 1.0) / (to - 1.0),
        }
    }

    /// The nearest places.
    fn nearest(&self, rounding: Rounding) -> Vec<i32> {
        let last = self.from.max(1) as f64 - 1.0;
        let round = |place: f64| match rounding {
            Rounding::Floor => place.floor(),
            Rounding::Ceil => place.ceil(),
            Rounding::RoundPreferFloor => (place - 0.5).ceil(),
            Rounding::RoundPreferCeil => (place + 0.5).floor(),
        };
        (0..self.to).map(|at| round(self.place(at)).clamp(0.0, last) as i32).collect()
    }

    /// For each place of the result, the weights of all places before.
    fn weights(&self) -> Vec<f64> {
        let mut weights = vec![0.0; self.to * self.from];
        let last = self.from.max(1) - 1;
        for (at, row) in weights.chunks_exact_mut(self.from.max(1)).enumerate() {
            let place = self.place(at).clamp(0.0, last as f64);
            let before = (place.floor() as usize).min(last);
            let part = place - before as f64;
            row[before] += 1.0 - part;
            row[(before + 1).min(last)] += part;
        }
        weights
    }
}

/// The most places or weights of one axis that a layer may need.
const MAX_ENTRIES: usize = 1 << 24;

impl Lowerer<'_> {
    pub(super) fn resize(
        &mut self,
        layer: &Layer,
        mode: ResizeMode,
        coordinates: Coordinates,
        rounding: Rounding,
        scale: [f32; 2],
    ) -> Result<(), SpecError> {
        let mut cell = self.last(layer.inputs[0])?;
        let dtype = self.dtype(layer.output);
        let &[batch, height, width, channels] = self.calls.ty(cell).shape.dims() else { return Ok(()) };
        let [_, to_height, to_width, _] = super::dims_last(self.dims(layer.output));
        let axis = |from: usize, to: usize, scale: f32| Axis { from, to, scale: f64::from(scale), coordinates };
        let (rows, columns) = (axis(height, to_height, scale[0]), axis(width, to_width, scale[1]));
        let none = Params::new();
        for (axis, number) in [(rows, 1), (columns, 2)] {
            if axis.from == axis.to && axis.scale == 1.0 {
                continue;
            }
            // What a file claims must not decide how much memory its loading takes.
            let entries = if mode == ResizeMode::Nearest { axis.to } else { axis.to.saturating_mul(axis.from) };
            if entries > MAX_ENTRIES {
                let (name, shape) = (layer.name.clone(), format!("{{{}, {}}}", axis.to, axis.from));
                return Err(SpecError::TooLarge { name, shape });
            }
            let (rows, columns) = if number == 1 { (axis.to, width) } else { (to_height, axis.to) };
            let ty = TensorType::new(dtype, [batch, rows, columns, channels]);
            cell = match mode {
                ResizeMode::Nearest => {
                    let places = self.constant(Data::S32(axis.nearest(rounding)), &[axis.to]);
                    self.calls.call(&layer.name, "gather", &[cell, places], ty, &none.clone().with("axis", number))?
                }
                ResizeMode::Linear => {
                    let weights = axis.weights();
                    let weights = match dtype {
                        DType::F64 => Data::F64(weights),
                        _ => Data::F32(weights.into_iter().map(|weight| weight as f32).collect()),
                    };
                    let weights = self.constant(weights, &[axis.to, axis.from]);
                    // Rows of a picture, or pixels of a row, as the rows of a matrix.
                    let (outer, inner) = if number == 1 { (batch, width * channels) } else { (batch * rows, channels) };
                    let seen = self.calls.view(cell, TensorType::new(dtype, [outer, axis.from, inner]));
                    let made = TensorType::new(dtype, [outer, axis.to, inner]);
                    let made = self.calls.call(&layer.name, "matmul", &[weights, seen], made, &none)?;
                    self.calls.view(made, ty)
                }
            };
        }
        self.values[layer.output].last = Some(cell);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::Model;
    use crate::builder::{Net, text};

    #[test]
    fn a_claimed_size_takes_no_memory() {
        let lowered = |mode: &'static str, factor: f32| {
            let net = Net::new(13).x(&[1, 1, 1000, 1]).floats("s", &[4], vec![1.0, 1.0, factor, 1.0]);
            let net = net.node("Resize", &["x", "", "s"], "y", vec![text("mode", mode)]).output("y");
            let network = Model::read(net.bytes()).unwrap().resolve(1).unwrap();
            super::super::lower(&network).map(drop).map_err(|error| error.code())
        };
        assert_eq!(lowered("nearest", 16_000.0), Ok(()));
        assert_eq!(lowered("nearest", 17_000.0), Err("shape_too_large"));
        assert_eq!(lowered("linear", 16.0), Ok(()));
        assert_eq!(lowered("linear", 17.0), Err("shape_too_large"));
    }
}
