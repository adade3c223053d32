//! Failures of the real engine, each provoked on every device: none may be lost, and none may take the device along.

use std::sync::Arc;

use cubecl::client::Client;
use cubecl::prelude::*;
use cubecl::server::Handle;
use dala_kernels::launch::Geometry;
use dala_spec::{DType, Expr, Program, Signature, TensorType};

use crate::command::{Job, Prepared};
use crate::engine::EngineError;
use crate::plan::{Compiled, Keeps, Run, Values, over_words};
use crate::{Buffer, Device, Error};

/// What is wrong with a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Its code generator panics.
    PanicsWhileBuilt,
    /// The compiler refuses it.
    DoesNotCompile,
}

#[cube(launch_unchecked)]
fn panics_while_built(output: &mut [f32], #[comptime] panics: bool) {
    comptime! {
        if panics {
            panic!("this kernel panics while it is built");
        }
    }
    output[ABSOLUTE_POS] = 1.0;
}

#[cube(launch_unchecked)]
fn does_not_compile(output: &mut [f32]) {
    output[ABSOLUTE_POS] = 1.0;
    intrinsic!(|scope| scope.push_error("this kernel does not compile"))
}

pub(super) fn launch_faulty(client: &Client, output: &Handle, fault: Fault) {
    let (count, dim) = (CubeCount::Static(1, 1, 1), CubeDim::new_1d(1));
    // SAFETY: neither kernel comes to run.
    unsafe {
        let buffer = BufferArg::from_raw_parts(output.clone(), 1);
        match fault {
            Fault::PanicsWhileBuilt => panics_while_built::launch_unchecked(client, count, dim, buffer, true),
            Fault::DoesNotCompile => does_not_compile::launch_unchecked(client, count, dim, buffer),
        }
    }
}

fn devices() -> Vec<Device> {
    let names = std::env::var("DALA_TEST_DEVICES").unwrap_or_else(|_| "cpu,vulkan,gl".to_owned());
    names.split(',').map(|name| Device::open(name).unwrap()).collect()
}

/// Runs a stage that writes a buffer.
fn run_stage(device: &Device, stage: Prepared, buffer: &Buffer) -> Result<(), Error> {
    let mut job = Job::default();
    job.push(stage, &[], &[buffer.slot()]);
    device.core().run(job)
}

/// Runs what was compiled over one buffer, for all of its own.
fn run_compiled(device: &Device, compiled: Compiled, buffer: &Buffer) -> Result<(), Error> {
    let memory = compiled.spec.cells.iter().map(|_| buffer.memory().unwrap()).collect();
    let mut job = Job::default();
    job.push_run(Run::new(&Arc::new(compiled), memory, Arc::new(Values::new()), Keeps::Nothing), &[], &[buffer.slot()]);
    device.core().run(job)
}

/// Runs a faulty kernel over a buffer that holds good data.
fn run_faulty(device: &Device, buffer: &Buffer, fault: Fault) -> Error {
    let output = buffer.memory().unwrap();
    run_stage(device, Prepared::Faulty { output, fault }, buffer).unwrap_err()
}

/// After a failure: no old data, dependents fail with the first cause, neighbours are untouched, new data heals.
fn expect_poisoned_and_healed(device: &Device, buffer: &Buffer, neighbour: &Buffer, cause: &Error) {
    let error = buffer.read::<f32>().unwrap_err();
    assert_eq!(error, Error::Poisoned { buffer: buffer.id(), cause: Arc::new(cause.clone()) });
    let dependent = Buffer::from_slice(device, &[5.0f32; 3], [3]).unwrap();
    let error = device.run("relu", &[buffer], &dependent, ()).unwrap_err();
    assert_eq!(error.code(), "poisoned");
    assert_eq!(dependent.read::<f32>().unwrap(), [5.0; 3], "the dependent was never started");
    assert_eq!(buffer.copy_to(&dependent).unwrap_err().code(), "poisoned");
    assert_eq!(neighbour.read::<f32>().unwrap(), [8.0; 3]);
    device.run("scalar_mul", &[neighbour], neighbour, [("scalar", 1)]).unwrap();
    device.run("scalar_mul", &[neighbour], buffer, [("scalar", 2)]).unwrap();
    assert_eq!(buffer.read::<f32>().unwrap(), [16.0; 3], "a kernel that writes the buffer heals it");
}

#[test]
fn kernels_that_cannot_be_built() {
    for device in devices() {
        for fault in [Fault::PanicsWhileBuilt, Fault::DoesNotCompile] {
            // Memory that held good data before, recycled.
            drop(Buffer::from_slice(&device, &[9.0f32; 3], [3]).unwrap());
            let buffer = Buffer::from_slice(&device, &[7.0f32; 3], [3]).unwrap();
            let neighbour = Buffer::from_slice(&device, &[8.0f32; 3], [3]).unwrap();
            let error = run_faulty(&device, &buffer, fault);
            assert_eq!(error.code(), "compile_failed", "{device:?} {fault:?}: {error}");
            let words = match fault {
                Fault::PanicsWhileBuilt => "this kernel panics while it is built",
                Fault::DoesNotCompile => "this kernel does not compile",
            };
            assert!(error.to_string().contains(words), "{error}");
            expect_poisoned_and_healed(&device, &buffer, &neighbour, &error);
            let error = run_faulty(&device, &buffer, fault);
            buffer.write(&[1.0f32, 2.0, 3.0]).unwrap();
            assert_eq!(buffer.read::<f32>().unwrap(), [1.0, 2.0, 3.0], "writing heals too, after {error}");
        }
    }
}

