//! Plans: run again, rebound, freed, warmed up, looked at, and wrong ones refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dala_compute::{
    Buffer, DType, Data, Device, DeviceKind, Error, Lane, Operand, Params, Pipeline, PlanOptions, Stage, TensorType,
    Transient, trace,
};

use dala_kernels::{Kernel, Reference};
use dala_plan::work::{Map, Task};
use dala_plan::{Lowering, Place};
use dala_spec::{Class, Expr, KernelSpec, PIXELS, ParamKey, ParamKind, Signature, Tolerance, param};

use crate::support::{Random, device_names, devices, obtained, ordinary, upload};

/// `y = relu(x * 2 + 1)` through a stencil, so that there are several launches.
fn pipeline(x: &Buffer, y: &Buffer) -> Pipeline {
    let [a, b, c] = [0; 3].map(|_| Transient::new());
    Pipeline::new()
        .named(x, "x")
        .named(y, "y")
        .stage(Stage::run_kernel("scalar_mul", [x], &a, [("scalar", 2)]))
        .stage(Stage::run_kernel("box_blur", [&a], &b, [("radius", 1)]))
        .stage(Stage::run_kernel("box_blur", [&b], &c, [("radius", 1)]))
        .stage(Stage::run_kernel("scalar_add", [&c], y, [("scalar", 1)]))
}

fn pair(device: &Device, value: f32) -> (Buffer, Buffer) {
    let x = Buffer::from_slice(device, &[value; 1024], [32, 32]).unwrap();
    (x, Buffer::zeros(device, DType::F32, [32, 32]).unwrap())
}

#[test]
fn plans_run_again_with_new_contents() {
    for device in devices() {
        let (x, y) = pair(&device, 1.0);
        let plan = device.compile(&pipeline(&x, &y)).unwrap();
        assert_eq!((plan.stage_count(), plan.launches()), (4, 2), "{}", plan.explain());
        plan.run().unwrap();
        let compiled = obtained(&device);
        // Often enough for the device to record it, where it does.
        for round in 0..12 {
            x.write(&[round as f32; 1024]).unwrap();
            plan.run().unwrap();
            let found = y.read::<f32>().unwrap();
            assert!(found.iter().all(|value| (value - (2.0 * round as f32 + 1.0)).abs() < 1e-4), "{device:?} {round}");
        }
        assert_eq!(obtained(&device), compiled, "{device:?}");
        // Clones are the same plan, from any thread, in any lane.
        let results: Vec<_> = (0..4)
            .map(|_| plan.clone())
            .map(|plan| std::thread::spawn(move || plan.submit_with(Lane::Background).unwrap().wait(None)))
            .map(|thread| thread.join().unwrap())
            .collect();
        assert_eq!(results, [Ok(()), Ok(()), Ok(()), Ok(())]);
    }
}

#[test]
fn plans_are_rebound_without_compiling() {
    for device in devices() {
        let (x, y) = pair(&device, 1.0);
        let plan = device.compile(&pipeline(&x, &y)).unwrap();
        (0..5).for_each(|_| plan.run().unwrap());
        let compiled = obtained(&device);
        let (other, result) = pair(&device, 5.0);
        let rebound = plan.rebind(&[(&x, &other), (&y, &result)]).unwrap();
        (0..5).for_each(|_| rebound.run().unwrap());
        assert_eq!(obtained(&device), compiled);
        assert!(result.read::<f32>().unwrap().iter().all(|value| (value - 11.0).abs() < 1e-4));
        assert!(y.read::<f32>().unwrap().iter().all(|value| (value - 3.0).abs() < 1e-4));
        let small = Buffer::zeros(&device, DType::F32, [4]).unwrap();
        assert_eq!(plan.rebind(&[(&x, &small)]).unwrap_err().code(), "plan_mismatch");
        assert_eq!(plan.rebind(&[(&small, &x)]).unwrap_err().code(), "not_in_plan");
        assert!(plan.rebind(&[(&x, &y)]).is_err(), "what was apart must stay apart");
    }
}

