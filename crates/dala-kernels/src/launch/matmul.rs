//! The launcher of matrix products.
//!
//! A unit keeps a tile of the result in registers and walks along k. The second operand is packed into panels first, so that
//! it is read in order. There is no shared memory and no barrier: the same kernel suits a CPU and a driver that lacks either.
//! Convolutions are products too: the rows of their first operand are windows of pictures, found where they lie.

use cubecl::prelude::*;
use dala_plan::DeviceFacts;
use dala_plan::work::{Matmul, Windows};
use dala_spec::DType;

use super::{Bound, Geometry, LaunchRefused, Launcher, check_elements, settled};
use crate::device::args::{Buffers, Scalars};
use crate::device::emit::Layout;
use crate::device::fragment::{
    CompileCount, FragmentCode, Values, Whereabouts, count_compilation, fragment_store, read_at,
};

/// How many steps along k are unrolled on a CPU. Drivers of GPUs take long to compile what they would unroll themselves.
const UNROLLED: usize = 4;

const NO_WINDOWS: WindowCode =
    WindowCode { size: [1, 1], stride: [1, 1], dilation: [1, 1], padding: [0, 0], leave: false, planar: false };

fn row_tiles(matmul: &Matmul) -> usize {
    matmul.m.div_ceil(matmul.tile.rows)
}

fn panels(matmul: &Matmul) -> usize {
    matmul.tile.panels(matmul.n)
}

/// Pieces of work: panels where they are packed on the way, tiles elsewhere.
fn items(matmul: &Matmul) -> usize {
    matmul.batch * panels(matmul) * if matmul.packs { 1 } else { row_tiles(matmul) }
}

/// What shapes the code.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
struct MatmulCode {
    store: FragmentCode,
    rows: usize,
    vectors: usize,
    /// Whether the elements are integers, which no device multiplies and adds at once.
    whole: bool,
    /// Whether the first operand is transposed.
    transposed: bool,
    /// Elements of a vector.
    lanes: usize,
    /// The columns of the result where they are one panel, whose last vector is filled up.
    filled: Option<usize>,
    /// Whether the last panel has columns in common with the one before.
    overlaps: bool,
    unrolled: bool,
    windows: Option<WindowCode>,
}

impl MatmulCode {
    /// The code for windows that lie inside of their pictures.
    fn inside(&self) -> MatmulCode {
        let windows = self.windows.map(|windows| WindowCode { leave: false, ..windows });
        MatmulCode { windows, ..self.clone() }
    }

    /// The code for windows that do not: it is little, for few run it.
    fn at_borders(&self) -> MatmulCode {
        MatmulCode { unrolled: false, ..self.clone() }
    }
}

/// What windows change about the code.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(super) struct WindowCode {
    pub(super) size: [u32; 2],
    pub(super) stride: [u32; 2],
    pub(super) dilation: [u32; 2],
    pub(super) padding: [i32; 2],
    /// Whether some lie partly outside of the picture.
    pub(super) leave: bool,
    planar: bool,
}

impl WindowCode {
    pub(super) fn of(windows: &Windows) -> WindowCode {
        let both = |sizes: [usize; 2]| sizes.map(|size| size as u32);
        WindowCode {
            size: both(windows.size),
            stride: both(windows.stride),
            dilation: both(windows.dilation),
            padding: windows.padding.map(|size| size as i32),
            leave: windows.leave_the_picture(),
            planar: windows.planar,
        }
    }
}

/// Bytes of the first operand that are worked on at a time: they stay in a core's cache while panels change.
const BAND: usize = 256 << 10;

/// How many row tiles are worked on before the next panel is.
fn band(matmul: &Matmul, facts: &DeviceFacts) -> usize {
    let tiles = row_tiles(matmul);
    // Neighbouring windows share most of what they read.
    let row = match &matmul.windows {
        Some(windows) => windows.channels * windows.stride[0] * windows.stride[1],
        None => matmul.k,
    };
    let tile = matmul.tile.rows * row.min(matmul.k) * matmul.dtype.size();
    if facts.cpu { (BAND / tile.max(1)).clamp(1, tiles.max(1)) } else { tiles.max(1) }
}