/// Large buffers take other roads to and from the device than small ones.
#[test]
fn large_buffers_are_poisoned_and_healed_too() {
    for device in devices() {
        let len = 1 << 20;
        let buffer = Buffer::from_slice(&device, &vec![7.0f32; len], [len]).unwrap();
        run_faulty(&device, &buffer, Fault::PanicsWhileBuilt);
        assert_eq!(buffer.read::<f32>().unwrap_err().code(), "poisoned");
        buffer.write(&vec![2.0f32; len]).unwrap();
        assert!(buffer.read::<f32>().unwrap().iter().all(|x| *x == 2.0));
    }
}

#[test]
fn grids_and_cubes_over_the_limit() {
    for device in devices() {
        let buffer = Buffer::from_slice(&device, &[1.0f32; 3], [3]).unwrap();
        let limits = device.info().limits;
        let run = |geometry: Geometry| {
            let mut compiled = over_words("test", Program::zero_words(), 3, device.core().facts()).unwrap();
            *compiled.geometry() = geometry;
            run_compiled(&device, compiled, &buffer)
        };
        let good = *over_words("test", Program::zero_words(), 3, device.core().facts()).unwrap().geometry();
        let mut cases = vec![Geometry { units: limits.max_units + 1, ..good }];
        if limits.max_cubes.0 < u32::MAX {
            cases.push(Geometry { cubes: (limits.max_cubes.0 + 1, 1, 1), ..good });
            cases.push(Geometry { cubes: (1, limits.max_cubes.1 + 1, 1), ..good });
        }
        for geometry in cases {
            let error = run(geometry).unwrap_err();
            assert_eq!(error.code(), "limit_exceeded", "{error}");
            assert_eq!(buffer.read::<f32>().unwrap_err().code(), "poisoned", "old data is no result");
            run(good).unwrap();
            assert_eq!(buffer.read::<f32>().unwrap(), [0.0; 3]);
        }
        // A grid that leaves elements out is our own mistake, and is not launched.
        let error = run(Geometry { cubes: (0, 1, 1), ..good }).unwrap_err();
        assert_eq!(error.code(), "internal", "{error}");
    }
}

/// A type the device cannot compile, past the validation that would have refused it.
#[test]
fn types_that_do_not_compile() {
    for device in devices().into_iter().filter(|device| !device.core().facts().f64) {
        let ty = TensorType::new(DType::F64, [3]);
        let signature = Signature { inputs: vec![ty.clone()], output: ty, params: Default::default() };
        let program = Program::build(&(Expr::input("x") + 1), &["x"], &signature).unwrap();
        let buffer = Buffer::from_slice(&device, &[1.0f64; 3], [3]).unwrap();
        let compiled = over_words("test", program, 3, device.core().facts()).unwrap();
        let result = run_compiled(&device, compiled, &buffer);
        assert!(matches!(result, Err(Error::Engine(EngineError::CompileFailed { .. }))), "{result:?}");
        assert_eq!(buffer.read::<f64>().unwrap_err().code(), "poisoned");
        buffer.write(&[4.0f64; 3]).unwrap();
        assert_eq!(buffer.read::<f64>().unwrap(), [4.0; 3]);
    }
}

#[test]
fn launches_without_their_values_are_refused() {
    let mut problems = Vec::new();
    let specs = [dala_spec::param("by", dala_spec::ParamKind::Float)];
    let params = dala_spec::ResolvedParams::resolve("test", &specs, &dala_spec::params! { by: 2.0 }, &mut problems);
    let ty = TensorType::new(DType::U32, [3]);
    let signature = Signature { inputs: Vec::new(), output: ty, params };
    let program = Program::build(&Expr::param("by"), &[], &signature).unwrap();
    for device in devices() {
        let buffer = Buffer::from_slice(&device, &[1u32; 3], [3]).unwrap();
        let compiled = over_words("test", program.clone(), 3, device.core().facts()).unwrap();
        let error = run_compiled(&device, compiled, &buffer).unwrap_err();
        assert_eq!(error.code(), "internal");
        assert!(error.to_string().contains("without its values"), "{error}");
    }
}

/// One thread of the engine's asks the driver what it has done, for everybody who waits. It ends if a callback of the driver's panics.
#[cfg(all(feature = "vulkan", feature = "gl"))]
#[test]
fn waits_go_on_when_the_engine_s_own_thread_has_ended() {
    for backend in [super::Backend::Vulkan, super::Backend::Gl] {
        // One that no other test waits for.
        let adapter = super::graphics::open(super::AdapterId { backend, number: 0 }, false).unwrap();
        let graphics = adapter.graphics.as_ref().unwrap();
        graphics.queue.on_submitted_work_done(move || panic!("on purpose, while {backend} is asked what it has done"));
        for _ in 0..3 {
            assert!(!adapter.is_lost(), "{backend} answers");
        }
    }
}
