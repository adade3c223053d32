//! Faces in photos, by CenterFace: a network that says for every fourth pixel how likely it is the middle of a face, how large that
//! face is, and where its eyes, nose and mouth are.

use std::path::Path;
use std::sync::Arc;

use dala_compute::{Device, Readback, Shape, Stage};
use dala_image::Picture;

use crate::picture_model::{PictureModel, Range, Size};
use crate::{ModelFile, RecipeError};

/// The model that finds faces.
pub const FACES: ModelFile = ModelFile { name: "faces", recipe: "faces" };

/// How sure the network should be of a face, where nobody says otherwise.
pub const FACE_THRESHOLD: f32 = 0.5;

/// What the sides of a photo are multiples of when the network sees it.
const MULTIPLE: usize = 32;

/// Pixels between two places that the network speaks of.
const STRIDE: usize = 4;

/// What the network says about a place: how likely it is a middle; height and width of the box, as logarithms; by how much the middle
/// is further down and right; five landmarks, each down and across.
const PLANES: usize = 15;

/// How long the longer side of a photo may be when the network sees it.
const LONGER_SIDE: usize = 1024;

/// Boxes that share more than this part of what they cover together are of one face.
const SHARED: f32 = 0.3;

/// What is wrong with a model whose outputs are not those of its shapes.
const TOO_FEW: &str = "it gives too few numbers";

/// How many middles are looked at, the surest first.
const MOST: usize = 4096;

/// A face in a photo, in the photo's pixels from its upper left corner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Face {
    /// Where its box begins.
    pub left: f32,
    /// Where its box begins from above.
    pub top: f32,
    /// Where its box ends.
    pub right: f32,
    /// Where its box ends below.
    pub bottom: f32,
    /// How sure the network is, from 0 to 1.
    pub score: f32,
    /// Across and down: the eyes, the nose and the corners of the mouth, each pair from the left.
    pub landmarks: [(f32, f32); 5],
}

/// Finds faces. Clones share the model.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use dala_compute::Device;
/// use dala_image::{Limits, decode};
/// use dala_recipes::{FACE_THRESHOLD, FACES, Faces, find};
///
/// let faces = Faces::open(&Device::open("auto")?, &find(FACES, None)?)?;
/// let photo = decode(&std::fs::read("friends.jpg")?, &Limits::default())?;
/// for face in faces.detect(&photo, FACE_THRESHOLD)? {
///     println!("{:.0} % at {:.0}, {:.0}", face.score * 100.0, face.left, face.top);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Faces {
    model: Arc<PictureModel>,
    longer_side: usize,
}

impl Faces {
    /// Reads the model.
    ///
    /// # Errors
    /// [`RecipeError::Unfit`] if it is another model than this is written for, and what is wrong with the file.
    pub fn open(device: &Device, model: &Path) -> Result<Faces, RecipeError> {
        let model = Arc::new(PictureModel::open(device, model)?);
        let side = MULTIPLE / STRIDE;
        let expected = [1, 2, 2, 10].map(|channels| Shape::from([1, channels, side, side]));
        match model.outputs(Size { height: MULTIPLE, width: MULTIPLE })? == expected {
            true => Ok(Faces { model, longer_side: LONGER_SIDE }),
            false => {
                Err(model.unfit("it does not give middles, sizes, offsets and landmarks of faces as CenterFace does"))
            }
        }
    }

    /// The same with photos made so large for the network that their longer side has at most so many pixels, or few more: smaller
    /// faces are found where these are more.
    pub fn with_longer_side(self, pixels: usize) -> Faces {
        Faces { longer_side: pixels.max(1), ..self }
    }

    /// The faces of a photo of which the network is surer than the threshold, the surest first.
    ///
    /// # Errors
    /// [`RecipeError::Input`] for what is no photo and for thresholds that are not between 0 and 1, and what the device says.
    pub fn detect(&self, photo: &Picture, threshold: f32) -> Result<Vec<Face>, RecipeError> {
        let sight = self.sight(photo, threshold)?;
        let outputs = self.model.run(photo, sight.seen, Range::Levels)?;
        sight.faces(&outputs).ok_or_else(|| self.model.unfit(TOO_FEW))
    }

