//! `Dropout`: leaves everything as it is, unless the file was made for training.

use super::call::NodeCall;
use super::operator::{Kind, Operator, Outcome};
use crate::ModelError;

pub(super) const DROPOUT: Operator = Operator::new("Dropout", Kind::Others, infer).inputs(1, 3);

fn infer(call: &NodeCall<'_>) -> Result<Outcome, ModelError> {
    match call.scalar(2, "training_mode")? {
        Some(training) if training.as_i64() != 0 => Err(call.unsupported("not supported: training_mode")),
        _ => Ok(Outcome::same(call.input(0)?)),
    }
}
