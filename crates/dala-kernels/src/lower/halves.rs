//! 16-bit floats around kernels that compute in `f32` or `f64`.

use dala_plan::{DeviceFacts, Lowering, Place};
use dala_spec::{Expr, Signature, SpecError, TensorType};

use super::map;

/// The same lowering for `f16` and `bf16` too: inputs are made `f32` first, the output is rounded last. Planning makes both part of
/// the launches beside them where it can.
pub(crate) fn in_f32(
    lower: impl Fn(&Signature, &DeviceFacts) -> Result<Lowering, SpecError> + Send + Sync + 'static,
) -> impl Fn(&Signature, &DeviceFacts) -> Result<Lowering, SpecError> + Send + Sync + 'static {
    move |call, facts| {
        let widened = |ty: &TensorType| TensorType { dtype: ty.dtype.register(), shape: ty.shape.clone() };
        let inner = Signature {
            inputs: call.inputs.iter().map(widened).collect(),
            output: widened(&call.output),
            params: call.params.clone(),
        };
        let inside = lower(&inner, facts)?;
        if inner.inputs == call.inputs && inner.output == call.output {
            return Ok(inside);
        }
        let mut whole = Lowering::new();
        let cast =
            |from: &TensorType, to: &TensorType| map(&Expr::input("x"), &[("x", from.clone())], to.clone(), call);
        let mut places = Vec::with_capacity(call.inputs.len());
        for (number, (own, wide)) in call.inputs.iter().zip(&inner.inputs).enumerate() {
            places.push(match own == wide {
                true => Place::Input(number),
                false => {
                    let place = whole.transient(wide.clone());
                    whole.step(cast(own, wide)?, [Place::Input(number)], place);
                    place
                }
            });
        }
        let output = if inner.output == call.output { Place::Output } else { whole.transient(inner.output.clone()) };
        whole.append_all(inside, &places, output);
        if output != Place::Output {
            whole.step(cast(&inner.output, &call.output)?, [output], Place::Output);
        }
        Ok(whole)
    }
}
