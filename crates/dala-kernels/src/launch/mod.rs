//! Launchers: each kind of task has one, and every kernel of the kind shares it.
//!
//! A launcher turns a [`Task`] and its buffers into one launch. It never allocates and never waits. What it refuses,
//! it refuses before anything is queued.

mod lines;
mod prepared;
mod taps;

use cubecl::client::Client;
use cubecl::prelude::*;
use cubecl::server::Handle;
use dala_plan::work::{Fragment, LARGEST_INDEX, Source, Task};
use dala_plan::{CAPACITY_STEP, DeviceFacts, Support};
use dala_spec::Scalar;

use crate::device::args::BufferAt;
use crate::device::emit::Layout;
pub use crate::device::fragment::CompileCount;

pub(crate) use opaque::panic_message;
pub use opaque::{CubeFunction, CubeLaunch, Grid, cube_task};
pub use prepared::Prepared;

/// The most cubes a GPU back end takes along one axis.
const MAX_CUBES_PER_AXIS: u32 = 65_535;

/// A launch that would have read or written out of bounds, which callers that keep to [`CAPACITY_STEP`] never see; or one that a
/// [`CubeFunction`] does not do.
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
        launcher(task).geometry(facts)
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

/// Whether a kernel's positions reach so many elements.
fn check_elements(elements: usize) -> Result<(), LaunchRefused> {
    match elements > LARGEST_INDEX {
        true => Err(LaunchRefused(format!("{elements} elements are more than one launch covers"))),
        false => Ok(()),
    }
}

/// How a task runs.
trait Launcher {
    /// How it is spread over a device.
    fn geometry(&self, facts: &DeviceFacts) -> Geometry;

    /// Queues it, as [`launch`].
    fn launch(&self, bound: &Bound) -> Result<(), LaunchRefused>;

    /// The same launch, ready to be repeated, as [`prepare`].
    fn prepare(&self, _bound: &Bound) -> Result<Option<Prepared>, LaunchRefused> {
        Ok(None)
    }
}

macro_rules! launchers {
    ($($(#[$doc:meta])* $file:ident: $task:ident,)+) => {
        $(mod $file;)+

        fn launcher(task: &Task) -> &dyn Launcher {
            match task {
                $(Task::$task(task) => task,)+
            }
        }
    };
}
dala_plan::with_tasks!(launchers);

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
    let programs = launch.task.kind().programs();
    let params: usize = programs.iter().map(|program| program.params().len()).sum();
    if params != launch.params.len() || launch.aliases.len() != launch.outputs.len() {
        return Err(LaunchRefused("the launch's arguments are not those of its task".to_owned()));
    }
    if launch.geometry.cubes.0 == 0 && Geometry::choose(launch.task, launch.facts).cubes.0 == 0 {
        // Nothing to do, and not every device takes an empty grid.
        return Ok(());
    }
    launcher(launch.task).launch(&Bound { client, compiled, launch })
}

/// A launch that is ready to be repeated; none for tasks whose launches are put together each time.
///
/// # Errors
///
/// As [`launch`].
pub fn prepare(client: &Client, compiled: &CompileCount, launch: &Launch) -> Result<Option<Prepared>, LaunchRefused> {
    launcher(launch.task).prepare(&Bound { client, compiled, launch })
}

/// A launch on a stream: its buffers are checked as they are bound.
struct Bound<'a> {
    client: &'a Client,
    compiled: &'a CompileCount,
    launch: &'a Launch<'a>,
}

impl Bound<'_> {
    fn layout(&self, width: usize) -> Layout {
        let facts = self.launch.facts;
        Layout {
            width,
            packed: facts.narrow == Support::Packed,
            converts_f16: facts.converts_f16,
            shielded: facts.reorders_floats,
            free: false,
        }
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
                // Parts of words that are read one by one need fewer words.
                let per_word =
                    if layout.width < layout.per_word(input.dtype) { layout.per_word(input.dtype) } else { 1 };
                self.read(number, binding.elem, binding.width, needed.div_ceil(per_word))
            })
            .collect()
    }

    /// The run-time values of all programs.
    fn scalars(&self) -> Vec<InputScalar> {
        let slots = self.launch.task.kind().programs().into_iter().flat_map(|program| program.params());
        let scalar = |(value, slot): (&Scalar, &dala_spec::expr::ParamSlot)| {
            let elem = crate::device::arithmetic::elem(slot.ty);
            match value {
                Scalar::F32(v) => InputScalar::new(*v, elem),
                Scalar::F64(v) => InputScalar::new(*v, elem),
                Scalar::S32(v) => InputScalar::new(*v, elem),
                Scalar::S64(v) => InputScalar::new(*v, elem),
                Scalar::U32(v) => InputScalar::new(*v, elem),
                Scalar::U64(v) => InputScalar::new(*v, elem),
                // Run-time values are of register types: none is narrower.
                other => InputScalar::new(other.as_i64() as i32, elem),
            }
        };
        self.launch.params.iter().zip(slots).map(scalar).collect()
    }
}
