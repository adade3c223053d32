//! Files for tests.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use image::{DynamicImage, Rgb, RgbImage};

use super::{Run, dala};

/// A folder that goes away with the test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("dala-cli-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// The path of a file in it.
    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// A file with this text.
    pub(crate) fn file(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        fs::write(self.path(name), text).unwrap();
        self.path(name)
    }

    /// A picture in colour, 5 high and 7 wide.
    pub(crate) fn photo(&self, name: &str) -> String {
        let pixel = |x: u32, y: u32| Rgb([(x * 30) as u8, (y * 50) as u8, 200 - (x * y) as u8]);
        DynamicImage::from(RgbImage::from_fn(7, 5, pixel)).save(self.path(name)).unwrap();
        self.path(name)
    }

    pub(crate) fn open(&self, name: &str) -> DynamicImage {
        image::open(self.path(name)).unwrap()
    }

    /// Runs the command on the CPU device; what it says about this folder says `.` instead.
    pub(crate) fn on_cpu(&self, arguments: &[&str]) -> Run {
        self.short(dala(&[arguments, &["--device", "cpu"]].concat()))
    }

    pub(crate) fn short(&self, run: Run) -> Run {
        let folder = self.0.to_str().unwrap();
        let short = |text: String| text.replace(folder, ".");
        Run { code: run.code, stdout: short(run.stdout), stderr: short(run.stderr) }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that stays does not make a test fail.
        let _ = fs::remove_dir_all(&self.0);
    }
}
