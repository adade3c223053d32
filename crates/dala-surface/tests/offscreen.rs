//! Surfaces that nobody sees, on every device.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "tests")]

use dala_compute::{Buffer, DType, Definition, Device, Lane, ParamKind, Stage, param};
use dala_surface::{Surface, SurfaceError};

const DEVICES: [&str; 3] = ["cpu", "vulkan", "gl"];

fn devices() -> Vec<Device> {
    DEVICES.iter().map(|name| Device::open(name).unwrap()).collect()
}

/// A gradient that moves with every frame: red across, green down, blue by the frame.
fn define_gradient(device: &Device) {
    let text = "select(channel == 3, 255, select(channel == 2, frame * 4, \
                (select(channel == 0, coord(1), coord(0)) * 3 + frame * 7) % 256))";
    let definition = Definition::inputs([] as [&str; 0]).param(param("frame", ParamKind::Int).default(0));
    device.define("moving_gradient", text, definition).unwrap();
}

fn gradient(width: usize, height: usize, frame: usize) -> Vec<u8> {
    let mut pixels = Vec::new();
    for y in 0..height {
        for x in 0..width {
            let level = |place: usize| ((place * 3 + frame * 7) % 256) as u8;
            pixels.extend([level(x), level(y), (frame * 4) as u8, 255]);
        }
    }
    pixels
}

#[test]
fn sixty_frames_without_reading_back() {
    let (width, height) = (321, 200);
    for device in devices() {
        define_gradient(&device);
        let picture = Buffer::zeros(&device, DType::U8, [height, width, 4]).unwrap();
        let surface = Surface::offscreen(&device, width as u32, height as u32).unwrap();
        let before = device.stats().downloaded_bytes;
        for frame in 0..60 {
            device.run("moving_gradient", &[], &picture, [("frame", frame)]).unwrap();
            surface.set_buffer(&picture).unwrap();
            surface.present().unwrap();
        }
        let read_back = device.stats().downloaded_bytes - before;
        println!("{device:?}: 60 frames, {read_back} bytes read back before the snapshot");
        assert_eq!(surface.presented(), 60);
        if surface.on_device() {
            assert_eq!(read_back, 0);
        }
        assert_eq!(surface.on_device(), device.graphics().is_some());
        let before = device.stats().downloaded_bytes;
        let shown = surface.snapshot().unwrap();
        assert_eq!((shown.width, shown.height), (width as u32, height as u32));
        assert!(shown.rgba == gradient(width, height, 59), "{device:?}: the last frame is another");
        if surface.on_device() {
            assert!(device.stats().downloaded_bytes - before >= (width * height * 4) as u64, "reading is counted");
        }
    }
}

#[test]
fn every_kind_of_picture() {
    let (width, height) = (37usize, 23usize);
    for device in devices() {
        let surface = Surface::offscreen(&device, width as u32, height as u32).unwrap();
        let check = |buffer: &Buffer, wanted: &[u8], what: &str| {
            surface.set_buffer(buffer).unwrap();
            surface.present().unwrap();
            assert!(surface.snapshot().unwrap().rgba == wanted, "{device:?}: {what}");
        };
        for channels in [1, 3, 4] {
            let elements = width * height * channels;
            let bytes: Vec<u8> = (0..elements).map(|n| (n * 7 % 256) as u8).collect();
            // From below 0 to above 1, with every half level and some NaN.
            let floats: Vec<f32> =
                (0..elements).map(|n| if n % 97 == 0 { f32::NAN } else { (n % 550) as f32 / 510.0 - 0.04 }).collect();
            let rounded: Vec<u8> = floats
                .iter()
                .map(|x| if x.is_nan() { 0 } else { (x.clamp(0.0, 1.0) * 255.0).round_ties_even() as u8 })
                .collect();
            let expand = |levels: &[u8]| -> Vec<u8> {
                levels
                    .chunks(channels)
                    .flat_map(|p| match p {
                        [g] => [*g, *g, *g, 255],
                        [r, g, b] => [*r, *g, *b, 255],
                        [r, g, b, a] => [*r, *g, *b, *a],
                        _ => unreachable!(),
                    })
                    .collect()
            };
            let shape = [height, width, channels];
            check(&Buffer::from_slice(&device, &bytes, shape).unwrap(), &expand(&bytes), "u8");
            check(&Buffer::from_slice(&device, &floats, shape).unwrap(), &expand(&rounded), "f32");
        }
        let gray: Vec<u8> = (0..width * height).map(|n| (n % 256) as u8).collect();
        let wanted: Vec<u8> = gray.iter().flat_map(|&g| [g, g, g, 255]).collect();
        check(&Buffer::from_slice(&device, &gray, [height, width]).unwrap(), &wanted, "gray without channels");
        let pixels: Vec<u8> = (0..width * height * 4).map(|n| (n * 13 % 256) as u8).collect();
        surface.set_pixels(&pixels).unwrap();
        assert!(surface.snapshot().unwrap().rgba == wanted, "{device:?}: shown before it was presented");
        surface.present().unwrap();
        surface.present().unwrap();
        assert!(surface.snapshot().unwrap().rgba == pixels, "{device:?}: pixels of the host");
    }
}

