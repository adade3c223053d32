//! What pipelines of the built-in kernels compile to, as text. No device is needed, only what is known of one.
//!
//! A plan that changes fails here until its snapshot is renewed, by `INSTA_UPDATE=always cargo test --test plans`.
//! Read what changed before it is kept.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "tests fail loudly")]

mod wrong;

use dala_kernels::Registry;
use dala_plan::{Blueprint, DeviceFacts, PipelineSpec, PipelineText, StageSpec};
use dala_spec::{DType, TensorType};

fn cpu() -> DeviceFacts {
    DeviceFacts::of_a_cpu()
}

fn gpu() -> DeviceFacts {
    DeviceFacts::of_a_gpu()
}

/// A pipeline, as a chain or as TOML, on users' buffers such as `input u8 480x640x4, output u8 480x640`.
fn pipeline(text: &str, buffers: &str) -> PipelineSpec {
    let is_file = text.contains("stage");
    let read = if is_file { PipelineText::from_toml(text) } else { PipelineText::from_chain(text) };
    let read = read.unwrap_or_else(|error| panic!("{error}"));
    let given: Vec<(&str, TensorType)> =
        buffers.split(',').map(str::trim).filter(|one| !one.is_empty()).map(buffer).collect();
    read.spec(&given)
}

/// One buffer: its name, its element type, and its sizes, if it has any.
fn buffer(text: &str) -> (&str, TensorType) {
    let mut words = text.split_whitespace();
    let (name, dtype) = (words.next().unwrap(), DType::from_name(words.next().unwrap()).unwrap());
    let sizes: Option<Vec<usize>> =
        words.next().map(|sizes| sizes.split('x').map(|size| size.parse().unwrap()).collect());
    (name, TensorType::new(dtype, sizes.unwrap_or_default()))
}

fn compiled(spec: &PipelineSpec, facts: &DeviceFacts, fuse: bool) -> Blueprint {
    dala_kernels::compile(spec, &Registry::built_in(), facts, fuse).unwrap_or_else(|problems| panic!("{problems:?}"))
}

/// The stages, one on each line, and their plan.
fn shown(spec: &PipelineSpec, blueprint: &Blueprint) -> String {
    let mut text = String::new();
    for (number, stage) in spec.stages.iter().enumerate() {
        let name = |cell: &usize| spec.cells[*cell].name.clone();
        let line = match stage {
            StageSpec::Run { kernel, inputs, outputs, params } => {
                let params = params.iter().map(|(name, value)| format!("{name}={value}"));
                let arguments: Vec<String> = inputs.iter().map(name).chain(params).collect();
                let outputs: Vec<String> = outputs.iter().map(name).collect();
                format!("{} = {kernel}({})", outputs.join(", "), arguments.join(", "))
            }
            StageSpec::Copy { from, to } => format!("{} = {}", name(to), name(from)),
            StageSpec::Barrier => "barrier".to_owned(),
        };
        text += &format!("{number}: {line}\n");
    }
    format!("{text}\n{}", blueprint.explain())
}

fn plan(facts: &DeviceFacts, text: &str, buffers: &str) -> String {
    let spec = pipeline(text, buffers);
    shown(&spec, &compiled(&spec, facts, true))
}

/// Compares a plan with the snapshot of that name.
fn check(name: &str, plan: String) {
    // What the code around it looks like is no part of a plan.
    insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!(name, plan) });
}

/// The image pipeline of the documentation.
const IMAGE: &str = "blur(radius=3, sigma=1.5) | sharpen(amount=0.5) | grayscale";
const PHOTO: &str = "input u8 1080x1920x4, output u8 1080x1920";

#[test]
fn image_pipeline() {
    check("image_pipeline", plan(&cpu(), IMAGE, PHOTO));
}

#[test]
fn image_pipeline_on_a_gpu() {
    check("image_pipeline_on_a_gpu", plan(&gpu(), IMAGE, PHOTO));
}

/// Every result in a buffer of the user's, as the documentation writes it.
#[test]
fn image_pipeline_that_keeps_every_result() {
    let buffers = "input u8 1080x1920x4, t0 u8 1080x1920x4, t1 u8 1080x1920x4, output u8 1080x1920";
    check("image_pipeline_that_keeps_every_result", plan(&cpu(), IMAGE, buffers));
}

#[test]
fn image_pipeline_stage_by_stage() {
    let spec = pipeline(IMAGE, PHOTO);
    check("image_pipeline_stage_by_stage", shown(&spec, &compiled(&spec, &cpu(), false)));
}