    /// The same as stages of a command that somebody else submits, as a [`Stream`](dala_compute::Stream) does; and what takes the
    /// faces from them once it has completed.
    ///
    /// # Errors
    /// As [`detect`](Faces::detect).
    pub fn stages(&self, photo: &Picture, threshold: f32) -> Result<(Vec<Stage>, PendingFaces), RecipeError> {
        let sight = self.sight(photo, threshold)?;
        let (stages, outputs) = self.model.stages(photo, sight.seen, Range::Levels)?;
        Ok((stages, PendingFaces { sight, outputs, model: self.model.clone() }))
    }

    fn sight(&self, photo: &Picture, threshold: f32) -> Result<Sight, RecipeError> {
        if !(threshold > 0.0 && threshold < 1.0) {
            return Err(RecipeError::Input(format!("a threshold is between 0 and 1, not {threshold}")));
        }
        let photo_size = Size { height: photo.height, width: photo.width };
        Ok(Sight { photo: photo_size, seen: seen_size(photo, self.longer_side), threshold })
    }
}

/// The faces that the stages of a photo find.
pub struct PendingFaces {
    sight: Sight,
    outputs: Vec<Readback>,
    model: Arc<PictureModel>,
}

impl PendingFaces {
    /// The faces, the surest first, if the command has completed.
    ///
    /// # Errors
    /// [`RecipeError::Input`] if it has not, and [`RecipeError::Unfit`] if the model gives something else than it should.
    pub fn take(self) -> Result<Vec<Face>, RecipeError> {
        let floats = |bytes: Vec<u8>| bytes.as_chunks().0.iter().map(|four| f32::from_le_bytes(*four)).collect();
        let outputs = self.outputs.iter().map(|output| output.take().map(floats));
        let outputs = outputs.collect::<Option<Vec<Vec<f32>>>>();
        let outputs = outputs.ok_or_else(|| RecipeError::Input("the stages of the photo have not run".to_owned()))?;
        self.sight.faces(&outputs).ok_or_else(|| self.model.unfit(TOO_FEW))
    }
}

/// How a photo is looked at.
struct Sight {
    photo: Size,
    /// How large the network sees it.
    seen: Size,
    threshold: f32,
}

impl Sight {
    /// The faces in what the network gave; none if that is not what it should be.
    fn faces(&self, outputs: &[Vec<f32>]) -> Option<Vec<Face>> {
        let Sight { photo, seen, threshold } = self;
        let places = (seen.height / STRIDE) * (seen.width / STRIDE);
        let planes: Vec<&[f32]> = outputs.iter().flat_map(|output| output.chunks_exact(places.max(1))).collect();
        let found = middles(planes.try_into().ok()?, seen.width / STRIDE, *threshold).into_iter();
        let (height, width) = (photo.height as f32, photo.width as f32);
        let (down, across) = (height / seen.height as f32, width / seen.width as f32);
        Some(one_of_each(found.map(|face| face.scaled(down, across).inside(height, width)).collect()))
    }
}

/// How large the network sees a photo: as it is, or shrunk, but with sides that are multiples.
fn seen_size(photo: &Picture, longer_side: usize) -> Size {
    let longer = photo.height.max(photo.width).max(1);
    let side = |own: usize| match longer <= longer_side {
        true => own,
        // Wide enough for any two lengths.
        false => (own as u128 * longer_side as u128 / longer as u128) as usize,
    };
    let multiple = |own: usize| side(own).max(1).div_ceil(MULTIPLE) * MULTIPLE;
    Size { height: multiple(photo.height), width: multiple(photo.width) }
}

/// The faces around all middles that are surer than the threshold, the surest first, in the pixels that the network sees.
fn middles(planes: [&[f32]; PLANES], columns: usize, threshold: f32) -> Vec<Face> {
    let [scores, ..] = planes;
    let above = scores.iter().enumerate().filter(|(_, score)| **score > threshold);
    let face = |(place, _): (usize, &f32)| {
        let said = planes.map(|plane| plane.get(place).copied().unwrap_or(f32::NAN));
        face_at(said, place / columns, place % columns)
    };
    let mut faces: Vec<Face> = above.filter_map(face).collect();
    faces.sort_by(|a, b| b.score.total_cmp(&a.score));
    faces.truncate(MOST);
    faces
}

