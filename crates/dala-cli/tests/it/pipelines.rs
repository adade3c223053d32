//! `dala run`, `filter`, `graph`, `verify` and `trace`.

use std::fs;

use image::{DynamicImage, GrayImage, Luma, RgbImage, Rgba, RgbaImage};

use super::dala;
use super::folder::Folder;

const EDGES: &str = "\
[[stage]]
kernel = 'blur'
input = 'input'
output = 'soft'
params = { radius = 1 }

[[stage]]
kernel = 'grayscale'
input = 'soft'
output = 'output'
";

/// The line without how long it took.
fn timeless(line: &str) -> &str {
    let (before, time) = line.trim_end().rsplit_once(", ").unwrap();
    assert!(time.strip_suffix(" ms").unwrap().parse::<f64>().unwrap() > 0.0, "{line}");
    before
}

/// The same without how many launches it took, which is the planner's to say.
fn without_launches(line: &str) -> String {
    let (before, rest) = timeless(line).split_once(" in ").unwrap();
    let (launches, after) = rest.split_once(" launch").unwrap();
    assert!(launches.parse::<u32>().unwrap() > 0, "{line}");
    format!("{before}{}", after.trim_start_matches("es"))
}

#[test]
fn a_pipeline_runs_on_a_picture() {
    let folder = Folder::new();
    let (file, photo, out) = (folder.file("edges.toml", EDGES), folder.photo("photo.png"), folder.path("out.png"));
    let line = folder.on_cpu(&["run", &file, "--input", &photo, "--output", &out]).success();
    assert_eq!(without_launches(&line), "./photo.png -> ./out.png u8 {5, 7}: 2 stages on cpu");
    let gray = folder.open("out.png");
    assert_eq!((gray.color(), gray.width(), gray.height()), (image::ColorType::L8, 7, 5));
}

#[test]
fn a_filter_computes_what_its_kernels_say() {
    let folder = Folder::new();
    let (photo, out) = (folder.photo("photo.png"), folder.path("out.png"));
    let line = folder.on_cpu(&["filter", "flip | scalar_mul(scalar=0.5)", &photo, &out]).success();
    assert!(timeless(&line).starts_with("./photo.png -> ./out.png u8 {5, 7, 3}: 2 stages in "), "{line}");
    let (before, after) = (folder.open("photo.png").into_rgb8(), folder.open("out.png").into_rgb8());
    for (x, y, pixel) in after.enumerate_pixels() {
        let expected = before.get_pixel(6 - x, y).0.map(|level| f64::from(level) * 0.5);
        for (level, expected) in pixel.0.into_iter().zip(expected) {
            assert!((f64::from(level) - expected).abs() <= 0.5, "{level} is not {expected}");
        }
    }
}

#[test]
fn every_device_filters_the_same() {
    let folder = Folder::new();
    let photo = folder.photo("photo.png");
    let listed = dala(&["info", "--json"]).json();
    let devices: Vec<&str> = listed.as_array().unwrap().iter().map(|info| info["backend"].as_str().unwrap()).collect();
    let results: Vec<RgbImage> = devices
        .iter()
        .map(|device| {
            let out = folder.path(&format!("{device}.png"));
            dala(&["filter", "blur(radius=2) | sharpen", &photo, &out, "--device", device]).success();
            folder.open(&format!("{device}.png")).into_rgb8()
        })
        .collect();
    for (device, result) in devices.iter().zip(&results) {
        let apart = result.iter().zip(results[0].iter()).map(|(a, b)| a.abs_diff(*b)).max();
        assert!(apart <= Some(1), "{device} is {apart:?} levels off");
    }
}

#[test]
fn a_filter_explains_its_plan_before_it_runs() {
    let folder = Folder::new();
    let (photo, out) = (folder.photo("photo.png"), folder.path("out.png"));
    let text = folder.on_cpu(&["filter", "blur | grayscale", &photo, &out, "--explain"]).success();
    assert!(text.starts_with("plan: 2 stages in "), "{text}");
    assert!(text.contains("input") && text.contains("output"), "{text}");
    assert!(text.lines().last().unwrap().starts_with("./photo.png -> ./out.png"), "{text}");
}

