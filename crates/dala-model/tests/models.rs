//! Real networks on real devices, held against what other programs gave.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking, and says what it saw")]

mod builder;
mod operators;
mod support;
mod zoo_table;

use std::path::{Path, PathBuf};

use builder::Net;
use dala_compute::{Buffer, DType, Device, Params, Pipeline, Stage, Transient};
use dala_model::proto::element_type as builder_type;
use dala_model::{LoadError, LoadModel, Model, Session};
use dala_spec::Data;
use support::{Golden, close, devices, model_file, picture};

/// The networks of `make_nets.py`, whose results are ONNX Runtime's: most operators, five styles, two batches.
#[test]
fn small_networks() {
    let golden = Golden::open("nets.safetensors");
    for name in devices() {
        let device = Device::open(&name).unwrap();
        for net in ["squeezenet", "resnet", "efficientnet_lite", "mobilenet_v3", "zoo_of_operators"] {
            device.load_model(net, support::data(&format!("{net}.onnx"))).unwrap();
            for batch in ["b1", "b3"] {
                let (input, dims) = golden.floats(&format!("{net}/{batch}/input"));
                let (expected, to) = golden.floats(&format!("{net}/{batch}/output"));
                let x = Buffer::from_slice(&device, &input, dims).unwrap();
                let y = Buffer::zeros(&device, DType::F32, to).unwrap();
                device.run(net, &[&x], &y, ()).unwrap();
                close(&format!("{name} {net} {batch}"), &y.read::<f32>().unwrap(), &expected, 1e-4);
            }
        }
    }
}

/// A batch normalisation of lists, as many channels as elements: which axis is which cannot be told from the sizes.
#[test]
fn channels_are_the_second_axis() {
    let size = 3i64;
    let values = |of: &[f32]| of.to_vec();
    let net = Net::new(13)
        .x(&[-1, size, size])
        .floats("scale", &[size], values(&[1.0, 2.0, 4.0]))
        .floats("shift", &[size], values(&[0.0, 1.0, -1.0]))
        .floats("mean", &[size], values(&[0.0, 0.5, 1.0]))
        .floats("variance", &[size], values(&[1.0, 4.0, 0.25]))
        .node(
            "BatchNormalization",
            &["x", "scale", "shift", "mean", "variance"],
            "y",
            vec![builder::float("epsilon", 0.0)],
        )
        .output("y");
    let x: Vec<f32> = (0..18).map(|index| index as f32 / 4.0).collect();
    let norm = |(index, x): (usize, &f32)| match index / 3 % 3 {
        0 => *x,
        1 => (x - 0.5) / 2.0 * 2.0 + 1.0,
        _ => (x - 1.0) / 0.5 * 4.0 - 1.0,
    };
    let expected: Vec<f32> = x.iter().enumerate().map(norm).collect();
    run_small(net, &x, &[2, 3, 3], &expected, &[2, 3, 3]);
}

/// Products of stacks of matrices, where one stack is repeated along an axis of the other.
#[test]
fn stacks_of_matrices_are_repeated() {
    let net = Net::new(13)
        .x(&[-1, 1, 1, 2])
        .floats("c", &[3, 2, 1], vec![1.0, 10.0, 2.0, 20.0, 3.0, 30.0])
        .node("MatMul", &["x", "c"], "y", vec![])
        .output("y");
    let x = [1.0, 2.0, 3.0, 4.0];
    let expected = [21.0, 42.0, 63.0, 43.0, 86.0, 129.0];
    run_small(net, &x, &[2, 1, 1, 2], &expected, &[2, 3, 1, 1]);
}

/// A node of several outputs, one of which nobody reads: pictures before and after a convolution, split by channels.
#[test]
fn values_are_split() {
    let mut net = Net::new(13)
        .x(&[-1, 3, 1, 2])
        .ints("sizes", &[1, 1, 1])
        .floats("w", &[3, 3, 1, 1], vec![1.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 4.0])
        .node("Split", &["x", "sizes"], "a", vec![builder::int("axis", 1)])
        .node("Conv", &["x", "w"], "conv", vec![])
        .node("Split", &["conv", "sizes"], "d", vec![builder::int("axis", 1)])
        .node("Concat", &["c", "f"], "y", vec![builder::int("axis", 1)])
        .output("y");
    for (number, names) in [(0, ["b", "c"]), (2, ["", "f"])] {
        net.graph().node[number].output.extend(names.map(str::to_owned));
    }
    let x: Vec<f32> = (0..12).map(|index| index as f32).collect();
    let expected = [4.0, 5.0, 16.0, 20.0, 10.0, 11.0, 40.0, 44.0];
    run_small(net, &x, &[2, 3, 1, 2], &expected, &[2, 2, 1, 2]);
}

