//! What is written is read again, by us and by decoders that are not ours.

use super::*;
use crate::testing::{file, read};

/// Levels without a pattern, as `of` makes samples of them.
fn picture(height: usize, width: usize, channels: usize, of: fn(Vec<u8>) -> Samples) -> Picture {
    let levels = (0..height * width * channels).map(|n| (n * n * 7 + n * 31) as u8).collect();
    Picture::new(height, width, channels, of(levels)).unwrap()
}

fn deep(levels: Vec<u8>) -> Samples {
    Samples::U16(levels.into_iter().map(|level| u16::from(level) * 200 + 77).collect())
}

fn floats(levels: Vec<u8>) -> Samples {
    Samples::F32(levels.into_iter().map(|level| f32::from(level) / 255.0).collect())
}

const LOSSLESS: [Format; 6] = [Format::Png, Format::WebP, Format::Tiff, Format::Bmp, Format::Pnm, Format::Npy];

/// Of gray pictures these formats make RGB.
fn forgets_gray(format: Format) -> bool {
    matches!(format, Format::WebP | Format::Bmp)
}

#[test]
fn what_is_written_without_loss_is_read_as_it_was() {
    for format in LOSSLESS {
        for channels in [1, 3, 4] {
            for (height, width) in [(5, 7), (1, 1), (3, 64)] {
                let picture = picture(height, width, channels, Samples::U8);
                let encoded = picture.encode(format).unwrap();
                assert_eq!((Format::of_bytes(&encoded.bytes), encoded.dropped), (Some(format), None));
                let mut again = read(&encoded.bytes).unwrap();
                if channels == 1 && forgets_gray(format) {
                    let levels = again.samples.into_levels();
                    let (channels, samples) = (1, Samples::U8(levels.chunks(3).map(|pixel| pixel[0]).collect()));
                    again = Picture { channels, samples, ..again };
                }
                assert_eq!(again, picture, "{format} of {height} x {width} x {channels}");
            }
        }
    }
}

#[test]
fn sixteen_bits_stay_where_the_format_has_them() {
    for format in LOSSLESS {
        let picture = picture(4, 3, 3, deep);
        let again = read(&picture.encode(format).unwrap().bytes).unwrap();
        match format {
            Format::WebP | Format::Bmp => assert_eq!(again.samples.into_levels(), *picture.samples.levels()),
            _ => assert_eq!(again, picture, "{format}"),
        }
    }
}

#[test]
fn floats_stay_floats_in_arrays_and_become_levels_elsewhere() {
    for format in LOSSLESS {
        let picture = picture(4, 3, 4, floats);
        let again = read(&picture.encode(format).unwrap().bytes).unwrap();
        match format {
            Format::Npy => assert_eq!(again, picture),
            _ => assert_eq!(again.samples, Samples::U8(picture.samples.levels().into_owned()), "{format}"),
        }
    }
}

#[test]
fn jpeg_is_read_with_what_it_may_lose() {
    for (channels, of) in [(1, Samples::U8 as fn(Vec<u8>) -> Samples), (3, floats), (4, Samples::U8)] {
        let levels: Vec<u8> = (0..16 * 24 * channels).map(|n| (n / channels * 255 / (16 * 24)) as u8).collect();
        let picture = Picture::new(16, 24, channels, of(levels.clone())).unwrap();
        let again = read(&picture.encode(Format::Jpeg).unwrap().bytes).unwrap();
        assert_eq!((again.height, again.width, again.channels), (16, 24, channels.min(3)));
        let kept = levels.chunks(channels).map(|pixel| pixel[0]);
        let read = again.samples.into_levels();
        let apart = kept.zip(read.chunks(channels.min(3))).map(|(before, after)| before.abs_diff(after[0])).max();
        assert!(apart <= Some(12), "{channels} channels: {apart:?} levels off");
    }
}

/// A profile for these colours.
fn profile(colours: &[u8; 4], len: usize) -> Profile {
    let mut bytes: Vec<u8> = (0..len).map(|n| (n * 13) as u8).collect();
    bytes[16..20].copy_from_slice(colours);
    Profile::new(bytes).unwrap()
}