#[test]
fn pictures_keep_their_channels() {
    let folder = Folder::new();
    let gray = GrayImage::from_fn(4, 3, |x, y| Luma([(x * 20 + y) as u8]));
    let clear = RgbaImage::from_fn(4, 3, |x, y| Rgba([x as u8, y as u8, 9, (x * 60) as u8]));
    let deep = DynamicImage::from(gray.clone()).into_luma16();
    DynamicImage::from(gray.clone()).save(folder.path("gray.png")).unwrap();
    DynamicImage::from(clear.clone()).save(folder.path("clear.png")).unwrap();
    DynamicImage::from(deep).save(folder.path("deep.png")).unwrap();
    for (name, shape) in [("gray", "{3, 4, 1}"), ("clear", "{3, 4, 4}"), ("deep", "{3, 4, 1}")] {
        let (from, to) = (folder.path(&format!("{name}.png")), folder.path(&format!("{name}-out.png")));
        let line = folder.on_cpu(&["filter", "copy", &from, &to]).success();
        assert!(line.contains(&format!("-out.png u8 {shape}:")), "{line}");
    }
    assert_eq!(folder.open("gray-out.png").into_luma8(), gray);
    assert_eq!(folder.open("deep-out.png").into_luma8(), gray);
    assert_eq!(folder.open("clear-out.png").into_rgba8(), clear);
    // JPEG has no transparency.
    let line = folder.on_cpu(&["filter", "copy", &folder.path("clear.png"), &folder.path("flat.jpg")]).success();
    assert!(line.contains("u8 {3, 4, 4}"), "{line}");
    assert_eq!(folder.open("flat.jpg").color(), image::ColorType::Rgb8);
}

#[test]
fn floats_from_0_to_1_become_levels() {
    let folder = Folder::new();
    let photo = folder.photo("photo.png");
    let text = "[buffers.float]\ndtype = 'f32'\n[[stage]]\nkernel = 'cast'\ninput = 'input'\noutput = 'float'\n\
                [[stage]]\nkernel = 'scalar_mul'\ninput = 'float'\noutput = 'output'\n\
                params = { scalar = 0.00392156862745098 }\n";
    let file = folder.file("float.toml", text);
    let out = folder.path("out.png");
    let line = folder.on_cpu(&["run", &file, "--input", &photo, "--output", &out]).success();
    assert!(line.contains("f32 {5, 7, 3}"), "{line}");
    assert_eq!(folder.open("out.png").into_rgb8(), folder.open("photo.png").into_rgb8());
}

#[test]
fn further_inputs_and_results_go_by_name() {
    let folder = Folder::new();
    let (photo, logo) = (folder.photo("photo.png"), folder.path("logo.png"));
    DynamicImage::from(RgbaImage::from_pixel(7, 5, Rgba([10, 20, 30, 255]))).save(&logo).unwrap();
    let text = "[[stage]]\nkernel = 'blur'\ninput = 'input'\noutput = 'soft'\n\
                [[stage]]\nkernel = 'overlay_alpha'\ninputs = ['soft', 'logo']\noutput = 'output'\n";
    let file = folder.file("stamp.toml", text);
    let given = ["run", &file, "--input", &photo, "--input", &format!("logo={logo}")];
    let (out, soft) = (folder.path("out.jpg"), format!("soft={}", folder.path("soft.png")));
    let line = folder.on_cpu(&[&given[..], &["--output", &out, "--also", &soft]].concat()).success();
    let expected = "./photo.png, ./logo.png -> ./out.jpg u8 {5, 7, 3}, ./soft.png u8 {5, 7, 3}: 2 stages in ";
    assert!(line.starts_with(expected), "{line}");
    // An opaque picture over another one hides it.
    for pixel in folder.open("out.jpg").into_rgb8().pixels() {
        assert!(pixel.0.iter().zip([10u8, 20, 30]).all(|(level, logo)| level.abs_diff(logo) <= 3), "{pixel:?}");
    }
    assert_eq!(folder.open("soft.png").width(), 7);

    let message = folder.on_cpu(&["run", &file, "--input", &photo, "--output", &out]).error(2);
    let expected = "error: the pipeline reads `logo`, which no stage writes: give it by --input logo=FILE\n";
    assert_eq!(message, expected);
}