/// A transposed convolution along three axes: windows that overlap in depth, with a stride, a part cut off, and a bias.
#[test]
fn spaces_grow() {
    let net = Net::new(13)
        .x(&[-1, 1, 2, 1, 2])
        .floats("w", &[1, 1, 3, 1, 2], vec![1.0, 2.0, 10.0, 20.0, 100.0, 200.0])
        .floats("b", &[1], vec![0.5])
        .node(
            "ConvTranspose",
            &["x", "w", "b"],
            "y",
            vec![builder::ints("strides", &[2, 1, 1]), builder::ints("pads", &[1, 0, 0, 0, 0, 0])],
        )
        .output("y");
    // Planes of the whole result: 1 3 2 | 10 30 20 | 103 310 208 and so on, of which the first is cut off.
    let expected = [10.0, 30.0, 20.0, 103.0, 310.0, 208.0, 30.0, 100.0, 80.0, 300.0, 1000.0, 800.0];
    run_small(net, &[1.0, 1.0, 3.0, 4.0], &[1, 1, 2, 1, 2], &expected.map(|value| value + 0.5), &[1, 1, 4, 1, 3]);
}

/// Weights that are made of weights are computed by the device, before the first run and never again.
#[test]
fn weights_are_computed_once() {
    const SIZE: usize = 96;
    let weights: Vec<f32> = (0..SIZE * SIZE).map(|index| (index % 13) as f32 - 6.0).collect();
    let net = Net::new(13)
        .x(&[-1, SIZE as i64])
        .floats("w", &[SIZE as i64, SIZE as i64], weights.clone())
        .floats("half", &[1], vec![0.5])
        .node("Transpose", &["w"], "turned", vec![])
        .node("Mul", &["turned", "half"], "scaled", vec![])
        .node("MatMul", &["x", "scaled"], "y", vec![])
        .output("y");
    let x: Vec<f32> = (0..2 * SIZE).map(|index| (index % 5) as f32).collect();
    let product = |at: usize| {
        let (row, column) = (&x[at / SIZE * SIZE..][..SIZE], &weights[at % SIZE * SIZE..][..SIZE]);
        row.iter().zip(column).map(|(x, w)| x * w * 0.5).sum()
    };
    let expected: Vec<f32> = (0..2 * SIZE).map(product).collect();
    for name in devices() {
        let device = Device::open(&name).unwrap();
        device.add_model("small", &Model::read(net.bytes()).unwrap()).unwrap();
        let x = Buffer::from_slice(&device, &x, [2, SIZE]).unwrap();
        let y = Buffer::zeros(&device, DType::F32, [2, SIZE]).unwrap();
        let plan = device.compile(&Pipeline::new().stage(Stage::run_kernel("small", [&x], &y, ()))).unwrap();
        assert!(plan.explain().contains("computed once, from constants alone"), "{}", plan.explain());
        assert_eq!(plan.launches(), 1, "{name}: {}", plan.explain());
        let launches = [0; 3].map(|_| {
            let before = device.stats().launches;
            plan.run().unwrap();
            device.stats().launches - before
        });
        assert!(launches[0] > 1 && launches[1..] == [1, 1], "{name}: {launches:?}");
        close(&name, &y.read::<f32>().unwrap(), &expected, 1e-5);
    }
}

fn run_small(net: Net, x: &[f32], from: &[usize], expected: &[f32], to: &[usize]) {
    for name in devices() {
        let device = Device::open(&name).unwrap();
        device.add_model("small", &Model::read(net.bytes()).unwrap()).unwrap();
        let x = Buffer::from_slice(&device, x, from).unwrap();
        let y = Buffer::zeros(&device, DType::F32, to).unwrap();
        device.run("small", &[&x], &y, ()).unwrap();
        close(&name, &y.read::<f32>().unwrap(), expected, 1e-5);
    }
}