#[test]
fn freeing_a_buffer_ends_its_plans() {
    for device in devices() {
        let live = device.memory().unwrap().live;
        {
            let (x, y) = pair(&device, 1.0);
            let plan = device.compile(&pipeline(&x, &y)).unwrap();
            // Recorded by now, where the device records.
            (0..6).for_each(|_| plan.run().unwrap());
            let before = device.memory().unwrap().live;
            x.free();
            let after = device.memory().unwrap().live;
            // The buffer's memory, and the scratch memory of the plan that cannot run any more.
            assert!(before - after >= 4096, "{device:?}: {before} {after}");
            assert_eq!(plan.run().unwrap_err().code(), "freed");
            assert_eq!(plan.submit().unwrap_err().code(), "freed");
            let (fresh, _) = pair(&device, 3.0);
            let rebound = plan.rebind(&[(&x, &fresh)]).unwrap();
            (0..6).for_each(|_| rebound.run().unwrap());
            assert!(y.read::<f32>().unwrap().iter().all(|value| (value - 7.0).abs() < 1e-4));
        }
        assert_eq!(device.memory().unwrap().live, live, "{device:?}");
    }
}

#[test]
fn warmed_up_plans_compile_nothing_when_they_run() {
    for device in devices() {
        // A radius of its own, so that no other test has compiled it.
        let (x, y) = pair(&device, 1.0);
        let t = Transient::new();
        let stages = Pipeline::new()
            .stage(Stage::run_kernel("blur", [&x], &t, Params::new().with("radius", 5).with("border", "wrap")))
            .stage(Stage::run_kernel("softmax", [&t], &y, ()));
        let plan = device.compile(&stages).unwrap();
        let (kernels, launches) = (obtained(&device), device.stats().launches);
        plan.warm_up().unwrap();
        let warm = obtained(&device);
        assert!(warm > kernels, "{device:?}");
        assert_eq!(device.stats().launches, launches, "nothing is launched");
        assert!(y.read::<f32>().unwrap().iter().all(|value| *value == 0.0), "nothing is written");
        plan.run().unwrap();
        assert_eq!(obtained(&device), warm, "{device:?}");
        let sum: f32 = y.read::<f32>().unwrap()[..32].iter().sum();
        assert!((sum - 1.0).abs() < 1e-3);
    }
}

#[test]
fn plans_can_be_looked_at() {
    for device in devices() {
        let (x, y) = pair(&device, 1.0);
        let plan = device.compile(&pipeline(&x, &y)).unwrap();
        let times = plan.profile().unwrap();
        assert_eq!(times.len(), plan.launches());
        assert_eq!(times[0].stages, [0, 1]);
        // No rubbish; on a slow machine a kernel may be built meanwhile.
        assert!(times.iter().all(|launch| launch.time.as_secs() < 600));
        assert!(y.read::<f32>().unwrap().iter().all(|value| (value - 3.0).abs() < 1e-4), "a profile is a run");
        assert!(plan.explain().contains("scalar_mul + box_blur"), "{}", plan.explain());
        assert!(plan.to_svg().contains("box_blur"));
        device.start_trace();
        (0..3).for_each(|_| plan.run().unwrap());
        let taken = device.stop_trace();
        assert!(taken.spans.iter().any(|span| span.name.contains("box_blur")), "{taken:?}");
        assert!(taken.spans.iter().any(|span| matches!(span.track, trace::Track::Queue(_))));
        assert!(!taken.samples.is_empty());
        assert!(serde_json::from_str::<serde_json::Value>(&trace::to_perfetto(&taken)).is_ok());
        assert!(device.stop_trace().spans.is_empty());
    }
}

#[test]
fn verification_names_what_differs() {
    for name in device_names() {
        let device = Device::open(&name).unwrap();
        let (x, y) = pair(&device, 1.0);
        let plan = device.compile(&pipeline(&x, &y)).unwrap();
        let found = plan.verify(&[]).unwrap();
        assert!(found.is_right(), "{:?}", found.difference);
        assert_eq!((found.stages, found.elements), (4, 5 * 1024));
        // The buffers are as they were.
        assert!(y.read::<f32>().unwrap().iter().all(|value| *value == 0.0));
        let data = Data::F32((0..1024).map(|index| index as f32 / 7.0).collect());
        assert!(plan.verify(&[(&x, &data)]).unwrap().is_right());
        assert!(x.read::<f32>().unwrap().iter().all(|value| *value == 1.0));
    }
}

