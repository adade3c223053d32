//! A face as the commands answer it.

use dala_recipes::Face;
use serde::Serialize;

/// A face in JSON.
#[derive(Serialize)]
pub(crate) struct Found {
    pub(crate) score: f32,
    pub(crate) left: f32,
    pub(crate) top: f32,
    pub(crate) right: f32,
    pub(crate) bottom: f32,
    /// Across and down: eyes, nose, corners of the mouth.
    pub(crate) landmarks: [(f32, f32); 5],
}

impl From<&Face> for Found {
    fn from(face: &Face) -> Found {
        let Face { left, top, right, bottom, score, landmarks } = *face;
        Found { score, left, top, right, bottom, landmarks }
    }
}
