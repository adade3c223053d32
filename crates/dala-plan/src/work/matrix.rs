//! Matrix products, and counting.

use dala_spec::{DType, Data};

use super::Fragment;
use crate::DeviceFacts;

/// The part of a product that one unit keeps in its registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tile {
    /// Elements of a vector.
    pub lanes: usize,
    /// Rows.
    pub rows: usize,
    /// Vectors of columns.
    pub vectors: usize,
    /// Whether the last panel begins early enough to end with the matrix, and has columns in common with the one before: where
    /// vectors begin at any element. Elsewhere it is filled up with zeros.
    pub overlaps: bool,
}

impl Tile {
    /// The tile that suits a device and a result of `rows` rows and `columns` columns: as many accumulators as there are registers
    /// for, with the least columns computed in vain.
    pub fn choose(facts: &DeviceFacts, dtype: DType, rows: usize, columns: usize) -> Tile {
        let (shapes, widest): (&[(usize, usize)], usize) = match facts.cpu {
            true => (&[(4, 4), (5, 4), (3, 6), (6, 4), (2, 8), (1, 8)], 64 / dtype.size()),
            false => (&[(4, 4), (3, 4), (2, 4), (1, 4)], 4),
        };
        let narrower = |lanes: &usize| (facts.cpu && *lanes > 1).then_some(lanes / 2);
        let tiles = std::iter::successors(Some(widest), narrower).flat_map(|lanes| {
            let tile = move |(vectors, rows): &(usize, usize)| Tile {
                lanes,
                rows: *rows,
                vectors: *vectors,
                overlaps: facts.cpu,
            };
            shapes.iter().map(tile)
        });
        // What a column costs, as measured: more in vectors that do not fill a register, and in tiles that load nearly as much as
        // they multiply.
        let narrow = |tile: &Tile| if tile.lanes < widest { 5 } else { 4 };
        let thin = |tile: &Tile| match tile.vectors {
            _ if !facts.cpu => 4,
            1 => 6,
            2 => 5,
            _ => 4,
        };
        let columns_of = |tile: &Tile| tile.panels(columns) * tile.vectors * tile.lanes.max(widest / 2);
        let cost = |tile: &Tile| columns_of(tile) * narrow(tile) * thin(tile);
        let fits = |tile: &Tile| !tile.overlaps || tile.columns() <= columns.max(1);
        let best = tiles.filter(fits).min_by_key(cost);
        let best = best.unwrap_or(Tile { lanes: 1, rows: 8, vectors: 1, overlaps: facts.cpu });
        Tile { rows: if rows == 1 { 1 } else { best.rows }, ..best }
    }

    /// How many panels a matrix of so many columns has.
    pub const fn panels(self, columns: usize) -> usize {
        columns.div_ceil(self.columns())
    }

    /// Where a panel begins.
    pub fn panel_start(self, panel: usize, columns: usize) -> usize {
        let start = panel * self.columns();
        if self.overlaps { start.min(columns.saturating_sub(self.columns())) } else { start }
    }

    /// How many columns a panel has.
    pub const fn columns(self) -> usize {
        self.lanes * self.vectors
    }
}

/// Windows of pictures as the rows of a matrix: one for each pixel of the result, its elements in the order of the window's rows,
/// its columns, and their channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Windows {
    /// Rows and columns of the pictures.
    pub from: [usize; 2],
    /// Rows and columns of the result.
    pub to: [usize; 2],
    /// Elements of a pixel.
    pub channels: usize,
    /// Whether each channel is a picture of its own, one after the other, instead of lying side by side in pixels.
    pub planar: bool,
    /// Rows and columns of a window.
    pub size: [usize; 2],
    /// How far apart windows are.
    pub stride: [usize; 2],
    /// How far apart the pixels of a window are.
    pub dilation: [usize; 2],
    /// Rows above and columns left of the picture that count as zeros.
    pub padding: [usize; 2],
}

impl Windows {
    /// How many elements a window has.
    pub fn len(&self) -> usize {
        self.size[0] * self.size[1] * self.channels
    }

    /// Whether windows have no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether each window is the pixel at its own place.
    pub fn are_pixels(&self) -> bool {
        !self.planar && self.size == [1, 1] && self.stride == [1, 1] && self.padding == [0, 0] && self.from == self.to
    }

    /// Whether windows reach beyond the picture along an axis.
    fn leave(&self, axis: usize) -> bool {
        let reach = (self.to[axis].max(1) - 1) * self.stride[axis] + (self.size[axis].max(1) - 1) * self.dilation[axis];
        self.padding[axis] > 0 || reach >= self.from[axis] + self.padding[axis]
    }

    /// Whether windows reach beyond the picture.
    pub fn leave_the_picture(&self) -> bool {
        self.leave(0) || self.leave(1)
    }
}

/// What is made of the elements of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PoolOp {
    /// Their sum, each weighed: the step's second read is a weight for each element of a window.
    Weighted,
    /// Their sum, and how many they are: value 1.
    Sum,
    /// The largest; what is not a number counts only where there is nothing else, and nothing at all as zero.
    Max,
}

/// Windows of pictures made to one pixel each, every channel by itself. The store program gets the result as value 0; channels are
/// the places along the last axis.
#[derive(Clone, Debug)]
pub struct Pool {
    /// How many pictures there are.
    pub batch: usize,
    /// The windows.
    pub windows: Windows,
    /// What is made of them.
    pub op: PoolOp,
    /// The element type it computes in.
    pub dtype: DType,
    /// What is stored.
    pub store: Fragment,
}

impl Pool {
    /// How many of the step's reads are its own; the others are its store program's.
    pub fn operands(&self) -> usize {
        if self.op == PoolOp::Weighted { 2 } else { 1 }
    }
}

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

    /// The panels of a matrix that is at hand. None if it is no matrix of these sizes.
    pub fn on_host(&self, matrix: &Data) -> Option<Data> {
        match matrix {
            Data::F32(elements) => self.panels_of(elements).map(Data::F32),
            Data::F64(elements) => self.panels_of(elements).map(Data::F64),
            _ => None,
        }
    }

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

impl Matmul {
    /// Whether units should pack for themselves: on cores, where each has panels of its own to work on, and rows enough to use
    /// them for.
    pub fn packs_itself(facts: &DeviceFacts, tile: Tile, batch: usize, m: usize, n: usize) -> bool {
        let (panels, units) = (batch * tile.panels(n), facts.units_per_cube as usize);
        let even = panels.is_multiple_of(units) || panels >= 8 * units;
        facts.cpu && panels >= units && even && m >= 4 * tile.rows
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