impl Launcher for Matmul {
    fn geometry(&self, facts: &DeviceFacts) -> Geometry {
        let items = items(self);
        let geometry = Geometry::spread(items, self.tile.lanes, facts);
        match self.packs {
            // Panels are long work: cores take turns, so that both end together.
            true => Geometry { steps: 1, cubes: (items.div_ceil(geometry.units as usize) as u32, 1, 1), ..geometry },
            false => geometry,
        }
    }

    fn launch(&self, bound: &Bound) -> Result<(), LaunchRefused> {
        let geometry = bound.launch.geometry;
        let (size, tile) = (self.dtype.size(), self.tile);
        let items = items(self);
        geometry.check(items)?;
        let whole = match tile.overlaps {
            true => bound.launch.facts.cpu && self.n >= tile.columns(),
            false => !self.packs && self.n.is_multiple_of(tile.stored),
        };
        if !whole {
            return Err(LaunchRefused(format!("rows of {} do not end where a vector does", self.n)));
        }
        let a_batch = if self.a_batched { self.batch } else { 1 };
        let b_batch = if self.b_batched { self.batch } else { 1 };
        let a_len = match &self.windows {
            Some(windows) => {
                if self.batch > 1 || self.packs || self.a_transposed || windows.len() != self.k {
                    return Err(LaunchRefused("windows are rows of one product, whose panels are packed".to_owned()));
                }
                let images = self.m / (windows.to[0] * windows.to[1]).max(1);
                images * windows.from[0] * windows.from[1] * windows.channels
            }
            None => a_batch * self.m * self.k,
        };
        let a = bound.slice(0, size, a_len)?;
        let b = match self.packs {
            true => bound.slice(1, size, b_batch * self.k * self.n)?,
            false => bound.slice(1, size * tile.lanes, b_batch * panels(self) * self.k * tile.vectors)?,
        };
        let layout = bound.layout_of_lines(tile.stored);
        let elements = self.batch * self.m * self.n;
        check_elements(elements)?;
        let results = layout.positions(elements);
        let reads = bound.fragment_reads(&[&self.store], layout, 2, results, layout.positions(self.n))?;
        let binding = layout.binding(self.store.program.outputs()[0], 1);
        let outputs = vec![bound.output(0, binding.elem, binding.width, results)?];
        let [store] = FragmentCode::each([&self.store], 2);
        let plane = self.windows.filter(|own| own.planar).map(|own| (own.from[0] * own.from[1]) as u32);
        let code = MatmulCode {
            store,
            rows: tile.rows,
            vectors: tile.vectors,
            whole: !self.dtype.is_float(),
            transposed: self.a_transposed || plane.is_some(),
            lanes: tile.lanes,
            filled: (tile.stored < tile.lanes).then_some(self.n),
            overlaps: tile.overlaps,
            unrolled: bound.launch.facts.cpu,
            windows: self.windows.as_ref().map(WindowCode::of),
        };
        let (from, to, channels) = self.windows.map_or(([1, 1], [1, 1], 1), |own| (own.from, own.to, own.channels));
        let ([from_rows, from_columns], [to_rows, to_columns]) = (from.map(|n| n as u32), to.map(|n| n as u32));
        let (channels, band) = (channels as u32, band(self, bound.launch.facts) as u32);
        let (m, k, params) = (self.m as u32, self.k as u32, bound.scalars());
        let (row_stride, k_stride) = if self.a_transposed { (1, m) } else { (k, plane.unwrap_or(1)) };
        let a_block = if self.a_batched { m * k } else { 0 };
        let b_block = if self.b_batched { 1 } else { 0 };
        let (n, tiles, panels) = (self.n as u32, row_tiles(self) as u32, panels(self) as u32);
        let (cubes, dim, items, steps) =
            (geometry.count(), CubeDim::new_1d(geometry.units), items as u32, geometry.steps);
        let (lanes, stored, count) = (tile.lanes, tile.stored, bound.compiled.clone());
        macro_rules! launch_with {
            ($type:ty) => {
                // SAFETY: rows are kept inside the first operand, panels inside the second, and results are stored only where the
                // output has a place for them. Each unit has a panel of its own to pack into: on a CPU, where this is used, its
                // cubes run one after the other.
                unsafe {
                    match self.packs {
                        true => {
                            let panel = self.k * tile.vectors;
                            let scratch = bound.slice_mut(1, size * lanes, geometry.units as usize * panel)?;
                            multiply_panels::launch_unchecked::<$type>(
                                bound.client, cubes, dim, lanes, stored, a, b, scratch, reads, outputs, params, m, k, n,
                                row_stride, k_stride, a_block, b_block, tiles, panels, items, steps, code, layout, count,
                            );
                        }
                        false => multiply::launch_unchecked::<$type>(
                            bound.client, cubes, dim, lanes, stored, a, b, reads, outputs, params, m, k, n, row_stride, k_stride,
                            a_block, b_block, tiles, panels, band, from_rows, from_columns, to_rows, to_columns, channels,
                            items, steps, 0, code, layout, count,
                        ),
                    }
                }
            };
        }
        match self.dtype {
            DType::F64 => launch_with!(f64),
            DType::S32 => launch_with!(i32),
            _ => launch_with!(f32),
        }
        Ok(())
    }
}

