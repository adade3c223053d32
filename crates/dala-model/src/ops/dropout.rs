//! `Dropout`: leaves everything as it is, unless the file was made for training.

use super::call::NodeCall;
use super::operator::{Kind, Operator, Outcome};
use crate::ModelError;

pub(super) const DROPOUT: Operator = Operator::new("Dropout", Kind::Others, infer).inputs(1, 3);

fn infer(call: &NodeCall<'_>) -> Result<Outcome, ModelError> {
    match call.scalar(2, "training_mode")? {
        // One that drops nothing is none.
        Some(training)
            if training.as_i64() != 0 && call.scalar(1, "ratio")?.is_none_or(|ratio| ratio.as_f64() != 0.0) =>
        {
            Err(call.unsupported("not supported: training_mode"))
        }
        _ => Ok(Outcome::same(call.input(0)?)),
    }
}

#[cfg(test)]
mod tests {
    use crate::builder::{integers, scalar, single};

    #[test]
    fn only_what_drops_nothing_is_read() {
        let dropout = |ratio, training| {
            let training = crate::proto::TensorProto {
                data_type: 9,
                raw_data: None,
                int32_data: vec![training],
                ..integers(&[], &[])
            };
            single(13, "Dropout", &[1, 2], vec![scalar(ratio), training], vec![]).code()
        };
        assert_eq!(dropout(0.5, 0), "read");
        assert_eq!(dropout(0.0, 1), "read");
        assert_eq!(dropout(0.5, 1), "unsupported_operator");
    }
}
