//! Kernels from outside: those of `examples/own-kernels`, and ones that fail in every way that is left to them.

use std::sync::Arc;

use dala_compute::kernel::{
    Class, CubeFunction, CubeLaunch, DTypes, DeviceFacts, Expr, FLOATS, Grid, Kernel, LaunchRefused, Lowering, Place,
    Reference, Signature, cube_task,
};
use dala_compute::prelude::*;
use dala_compute::{
    FramePolicy, KernelCache, KernelSpec, Scalar, Stream, StreamOptions, Support, TensorType, cubecl, kernel,
};

use cubecl::prelude::*;

use super::support::{Random, device_names, devices, obtained, ordinary, upload};

#[path = "../../../../examples/own-kernels/src/emboss.rs"]
mod emboss;
#[path = "../../../../examples/own-kernels/src/life.rs"]
mod life;
#[path = "../../../../examples/own-kernels/src/rms.rs"]
mod rms;

const U32: DTypes = &[DType::U32];

fn all() -> Vec<Device> {
    let devices = devices();
    for device in &devices {
        for kernel in [emboss::kernel(), rms::kernel(), life::kernel()] {
            device.add_kernel(kernel).unwrap();
        }
    }
    devices
}

fn random(device: &Device, dtype: DType, shape: &[usize], seed: u64) -> Buffer {
    let data = match dtype {
        // Cells.
        DType::U32 => {
            let mut random = Random(seed);
            let cells = (0..shape.iter().product()).map(|_| Scalar::U32(random.below(2) as u32)).collect::<Vec<_>>();
            Data::collect(dtype, cells)
        }
        _ => ordinary(&mut Random(seed), &TensorType::new(dtype, shape)),
    };
    upload(device, &data, shape)
}

/// One call, as a plan that is compared with its reference.
fn check(device: &Device, kernel: &str, input: (DType, &[usize]), output: (DType, &[usize]), params: Params) {
    let x = random(device, input.0, input.1, input.1.iter().sum::<usize>() as u64);
    let y = Buffer::zeros(device, output.0, output.1).unwrap();
    let pipeline = Pipeline::new().stage(Stage::run_kernel(kernel, [&x], &y, &params));
    let verified = device.compile(&pipeline).unwrap().verify(&[]).unwrap();
    assert!(verified.is_right(), "{device:?}, {kernel} of {input:?}, {params:?}: {:?}", verified.difference);
    assert_eq!(verified.stages, 1);
}

#[test]
fn a_stencil_of_ones_own_is_right_on_every_picture() {
    for device in all() {
        for (number, shape) in [&[1, 1][..], &[5, 7, 4], &[33, 17, 3], &[64, 64, 4], &[3, 257]].iter().enumerate() {
            for dtype in [DType::U8, DType::F32] {
                let border = ["clamp", "reflect", "wrap", "zero"][number % 4];
                let params = params! { strength: 0.75, border: border };
                check(&device, "emboss", (dtype, shape), (dtype, shape), params);
            }
        }
    }
}

#[test]
fn a_reduction_of_ones_own_is_right_for_every_length() {
    for device in all() {
        for length in [1, 2, 7, 255, 1009] {
            check(&device, "rms", (DType::F32, &[3, 5, length]), (DType::F32, &[3, 5]), params! {});
        }
        assert_eq!(device.support("rms", DType::F32).unwrap(), Support::Native);
        assert_eq!(device.support("rms", DType::S32).unwrap(), Support::Refused);
    }
}

#[test]
fn a_function_of_ones_own_is_right_for_every_size() {
    for device in all() {
        let before = obtained(&device);
        for (height, width) in [(1, 1), (1, 7), (3, 5), (16, 16), (257, 3), (129, 513)] {
            let cells = (DType::U32, &[height, width][..]);
            check(&device, "life", cells, cells, params! { born: 2 + width % 3 });
        }
        // Neither a size nor a value shapes its code. The rest are copies.
        let names: Vec<String> = KernelCache::built().into_iter().map(|built| built.name).collect();
        assert!(obtained(&device) - before <= 3, "{device:?}: {names:?}");
    }
}

