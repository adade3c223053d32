//! The launcher of counts. Each part of the data has bins of its own, so that no unit waits for another.

use cubecl::prelude::*;
use dala_plan::DeviceFacts;
use dala_plan::work::Histogram;

use super::{Bound, Geometry, LaunchRefused, Launcher};
use crate::device::args::{Buffers, Scalars};
use crate::device::emit::Layout;
use crate::device::fragment::{CompileCount, FragmentCode, Values, Whereabouts, count_compilation, fragment_value};

impl Launcher for Histogram {
    fn geometry(&self, facts: &DeviceFacts) -> Geometry {
        Geometry::spread(self.parts, 1, facts)
    }

    fn launch(&self, bound: &Bound) -> Result<(), LaunchRefused> {
        let geometry = bound.launch.geometry;
        geometry.check(self.parts)?;
        let layout = bound.layout(1);
        let reads = bound.fragment_reads(&[&self.bin], layout, 0, self.len, 0)?;
        let output = bound.slice_mut(0, 4, self.parts * self.bins)?;
        let [bin] = FragmentCode::each([&self.bin], 0);
        // SAFETY: each part stays in its own row of bins and in its own share of the elements.
        unsafe {
            count_bins::launch_unchecked(
                bound.client,
                geometry.count(),
                CubeDim::new_1d(geometry.units),
                reads,
                output,
                bound.scalars(),
                self.len as u32,
                self.bins as u32,
                self.parts as u32,
                self.len.div_ceil(self.parts) as u32,
                geometry.steps,
                bin,
                layout,
                bound.compiled.clone(),
            );
        }
        Ok(())
    }
}

#[cube(launch_unchecked)]
#[expect(clippy::too_many_arguments, reason = "the arguments of a kernel")]
fn count_bins(
    reads: &Buffers,
    counts: &mut [u32],
    params: &Scalars,
    len: u32,
    bins: u32,
    parts: u32,
    share: u32,
    steps: u32,
    #[comptime] bin: FragmentCode,
    #[comptime] layout: Layout,
    #[comptime] compiled: CompileCount,
) {
    count_compilation(compiled);
    let nothing = Values::new();
    let first = ABSOLUTE_POS as u32 * steps;
    let end = min(first + steps, parts);
    for part in first..end {
        let row = part * bins;
        for i in 0..bins {
            counts[(row + i) as usize] = 0u32;
        }
        let begin = min(part * share, len);
        let stop = min(begin + share, len);
        for i in begin..stop {
            let at = Whereabouts { position: i as usize, column: 0usize, some: parts };
            let found = fragment_value::<i32>(reads, params, &nothing, at, comptime!(bin.clone()), layout);
            // What is below zero is above every bin, as an unsigned number.
            let own = found as u32;
            if own < bins {
                let entry = (row + own) as usize;
                counts[entry] += 1u32;
            }
        }
    }
}
