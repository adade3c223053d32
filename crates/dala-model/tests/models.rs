//! Real networks on real devices, held against what other programs gave.

mod support;

use dala_compute::{Buffer, DType, Device, Params, Pipeline, Stage};
use dala_model::LoadModel;
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