#[test]
fn neighbours_fuse_with_what_is_lowered_and_not_with_functions() {
    for device in all() {
        let x = random(&device, DType::F32, &[64, 64, 4], 1);
        let y = Buffer::zeros(&device, DType::F32, [64, 64, 4]).unwrap();
        let rows = Buffer::zeros(&device, DType::F32, [64, 64]).unwrap();
        let [dark, deep, flat] = [(); 3].map(|()| Transient::new());
        let pipeline = Pipeline::new()
            .stage(Stage::run_kernel("scalar_mul", [&x], &dark, params! { scalar: 0.5 }))
            .stage(Stage::run_kernel("emboss", [&dark], &deep, ()))
            .stage(Stage::run_kernel("relu", [&deep], &y, ()));
        let plan = device.compile(&pipeline).unwrap();
        assert_eq!((plan.stage_count(), plan.launches()), (3, 1), "{device:?}\n{}", plan.explain());
        assert!(plan.verify(&[]).unwrap().is_right());

        let pipeline = Pipeline::new()
            .stage(Stage::run_kernel("scalar_mul", [&x], &dark, params! { scalar: 3usize }))
            .stage(Stage::run_kernel("rms", [&dark], &flat, ()))
            .stage(Stage::run_kernel("scalar_add", [&flat], &rows, params! { scalar: 1 }));
        let plan = device.compile(&pipeline).unwrap();
        assert_eq!((plan.stage_count(), plan.launches()), (3, 1), "{device:?}\n{}", plan.explain());
        assert!(plan.verify(&[]).unwrap().is_right());

        let cells = random(&device, DType::U32, &[64, 64], 2);
        let (next, more) = (Transient::new(), Buffer::zeros(&device, DType::U32, [64, 64]).unwrap());
        let pipeline = Pipeline::new().stage(Stage::run_kernel("life", [&cells], &next, ())).stage(Stage::run_kernel(
            "scalar_mul",
            [&next],
            &more,
            params! { scalar: 2 },
        ));
        let plan = device.compile(&pipeline).unwrap();
        assert_eq!(plan.launches(), 2);
        let text = plan.explain();
        assert!(text.contains("a function of its own, "), "{text}");
        let why = "life (0) and scalar_mul (1): one of them is a function of its own, into which nothing is fused";
        assert!(text.contains(why), "{text}");
        assert!(plan.verify(&[]).unwrap().is_right());
    }
}

/// What `generations` of life make of cells, on the host.
fn host(cells: &Buffer, generations: usize) -> Data {
    let spec = life::kernel();
    let ty = TensorType::new(DType::U32, cells.shape().clone());
    let call = kernel::validate(&spec.spec, std::slice::from_ref(&ty), &ty, &params! {}).unwrap();
    let start = cells.read_data().unwrap();
    (0..generations).fold(start, |cells, _| spec.on_host(&call, &[cells]).unwrap().unwrap())
}

#[test]
fn a_function_is_run_in_every_way_that_kernels_are() {
    for device in all() {
        let x = random(&device, DType::U32, &[30, 41], 3);
        let expected = host(&x, 1);
        device.run("life", &[&x], &x, ()).unwrap();
        assert_eq!(x.read_data().unwrap(), expected, "{device:?}, in place");

        let expected = host(&x, 2);
        let stage = || Stage::run_kernel("life", &[&x], &x, ());
        device.submit_with([stage(), stage()], Lane::Background).unwrap().wait(None).unwrap();
        assert_eq!(x.read_data().unwrap(), expected, "{device:?}, as a command");

        let expected = host(&x, 5);
        let stream = Stream::repeat(&device, stage(), StreamOptions::new(FramePolicy::Block));
        for _ in 0..5 {
            stream.push(()).unwrap();
        }
        stream.wait_idle(None).unwrap();
        assert_eq!(x.read_data().unwrap(), expected, "{device:?}, in a stream");

        // Plans that are repeated are recorded where devices record.
        let (y, expected) = (Buffer::zeros(&device, DType::U32, [30, 41]).unwrap(), host(&x, 12));
        let there_and_back = [Stage::run_kernel("life", [&x], &y, ()), Stage::run_kernel("life", [&y], &x, ())];
        let plan = device.compile(&Pipeline::from(there_and_back.to_vec())).unwrap();
        plan.warm_up().unwrap();
        (0..6).for_each(|_| plan.submit().unwrap().wait(None).unwrap());
        assert_eq!(x.read_data().unwrap(), expected, "{device:?}, as a plan");

        let empty = Buffer::zeros(&device, DType::U32, [0, 4]).unwrap();
        device.run("life", &[&empty], &empty, ()).unwrap();
    }
}

