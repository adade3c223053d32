//! How much is computed on the host while a model is resolved.

use std::cell::Cell;

use crate::ModelError;
use crate::error::shown;
use crate::limits::{MAX_LISTED, MAX_ON_HOST, MAX_STEPS, MIN_ON_HOST};

/// Values that decide shapes have fewer elements than this; larger ones are weights.
pub(crate) const SMALL: usize = 4096;

/// How many elements may still be computed. For weights in proportion to the file, so that a small one cannot ask for much;
/// what decides shapes has a part that weights do not use up.
pub(crate) struct Budget {
    shapes: Cell<usize>,
    weights: Cell<usize>,
    steps: Cell<usize>,
    listed: Cell<usize>,
}

impl Budget {
    /// For a file with so many elements in its weights.
    pub(crate) fn new(weights: usize) -> Budget {
        let weights = weights.saturating_mul(4).clamp(MIN_ON_HOST, MAX_ON_HOST);
        Budget {
            shapes: Cell::new(MIN_ON_HOST),
            weights: Cell::new(weights),
            steps: Cell::new(MAX_STEPS),
            listed: Cell::new(MAX_LISTED),
        }
    }

    /// Takes `steps` of the walk for node `node`: without an end to them, loops inside of loops would have none.
    pub(crate) fn step(&self, steps: usize, node: &str) -> Result<(), ModelError> {
        spend(&self.steps, steps, MAX_STEPS, || {
            format!("the number of nodes, those of loops as often as they run, at node `{}`", shown(node))
        })
    }

    /// Takes room for a list of `len` tensors that node `node` makes.
    pub(crate) fn list(&self, len: usize, node: &str) -> Result<(), ModelError> {
        spend(&self.listed, len, MAX_LISTED, || format!("the number of tensors in all lists at node `{}`", shown(node)))
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

/// Takes so many of what is left.
fn spend(left: &Cell<usize>, count: usize, limit: usize, what: impl Fn() -> String) -> Result<(), ModelError> {
    match left.get().checked_sub(count) {
        Some(rest) => {
            left.set(rest);
            Ok(())
        }
        None => Err(ModelError::TooLarge { what: what(), limit: limit.to_string() }),
    }
}
