//! Matrix products.

use dala_spec::DType;

use super::{Fragment, Pack, ReadsMore, TaskKind, Tile, Windows};
use crate::DeviceFacts;
use crate::words::{several, times};

/// The product of `{batch, m, k}` and a packed `{batch, k, n}`: the step's first two reads.
///
/// The store program gets the sum as value 0; columns are the places along the last axis.
#[derive(Clone, Debug)]
pub struct Matmul {
    /// How many products there are.
    pub batch: usize,
    /// Rows of the first operand.
    pub m: usize,
    /// Columns of the first operand.
    pub k: usize,
    /// Columns of the second operand: a multiple of the tile's lanes, unless its panels overlap.
    pub n: usize,
    /// Whether each product has a first operand of its own.
    pub a_batched: bool,
    /// Whether each product has a second operand of its own.
    pub b_batched: bool,
    /// Whether the first operand is given as `{batch, k, m}`.
    pub a_transposed: bool,
    /// The windows that are the rows of the first operand, where it is pictures.
    pub windows: Option<Windows>,
    /// The element type it computes in.
    pub dtype: DType,
    /// The tile the second operand was packed for.
    pub tile: Tile,
    /// Whether the second operand is given as it is, and each unit packs the panels it works on: the step then also writes
    /// scratch memory, a panel for each unit.
    pub packs: bool,
    /// What is stored.
    pub store: Fragment,
}

impl Matmul {
    /// Whether units should pack for themselves: on cores, where each has panels of its own to work on, and rows enough to use
    /// them for.
    pub fn packs_itself(facts: &DeviceFacts, tile: Tile, batch: usize, m: usize, n: usize) -> bool {
        let (panels, units) = (batch * tile.panels(n), facts.units_per_cube as usize);
        let even = panels.is_multiple_of(units) || panels >= 8 * units;
        tile.overlaps && panels >= units && even && m >= 4 * tile.rows
    }

    /// How the second operand is packed, where it is given as it is.
    pub fn pack(&self) -> Pack {
        let batch = if self.b_batched { self.batch } else { 1 };
        Pack { batch, k: self.k, n: self.n, transposed: false, dtype: self.dtype, tile: self.tile }
    }
}

impl TaskKind for Matmul {
    super::fragments!(store);

    fn describe(&self) -> String {
        if let Some(windows) = &self.windows {
            let batch = self.m / (windows.to[0] * windows.to[1]).max(1);
            return format!("convolution, {}, to {} channels, {}", windows.describe(batch), self.n, self.dtype);
        }
        format!("matmul, {}{}, {}", several(self.batch), times(&[self.m, self.k, self.n]), self.dtype)
    }

    fn dtype(&self) -> Option<DType> {
        Some(self.dtype)
    }

    /// What it multiplies it loads as it is; what its store program loads may be computed.
    fn first_fragment_read(&self) -> Option<usize> {
        Some(2)
    }

    fn columns(&self) -> Option<usize> {
        Some(self.n)
    }

    fn store_fragment(&mut self) -> Option<(&mut Fragment, ReadsMore)> {
        Some((&mut self.store, ReadsMore::Yes))
    }
}
