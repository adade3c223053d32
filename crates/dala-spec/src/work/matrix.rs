//! Matrix products, and counting.

use super::Fragment;
use crate::{DType, DeviceFacts};

/// The part of a product that one unit keeps in its registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tile {
    /// Elements of a vector.
    pub lanes: usize,
    /// Rows.
    pub rows: usize,
    /// Vectors of columns.
    pub vectors: usize,
}

impl Tile {
    /// The tile that suits a device and a number of rows.
    pub fn choose(facts: &DeviceFacts, dtype: DType, rows: usize) -> Tile {
        // As many accumulators as a CPU has registers for, or as a GPU has for each unit.
        let (lanes, vectors) = if facts.cpu { (64 / dtype.size(), 4) } else { (4, 4) };
        Tile { lanes, rows: if rows == 1 { 1 } else { 4 }, vectors }
    }

    /// How many columns a panel has.
    pub const fn columns(self) -> usize {
        self.lanes * self.vectors
    }
}

/// Lays a `{batch, k, n}` matrix out in panels of [`Tile::columns`] columns, each stored row after row, the last one filled
/// up with zeros: `{batch, panels, k, columns}`.
#[derive(Clone, Debug)]
pub struct Pack {
    /// How many matrices there are.
    pub batch: usize,
    /// Rows.
    pub k: usize,
    /// Columns.
    pub n: usize,
    /// Whether the matrix is given as `{batch, n, k}`.
    pub transposed: bool,
    /// Its element type.
    pub dtype: DType,
    /// The tile it is laid out for.
    pub tile: Tile,
}

impl Pack {
    /// How many panels a matrix has.
    pub fn panels(&self) -> usize {
        self.n.div_ceil(self.tile.columns())
    }
}

impl Matmul {
    /// Whether units should pack for themselves: on cores, where each has panels of its own to work on, and rows enough to use
    /// them for.
    pub fn packs_itself(facts: &DeviceFacts, tile: Tile, batch: usize, m: usize, n: usize) -> bool {
        let (panels, units) = (batch * n.div_ceil(tile.columns()), facts.units_per_cube as usize);
        let even = panels.is_multiple_of(units) || panels >= 8 * units;
        facts.cpu && n.is_multiple_of(tile.lanes) && panels >= units && even && m >= 4 * tile.rows
    }
}

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
    /// Columns of the second operand: a multiple of the tile's lanes.
    pub n: usize,
    /// Whether each product has a first operand of its own.
    pub a_batched: bool,
    /// Whether each product has a second operand of its own.
    pub b_batched: bool,
    /// Whether the first operand is given as `{batch, k, m}`.
    pub a_transposed: bool,
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

/// Counts elements by bins, in `parts` parts: `{parts, bins}` counts of type `u32`.
#[derive(Clone, Debug)]
pub struct Count {
    /// How many elements there are.
    pub len: usize,
    /// How many bins there are.
    pub bins: usize,
    /// How many parts the elements are cut into.
    pub parts: usize,
    /// The bin of each element, an `s32`; outside of the bins it does not count.
    pub bin: Fragment,
}
