//! The part of a matrix product that stays in registers.

use dala_spec::DType;

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
    /// Elements that are stored at once: fewer than a vector has, where rows of the result end inside of one.
    pub stored: usize,
}

impl Tile {
    /// The tile that suits a device and a result of `rows` rows and `columns` columns: as many accumulators as there are registers
    /// for, with the least columns computed in vain.
    pub fn choose(facts: &DeviceFacts, dtype: DType, rows: usize, columns: usize) -> Tile {
        let (shapes, widest): (&[(usize, usize)], usize) = match facts.cpu {
            true => (&[(4, 5), (4, 4), (5, 4), (3, 6), (6, 4), (2, 8), (1, 12)], 64 / dtype.size()),
            false => (&[(4, 4), (3, 4), (2, 4), (1, 4)], 4),
        };
        let narrower = |lanes: &usize| (facts.cpu && *lanes > 1).then_some(lanes / 2);
        let tiles = std::iter::successors(Some(widest), narrower).flat_map(|lanes| {
            let tile = move |(vectors, rows): &(usize, usize)| Tile {
                lanes,
                rows: *rows,
                vectors: *vectors,
                overlaps: facts.cpu,
                stored: lanes,
            };
            shapes.iter().map(tile)
        });
        // Results of few columns fill their last vector up, and store a part of it.
        let stored = if facts.cpu && columns > 0 { 1 << columns.trailing_zeros().min(widest.ilog2()) } else { widest };
        let filled = shapes
            .iter()
            .filter(|(vectors, _)| facts.cpu && columns.div_ceil(widest) == *vectors)
            .map(|(vectors, rows)| Tile { lanes: widest, rows: *rows, vectors: *vectors, overlaps: false, stored });
        let tiles = tiles.chain(filled.filter(|tile| tile.columns() > columns));
        // What a column costs, as measured: more in vectors that do not fill a register, and in tiles that load nearly as much as
        // they multiply.
        let narrow = |tile: &Tile| if tile.lanes < widest { 7 } else { 4 };
        let thin = |tile: &Tile| match tile.vectors {
            _ if !facts.cpu => 4,
            1 => 6,
            2 => 5,
            _ => 4,
        };
        let columns_of = |tile: &Tile| tile.panels(columns) * tile.vectors * tile.lanes.max(widest / 2);
        // Rows that are computed in vain count where there are few.
        let rows_of = |tile: &Tile| if facts.cpu && rows > 1 { rows.next_multiple_of(tile.rows) } else { 1 };
        let cost = |tile: &Tile| columns_of(tile) * narrow(tile) * thin(tile) * rows_of(tile);
        let fits = |tile: &Tile| !tile.overlaps || tile.columns() <= columns.max(1);
        let best = tiles.filter(fits).min_by_key(cost);
        let best = best.unwrap_or(Tile { lanes: 1, rows: 8, vectors: 1, overlaps: facts.cpu, stored: 1 });
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
