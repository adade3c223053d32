//! Photos from files to the names of what is in them, beside OpenCV and ONNX Runtime.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use dala_compute::Device;
use dala_model::imagenet_classes;

use super::batch::{Temporary, write_photos};
use super::peer::Peer;
use super::report::{Row, milliseconds};
use crate::{batch, classify, onnx};

const PYTHON: &str = include_str!("../../../../benches/peers/classify_photos.py");
const PHOTOS: usize = 200;
/// Pictures that photos are made of, where there are none.
const MADE_UP: usize = 8;
const ROUNDS: usize = 3;
/// Of so many photos the best class is to be the same: they are not made smaller in the same way.
const SAME: f64 = 0.85;

/// The photos are variations of the pictures in the folder `DALA_PHOTOS`, or of some that are made up.
pub(super) fn measure(device: &Device) -> Result<Vec<Row>> {
    let model = onnx::installed("mobilenet_v2.onnx")?;
    let folder = Temporary(env::temp_dir().join(format!("dala-photos-{}", std::process::id())));
    let [pictures, photos] = ["pictures", "photos"].map(|name| folder.0.join(name));
    fs::create_dir_all(&photos)?;
    let given = env::var_os("DALA_PHOTOS").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let pictures = match given.clone() {
        Some(pictures) => pictures,
        None => {
            fs::create_dir_all(&pictures)?;
            write_photos(&pictures, MADE_UP)?;
            pictures
        }
    };
    let classes = folder.0.join("classes.txt");
    fs::write(&classes, imagenet_classes().collect::<Vec<_>>().join("\n"))?;
    let text = |path: &Path| path.to_str().map(str::to_owned).context("a path is no text");
    let arguments =
        [text(&pictures)?, text(&photos)?, PHOTOS.to_string(), text(&model)?, text(&classes)?, "2".to_owned()];
    let mut peer = Peer::start(PYTHON, &arguments.each_ref().map(String::as_str), "OpenCV and ONNX Runtime")?;
    let files = batch::expand(&[&photos])?;
    classify::measured(device, &model, |names_of| {
        let mut best = [f64::INFINITY; 3];
        let mut names = Vec::new();
        // Builds kernels.
        names_of(files.get(..MADE_UP).unwrap_or_default())?;
        for _ in 0..ROUNDS {
            let ours = milliseconds(|| {
                names = names_of(&files)?;
                Ok(())
            })?;
            let times = [ours, peer.time("one")?, peer.time("pooled")?];
            best.iter_mut().zip(times).for_each(|(best, time)| *best = best.min(time));
        }
        if given.is_some() {
            same(&names, &fs::read_to_string(photos.join("names.txt"))?)?;
        }
        let [ours, one, pooled] = best;
        let row = |base: &str, theirs| Row::new(format!("classify-{PHOTOS}"), base, (ours, theirs));
        Ok(vec![row("OpenCV and ONNX Runtime, 2 threads", one), row("the same, photos read by 2 threads", pooled)])
    })
}

/// Times of different answers say nothing. What is made up is nothing that a network knows.
fn same(ours: &[String], theirs: &str) -> Result<()> {
    let agree = ours.iter().zip(theirs.lines()).filter(|(ours, theirs)| ours == theirs).count();
    if (agree as f64) < SAME * ours.len() as f64 || ours.is_empty() {
        bail!("only {agree} of {} photos have the same class as with OpenCV and ONNX Runtime", ours.len());
    }
    Ok(())
}