#[test]
fn what_does_not_fit_a_spec_is_refused_before_anything_is_launched() {
    for device in all() {
        let launches = device.stats().launches;
        let (cells, floats) =
            (random(&device, DType::U32, &[4, 4], 4), Buffer::reserve(&device, DType::F32, [4, 4]).unwrap());
        let flat = Buffer::reserve(&device, DType::U32, [16]).unwrap();
        let code = |inputs: &[&Buffer], output: &Buffer, params: Params| {
            device.run("life", inputs, output, params).unwrap_err().code()
        };
        assert_eq!(code(&[&floats], &cells, params! {}), "dtype_mismatch");
        assert_eq!(code(&[&flat], &flat, params! {}), "shape_mismatch");
        assert_eq!(code(&[&cells], &flat, params! {}), "shape_mismatch");
        assert_eq!(code(&[&cells], &cells, params! { born: 9 }), "param_out_of_range");
        assert_eq!(code(&[&cells], &cells, params! { born: u64::MAX }), "param_type");
        assert_eq!(device.add_kernel(life::kernel()).unwrap_err().code(), "duplicate_kernel");
        assert_eq!(device.stats().launches, launches);
    }
}

#[cube(launch)]
fn doubled(x: &[u32], out: &mut [u32], len: u32, #[comptime] panics: bool) {
    comptime!(assert!(!panics, "while it is built"));
    let at = ABSOLUTE_POS as u32;
    if at < len {
        out[at as usize] = x[at as usize] * 2;
    }
}

#[cube(launch)]
fn doubled_together(x: &[u32], out: &mut [u32], len: u32) {
    let mut tile = Shared::<[u32]>::new_slice(64usize);
    let at = ABSOLUTE_POS as u32;
    if at < len {
        tile[UNIT_POS as usize] = x[at as usize];
    }
    sync_cube();
    if at < len {
        out[at as usize] = tile[UNIT_POS as usize] * 2;
    }
}