#[test]
fn a_pipeline_may_need_no_picture() {
    let folder = Folder::new();
    let text = "[buffers.output]\ndtype = 'u8'\nshape = [3, 4]\n[[stage]]\nkernel = 'fill'\noutput = 'output'\n\
                params = { value = 77 }\n";
    let file = folder.file("flat.toml", text);
    let line = folder.on_cpu(&["run", &file, "--output", &folder.path("out.png")]).success();
    assert_eq!(timeless(&line), "./out.png u8 {3, 4}: 1 stage in 1 launch on cpu");
    assert!(folder.open("out.png").into_luma8().pixels().all(|pixel| pixel.0 == [77]));
}

#[test]
fn a_plan_can_be_drawn_and_explained() {
    let folder = Folder::new();
    let (file, svg) = (folder.file("edges.toml", EDGES), folder.path("plan.svg"));
    let line = folder.on_cpu(&["graph", &file, "--size", "48x64x4", "-o", &svg]).success();
    assert!(line.starts_with("./plan.svg: 2 stages in ") && line.ends_with(" on cpu\n"), "{line}");
    let drawn = fs::read_to_string(&svg).unwrap();
    assert!(drawn.starts_with("<svg") && drawn.trim_end().ends_with("</svg>"), "{drawn}");
    for name in ["blur", "grayscale", "input", "output"] {
        assert!(drawn.contains(name), "{name} is not in {drawn}");
    }
    let text = folder.on_cpu(&["graph", "--filter", "blur(radius=3) | grayscale", "--size", "48x64x4"]).success();
    assert!(text.starts_with("plan: 2 stages in ") && text.contains("u8 {48, 64, 4}"), "{text}");
    // Without a size, and of a picture.
    assert!(folder.on_cpu(&["graph", &file]).success().contains("u8 {480, 640, 3}"));
    let photo = folder.photo("photo.jpg");
    assert!(folder.on_cpu(&["graph", &file, "--input", &photo]).success().contains("u8 {5, 7, 3}"));
}

#[test]
fn a_pipeline_is_verified_on_every_device() {
    let folder = Folder::new();
    let (file, photo) = (folder.file("edges.toml", EDGES), folder.photo("photo.png"));
    let text = folder.on_cpu(&["verify", &file, "--input", &photo]).success();
    // 105 elements of the blur, 35 of the gray picture, and these again at the end.
    assert!(text.starts_with("cpu (") && text.ends_with("): right, 175 elements of 2 stages compared\n"), "{text}");
    let chain = "blur(radius=2) | sharpen | threshold(threshold=0.4)";
    let text = dala(&["verify", "--filter", chain, "--size", "33x47x4"]).success();
    let devices = dala(&["info", "--json"]).json().as_array().unwrap().len();
    assert_eq!((text.lines().count(), text.matches("): right, ").count()), (devices, devices), "{text}");
}

#[test]
fn devices_that_lack_something_are_told_apart_from_wrong_ones() {
    let folder = Folder::new();
    let text = "[buffers.wide]\ndtype = 'f64'\n[[stage]]\nkernel = 'cast'\ninput = 'input'\noutput = 'wide'\n\
                [[stage]]\nkernel = 'exp'\ninput = 'wide'\noutput = 'output'\n";
    let file = folder.file("wide.toml", text);
    let text = dala(&["verify", &file, "--size", "4x4x3"]).success();
    for line in text.lines() {
        let expected = if line.starts_with("gl (") { "): not run, " } else { "): right, " };
        assert!(line.contains(expected), "{text}");
    }
}