/// One step along k: a row of the panel, times a column of the tile's rows.
#[cube]
fn accumulate<E: Numeric, N: Size>(
    a: &[E],
    packed: &[Vector<E, N>],
    sums: &mut Array<Vector<E, N>>,
    rows: &mut Array<usize>,
    kept: &Array<u32>,
    panel_at: usize,
    stride: usize,
    #[comptime] code: MatmulCode,
) {
    let (tile_rows, vectors) = comptime!((code.rows, code.vectors));
    let mut panel = Array::<Vector<E, N>>::new(vectors);
    #[unroll]
    for j in 0..vectors {
        panel[j] = packed[panel_at + j];
    }
    #[unroll]
    for i in 0..tile_rows {
        let mut element = a[rows[i]];
        if comptime!(code.windows.is_some_and(|windows| windows.leave)) {
            element = select(kept[i] == 1u32, element, E::from_int(0));
        }
        let own = Vector::new(element);
        // Walked along rather than computed anew: the compiler would do so at every step. Neighbours along k are neighbours in
        // memory, unless the operand is transposed.
        if comptime!(code.transposed) {
            rows[i] += stride;
        } else {
            rows[i] += 1usize;
        }
        #[unroll]
        for j in 0..vectors {
            let sum = comptime!(i * vectors + j);
            if comptime!(code.whole) {
                sums[sum] += own * panel[j];
            } else {
                sums[sum] = fma(own, panel[j], sums[sum]);
            }
        }
    }
}

/// `length` steps along k.
#[cube]
#[expect(clippy::too_many_arguments, reason = "the state of a tile")]
fn walk<E: Numeric, N: Size>(
    a: &[E],
    packed: &[Vector<E, N>],
    sums: &mut Array<Vector<E, N>>,
    rows: &mut Array<usize>,
    kept: &Array<u32>,
    start: usize,
    stride: usize,
    length: usize,
    #[comptime] code: MatmulCode,
) {
    let vectors = comptime!(code.vectors);
    let mut panel_at = start;
    let mut rest = length;
    if comptime!(code.unrolled) {
        rest = length % UNROLLED;
        for _ in 0..length / UNROLLED {
            #[unroll]
            for part in 0..UNROLLED {
                let at = panel_at + part * vectors;
                accumulate::<E, N>(a, packed, sums, rows, kept, at, stride, comptime!(code.clone()));
            }
            panel_at += comptime!(UNROLLED * vectors);
        }
    }
    for _ in 0..rest {
        accumulate::<E, N>(a, packed, sums, rows, kept, panel_at, stride, comptime!(code.clone()));
        panel_at += vectors;
    }
}

