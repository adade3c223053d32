//! Pictures of every format, whole and cut off, through files and pipes.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use image::{DynamicImage, ImageFormat, Rgb, RgbImage};

use super::command;
use super::folder::Folder;
use super::photos::fetched;

/// What a run wrote to a pipe.
struct Piped {
    code: i32,
    stdout: Vec<u8>,
    stderr: String,
}

/// Runs the command on the CPU device with `input` on its standard input.
fn pipe(arguments: &[&str], input: &[u8]) -> Piped {
    let mut command = command(&[arguments, &["--device", "cpu"]].concat());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that wants no more input closes it, which is no failure of this test.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    Piped { code: output.status.code().unwrap(), stdout: output.stdout, stderr }
}

impl Piped {
    fn picture(&self, format: ImageFormat) -> RgbImage {
        assert_eq!(self.code, 0, "{}", self.stderr);
        assert_eq!(image::guess_format(&self.stdout).unwrap(), format);
        image::load_from_memory(&self.stdout).unwrap().into_rgb8()
    }

    fn error(&self) -> &str {
        assert_eq!((self.code, self.stdout.len()), (2, 0), "{}", self.stderr);
        &self.stderr
    }
}

fn photo() -> RgbImage {
    RgbImage::from_fn(7, 5, |x, y| Rgb([(x * 30) as u8, (y * 50) as u8, 200 - (x * y) as u8]))
}

