//! The kernel that runs a program at every element or pixel, and how it is spread over a device.

use cubecl::prelude::*;
use dala_plan::DeviceFacts;
use dala_plan::work::Map;
use dala_plan::work::width::cpu_width;
use dala_spec::Program;
use dala_spec::expr::Ty;

use super::{Bound, Geometry, LaunchRefused, Launcher, Prepared, block, grid, prepared};
use crate::device::args::{BufferAt, Buffers, Scalars};
use crate::device::arithmetic::elem;
use crate::device::emit::{Context, InputPlace, Layout, emit};
use crate::device::fragment::{Code, CompileCount, count_compilation};

impl Geometry {
    /// The geometry for `len` elements or pixels of `program`. Everything that shapes the code depends on the program and the
    /// device alone, so that a new length compiles nothing.
    pub(crate) fn for_program(program: &Program, facts: &DeviceFacts, len: usize) -> Geometry {
        let cpu = facts.cpu;
        let width = if cpu { cpu_width(program) } else { gpu_width(program, facts) };
        let units = facts.units_per_cube;
        let vectors = len.div_ceil(width);
        let steps = match cpu {
            true => block(vectors, units),
            // Several vectors per unit, but enough cubes for all units to have work.
            false => (vectors / (units as usize * 256)).clamp(1, facts.vectors_per_unit),
        };
        let cubes = grid(vectors, units, steps, facts);
        Geometry { width, units, steps: steps as u32, interleaved: !cpu, cubes }
    }
}

/// Vectors of four words, as GPUs load them; sixteen 8-bit elements make as many. Where each lane costs much code, four are enough.
fn gpu_width(program: &Program, facts: &DeviceFacts) -> usize {
    if program.pixel().is_some() || program.reads_neighbours() {
        return 4;
    }
    let dtypes = program.inputs().iter().map(|input| input.dtype).chain(program.outputs().iter().copied());
    4 * dtypes.map(|dtype| facts.per_word(dtype)).min().unwrap_or(1)
}

/// How many elements or pixels a program runs over.
pub(crate) fn count(map: &Map) -> usize {
    map.shape.len() / map.program.pixel().unwrap_or(1)
}

/// The arguments of a launch.
struct Arguments {
    inputs: Vec<BufferAt>,
    outputs: Vec<BufferAt>,
    dims: Vec<InputScalar>,
    lens: Vec<InputScalar>,
    /// Only whether there are any elements, and where the last one of fewer is, is ever asked.
    len: u32,
    vectors: u32,
}

fn arguments(map: &Map, geometry: Geometry, bound: &Bound) -> Result<Arguments, LaunchRefused> {
    let (program, layout, len) = (&map.program, bound.layout(geometry.width), count(map));
    if map.lens.len() != program.inputs().len() || (program.rank_used() > 0 && map.shape.rank() < program.rank_used()) {
        return Err(LaunchRefused("the launch's arguments are not those of its program".to_owned()));
    }
    let vectors = len.div_ceil(geometry.width);
    geometry.check(vectors)?;
    let inputs = (0..program.inputs().len()).map(|slot| {
        let binding = layout.input(program, slot);
        let needed = if binding.width == 1 && geometry.width != 1 {
            1
        } else {
            needed(vectors, binding.vectors, len, geometry.width)
        };
        bound.read(slot, binding.elem, binding.width, needed)
    });
    let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
    let outputs = (0..program.outputs().len()).map(|slot| {
        let binding = layout.output(program, slot);
        bound.output(slot, binding.elem, binding.width, needed(vectors, binding.vectors, len, geometry.width))
    });
    let outputs = outputs.collect::<Result<Vec<_>, _>>()?;
    let u32_scalar = |value: usize| InputScalar::new(value.min(u32::MAX as usize) as u32, elem(Ty::U32));
    let dims: Vec<InputScalar> = match program.rank_used() {
        0 => Vec::new(),
        _ => map.shape.dims().iter().map(|dim| u32_scalar(*dim)).collect(),
    };
    let lens: Vec<InputScalar> = match program.reads_neighbours() {
        true => map.lens.iter().map(|len| u32_scalar(*len)).collect(),
        false => Vec::new(),
    };
    let (len, vectors) = (len.min(u32::MAX as usize) as u32, vectors as u32);
    Ok(Arguments { inputs, outputs, dims, lens, len, vectors })
}

impl Launcher for Map {
    fn geometry(&self, facts: &DeviceFacts) -> Geometry {
        Geometry::for_program(&self.program, facts, count(self))
    }

    fn launch(&self, bound: &Bound) -> Result<(), LaunchRefused> {
        let geometry = bound.launch.geometry;
        let Arguments { inputs, outputs, dims, lens, len, vectors } = arguments(self, geometry, bound)?;
        // SAFETY: the kernel's accesses are bounded by `vectors`, which `bound` compared with every buffer.
        unsafe {
            run_program::launch_unchecked(
                bound.client,
                geometry.count(),
                CubeDim::new_1d(geometry.units),
                inputs,
                outputs,
                bound.scalars(),
                dims,
                lens,
                len,
                vectors,
                geometry.steps,
                Code(self.program.clone()),
                bound.layout(geometry.width),
                geometry.interleaved,
                bound.compiled.clone(),
            );
        }
        Ok(())
    }

