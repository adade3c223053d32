//! Files, pictures and golden numbers for tests.

mod typed;

use std::path::{Path, PathBuf};

use dala_compute::{Buffer, Device};
use dala_spec::Data;
use safetensors::SafeTensors;

/// A file of the tests' data.
pub(crate) fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// A file that `scripts/get-models` made.
pub(crate) fn model_file(name: &str) -> PathBuf {
    let folder = std::env::var_os("DALA_MODELS").map(PathBuf::from).unwrap_or_else(|| {
        let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        home.join(".cache/dala-compute/models")
    });
    let file = folder.join(name);
    assert!(file.exists(), "{} is missing: run scripts/get-models first", file.display());
    file
}

/// The devices that tests run on.
pub(crate) fn devices() -> Vec<String> {
    match std::env::var("DALA_TEST_DEVICES") {
        Ok(names) => names.split(',').map(str::to_owned).collect(),
        Err(_) => ["cpu", "vulkan", "gl"].map(str::to_owned).to_vec(),
    }
}

/// Numbers that another program computed.
pub(crate) struct Golden(Vec<u8>);

impl Golden {
    /// A file of the tests' data, or any other by its whole path.
    pub(crate) fn open(name: impl AsRef<Path>) -> Golden {
        Golden(std::fs::read(data("").join(name)).unwrap())
    }

    /// A tensor's elements, of its own type, and shape; nothing if it is not in the file, or of a type that no test has.
    pub(crate) fn tensor(&self, name: &str) -> Option<(Data, Vec<usize>)> {
        let file = SafeTensors::deserialize(&self.0).unwrap();
        let tensor = file.tensor(name).ok()?;
        typed::elements(&tensor).ok()
    }

    /// A tensor's elements and shape.
    pub(crate) fn floats(&self, name: &str) -> (Vec<f32>, Vec<usize>) {
        let file = SafeTensors::deserialize(&self.0).unwrap();
        let tensor = file.tensor(name).unwrap();
        let floats = tensor.data().chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()));
        (floats.collect(), tensor.shape().to_vec())
    }
}

/// Fails unless all numbers are within `allowed`.
pub(crate) fn close(what: &str, actual: &[f32], expected: &[f32], allowed: f32) {
    assert_eq!(actual.len(), expected.len(), "{what}");
    let away = actual.iter().zip(expected).map(|(a, b)| (a - b).abs());
    let worst = away.fold(0.0, |worst: f32, away| if away > worst || away.is_nan() { away } else { worst });
    println!("{what}: at most {worst:e} away");
    assert!(worst <= allowed, "{what}: {worst} away, {allowed} allowed");
}

/// A picture of three channels.
pub(crate) struct Picture {
    size: [usize; 2],
    pixels: Vec<u8>,
}

pub(crate) fn picture(name: &str) -> Picture {
    let picture = dala_image::Picture::open(data(name)).unwrap();
    let size = [picture.height, picture.width];
    let pixels = picture.into_rgba().chunks(4).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect();
    Picture { size, pixels }
}

impl Picture {
    /// As the network wants it, computed on the host.
    pub(crate) fn normalized(&self) -> Vec<f32> {
        let (mean, std) = ([0.485f32, 0.456, 0.406], [0.229f32, 0.224, 0.225]);
        let channel = |channel: usize| {
            let own = self.pixels.iter().skip(channel).step_by(3);
            own.map(move |value| (f32::from(*value) / 255.0 - mean[channel]) / std[channel])
        };
        (0..3).flat_map(channel).collect()
    }

    pub(crate) fn upload(&self, device: &Device) -> Buffer {
        Buffer::from_slice(device, &self.pixels, [self.size[0], self.size[1], 3]).unwrap()
    }
}

/// The photos, and the class that each must be taken for.
pub(crate) fn photos() -> Vec<(String, usize)> {
    [("cat_chelsea.jpg", 285), ("espresso_coffee.jpg", 967), ("tripod_camera.png", 872)]
        .map(|(name, top)| (name.to_owned(), top))
        .to_vec()
}
