//! Launchers: each kind of task has one, and every kernel of the kind shares it.
//!
//! A launcher turns a [`Task`] and its buffers into one launch. It never allocates and never waits. What it refuses,
//! it refuses before anything is queued.

mod count;
mod fold;
mod lines;
mod map;
mod matmul;
mod moves;
mod pack;
mod pool;
mod prepared;
mod resample;
mod stencil;
mod weigh;

use cubecl::client::Client;
use cubecl::prelude::*;
use cubecl::server::Handle;
use dala_plan::work::{Fragment, Source, Task};
use dala_plan::{DeviceFacts, Support};
use dala_spec::{DType, Scalar};

use crate::device::args::BufferAt;
use crate::device::emit::Layout;
pub use crate::device::fragment::CompileCount;

pub use fold::width as fold_width;
pub use prepared::Prepared;
pub use stencil::{fits as stencil_fits, scratch as stencil_scratch};

/// Every buffer's size in bytes is a multiple of this, so that whole vectors can be read and written at its end.
pub const CAPACITY_STEP: usize = 512;

/// The most cubes a GPU back end takes along one axis.
const MAX_CUBES_PER_AXIS: u32 = 65_535;

/// A launch that would have read or written out of bounds. Callers that keep to [`CAPACITY_STEP`] never see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchRefused(pub String);

/// How a launch is spread over a device's units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Geometry {
    /// Elements computed at a time.
    pub width: usize,
    /// Units per cube.
    pub units: u32,
    /// Pieces of work per unit.
    pub steps: u32,
    /// Whether the units of a cube take turns over its pieces, as memory systems of GPUs like it; otherwise each unit has a
    /// block of its own.
    pub interleaved: bool,
    /// Cubes along each axis.
    pub cubes: (u32, u32, u32),
}

impl Geometry {
    /// The geometry of a task.
    pub fn choose(task: &Task, facts: &DeviceFacts) -> Geometry {
        match task {
            Task::Map(task) => Geometry::for_program(&task.program, facts, map::count(task)),
            Task::Fold(task) => fold::geometry(task, facts),
            Task::Stencil(task) => stencil::geometry(task, facts),
            Task::Weigh(task) => weigh::geometry(task, facts),
            Task::Resample(task) => resample::geometry(task, facts),
            Task::Move(task) => moves::geometry(task, facts),
            Task::Pack(task) => pack::geometry(task, facts),
            Task::Matmul(task) => matmul::geometry(task, facts),
            Task::Pool(task) => pool::geometry(task, facts),
            Task::Count(task) => count::geometry(task, facts),
        }
    }

    /// Spreads `items` pieces of work of some size each, in blocks of neighbours.
    fn spread(items: usize, width: usize, facts: &DeviceFacts) -> Geometry {
        let units = if facts.cpu { facts.units_per_cube } else { facts.units_per_cube.min(64) };
        let steps = if facts.cpu { block(items, units) } else { 1 };
        Geometry { width, units, steps: steps as u32, interleaved: false, cubes: grid(items, units, steps, facts) }
    }

    fn count(&self) -> CubeCount {
        let (x, y, z) = self.cubes;
        CubeCount::Static(x, y, z)
    }

    /// Whether the grid covers so many pieces of work.
    fn check(&self, items: usize) -> Result<(), LaunchRefused> {
        let (x, y, z) = self.cubes;
        let covered = [x, y, z, self.units, self.steps].iter().map(|n| u64::from(*n)).product::<u64>();
        if items > i32::MAX as usize {
            return Err(LaunchRefused(format!("{items} pieces of work are more than one launch covers")));
        }
        if covered < items as u64 {
            return Err(LaunchRefused(format!("the grid covers {covered} of {items} pieces of work")));
        }
        Ok(())
    }
}

/// On a CPU each thread has one block of neighbours, which it finds in its own cache when the next launch reads what this one
/// wrote. In smaller blocks by turns, each thread's prefetching takes lines away from the others: in blocks of 256 bytes a copy
/// takes five times as long on two threads as on one.
fn block(items: usize, units: u32) -> usize {
    items.div_ceil(units as usize).max(1)
}

/// Cubes of `units` units, each with `steps` pieces of work, for all `items`: in several rows where one axis holds too few.
fn grid(items: usize, units: u32, steps: usize, facts: &DeviceFacts) -> (u32, u32, u32) {
    let cubes = items.div_ceil(units as usize * steps) as u64;
    if facts.cpu {
        return (cubes as u32, 1, 1);
    }
    let rows = cubes.div_ceil(u64::from(MAX_CUBES_PER_AXIS)).max(1);
    (cubes.div_ceil(rows) as u32, rows as u32, 1)
}

