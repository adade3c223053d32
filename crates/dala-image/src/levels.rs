//! Levels of pixels, and how they lie.

/// A float from 0 to 1 as the nearest level of 8 bits, half to even as kernels round; NaN is 0.
pub fn level(value: f32) -> u8 {
    (value.clamp(0.0, 1.0) * 255.0).round_ties_even() as u8
}

/// A sample of 16 bits as the nearest level of 8 bits: 65535 is 255. None lies halfway.
pub fn level_of_16(value: u16) -> u8 {
    ((u32::from(value) + 128) / 257) as u8
}

/// Floats from 0 to 1 as levels.
pub fn levels(values: &[f32]) -> Vec<u8> {
    values.iter().copied().map(level).collect()
}

/// The same of floats as they lie in memory, little-endian.
pub fn levels_of_bytes(floats: &[u8]) -> Vec<u8> {
    floats.as_chunks::<4>().0.iter().map(|bytes| level(f32::from_le_bytes(*bytes))).collect()
}

/// Levels of 1, 3 or 4 channels as RGBA: gray is repeated, and what has no alpha is opaque.
pub fn rgba(levels: Vec<u8>, channels: usize) -> Vec<u8> {
    match channels {
        4 => levels,
        3 => levels.as_chunks::<3>().0.iter().flat_map(|&[red, green, blue]| [red, green, blue, 255]).collect(),
        _ => levels.iter().flat_map(|&gray| [gray, gray, gray, 255]).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;

    #[test]
    fn floats_become_the_nearest_level() {
        let floats = [-1.0, 0.0, 0.0019, 0.002, 0.5, 1.0, 7.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
        let expected = [0, 0, 0, 1, 128, 255, 255, 0, 255, 0];
        assert_eq!(levels(&floats), expected);
        let bytes: Vec<u8> = floats.iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(levels_of_bytes(&bytes), expected);
        // Half to even: 0.5 and 2.5 levels go down, 1.5 goes up.
        assert_eq!([0.5f32, 1.5, 2.5].map(|level| level / 255.0).map(level), [0, 2, 2]);
        for exact in 0..=255u8 {
            assert_eq!(level(f32::from(exact) / 255.0), exact);
        }
    }

    #[test]
    fn sixteen_bits_become_the_nearest_level() {
        for value in 0..=u16::MAX {
            let nearest = (f64::from(value) / 257.0).round();
            assert_eq!(f64::from(level_of_16(value)), nearest, "{value}");
        }
    }

    #[test]
    fn every_layout_becomes_rgba() {
        assert_eq!(rgba(vec![7, 9], 1), [7, 7, 7, 255, 9, 9, 9, 255]);
        assert_eq!(rgba(vec![1, 2, 3, 4, 5, 6], 3), [1, 2, 3, 255, 4, 5, 6, 255]);
        assert_eq!(rgba(vec![1, 2, 3, 4], 4), [1, 2, 3, 4]);
    }

    fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }

    /// Surfaces, the command and the NIF once had this rounding each, and could have come to differ.
    #[test]
    fn levels_are_rounded_in_one_place_only() {
        let project = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        let mut files = Vec::new();
        for folder in
            ["dala-cli", "dala-compute", "dala-model", "dala-surface", "dala-image", "dala-recipes", "dala-serve"]
        {
            for part in ["src", "examples"] {
                let folder = project.join("crates").join(folder).join(part);
                if folder.is_dir() {
                    sources(&folder, &mut files);
                }
            }
        }
        // The package may be without its Elixir side.
        let nif = project.join("elixir/native/dala_nif/src");
        if nif.is_dir() {
            sources(&nif, &mut files);
        }
        let rounds = |text: &str| text.contains("255.0).round") || text.contains("image::codecs");
        let own = |path: &PathBuf| path.components().any(|part| part.as_os_str() == "dala-image");
        let others: Vec<&PathBuf> =
            files.iter().filter(|path| !own(path) && rounds(&fs::read_to_string(path).unwrap())).collect();
        assert!(files.len() > 50 && others.is_empty(), "{others:?} of {}", files.len());
    }
}