/// The windows of a tile's rows, tap by tap.
#[cube]
#[expect(clippy::too_many_arguments, reason = "the state of a tile")]
fn walk_windows<E: Numeric, N: Size>(
    a: &[E],
    packed: &[Vector<E, N>],
    sums: &mut Array<Vector<E, N>>,
    rows: &mut Array<usize>,
    sizes: &Sizes,
    panel_start: usize,
    tile: u32,
    #[comptime] code: MatmulCode,
) {
    let windows = comptime!(code.windows.unwrap_or(NO_WINDOWS));
    let (size, steps, dilation, padding) = comptime!((windows.size, windows.stride, windows.dilation, windows.padding));
    let tile_rows = comptime!(code.rows);
    let stride = sizes.k_stride as usize;
    let mut tops = Array::<i32>::new(tile_rows);
    let mut lefts = Array::<i32>::new(tile_rows);
    let mut pictures = Array::<u32>::new(tile_rows);
    let pixels = sizes.to_rows * sizes.to_columns;
    let last_picture = sizes.m / pixels - 1u32;
    let first = tile * comptime!(code.rows as u32);
    let mut picture = settled(first / pixels, sizes.nothing);
    let within = settled(first % pixels, sizes.nothing);
    let mut y = settled(within / sizes.to_columns, sizes.nothing);
    let mut x = settled(within % sizes.to_columns, sizes.nothing);
    let mut leaving = 0u32;
    // How far windows reach.
    let reach = comptime!([0, 1].map(|axis| ((size[axis] - 1) * dilation[axis] + 1) as i32));
    #[unroll]
    for i in 0..tile_rows {
        tops[i] = (y * comptime!(steps[0])) as i32 - comptime!(padding[0]);
        lefts[i] = (x * comptime!(steps[1])) as i32 - comptime!(padding[1]);
        pictures[i] = picture * sizes.from_rows;
        if comptime!(windows.planar) {
            pictures[i] *= sizes.channels;
        }
        if comptime!(windows.leave) {
            let inside = tops[i] >= 0i32
                && tops[i] + comptime!(reach[0]) <= sizes.from_rows as i32
                && lefts[i] >= 0i32
                && lefts[i] + comptime!(reach[1]) <= sizes.from_columns as i32;
            leaving += select(inside, 0u32, 1u32);
        }
        // The next pixel, without a division.
        let ends_row = x + 1u32 == sizes.to_columns;
        x = select(ends_row, 0u32, x + 1u32);
        y = select(ends_row, y + 1u32, y);
        let ends_picture = y == sizes.to_rows;
        y = select(ends_picture, 0u32, y);
        // Pixels beyond the last one are computed from its picture, and not stored.
        picture = select(ends_picture, min(picture + 1u32, last_picture), picture);
    }
    // Elements between neighbours along a row.
    let mut apart = sizes.channels;
    if comptime!(windows.planar) {
        apart = 1u32.runtime();
    }
    // Neighbours along a window's row are neighbours in memory, unless channels lie apart: one run, where all are inside.
    let runs = comptime!(!windows.planar && dilation[1] == 1);
    let mut taps = comptime!(size[1]) + sizes.nothing;
    let mut length = sizes.channels;
    if comptime!(runs) && leaving == 0u32 {
        taps = 1u32 + sizes.nothing;
        length *= comptime!(size[1]);
    }
    let length = length as usize;
    let mut kept = Array::<u32>::new(tile_rows);
    let mut panel_at = panel_start;
    // Loops of unknown length: drivers would unroll others, and take seconds to compile.
    for window_row in 0..comptime!(size[0]) + sizes.nothing {
        for tap in 0..taps {
            let mut outside = 0u32;
            #[unroll]
            for i in 0..tile_rows {
                let row = tops[i] + (window_row * comptime!(dilation[0])) as i32;
                let column = lefts[i] + (tap * comptime!(dilation[1])) as i32;
                let at = ((pictures[i] + row as u32) * sizes.from_columns + column as u32) * apart;
                if comptime!(windows.leave) {
                    let own = leaving == 0u32
                        || (row >= 0i32
                            && row < sizes.from_rows as i32
                            && column >= 0i32
                            && column < sizes.from_columns as i32);
                    kept[i] = select(own, 1u32, 0u32);
                    outside += select(own, 0u32, 1u32);
                    rows[i] = select(own, at, 0u32) as usize;
                } else {
                    rows[i] = at as usize;
                }
            }
            if comptime!(!windows.leave || !code.unrolled) {
                walk::<E, N>(a, packed, sums, rows, &kept, panel_at, stride, length, comptime!(code.clone()));
            } else {
                // Most taps of most tiles lie inside of their pictures.
                if outside == 0u32 {
                    walk::<E, N>(a, packed, sums, rows, &kept, panel_at, stride, length, comptime!(code.inside()));
                } else {
                    walk::<E, N>(a, packed, sums, rows, &kept, panel_at, stride, length, comptime!(code.at_borders()));
                }
            }
            panel_at += length * comptime!(code.vectors);
        }
    }
}

