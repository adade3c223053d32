//! The house as the front sees it, with a small network on the CPU device.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use dala_compute::{Buffer, Device};
use dala_model::{Model, Session};
use dala_plan::PipelineText;
use tokio::runtime::{Builder, Runtime};

use super::{House, HouseOptions};
use crate::{Answer, Ask, Backend, Caller, Datatype, Lane, ModelInfo, PictureAsk, Refusal, State, Tensor, Terms};

fn net(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../dala-model/tests/data").join(name)
}

fn house() -> House {
    House::open(HouseOptions { device: "cpu".to_owned(), ..HouseOptions::default() }).unwrap()
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().unwrap()
}

fn terms() -> Terms {
    Terms { lane: Lane::Default, deadline: None, caller: Caller(1) }
}

/// Inputs that differ by `seed`.
fn inputs(info: &ModelInfo, items: usize, seed: usize) -> Vec<Tensor> {
    let made = |port: &crate::Port| {
        let shape: Vec<usize> = port.shape.iter().map(|size| size.unwrap_or(items)).collect();
        let value = |at: usize| ((at * 31 + seed * 977) % 251) as f32 / 251.0 - 0.5;
        let values = (0..Tensor::elements(&shape).unwrap()).map(value);
        let data = Bytes::from(values.flat_map(f32::to_le_bytes).collect::<Vec<u8>>());
        Tensor { name: port.name.clone(), datatype: Datatype::Fp32, shape, data }
    };
    info.inputs.iter().map(made).collect()
}

fn ask(info: &Arc<ModelInfo>, items: usize, seed: usize) -> Ask {
    Ask { model: info.clone(), inputs: inputs(info, items, seed), outputs: vec![0], terms: terms() }
}