/// Logits of MobileNetV2 on photos and on noise, from both files, within 1e-3 of PyTorch's and of the model zoo's.
#[test]
fn mobilenet_logits() {
    let golden = Golden::open("mobilenet_v2.safetensors");
    for name in devices() {
        let device = Device::open(&name).unwrap();
        for file in ["mobilenet_v2.onnx", "mobilenet_v2.folded.onnx"] {
            let kernel = file.replace('.', "_");
            device.load_model(&kernel, model_file(file)).unwrap();
            let run = |x: &[f32]| {
                let x = Buffer::from_slice(&device, x, [1, 3, 224, 224]).unwrap();
                let y = Buffer::zeros(&device, DType::F32, [1, 1000]).unwrap();
                device.run(&kernel, &[&x], &y, ()).unwrap();
                y.read::<f32>().unwrap()
            };
            for photo in ["cat_chelsea", "espresso_coffee", "tripod_camera"] {
                let (expected, _) = golden.floats(&format!("crop/{photo}/logits"));
                let logits = run(&picture(&format!("{photo}.crop224.png")).normalized());
                close(&format!("{name} {file} {photo}"), &logits, &expected, 1e-3);
            }
            for number in 0..3 {
                let (input, _) = golden.floats(&format!("zoo/{number}/input"));
                let (expected, _) = golden.floats(&format!("zoo/{number}/output"));
                close(&format!("{name} {file} zoo {number}"), &run(&input), &expected, 1e-3);
            }
        }
    }
}

/// The documents' inference pipeline as one plan: from the camera's buffer to probabilities, and nothing is read back between.
#[test]
fn inference_pipeline() {
    for name in devices() {
        let device = Device::open(&name).unwrap();
        device.load_model("mobilenet_v2", model_file("mobilenet_v2.onnx")).unwrap();
        for (photo, top) in support::photos() {
            let camera = picture(&photo).upload(&device);
            let preprocessed = Buffer::zeros(&device, DType::F32, [1, 3, 224, 224]).unwrap();
            let logits = Buffer::zeros(&device, DType::F32, [1, 1000]).unwrap();
            let probabilities = Buffer::zeros(&device, DType::F32, [1, 1000]).unwrap();
            let fit = Params::new().with("normalize", true).with("size", vec![224i64, 224]).with("fit", "crop");
            let pipeline = Pipeline::new()
                .stage(Stage::run_kernel("preprocess", &[&camera], &preprocessed, fit))
                .stage(Stage::run_kernel("mobilenet_v2", &[&preprocessed], &logits, ()))
                .stage(Stage::run_kernel("softmax", &[&logits], &probabilities, ()));
            let plan = device.compile(&pipeline).unwrap();
            let before = device.stats().downloaded_bytes;
            plan.run().unwrap();
            assert_eq!(device.stats().downloaded_bytes, before, "{name}: something was read back");
            let probabilities = probabilities.read::<f32>().unwrap();
            assert_eq!(device.stats().downloaded_bytes, before + 4000);
            let best = (0..1000).max_by(|a, b| probabilities[*a].total_cmp(&probabilities[*b])).unwrap();
            assert_eq!(best, top, "{name} {photo}");
            let sum: f32 = probabilities.iter().sum();
            assert!((sum - 1.0).abs() < 1e-4, "{name} {photo}: probabilities sum up to {sum}");
        }
    }
}