/// The sizes of a product inside a kernel.
#[derive(CubeType, Clone, Copy)]
struct Sizes {
    m: u32,
    k: u32,
    /// Columns of the result.
    columns: u32,
    /// How far apart rows of the first operand are, and neighbours along k.
    row_stride: u32,
    k_stride: u32,
    /// How far apart first operands are.
    a_block: u32,
    /// Rows and columns of the pictures whose windows are multiplied, and of the result; elements of a pixel.
    from_rows: u32,
    from_columns: u32,
    to_rows: u32,
    to_columns: u32,
    channels: u32,
    /// Some count that is at least one.
    some: u32,
    /// Zero: see [`settled`].
    nothing: u32,
}

/// One tile of the result: `panel_at` is where its panel starts in `packed`.
#[cube]
#[expect(clippy::too_many_arguments, reason = "the arguments of a kernel")]
fn compute_tile<E: Numeric, N: Size, S: Size>(
    a: &[E],
    packed: &[Vector<E, N>],
    reads: &Buffers,
    outputs: &mut Buffers,
    params: &Scalars,
    sizes: &Sizes,
    panel_start: usize,
    tile: u32,
    panel: u32,
    block: u32,
    #[comptime] code: MatmulCode,
    #[comptime] layout: Layout,
) {
    let (tile_rows, vectors) = comptime!((code.rows, code.vectors));
    let rows_u32 = comptime!(code.rows as u32);
    let mut rows = Array::<usize>::new(tile_rows);
    let kept = Array::<u32>::new(tile_rows);
    let mut sums = Array::<Vector<E, N>>::new(comptime!(tile_rows * vectors));
    #[unroll]
    for i in 0..comptime!(tile_rows * vectors) {
        sums[i] = Vector::new(E::from_int(0));
    }
    let stride = sizes.k_stride as usize;
    if comptime!(code.windows.is_none()) {
        #[unroll]
        for i in 0..tile_rows {
            // Rows beyond the last one are computed from it, and not stored.
            let row = min(tile * rows_u32 + comptime!(i as u32), sizes.m - 1u32);
            rows[i] = (block * sizes.a_block + row * sizes.row_stride) as usize;
        }
        let length = sizes.k as usize;
        walk::<E, N>(a, packed, &mut sums, &mut rows, &kept, panel_start, stride, length, comptime!(code.clone()));
    } else {
        walk_windows::<E, N>(a, packed, &mut sums, &mut rows, sizes, panel_start, tile, comptime!(code.clone()));
    }
    let (lanes, stored) = comptime!((code.lanes, layout.width));
    let own = comptime!((code.vectors * code.lanes) as u32);
    let start = first_column(panel, sizes.columns, own, comptime!(code.overlaps));
    // What is stored of each row: all vectors, or as much as the result has columns.
    let parts = comptime!(code.filled.unwrap_or(code.vectors * lanes) / stored);
    if comptime!(code.unrolled) {
        // The store program is long: one in a loop, over sums that have left the registers.
        let mut made = Array::<Vector<E, S>>::new(comptime!(tile_rows * parts));
        #[unroll]
        for i in 0..tile_rows {
            #[unroll]
            for part in 0..parts {
                let sum = sums[comptime!(i * vectors + part * stored / lanes)];
                made[comptime!(i * parts + part)] =
                    part_of::<E, N, S>(sum, comptime!(part * stored % lanes), comptime!(stored));
            }
        }
        let rows_left = min(sizes.m - tile * rows_u32, rows_u32);
        for i in 0..rows_left {
            let row = tile * rows_u32 + i;
            #[unroll(parts <= UNROLLED)]
            for part in 0..parts {
                let column = start + part as u32 * comptime!(stored as u32);
                let at = i as usize * parts + part;
                store::<E, S>(
                    reads,
                    outputs,
                    params,
                    sizes,
                    block,
                    row,
                    column,
                    made[at],
                    comptime!(code.store.clone()),
                    layout,
                );
            }
        }
    } else {
        #[unroll]
        for i in 0..tile_rows {
            let row = tile * rows_u32 + comptime!(i as u32);
            if row < sizes.m {
                #[unroll]
                for j in 0..vectors {
                    let column = start + comptime!((j * lanes) as u32);
                    if column < sizes.columns {
                        let sum = sums[comptime!(i * vectors + j)];
                        store::<E, N>(
                            reads,
                            outputs,
                            params,
                            sizes,
                            block,
                            row,
                            column,
                            sum,
                            comptime!(code.store.clone()),
                            layout,
                        );
                    }
                }
            }
        }
    }
}

