//! The pictures in `docs/KERNELS.md`: each image kernel, before and after, made by the kernels themselves.

use std::fmt::Write;
use std::path::PathBuf;

use dala_compute::{Buffer, DType, Device, Params};
use dala_image::{Picture as Image, Samples};

use crate::support::device_names;

/// One picture: the kernel, its params, and how they are told.
struct Picture {
    kernel: &'static str,
    params: Params,
    caption: &'static str,
}

fn pictures() -> Vec<Picture> {
    let picture = |kernel, caption, params: Params| Picture { kernel, params, caption };
    let none = Params::new;
    vec![
        picture("blur", "`radius: 6`", none().with("radius", 6)),
        picture("box_blur", "`radius: 4`", none().with("radius", 4)),
        picture(
            "brightness_contrast",
            "`brightness: 0.1, contrast: 1.6`",
            none().with("brightness", 0.1).with("contrast", 1.6),
        ),
        picture("crop", "`top: 28, left: 60`", none().with("top", 28).with("left", 60)),
        picture("flip", "", none()),
        picture("generate_gradient", "no input", none()),
        picture("grayscale", "", none()),
        picture("lut", "a colour cube of 2 × 2 × 2 that swaps red and blue", none()),
        picture("overlay_alpha", "a disc that fades out, `opacity: 0.8`", none().with("opacity", 0.8)),
        picture(
            "preprocess",
            "96 × 96, `fit: crop, resize: 96`, shown from -2.5 to 2.5",
            none().with("fit", "crop").with("resize", 96),
        ),
        picture("resize", "to 72 × 108", none()),
        picture("sharpen", "`amount: 3`", none().with("amount", 3.0)),
        picture("sobel", "", none()),
        picture("threshold", "`threshold: 0.45`", none().with("threshold", 0.45)),
    ]
}

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/images"))
}

/// As RGBA.
fn open(name: &str) -> Result<Image, dala_image::ImageError> {
    let image = Image::open(folder().join(name))?;
    let (height, width) = (image.height, image.width);
    Image::new(height, width, 4, Samples::U8(image.into_rgba()))
}

fn rgba([height, width]: [usize; 2], levels: Vec<u8>) -> Image {
    Image::new(height, width, 4, Samples::U8(levels)).unwrap()
}

/// Runs the kernel of a picture on the source.
fn after(device: &Device, picture: &Picture, before: &Image) -> Image {
    let (width, height) = (before.width, before.height);
    let pixels = |bytes: &[u8], shape: [usize; 3]| Buffer::from_slice(device, bytes, shape).unwrap();
    let input = pixels(&before.samples.levels(), [height, width, 4]);
    let run = |inputs: &[&Buffer], shape: [usize; 3]| {
        let output = Buffer::zeros(device, DType::U8, shape).unwrap();
        device.run(picture.kernel, inputs, &output, &picture.params).unwrap();
        rgba([shape[0], shape[1]], output.read_bytes().unwrap())
    };
    match picture.kernel {
        "generate_gradient" => run(&[], [height, width, 4]),
        "crop" => run(&[&input], [72, 108, 4]),
        "resize" => run(&[&input], [72, 108, 4]),
        // A gradient of an opaque picture is transparent: shown over what was opaque.
        "sobel" => {
            let mut levels = run(&[&input], [height, width, 4]).samples.into_levels();
            levels.chunks_mut(4).for_each(|pixel| pixel[3] = 255);
            rgba([height, width], levels)
        }
        "lut" => {
            let corner = |at: usize| [at & 1, at >> 1 & 1, at >> 2 & 1].map(|bit| bit as u8 * 255);
            let cube: Vec<u8> = (0..8).flat_map(corner).collect();
            let table = Buffer::from_slice(device, &cube, [2, 2, 2, 3]).unwrap();
            run(&[&input, &table], [height, width, 4])
        }
        "overlay_alpha" => {
            let disc = |index: usize| {
                let (y, x) = ((index / width) as f32 - 64.0, (index % width) as f32 - 96.0);
                let alpha = 1.0 - (x * x + y * y).sqrt() / 60.0;
                [255, 200, 0, (alpha.max(0.0) * 255.0) as u8]
            };
            let overlay: Vec<u8> = (0..width * height).flat_map(disc).collect();
            run(&[&input, &pixels(&overlay, [height, width, 4])], [height, width, 4])
        }
        "preprocess" => {
            let output = Buffer::zeros(device, DType::F32, [96, 96, 3]).unwrap();
            device.run(picture.kernel, &[&input], &output, &picture.params).unwrap();
            let shown = |value: &f32| ((value + 2.5) / 5.0 * 255.0).clamp(0.0, 255.0) as u8;
            let values = output.read::<f32>().unwrap();
            let bytes = values.chunks(3).flat_map(|pixel| [shown(&pixel[0]), shown(&pixel[1]), shown(&pixel[2]), 255]);
            rgba([96, 96], bytes.collect())
        }
        _ => run(&[&input], [height, width, 4]),
    }
}

/// The part of `docs/KERNELS.md` that shows them.
pub fn section() -> String {
    let mut text = String::from(
        "\n## What image kernels do\n\nThe photo is \"Chelsea\" by Stéfan van der Walt, in the public domain (CC0).\n\n\
         | kernel | before | after | params |\n|---|---|---|---|\n",
    );
    for Picture { kernel, caption, .. } in pictures() {
        let before = if kernel == "generate_gradient" { "" } else { "![before](images/source.png)" };
        let _ = writeln!(text, "| `{kernel}` | {before} | ![{kernel}](images/{kernel}.png) | {caption} |");
    }
    text
}

#[test]
fn the_committed_pictures_are_true() {
    if !device_names().contains(&"cpu".to_owned()) {
        println!("skipped: the pictures are made on cpu, and DALA_TEST_DEVICES does not name it");
        return;
    }
    let device = Device::open("cpu").unwrap();
    let before = open("source.png").expect("docs/images/source.png is committed");
    for picture in pictures() {
        let after = after(&device, &picture, &before);
        let name = format!("{}.png", picture.kernel);
        if std::env::var("DALA_UPDATE").is_ok() {
            after.save(folder().join(&name)).unwrap();
        }
        let stale = || format!("docs/images/{name} is stale: run with DALA_UPDATE=1");
        let committed = open(&name).unwrap_or_else(|error| panic!("{}: {error}", stale()));
        assert_eq!(committed.layout(), after.layout(), "{}", stale());
        // The last bit may differ between processors.
        let [committed, after] = [committed, after].map(|image| image.samples.into_levels());
        let close = committed.iter().zip(&after).all(|(a, b)| a.abs_diff(*b) <= 1);
        assert!(close, "{}", stale());
    }
}

/// Every image kernel is shown.
#[test]
fn every_image_kernel_has_a_picture() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../dala-kernels/src/image");
    let mut kernels: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.strip_suffix(".rs").map(str::to_owned))
        .filter(|name| name != "mod")
        .collect();
    kernels.sort();
    assert_eq!(pictures().iter().map(|picture| picture.kernel.to_owned()).collect::<Vec<_>>(), kernels);
}
