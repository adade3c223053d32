//! Files that Pillow and NumPy wrote, whole, cut off, damaged and lying.

use crate::testing::{FILES, file, largest_piece, read};
use crate::{Format, ImageError, Limits, Samples, decode, read_bytes};

/// The colours of the small pictures, as `make.py` has them.
fn small() -> Vec<u8> {
    let pixel = |x: usize, y: usize| [10 + 40 * x, 5 + 50 * y, 200 - 6 * x * y].map(|level| level as u8);
    (0..3).flat_map(|y| (0..4).flat_map(move |x| pixel(x, y))).collect()
}

/// Sixteen bits, as `make.py` has them.
const DEEP: [u16; 12] = [0, 100, 128, 129, 255, 257, 384, 386, 4660, 32768, 65406, 65535];

/// A quarter turn: what was at the bottom left is at the top left.
fn turned<T: Copy>(samples: &[T], height: usize, width: usize, channels: usize) -> Vec<T> {
    let mut turned = Vec::new();
    for x in 0..width {
        for y in (0..height).rev() {
            turned.extend_from_slice(&samples[(y * width + x) * channels..][..channels]);
        }
    }
    turned
}

#[test]
fn every_lossless_file_is_read_exactly() {
    for name in ["rgb.png", "palette.png", "rgb.tiff", "deflate.tiff", "rgb.bmp", "palette.bmp", "rgb.ppm"] {
        let picture = read(&file(name)).unwrap();
        assert_eq!((picture.height, picture.width, picture.channels), (3, 4, 3), "{name}");
        assert_eq!(picture.samples, Samples::U8(small()), "{name}");
    }
    let rgba: Vec<u8> = small().chunks(3).zip(0..).flat_map(|(rgb, n)| [rgb[0], rgb[1], rgb[2], n * 20]).collect();
    for name in ["rgba.png", "rgba.webp"] {
        let picture = read(&file(name)).unwrap();
        assert_eq!((picture.height, picture.width, picture.channels), (3, 4, 4), "{name}");
        assert_eq!(picture.samples, Samples::U8(rgba.clone()), "{name}");
    }
    let bits = read(&file("bits.pbm")).unwrap();
    assert_eq!((bits.height, bits.width, bits.channels), (2, 3, 1));
    assert_eq!(bits.samples, Samples::U8(vec![255, 0, 255, 0, 255, 255]));
}

#[test]
fn sixteen_bits_are_read_as_sixteen_bits() {
    let flat = Samples::U16(DEEP.to_vec());
    for name in ["gray16.tiff", "gray16.pgm"] {
        let picture = read(&file(name)).unwrap();
        assert_eq!((picture.channels, &picture.samples), (1, &flat), "{name}");
    }
    // Turned, as its camera says.
    let picture = read(&file("gray16.png")).unwrap();
    assert_eq!((picture.height, picture.width, picture.channels), (4, 3, 1));
    assert_eq!(picture.samples, Samples::U16(turned(&DEEP, 3, 4, 1)));
    // To the nearest level, not to the upper byte: 255 of 65535 is 1, and 65406 is 254.
    let picture = read(&file("rgb16.png")).unwrap();
    assert_eq!((picture.height, picture.width, picture.channels), (3, 4, 3));
    let red: Vec<u8> = picture.samples.into_levels().chunks(3).map(|pixel| pixel[0]).collect();
    assert_eq!(red, [0, 0, 0, 1, 1, 1, 1, 2, 18, 128, 254, 255]);
}

/// Red, green, blue or white, with what JPEG may lose.
fn colour(pixel: &[u8]) -> char {
    let near = |colour: [u8; 3]| pixel.iter().zip(colour).all(|(a, b)| a.abs_diff(b) < 40);
    let colours = [('R', [255, 0, 0]), ('G', [0, 255, 0]), ('B', [0, 0, 255]), ('W', [255; 3])];
    colours.into_iter().find(|(_, colour)| near(*colour)).map_or('?', |(name, _)| name)
}