/// The face that the network means by what it says about a place; none if that makes no sense.
fn face_at(said: [f32; PLANES], row: usize, column: usize) -> Option<Face> {
    let [score, tall, wide, down, across, marks @ ..] = said;
    let pixels = STRIDE as f32;
    let (height, width) = (tall.exp() * pixels, wide.exp() * pixels);
    let (top, left) =
        ((row as f32 + down + 0.5) * pixels - height / 2.0, (column as f32 + across + 0.5) * pixels - width / 2.0);
    let mut landmarks = [(0.0, 0.0); 5];
    for (landmark, [down, across]) in landmarks.iter_mut().zip(marks.as_chunks::<2>().0) {
        *landmark = (left + across * width, top + down * height);
    }
    let face = Face { left, top, right: left + width, bottom: top + height, score, landmarks };
    let numbers = [face.left, face.top, face.right, face.bottom].into_iter();
    numbers.chain(landmarks.iter().flat_map(|(x, y)| [*x, *y])).all(f32::is_finite).then_some(face)
}

impl Face {
    fn scaled(self, down: f32, across: f32) -> Face {
        Face {
            left: self.left * across,
            top: self.top * down,
            right: self.right * across,
            bottom: self.bottom * down,
            landmarks: self.landmarks.map(|(x, y)| (x * across, y * down)),
            ..self
        }
    }

    /// The same with a box that ends where the photo does.
    fn inside(self, height: f32, width: f32) -> Face {
        Face {
            left: self.left.clamp(0.0, width),
            top: self.top.clamp(0.0, height),
            right: self.right.clamp(0.0, width),
            bottom: self.bottom.clamp(0.0, height),
            ..self
        }
    }

    fn area(&self) -> f32 {
        (self.right - self.left).max(0.0) * (self.bottom - self.top).max(0.0)
    }

    /// The part of what two boxes cover together that both cover.
    fn shared(&self, other: &Face) -> f32 {
        let both = Face {
            left: self.left.max(other.left),
            top: self.top.max(other.top),
            right: self.right.min(other.right),
            bottom: self.bottom.min(other.bottom),
            ..*self
        };
        let both = both.area();
        both / (self.area() + other.area() - both)
    }
}