#[test]
fn failures_poison_and_are_told_with_their_stage() {
    for device in devices() {
        let (x, y) = pair(&device, 1.0);
        let never = Buffer::reserve(&device, DType::F32, [32, 32]).unwrap();
        let plan = device.compile(&pipeline(&never, &y)).unwrap();
        assert_eq!(plan.run().unwrap_err().code(), "poisoned");
        let wrong = Pipeline::new()
            .stage(Stage::run_kernel("rleu", [&x], &y, ()))
            .stage(Stage::barrier())
            .stage(Stage::run_kernel("relu", [&Transient::new()], &y, [("slop", 1)]));
        let Error::Pipeline { problems } = device.compile(&wrong).unwrap_err() else { panic!("another error") };
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "stage 0: no kernel is called `rleu`, did you mean `relu`?",
                "stage 2: input `x` of kernel `relu` is the transient `t0`, which no stage before writes",
                "stage 2: kernel `relu` has no param `slop`, did you mean `slope`?",
            ]
        );
        let huge = Transient::new().dtype(DType::F32).shape([1 << 62, 4]);
        let flipped = Transient::new();
        let stages = Pipeline::new().stage(Stage::generate("fill", &huge, [("value", 1)])).stage(Stage::run_kernel(
            "transpose",
            [&huge],
            &flipped,
            (),
        ));
        let Error::Pipeline { problems } = device.compile(&stages).unwrap_err() else { panic!("another error") };
        assert!(problems.iter().all(|problem| problem.code() == "shape_too_large"), "{problems:?}");
        let write = Pipeline::new().stage(Stage::write_buffer(&x, vec![0u8; 4096]));
        assert!(device.compile(&write).unwrap_err().to_string().contains("write_buffer cannot be part of a plan"));
        let outside = Stage::run_kernel("relu", [&Transient::new()], &y, ());
        assert_eq!(device.submit(outside).unwrap_err().code(), "transient_outside");
    }
}

#[test]
fn an_empty_pipeline_does_nothing() {
    for device in devices() {
        let plan = device.compile(&Pipeline::new()).unwrap();
        assert_eq!(plan.launches(), 0);
        plan.run().unwrap();
        let empty = Buffer::zeros(&device, DType::F32, [0]).unwrap();
        let sum = Buffer::from_slice(&device, &[7.0f32], []).unwrap();
        let t = Transient::new();
        let stages = Pipeline::new().stage(Stage::run_kernel("relu", [&empty], &t, ())).stage(Stage::run_kernel(
            "reduce_sum",
            [&t],
            &sum,
            (),
        ));
        for options in [PlanOptions::new(), PlanOptions::unfused()] {
            device.compile_with(&stages, options).unwrap().run().unwrap();
            assert_eq!(sum.read::<f32>().unwrap(), [0.0]);
        }
    }
}

/// A kernel whose reference says that nothing changes, and which adds one.
fn one_more(levels: u8) -> Kernel {
    fn unmoved(call: &Reference) -> Data {
        call.inputs[0].clone()
    }
    let spec = KernelSpec::pointwise("one_more").input("x", PIXELS).tolerance(Tolerance::EXACT.levels(levels));
    Kernel::pointwise(spec, |_| Expr::input("x") + 1).reference(unmoved)
}

#[test]
fn verifying_is_as_strict_as_the_kernel_says() {
    for device in devices() {
        let name = &device.info().id.clone();
        for (levels, right) in [(0, false), (1, true)] {
            let device = Device::open(name).unwrap();
            device.add_kernel(one_more(levels)).unwrap();
            let [x, y] = [0; 2].map(|_| Buffer::from_slice(&device, &[7u8; 100], [100]).unwrap());
            let plan = device.compile(&Pipeline::new().stage(Stage::run_kernel("one_more", &[&x], &y, ()))).unwrap();
            let found = plan.verify(&[]).unwrap();
            assert_eq!(found.is_right(), right, "{name}, {levels} levels: {:?}", found.difference);
        }
    }
}