/// As a file of this format, written by a crate that is not ours.
fn encoded(format: ImageFormat) -> Vec<u8> {
    let mut bytes = std::io::Cursor::new(Vec::new());
    DynamicImage::from(photo()).write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

fn flipped(photo: &RgbImage) -> RgbImage {
    image::imageops::flip_horizontal(photo)
}

/// A profile for RGB, of which only the header matters.
fn profile() -> Vec<u8> {
    let mut profile = vec![0; 200];
    profile[16..20].copy_from_slice(b"RGB ");
    profile
}

/// A PNG file with a profile.
fn with_profile() -> Vec<u8> {
    use image::ImageEncoder;
    let mut bytes = Vec::new();
    let mut encoder = image::codecs::png::PngEncoder::new(&mut bytes);
    encoder.set_icc_profile(profile()).unwrap();
    encoder.write_image(photo().as_raw(), 7, 5, image::ExtendedColorType::Rgb8).unwrap();
    bytes
}

#[test]
fn a_photo_that_was_cut_in_half_is_no_photo() {
    let folder = Folder::new();
    for (name, format) in [
        ("cut.jpg", ImageFormat::Jpeg),
        ("cut.png", ImageFormat::Png),
        ("cut.webp", ImageFormat::WebP),
        ("cut.tiff", ImageFormat::Tiff),
        ("cut.bmp", ImageFormat::Bmp),
        ("cut.ppm", ImageFormat::Pnm),
    ] {
        let bytes = encoded(format);
        let (cut, out) = (folder.file(name, &bytes[..bytes.len() / 2]), folder.path("out.png"));
        let message = folder.on_cpu(&["filter", "grayscale", &cut, &out]).error(2);
        let kind = name.split('.').next_back().unwrap();
        let kind = match kind {
            "jpg" => "JPEG",
            "webp" => "WebP",
            "ppm" => "PNM",
            other => &other.to_uppercase(),
        };
        let expected = format!("error: cannot read ./{name}: the {kind} picture is cut off before its end\n");
        assert_eq!(message, expected);
        assert!(!fs::exists(&out).unwrap(), "{name}");
        let whole = folder.file(name, &bytes);
        folder.on_cpu(&["filter", "grayscale", &whole, &out]).success();
        fs::remove_file(&out).unwrap();
    }
    // A camera's photo, in a pipe.
    let photo = concat!(env!("CARGO_MANIFEST_DIR"), "/../dala-model/tests/data/cat_chelsea.jpg");
    let photo = fs::read(photo).unwrap();
    let run = pipe(&["filter", "grayscale", "-", "-"], &photo[..photo.len() / 2]);
    assert_eq!(run.error(), "error: cannot read standard input: the JPEG picture is cut off before its end\n");
}

#[test]
fn every_format_is_read_and_written() {
    let folder = Folder::new();
    for (name, format) in [
        ("photo.png", ImageFormat::Png),
        ("photo.webp", ImageFormat::WebP),
        ("photo.tif", ImageFormat::Tiff),
        ("photo.bmp", ImageFormat::Bmp),
        ("photo.ppm", ImageFormat::Pnm),
    ] {
        let (from, to) = (folder.file(name, encoded(format)), folder.path(&format!("out-{name}")));
        let line = folder.on_cpu(&["filter", "flip", &from, &to]).success();
        assert!(line.starts_with(&format!("./{name} -> ./out-{name} u8 {{5, 7, 3}}: ")), "{line}");
        let bytes = fs::read(&to).unwrap();
        assert_eq!(image::guess_format(&bytes).unwrap(), format);
        assert_eq!(image::load_from_memory(&bytes).unwrap().into_rgb8(), flipped(&photo()), "{name}");
    }
}

#[test]
fn a_folder_has_pictures_of_every_format() {
    let folder = Folder::new();
    fs::create_dir(folder.path("in")).unwrap();
    folder.file("in/a.webp", encoded(ImageFormat::WebP));
    folder.file("in/b.tiff", encoded(ImageFormat::Tiff));
    folder.file("in/labels.npy", "an array of something else");
    folder.on_cpu(&["filter", "flip", &folder.path("in"), &folder.path("out"), "--format", "bmp"]).success();
    for name in ["out/a.bmp", "out/b.bmp"] {
        assert_eq!(folder.open(name).into_rgb8(), flipped(&photo()), "{name}");
    }
    assert_eq!(fs::read_dir(folder.path("out")).unwrap().count(), 2);
}

#[test]
fn pictures_go_through_pipes() {
    // As the input is.
    for format in [ImageFormat::Png, ImageFormat::WebP, ImageFormat::Tiff, ImageFormat::Bmp, ImageFormat::Pnm] {
        let run = pipe(&["filter", "flip", "-", "-"], &encoded(format));
        assert_eq!(run.picture(format), flipped(&photo()), "{format:?}");
        // What is said does not get between the bytes.
        assert!(run.stderr.starts_with("- -> - u8 {5, 7, 3}: 1 stage in 1 launch on cpu, "), "{}", run.stderr);
    }
    let run = pipe(&["filter", "flip", "-", "-"], &encoded(ImageFormat::Jpeg));
    assert_eq!(run.picture(ImageFormat::Jpeg).dimensions(), (7, 5));
    // As --format says.
    let run = pipe(&["filter", "flip", "-", "-", "--format", "png"], &encoded(ImageFormat::Bmp));
    assert_eq!(run.picture(ImageFormat::Png), flipped(&photo()));
    let run = pipe(&["filter", "flip", "-", "-", "--explain"], &encoded(ImageFormat::Png));
    assert_eq!(run.picture(ImageFormat::Png), flipped(&photo()));
    assert!(run.stderr.starts_with("plan: 1 stage in "), "{}", run.stderr);
}

#[test]
fn one_end_of_a_pipe_may_be_a_file() {
    let folder = Folder::new();
    let (out, file) = (folder.path("out.png"), folder.file("photo.bmp", encoded(ImageFormat::Bmp)));
    let run = pipe(&["filter", "flip", "-", &out], &encoded(ImageFormat::Pnm));
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert!(String::from_utf8(run.stdout).unwrap().starts_with("- -> "));
    assert_eq!(folder.open("out.png").into_rgb8(), flipped(&photo()));
    assert_eq!(pipe(&["filter", "flip", &file, "-"], b"").picture(ImageFormat::Bmp), flipped(&photo()));

    let flip = folder.file("flip.toml", "[[stage]]\nkernel = 'flip'\ninput = 'input'\noutput = 'output'\n");
    let run = pipe(&["run", &flip, "--input", "-", "--output", "-"], &encoded(ImageFormat::Png));
    assert_eq!(run.picture(ImageFormat::Png), flipped(&photo()));
    // Nothing is read: what is written is PNG.
    let text = "[buffers.output]\ndtype = 'u8'\nshape = [3, 4, 3]\n[[stage]]\nkernel = 'fill'\noutput = 'output'\n\
                params = { value = 77 }\n";
    let fill = folder.file("fill.toml", text);
    let run = pipe(&["run", &fill, "--output", "-"], b"");
    assert!(run.picture(ImageFormat::Png).pixels().all(|pixel| pixel.0 == [77; 3]));
    let run = pipe(&["graph", "--filter", "flip", "--input", "-"], &encoded(ImageFormat::WebP));
    assert!(String::from_utf8(run.stdout).unwrap().contains("u8 {5, 7, 3}"));
}

#[test]
fn a_pipe_is_one_picture() {
    let folder = Folder::new();
    let (png, out) = (encoded(ImageFormat::Png), folder.path("out"));
    let error = |arguments: &[&str]| pipe(arguments, &png).error().to_owned();
    let several = "error: `-` is one picture: several come from files, and go to a folder\n";
    let file = folder.file("photo.png", &png);
    assert_eq!(error(&["filter", "flip", "-", &file, &out]), several);
    assert_eq!(error(&["filter", "flip", &file, &file, "-"]), several);
    let text = "[[stage]]\nkernel = 'elementwise_max'\ninputs = ['input', 'other']\noutput = 'output'\n";
    let max = folder.file("max.toml", text);
    let twice = error(&["run", &max, "--input", "-", "--input", "other=-", "--output", "-"]);
    assert_eq!(twice, "error: standard input is one picture: `-` can be given once\n");
    let twice = error(&["run", &max, "--input", "-", "--output", "-", "--also", "input=-"]);
    assert_eq!(twice, "error: standard output is one picture: `-` can be given once\n");
    assert_eq!(pipe(&["filter", "flip", "-", "-"], b"").error(), "error: cannot read standard input: it is empty\n");
    let unknown = "error: cannot read standard input: it is no JPEG, PNG, ";
    assert!(pipe(&["filter", "flip", "-", "-"], b"GIF89a").error().starts_with(unknown));
    assert!(!fs::exists(&out).unwrap());
}

#[test]
fn a_reader_that_has_enough_is_no_failure() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let folder = Folder::new();
    let file = folder.photo("photo.png");
    let output = command(&["filter", "flip", &file, "-", "--device", "cpu"]).stdout(writer).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(!stderr.contains("panicked") && !stderr.contains("error"), "{stderr}");
}

