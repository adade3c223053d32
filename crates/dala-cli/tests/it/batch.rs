//! `dala run` and `dala filter` on many pictures.

use std::fs;

use image::{DynamicImage, Rgb, RgbImage};

use super::dala;
use super::folder::Folder;

const FLIP: &str = "[[stage]]\nkernel = 'flip'\ninput = 'input'\noutput = 'output'\n";

/// Pictures of three sizes and two formats in `in`, one of them broken, and something else.
fn pictures() -> Folder {
    let folder = Folder::new();
    fs::create_dir(folder.path("in")).unwrap();
    for (name, width, height) in [("a.png", 7, 5), ("b.png", 9, 4), ("c.PNG", 7, 5), ("d.jpeg", 16, 16)] {
        let pixel = |x: u32, y: u32| Rgb([(x * 16) as u8, (y * 16) as u8, 90]);
        DynamicImage::from(RgbImage::from_fn(width, height, pixel)).save(folder.path(&format!("in/{name}"))).unwrap();
    }
    folder.file("in/notes.txt", "no picture");
    folder.file("in/.hidden.png", "no picture");
    folder
}

fn names(folder: &Folder, name: &str) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder.path(name))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_folder_of_pictures_is_computed_into_another() {
    let folder = pictures();
    let (file, out) = (folder.file("flip.toml", FLIP), folder.path("new/out"));
    let text = folder.on_cpu(&["run", &file, "--input", &folder.path("in"), "--output", &out]).success();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "4 pictures -> ./new/out: 1 stage in 1 launch on cpu");
    assert!(lines[1].starts_with("  4 pictures written, 0 failed, ") && lines[1].ends_with(" images/s"), "{text}");
    assert!(lines[2].starts_with("  decode ") && lines[2].contains(" s, device ") && lines.len() == 3, "{text}");
    assert_eq!(names(&folder, "new/out"), ["a.png", "b.png", "c.PNG", "d.jpeg"]);
    // Each is its own picture, whatever was in the buffers before.
    for name in ["a.png", "b.png", "c.PNG"] {
        let before = folder.open(&format!("in/{name}")).fliph();
        assert_eq!(folder.open(&format!("new/out/{name}")).into_rgb8(), before.into_rgb8(), "{name}");
    }
}

#[test]
fn many_pictures_of_many_sizes_are_not_mixed_up() {
    let folder = Folder::new();
    fs::create_dir(folder.path("in")).unwrap();
    // More sizes than plans are kept.
    for number in 0..40u32 {
        let (width, height) = (3 + number % 11, 2 + number % 3);
        let picture = RgbImage::from_fn(width, height, |x, y| Rgb([number as u8 * 5, x as u8, y as u8]));
        DynamicImage::from(picture).save(folder.path(&format!("in/{number:02}.png"))).unwrap();
    }
    let out = folder.path("out");
    let text = folder.on_cpu(&["filter", "flip", &folder.path("in"), &out]).success();
    assert!(text.contains("  40 pictures written, 0 failed, "), "{text}");
    for number in 0..40 {
        let before = folder.open(&format!("in/{number:02}.png")).fliph();
        assert_eq!(folder.open(&format!("out/{number:02}.png")).into_rgb8(), before.into_rgb8(), "{number}");
    }
}

#[test]
fn patterns_lists_and_formats() {
    let folder = pictures();
    let file = folder.file("flip.toml", FLIP);
    let run = |inputs: &[&str], more: &[&str], out: &str| {
        let _ = fs::remove_dir_all(folder.path(out));
        let inputs: Vec<String> = inputs.iter().map(|input| folder.path(input)).collect();
        let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
        let to = folder.path(out);
        folder.on_cpu(&[&["run", &file, "--input"][..], &inputs, &["--output", &to], more].concat())
    };
    run(&["in/*.p*"], &[], "out").success();
    assert_eq!(names(&folder, "out"), ["a.png", "b.png"]);
    run(&["in/b.png", "in/d.jpeg"], &["--format", "png"], "out").success();
    assert_eq!(names(&folder, "out"), ["b.png", "d.png"]);
    // A file that a folder has too is done once.
    run(&["in", "in/a.png"], &["--format", "jpg"], "out").success();
    assert_eq!(names(&folder, "out"), ["a.jpg", "b.jpg", "c.jpg", "d.jpg"]);
    // The result says what it is.
    assert!(fs::read(folder.path("out/a.jpg")).unwrap().starts_with(&[0xff, 0xd8]));
    // One picture, but to a folder.
    run(&["in/a.png"], &[], "out/").success();
    assert_eq!(names(&folder, "out"), ["a.png"]);
}