/// A quotient or remainder that is computed once. Compilers for CPUs see through divisions and repeat them at every use inside a
/// loop, where they cost more than all else: `nothing` is zero, but known only at run time.
#[cube]
fn settled(value: u32, nothing: u32) -> u32 {
    value ^ nothing
}

/// The largest power of two up to `max` that divides `len`: vectors of so many elements never straddle a line's end.
fn dividing_width(len: usize, max: usize) -> usize {
    if len == 0 { max } else { (1 << len.trailing_zeros().min(16)).min(max) }
}

/// The largest power of two up to `max` that is not longer than `len`: vectors of so many elements cover a line of any length,
/// if two of them may overlap.
fn fitting_width(len: usize, max: usize) -> usize {
    len.checked_ilog2().map_or(1, |log| 1 << log).min(max)
}

/// Whether the launcher of a task can run it: beyond what its programs compute, some write no single bytes where these travel
/// four to a word.
pub fn launches(task: &Task, facts: &DeviceFacts) -> bool {
    match task {
        Task::Fold(task) => fold::launches(task, facts),
        Task::Stencil(task) => stencil::launches(task, facts),
        _ => true,
    }
}

/// One launch of a task.
pub struct Launch<'a> {
    /// What it does.
    pub task: &'a Task,
    /// How it is spread over the device.
    pub geometry: Geometry,
    /// What the device is like.
    pub facts: &'a DeviceFacts,
    /// The memory it reads.
    pub reads: &'a [&'a Handle],
    /// The memory it writes.
    pub outputs: &'a [&'a Handle],
    /// For each output, the read whose memory it shares, if any.
    pub aliases: &'a [Option<usize>],
    /// The run-time values of the task's programs.
    pub params: &'a [Scalar],
}

/// Queues one launch on the client's stream. Failures of the engine show when its outputs are synchronised.
///
/// # Errors
///
/// The launch does not fit its buffers, or the kernel's 32-bit positions.
pub fn launch(client: &Client, compiled: &CompileCount, launch: &Launch) -> Result<(), LaunchRefused> {
    let programs = launch.task.programs();
    let params: usize = programs.iter().map(|program| program.params().len()).sum();
    if params != launch.params.len() || launch.aliases.len() != launch.outputs.len() {
        return Err(LaunchRefused("the launch's arguments are not those of its task".to_owned()));
    }
    let bound = Bound { launch };
    let geometry = launch.geometry;
    if geometry.cubes.0 == 0 && Geometry::choose(launch.task, launch.facts).cubes.0 == 0 {
        // Nothing to do, and not every device takes an empty grid.
        return Ok(());
    }
    match launch.task {
        Task::Map(task) => map::launch(client, compiled, task, geometry, &bound),
        Task::Fold(task) => fold::launch(client, compiled, task, geometry, &bound),
        Task::Stencil(task) => stencil::launch(client, compiled, task, geometry, &bound),
        Task::Weigh(task) => weigh::launch(client, compiled, task, geometry, &bound),
        Task::Resample(task) => resample::launch(client, compiled, task, geometry, &bound),
        Task::Move(task) => moves::launch(client, compiled, task, geometry, &bound),
        Task::Pack(task) => pack::launch(client, compiled, task, geometry, &bound),
        Task::Matmul(task) => matmul::launch(client, compiled, task, geometry, &bound),
        Task::Pool(task) => pool::launch(client, compiled, task, geometry, &bound),
        Task::Count(task) => count::launch(client, compiled, task, geometry, &bound),
    }
}

/// A launch that is ready to be repeated; none for tasks whose launches are put together each time.
///
/// # Errors
///
/// As [`launch`].
pub fn prepare(client: &Client, compiled: &CompileCount, launch: &Launch) -> Result<Option<Prepared>, LaunchRefused> {
    match launch.task {
        Task::Map(task) => map::prepare(client, compiled, task, launch.geometry, &Bound { launch }).map(Some),
        _ => Ok(None),
    }
}

/// The buffers of a launch, checked as they are bound.
struct Bound<'a> {
    launch: &'a Launch<'a>,
}

