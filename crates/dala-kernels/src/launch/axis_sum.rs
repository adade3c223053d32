//! The launcher of weighted sums along an axis: large filters, `resize`, and whatever else tables can say.

use cubecl::prelude::*;
use dala_plan::DeviceFacts;
use dala_plan::work::AxisSum;
use dala_plan::work::width::dividing_width;

use super::{Bound, Geometry, LaunchRefused, Launcher};
use crate::device::args::{Buffers, Scalars};
use crate::device::emit::Layout;
use crate::device::fragment::{
    CompileCount, FragmentCode, Values, Whereabouts, count_compilation, fragment_store, fragment_value,
};

/// What shapes the code.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
struct WeighCode {
    load: FragmentCode,
    store: FragmentCode,
    /// Whether the lanes of a vector share their place on the axis.
    together: bool,
}

/// Whether vectors of `width` elements never straddle two places of the axis.
fn together(weigh: &AxisSum, width: usize) -> bool {
    width > 1 && weigh.inner.is_multiple_of(width)
}

impl Launcher for AxisSum {
    fn geometry(&self, facts: &DeviceFacts) -> Geometry {
        let width = dividing_width(self.inner, if facts.cpu { 16 } else { 4 });
        // Four lanes make a word of bytes, which is the least that can be stored everywhere.
        let width = width.max(4);
        Geometry::spread((self.outer * self.to * self.inner).div_ceil(width), width, facts)
    }

    fn launch(&self, bound: &Bound) -> Result<(), LaunchRefused> {
        let geometry = bound.launch.geometry;
        let width = geometry.width;
        let (total, together) = (self.outer * self.to * self.inner, together(self, width));
        let items = total.div_ceil(width);
        geometry.check(items)?;
        let (layout, single) = (bound.layout(width), bound.layout(1));
        let loaded = self.outer * self.from * self.inner;
        let tables = self.to * self.taps;
        let (places, weights) = (bound.slice(0, 4, tables)?, bound.slice(1, 4, tables)?);
        let load_layout = if together { layout } else { single };
        let reads = bound.fragment_reads(&[&self.load], load_layout, 2, loaded / load_layout.width, 0)?;
        let binding = layout.binding(self.store.program.outputs()[0], 1);
        let output = bound.output(0, binding.elem, binding.width, items)?;
        let [load, store] = FragmentCode::each([&self.load, &self.store], 2);
        // SAFETY: positions come from the axis's sizes, and those in the table were checked against them by its maker.
        unsafe {
            weigh_axis::launch_unchecked(
                bound.client,
                geometry.count(),
                CubeDim::new_1d(geometry.units),
                width,
                places,
                weights,
                reads,
                vec![output],
                bound.scalars(),
                self.from as u32,
                self.to as u32,
                self.inner as u32,
                self.taps as u32,
                total as u32,
                items as u32,
                geometry.steps,
                WeighCode { load, store, together },
                layout,
                single,
                bound.compiled.clone(),
            );
        }
        Ok(())
    }
}

#[cube(launch_unchecked)]
#[expect(clippy::too_many_arguments, reason = "the arguments of a kernel")]
fn weigh_axis<N: Size>(
    places: &[u32],
    weights: &[f32],
    reads: &Buffers,
    outputs: &mut Buffers,
    params: &Scalars,
    from: u32,
    to: u32,
    inner: u32,
    taps: u32,
    total: u32,
    items: u32,
    steps: u32,
    #[comptime] code: WeighCode,
    #[comptime] layout: Layout,
    #[comptime] single: Layout,
    #[comptime] compiled: CompileCount,
) {
    count_compilation(compiled);
    let width = comptime!(layout.width as u32);
    let nothing = Values::new();
    let first = ABSOLUTE_POS as u32 * steps;
    let end = min(first + steps, items);
    for item in first..end {
        let mut sum = Vector::<f32, N>::new(0.0f32);
        if comptime!(code.together) {
            let vectors = inner / width;
            let row = item / vectors;
            let side = item % vectors;
            let place = row % to;
            let block = row / to;
            for tap in 0..taps {
                let entry = (place * taps + tap) as usize;
                let found = places[entry];
                if found < from {
                    let position = (block * from + found) * vectors + side;
                    let at = Whereabouts { position: position as usize, column: 0usize, some: items };
                    let part = comptime!(code.load.clone());
                    let value = fragment_value::<Vector<f32, N>>(reads, params, &nothing, at, part, layout);
                    sum += value * Vector::new(weights[entry]);
                }
            }
        } else {
            #[unroll]
            for lane in 0..width {
                let element = min(item * width + lane, total - 1u32);
                let row = element / inner;
                let side = element % inner;
                let place = row % to;
                let block = row / to;
                let mut own = 0.0f32;
                for tap in 0..taps {
                    let entry = (place * taps + tap) as usize;
                    let found = places[entry];
                    if found < from {
                        let position = (block * from + found) * inner + side;
                        let at = Whereabouts { position: position as usize, column: 0usize, some: items };
                        let part = comptime!(code.load.clone());
                        let value = fragment_value::<f32>(reads, params, &nothing, at, part, single);
                        own += value * weights[entry];
                    }
                }
                sum.insert(comptime!(lane as usize), own);
            }
        }
        let mut values = Values::new();
        values.push::<Vector<f32, N>>(sum);
        let at = Whereabouts { position: item as usize, column: 0usize, some: items };
        let part = comptime!(code.store.clone());
        fragment_store(reads, outputs, params, &values, at, part, layout);
    }
}
