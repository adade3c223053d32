//! The program kernel, its launch geometry, and its launch.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cubecl::client::Client;
use cubecl::prelude::*;
use cubecl::server::Handle;
use dala_spec::expr::{BinaryOp, Op, UnaryOp};
use dala_spec::{DType, DeviceFacts, Program, Scalar, Support};

use super::args::{BufferAt, Buffers, Scalars};
use super::arithmetic::elem;
use super::emit::{Context, Layout, emit};
use super::{CAPACITY_STEP, is_gathered};

/// Counts the kernels that were built: the code generator runs once for each.
#[derive(Clone, Debug, Default)]
pub struct CompileCount(Arc<AtomicU64>);

impl CompileCount {
    /// How many kernels were built so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A program as a compile-time argument of the kernel: its code is the key, nothing else.
#[derive(Clone)]
struct Code {
    program: Program,
    compiled: CompileCount,
}

impl Hash for Code {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u128(self.program.fingerprint());
    }
}

impl PartialEq for Code {
    fn eq(&self, other: &Self) -> bool {
        self.program.same_code(&other.program)
    }
}

impl Eq for Code {}

impl std::fmt::Debug for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Part of the key under which the engine stores compiled kernels on disk.
        write!(f, "Program({:032x})", self.program.fingerprint())
    }
}

/// How the elements of a launch are spread over a device's units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Geometry {
    /// Elements computed at a time.
    pub width: usize,
    /// Units per cube.
    pub units: u32,
    /// Vectors per unit.
    pub steps: u32,
    /// Whether the units of a cube take turns over its vectors, as memory systems of GPUs like it; otherwise each unit
    /// has a block of its own.
    pub interleaved: bool,
    /// Cubes along each axis.
    pub cubes: (u32, u32, u32),
}

/// The most cubes a GPU back end takes along one axis.
const MAX_CUBES_PER_AXIS: u32 = 65_535;

impl Geometry {
    /// The geometry for `len` elements of `program`. Everything that shapes the code depends on the program and the
    /// device alone, so that a new length compiles nothing.
    pub fn choose(program: &Program, facts: &DeviceFacts, len: usize) -> Geometry {
        let cpu = facts.cpu;
        let width = if cpu { cpu_width(program) } else { gpu_width(program, facts) };
        let units = facts.units_per_cube;
        let vectors = len.div_ceil(width);
        // Several vectors per unit, but enough cubes for all units to have work.
        let cubes_wanted = if cpu { 4 } else { 256 };
        let steps = (vectors / (units as usize * cubes_wanted)).clamp(1, facts.vectors_per_unit);
        let cubes = vectors.div_ceil(units as usize * steps) as u64;
        let rows = cubes.div_ceil(u64::from(MAX_CUBES_PER_AXIS)).max(1);
        let columns = if cpu { cubes } else { cubes.div_ceil(rows) };
        Geometry {
            width,
            units,
            steps: steps as u32,
            interleaved: !cpu,
            cubes: (columns as u32, if cpu { 1 } else { rows as u32 }, 1),
        }
    }
}

/// Wide vectors for plain arithmetic; narrow ones where each lane costs much code.
fn cpu_width(program: &Program) -> usize {
    let heavy = program.ops().iter().any(|op| match op {
        Op::Unary(op, _) => op.is_approximate() && *op != UnaryOp::Sqrt,
        Op::Binary(BinaryOp::Pow, ..) | Op::Channel { .. } | Op::Coord(_) => true,
        _ => false,
    });
    if heavy { 16 } else { 64 }
}

/// Vectors of four, as GPUs load them; sixteen 8-bit elements make four words.
fn gpu_width(program: &Program, facts: &DeviceFacts) -> usize {
    let mut dtypes = program.inputs().iter().map(|input| input.dtype).chain(program.outputs().iter().copied());
    if dtypes.all(|dtype| dtype == DType::U8) && facts.u8 == Support::Packed { 16 } else { 4 }
}