/// The same for eight pictures at once: each is prepared by itself, and all go through the network together.
#[test]
fn inference_of_a_batch() {
    for name in devices() {
        let device = Device::open(&name).unwrap();
        device.load_model("mobilenet_v2", model_file("mobilenet_v2.onnx")).unwrap();
        let photos: Vec<(String, usize)> = support::photos().into_iter().cycle().take(8).collect();
        let cameras: Vec<Buffer> = photos.iter().map(|(photo, _)| picture(photo).upload(&device)).collect();
        let fit = Params::new().with("size", vec![224i64, 224]).with("fit", "crop");
        let mut pipeline = Pipeline::new();
        let prepared: Vec<Transient> =
            (0..8).map(|number| Transient::new().shape([1, 3, 224, 224]).named(format!("picture {number}"))).collect();
        for (camera, prepared) in cameras.iter().zip(&prepared) {
            pipeline = pipeline.stage(Stage::run_kernel("preprocess", [camera], prepared, fit.clone()));
        }
        let halves = [Transient::new(), Transient::new()];
        for (half, four) in halves.iter().zip(prepared.chunks(4)) {
            pipeline = pipeline.stage(Stage::run_kernel("concat", four, half, ()));
        }
        let (batch, logits) = (Transient::new(), Transient::new());
        let probabilities = Buffer::zeros(&device, DType::F32, [8, 1000]).unwrap();
        let pipeline = pipeline
            .stage(Stage::run_kernel("concat", &halves, &batch, ()))
            .stage(Stage::run_kernel("mobilenet_v2", [&batch], &logits, ()))
            .stage(Stage::run_kernel("softmax", [&logits], &probabilities, ()));
        let plan = device.compile(&pipeline).unwrap();
        assert!(plan.explain().contains("features.18.0"), "the network shows in the plan");
        let before = device.stats().downloaded_bytes;
        plan.run().unwrap();
        assert_eq!(device.stats().downloaded_bytes, before, "{name}: something was read back");
        let probabilities = probabilities.read::<f32>().unwrap();
        for ((photo, top), row) in photos.iter().zip(probabilities.chunks(1000)) {
            let best = (0..1000).max_by(|a, b| row[*a].total_cmp(&row[*b])).unwrap();
            assert_eq!(best, *top, "{name} {photo}");
        }
    }
}

/// A model is a kernel: what is wrong with a call is said as for any other, and two calls do not share memory.
#[test]
fn calls_are_checked() {
    let device = Device::open("cpu").unwrap();
    device.load_model("resnet", support::data("resnet.onnx")).unwrap();
    let kernel = device.kernels().into_iter().find(|kernel| kernel.spec.name == "resnet").unwrap();
    assert_eq!(kernel.spec.inputs[0].name, "input");
    let x = Buffer::zeros(&device, DType::F32, [2, 3, 31, 32]).unwrap();
    let y = Buffer::zeros(&device, DType::F32, [2, 10]).unwrap();
    let error = device.run("resnet", &[&x], &y, ()).unwrap_err().to_string();
    assert_eq!(error, "input `input` of kernel `resnet` must have shape {batch, 3, 32, 32}, found {2, 3, 31, 32}");
    let x = Buffer::zeros(&device, DType::F32, [2, 3, 32, 32]).unwrap();
    let one = Buffer::zeros(&device, DType::F32, [1, 10]).unwrap();
    let error = device.run("resnet", &[&x], &one, ()).unwrap_err().to_string();
    assert_eq!(error, "the output of kernel `resnet` must have shape {2, 10}, found {1, 10}");
    assert_eq!(device.load_model("resnet", support::data("resnet.onnx")).unwrap_err().code(), "duplicate_kernel");
    assert_eq!(device.load_model("Res Net", support::data("resnet.onnx")).unwrap_err().code(), "bad_name");
    let error = device.load_model("other", support::data("photos.json")).unwrap_err();
    assert!(matches!(error, LoadError::Model(_)), "{error}");
}

/// Small networks against their layers in plain Rust.
#[test]
fn plans_are_verified() {
    for name in devices() {
        let device = Device::open(&name).unwrap();
        for net in ["resnet", "mobilenet_v3"] {
            let golden = Golden::open("nets.safetensors");
            device.load_model(net, support::data(&format!("{net}.onnx"))).unwrap();
            let (input, dims) = golden.floats(&format!("{net}/b1/input"));
            let x = Buffer::from_slice(&device, &input, dims).unwrap();
            let y = Buffer::zeros(&device, DType::F32, [1, 10]).unwrap();
            let plan = device.compile(&Pipeline::new().stage(Stage::run_kernel(net, [&x], &y, ()))).unwrap();
            let report = plan.verify(&[]).unwrap();
            assert!(report.is_right(), "{name} {net}: {report:?}");
        }
    }
}