#[test]
fn pictures_come_after_what_writes_them() {
    for device in devices() {
        let picture = Buffer::zeros(&device, DType::U8, [64, 64]).unwrap();
        let surface = Surface::offscreen(&device, 64, 64).unwrap();
        for level in 0..20 {
            // Not waited for.
            device.submit_with(Stage::generate("fill", &picture, [("value", level * 10)]), Lane::Background).unwrap();
            surface.set_buffer(&picture).unwrap();
            surface.present().unwrap();
            assert_eq!(
                surface.snapshot().unwrap().rgba[..4],
                [level * 10, level * 10, level * 10, 255].map(|x| x as u8)
            );
        }
    }
}

#[test]
fn sizes_change() {
    for device in devices() {
        let surface = Surface::offscreen(&device, 10, 10).unwrap();
        assert_eq!(surface.snapshot().unwrap().rgba, [0, 0, 0, 255].repeat(100), "begins black");
        surface.set_pixels(&[9; 400]).unwrap();
        surface.resize(3, 5).unwrap();
        surface.present().unwrap();
        assert_eq!(surface.size(), (3, 5));
        assert_eq!(surface.snapshot().unwrap().rgba, [0, 0, 0, 255].repeat(15), "black again");
        surface.set_pixels(&[7; 60]).unwrap();
        surface.present().unwrap();
        assert_eq!(surface.snapshot().unwrap().rgba, [7; 60]);
        for (width, height) in [(0, 5), (5, 0), (1 << 20, 5)] {
            assert_eq!(surface.resize(width, height).unwrap_err().code(), "invalid_size");
            assert_eq!(Surface::offscreen(&device, width, height).unwrap_err().code(), "invalid_size");
        }
        assert_eq!(surface.snapshot().unwrap().rgba, [7; 60], "as it was");
    }
}

#[test]
fn files_that_are_no_pictures_are_refused() {
    let other = Device::open("cpu").unwrap();
    for device in devices() {
        let surface = Surface::offscreen(&device, 8, 4).unwrap();
        let refused = |dtype: DType, shape: &[usize]| {
            let buffer = Buffer::zeros(&device, dtype, shape.to_vec()).unwrap();
            surface.set_buffer(&buffer).unwrap_err()
        };
        assert_eq!(refused(DType::S32, &[4, 8, 4]).code(), "not_a_picture");
        assert_eq!(refused(DType::U8, &[4, 8, 2]).code(), "not_a_picture");
        assert_eq!(refused(DType::U8, &[128]).code(), "not_a_picture");
        let other_size = refused(DType::U8, &[8, 4, 4]);
        assert_eq!(other_size.code(), "size_mismatch");
        assert_eq!(other_size.to_string(), "a picture of 4 x 8 pixels on a surface of 8 x 4: resize one of them first");
        assert_eq!(
            surface.set_pixels(&[0; 3]).unwrap_err().to_string(),
            "3 bytes of pixels: a surface of 8 x 4 takes 128 (four for each pixel, RGBA)"
        );
        let freed = Buffer::zeros(&device, DType::U8, [4, 8, 4]).unwrap();
        freed.free();
        assert_eq!(surface.set_buffer(&freed).unwrap_err().code(), "freed");
        let foreign = Buffer::zeros(&other, DType::U8, [4, 8, 4]).unwrap();
        assert_eq!(surface.set_buffer(&foreign).unwrap_err().code(), "foreign_buffer");
        let unwritten = Buffer::reserve(&device, DType::U8, [4, 8, 4]).unwrap();
        assert_eq!(surface.set_buffer(&unwritten).unwrap_err().code(), unwritten.read::<u8>().unwrap_err().code());
        // All that has left the device as it was.
        surface.set_pixels(&[5; 128]).unwrap();
        surface.present().unwrap();
        assert_eq!(surface.snapshot().unwrap().rgba, [5; 128]);
    }
}

#[test]
fn snapshots_are_png() {
    let device = Device::open("cpu").unwrap();
    let surface = Surface::offscreen(&device, 5, 3).unwrap();
    let pixels: Vec<u8> = (0..60).collect();
    surface.set_pixels(&pixels).unwrap();
    surface.present().unwrap();
    let mut picture = surface.snapshot().unwrap();
    let read = dala_image::decode(&picture.to_png().unwrap(), &dala_image::Limits::default()).unwrap();
    assert_eq!((read.width, read.height, read.samples.into_levels()), (5, 3, pixels));
    picture.rgba.pop();
    assert!(matches!(picture.to_png(), Err(SurfaceError::PixelBytes { .. })));
}

#[test]
fn surfaces_give_back_what_they_take() {
    for device in devices() {
        let live = device.live_bytes();
        for _ in 0..50 {
            let surface = Surface::offscreen(&device, 512, 512).unwrap();
            surface.set_pixels(&vec![1; 512 * 512 * 4]).unwrap();
            surface.present().unwrap();
            surface.snapshot().unwrap();
        }
        assert_eq!(device.live_bytes(), live);
    }
}

#[test]
#[cfg(feature = "window")]
fn without_a_display_there_is_no_window() {
    if ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some()) {
        println!("not tried: there is a display here");
        return;
    }
    let device = Device::open("cpu").unwrap();
    for _ in 0..2 {
        let error = Surface::window(&device, 8, 8, "nowhere").unwrap_err();
        assert_eq!(error.code(), "no_window");
        println!("{error}");
    }
}