#[test]
fn colour_profiles_are_kept_or_said_to_be_left_out() {
    let folder = Folder::new();
    let photo = folder.file("photo.png", with_profile());
    let run = |chain: &str, out: &str| {
        let run = folder.on_cpu(&["filter", chain, &photo, &folder.path(out)]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        (run.stderr, fs::read(folder.path(out)).unwrap())
    };
    let holds = |bytes: &[u8]| bytes.windows(200).any(|part| part == profile());
    for out in ["out.jpg", "out.webp", "out.tiff"] {
        let (said, bytes) = run("flip", out);
        assert_eq!(said, "");
        assert!(holds(&bytes), "{out}");
    }
    // Compressed there.
    let (said, bytes) = run("flip", "out.png");
    use image::ImageDecoder;
    let mut decoder = image::codecs::png::PngDecoder::new(std::io::Cursor::new(bytes)).unwrap();
    assert_eq!((said.as_str(), decoder.icc_profile().unwrap()), ("", Some(profile())));
    for (out, kind) in [("out.bmp", "BMP"), ("out.ppm", "PNM"), ("out.npy", "NPY"), ("out.raw", "raw")] {
        let (said, bytes) = run("flip", out);
        assert_eq!(said, format!("warning: ./{out}: the colour profile is left out: {kind} files hold none\n"));
        assert!(!holds(&bytes), "{out}");
    }
    let (said, bytes) = run("grayscale", "gray.tiff");
    let why = "it is for RGB, and the result is gray";
    assert_eq!(said, format!("warning: ./gray.tiff: the colour profile is left out: {why}\n"));
    assert!(!holds(&bytes));
    // Of many pictures it is said once.
    folder.file("other.png", with_profile());
    let run = folder.on_cpu(&["filter", "flip", &folder.path("*.png"), &folder.path("out"), "--format", "bmp"]);
    assert_eq!(run.stderr, "warning: the colour profile is left out of 3 files: BMP files hold none\n");
}

#[test]
fn profiles_go_into_what_recipes_make() {
    let Some(model) = fetched("upscale.onnx", "upscale") else { return };
    let folder = Folder::new();
    let photo = folder.file("photo.png", with_profile());
    let left_out = "warning: ./large.bmp: the colour profile is left out: BMP files hold none\n";
    for (out, holds, said) in [("large.tiff", true, ""), ("large.bmp", false, left_out)] {
        let run = folder.on_cpu(&["upscale", &photo, "--model", &model, "--output", &folder.path(out)]);
        assert_eq!((run.code, run.stderr.as_str()), (0, said));
        let bytes = fs::read(folder.path(out)).unwrap();
        assert_eq!(bytes.windows(200).any(|part| part == profile()), holds, "{out}");
    }
}

#[test]
fn arrays_hold_elements_as_they_are() {
    let folder = Folder::new();
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3), }\n";
    let floats: Vec<u8> = [0.25f32, -3.0, 1.5].iter().flat_map(|value| value.to_le_bytes()).collect();
    let start = [b"\x93NUMPY\x01\0", &(header.len() as u16).to_le_bytes()[..], header.as_bytes()].concat();
    let array = folder.file("array.npy", [&start[..], &floats].concat());
    let doubled: Vec<u8> = [0.5f32, -6.0, 3.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    let double = "scalar_mul(scalar=2)";
    // Floats stay floats, though no picture has such.
    let line = folder.on_cpu(&["filter", double, &array, &folder.path("out.raw")]).success();
    assert!(line.starts_with("./array.npy -> ./out.raw f32 {1, 3, 1}: "), "{line}");
    assert_eq!(fs::read(folder.path("out.raw")).unwrap(), doubled);
    folder.on_cpu(&["filter", double, &array, &folder.path("out.npy")]).success();
    assert!(fs::read(folder.path("out.npy")).unwrap().ends_with(&doubled));
    // In a picture they become levels.
    folder.on_cpu(&["filter", double, &array, &folder.path("out.png")]).success();
    assert_eq!(folder.open("out.png").into_luma8().into_raw(), [128, 0, 255]);
    // Bytes too.
    let levels = folder.file("levels.raw", [1, 2, 3, 4, 5, 6]);
    let arguments = ["filter", "flip", &levels, &folder.path("levels.npy"), "--raw", "1x2x3"];
    let line = folder.on_cpu(&arguments).success();
    assert!(line.starts_with("./levels.raw -> ./levels.npy u8 {1, 2, 3}: "), "{line}");
    assert!(fs::read(folder.path("levels.npy")).unwrap().ends_with(&[4, 5, 6, 1, 2, 3]));
    // Through a pipe.
    let run = pipe(&["filter", double, "-", "-", "--raw", "1x3x1:f32"], &floats);
    assert_eq!((run.code, run.stdout), (0, doubled.clone()), "{}", run.stderr);
    let run = pipe(&["filter", double, "-", "-", "--format", "raw"], &fs::read(&array).unwrap());
    assert_eq!((run.code, run.stdout), (0, doubled), "{}", run.stderr);
}