/// Real models of published packages with sizes that are open, weights in another file, several outputs, recurrences and integers,
/// beside ONNX Runtime's results.
#[test]
fn real_models() {
    let models = [
        ("reachy_fk.onnx", "reachy_fk", 1e-5),
        ("external/fknetwork.onnx", "reachy_fk", 1e-5),
        // One step of its output is some thousandths.
        ("reachy_fk_int8.onnx", "reachy_fk_int8", 2e-2),
        ("ppocr_cls_v2.onnx", "ppocr_cls_v2", 1e-5),
        ("basic_pitch.onnx", "basic_pitch", 2e-4),
        ("aecmos.onnx", "aecmos", 1e-4),
    ];
    for name in devices() {
        let device = Device::open(&name).unwrap();
        for (file, golden, allowed) in models {
            let golden = Golden::open(format!("zoo/{golden}.safetensors"));
            let model = Model::open(&support::data(&format!("zoo/{file}"))).unwrap();
            let session = Session::new(&device, &model);
            let inputs: Vec<Buffer> = model
                .inputs()
                .iter()
                .map(|port| {
                    let (values, dims) = golden.floats(&format!("in.{}", port.name));
                    Buffer::from_slice(&device, &values, dims).unwrap()
                })
                .collect();
            let outputs = session.run(&inputs.iter().collect::<Vec<_>>()).unwrap();
            for (port, output) in model.outputs().iter().zip(&outputs) {
                let (expected, dims) = golden.floats(&format!("out.{}", port.name));
                assert_eq!(output.shape().dims(), dims, "{name} {file} {}", port.name);
                close(&format!("{name} {file} {}", port.name), &output.read::<f32>().unwrap(), &expected, allowed);
            }
        }
    }
}