/// Squares of eight by eight units.
#[cube(launch)]
fn doubled_in_squares(x: &[u32], out: &mut [u32], len: u32) {
    let at = CUBE_POS as u32 * 64 + UNIT_POS_Y * 8 + UNIT_POS_X;
    if at < len {
        out[at as usize] = x[at as usize] * 2;
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Right,
    InSquares,
    PanicsInGrid,
    PanicsInLaunch,
    PanicsWhileBuilt,
    Refuses,
    BindsWhatIsNotThere,
    TooManyUnits,
    LaunchesTwice,
    LaunchesNothing,
    Shares,
}

struct Doubled(Way);

impl CubeFunction for Doubled {
    fn grid(&self, call: &Signature, facts: &DeviceFacts) -> Grid {
        let len = call.output.shape.len();
        match self.0 {
            Way::PanicsInGrid => panic!("on purpose"),
            Way::TooManyUnits => Grid { cubes: (1, 1, 1), units: (1 << 16, 4, 4) },
            Way::Shares => Grid { cubes: (len.div_ceil(64) as u32, 1, 1), units: (64, 1, 1) },
            Way::InSquares => Grid { cubes: (len.div_ceil(64) as u32, 1, 1), units: (8, 8, 1) },
            _ => Grid::one_each(len, facts),
        }
    }

    fn launch(&self, launch: &CubeLaunch) -> Result<(), LaunchRefused> {
        let (input, len) = (if self.0 == Way::BindsWhatIsNotThere { 7 } else { 0 }, launch.call().output.shape.len());
        let times = match self.0 {
            Way::PanicsInLaunch => panic!("on purpose"),
            Way::Refuses => return Err(LaunchRefused("on purpose".to_owned())),
            Way::LaunchesTwice => 2,
            Way::LaunchesNothing => 0,
            _ => 1,
        };
        for _ in 0..times {
            let (client, count, dim) = (launch.client(), launch.count(), launch.dim());
            let (x, out, built) = (launch.input(input)?, launch.output()?, self.0 == Way::PanicsWhileBuilt);
            match self.0 {
                Way::InSquares => doubled_in_squares::launch(client, count, dim, x, out, len as u32),
                Way::Shares => doubled_together::launch(client, count, dim, x, out, len as u32),
                _ => doubled::launch(client, count, dim, x, out, len as u32, built),
            }
        }
        Ok(())
    }
}

fn spec(name: &str, dtypes: DTypes) -> KernelSpec {
    KernelSpec::new(name, Class::Opaque).summary("Twice as much").input("x", dtypes)
}

#[test]
fn functions_that_fail_are_errors_and_the_device_goes_on() {
    for device in devices() {
        let x = Buffer::from_slice(&device, &[1u32, 2, 3], [3]).unwrap();
        let run = |way: Way, output: &Buffer| {
            let name = format!("{way:?}").to_lowercase();
            device.add_kernel(Kernel::cube(spec(&name, U32), Doubled(way))).unwrap();
            device.run(&name, &[&x], output, ())
        };
        let fails: &[(Way, &str, &str)] = &[
            (Way::PanicsInGrid, "kernel_failed", "kernel `panicsingrid` failed: it panicked: on purpose"),
            (Way::PanicsInLaunch, "kernel_failed", "kernel `panicsinlaunch` failed: it panicked: on purpose"),
            (Way::Refuses, "kernel_failed", "kernel `refuses` failed: on purpose"),
            (Way::BindsWhatIsNotThere, "kernel_failed", "the call has no input 7"),
            (Way::TooManyUnits, "limit_exceeded", "1048576 units"),
            (Way::PanicsWhileBuilt, "", "while it is built"),
        ];
        for (way, code, words) in fails {
            let output = Buffer::zeros(&device, DType::U32, [3]).unwrap();
            let error = run(*way, &output).unwrap_err();
            let text = format!("{error}");
            assert!(text.contains(words), "{device:?}, {way:?}: {text}");
            assert!(code.is_empty() || error.code() == *code, "{device:?}, {way:?}: {}", error.code());
            // What was to be written is not to be trusted, until it is written.
            if *way != Way::PanicsInGrid {
                assert_eq!(output.read::<u32>().unwrap_err().code(), "poisoned", "{device:?}, {way:?}");
            }
            output.write(&[0u32; 3]).unwrap();
            device.run("scalar_add", &[&x], &output, params! { scalar: 1 }).unwrap();
            assert_eq!(output.read::<u32>().unwrap(), [2, 3, 4], "{device:?} after {way:?}");
        }
        let output = Buffer::zeros(&device, DType::U32, [3]).unwrap();
        for way in [Way::Right, Way::InSquares] {
            output.write(&[0u32; 3]).unwrap();
            run(way, &output).unwrap();
            assert_eq!(output.read::<u32>().unwrap(), [2, 4, 6], "{device:?}, {way:?}");
        }
        // Squares are laid out as they were declared, whoever runs their units.
        let many: Vec<u32> = (0..1000).collect();
        let many = Buffer::from_slice(&device, &many, [1000]).unwrap();
        device.run("insquares", &[&many], &many, ()).unwrap();
        assert_eq!(many.read::<u32>().unwrap(), (0..1000).map(|at| at * 2).collect::<Vec<u32>>(), "{device:?}");
        // Units of a CPU share nothing, and a launch there is recorded as one.
        match device.info().backend.name() {
            // The software driver of Debian 12 crashes when it is handed a shader with shared memory, and takes the process along.
            "vulkan" => {}
            "cpu" => {
                let error = run(Way::Shares, &output).unwrap_err();
                assert_eq!(error.code(), "compile_failed");
                assert!(error.to_string().contains("share memory"), "{error}");
                let twice = run(Way::LaunchesTwice, &output).unwrap_err();
                assert!(twice.to_string().contains("more than once"), "{twice}");
                let nothing = run(Way::LaunchesNothing, &output).unwrap_err();
                assert_eq!(nothing.to_string(), "kernel `launchesnothing` failed: it launches nothing");
            }
            _ => {
                run(Way::Shares, &output).unwrap();
                assert_eq!(output.read::<u32>().unwrap(), [2, 4, 6], "{device:?}");
            }
        }
    }
}

#[test]
fn closures_lower_and_refer_and_their_panics_are_errors() {
    for device in devices() {
        let by = 3.0;
        let lower = move |call: &Signature, facts: &DeviceFacts| {
            let times = Kernel::pointwise(spec("inner", FLOATS), move |_| Expr::input("x") * by);
            times.lower(call, facts)
        };
        let right = Kernel::lowered(spec("three_times", FLOATS), lower);
        let right = right.reference(move |call: &Reference| call.numbers(|at| call.float(0, at) * by));
        device.add_kernel(right).unwrap();
        let x = Buffer::from_slice(&device, &[1.0f32, -2.0], [2]).unwrap();
        let compile = |kernel: &str| {
            let y = Buffer::zeros(&device, DType::F32, [2]).unwrap();
            device.compile(&Pipeline::new().stage(Stage::run_kernel(kernel, [&x], &y, ())))
        };
        assert!(compile("three_times").unwrap().verify(&[]).unwrap().is_right());
        // A reference that is wrong is found.
        let wrong =
            Kernel::lowered(spec("wrong", FLOATS), lower).reference(|call| call.numbers(|at| call.float(0, at)));
        device.add_kernel(wrong).unwrap();
        assert!(!compile("wrong").unwrap().verify(&[]).unwrap().is_right());
        let panics = Kernel::lowered(spec("panics", FLOATS), lower).reference(|_| panic!("on purpose"));
        device.add_kernel(panics).unwrap();
        let error = compile("panics").unwrap().verify(&[]).unwrap_err();
        assert_eq!(error.code(), "kernel_failed", "{error}");
        device.add_kernel(Kernel::lowered(spec("lost", FLOATS), |_, _| panic!("on purpose"))).unwrap();
        let error = compile("lost").unwrap_err().to_string();
        assert!(error.contains("kernel `lost` failed: it panicked: on purpose"), "{error}");
    }
}

#[test]
fn bytes_that_a_device_does_not_have_are_refused() {
    const BYTES: DTypes = &[DType::U8];
    for device in devices() {
        device.add_kernel(Kernel::cube(spec("bytes", BYTES), Doubled(Way::Right))).unwrap();
        let x = Buffer::zeros(&device, DType::U8, [4]).unwrap();
        if device.support("scalar_add", DType::U8).unwrap() == Support::Packed {
            let error = device.run("bytes", &[&x], &x, ()).unwrap_err();
            assert_eq!(error.code(), "unsupported", "{device:?}: {error}");
            // Nobody packs for a function: `u8` is not among what it may be called on.
            assert!(!error.to_string().split("but on").nth(1).unwrap().contains("u8"), "{error}");
        }
    }
}

/// How many elements a unit sums up.
const BLOCK: u32 = 64;

#[cube(launch)]
fn sums_of_blocks(x: &[u32], sums: &mut [u32], len: u32, blocks: u32) {
    let block = ABSOLUTE_POS as u32;
    if block < blocks {
        let end = min((block + 1) * BLOCK, len);
        let mut sum = 0u32;
        for at in block * BLOCK..end {
            sum += x[at as usize];
        }
        sums[block as usize] = sum;
    }
}

#[cube(launch)]
fn running_sums(x: &[u32], sums: &[u32], out: &mut [u32], len: u32, blocks: u32) {
    let block = ABSOLUTE_POS as u32;
    if block < blocks {
        let mut sum = 0u32;
        for before in 0..block {
            sum += sums[before as usize];
        }
        let end = min((block + 1) * BLOCK, len);
        for at in block * BLOCK..end {
            sum += x[at as usize];
            out[at as usize] = sum;
        }
    }
}

/// One of the two steps of a prefix sum.
struct Scan {
    last: bool,
}

impl CubeFunction for Scan {
    fn grid(&self, call: &Signature, facts: &DeviceFacts) -> Grid {
        Grid::one_each(call.inputs[0].shape.len().div_ceil(BLOCK as usize), facts)
    }

    fn launch(&self, launch: &CubeLaunch) -> Result<(), LaunchRefused> {
        let len = launch.call().inputs[0].shape.len() as u32;
        let (client, count, dim, blocks) = (launch.client(), launch.count(), launch.dim(), len.div_ceil(BLOCK));
        let (x, out) = (launch.input(0)?, launch.output()?);
        match self.last {
            false => sums_of_blocks::launch(client, count, dim, x, out, len, blocks),
            true => running_sums::launch(client, count, dim, x, launch.input(1)?, out, len, blocks),
        }
        Ok(())
    }
}

#[test]
fn several_functions_are_steps_of_one_kernel() {
    let lower = |call: &Signature, facts: &DeviceFacts| {
        let [first, last] = [false, true].map(|last| Arc::new(Scan { last }) as Arc<dyn CubeFunction>);
        let blocks = TensorType::new(DType::U32, [call.output.shape.len().div_ceil(BLOCK as usize)]);
        let mut lowering = Lowering::new();
        let sums = lowering.transient(blocks.clone());
        let step = Signature { output: blocks.clone(), ..call.clone() };
        lowering.step(cube_task("scan", &first, step, facts), [Place::Input(0)], sums);
        let step = Signature { inputs: vec![call.inputs[0].clone(), blocks], ..call.clone() };
        lowering.step(cube_task("scan", &last, step, facts), [Place::Input(0), sums], Place::Output);
        Ok(lowering)
    };
    for device in devices() {
        device.add_kernel(Kernel::lowered(spec("scan", U32), lower)).unwrap();
        for len in [1usize, 63, 64, 65, 1009, 40_000] {
            let x: Vec<u32> = (0..len as u32).map(|at| at * 7 % 31).collect();
            let expected: Vec<u32> = x
                .iter()
                .scan(0, |sum, x| {
                    *sum += x;
                    Some(*sum)
                })
                .collect();
            let (x, y) =
                (Buffer::from_slice(&device, &x, [len]).unwrap(), Buffer::zeros(&device, DType::U32, [len]).unwrap());
            device.run("scan", &[&x], &y, ()).unwrap();
            assert_eq!(y.read::<u32>().unwrap(), expected, "{device:?}, {len} elements");
        }
    }
}

/// Kernels of others may change without their name: what one process compiled is not to be found by the next.
#[test]
fn what_others_wrote_is_not_kept_in_files() {
    if let Some(name) = std::env::var_os("DALA_OWN_KERNELS") {
        let device = Device::open(name.to_str().unwrap()).unwrap();
        device.add_kernel(Kernel::cube(spec("twice", U32), Doubled(Way::Right))).unwrap();
        let x = Buffer::from_slice(&device, &[1u32, 2, 3], [3]).unwrap();
        let y = Buffer::reserve(&device, DType::U32, [3]).unwrap();
        device.run("twice", &[&x], &y, ()).unwrap();
        assert_eq!(y.read::<u32>().unwrap(), [2, 4, 6]);
        assert_eq!(device.stats().compilations, 1, "counted");
        assert_eq!(KernelCache::get().size().unwrap().0, 0, "kept");
        device.run("scalar_add", &[&x], &y, params! { scalar: 1 }).unwrap();
        assert_eq!(device.stats().compilations, 2);
        // Texts are not kept, and OpenGL takes those.
        assert_eq!(KernelCache::get().size().unwrap().0, u64::from(name != "gl"), "ours are");
        return;
    }
    for name in device_names() {
        let folder = std::env::temp_dir().join(format!("dala-own-kernels-{}-{name}", std::process::id()));
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "own_kernels::what_others_wrote_is_not_kept_in_files", "--nocapture"])
            .env("DALA_OWN_KERNELS", &name)
            .env("DALA_CACHE", &folder)
            .output()
            .unwrap();
        let _ = std::fs::remove_dir_all(&folder);
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