#[test]
fn image_pipeline_as_a_picture() {
    check("image_pipeline_as_a_picture", compiled(&pipeline(IMAGE, PHOTO), &cpu(), true).to_svg());
}

/// Rows of 1919 pixels of three channels end in the middle of a vector: filters go axis by axis, with tables.
#[test]
fn image_pipeline_of_an_odd_width() {
    let buffers = "input u8 1081x1919x3, output u8 1081x1919";
    check("image_pipeline_of_an_odd_width", plan(&cpu(), IMAGE, buffers));
}

/// The inference pipeline of the documentation, with a layer in the place of the network.
#[test]
fn inference_pipeline() {
    let text = r#"
        [buffers]
        picture.shape = [1, 3, 224, 224]
        row.shape = [1, 150528]
        best.dtype = "s32"
        [[stage]]
        kernel = "preprocess"
        input = "input"
        output = "picture"
        params = { normalize = true, size = [224, 224] }
        [[stage]]
        kernel = "reshape"
        input = "picture"
        output = "row"
        [[stage]]
        kernel = "dense"
        inputs = ["row", "weight", "bias"]
        output = "logits"
        [[stage]]
        kernel = "softmax"
        input = "logits"
        output = "output"
        [[stage]]
        kernel = "argmax"
        input = "output"
        output = "best"
        params = { axes = 1 }
    "#;
    let buffers = "input u8 1080x1920x4, weight f32 150528x1000, bias f32 1000, output f32 1x1000, best s32 1";
    check("inference_pipeline", plan(&cpu(), text, buffers));
    check("inference_pipeline_on_a_gpu", plan(&gpu(), text, buffers));
}

#[test]
fn pointwise_stages_are_one_program() {
    let text = "scalar_mul(scalar=2) | scalar_add(scalar=1) | relu(slope=0.1) | sqrt | clamp(max=10)";
    check("pointwise_stages_are_one_program", plan(&cpu(), text, "input f32 1000000, output f32 1000000"));
}

/// Bytes are rounded between stages as if they had been stored.
#[test]
fn colour_filters_are_one_program() {
    let text = "brightness_contrast(brightness=0.1, contrast=1.2) | threshold(threshold=0.4) | grayscale";
    check("colour_filters_are_one_program", plan(&gpu(), text, PHOTO));
}

#[test]
fn branches_that_join_are_one_program() {
    let text = r#"stage = [
        { kernel = "scalar_mul", input = "input", output = "left", params = { scalar = 0.5 } },
        { kernel = "exp", input = "input", output = "right" },
        { kernel = "neg", input = "right", output = "right_too" },
        { kernel = "elementwise_add", inputs = ["left", "right_too"], output = "joined" },
        { kernel = "elementwise_mul", inputs = ["joined", "input"], output = "output" },
    ]"#;
    check("branches_that_join_are_one_program", plan(&cpu(), text, "input f32 4096x256, output f32 4096x256"));
}

/// What is repeated is looked up, and still part of the program.
#[test]
fn what_is_repeated_is_part_of_the_program() {
    let text = r#"stage = [
        { kernel = "elementwise_add", inputs = ["input", "bias"], output = "sum" },
        { kernel = "hard_swish", input = "sum", output = "active" },
        { kernel = "elementwise_mul", inputs = ["active", "gate"], output = "output" },
    ]"#;
    let buffers = "input f32 2x14x14x96, bias f32 96, gate f32 2x1x1x96, output f32 2x14x14x96";
    check("what_is_repeated_is_part_of_the_program", plan(&cpu(), text, buffers));
}

/// Buffers of the user's in the middle of a chain are written in the same pass.
#[test]
fn one_pass_writes_several_buffers() {
    let text = r#"stage = [
        { kernel = "scalar_add", input = "input", output = "first", params = { scalar = 1 } },
        { kernel = "relu", input = "first", output = "second" },
        { kernel = "abs", input = "input", output = "beside" },
        { kernel = "sqrt", input = "second", output = "output" },
    ]"#;
    let buffers = "input f32 65536, first f32 65536, second f32 65536, beside f32 65536, output f32 65536";
    check("one_pass_writes_several_buffers", plan(&cpu(), text, buffers));
}