/// Models as PyTorch's exporter writes them (`scripts/torch-exports`), their weights in a second file and most sizes open, with two sets
/// of sizes each, beside ONNX Runtime's results. Allowed is four times what ONNX Runtime's optimised run differs by, or 1e-5 of the
/// largest value. `DALA_TORCH_EXPORTS` names another folder of such models.
#[test]
fn torch_exports() {
    let folder = std::env::var_os("DALA_TORCH_EXPORTS").map_or_else(|| support::data("torch"), PathBuf::from);
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|kind| kind == "onnx"));
    files.sort();
    assert!(!files.is_empty());
    let mut failed = Vec::new();
    for name in devices() {
        let device = Device::open(&name).unwrap();
        for file in &files {
            let what = format!("{name} {}", file.file_stem().unwrap().display());
            match torch_export(&what, &device, file).map_err(|reason| format!("{what}: {reason}")) {
                Ok(()) => {}
                // OpenGL ES has no 64-bit integers, and says so.
                Err(reason) if name == "gl" && reason.contains("it does not compute on s64") => println!("{reason}"),
                Err(reason) => failed.push(reason),
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Runs one exported model on all its cases.
fn torch_export(what: &str, device: &Device, file: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let golden = Golden::open(file.with_extension("safetensors"));
    let model = Model::open(file)?;
    let session = Session::new(device, &model);
    for case in 0..2 {
        let mut inputs = Vec::new();
        for port in model.inputs() {
            let (values, dims) = golden.tensor(&format!("{case}.in.{}", port.name)).ok_or("an input has no values")?;
            inputs.push(Buffer::from_bytes(device, &values.to_bytes(), values.dtype(), dims)?);
        }
        let outputs = session.run(&inputs.iter().collect::<Vec<_>>())?;
        for (port, output) in model.outputs().iter().zip(&outputs) {
            let about = |part: &str| golden.tensor(&format!("{case}.{part}.{}", port.name));
            let numbers = |data: &Data| data.iter().map(|value| value.as_f64()).collect::<Vec<f64>>();
            let (expected, mut dims) = about("out").ok_or("an output has no values")?;
            // Of a large output every n-th element is known.
            let stride = about("stride").map_or(1, |(stride, _)| numbers(&stride)[0] as usize);
            if let Some((shape, _)) = about("shape") {
                dims = numbers(&shape).into_iter().map(|size| size as usize).collect();
            }
            let case = format!("{case} {} {dims:?}", port.name);
            if output.shape().dims() != dims {
                return Err(format!("{case}: the shape is {}", output.shape()).into());
            }
            let expected = numbers(&expected);
            let actual: Vec<f64> = numbers(&output.read_data()?).into_iter().step_by(stride).collect();
            let largest =
                expected.iter().filter(|value| value.is_finite()).fold(0.0f64, |most, value| most.max(value.abs()));
            let noise = about("noise").map_or(0.0, |(noise, _)| numbers(&noise)[0]);
            let allowed = (4.0 * noise).max(1e-5 * largest);
            let away = actual.iter().zip(&expected).map(|(a, b)| match a == b || a.is_nan() && b.is_nan() {
                true => 0.0,
                false => (a - b).abs(),
            });
            let worst = away.fold(0.0, |worst: f64, away| if away > worst || away.is_nan() { away } else { worst });
            println!("{what} {case}: at most {worst:.1e} away, {allowed:.1e} allowed");
            let agrees = actual.len() == expected.len() && worst <= allowed;
            if !agrees {
                return Err(format!("{case}: {worst:e} away, {allowed:e} allowed").into());
            }
        }
    }
    Ok(())
}

/// A branch that an input's value decides, a loop whose body says when it ends, and what both read from around them.
#[test]
fn values_decide_what_runs() {
    let branch = |op: &str, output: &str| Net::new(16).node(op, &["x"], output, vec![]).output(output);
    let branches = vec![branch("Neg", "n").inside("then_branch"), branch("Identity", "p").inside("else_branch")];
    // Doubles and keeps each round until the sum is above 20.
    let body = Net::new(16)
        .input("round", builder_type::INT64, &[])
        .input("goes_on", builder_type::BOOL, &[])
        .input("value", builder_type::FLOAT, &[-1])
        .node("Add", &["value", "value"], "doubled", vec![])
        .node("ReduceSum", &["doubled"], "sum", vec![builder::int("keepdims", 0)])
        .node("Less", &["sum", "most"], "again", vec![])
        .node("Identity", &["doubled"], "kept", vec![])
        .output("again")
        .output("doubled")
        .output("kept");
    let net = Net::new(16)
        .x(&[-1])
        .input("turned", builder_type::BOOL, &[])
        .floats("most", &[], vec![20.0])
        .node_of("If", &["turned"], &["chosen"], branches)
        .node_of("Loop", &["", "", "chosen"], &["last", "rounds"], vec![body.inside("body")])
        .typed_output("last", builder_type::FLOAT)
        .typed_output("rounds", builder_type::FLOAT);
    let model = Model::read(net.bytes()).unwrap();
    assert!(model.decided_by_values().is_some());
    assert!(matches!(model.kernel("net").unwrap_err(), LoadError::Values { .. }));
    for name in devices() {
        let device = Device::open(&name).unwrap();
        let session = Session::new(&device, &model);
        let run = |x: &[f32], turned: u8| {
            let x = Buffer::from_slice(&device, x, [x.len()]).unwrap();
            let turned = Buffer::from_slice(&device, &[turned], []).unwrap();
            let outputs = session.run(&[&x, &turned]).unwrap();
            (outputs[0].read::<f32>().unwrap(), outputs[1].shape().dims().to_vec(), outputs[1].read::<f32>().unwrap())
        };
        for _ in 0..2 {
            let (last, dims, rounds) = run(&[1.0, 2.0], 0);
            assert_eq!((last, dims), (vec![8.0, 16.0], vec![3, 2]), "{name}");
            assert_eq!(rounds, [2.0, 4.0, 4.0, 8.0, 8.0, 16.0], "{name}");
            let (last, dims, _) = run(&[-1.0, -3.0, -8.0], 1);
            assert_eq!((last, dims), (vec![2.0, 6.0, 16.0], vec![1, 3]), "{name}");
        }
    }
}

/// A rate of 64 bits decides by itself, on devices without such integers too.
#[test]
fn single_numbers_decide_on_every_device() {
    let branch = |op: &str, output: &str| Net::new(16).node(op, &["x"], output, vec![]).output(output);
    let branches = vec![branch("Neg", "n").inside("then_branch"), branch("Relu", "p").inside("else_branch")];
    let net = Net::new(16)
        .x(&[-1])
        .input("rate", builder_type::INT64, &[])
        .tensor("fast", builder::integers(&[], &[16000]))
        .node("Equal", &["rate", "fast"], "is_fast", vec![])
        .node_of("If", &["is_fast"], &["y"], branches)
        .typed_output("y", builder_type::FLOAT);
    let model = Model::read(net.bytes()).unwrap();
    for name in devices() {
        let device = Device::open(&name).unwrap();
        let session = Session::new(&device, &model);
        let x = Buffer::from_slice(&device, &[1.0f32, -2.0], [2]).unwrap();
        for (rate, expected) in [(16000i64, [-1.0, 2.0]), (8000, [1.0, 0.0]), (16000, [-1.0, 2.0])] {
            let rate = Buffer::from_slice(&device, &[rate], []).unwrap();
            assert_eq!(session.run(&[&x, &rate]).unwrap()[0].read::<f32>().unwrap(), expected, "{name}");
        }
    }
}

/// A model of two outputs as a kernel: alone, and in a pipeline that goes on with both.
#[test]
fn several_outputs_are_part_of_pipelines() {
    let net = Net::new(13).x(&[-1, 3]).node("Relu", &["x"], "up", vec![]).node("Neg", &["x"], "down", vec![]);
    let model = Model::read(net.output("up").output("down").bytes()).unwrap();
    for name in devices() {
        let device = Device::open(&name).unwrap();
        device.add_model("both", &model).unwrap();
        let x = Buffer::from_slice(&device, &[1.0f32, -2.0, 3.0], [1, 3]).unwrap();
        let [up, down] = [(); 2].map(|()| Buffer::zeros(&device, DType::F32, [1, 3]).unwrap());
        device.run_to("both", &[&x], &[&up, &down], ()).unwrap();
        assert_eq!((up.read().unwrap(), down.read().unwrap()), (vec![1.0f32, 0.0, 3.0], vec![-1.0f32, 2.0, -3.0]));
        let (a, b) = (Transient::new(), Transient::new());
        let pipeline = Pipeline::new()
            .stage(Stage::run_kernel("both", [&x], [&a, &b], ()))
            .stage(Stage::run_kernel("elementwise_add", [&a, &b], &up, ()))
            .stage(Stage::run_kernel("abs", [&b], &down, ()));
        let plan = device.compile(&pipeline).unwrap();
        plan.run().unwrap();
        assert_eq!((up.read().unwrap(), down.read().unwrap()), (vec![0.0f32, 2.0, 0.0], vec![1.0f32, 2.0, 3.0]));
        assert!(plan.verify(&[]).unwrap().is_right(), "{name}");
        let error = device.run("both", &[&x], &up, ()).unwrap_err();
        assert_eq!((error.code(), error.to_string().contains("has 2 outputs")), ("outputs", true), "{error}");
        let error = device.run_to("both", &[&x], &[&up, &up], ()).unwrap_err();
        assert_eq!(error.code(), "outputs");
    }
}

/// An operator that the file defines by nodes, with an attribute of its use, used in another one.
#[test]
fn functions_of_a_file_are_its_operators() {
    use dala_model::proto::{AttributeProto, FunctionProto, NodeProto};
    let node = |op: &str, domain: &str, inputs: &[&str], output: &str, attribute: Vec<AttributeProto>| NodeProto {
        op_type: op.to_owned(),
        domain: domain.to_owned(),
        input: inputs.iter().map(|&name| name.to_owned()).collect(),
        output: vec![output.to_owned()],
        attribute,
        ..NodeProto::default()
    };
    let given = AttributeProto { ref_attr_name: "slope".to_owned(), ..builder::float("alpha", 0.0) };
    let leaky = FunctionProto {
        name: "Bent".to_owned(),
        domain: "own".to_owned(),
        input: vec!["a".to_owned()],
        output: vec!["b".to_owned()],
        node: vec![node("Add", "", &["a", "a"], "x", vec![]), node("LeakyRelu", "", &["x"], "b", vec![given])],
        ..FunctionProto::default()
    };
    let twice = FunctionProto {
        name: "Twice".to_owned(),
        domain: "own".to_owned(),
        input: vec!["a".to_owned()],
        output: vec!["b".to_owned()],
        node: vec![
            node("Bent", "own", &["a"], "x", vec![builder::float("slope", 0.5)]),
            node("Bent", "own", &["x"], "b", vec![builder::float("slope", 0.25)]),
        ],
        ..FunctionProto::default()
    };
    let mut net = Net::new(13).x(&[-1, 2]).output("y");
    net.graph().node.push(node("Twice", "own", &["x"], "y", vec![]));
    net.model.functions = vec![leaky, twice];
    run_small(net.clone(), &[1.0, -1.0], &[1, 2], &[4.0, -0.5], &[1, 2]);
    net.model.functions[0].node.push(node("Twice", "own", &["b"], "c", vec![]));
    assert_eq!(Model::read(net.bytes()).unwrap_err().code(), "too_large");
}
