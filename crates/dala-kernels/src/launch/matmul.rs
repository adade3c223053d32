//! The launcher of matrix products.
//!
//! A unit keeps a tile of the result in registers and walks along k. The second operand is packed into panels first, so that
//! it is read in order. There is no shared memory and no barrier: the same kernel suits a CPU and a driver that lacks either.

use cubecl::client::Client;
use cubecl::prelude::*;
use dala_spec::work::Matmul;
use dala_spec::{DType, DeviceFacts};

use super::{Bound, Geometry, LaunchRefused};
use crate::device::args::{Buffers, Scalars};
use crate::device::emit::Layout;
use crate::device::fragment::{CompileCount, Part, Values, Whereabouts, count_compilation, fragment_store};

/// How many steps along k are unrolled.
const UNROLLED: usize = 4;

fn row_tiles(matmul: &Matmul) -> usize {
    matmul.m.div_ceil(matmul.tile.rows)
}

fn panels(matmul: &Matmul) -> usize {
    matmul.n.div_ceil(matmul.tile.columns())
}

/// Pieces of work: panels where they are packed on the way, tiles elsewhere.
fn items(matmul: &Matmul) -> usize {
    matmul.batch * panels(matmul) * if matmul.packs { 1 } else { row_tiles(matmul) }
}

pub(super) fn geometry(matmul: &Matmul, facts: &DeviceFacts) -> Geometry {
    let items = items(matmul);
    let geometry = Geometry::spread(items, matmul.tile.lanes, facts);
    match matmul.packs {
        // Panels are long work: cores take turns, so that both end together.
        true => Geometry { steps: 1, cubes: (items.div_ceil(geometry.units as usize) as u32, 1, 1), ..geometry },
        false => geometry,
    }
}

/// What shapes the code.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
struct MatmulCode {
    store: Part,
    rows: usize,
    vectors: usize,
    /// Whether the first operand is transposed.
    transposed: bool,
}

pub(super) fn launch(
    client: &Client,
    compiled: &CompileCount,
    matmul: &Matmul,
    geometry: Geometry,
    bound: &Bound,
) -> Result<(), LaunchRefused> {
    let (size, tile) = (matmul.dtype.size(), matmul.tile);
    let items = items(matmul);
    geometry.check(items)?;
    if !matmul.n.is_multiple_of(tile.lanes) {
        return Err(LaunchRefused(format!("rows of {} do not end where a vector does", matmul.n)));
    }
    let a_batch = if matmul.a_batched { matmul.batch } else { 1 };
    let b_batch = if matmul.b_batched { matmul.batch } else { 1 };
    let a = bound.slice(0, size, a_batch * matmul.m * matmul.k)?;
    let b_vectors = match matmul.packs {
        true => matmul.k * matmul.n / tile.lanes,
        false => panels(matmul) * matmul.k * tile.vectors,
    };
    let b = bound.slice(1, size * tile.lanes, b_batch * b_vectors)?;
    let layout = bound.layout(tile.lanes);
    let results = matmul.batch * matmul.m * matmul.n / tile.lanes;
    let reads = bound.fragment_reads(&[&matmul.store], layout, 2, results, matmul.n / tile.lanes)?;
    let binding = layout.binding(matmul.store.program.outputs()[0], 1);
    let outputs = vec![bound.output(0, binding.elem, binding.width, results)?];
    let [store] = Part::each([&matmul.store], 2);
    let code = MatmulCode { store, rows: tile.rows, vectors: tile.vectors, transposed: matmul.a_transposed };
    let (m, k, params) = (matmul.m as u32, matmul.k as u32, bound.scalars());
    let (row_stride, k_stride) = if matmul.a_transposed { (1, m) } else { (k, 1) };
    let a_block = if matmul.a_batched { m * k } else { 0 };
    let b_block = if matmul.b_batched { 1 } else { 0 };
    let (row_vectors, tiles, panels) =
        ((matmul.n / tile.lanes) as u32, row_tiles(matmul) as u32, panels(matmul) as u32);
    let (cubes, dim, items, steps) = (geometry.count(), CubeDim::new_1d(geometry.units), items as u32, geometry.steps);
    let (lanes, count) = (tile.lanes, compiled.clone());
    macro_rules! launch_with {
        ($type:ty) => {
            // SAFETY: rows are kept inside the first operand, panels inside the second, and results are stored only where the
            // output has a place for them. Each unit has a panel of its own to pack into: on a CPU, where this is used, its
            // cubes run one after the other.
            unsafe {
                match matmul.packs {
                    true => {
                        let panel = matmul.k * tile.vectors;
                        let scratch = bound.slice_mut(1, size * lanes, geometry.units as usize * panel)?;
                        multiply_panels::launch_unchecked::<$type>(
                            client, cubes, dim, lanes, a, b, scratch, reads, outputs, params, m, k, row_vectors,
                            row_stride, k_stride, a_block, b_block, tiles, panels, items, steps, code, layout, count,
                        );
                    }
                    false => multiply::launch_unchecked::<$type>(
                        client, cubes, dim, lanes, a, b, reads, outputs, params, m, k, row_vectors, row_stride, k_stride,
                        a_block, b_block, tiles, panels, items, steps, code, layout, count,
                    ),
                }
            }
        };
    }
    match matmul.dtype {
        DType::F64 => launch_with!(f64),
        _ => launch_with!(f32),
    }
    Ok(())
}