#[test]
fn a_trace_is_a_file_of_events() {
    let folder = Folder::new();
    let (file, trace) = (folder.file("edges.toml", EDGES), folder.path("trace.json"));
    let line = folder.on_cpu(&["trace", &file, "--size", "48x64x3", "--runs", "3", "-o", &trace]).success();
    let (done, viewer) = line.split_once("; ").unwrap();
    assert_eq!(without_launches(done), "./trace.json: 3 runs of 2 stages on cpu");
    assert_eq!(viewer, "open it in ui.perfetto.dev\n");
    let events: serde_json::Value = serde_json::from_str(&fs::read_to_string(&trace).unwrap()).unwrap();
    let worked = events["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == "X").count();
    assert!(worked >= 3, "{worked} spans in {events}");
}

#[test]
fn mistakes_in_a_chain_are_marked() {
    let folder = Folder::new();
    let (photo, out) = (folder.photo("photo.png"), folder.path("out.png"));
    let message = |chain: &str| folder.on_cpu(&["filter", chain, &photo, &out]).error(2);
    assert_eq!(
        message("blur(radius 3) | grayscale"),
        "error: expected `=` after `radius`, found `3`\n  blur(radius 3) | grayscale\n              ^\n"
    );
    assert_eq!(message("blurr"), "error: stage 0: no kernel is called `blurr`, did you mean `blur`?\n");
    assert_eq!(
        message("blur(radus=3) | relu(slop=1)"),
        "error: the pipeline has 2 problems:\n  \
         stage 0: kernel `blur` has no param `radus`, did you mean `radius`?\n  \
         stage 1: kernel `relu` has no param `slop`, did you mean `slope`?\n"
    );
    assert_eq!(
        message("resize"),
        "error: stage 0: the shape of the transient `output` does not follow from kernel `resize`: give it one\n  \
         in a file: [buffers.output] with shape = [480, 640, 3], or as it should be\n"
    );
    assert!(!fs::exists(&out).unwrap());
}

#[test]
fn mistakes_in_a_file_are_told_with_file_and_line() {
    let folder = Folder::new();
    let (photo, out) = (folder.photo("photo.png"), folder.path("out.png"));
    let message = |text: &str| {
        let file = folder.file("bad.toml", text);
        folder.on_cpu(&["run", &file, "--input", &photo, "--output", &out]).error(2)
    };
    assert_eq!(
        message("[[stage]]\nkernal = 'blur'\n"),
        "error: ./bad.toml: line 2, column 1: unknown key `kernal`, did you mean `kernel`?\n  kernal = 'blur'\n  ^^^^^^\n"
    );
    assert_eq!(
        message("[[stage]]\nkernel = 'blur'\ninput = 'input'\noutput = 'output'\nparams = { radius = -1 }\n"),
        "error: ./bad.toml: stage 0: param `radius` of kernel `blur` must be from 0 to 256, found -1\n"
    );
    assert_eq!(
        message("[[stage]]\nkernel = 'blur'\ninput = 'input'\noutput = 'result'\n"),
        "error: ./bad.toml: no stage uses a buffer called `output`\n"
    );
    assert_eq!(
        message("[buffers.input]\nshape = [5, 7, 4]\n[[stage]]\nkernel = 'blur'\ninput = 'input'\noutput = 'output'\n"),
        "error: ./bad.toml declares `input` as u8 {5, 7, 4}, and ./photo.png is u8 {5, 7, 3}\n"
    );
}

#[test]
fn files_that_cannot_be_read_or_written_are_named() {
    let folder = Folder::new();
    let (photo, out) = (folder.photo("photo.png"), folder.path("out.png"));
    let filter = |from: &str, to: &str| folder.on_cpu(&["filter", "blur", from, to]).error(2);
    let missing = "No such file or directory (os error 2)\n";
    assert_eq!(filter(&folder.path("no.jpg"), &out), format!("error: cannot read ./no.jpg: {missing}"));
    let folderless = "error: cannot write ./no/out.png: there is no folder ./no, make it first\n";
    assert_eq!(filter(&photo, &folder.path("no/out.png")), folderless);
    assert_eq!(
        filter(&photo, &folder.path("out.gif")),
        "error: cannot write ./out.gif: name it .jpg, .png, .webp, .tiff, .bmp, .pnm, .npy or .raw\n"
    );
    assert_eq!(
        filter(&folder.file("notes.png", "hello"), &out),
        "error: cannot read ./notes.png: it is no JPEG, PNG, WebP, TIFF, BMP, PNM or NPY picture: convert it to one first\n"
    );
    let graph = folder.on_cpu(&["graph", "--filter", "blur", "-o", &folder.path("plan.png")]).error(2);
    assert_eq!(graph, "error: cannot write ./plan.png: name it .svg\n");
    let verify = folder.on_cpu(&["verify", &folder.path("no.toml")]).error(2);
    assert_eq!(verify, format!("error: cannot read ./no.toml: {missing}"));
    // A broken picture is no reason to give up on the process.
    let bytes = fs::read(&photo).unwrap();
    fs::write(folder.path("half.png"), &bytes[..bytes.len() / 2]).unwrap();
    let half = filter(&folder.path("half.png"), &out);
    assert_eq!(half, "error: cannot read ./half.png: the PNG picture is cut off before its end\n");
}

#[test]
fn results_that_are_no_pictures_are_refused_before_anything_runs() {
    let folder = Folder::new();
    let (photo, out) = (folder.photo("photo.png"), folder.path("out.png"));
    assert_eq!(
        folder.on_cpu(&["filter", "reduce_max", &photo, &out]).error(2),
        "error: cannot write ./out.png: `output` is u8 {}, and a picture is u8 or f32 of shape {height, width} or \
         {height, width, channels} with 1, 3 or 4 channels\n"
    );
    assert_eq!(
        folder.on_cpu(&["filter", "reduce_sum", &photo, &out]).error(2),
        "error: stage 0: the output of kernel `reduce_sum` may be f32, f64, s32, s64, u32, f16, bf16 or u64: \
         say which one the transient `output` is\n  \
         in a file: [buffers.output] with dtype = \"f32\", or as it should be\n"
    );
    assert!(!fs::exists(&out).unwrap());
}

#[test]
fn options_that_do_not_fit_together_are_refused() {
    let folder = Folder::new();
    let (file, photo) = (folder.file("edges.toml", EDGES), folder.photo("photo.png"));
    assert_eq!(
        folder.on_cpu(&["graph", &file, "--input", &photo, "--size", "4x4x3"]).error(2),
        "error: `input` has the size of its file: leave out --size or --input\n"
    );
    let twice = folder.on_cpu(&["graph", &file, "--input", &photo, "--input", &format!("input={photo}")]).error(2);
    assert_eq!(twice, "error: `input` is given twice\n");
    let out = folder.path("out.png");
    assert_eq!(
        folder.on_cpu(&["run", &file, "--output", &out]).error(2),
        "error: the pipeline reads `input`: give a picture by --input FILE\n"
    );
    let also = format!("output={out}");
    assert_eq!(
        folder.on_cpu(&["run", &file, "--input", &photo, "--output", &out, "--also", &also]).error(2),
        "error: `output` is to be written twice\n"
    );
    let also = format!("sotf={out}");
    assert_eq!(
        folder.on_cpu(&["run", &file, "--input", &photo, "--also", &also]).error(2),
        "error: ./edges.toml: no stage uses a buffer called `sotf`, did you mean `soft`?\n"
    );
    assert!(dala(&["graph"]).error(2).contains("<PIPELINE>"));
    assert!(dala(&["graph", &file, "--filter", "blur"]).error(2).contains("cannot be used with"));
    assert!(dala(&["run", &file, "--input", &photo]).error(2).contains("--output <PATH>"));
    assert!(dala(&["graph", &file, "--size", "4x4x5"]).error(2).contains("such as 480x640x3"));
    assert!(dala(&["trace", &file]).error(2).contains("--output <FILE>"));
}

#[test]
fn every_command_shows_an_example() {
    for command in [
        "run",
        "filter",
        "graph",
        "verify",
        "trace",
        "classify",
        "model info",
        "bench",
        "self-test",
        "completions",
        "man",
    ] {
        let words: Vec<&str> = command.split(" ").chain(["--help"]).collect();
        let help = dala(&words).success();
        assert!(help.contains(&format!("  dala {command} ")), "{help}");
    }
}