#[test]
fn profiles_stay_where_the_format_has_a_place() {
    // The last does not fit into one segment of a JPEG file.
    for len in [128, 600, 150_000] {
        for (colours, channels) in [(b"RGB ", 3), (b"RGB ", 4), (b"GRAY", 1)] {
            let mut picture = picture(4, 3, channels, Samples::U8);
            picture.profile = Some(profile(colours, len));
            for format in Format::ALL {
                let encoded = picture.encode(format).unwrap();
                match format {
                    Format::Jpeg | Format::Png | Format::WebP | Format::Tiff => {
                        let again = read(&encoded.bytes).unwrap();
                        assert_eq!(again.profile, picture.profile, "{format}, {len} bytes");
                        assert_eq!(encoded.dropped, None);
                    }
                    _ => assert_eq!(encoded.dropped, Some(Dropped::NoPlace { format })),
                }
            }
        }
    }
}

#[test]
fn profiles_for_other_colours_are_left_out() {
    for (colours, channels, told) in [
        (b"RGB ", 1, "it is for RGB, and the result is gray"),
        (b"GRAY", 3, "it is for GRAY, and the result is RGB"),
        (b"CMYK", 3, "it is for CMYK, and the result is RGB"),
    ] {
        let mut picture = picture(4, 3, channels, Samples::U8);
        picture.profile = Some(profile(colours, 200));
        for format in [Format::Jpeg, Format::Png, Format::WebP, Format::Tiff] {
            let encoded = picture.encode(format).unwrap();
            assert_eq!(encoded.dropped.unwrap().to_string(), told);
            assert_eq!(read(&encoded.bytes).unwrap().profile, None);
        }
        assert_eq!(picture.encode(Format::Bmp).unwrap().dropped.unwrap().to_string(), "BMP files hold none");
    }
}

#[test]
fn a_profile_goes_from_file_to_file() {
    for from in ["rgb.png", "rgb.webp", "rgb.tiff", "quarters.jpg"] {
        let picture = read(&file(from)).unwrap();
        for to in [Format::Jpeg, Format::Png, Format::WebP, Format::Tiff] {
            let again = read(&picture.encode(to).unwrap().bytes).unwrap();
            assert!(again.profile.is_some() && again.profile == picture.profile, "{from} to {to}");
        }
    }
}

#[test]
fn the_quick_way_to_png_is_the_same() {
    for channels in [1, 3, 4] {
        let picture = picture(5, 7, channels, Samples::U8);
        let bytes = png(&picture.samples.levels(), 5, 7, channels).unwrap();
        assert_eq!(bytes, picture.encode(Format::Png).unwrap().bytes);
    }
    assert_eq!(png(&[0; 5], 2, 3, 1).unwrap_err().code(), "no_picture");
}

#[test]
fn what_does_not_fit_is_refused() {
    let wide = Picture::new(1, 70_000, 1, Samples::U8(vec![0; 70_000])).unwrap();
    for (format, most) in [(Format::Jpeg, 65535), (Format::WebP, 16384)] {
        let error = wide.encode(format).unwrap_err();
        assert_eq!(error.code(), "too_large");
        assert!(error.to_string().contains(&format!("at most {most} rows and columns")), "{error}");
    }
    for format in [Format::Png, Format::Tiff, Format::Pnm, Format::Npy] {
        assert_eq!(read(&wide.encode(format).unwrap().bytes).unwrap(), wide, "{format}");
    }
    // Whatever the fields were changed to.
    let broken = Picture { height: 2, ..wide };
    for format in Format::ALL {
        assert_eq!(broken.encode(format).unwrap_err().code(), "no_picture");
    }
}

#[test]
fn files_have_the_format_of_their_name() {
    let path = |name: &str| std::env::temp_dir().join(format!("dala-image-{}-{name}", std::process::id()));
    let picture = picture(3, 4, 3, Samples::U8);
    for name in ["a.tif", "a.pam"] {
        let path = path(name);
        picture.save(&path).unwrap();
        assert_eq!(Picture::open(&path).unwrap(), picture);
        std::fs::remove_file(&path).unwrap();
    }
    assert_eq!(picture.save(path("a.gif")).unwrap_err().code(), "unknown_format");
    let missing = Picture::open(path("no.png")).unwrap_err();
    assert!(matches!(missing, ImageError::Io { kind: std::io::ErrorKind::NotFound, .. }), "{missing}");
}
