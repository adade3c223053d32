//! Text in photos: a network finds where lines are, another reads each.

mod detector;
mod reader;
mod recogniser;
mod rectangle;
mod regions;
mod strip;

use crate::ModelFile;

pub use reader::{Reader, TextLine, on_white};

/// The network that finds lines: PP-OCR's detector, version 4.
pub const DETECTOR: ModelFile = ModelFile { name: "text_detector", recipe: "text" };

/// The network that reads a line: PP-OCR's recogniser, version 4. Its file says which characters it knows.
pub const RECOGNISER: ModelFile = ModelFile { name: "text_recogniser", recipe: "text" };
