//! `Max`, `Min`, `Sum` and `Mean` of one value or many, each repeated along axes where it has size one.

use dala_spec::{Params, SpecError, TensorType};

use super::binary::repeated;
use super::call::{NodeCall, broadcast};
use super::operator::{Kind, Operator, Outcome};
use crate::ModelError;
use crate::limits::MAX_NAMES;
use crate::lower::Lowerer;
use crate::op::Compute;

pub(super) const MAX: Operator = several("Max", |call| infer(call, Several { kernel: "maximum", mean: false }));
pub(super) const MIN: Operator = several("Min", |call| infer(call, Several { kernel: "minimum", mean: false }));
pub(super) const SUM: Operator = several("Sum", |call| {
    call.float()?;
    infer(call, Several { kernel: "elementwise_add", mean: false })
});
pub(super) const MEAN: Operator = several("Mean", |call| {
    call.float()?;
    infer(call, Several { kernel: "elementwise_add", mean: true })
});

const fn several(name: &'static str, infer: fn(&NodeCall<'_>) -> Result<Outcome, ModelError>) -> Operator {
    Operator::new(name, Kind::Elements, infer).inputs(1, MAX_NAMES)
}

fn infer(call: &NodeCall<'_>, compute: Several) -> Result<Outcome, ModelError> {
    let mut inputs = Vec::with_capacity(call.inputs.len());
    let mut dims = call.dims(0)?.to_vec();
    for place in 0..call.inputs.len() {
        inputs.push(call.input(place)?);
        call.same_dtype(place)?;
        dims = repeated(call, &dims, place)?;
    }
    if let [only] = inputs[..] {
        return Ok(Outcome::same(only));
    }
    let ty = call.output(call.dtype(0)?, dims)?;
    Ok(Outcome::layer(compute, inputs, ty))
}

/// The first with the second, that with the third, and so on.
#[derive(Debug)]
struct Several {
    kernel: &'static str,
    /// Whether the result is divided by their number.
    mean: bool,
}

impl Compute for Several {
    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let (order, dtype) = (to.common_order(), to.output().dtype);
        let mut made = to.read(0, order)?;
        for place in 1..to.inputs() {
            let next = to.read(place, order)?;
            let [own, other] = [made, next].map(|cell| to.calls.ty(cell).shape.dims());
            let dims = broadcast(own, other).unwrap_or_default();
            made = to.call(self.kernel, &[made, next], TensorType::new(dtype, dims), &Params::new())?;
        }
        if self.mean {
            let count = Params::new().with("count", to.inputs() as i64);
            made = to.map("x / count", &[("x", made)], to.output_in(order), &count)?;
        }
        to.give(0, order, made);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use dala_spec::Data;

    use crate::builder::{constants, floats, list, single};

    #[test]
    fn many_become_one() {
        let three = || {
            let column = floats(&[2, 1], vec![1.0, 6.0]);
            vec![column, floats(&[3], vec![2.0, 4.0, 9.0]), floats(&[], vec![3.0])]
        };
        let of = |op: &str| constants(13, op, three(), vec![]);
        assert_eq!(of("Max"), (vec![2, 3], Data::F32(vec![3.0, 4.0, 9.0, 6.0, 6.0, 9.0])));
        assert_eq!(of("Min").1, Data::F32(vec![1.0, 1.0, 1.0, 2.0, 3.0, 3.0]));
        assert_eq!(of("Sum").1, Data::F32(vec![6.0, 8.0, 13.0, 11.0, 13.0, 18.0]));
        assert_eq!(of("Mean").1, Data::F32(vec![2.0, 8.0 / 3.0, 13.0 / 3.0, 11.0 / 3.0, 13.0 / 3.0, 6.0]));
        assert_eq!(constants(13, "Max", vec![list(&[1, 5]), list(&[3])], vec![]).1, Data::S64(vec![3, 5]));
        assert!(single(13, "Mean", &[-1, 2], vec![], vec![]).resolve(1).unwrap().layers.is_empty());
        assert_eq!(single(13, "Max", &[1, 2], vec![list(&[1])], vec![]).code(), "dtype_mismatch");
        assert_eq!(single(13, "Max", &[1, 2], vec![floats(&[3], vec![1.0; 3])], vec![]).code(), "shape_mismatch");
    }
}