#[test]
fn barriers_keep_stages_apart() {
    let text = r#"stage = [
        { kernel = "scalar_add", input = "input", output = "a", params = { scalar = 1 } },
        { kernel = "relu", input = "a", output = "b" },
        { barrier = true },
        { kernel = "sqrt", input = "b", output = "c" },
        { kernel = "neg", input = "c", output = "output" },
    ]"#;
    check("barriers_keep_stages_apart", plan(&cpu(), text, "input f32 65536, output f32 65536"));
}

/// A sum of six buffers, where a launch binds four.
#[test]
fn few_bindings_make_several_launches() {
    let text = r#"stage = [
        { kernel = "elementwise_add", inputs = ["a", "b"], output = "ab" },
        { kernel = "elementwise_add", inputs = ["ab", "c"], output = "abc" },
        { kernel = "elementwise_add", inputs = ["abc", "d"], output = "abcd" },
        { kernel = "elementwise_add", inputs = ["abcd", "e"], output = "abcde" },
        { kernel = "elementwise_add", inputs = ["abcde", "f"], output = "output" },
    ]"#;
    let buffers = "a f32 4096, b f32 4096, c f32 4096, d f32 4096, e f32 4096, f f32 4096, output f32 4096";
    check("few_bindings_make_several_launches", plan(&DeviceFacts { max_bindings: 4, ..gpu() }, text, buffers));
    check("enough_bindings_make_one_launch", plan(&gpu(), text, buffers));
}

#[test]
fn copies_that_nobody_can_tell_are_not_made() {
    let text = r#"stage = [
        { copy = "input", to = "copied" },
        { kernel = "flip", input = "copied", output = "flipped" },
        { kernel = "copy", input = "flipped", output = "again" },
        { copy = "again", to = "output" },
    ]"#;
    let buffers = "input u8 480x640x4, output u8 480x640x4";
    check("copies_that_nobody_can_tell_are_not_made", plan(&cpu(), text, buffers));
}

/// The original changes before its copy is read, and two buffers of the user's hold the same in the end.
#[test]
fn copies_that_are_needed_are_made() {
    let text = r#"stage = [
        { copy = "input", to = "before" },
        { kernel = "blur", input = "input", output = "input" },
        { barrier = true },
        { kernel = "flip", input = "before", output = "output" },
        { copy = "output", to = "second" },
    ]"#;
    let buffers = "input u8 480x640x4, output u8 480x640x4, second u8 480x640x4";
    check("copies_that_are_needed_are_made", plan(&cpu(), text, buffers));
}

/// The same bytes as another type.
#[test]
fn copies_between_types_are_made() {
    let text = r#"stage = [
        { kernel = "scalar_add", input = "input", output = "bits", params = { scalar = 1 } },
        { copy = "bits", to = "floats" },
        { kernel = "relu", input = "floats", output = "output" },
    ]
    buffers.floats = { dtype = "f32", shape = [1024] }"#;
    check("copies_between_types_are_made", plan(&cpu(), text, "input u32 1024, output f32 1024"));
}

#[test]
fn blur_in_place_reads_a_copy() {
    let text = r#"stage = [{ kernel = "blur", input = "photo", output = "photo", params = { radius = 2 } }]"#;
    check("blur_in_place_reads_a_copy", plan(&cpu(), text, "photo u8 480x640x4"));
}

#[test]
fn pointwise_stages_work_in_place() {
    let text = r#"stage = [
        { kernel = "brightness_contrast", input = "photo", output = "photo", params = { contrast = 1.5 } },
        { kernel = "threshold", input = "photo", output = "photo" },
    ]"#;
    check("pointwise_stages_work_in_place", plan(&cpu(), text, "photo u8 480x640x4"));
}

/// Each pixel needs all of its own channels, in memory that is being overwritten.
#[test]
fn grayscale_in_place_reads_a_copy() {
    let text = r#"stage = [{ kernel = "grayscale", input = "photo", output = "photo" }]"#;
    check("grayscale_in_place_reads_a_copy", plan(&cpu(), text, "photo u8 480x640x4"));
}

#[test]
fn softmax_takes_over_what_is_before_and_after_it() {
    let text = "scalar_mul(scalar=0.125) | softmax | scalar_mul(scalar=255) | clamp(max=100)";
    check(
        "softmax_takes_over_what_is_before_and_after_it",
        plan(&cpu(), text, "input f32 128x1000, output f32 128x1000"),
    );
}