/// Stores a vector of results.
#[cube]
#[expect(clippy::too_many_arguments, reason = "the arguments of a kernel")]
fn store<E: Numeric, N: Size>(
    reads: &Buffers,
    outputs: &mut Buffers,
    params: &Scalars,
    sizes: &Sizes,
    block: u32,
    row: u32,
    column: u32,
    sum: Vector<E, N>,
    #[comptime] program: FragmentCode,
    #[comptime] layout: Layout,
) {
    let unit = comptime!(layout.unit() as u32);
    let mut values = Values::new();
    values.push::<Vector<E, N>>(sum);
    let position = ((block * sizes.m + row) * sizes.columns + column) / unit;
    let at = Whereabouts { position: position as usize, column: (column / unit) as usize, some: sizes.some };
    fragment_store(reads, outputs, params, &values, at, program, layout);
}

/// The elements of a vector from `start` on.
#[cube]
fn part_of<E: Numeric, N: Size, S: Size>(
    whole: Vector<E, N>,
    #[comptime] start: usize,
    #[comptime] count: usize,
) -> Vector<E, S> {
    let mut part = Vector::<E, S>::new(E::from_int(0));
    #[unroll]
    for lane in 0..count {
        part.insert(lane, whole.extract(comptime!(start + lane)));
    }
    part
}

/// Where a panel of `own` columns begins.
#[cube]
fn first_column(panel: u32, columns: u32, own: u32, #[comptime] overlaps: bool) -> u32 {
    let mut start = panel * own;
    if comptime!(overlaps) {
        start = min(start, columns - own);
    }
    start
}