/// The size and the four corners of a picture.
fn corners(bytes: &[u8]) -> (usize, usize, String) {
    let picture = read(bytes).unwrap();
    let (height, width) = (picture.height, picture.width);
    let levels = picture.samples.into_levels();
    let at = |(x, y): (usize, usize)| colour(&levels[(y * width + x) * 3..][..3]);
    let corners = [(0, 0), (width - 1, 0), (0, height - 1), (width - 1, height - 1)];
    (width, height, corners.map(at).iter().collect())
}

#[test]
fn lossy_files_are_read() {
    for name in ["quarters.jpg", "progressive.jpg", "cmyk.jpg", "quarters.webp"] {
        assert_eq!(corners(&file(name)), (32, 16, "RGBW".to_owned()), "{name}");
    }
    assert_eq!(corners(&file("subsampled.jpg")), (64, 32, "RGBW".to_owned()));
    let gray = read(&file("gray.jpg")).unwrap();
    assert_eq!((gray.height, gray.width, gray.channels), (16, 32, 1));
    let levels = gray.samples.into_levels();
    for (at, expected) in [(0, 76u8), (31, 150), (15 * 32, 29), (15 * 32 + 31, 255)] {
        assert!(levels[at].abs_diff(expected) < 3, "{} at {at}", levels[at]);
    }
}

/// What Pillow shows of each orientation.
#[test]
fn photos_are_turned_as_their_camera_says() {
    let photo = file("quarters.jpg");
    // Tag 0x0112, a short, once: then its value.
    let tag = [0x01, 0x12, 0, 3, 0, 0, 0, 1];
    let at = photo.windows(8).position(|bytes| bytes == tag).unwrap() + 9;
    assert_eq!(photo[at], 1);
    for (orientation, width, height, expected) in [
        (1, 32, 16, "RGBW"),
        (2, 32, 16, "GRWB"),
        (3, 32, 16, "WBGR"),
        (4, 32, 16, "BWRG"),
        (5, 16, 32, "RBGW"),
        (6, 16, 32, "BRWG"),
        (7, 16, 32, "WGBR"),
        (8, 16, 32, "GWRB"),
        // No such orientation.
        (9, 32, 16, "RGBW"),
    ] {
        let mut photo = photo.clone();
        photo[at] = orientation;
        assert_eq!(corners(&photo), (width, height, expected.to_owned()), "orientation {orientation}");
    }
    // In the other formats that have one.
    for name in ["rgb.webp", "lzw.tiff"] {
        let picture = read(&file(name)).unwrap();
        assert_eq!((picture.height, picture.width), (4, 3), "{name}");
        assert_eq!(picture.samples, Samples::U8(turned(&small(), 3, 4, 3)), "{name}");
    }
}

#[test]
fn profiles_are_found() {
    for (name, bytes) in FILES {
        let profile = read(bytes).unwrap().profile;
        match *name {
            "rgb.png" | "rgb.webp" | "rgb.tiff" | "quarters.jpg" => {
                let profile = profile.unwrap();
                assert_eq!((profile.bytes().len(), profile.colours().as_str()), (132, "RGB"), "{name}");
            }
            _ => assert_eq!(profile, None, "{name}"),
        }
    }
}

/// Byte by byte: no decoder may make up what is missing.
#[test]
fn a_file_that_is_cut_off_is_an_error_wherever_it_is_cut() {
    for (name, bytes) in FILES {
        read(bytes).unwrap();
        for len in 0..bytes.len() {
            let Err(error) = read(&bytes[..len]) else { panic!("{name} is read after {len} of {} bytes", bytes.len()) };
            let expected = match error.code() {
                "unknown_format" => len < 12,
                code => ["truncated", "malformed", "unsupported_picture"].contains(&code),
            };
            assert!(expected, "{name} after {len} bytes: {error}");
        }
        // What is said of the usual case: half of a download.
        let half = read(&bytes[..bytes.len() / 2]).unwrap_err();
        assert_eq!(half.code(), "truncated", "{name}: {half}");
    }
    let text = b"P3 2 2 255\n1 2 3 4 5 6\n7 8 9 10 11 12\n";
    assert!(read(text).is_ok() && read(&text[..text.len() / 2]).is_err());
}

