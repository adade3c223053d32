//! `GlobalAveragePool`: the mean over height and width.

use dala_spec::{Params, Shape, SpecError, TensorType};

use super::call::NodeCall;
use super::operator::{Kind, Operator, Outcome};
use crate::ModelError;
use crate::lower::Lowerer;
use crate::op::Compute;

pub(super) const GLOBAL_AVERAGE_POOL: Operator = Operator::new("GlobalAveragePool", Kind::Windows, infer);

fn infer(call: &NodeCall<'_>) -> Result<Outcome, ModelError> {
    let dtype = call.float()?;
    let [batch, channels, height, width] = call.picture()?;
    if height == 0 || width == 0 {
        return Err(call.shape_mismatch("at least one pixel", &call.dims(0)?));
    }
    let ty = call.output(dtype, vec![batch, channels, 1, 1])?;
    Ok(Outcome::layer(GlobalAveragePool, [call.input(0)?], ty))
}

#[derive(Debug)]
struct GlobalAveragePool;

impl Compute for GlobalAveragePool {
    fn cost(&self, _: &[&Shape], _: &[TensorType]) -> Option<usize> {
        None
    }

    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let x = to.last(0)?;
        to.call_last("global_avg_pool", &[x], &Params::new())
    }
}
