//! Pipelines that were written as text.

use dala_compute::{Buffer, DType, Device};
use dala_plan::PipelineText;

use crate::support::devices;

fn chain(text: &str) -> PipelineText {
    PipelineText::from_chain(text).unwrap()
}

fn file(text: &str) -> PipelineText {
    PipelineText::from_toml(text).unwrap()
}

fn cpu() -> Device {
    Device::open("cpu").unwrap()
}

#[test]
fn a_text_computes_what_its_stages_do() {
    let text = file(
        "[[stage]]\nkernel = 'scalar_mul'\ninput = 'x'\noutput = 'double'\nparams = { scalar = 2 }\n\
         [[stage]]\ncopy = 'double'\nto = 'kept'\n[[stage]]\nbarrier = true\n\
         [[stage]]\nkernel = 'elementwise_add'\ninputs = ['double', 'y']\noutput = 'sum'\n",
    );
    for device in devices() {
        let x = Buffer::from_slice(&device, &[1.0f32, 2.0, 3.0], [3]).unwrap();
        let y = Buffer::from_slice(&device, &[10.0f32, 20.0, 30.0], [3]).unwrap();
        let given = [("x", &x), ("y", &y)];
        let (pipeline, results) = device.read_pipeline(&text, &given, &["sum", "kept"]).unwrap();
        device.compile(&pipeline).unwrap().run().unwrap();
        assert_eq!(results[0].read::<f32>().unwrap(), [12.0, 24.0, 36.0]);
        assert_eq!(results[1].read::<f32>().unwrap(), [2.0, 4.0, 6.0]);
    }
}

#[test]
fn results_have_the_type_that_follows_or_is_declared() {
    let device = cpu();
    let photo = Buffer::zeros(&device, DType::U8, [4, 6, 3]).unwrap();
    let (_, results) = device.read_pipeline(&chain("blur | grayscale"), &[("input", &photo)], &["output"]).unwrap();
    assert_eq!((results[0].dtype(), results[0].shape().dims()), (DType::U8, &[4, 6][..]));
    let text = file(
        "[buffers.output]\ndtype = 'f32'\nshape = [2, 3, 3]\n[buffers.float]\ndtype = 'f32'\n\
         [[stage]]\nkernel = 'cast'\ninput = 'input'\noutput = 'float'\n\
         [[stage]]\nkernel = 'resize'\ninput = 'float'\noutput = 'output'\n",
    );
    let (pipeline, results) = device.read_pipeline(&text, &[("input", &photo)], &["output"]).unwrap();
    assert_eq!((results[0].dtype(), results[0].shape().dims()), (DType::F32, &[2, 3, 3][..]));
    device.compile(&pipeline).unwrap().run().unwrap();
    assert_eq!(results[0].read::<f32>().unwrap(), [0.0; 18]);
}

#[test]
fn a_result_may_be_given_and_plans_know_the_names() {
    let device = cpu();
    let x = Buffer::from_slice(&device, &[-1.0f32, 2.0], [2]).unwrap();
    let y = Buffer::zeros(&device, DType::F32, [2]).unwrap();
    let given = [("input", &x), ("output", &y)];
    let (pipeline, results) = device.read_pipeline(&chain("relu"), &given, &["output"]).unwrap();
    assert_eq!(results[0].id(), y.id());
    let plan = device.compile(&pipeline).unwrap();
    plan.run().unwrap();
    assert_eq!(y.read::<f32>().unwrap(), [0.0, 2.0]);
    let text = plan.explain();
    assert!(text.contains("input") && text.contains("output"), "{text}");
}

#[test]
fn every_problem_is_told_with_its_stage() {
    let device = cpu();
    let photo = Buffer::zeros(&device, DType::U8, [4, 6, 3]).unwrap();
    let text = chain("blur(radus=1) | relu(slop=1)");
    let error = device.read_pipeline(&text, &[("input", &photo)], &["output"]).unwrap_err();
    assert_eq!(error.code(), "invalid_pipeline");
    assert_eq!(
        error.to_string(),
        "the pipeline has 2 problems:\n  \
         stage 0: kernel `blur` has no param `radus`, did you mean `radius`?\n  \
         stage 1: kernel `relu` has no param `slop`, did you mean `slope`?"
    );
    let error = device.read_pipeline(&chain("blur"), &[], &["output"]).unwrap_err();
    let expected = "stage 0: input `x` of kernel `blur` is the transient `input`, which no stage before writes";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn names_and_types_that_do_not_fit_are_refused() {
    let device = cpu();
    let photo = Buffer::zeros(&device, DType::U8, [4, 6, 3]).unwrap();
    let error = device.read_pipeline(&chain("blur"), &[("input", &photo)], &["outptu"]).unwrap_err();
    assert_eq!(error.code(), "unknown_name");
    assert_eq!(error.to_string(), "no stage uses a buffer called `outptu`, did you mean `output`?");
    let error = device.read_pipeline(&chain("blur"), &[("mask", &photo)], &[]).unwrap_err();
    assert_eq!(error.to_string(), "no stage uses a buffer called `mask`");

    let text =
        file("[buffers.input]\nshape = [4, 6, 4]\n[[stage]]\nkernel = 'blur'\ninput = 'input'\noutput = 'output'\n");
    let error = device.read_pipeline(&text, &[("input", &photo)], &["output"]).unwrap_err();
    let expected = format!("the plan was made for u8 {{4, 6, 4}}, and buffer {} is u8 {{4, 6, 3}}", photo.id());
    assert_eq!((error.code(), error.to_string()), ("plan_mismatch", expected));
}

#[test]
fn a_user_s_own_kernels_are_found() {
    let device = cpu();
    device.define("double", "x * 2", dala_compute::Definition::inputs(["x"])).unwrap();
    let x = Buffer::from_slice(&device, &[1.5f32], [1]).unwrap();
    let (pipeline, results) = device.read_pipeline(&chain("double | double"), &[("input", &x)], &["output"]).unwrap();
    device.compile(&pipeline).unwrap().run().unwrap();
    assert_eq!(results[0].read::<f32>().unwrap(), [6.0]);
}