#[test]
fn other_inputs_and_results_are_shared_and_multiplied() {
    let folder = pictures();
    let text = "[[stage]]\nkernel = 'flip'\ninput = 'input'\noutput = 'turned'\n\
                [[stage]]\nkernel = 'elementwise_max'\ninputs = ['turned', 'floor']\noutput = 'output'\n";
    let file = folder.file("floor.toml", text);
    DynamicImage::from(RgbImage::from_pixel(7, 5, Rgb([50, 50, 50]))).save(folder.path("floor.png")).unwrap();
    let (floor, also) = (format!("floor={}", folder.path("floor.png")), format!("turned={}", folder.path("turned")));
    let inputs = [folder.path("in/a.png"), folder.path("in/c.PNG")];
    let arguments = ["run", &file, "--input", &inputs[0], &inputs[1], "--input", &floor];
    let text = folder.on_cpu(&[&arguments[..], &["--output", &folder.path("out"), "--also", &also]].concat()).success();
    assert!(text.starts_with("2 pictures -> ./out, ./turned: 2 stages in "), "{text}");
    for name in ["a.png", "c.PNG"] {
        let turned = folder.open(&format!("in/{name}")).fliph().into_rgb8();
        assert_eq!(folder.open(&format!("turned/{name}")).into_rgb8(), turned);
        let result = folder.open(&format!("out/{name}")).into_rgb8();
        assert!(result.iter().zip(turned.iter()).all(|(level, turned)| *level == (*turned).max(50)), "{name}");
    }
}

