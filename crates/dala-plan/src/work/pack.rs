//! Matrices laid out in panels.

use dala_spec::{DType, Data};

use super::{TaskKind, Tile};
use crate::words::{several, times};

/// Lays a `{batch, k, n}` matrix out in panels of [`Tile::columns`] columns, each stored row after row: `{batch, panels, k,
/// columns}`. What of a panel is outside of the matrix is filled up with zeros.
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
        self.tile.panels(self.n)
    }

    /// The panels of a matrix. None if it is no matrix of these sizes.
    fn panels_of<T: Copy + Default>(&self, matrix: &[T]) -> Option<Vec<T>> {
        let (columns, panels) = (self.tile.columns(), self.panels());
        if matrix.len() != self.batch * self.k * self.n {
            return None;
        }
        let mut packed = vec![T::default(); self.batch * panels * self.k * columns];
        let rows = packed.chunks_exact_mut(columns.max(1)).enumerate();
        for (row, target) in rows {
            let (place, panel, block) = (row % self.k, row / self.k % panels, row / self.k / panels);
            let (first, start) = (self.tile.panel_start(panel, self.n), block * self.k * self.n);
            for (column, slot) in (first..self.n.min(first + columns)).zip(target) {
                let at = if self.transposed { column * self.k + place } else { place * self.n + column };
                *slot = matrix[start + at];
            }
        }
        Some(packed)
    }
}

impl TaskKind for Pack {
    fn describe(&self) -> String {
        format!("pack, {}{}, {}", several(self.batch), times(&[self.k, self.n]), self.dtype)
    }

    fn dtype(&self) -> Option<DType> {
        Some(self.dtype)
    }

    fn on_host(&self, reads: &[&Data]) -> Option<Data> {
        match reads.first()? {
            Data::F32(elements) => self.panels_of(elements).map(Data::F32),
            Data::F64(elements) => self.panels_of(elements).map(Data::F64),
            _ => None,
        }
    }
}