/// One step along k: a row of the panel, times a column of the tile's rows.
#[cube]
fn accumulate<E: Numeric, N: Size>(
    a: &[E],
    packed: &[Vector<E, N>],
    sums: &mut Array<Vector<E, N>>,
    rows: &mut Array<usize>,
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
        let own = Vector::new(a[rows[i]]);
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
            sums[sum] = fma(own, panel[j], sums[sum]);
        }
    }
}

/// The sizes of a product inside a kernel.
#[derive(CubeType, Clone, Copy)]
struct Sizes {
    m: u32,
    k: u32,
    /// Vectors of a row of the result.
    row_vectors: u32,
    /// How far apart rows of the first operand are, and neighbours along k.
    row_stride: u32,
    k_stride: u32,
    /// How far apart first operands are.
    a_block: u32,
    /// Some count that is at least one.
    some: u32,
}

/// One tile of the result: `panel_at` is where its panel starts in `packed`.
#[cube]
#[expect(clippy::too_many_arguments, reason = "the arguments of a kernel")]
fn compute_tile<E: Numeric, N: Size>(
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
    let (rows_u32, vectors_u32) = comptime!((code.rows as u32, code.vectors as u32));
    let mut rows = Array::<usize>::new(tile_rows);
    #[unroll]
    for i in 0..tile_rows {
        // Rows beyond the last one are computed from it, and not stored.
        let row = min(tile * rows_u32 + comptime!(i as u32), sizes.m - 1u32);
        rows[i] = (block * sizes.a_block + row * sizes.row_stride) as usize;
    }
    let mut panel_at = panel_start;
    let mut sums = Array::<Vector<E, N>>::new(comptime!(tile_rows * vectors));
    #[unroll]
    for i in 0..comptime!(tile_rows * vectors) {
        sums[i] = Vector::new(E::from_int(0));
    }
    let stride = sizes.k_stride as usize;
    let length = sizes.k as usize;
    for _ in 0..length / UNROLLED {
        #[unroll]
        for part in 0..UNROLLED {
            let at = panel_at + part * vectors;
            accumulate::<E, N>(a, packed, &mut sums, &mut rows, at, stride, comptime!(code.clone()));
        }
        panel_at += comptime!(UNROLLED * vectors);
    }
    for _ in 0..length % UNROLLED {
        accumulate::<E, N>(a, packed, &mut sums, &mut rows, panel_at, stride, comptime!(code.clone()));
        panel_at += vectors;
    }
    #[unroll]
    for i in 0..tile_rows {
        let row = tile * rows_u32 + comptime!(i as u32);
        if row < sizes.m {
            #[unroll]
            for j in 0..vectors {
                let column = panel * vectors_u32 + comptime!(j as u32);
                if column < sizes.row_vectors {
                    let mut values = Values::new();
                    values.push::<Vector<E, N>>(sums[comptime!(i * vectors + j)]);
                    let position = (block * sizes.m + row) * sizes.row_vectors + column;
                    let at = Whereabouts { position: position as usize, column: column as usize, some: sizes.some };
                    fragment_store(reads, outputs, params, &values, at, comptime!(code.store.clone()), layout);
                }
            }
        }
    }
}

/// Tiles of a product whose second operand is packed.
#[cube(launch_unchecked)]
#[expect(clippy::too_many_arguments, reason = "the arguments of a kernel")]
fn multiply<E: Numeric, N: Size>(
    a: &[E],
    packed: &[Vector<E, N>],
    reads: &Buffers,
    outputs: &mut Buffers,
    params: &Scalars,
    m: u32,
    k: u32,
    row_vectors: u32,
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
    let sizes = Sizes { m, k, row_vectors, row_stride, k_stride, a_block, some: items };
    let vectors = comptime!(code.vectors as u32);
    let first = ABSOLUTE_POS as u32 * steps;
    let end = min(first + steps, items);
    for item in first..end {
        // Neighbouring items share a panel.
        let tile = item % row_tiles;
        let panel = (item / row_tiles) % panels;
        let block = item / row_tiles / panels;
        let start = ((block * b_block * panels + panel) * k * vectors) as usize;
        compute_tile::<E, N>(
            a,
            packed,
            reads,
            outputs,
            params,
            &sizes,
            start,
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
fn multiply_panels<E: Numeric, N: Size>(
    a: &[E],
    b: &[Vector<E, N>],
    scratch: &mut [Vector<E, N>],
    reads: &Buffers,
    outputs: &mut Buffers,
    params: &Scalars,
    m: u32,
    k: u32,
    row_vectors: u32,
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
    let sizes = Sizes { m, k, row_vectors, row_stride, k_stride, a_block, some: items };
    let vectors = comptime!(code.vectors);
    let own = UNIT_POS as usize * k as usize * vectors;
    let first = ABSOLUTE_POS as u32 * steps;
    let end = min(first + steps, items);
    for item in first..end {
        let panel = item % panels;
        let block = item / panels;
        let mut from = ((block * b_block * k) * row_vectors + panel * comptime!(code.vectors as u32)) as usize;
        // The last panel may be narrower: what is beyond it is computed from its end, and not stored.
        let last = (row_vectors - 1u32 - panel * comptime!(code.vectors as u32)) as usize;
        let mut to = own;
        for _ in 0..k {
            #[unroll]
            for j in 0..vectors {
                scratch[to + j] = b[from + min(j, last)];
            }
            from += row_vectors as usize;
            to += vectors;
        }
        for tile in 0..row_tiles {
            compute_tile::<E, N>(
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