/// A block of a transformer: what is added before the norm is needed again after it.
#[test]
fn layer_norm_with_a_residual() {
    let text = r#"stage = [
        { kernel = "elementwise_add", inputs = ["x", "attended"], output = "sum" },
        { kernel = "layer_norm", inputs = ["sum", "scale", "bias"], output = "normal" },
        { kernel = "dense", inputs = ["normal", "weight", "offset"], output = "y", params = { activation = "gelu" } },
        { kernel = "elementwise_add", inputs = ["y", "sum"], output = "output" },
    ]"#;
    let buffers = "x f32 128x512, attended f32 128x512, scale f32 512, bias f32 512, weight f32 512x512, \
                   offset f32 512, output f32 128x512";
    check("layer_norm_with_a_residual", plan(&cpu(), text, buffers));
}

#[test]
fn dense_applies_what_follows() {
    let text = r#"stage = [
        { kernel = "dense", inputs = ["x", "weight", "bias"], output = "sums" },
        { kernel = "relu", input = "sums", output = "positive" },
        { kernel = "elementwise_mul", inputs = ["positive", "mask"], output = "output" },
    ]"#;
    let buffers = "x f32 64x256, weight f32 256x512, bias f32 512, mask f32 64x512, output f32 64x512";
    check("dense_applies_what_follows", plan(&cpu(), text, buffers));
    check("dense_applies_what_follows_on_a_gpu", plan(&gpu(), text, buffers));
}

/// A row that counts for all rows is read by the place along them.
#[test]
fn rows_are_added_by_the_product() {
    let text = r#"stage = [
        { kernel = "matmul", inputs = ["x", "weight"], output = "product" },
        { kernel = "elementwise_add", inputs = ["product", "row"], output = "sum" },
        { kernel = "elementwise_mul", inputs = ["row", "sum"], output = "output" },
    ]"#;
    let buffers = "x f32 64x256, weight f32 256x512, row f32 512, output f32 64x512";
    check("rows_are_added_by_the_product", plan(&cpu(), text, buffers));
    check("rows_are_added_by_the_product_on_a_gpu", plan(&gpu(), text, buffers));
}

/// Rows of ten results are no whole vectors: they are cut to their length by a program, which takes over what follows.
#[test]
fn dense_of_ten_classes() {
    let text = r#"stage = [
        { kernel = "dense", inputs = ["x", "weight", "bias"], output = "sums" },
        { kernel = "relu", input = "sums", output = "positive" },
        { kernel = "softmax", input = "positive", output = "output" },
    ]"#;
    let buffers = "x f32 64x256, weight f32 256x10, bias f32 10, output f32 64x10";
    check("dense_of_ten_classes", plan(&cpu(), text, buffers));
}

#[test]
fn what_nobody_needs_is_dropped() {
    let text = r#"stage = [
        { kernel = "blur", input = "input", output = "soft" },
        { kernel = "grayscale", input = "soft", output = "gray" },
        { kernel = "fill", output = "output" },
        { kernel = "flip", input = "input", output = "output" },
    ]"#;
    check("what_nobody_needs_is_dropped", plan(&cpu(), text, "input u8 480x640x4, output u8 480x640x4"));
}

#[test]
fn histogram_of_a_filtered_picture() {
    let text = r#"stage = [
        { kernel = "brightness_contrast", input = "input", output = "bright", params = { contrast = 1.5 } },
        { kernel = "grayscale", input = "bright", output = "gray" },
        { kernel = "histogram", input = "gray", output = "output" },
    ]"#;
    check("histogram_of_a_filtered_picture", plan(&cpu(), text, "input u8 480x640x4, output u32 256"));
}

/// A colour filter that looks at nothing but its own element is part of what the reduction loads.
#[test]
fn mean_of_a_scaled_buffer() {
    let text = r#"stage = [
        { kernel = "cast", input = "input", output = "floats" },
        { kernel = "scalar_mul", input = "floats", output = "scaled", params = { scalar = 0.00392156862745098 } },
        { kernel = "reduce_mean", input = "scaled", output = "means", params = { axes = 1 } },
        { kernel = "scalar_add", input = "means", output = "output", params = { scalar = -0.5 } },
    ]
    buffers.floats.dtype = "f32""#;
    check("mean_of_a_scaled_buffer", plan(&cpu(), text, "input u8 480x640, output f32 480"));
}

/// One element, computed from all, counts for all: it has to be there first.
#[test]
fn centred_around_the_mean() {
    let text = r#"stage = [
        { kernel = "reduce_mean", input = "input", output = "mean" },
        { kernel = "neg", input = "mean", output = "less" },
        { kernel = "elementwise_add", inputs = ["input", "less"], output = "centred" },
        { kernel = "abs", input = "centred", output = "output" },
    ]"#;
    check("centred_around_the_mean", plan(&cpu(), text, "input f32 1000x1000, output f32 1000x1000"));
}