#[test]
fn raw_files_have_the_size_that_is_said() {
    let folder = Folder::new();
    let (file, out) = (folder.file("a.raw", [1, 2, 3]), folder.path("out.png"));
    let filter = |more: &[&str]| folder.on_cpu(&[&["filter", "flip", &file, &out], more].concat()).error(2);
    let how = "a raw file does not say how large it is: say it by --raw HxWxC, or HxWxC:f32";
    assert_eq!(filter(&[]), format!("error: cannot read ./a.raw: {how}\n"));
    let short = "error: cannot read ./a.raw: the raw picture is cut off before its end\n";
    assert_eq!(filter(&["--raw", "2x2"]), short);
    let long = "the raw picture is damaged: 1x2x1:u8 has 2 bytes, and the file has 3";
    assert_eq!(filter(&["--raw", "1x2"]), format!("error: cannot read ./a.raw: {long}\n"));
    assert!(filter(&["--raw", "1x2x2"]).contains("such as 480x640x3"));
}

#[test]
fn a_file_that_claims_to_be_enormous_is_refused() {
    let folder = Folder::new();
    let file = folder.file("bomb.ppm", "P6\n100000 100000\n255\n123");
    let message = folder.on_cpu(&["filter", "flip", &file, &folder.path("out.png")]).error(2);
    let expected = "the picture has 100000 x 100000 pixels, which take more than the 1073741824 bytes that are allowed";
    assert_eq!(message, format!("error: cannot read ./bomb.ppm: {expected}\n"));
}