/// One launch of a program.
pub struct Launch<'a> {
    /// The program.
    pub program: &'a Program,
    /// How it is spread over the device.
    pub geometry: Geometry,
    /// Whether the device computes 8-bit elements four to a word.
    pub packed: bool,
    /// Whether sums and products must be hidden from the driver's compiler.
    pub shielded: bool,
    /// The inputs' memory.
    pub inputs: &'a [Handle],
    /// The outputs' memory.
    pub outputs: &'a [Handle],
    /// For each output, the input whose memory it shares, if any.
    pub aliases: &'a [Option<usize>],
    /// The value of each of the program's param slots.
    pub params: &'a [Scalar],
    /// The output's dimensions.
    pub dims: &'a [usize],
    /// How many elements are computed.
    pub len: usize,
}

/// A launch that would have read or written out of bounds. Callers that keep to [`CAPACITY_STEP`] never see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchRefused(pub String);

/// Queues one launch on the client's stream. Failures of the engine show when its outputs are synchronised.
///
/// # Errors
///
/// The launch does not fit its buffers, or the kernel's 32-bit positions.
pub fn launch(client: &Client, compiled: &CompileCount, launch: &Launch) -> Result<(), LaunchRefused> {
    let Launch { program, geometry, params, len, .. } = launch;
    let layout = Layout { width: geometry.width, packed: launch.packed, shielded: launch.shielded };
    check(launch, layout)?;

    let vectors = len.div_ceil(geometry.width);
    let bind = |handle: &Handle, dtype, single: bool| {
        let (elem, width) = layout.binding(dtype, single);
        let count = handle.size_in_used() as usize / (elem.size() * width);
        // SAFETY: `check` made sure that the handle holds every vector the kernel touches.
        BufferAt { arg: unsafe { BufferArg::from_raw_parts(handle.clone(), count) }, elem, width }
    };
    let inputs = program.inputs().iter().enumerate().map(|(slot, input)| {
        bind(&launch.inputs[slot], input.dtype, input.broadcast || is_gathered(program, slot, geometry.width))
    });
    let outputs = program.outputs().iter().enumerate().map(|(slot, dtype)| match launch.aliases[slot] {
        Some(input) => {
            let (elem, width) = layout.binding(*dtype, false);
            BufferAt { arg: BufferArg::alias(input, vectors), elem, width }
        }
        None => bind(&launch.outputs[slot], *dtype, false),
    });
    let params = params.iter().zip(program.params()).map(|(value, slot)| match value {
        Scalar::F32(v) => InputScalar::new(*v, elem(slot.ty)),
        Scalar::F64(v) => InputScalar::new(*v, elem(slot.ty)),
        Scalar::S32(v) => InputScalar::new(*v, elem(slot.ty)),
        Scalar::S64(v) => InputScalar::new(*v, elem(slot.ty)),
        Scalar::U32(v) => InputScalar::new(*v, elem(slot.ty)),
        Scalar::U8(v) => InputScalar::new(*v, elem(slot.ty)),
    });
    let dims = if program.rank_used() > 0 { launch.dims } else { &[] };
    let dims = dims.iter().map(|dim| InputScalar::new(*dim as u32, elem(dala_spec::expr::Ty::U32)));

    let (x, y, z) = geometry.cubes;
    // SAFETY: the kernel's accesses are bounded by `vectors`, which `check` compared with every buffer.
    unsafe {
        run_program::launch_unchecked(
            client,
            CubeCount::Static(x, y, z),
            CubeDim::new_1d(geometry.units),
            inputs.collect(),
            outputs.collect(),
            params.collect(),
            dims.collect(),
            // Only whether there are any, and where the last one of fewer is, is ever asked.
            (*len).min(u32::MAX as usize) as u32,
            vectors as u32,
            geometry.steps,
            Code { program: (*program).clone(), compiled: compiled.clone() },
            layout,
            geometry.interleaved,
        );
    }
    Ok(())
}