    fn prepare(&self, bound: &Bound) -> Result<Option<Prepared>, LaunchRefused> {
        let geometry = bound.launch.geometry;
        let Arguments { inputs, outputs, dims, lens, len, vectors } = arguments(self, geometry, bound)?;
        let mut arguments = prepared::Arguments::default();
        let inputs = arguments.buffers(inputs, BufferIOAttr::ReadOnly);
        let outputs = arguments.buffers(outputs, BufferIOAttr::ReadWrite);
        let param_types: Vec<ElemType> = self.program.params().iter().map(|slot| elem(slot.ty)).collect();
        let params = arguments.scalars(bound.scalars(), &param_types);
        let whole = |count: usize| vec![elem(Ty::U32); count];
        let (dim_types, len_types) = (whole(dims.len()), whole(lens.len()));
        let dims = arguments.scalars(dims, &dim_types);
        let lens = arguments.scalars(lens, &len_types);
        for number in [len, vectors, geometry.steps] {
            arguments.number(number);
        }
        let kernel = run_program::RunProgram::new(
            KernelSettings::new(CubeDim::new_1d(geometry.units).into(), ExecutionMode::Unchecked, AddressType::U32),
            bound.client.properties_shared(),
            bound.client.target_properties_shared(),
            inputs,
            outputs,
            params,
            dims,
            lens,
            (),
            (),
            (),
            Code(self.program.clone()),
            bound.layout(geometry.width),
            geometry.interleaved,
            bound.compiled.clone(),
        );
        Ok(Some(arguments.prepared(kernel, geometry.cubes)))
    }
}

/// How many vectors of a buffer are touched, where `per_step` of them make up one step.
fn needed(steps: usize, per_step: usize, len: usize, width: usize) -> usize {
    match per_step {
        1 => steps,
        // Steps of several vectors leave out those beyond the last element.
        parts => (len * parts).div_ceil(width),
    }
}

#[cube]
#[expect(clippy::too_many_arguments, reason = "the arguments of a kernel")]
fn compute_vector(
    inputs: &Buffers,
    outputs: &mut Buffers,
    params: &Scalars,
    dims: &Scalars,
    lens: &Scalars,
    len: u32,
    position: usize,
    #[comptime] code: Code,
    #[comptime] layout: Layout,
) {
    intrinsic!(|scope| {
        let position = position.read_value(scope);
        let slots: Vec<InputPlace> =
            inputs.0.iter().map(|buffer| InputPlace::Buffer { buffer: *buffer, position }).collect();
        let context = Context {
            inputs: &slots,
            params: &params.0,
            dims: &dims.0,
            lens: &lens.0,
            len: len.read_value(scope),
            position,
        };
        emit(scope, &code.0, layout, &context, &outputs.0);
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
    lens: &Scalars,
    len: u32,
    vectors: u32,
    steps: u32,
    #[comptime] code: Code,
    #[comptime] layout: Layout,
    #[comptime] interleaved: bool,
    #[comptime] compiled: CompileCount,
) {
    count_compilation(compiled);
    if comptime!(interleaved) {
        let first = CUBE_POS as u32 * steps * CUBE_DIM + UNIT_POS;
        for step in 0..steps {
            let position = first + step * CUBE_DIM;
            if position < vectors {
                compute_vector(
                    inputs,
                    outputs,
                    params,
                    dims,
                    lens,
                    len,
                    position as usize,
                    comptime!(code.clone()),
                    layout,
                );
            }
        }
    } else {
        let first = ABSOLUTE_POS as u32 * steps;
        let end = min(first + steps, vectors);
        for position in first..end {
            compute_vector(
                inputs,
                outputs,
                params,
                dims,
                lens,
                len,
                position as usize,
                comptime!(code.clone()),
                layout,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::MAX_CUBES_PER_AXIS;
    use super::*;

    fn facts(cpu: bool, units_per_cube: u32) -> DeviceFacts {
        DeviceFacts {
            name: "test".to_owned(),
            max_bindings: 16,
            cpu,
            units_per_cube,
            vectors_per_unit: 8,
            ..DeviceFacts::of_a_cpu()
        }
    }

    #[test]
    fn every_length_is_covered_within_the_limits() {
        let program = Program::move_words();
        for facts in [facts(true, 2), facts(true, 64), facts(false, 256), facts(false, 128)] {
            let mut shape = None;
            for len in (0..200).chain([1000, 65_537, 1 << 20, (1 << 28) + 3, 1 << 33]) {
                let geometry = Geometry::for_program(&program, &facts, len);
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
