//! From a photo to lines of text.

use std::path::Path;

use dala_compute::Device;
use dala_image::{Picture, Samples};

use super::detector::Detector;
use super::recogniser::{Reading, Recogniser};
use super::strip::{Photo, Strip};
use crate::RecipeError;
use crate::picture_model::check;

/// What is less likely than this is no text.
const LEAST_SCORE: f32 = 0.5;

/// A line that is read with less than this is read upside down too.
const SURE: f32 = 0.9;

/// A line of text in a photo.
#[derive(Clone, Debug, PartialEq)]
pub struct TextLine {
    /// What it says.
    pub text: String,
    /// How sure the network is, from 0.5 to 1: the mean over its characters.
    pub score: f32,
    /// Where it is: x and y in pixels from the photo's corner, of its upper left, upper right, lower right and lower left as it is
    /// read, so that what is upside down begins at the right.
    pub corners: [(f32, f32); 4],
}

impl TextLine {
    /// The middle, and how high the line is.
    fn place(&self) -> (f32, f32, f32) {
        let [start, end, far, below] = self.corners;
        let side = |a: (f32, f32), b: (f32, f32)| (b.0 - a.0).hypot(b.1 - a.1);
        ((start.0 + far.0) / 2.0, (start.1 + far.1) / 2.0, side(start, end).min(side(start, below)))
    }
}

/// Reads text in photos.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use dala_compute::Device;
/// use dala_recipes::text::{DETECTOR, RECOGNISER, Reader};
/// use dala_recipes::find;
/// let device = Device::open("auto")?;
/// let reader = Reader::open(&device, &find(DETECTOR, None)?, &find(RECOGNISER, None)?)?;
/// for line in reader.read(&[255; 480 * 640 * 3], 480, 640)? {
///     assert!(line.score > 0.5, "{}", line.text);
/// }
/// # Ok(())
/// # }
/// ```
pub struct Reader {
    detector: Detector,
    recogniser: Recogniser,
}

impl Reader {
    /// Reads both models from their files.
    ///
    /// # Errors
    /// A file that is no model, or none for this.
    pub fn open(device: &Device, detector: &Path, recogniser: &Path) -> Result<Reader, RecipeError> {
        Ok(Reader { detector: Detector::open(device, detector)?, recogniser: Recogniser::open(device, recogniser)? })
    }

    /// The lines of a photo in reading order: rows from the top, and lines of a row from the left. `levels` are red, green and
    /// blue of each pixel.
    ///
    /// # Errors
    /// [`RecipeError::Input`] if there are no pixels, or not as many as height and width make; and whatever the device says.
    pub fn read(&self, levels: &[u8], height: usize, width: usize) -> Result<Vec<TextLine>, RecipeError> {
        let photo = Photo::new(levels, height, width)?;
        let mut strips = self.detector.find(&photo)?;
        let mut readings = self.recogniser.read(&photo, &strips)?;
        self.read_upside_down(&photo, &mut strips, &mut readings)?;
        let lines = strips.into_iter().zip(readings).filter(|(_, reading)| reading.score > LEAST_SCORE);
        let line = |(strip, Reading { text, score }): (Strip, Reading)| {
            let corners = strip.corners.map(|(x, y)| photo.nearest(x, y));
            TextLine { text, score, corners }
        };
        Ok(in_reading_order(lines.map(line).collect()))
    }

    /// Where that is what a line is: the better reading stays.
    fn read_upside_down(
        &self,
        photo: &Photo<'_>,
        strips: &mut [Strip],
        readings: &mut [Reading],
    ) -> Result<(), RecipeError> {
        let doubtful: Vec<usize> = (0..readings.len()).filter(|place| readings[*place].score < SURE).collect();
        let turned: Vec<Strip> = doubtful.iter().map(|place| strips[*place].turned(2)).collect();
        let again = self.recogniser.read(photo, &turned)?;
        for ((place, strip), reading) in doubtful.into_iter().zip(turned).zip(again) {
            if reading.score > readings[place].score {
                (strips[place], readings[place]) = (strip, reading);
            }
        }
        Ok(())
    }
}

/// A photo in red, green and blue, as [`Reader::read`] takes it. What is transparent lies on white, as it does where it is shown.
///
/// # Errors
/// [`RecipeError::Input`] for what is no photo.
pub fn on_white(photo: Picture) -> Result<Picture, RecipeError> {
    check(&photo)?;
    let (height, width, profile) = (photo.height, photo.width, photo.profile.clone());
    let over = |level: u8, alpha: u8| {
        let (level, alpha) = (u32::from(level), u32::from(alpha));
        ((level * alpha + 255 * (255 - alpha) + 127) / 255) as u8
    };
    let pixels = photo.into_rgba();
    let pixels = pixels.as_chunks::<4>().0.iter();
    let levels = pixels.flat_map(|&[red, green, blue, alpha]| [red, green, blue].map(|level| over(level, alpha)));
    Ok(Picture { height, width, channels: 3, samples: Samples::U8(levels.collect()), profile })
}

/// Rows from the top, and lines of a row from the left. A row is what lies within half the height of its first line.
fn in_reading_order(mut lines: Vec<TextLine>) -> Vec<TextLine> {
    lines.sort_by(|a, b| a.place().1.total_cmp(&b.place().1));
    let mut rows: Vec<Vec<TextLine>> = Vec::new();
    for line in lines {
        let (_, middle, height) = line.place();
        let is_of = |row: &&mut Vec<TextLine>| {
            row.first().is_some_and(|first| {
                let (_, row_middle, row_height) = first.place();
                middle - row_middle < height.min(row_height) / 2.0
            })
        };
        match rows.last_mut().filter(is_of) {
            Some(row) => row.push(line),
            None => rows.push(vec![line]),
        }
    }
    rows.iter_mut().for_each(|row| row.sort_by(|a, b| a.place().0.total_cmp(&b.place().0)));
    rows.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str, x: f32, y: f32, width: f32, height: f32) -> TextLine {
        let corners = [(x, y), (x + width, y), (x + width, y + height), (x, y + height)];
        TextLine { text: text.to_owned(), score: 1.0, corners }
    }

    #[test]
    fn what_is_transparent_lies_on_white() {
        let rgba = vec![10, 20, 30, 255, 10, 20, 30, 0, 0, 100, 200, 51];
        let photo = on_white(Picture::new(1, 3, 4, Samples::U8(rgba)).unwrap()).unwrap();
        // A fifth of the level, and four fifths of 255.
        assert_eq!(*photo.samples.levels(), [10, 20, 30, 255, 255, 255, 204, 224, 244]);
        let gray = on_white(Picture::new(1, 2, 1, Samples::U8(vec![7, 8])).unwrap()).unwrap();
        assert_eq!((&*gray.samples.levels(), gray.channels), (&[7, 7, 7, 8, 8, 8][..], 3));
        let wrong = Picture { height: 2, ..gray };
        assert_eq!(on_white(wrong).unwrap_err().code(), "bad_input");
    }

    #[test]
    fn rows_are_read_from_the_left() {
        let lines = vec![
            line("right", 50.0, 2.0, 40.0, 10.0),
            line("below", 0.0, 14.0, 90.0, 10.0),
            line("left", 0.0, 5.0, 40.0, 10.0),
            line("small", 100.0, 10.0, 9.0, 3.0),
        ];
        let order: Vec<String> = in_reading_order(lines).into_iter().map(|line| line.text).collect();
        assert_eq!(order, ["left", "right", "small", "below"]);
        assert!(in_reading_order(Vec::new()).is_empty());
    }
}