/// A program that treats one channel apart is part of the filter before it, as one that treats all alike.
#[test]
fn programs_that_tell_channels_apart_are_part_of_filters() {
    for device in devices() {
        let mut launches = Vec::new();
        for channels in [3usize, 4] {
            let shape = [9, 64, channels];
            let ty = TensorType::new(DType::U8, shape);
            let x = upload(&device, &ordinary(&mut Random(channels as u64), &ty), shape);
            let (sharp, y) = (Transient::new(), Buffer::zeros(&device, DType::U8, shape).unwrap());
            let stages = Pipeline::new()
                .stage(Stage::run_kernel("sharpen", [&x], &sharp, ()))
                .stage(Stage::run_kernel("brightness_contrast", [&sharp], &y, [("contrast", 1.7)]));
            let plan = device.compile(&stages).unwrap();
            let found = plan.verify(&[]).unwrap();
            assert!(found.is_right(), "{} channels: {:?}\n{}", channels, found.difference, plan.explain());
            launches.push(plan.launches());
        }
        assert_eq!(launches, [1, 1], "{}", device.info().id);
    }
}

/// A row that counts for all rows is read by the kernel that makes the rows, also where they are no whole vectors.
#[test]
fn rows_are_read_by_the_kernel_before() {
    type Case = (&'static str, &'static [&'static [usize]], &'static [usize], Params);
    let by_channel = || Params::new().with("padding", vec![1, 1, 1, 1]).with("groups", 24);
    let cases: [Case; 7] = [
        ("matmul", &[&[10, 32], &[32, 64]], &[10, 64], Params::new()),
        ("matmul", &[&[2, 10, 32], &[32, 19]], &[2, 10, 19], Params::new()),
        ("conv2d", &[&[1, 9, 8, 6], &[3, 3, 6, 16], &[16]], &[1, 7, 6, 16], Params::new()),
        ("conv2d", &[&[1, 9, 8, 24], &[3, 3, 1, 24], &[24]], &[1, 9, 8, 24], by_channel()),
        ("max_pool2d", &[&[2, 8, 8, 12]], &[2, 7, 7, 12], Params::new()),
        ("softmax", &[&[6, 40]], &[6, 40], Params::new()),
        ("layer_norm", &[&[5, 33], &[33], &[33]], &[5, 33], Params::new()),
    ];
    for device in devices() {
        for (number, (kernel, inputs, output, params)) in cases.iter().enumerate() {
            let random = &mut Random(number as u64);
            let mut data =
                |dims: &[usize]| upload(&device, &ordinary(random, &TensorType::new(DType::F32, dims)), dims);
            let inputs: Vec<Buffer> = inputs.iter().map(|dims| data(dims)).collect();
            let row = data(&output[output.len() - 1..]);
            let y = Buffer::zeros(&device, DType::F32, *output).unwrap();
            let [made, scaled] = [Transient::new(), Transient::new()];
            let stages = Pipeline::new()
                .stage(Stage::run_kernel(*kernel, &inputs, &made, params.clone()))
                .stage(Stage::run_kernel("elementwise_mul", [Operand::from(&made), Operand::from(&row)], &scaled, ()))
                .stage(Stage::run_kernel("elementwise_add", [Operand::from(&row), Operand::from(&scaled)], &y, ()));
            let plan = device.compile(&stages).unwrap();
            let (id, found) = (&device.info().id, plan.verify(&[]).unwrap());
            assert!(found.is_right(), "{id}, case {number}: {:?}\n{}", found.difference, plan.explain());
            let alone = Stage::run_kernel(*kernel, &inputs, &y, params.clone());
            let alone = device.compile(&Pipeline::new().stage(alone)).unwrap();
            // On GPUs, products of no whole vectors are cut to their length by a program of its own.
            let cut = usize::from(number == 1 && device.info().kind != DeviceKind::Cpu);
            assert_eq!(plan.launches(), alone.launches() + cut, "{id}, case {number}: {}", plan.explain());
        }
    }
}

/// What a plan's launches read is listed, also after it was brought to the device.
#[test]
fn explained_constants_are_listed() {
    let device = Device::open("cpu").unwrap();
    let x = Buffer::zeros(&device, DType::U8, [40, 60, 3]).unwrap();
    let y = Buffer::zeros(&device, DType::U8, [30, 45, 3]).unwrap();
    let plan = device.compile(&Pipeline::new().stage(Stage::run_kernel("resize", &[&x], &y, ()))).unwrap();
    for _ in 0..2 {
        let text = plan.explain();
        let (head, launches) = text.split_once("\nlaunches\n").unwrap();
        let read: Vec<&str> = launches
            .split([' ', ',', '\n'])
            .filter(|word| word.starts_with('c') && word[1..].parse::<u32>().is_ok())
            .collect();
        assert!(!read.is_empty(), "resizing reads tables:\n{text}");
        assert!(read.iter().all(|name| head.contains(&format!("\n  {name}  "))), "{text}");
        plan.run().unwrap();
    }
}

/// Faults of kernels reach their callers, and nothing is launched.
#[test]
fn broken_kernels_are_errors() {
    const MISSPELT: ParamKey = ParamKey::new("slop");
    let spec = |name: &str| {
        KernelSpec::new(name, Class::Opaque).input("x", PIXELS).param(param("slope", ParamKind::Float).default(1.0))
    };
    let misspelt =
        Kernel::pointwise(spec("misspelt"), |call| Expr::input("x") * Expr::number(call.params.float(MISSPELT)));
    let nowhere = Kernel::lowered(spec("nowhere"), |call, _| {
        let mut lowering = Lowering::new();
        lowering.step(Task::Map(Map::copy(&call.output)), [Place::Transient(3)], Place::Output);
        Ok(lowering)
    });
    let nothing = Kernel::lowered(spec("nothing"), |_, _| Ok(Lowering::new()));
    for device in devices() {
        for kernel in [&misspelt, &nowhere, &nothing] {
            let name = &kernel.spec.name;
            device.add_kernel(kernel.clone()).unwrap();
            let [x, y] = [0; 2].map(|_| Buffer::from_slice(&device, &[1.0f32; 8], [8]).unwrap());
            let before = device.stats().launches;
            let pipeline = Pipeline::new().stage(Stage::run_kernel(name, &[&x], &y, ()));
            let failed = device.compile(&pipeline).map(drop).unwrap_err();
            assert!(failed.to_string().contains("a fault of this library"), "{name}: {failed}");
            let failed = device.run(name, &[&x], &y, ()).unwrap_err();
            assert_eq!(failed.code(), "internal", "{name}: {failed}");
            assert_eq!(device.stats().launches, before, "{name}");
        }
    }
}

#[test]
fn plans_are_held_to_what_their_stages_may() {
    fn unmoved(call: &Reference) -> Data {
        call.inputs[0].clone()
    }
    for name in device_names() {
        for (levels, right) in [(0, false), (1, true)] {
            let device = Device::open(&name).unwrap();
            // Only the plan adds one, not the stage alone.
            let planned = Arc::new(AtomicBool::new(true));
            let own = planned.clone();
            let spec = KernelSpec::pointwise("changes").input("x", PIXELS).tolerance(Tolerance::EXACT.levels(levels));
            let expr = move |_: &Signature| match own.load(Ordering::Relaxed) {
                true => Expr::input("x") + 1,
                false => Expr::input("x"),
            };
            device.add_kernel(Kernel::pointwise(spec, expr).reference(unmoved)).unwrap();
            let [x, y] = [0; 2].map(|_| Buffer::from_slice(&device, &[7u8], [1]).unwrap());
            let plan = device.compile(&Pipeline::new().stage(Stage::run_kernel("changes", &[&x], &y, ()))).unwrap();
            planned.store(false, Ordering::Relaxed);
            let found = plan.verify(&[]).unwrap();
            assert_eq!(found.is_right(), right, "{name}, {levels} levels: {:?}", found.difference);
            assert!(found.difference.is_none_or(|found| found.stage.is_none()));
        }
    }
}