/// Eight views in a row, of which two sizes are alive at a time.
#[test]
fn transients_share_memory() {
    let text = r#"stage = [
        { kernel = "flip", input = "input", output = "a" },
        { kernel = "flip", input = "a", output = "b", params = { direction = "vertical" } },
        { kernel = "transpose", input = "b", output = "c", params = { axes = [1, 0, 2] } },
        { kernel = "crop", input = "c", output = "d", params = { top = 10 } },
        { kernel = "flip", input = "d", output = "e" },
        { kernel = "elementwise_add", inputs = ["e", "d"], output = "f" },
        { kernel = "flip", input = "f", output = "output" },
    ]
    buffers.d.shape = [100, 100, 4]"#;
    check("transients_share_memory", plan(&cpu(), text, "input u8 480x640x4, output u8 100x100x4"));
}

#[test]
fn thumbnail() {
    let text = r#"
        [buffers]
        small.shape = [270, 480, 4]
        middle.shape = [200, 200, 4]
        [[stage]]
        kernel = "brightness_contrast"
        input = "input"
        output = "bright"
        params = { brightness = 0.05 }
        [[stage]]
        kernel = "resize"
        input = "bright"
        output = "small"
        [[stage]]
        kernel = "crop"
        input = "small"
        output = "middle"
        params = { top = 35, left = 140 }
        [[stage]]
        kernel = "overlay_alpha"
        inputs = ["middle", "badge"]
        output = "output"
    "#;
    let buffers = "input u8 1080x1920x4, badge u8 200x200x4, output u8 200x200x4";
    check("thumbnail", plan(&cpu(), text, buffers));
    check("thumbnail_on_a_gpu", plan(&gpu(), text, buffers));
}

/// Edges over the photo they were found in.
#[test]
fn edges() {
    let text = r#"stage = [
        { kernel = "grayscale", input = "input", output = "gray" },
        { kernel = "sobel", input = "gray", output = "gradient" },
        { kernel = "threshold", input = "gradient", output = "output", params = { threshold = 0.3 } },
    ]"#;
    check("edges", plan(&cpu(), text, PHOTO));
    check("edges_on_a_gpu", plan(&gpu(), text, PHOTO));
}

/// A producer that reads a buffer before another stage overwrites it stays where it is.
#[test]
fn what_is_overwritten_is_read_before() {
    let text = r#"stage = [
        { kernel = "scalar_add", input = "a", output = "sum", params = { scalar = 1 } },
        { kernel = "blur", input = "b", output = "a" },
        { kernel = "elementwise_mul", inputs = ["sum", "b"], output = "output" },
    ]"#;
    let buffers = "a f32 480x640, b f32 480x640, output f32 480x640";
    check("what_is_overwritten_is_read_before", plan(&cpu(), text, buffers));
}

/// Parts of one buffer, written by as many launches.
#[test]
fn parts_side_by_side() {
    let text = r#"stage = [
        { kernel = "relu", input = "a", output = "positive" },
        { kernel = "concat", inputs = ["positive", "b"], output = "both", params = { axis = 1 } },
        { kernel = "scalar_mul", input = "both", output = "output", params = { scalar = 2 } },
    ]"#;
    check("parts_side_by_side", plan(&cpu(), text, "a f32 64x128, b f32 64x64, output f32 64x192"));
}

#[test]
fn buffers_without_elements_need_no_launch() {
    check("buffers_without_elements_need_no_launch", plan(&cpu(), "relu | sqrt", "input f32 0x4, output f32 0x4"));
}

/// A snapshot that no test compares with says nothing.
#[test]
fn every_snapshot_has_a_test() {
    let (folder, tests) = (concat!(env!("CARGO_MANIFEST_DIR"), "/tests/plans/snapshots"), include_str!("main.rs"));
    for entry in std::fs::read_dir(folder).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        // A plan that changed lies beside its snapshot until somebody has looked at it.
        let name = file.trim_end_matches(".new").strip_prefix("plans__").and_then(|name| name.strip_suffix(".snap"));
        let name = name.unwrap_or_else(|| panic!("{file} is no snapshot"));
        assert!(tests.contains(&format!("\"{name}\"")), "no test compares with {file}");
    }
}
