//! `BatchNormalization`: `(x - mean) / sqrt(variance + epsilon) * scale + bias` by channel, which is axis 1.

use dala_spec::{Params, Shape, SpecError, TensorType};

use super::call::Call;
use super::declared::refused;
use super::operator::{Kind, Operator, Outcome};
use crate::ModelError;
use crate::lower::Lowerer;
use crate::op::Compute;

pub(super) const BATCH_NORMALIZATION: Operator =
    Operator::new("BatchNormalization", Kind::Windows, infer).inputs(5, 5).refuses(|node| {
        refused([
            (node.int("training_mode").is_some_and(|mode| mode != 0), "training_mode"),
            (node.opset < 9 && node.int("spatial") == Some(0), "spatial = 0"),
        ])
    });

fn infer(call: &Call<'_>) -> Result<Outcome, ModelError> {
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
pub(crate) struct BatchNorm {
    pub(crate) epsilon: f32,
}

impl Compute for BatchNorm {
    fn cost(&self, _: &[&Shape], _: &[TensorType]) -> Option<usize> {
        None
    }

    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let params = Params::new().with("epsilon", f64::from(self.epsilon));
        let rest = [to.first(1)?, to.first(2)?, to.first(3)?, to.first(4)?];
        let rank = to.dims(0).len();
        if rank == 4 {
            let inputs = [&[to.last(0)?], &rest[..]].concat();
            return to.call_last("batch_norm", &inputs, &params);
        }
        // The kernel wants channels last; the file has them second.
        let axes = (2..rank).chain([1]).map(|axis| axis as i64);
        let order: Vec<i64> = [0].into_iter().chain(axes).collect();
        let x = to.first(0)?;
        let turned = to.turn(x, &order)?;
        let ty = to.calls.ty(turned).clone();
        let made = to.call("batch_norm", &[&[turned], &rest[..]].concat(), ty, &params)?;
        let back = (1..rank - 1).map(|axis| axis as i64);
        let order: Vec<i64> = [0, rank as i64 - 1].into_iter().chain(back).collect();
        let cell = to.turn(made, &order)?;
        to.give_first(0, cell);
        Ok(())
    }
}
