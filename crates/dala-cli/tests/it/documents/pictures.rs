//! The pictures of the documents are what `scripts/make-pictures` makes of the code as it is.

use std::fs;
use std::process::Command;

use super::project;
use crate::folder::Folder;

const STALE: &str = "run scripts/make-pictures and look at what changed";

#[test]
fn pictures_are_not_stale() {
    let folder = Folder::new();
    let output = Command::new(project().join("scripts/make-pictures"))
        .arg(folder.path("."))
        .env("DALA", env!("CARGO_BIN_EXE_dala"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let images = project().join("docs/images");
    let mut made = Vec::new();
    for entry in fs::read_dir(folder.path(".")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let (ours, new) = (images.join(&name), folder.path(&name));
        match name.rsplit_once('.') {
            // Whole drawings: they hold no times.
            Some((_, "svg")) => {
                let same = fs::read(&ours).unwrap_or_default() == fs::read(&new).unwrap();
                assert!(same, "docs/images/{name} is stale: {STALE}");
            }
            Some((_, "png" | "jpg")) => {
                let (ours, new) = (image::open(&ours).unwrap().to_rgb8(), image::open(&new).unwrap().to_rgb8());
                assert_eq!(ours.dimensions(), new.dimensions(), "docs/images/{name} is stale: {STALE}");
                // The last bit may differ between processors.
                let close = ours.as_raw().iter().zip(new.as_raw()).all(|(a, b)| a.abs_diff(*b) <= 1);
                assert!(close, "docs/images/{name} is stale: {STALE}");
            }
            _ => {
                assert_eq!(name, "measured.md");
                let readme = fs::read_to_string(project().join("README.md")).unwrap();
                let table = fs::read_to_string(&new).unwrap();
                assert!(readme.contains(&format!("<!-- measured -->\n{table}<!-- /measured -->")), "{STALE}");
            }
        }
        made.push(name);
    }
    // What recipes make needs models that are fetched only where somebody asks for them.
    let of_recipes = ["faces.jpg", "upscale.png", "upscale_before.png"];
    for missing in of_recipes.iter().filter(|name| !made.iter().any(|made| made == **name)) {
        println!("skipped: docs/images/{missing}: `scripts/get-models people` fetches what makes it");
    }
    made.retain(|name| !of_recipes.contains(&name.as_str()));
    made.sort();
    assert_eq!(made, ["image_plan.svg", "measured.md", "measured.svg", "plan.svg", "sketch.png"]);
}