#[test]
fn one_bad_picture_does_not_stop_the_rest() {
    let folder = pictures();
    folder.file("in/bad.png", "hello");
    let bytes = fs::read(folder.path("in/a.png")).unwrap();
    fs::write(folder.path("in/half.png"), &bytes[..bytes.len() / 2]).unwrap();
    let run = folder.on_cpu(&["filter", "flip", &folder.path("in"), &folder.path("out")]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(run.stdout.contains("  4 pictures written, 2 failed, "), "{}", run.stdout);
    let lines: Vec<&str> = run.stderr.lines().collect();
    assert_eq!(lines[0], "error: 2 of 6 pictures failed:");
    let formats = "JPEG, PNG, WebP, TIFF, BMP, PNM or NPY";
    assert_eq!(lines[1], format!("  cannot read ./in/bad.png: it is no {formats} picture: convert it to one first"));
    assert!(lines[2].starts_with("  cannot read ./in/half.png: ") && lines.len() == 3, "{}", run.stderr);
    assert_eq!(names(&folder, "out"), ["a.png", "b.png", "c.PNG", "d.jpeg"]);
}

#[test]
fn what_is_wrong_with_the_pipeline_is_said_once() {
    let folder = pictures();
    let run = folder.on_cpu(&["filter", "blurr", &folder.path("in"), &folder.path("out")]);
    assert_eq!(run.code, 1);
    let expected = "error: all 4 pictures failed: stage 0: no kernel is called `blurr`, did you mean `blur`?\n";
    assert_eq!(run.stderr, expected);
    // A pipeline that fits some pictures only.
    let text = "[buffers.input]\nshape = [5, 7, 3]\n[[stage]]\nkernel = 'flip'\ninput = 'input'\noutput = 'output'\n";
    let file = folder.file("fixed.toml", text);
    let run = folder.on_cpu(&["run", &file, "--input", &folder.path("in/*.png"), "--output", &folder.path("out")]);
    assert_eq!(run.code, 1);
    let line = "./fixed.toml declares `input` as u8 {5, 7, 3}, and ./in/b.png is u8 {4, 9, 3}";
    assert_eq!(run.stderr, format!("error: 1 of 2 pictures failed:\n  {line}\n"));
}

#[test]
fn nothing_is_overwritten_by_mistake() {
    let folder = pictures();
    fs::create_dir(folder.path("more")).unwrap();
    folder.photo("more/a.png");
    let filter = |arguments: &[&str]| folder.on_cpu(&[&["filter", "flip"], arguments].concat()).error(2);
    let (from, more, out) = (folder.path("in"), folder.path("more"), folder.path("out"));
    assert_eq!(
        filter(&[&from, &more, &out]),
        "error: ./in/a.png and ./more/a.png would both be written as ./out/a.png: rename one, or give each its own \
         folder\n"
    );
    assert_eq!(
        filter(&[&from, &from]),
        "error: ./in/a.png would be overwritten by a result: name another folder for the results\n"
    );
    // Refused before anything was done.
    assert!(!fs::exists(&out).unwrap());
    assert_eq!(folder.open("in/a.png").width(), 7);
}

#[test]
fn mistakes_name_what_helps() {
    let folder = pictures();
    let filter = |arguments: &[&str]| folder.on_cpu(&[&["filter", "flip"], arguments].concat()).error(2);
    let (photo, out) = (folder.path("in/a.png"), folder.path("out"));
    fs::create_dir(folder.path("empty")).unwrap();
    assert_eq!(
        filter(&[&folder.path("empty"), &out]),
        "error: there is no .jpg, .png, .webp, .tiff, .bmp or .pnm file in ./empty; folders in it are looked into by \
         './empty/**/*.jpg'\n"
    );
    let all = ".jpg, .png, .webp, .tiff, .bmp, .pnm, .npy or .raw";
    assert_eq!(filter(&[&folder.path("no*.png"), &out]), format!("error: no {all} file is called ./no*.png\n"));
    assert_eq!(
        filter(&[&photo, &folder.path("in/notes.txt"), &out]),
        format!("error: ./in/notes.txt is not called {all}: say what to write by --format png or --format jpg\n")
    );
    assert_eq!(
        filter(&[&folder.path("in"), &photo]),
        "error: ./in/a.png is a file, and several pictures need a folder: name one that is new or a folder\n"
    );
    assert_eq!(
        filter(&[&photo, &folder.path("out.png"), "--format", "png"]),
        "error: --format is for folders and for `-`: the extension of a file says its format\n"
    );
    let flat = "[buffers.output]\ndtype = 'u8'\nshape = [3, 4]\n[[stage]]\nkernel = 'fill'\noutput = 'output'\n\
                params = { value = 77 }\n";
    let flat = folder.file("flat.toml", flat);
    assert_eq!(
        folder.on_cpu(&["run", &flat, "--input", &folder.path("in"), "--output", &out]).error(2),
        "error: the pipeline reads no `input`: there is nothing to do for several pictures\n"
    );
}

#[test]
fn a_bar_is_shown_when_it_is_asked_for() {
    let folder = pictures();
    let run = |when: &[&str]| {
        let from = folder.path("in");
        let run = folder.on_cpu(&[&["filter", "flip", &from, &folder.path("out")], when].concat());
        assert_eq!(run.code, 0, "{}", run.stderr);
        run.stderr
    };
    // Here stderr is no terminal.
    assert_eq!(run(&[]), "");
    assert_eq!(run(&["--progress", "never"]), "");
    assert!(run(&["--progress", "always"]).contains("/4 "));
    assert!(
        dala(&["filter", "flip", "a.png", "b.png", "--progress", "often"]).error(2).contains("auto, always, never")
    );
}
