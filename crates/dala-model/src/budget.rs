//! How much is computed on the host while a model is resolved.

use std::cell::Cell;

use crate::ModelError;
use crate::error::shown;
use crate::limits::{MAX_ON_HOST, MIN_ON_HOST};

/// Values that decide shapes have fewer elements than this; larger ones are weights.
pub(crate) const SMALL: usize = 4096;

/// How many elements may still be computed. For weights in proportion to the file, so that a small one cannot ask for much;
/// what decides shapes has a part that weights do not use up.
pub(crate) struct Budget {
    shapes: Cell<usize>,
    weights: Cell<usize>,
}

impl Budget {
    /// For a file with so many elements in its weights.
    pub(crate) fn new(weights: usize) -> Budget {
        let weights = weights.saturating_mul(4).clamp(MIN_ON_HOST, MAX_ON_HOST);
        Budget { shapes: Cell::new(MIN_ON_HOST), weights: Cell::new(weights) }
    }

    /// Takes `elements` if that many are left.
    pub(crate) fn take(&self, elements: usize) -> bool {
        let from = |left: &Cell<usize>| {
            let rest = left.get().checked_sub(elements);
            left.set(rest.unwrap_or(left.get()));
            rest.is_some()
        };
        (elements < SMALL && from(&self.shapes)) || from(&self.weights)
    }

    /// Takes `elements` that node `node` cannot do without.
    pub(crate) fn need(&self, elements: usize, node: &str) -> Result<(), ModelError> {
        if self.take(elements) {
            return Ok(());
        }
        let what = format!("what node `{}` makes, together with other constants,", shown(node));
        Err(ModelError::TooLarge { what, limit: format!("the {} elements left for constants", self.weights.get()) })
    }
}
