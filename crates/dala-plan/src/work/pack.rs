//! Matrices laid out in panels.

use dala_spec::DType;

use super::{TaskKind, Tile};
use crate::words::{several, times};

/// Lays a `{batch, k, n}` matrix out in panels of [`Tile::columns`] columns, each stored row after row: `{batch, panels, k,
/// columns}`. What of a panel is outside of the matrix is filled up with zeros.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
        self.tile.panels(self.n)
    }

    /// How many elements all panels have together.
    pub fn elements(&self) -> usize {
        self.batch * self.panels() * self.k * self.tile.columns()
    }
}

impl TaskKind for Pack {
    fn describe(&self) -> String {
        format!("pack, {}{}, {}", several(self.batch), times(&[self.k, self.n]), self.dtype)
    }

    fn dtype(&self) -> Option<DType> {
        Some(self.dtype)
    }
}
