//! `BatchNormalization`: `(x - mean) / sqrt(variance + epsilon) * scale + bias` by channel, which is axis 1.

use dala_spec::{Params, Shape, SpecError, TensorType};

use super::call::NodeCall;
use super::declared::refused;
use super::operator::{Kind, Operator, Outcome};
use crate::ModelError;
use crate::lower::{Lowerer, Order};
use crate::op::Compute;

pub(super) const BATCH_NORMALIZATION: Operator =
    Operator::new("BatchNormalization", Kind::Windows, infer).inputs(5, 5).refuses(|node| {
        refused([
            (node.int("training_mode").is_some_and(|mode| mode != 0), "training_mode"),
            (node.opset < 9 && node.int("spatial") == Some(0), "spatial = 0"),
        ])
    });

fn infer(call: &NodeCall<'_>) -> Result<Outcome, ModelError> {
    call.float()?;
    let dims = call.dims(0)?;
    let Some(&channels) = dims.get(1) else {
        return Err(call.shape_mismatch("a first input with at least two dimensions", &dims));
    };
    for place in 1..5 {
        call.same_dtype(place)?;
        let found = call.dims(place)?;
        if found != [channels] {
            return Err(
                call.shape_mismatch(format!("a scale, bias, mean and variance of shape {{{channels}}}"), &found)
            );
        }
    }
    let epsilon = call.float_attribute("epsilon", 1e-5)?;
    let inputs = [call.input(0)?, call.input(1)?, call.input(2)?, call.input(3)?, call.input(4)?];
    Ok(Outcome::layer(BatchNorm { epsilon }, inputs, call.value(0)?.ty.clone()))
}

/// Over `x, scale, bias, mean, variance`.
#[derive(Debug, PartialEq)]
struct BatchNorm {
    epsilon: f32,
}

impl Compute for BatchNorm {
    fn cost(&self, _: &[&Shape], _: &[TensorType]) -> Option<usize> {
        None
    }

    /// As `x * factor + offset`: what follows from constants is computed once, and the rest is part of the layer before.
    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let [scale, bias, mean, variance] = [to.first(1)?, to.first(2)?, to.first(3)?, to.first(4)?];
        let (ty, none) = (to.calls.ty(scale).clone(), Params::new());
        let epsilon = Params::new().with("scalar", f64::from(self.epsilon));
        let variance = to.call("scalar_add", &[variance], ty.clone(), &epsilon)?;
        let deviation = to.call("sqrt", &[variance], ty.clone(), &none)?;
        let factor = to.call("elementwise_div", &[scale, deviation], ty.clone(), &none)?;
        let moved = to.call("elementwise_mul", &[mean, factor], ty.clone(), &none)?;
        let offset = to.call("elementwise_sub", &[bias, moved], ty.clone(), &none)?;
        let rank = to.dims(0).len();
        let order = if rank == 4 { Order::Last } else { to.order(0) };
        let x = to.read(0, order)?;
        // Channels are the last axis, or have as many behind them as the file says.
        let behind = if order == Order::Last { 0 } else { rank - 2 };
        let by_channel = TensorType::new(ty.dtype, [ty.shape.dims(), &vec![1; behind]].concat());
        let [factor, offset] = [factor, offset].map(|cell| to.calls.view(cell, by_channel.clone()));
        let ty = to.calls.ty(x).clone();
        let scaled = to.call("elementwise_mul", &[x, factor], ty, &none)?;
        to.call_in(order, "elementwise_add", &[scaled, offset], &none)
    }
}