fn floats(tensor: &Tensor) -> Vec<f32> {
    tensor.data.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// What the same inputs give without a house.
fn alone(name: &str, asked: &[Tensor]) -> Vec<f32> {
    let device = Device::open("cpu").unwrap();
    let session = Session::new(&device, &Model::open(&net(name)).unwrap());
    let buffer = Buffer::from_slice(&device, &floats(&asked[0]), asked[0].shape.clone()).unwrap();
    session.run(&[&buffer]).unwrap()[0].read().unwrap()
}

fn close(answer: &Answer, expected: &[f32]) {
    let values = floats(&answer.outputs[0]);
    assert_eq!(values.len(), expected.len());
    let far = values.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(far < 1e-4, "{far} off");
}

#[test]
fn requests_share_runs_and_each_gets_its_own_answer() {
    let house = house();
    house.add_file("net", &net("squeezenet.onnx")).unwrap();
    let info = house.model("net", None).unwrap();
    assert_eq!(info.max_batch, Some(8));
    let asks: Vec<Ask> = (0..12).map(|seed| ask(&info, 1 + seed % 3, seed)).collect();
    let expected: Vec<Vec<f32>> = asks.iter().map(|ask| alone("squeezenet.onnx", &ask.inputs)).collect();
    let pending: Vec<_> = asks.into_iter().map(|ask| house.infer(ask)).collect();
    let mut most = 0;
    for (pending, expected) in pending.into_iter().zip(&expected) {
        let answer = runtime().block_on(pending).unwrap();
        most = most.max(answer.times.batch);
        close(&answer, expected);
    }
    assert!(most > 3, "no run was shared: {most} items at most");
    let statistics = &house.statistics(Some("net"), None).unwrap()[0];
    assert_eq!((statistics.answered.count, statistics.items), (12, 24));
    assert!(statistics.runs < 12, "{} runs", statistics.runs);
}

#[test]
fn what_cannot_be_answered_is_refused_with_its_reason() {
    let house = house();
    house.add_file("net", &net("squeezenet.onnx")).unwrap();
    let info = house.model("net", None).unwrap();
    assert!(matches!(house.model("other", None), Err(Refusal::UnknownModel(_))));
    assert!(matches!(house.model("net", Some("7")), Err(Refusal::UnknownVersion { .. })));
    let mut late = ask(&info, 1, 0);
    late.terms.deadline = Some(Instant::now());
    assert!(matches!(runtime().block_on(house.infer(late)), Err(Refusal::TooLate { .. } | Refusal::Expired)));
    let many = ask(&info, 9, 0);
    assert!(matches!(runtime().block_on(house.infer(many)), Err(Refusal::BadInput(_))));
    let picture = PictureAsk { pipeline: "net".into(), picture: Bytes::new(), terms: terms() };
    assert!(matches!(runtime().block_on(house.picture(picture)), Err(Refusal::UnknownPipeline(_))));
    house.drain();
    assert!(matches!(runtime().block_on(house.infer(ask(&info, 1, 0))), Err(Refusal::Draining)));
    assert!(!house.is_ready());
}

#[test]
fn who_is_gone_leaves_and_what_is_unloaded_ends() {
    let house = house();
    house.add_file("net", &net("squeezenet.onnx")).unwrap();
    let info = house.model("net", None).unwrap();
    let answered = || house.statistics(Some("net"), None).unwrap()[0].answered.count;
    let for_nobody = || {
        let before = answered();
        let gone: Vec<_> = (0..50).map(|seed| house.infer(ask(&info, 1, seed))).collect();
        drop(gone);
        let until = Instant::now() + Duration::from_secs(120);
        while house.busy().models[0].queued + house.busy().models[0].running > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(house.busy().fullness, 0.0);
        answered() - before
    };
    // Now and then all are answered before they are gone.
    assert!((0..20).any(|_| for_nobody() < 50), "all were run for nobody");

    let taken = house.infer(ask(&info, 1, 1));
    runtime().block_on(async {
        let (unloaded, answered) = tokio::join!(house.unload("net"), taken);
        unloaded.unwrap();
        answered.unwrap();
    });
    assert!(matches!(house.model("net", None), Err(Refusal::NotReady { .. })));
    assert_eq!(house.index()[0].state, State::Unavailable);
    runtime().block_on(house.load("net")).unwrap();
    assert_eq!(&*house.model("net", None).unwrap().version, "2");
}

#[test]
fn a_folder_is_followed_and_no_request_is_lost_by_it() {
    let folder = std::env::temp_dir().join(format!("dala-house-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::copy(net("squeezenet.onnx"), folder.join("net.onnx")).unwrap();
    std::fs::write(folder.join("broken.onnx"), b"not a model").unwrap();
    let house = house();
    house.watch(&folder).unwrap();
    assert!(house.is_ready());
    let broken = house.index().into_iter().find(|entry| &*entry.name == "broken").unwrap();
    assert_eq!(broken.state, State::Unavailable);
    assert!(!broken.reason.is_empty());

    let bytes = std::fs::read(net("squeezenet.onnx")).unwrap();
    let begun = Instant::now();
    let (mut versions, mut asked) = (Vec::new(), 0);
    let mut next_swap = Instant::now();
    while (versions.len() < 3 || asked < 20) && begun.elapsed() < Duration::from_secs(300) {
        if Instant::now() >= next_swap {
            // Written to the side and moved, as tools that deploy do.
            std::fs::write(folder.join(".net"), &bytes).unwrap();
            std::fs::rename(folder.join(".net"), folder.join("net.onnx")).unwrap();
            next_swap = Instant::now() + Duration::from_millis(1500);
        }
        let info = house.model("net", None).unwrap();
        let answer = runtime().block_on(house.infer(ask(&info, 2, asked))).unwrap();
        asked += 1;
        if versions.last() != Some(&answer.version) {
            versions.push(answer.version);
        }
    }
    assert!(versions.len() >= 3, "{versions:?} in {asked} requests");
    std::fs::remove_file(folder.join("net.onnx")).unwrap();
    let until = Instant::now() + Duration::from_secs(120);
    while house.model("net", None).is_ok() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(matches!(house.model("net", None), Err(Refusal::NotReady { .. })));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_picture_goes_through_a_pipeline() {
    let house = house();
    house.add_pipeline("gray", PipelineText::from_chain("grayscale").unwrap()).unwrap();
    let send = |picture: Bytes| {
        let ask = PictureAsk { pipeline: "gray".into(), picture, terms: terms() };
        runtime().block_on(house.picture(ask))
    };
    let file = Bytes::from(std::fs::read(net("cat_chelsea.jpg")).unwrap());
    for _ in 0..2 {
        let answer = send(file.clone()).unwrap();
        let made = dala_image::decode(&answer.picture, &dala_image::Limits::default()).unwrap();
        assert_eq!((made.height, made.width, made.channels), (300, 451, 1));
    }
    assert!(matches!(send(Bytes::from_static(b"no picture")), Err(Refusal::BadInput(_))));
    let two = "[[stage]]\nkernel = \"overlay_alpha\"\ninputs = [\"input\", \"other\"]\noutput = \"output\"\n";
    let refusal = house.add_pipeline("two", PipelineText::from_toml(two).unwrap()).unwrap_err();
    assert!(refusal.to_string().contains("the pipeline reads `other`"), "{refusal}");
}