/// Tiles of a product whose second operand is packed.
#[cube(launch_unchecked)]
#[expect(clippy::too_many_arguments, reason = "the arguments of a kernel")]
fn multiply<E: Numeric, N: Size, S: Size>(
    a: &[E],
    packed: &[Vector<E, N>],
    reads: &Buffers,
    outputs: &mut Buffers,
    params: &Scalars,
    m: u32,
    k: u32,
    columns: u32,
    row_stride: u32,
    k_stride: u32,
    a_block: u32,
    b_block: u32,
    row_tiles: u32,
    panels: u32,
    band: u32,
    from_rows: u32,
    from_columns: u32,
    to_rows: u32,
    to_columns: u32,
    channels: u32,
    items: u32,
    steps: u32,
    nothing: u32,
    #[comptime] code: MatmulCode,
    #[comptime] layout: Layout,
    #[comptime] compiled: CompileCount,
) {
    count_compilation(compiled);
    let sizes = Sizes {
        m,
        k,
        columns,
        row_stride,
        k_stride,
        a_block,
        from_rows,
        from_columns,
        to_rows,
        to_columns,
        channels,
        some: items,
        nothing,
    };
    let vectors = comptime!(code.vectors as u32);
    let first = ABSOLUTE_POS as u32 * steps;
    let end = min(first + steps, items);
    for item in first..end {
        // Neighbouring items share a panel; the tiles of a band share their rows.
        let block = settled(item / (row_tiles * panels), nothing);
        let own = settled(item % (row_tiles * panels), nothing);
        let start = settled(own / (band * panels), nothing) * band;
        let in_band = own - start * panels;
        let tiles = min(band, row_tiles - start);
        let panel = settled(in_band / tiles, nothing);
        let tile = start + settled(in_band % tiles, nothing);
        let panel_start = ((block * b_block * panels + panel) * k * vectors) as usize;
        compute_tile::<E, N, S>(
            a,
            packed,
            reads,
            outputs,
            params,
            &sizes,
            panel_start,
            tile,
            panel,
            block,
            comptime!(code.clone()),
            layout,
        );
    }
}

/// Panels of a product: each unit packs the one it works on, and keeps it in its cache.
#[cube(launch_unchecked)]
#[expect(clippy::too_many_arguments, reason = "the arguments of a kernel")]
fn multiply_panels<E: Numeric, N: Size, S: Size>(
    a: &[E],
    b: &[E],
    scratch: &mut [Vector<E, N>],
    reads: &Buffers,
    outputs: &mut Buffers,
    params: &Scalars,
    m: u32,
    k: u32,
    columns: u32,
    row_stride: u32,
    k_stride: u32,
    a_block: u32,
    b_block: u32,
    row_tiles: u32,
    panels: u32,
    items: u32,
    steps: u32,
    #[comptime] code: MatmulCode,
    #[comptime] layout: Layout,
    #[comptime] compiled: CompileCount,
) {
    count_compilation(compiled);
    let sizes = Sizes {
        m,
        k,
        columns,
        row_stride,
        k_stride,
        a_block,
        from_rows: 1u32,
        from_columns: 1u32,
        to_rows: 1u32,
        to_columns: 1u32,
        channels: 1u32,
        some: items,
        nothing: 0u32,
    };
    let vectors = comptime!(code.vectors);
    let own = UNIT_POS as usize * k as usize * vectors;
    let first = ABSOLUTE_POS as u32 * steps;
    let end = min(first + steps, items);
    for item in first..end {
        let panel = item % panels;
        let block = item / panels;
        let start =
            first_column(panel, columns, comptime!((code.vectors * code.lanes) as u32), comptime!(code.overlaps));
        let mut from = (block * b_block * k * columns + start) as usize;
        let mut to = own;
        for _ in 0..k {
            #[unroll]
            for j in 0..vectors {
                scratch[to + j] = read_at::<E, N>(b, from + comptime!(j * code.lanes));
            }
            from += columns as usize;
            to += vectors;
        }
        for tile in 0..row_tiles {
            compute_tile::<E, N, S>(
                a,
                &*scratch,
                reads,
                outputs,
                params,
                &sizes,
                own,
                tile,
                panel,
                block,
                comptime!(code.clone()),
                layout,
            );
        }
    }
}