#[test]
fn the_end_of_a_thumbnail_is_not_the_end_of_its_photo() {
    let photo = file("quarters.jpg");
    let thumbnail = [0xff, 0xe1, 0, 8, b't', b'h', 0xff, 0xd9, b'u', b'm'];
    let photo = [&photo[..2], &thumbnail, &photo[2..]].concat();
    assert!(read(&photo).is_ok());
    assert_eq!(read(&photo[..photo.len() - 2]).unwrap_err().code(), "truncated");
    // A photo may be followed by something else, as by a second photo.
    assert!(read(&[&photo[..], b"and more"].concat()).is_ok());
}

#[test]
fn damaged_pixels_are_an_error_and_not_gray() {
    for name in ["quarters.jpg", "progressive.jpg"] {
        let mut photo = file(name);
        let scan = photo.windows(2).position(|pair| pair == [0xff, 0xda]).unwrap();
        let start = scan + 2 + usize::from(photo[scan + 3]);
        // Ones are no code of any table.
        for pair in photo[start..start + 8].chunks_mut(2) {
            pair.copy_from_slice(&[0xff, 0]);
        }
        let error = read(&photo).unwrap_err();
        assert_eq!(error.code(), "malformed", "{name}: {error}");
    }
    let mut png = file("rgb.png");
    let at = png.windows(4).position(|name| name == b"IDAT").unwrap() + 10;
    png[at] ^= 0x55;
    assert_eq!(read(&png).unwrap_err().code(), "malformed");
}

/// A checksum as PNG has it.
fn crc(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 };
    !bytes.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}

/// Small files that say that they are enormous, with all that decoders look at before the pixels.
fn enormous() -> Vec<(&'static str, Vec<u8>)> {
    let mut files = Vec::new();
    for name in ["quarters.jpg", "progressive.jpg", "gray.jpg"] {
        let mut jpeg = file(name);
        let frame = jpeg.windows(4).position(|part| matches!(part, [0xff, 0xc0 | 0xc2, 0, 11 | 17])).unwrap();
        jpeg[frame + 5..frame + 9].copy_from_slice(&[0xff; 4]);
        files.push((name, jpeg));
    }
    // As wide as can be: already a row would take gigabytes.
    for (width, height) in [(60_000u32, 60_000u32), (i32::MAX as u32, 1), (i32::MAX as u32, i32::MAX as u32)] {
        let mut png = file("rgb16.png");
        png[16..20].copy_from_slice(&width.to_be_bytes());
        png[20..24].copy_from_slice(&height.to_be_bytes());
        let checksum = crc(&png[12..29]);
        png[29..33].copy_from_slice(&checksum.to_be_bytes());
        files.push(("PNG", png));
    }
    let mut webp = file("rgb.webp");
    assert_eq!(&webp[12..16], b"VP8X");
    webp[24..30].copy_from_slice(&[0xff, 0xff, 0xff, 0xfe, 0, 0]);
    files.push(("WebP", webp));
    for name in ["rgb.tiff", "deflate.tiff", "gray16.tiff"] {
        let mut tiff = file(name);
        let directory = u32::from_le_bytes(tiff[4..8].try_into().unwrap()) as usize;
        for entry in (directory + 2..).step_by(12).take(tiff[directory].into()) {
            let tag = u16::from_le_bytes([tiff[entry], tiff[entry + 1]]);
            if tag == 256 || tag == 257 || tag == 278 {
                // A long, once.
                tiff[entry + 2..entry + 8].copy_from_slice(&[4, 0, 1, 0, 0, 0]);
                tiff[entry + 8..entry + 12].copy_from_slice(&4_000_000u32.to_le_bytes());
            }
        }
        files.push((name, tiff));
    }
    for name in ["rgb.bmp", "palette.bmp"] {
        let mut bmp = file(name);
        bmp[18..22].copy_from_slice(&65535u32.to_le_bytes());
        bmp[22..26].copy_from_slice(&65535u32.to_le_bytes());
        files.push((name, bmp));
    }
    files.push(("PPM", b"P6\n100000 100000\n255\n123".to_vec()));
    files.push(("PGM", b"P5 4000000000 4000000000 255\n1".to_vec()));
    files.push(("PBM", b"P4 4000000000 1000000000\n1".to_vec()));
    let pam = "P7\nWIDTH 70000\nHEIGHT 70000\nDEPTH 4\nMAXVAL 65535\nTUPLTYPE RGB_ALPHA\nENDHDR\n";
    files.push(("PAM", pam.as_bytes().to_vec()));
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 99999999999, 4), }";
    let npy = [b"\x93NUMPY\x01\0", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), &[0; 16]].concat();
    files.push(("NPY", npy));
    files
}

