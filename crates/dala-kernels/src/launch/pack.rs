//! The launcher that lays a matrix out in panels, as products read their second operand.

use cubecl::prelude::*;
use dala_plan::DeviceFacts;
use dala_plan::work::Pack;
use dala_spec::DType;

use super::{Bound, Geometry, LaunchRefused, Launcher};
use crate::device::fragment::{CompileCount, count_compilation, read_at};

impl Launcher for Pack {
    fn geometry(&self, facts: &DeviceFacts) -> Geometry {
        Geometry::spread(self.batch * self.panels() * self.k, self.tile.lanes, facts)
    }

    fn launch(&self, bound: &Bound) -> Result<(), LaunchRefused> {
        let geometry = bound.launch.geometry;
        let (size, lanes) = (self.dtype.size(), self.tile.lanes);
        let rows = self.batch * self.panels() * self.k;
        geometry.check(rows)?;
        let aligned = !self.transposed && !self.tile.overlaps && self.n.is_multiple_of(lanes);
        let from = match aligned {
            true => bound.slice(0, size * lanes, self.batch * self.k * self.n / lanes)?,
            false => bound.slice(0, size, self.batch * self.k * self.n)?,
        };
        let to = bound.slice_mut(0, size * lanes, rows * self.tile.vectors)?;
        let (cubes, dim) = (geometry.count(), CubeDim::new_1d(geometry.units));
        let (k, n, panels) = (self.k as u32, self.n as u32, self.panels() as u32);
        let vectors = self.tile.vectors as u32;
        macro_rules! launch_with {
            ($type:ty) => {
                // SAFETY: rows and columns are kept inside the matrix, and every panel inside what was checked.
                unsafe {
                    match aligned {
                        true => pack_vectors::launch_unchecked::<$type>(
                            bound.client,
                            cubes,
                            dim,
                            lanes,
                            from,
                            to,
                            k,
                            n / lanes as u32,
                            panels,
                            rows as u32,
                            geometry.steps,
                            vectors,
                            bound.compiled.clone(),
                        ),
                        false => pack_elements::launch_unchecked::<$type>(
                            bound.client,
                            cubes,
                            dim,
                            lanes,
                            from,
                            to,
                            k,
                            n,
                            panels,
                            rows as u32,
                            geometry.steps,
                            vectors,
                            lanes as u32,
                            self.transposed,
                            self.tile.overlaps,
                            bound.compiled.clone(),
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

#[cube(launch_unchecked)]
#[expect(clippy::too_many_arguments, reason = "the arguments of a kernel")]
fn pack_vectors<E: Numeric, N: Size>(
    from: &[Vector<E, N>],
    to: &mut [Vector<E, N>],
    k: u32,
    row_vectors: u32,
    panels: u32,
    rows: u32,
    steps: u32,
    #[comptime] vectors: u32,
    #[comptime] compiled: CompileCount,
) {
    count_compilation(compiled);
    let first = ABSOLUTE_POS as u32 * steps;
    let end = min(first + steps, rows);
    for row in first..end {
        let place = row % k;
        let panel = (row / k) % panels;
        let block = row / k / panels;
        #[unroll]
        for j in 0..vectors {
            let column = panel * vectors + j;
            let inside = min(column, row_vectors - 1u32);
            let found = from[((block * k + place) * row_vectors + inside) as usize];
            let kept = select(column < row_vectors, E::from_int(1), E::from_int(0));
            to[(row * vectors + j) as usize] = found * Vector::new(kept);
        }
    }
}

#[cube(launch_unchecked)]
#[expect(clippy::too_many_arguments, reason = "the arguments of a kernel")]
fn pack_elements<E: Numeric, N: Size>(
    from: &[E],
    to: &mut [Vector<E, N>],
    k: u32,
    columns: u32,
    panels: u32,
    rows: u32,
    steps: u32,
    #[comptime] vectors: u32,
    #[comptime] lanes: u32,
    #[comptime] transposed: bool,
    #[comptime] overlaps: bool,
    #[comptime] compiled: CompileCount,
) {
    count_compilation(compiled);
    let first = ABSOLUTE_POS as u32 * steps;
    let end = min(first + steps, rows);
    for row in first..end {
        let place = row % k;
        let panel = (row / k) % panels;
        let block = row / k / panels;
        let mut start = panel * comptime!(vectors * lanes);
        if comptime!(overlaps) {
            start = min(start, columns - comptime!(vectors * lanes));
        }
        #[unroll]
        for j in 0..vectors {
            let own = start + comptime!(j * lanes);
            let mut packed = Vector::<E, N>::new(E::from_int(0));
            if comptime!(overlaps && !transposed) {
                packed = read_at::<E, N>(from, ((block * k + place) * columns + own) as usize);
            } else {
                #[unroll]
                for lane in 0..lanes {
                    let column = own + lane;
                    let inside = min(column, columns - 1u32);
                    let mut at = (block * k + place) * columns + inside;
                    if comptime!(transposed) {
                        at = (block * columns + inside) * k + place;
                    }
                    let value = select(column < columns, from[at as usize], E::from_int(0));
                    packed.insert(comptime!(lane as usize), value);
                }
            }
            to[(row * vectors + j) as usize] = packed;
        }
    }
}