fn check(launch: &Launch, layout: Layout) -> Result<(), LaunchRefused> {
    let Launch { program, geometry, inputs, outputs, params, len, .. } = launch;
    let refuse = |what: String| Err(LaunchRefused(what));
    if inputs.len() != program.inputs().len()
        || outputs.len() != program.outputs().len()
        || launch.aliases.len() != outputs.len()
        || params.len() != program.params().len()
        || launch.dims.len() < program.rank_used()
    {
        return refuse("the launch's arguments are not those of its program".to_owned());
    }
    let vectors = len.div_ceil(geometry.width);
    if vectors > i32::MAX as usize {
        return refuse(format!("{len} elements are more than one launch covers"));
    }
    let covered = geometry.cubes.0 as u64
        * geometry.cubes.1 as u64
        * geometry.cubes.2 as u64
        * u64::from(geometry.units)
        * u64::from(geometry.steps);
    if covered < vectors as u64 {
        return refuse(format!("the grid covers {covered} of {vectors} vectors"));
    }
    let vectors_of = |handle: &Handle, dtype| {
        let (elem, width) = layout.binding(dtype, false);
        handle.size_in_used() as usize / (elem.size() * width)
    };
    let inputs = program.inputs().iter().zip(*inputs).filter(|(input, _)| !input.broadcast);
    let inputs = inputs.map(|(input, handle)| vectors_of(handle, input.dtype));
    let outputs = program.outputs().iter().zip(*outputs).map(|(dtype, handle)| vectors_of(handle, *dtype));
    match inputs.chain(outputs).min() {
        Some(smallest) if smallest < vectors => refuse(format!(
            "a buffer holds {smallest} vectors and {vectors} are needed: sizes must be multiples of {CAPACITY_STEP} bytes"
        )),
        _ => Ok(()),
    }
}

#[cube]
#[expect(clippy::too_many_arguments, reason = "the arguments of a kernel")]
fn compute_vector(
    inputs: &Buffers,
    outputs: &mut Buffers,
    params: &Scalars,
    dims: &Scalars,
    len: u32,
    position: usize,
    #[comptime] code: Code,
    #[comptime] layout: Layout,
) {
    intrinsic!(|scope| {
        code.compiled.0.fetch_add(1, Ordering::Relaxed);
        let context = Context {
            inputs: &inputs.0,
            outputs: &outputs.0,
            params: &params.0,
            dims: &dims.0,
            len: len.read_value(scope),
            position: position.read_value(scope),
        };
        emit(scope, &code.program, layout, &context);
    })
}

/// Computes `vectors` vectors of elements, several per unit.
#[cube(launch_unchecked)]
#[expect(clippy::too_many_arguments, reason = "the arguments of a kernel")]
fn run_program(
    inputs: &Buffers,
    outputs: &mut Buffers,
    params: &Scalars,
    dims: &Scalars,
    len: u32,
    vectors: u32,
    steps: u32,
    #[comptime] code: Code,
    #[comptime] layout: Layout,
    #[comptime] interleaved: bool,
) {
    if comptime!(interleaved) {
        let first = CUBE_POS as u32 * steps * CUBE_DIM + UNIT_POS;
        for step in 0..steps {
            let position = first + step * CUBE_DIM;
            if position < vectors {
                compute_vector(inputs, outputs, params, dims, len, position as usize, comptime!(code.clone()), layout);
            }
        }
    } else {
        let first = ABSOLUTE_POS as u32 * steps;
        let end = min(first + steps, vectors);
        for position in first..end {
            compute_vector(inputs, outputs, params, dims, len, position as usize, comptime!(code.clone()), layout);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(cpu: bool, units_per_cube: u32) -> DeviceFacts {
        DeviceFacts {
            name: "test".to_owned(),
            f64: true,
            s64: true,
            u8: Support::Native,
            f64_functions: true,
            reorders_floats: false,
            max_bindings: 16,
            cpu,
            units_per_cube,
            vectors_per_unit: 8,
        }
    }

    #[test]
    fn every_length_is_covered_within_the_limits() {
        let program = Program::move_words();
        for facts in [facts(true, 2), facts(true, 64), facts(false, 256), facts(false, 128)] {
            let mut shape = None;
            for len in (0..200).chain([1000, 65_537, 1 << 20, (1 << 28) + 3, 1 << 33]) {
                let geometry = Geometry::choose(&program, &facts, len);
                let (x, y, z) = geometry.cubes;
                let covered = [x, y, z, geometry.units, geometry.steps].iter().map(|n| u64::from(*n)).product::<u64>();
                assert!(covered >= len.div_ceil(geometry.width) as u64, "{len}: {geometry:?}");
                assert!(facts.cpu || x <= MAX_CUBES_PER_AXIS && y <= MAX_CUBES_PER_AXIS, "{len}: {geometry:?}");
                // What shapes the code is the same for all lengths.
                let own = (geometry.width, geometry.units, geometry.interleaved);
                assert_eq!(*shape.get_or_insert(own), own);
            }
        }
    }
}