#[test]
fn enormous_sizes_are_refused_before_memory_is_taken() {
    let mut formats: Vec<Format> = Vec::new();
    for (name, bytes) in enormous() {
        assert!(bytes.len() < 2000, "{name}");
        let (result, piece) = largest_piece(|| read(&bytes));
        let error = result.unwrap_err();
        assert_eq!(error.code(), "too_large", "{name}: {error}");
        assert!(piece < 300_000, "{name}: {piece} bytes at once");
        formats.extend(Format::of_bytes(&bytes));
    }
    for format in Format::ALL.into_iter().filter(|format| *format != Format::Raw) {
        assert!(formats.contains(&format), "{format}");
    }
}

#[test]
fn limits_are_those_of_the_caller() {
    for (name, bytes) in FILES {
        let picture = read(bytes).unwrap();
        let pixels = (picture.height * picture.width) as u64;
        assert!(decode(bytes, &Limits::pixels(pixels)).is_ok(), "{name}");
        let error = decode(bytes, &Limits::pixels(pixels - 1)).unwrap_err();
        assert!(matches!(error, ImageError::TooManyPixels { .. }), "{name}: {error}");
        let size = (picture.samples.len() * picture.samples.kind().size_bytes()) as u64;
        let limits = Limits { pixels: u64::MAX, bytes: size - 1 };
        let error = decode(bytes, &limits).unwrap_err();
        assert!(matches!(error, ImageError::TooManyBytes { .. }), "{name}: {error}");
    }
}

#[test]
fn lengths_of_parts_take_no_memory() {
    // A profile of 4 GB at the end of a file of some bytes: a decoder that finds the picture before it would make room for it.
    let mut webp = file("rgb.webp");
    let at = webp.windows(4).position(|name| name == b"ICCP").unwrap();
    let len = u32::from_le_bytes(*webp[at + 4..].first_chunk().unwrap()) as usize;
    let mut profile: Vec<u8> = webp.drain(at..at + 8 + len.next_multiple_of(2)).collect();
    profile[4..8].copy_from_slice(&[0xf0, 0xff, 0xff, 0xff]);
    webp.append(&mut profile);
    let (result, piece) = largest_piece(|| read(&webp));
    assert_eq!(result.unwrap_err().code(), "malformed");
    assert!(piece < 300_000, "{piece} bytes at once");
    let mut png = file("rgb.png");
    let at = png.windows(4).position(|name| name == b"IDAT").unwrap() - 4;
    png[at..at + 4].copy_from_slice(&[0x7f, 0xff, 0xff, 0xff]);
    let (result, piece) = largest_piece(|| read(&png));
    assert_eq!(result.unwrap_err().code(), "truncated");
    assert!(piece < 300_000, "{piece} bytes at once");
}

/// No byte that is changed may end the process, or be worse than an error.
#[test]
fn any_changed_byte_is_a_picture_or_an_error() {
    let limits = Limits::pixels(100_000);
    let mut errors = 0;
    for (_, bytes) in FILES {
        for at in 0..bytes.len() {
            for change in [0x01, 0x80, 0xff] {
                let mut bytes = bytes.to_vec();
                bytes[at] ^= change;
                errors += usize::from(decode(&bytes, &limits).is_err());
            }
        }
    }
    assert!(errors > 1000, "{errors}");
}

#[test]
fn endless_input_ends() {
    let limits = Limits { pixels: 10, bytes: 10 };
    let error = read_bytes(std::io::repeat(0), &limits).unwrap_err();
    assert!(matches!(error, ImageError::FileTooLarge { max_bytes } if max_bytes == limits.file_bytes()), "{error}");
    assert_eq!(read_bytes(&b"abc"[..], &limits).unwrap(), b"abc");
}