/// The surest box of each face: many middles are found in one. The surest come first.
fn one_of_each(faces: Vec<Face>) -> Vec<Face> {
    let mut kept: Vec<Face> = Vec::new();
    for face in faces {
        if face.area() > 0.0 && kept.iter().all(|better| better.shared(&face) <= SHARED) {
            kept.push(face);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use dala_image::Samples;

    use super::*;
    use crate::find;

    #[test]
    fn photos_of_any_size_are_looked_at_and_what_is_none_is_refused() {
        let file = match find(FACES, None) {
            Ok(file) => file,
            Err(error) => return println!("skipped: {error}"),
        };
        let faces = Faces::open(&Device::open("cpu").unwrap(), &file).unwrap().with_longer_side(64);
        for (height, width) in [(1, 1), (1, 200), (90, 50)] {
            let floats = Samples::F32(vec![f32::NAN; height * width * 4]);
            let photo = Picture::new(height, width, 4, floats).unwrap();
            assert!(faces.detect(&photo, 0.5).unwrap().is_empty(), "{height} x {width}");
        }
        assert_eq!(faces.detect(&photo(0, 0), 0.5).unwrap_err().code(), "bad_input");
        assert_eq!(faces.detect(&photo(3, 3), 0.5).unwrap_err().code(), "bad_input");
        assert_eq!(faces.detect(&photo(3, 3), f32::NAN).unwrap_err().code(), "bad_input");
    }

    #[test]
    fn stages_find_what_detect_does_at_many_sizes() {
        let file = match find(FACES, None) {
            Ok(file) => file,
            Err(error) => return println!("skipped: {error}"),
        };
        let device = Device::open("cpu").unwrap();
        let faces = Faces::open(&device, &file).unwrap();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../dala-model/zoo/pictures/astronaut.png");
        let photo = Picture::open(path).unwrap();
        // More sizes than are remembered, and the first again.
        for side in [512, 64, 96, 128, 160, 192, 512] {
            let faces = faces.clone().with_longer_side(side);
            let (stages, pending) = faces.stages(&photo, 0.3).unwrap();
            device.submit(stages).unwrap().wait(None).unwrap();
            let (found, expected) = (pending.take().unwrap(), faces.detect(&photo, 0.3).unwrap());
            assert_eq!(found.len(), expected.len(), "{side}");
            for (found, expected) in found.iter().zip(&expected) {
                assert!((found.left - expected.left).abs() < 0.1 && (found.score - expected.score).abs() < 1e-3);
            }
            assert!(side < 512 || found.len() == 1, "{found:?}");
        }
        let (_, pending) = faces.stages(&photo, 0.5).unwrap();
        assert_eq!(pending.take().unwrap_err().code(), "bad_input");
    }

    fn photo(height: usize, width: usize) -> Picture {
        Picture { height, width, channels: 3, samples: Samples::U8(Vec::new()), profile: None }
    }

    fn boxed(score: f32, [left, top, right, bottom]: [f32; 4]) -> Face {
        Face { left, top, right, bottom, score, landmarks: [(0.0, 0.0); 5] }
    }

    #[test]
    fn photos_are_seen_in_multiples_and_not_too_large() {
        for ((height, width), expected) in [
            ((512, 512), (512, 512)),
            ((1, 1), (32, 32)),
            ((33, 64), (64, 64)),
            ((3000, 4000), (768, 1024)),
            ((4000, 1), (1024, 32)),
            ((0, 0), (32, 32)),
            ((usize::MAX, 2), (1024, 32)),
        ] {
            let size = seen_size(&photo(height, width), 1024);
            assert_eq!((size.height, size.width), expected, "{height} x {width}");
        }
        assert_eq!(seen_size(&photo(3000, 4000), 2000), Size { height: 1504, width: 2016 });
    }

    #[test]
    fn places_become_boxes() {
        let mut said = [0.0; PLANES];
        // 8 rows high, 16 pixels wide; the middle half a place further down, a quarter to the left.
        said[..5].copy_from_slice(&[0.9, 2.0f32.ln(), 4.0f32.ln(), 0.5, -0.25]);
        // The second landmark is in the lower right corner of the box.
        said[7..9].copy_from_slice(&[1.0, 1.0]);
        let face = face_at(said, 2, 5).unwrap();
        // Down: (2 + 0.5 + 0.5) * 4 = 12, less half of 8. Across: (5 - 0.25 + 0.5) * 4 = 21, less half of 16.
        assert_eq!((face.left, face.top, face.right, face.bottom, face.score), (13.0, 8.0, 29.0, 16.0, 0.9));
        assert_eq!((face.landmarks[0], face.landmarks[1]), ((13.0, 8.0), (29.0, 16.0)));
        for (place, value) in [(1, 1000.0), (2, f32::NAN), (3, f32::INFINITY), (14, f32::NAN)] {
            let mut strange = said;
            strange[place] = value;
            assert_eq!(face_at(strange, 2, 5), None, "{place}");
        }
    }

    #[test]
    fn only_middles_above_the_threshold_count_and_the_surest_come_first() {
        let (scores, zeros) = ([0.1, 0.6, f32::NAN, 0.5, 0.9, 0.51], [0.0; 6]);
        let mut planes: [&[f32]; PLANES] = [&zeros; PLANES];
        planes[0] = &scores;
        let found = middles(planes, 3, 0.5);
        let corners: Vec<(f32, f32, f32)> = found.iter().map(|face| (face.score, face.left, face.top)).collect();
        assert_eq!(corners, [(0.9, 4.0, 4.0), (0.6, 4.0, 0.0), (0.51, 8.0, 4.0)]);
        assert!(middles([&[]; PLANES], 3, 0.5).is_empty());
    }

    #[test]
    fn one_box_is_left_of_each_face() {
        let first = boxed(0.9, [0.0, 0.0, 10.0, 10.0]);
        // 50 of 150 shared, then 20 of 180, none, and a box without an inside.
        let others = [
            boxed(0.8, [0.0, 5.0, 10.0, 15.0]),
            boxed(0.7, [0.0, 8.0, 10.0, 18.0]),
            boxed(0.6, [50.0, 0.0, 60.0, 10.0]),
            boxed(0.5, [70.0, 0.0, 70.0, 10.0]),
        ];
        let [_, second, third, _] = others;
        assert_eq!(first.shared(&others[0]), 1.0 / 3.0);
        let all: Vec<Face> = [first].into_iter().chain(others).collect();
        assert_eq!(one_of_each(all), [first, second, third]);
        assert!(one_of_each(Vec::new()).is_empty());
    }

    #[test]
    fn boxes_end_with_the_photo() {
        let face = boxed(0.9, [-3.0, 2.0, 50.0, 90.0]).scaled(0.5, 2.0).inside(40.0, 60.0);
        assert_eq!((face.left, face.top, face.right, face.bottom), (0.0, 1.0, 60.0, 40.0));
    }
}