impl Bound<'_> {
    fn layout(&self, width: usize) -> Layout {
        let facts = self.launch.facts;
        Layout { width, packed: facts.u8 == Support::Packed, shielded: facts.reorders_floats, free: false }
    }

    /// As [`layout`](Bound::layout), with vectors that begin at any element where the device reads such: on a CPU.
    fn layout_of_lines(&self, width: usize) -> Layout {
        Layout { free: self.launch.facts.cpu, ..self.layout(width) }
    }

    fn fits(handle: &Handle, bytes_per_vector: usize, vectors: usize) -> Result<usize, LaunchRefused> {
        let held = handle.size_in_used() as usize / bytes_per_vector;
        if held < vectors {
            return Err(LaunchRefused(format!(
                "a buffer holds {held} vectors and {vectors} are needed: sizes must be multiples of {CAPACITY_STEP} bytes"
            )));
        }
        Ok(held)
    }

    fn handle<'a>(handles: &[&'a Handle], number: usize) -> Result<&'a Handle, LaunchRefused> {
        handles.get(number).copied().ok_or_else(|| LaunchRefused(format!("the task has no buffer {number}")))
    }

    /// A read of vectors of `width` elements, of which the kernel touches the first `vectors`.
    fn read(&self, number: usize, elem: ElemType, width: usize, vectors: usize) -> Result<BufferAt, LaunchRefused> {
        let handle = Self::handle(self.launch.reads, number)?;
        let held = Self::fits(handle, elem.size() * width, vectors)?;
        // SAFETY: the handle holds every vector the kernel touches.
        Ok(BufferAt { arg: unsafe { BufferArg::from_raw_parts(handle.clone(), held) }, elem, width })
    }

    /// As [`read`](Bound::read), for an output.
    fn output(&self, number: usize, elem: ElemType, width: usize, vectors: usize) -> Result<BufferAt, LaunchRefused> {
        let handle = Self::handle(self.launch.outputs, number)?;
        let held = Self::fits(handle, elem.size() * width, vectors)?;
        let arg = match self.launch.aliases[number] {
            Some(read) => BufferArg::alias(read, vectors),
            // SAFETY: the handle holds every vector the kernel touches.
            None => unsafe { BufferArg::from_raw_parts(handle.clone(), held) },
        };
        Ok(BufferAt { arg, elem, width })
    }

    /// A typed read of vectors of `bytes_per_vector` bytes.
    fn slice(&self, number: usize, bytes_per_vector: usize, vectors: usize) -> Result<BufferArg, LaunchRefused> {
        let handle = Self::handle(self.launch.reads, number)?;
        let held = Self::fits(handle, bytes_per_vector, vectors)?;
        // SAFETY: the handle holds every vector the kernel touches.
        Ok(unsafe { BufferArg::from_raw_parts(handle.clone(), held) })
    }

    /// A typed output of vectors of `bytes_per_vector` bytes.
    fn slice_mut(&self, number: usize, bytes_per_vector: usize, vectors: usize) -> Result<BufferArg, LaunchRefused> {
        let handle = Self::handle(self.launch.outputs, number)?;
        let held = Self::fits(handle, bytes_per_vector, vectors)?;
        // SAFETY: the handle holds every vector the kernel touches.
        Ok(unsafe { BufferArg::from_raw_parts(handle.clone(), held) })
    }

    /// The reads from `first` on, as these fragments use them; `vectors` of them are touched at their own place,
    /// `columns` along the last axis.
    fn fragment_reads(
        &self,
        fragments: &[&Fragment],
        layout: Layout,
        first: usize,
        vectors: usize,
        columns: usize,
    ) -> Result<Vec<BufferAt>, LaunchRefused> {
        let uses = |number: usize| {
            let slots = fragments.iter().flat_map(|fragment| fragment.sources.iter().zip(fragment.program.inputs()));
            slots
                .clone()
                .find(|(source, _)| matches!(source, Source::Own(read) | Source::Column(read) if *read == number))
        };
        (first..self.launch.reads.len())
            .map(|number| {
                let Some((source, input)) = uses(number) else {
                    return Err(LaunchRefused(format!("no program uses buffer {number}")));
                };
                let needed = if matches!(source, Source::Column(_)) { columns } else { vectors };
                let (binding, needed) = match input.broadcast {
                    true => (layout.element_binding(input.dtype), 1),
                    false => (layout.binding(input.dtype, 1), needed),
                };
                // Bytes of words that are read one by one are fewer than they are asked for.
                let packed = input.dtype == DType::U8 && layout.packed && layout.width < 4;
                self.read(number, binding.elem, binding.width, if packed { needed.div_ceil(4) } else { needed })
            })
            .collect()
    }

    /// The run-time values of all programs.
    fn scalars(&self) -> Vec<InputScalar> {
        let slots = self.launch.task.programs().into_iter().flat_map(|program| program.params());
        let scalar = |(value, slot): (&Scalar, &dala_spec::expr::ParamSlot)| {
            let elem = crate::device::arithmetic::elem(slot.ty);
            match value {
                Scalar::F32(v) => InputScalar::new(*v, elem),
                Scalar::F64(v) => InputScalar::new(*v, elem),
                Scalar::S32(v) => InputScalar::new(*v, elem),
                Scalar::S64(v) => InputScalar::new(*v, elem),
                Scalar::U32(v) => InputScalar::new(*v, elem),
                Scalar::U8(v) => InputScalar::new(*v, elem),
            }
        };
        self.launch.params.iter().zip(slots).map(scalar).collect()
    }
}
