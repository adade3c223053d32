//! What lines say.

use std::path::Path;

use dala_compute::{Buffer, DType, Device, Params};
use dala_model::{Model, Session};

use super::strip::{Photo, Strip};
use crate::RecipeError;

/// How high lines are.
const HEIGHT: usize = 48;
/// The least width: that of most lines that the network was trained on.
const LEAST_WIDTH: usize = 320;
/// What widths are multiples of, so that there are few of them.
const WIDTH_STEP: usize = 160;
/// The most; longer lines are squeezed.
const MOST_WIDTH: usize = 4800;
/// How many lines are read at once, a power of two.
const MOST_AT_ONCE: usize = 8;
/// The class that stands for no character.
const BLANK: usize = 0;

/// What a line says, and the mean probability of its characters.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Reading {
    pub(crate) text: String,
    pub(crate) score: f32,
}

/// A network that gives for each step along a line which character is there.
pub(crate) struct Recogniser {
    session: Session,
    /// What each class stands for; the first stands for nothing.
    characters: Vec<String>,
    path: String,
}

impl Recogniser {
    pub(crate) fn open(device: &Device, path: &Path) -> Result<Recogniser, RecipeError> {
        let (model, path) = (Model::open(path)?, path.display().to_string());
        let fits = matches!(model.inputs(), [input] if input.dtype == DType::F32 && input.dims.len() == 4)
            && matches!(model.outputs(), [output] if output.dtype == DType::F32);
        let Some(characters) = model.metadata("character").filter(|_| fits) else {
            let why = "it does not read pictures of lines, or does not say which characters it knows".to_owned();
            return Err(RecipeError::Unfit { path, why });
        };
        let characters = [""].into_iter().chain(characters.lines()).chain([" "]).map(str::to_owned).collect();
        Ok(Recogniser { session: Session::new(device, &model), characters, path })
    }

    /// What strips of a photo say. Those of nearly the same width are read together.
    pub(crate) fn read(&self, photo: &Photo<'_>, strips: &[Strip]) -> Result<Vec<Reading>, RecipeError> {
        let mut readings = vec![Reading::default(); strips.len()];
        let mut lines: Vec<Line<'_>> =
            strips.iter().zip(&mut readings).map(|(strip, reading)| Line::new(strip, reading)).collect();
        lines.sort_by_key(|line| line.width);
        for mut alike in lines.chunk_by_mut(|a, b| a.padded() == b.padded()) {
            // Few numbers of lines, so that few plans are made.
            while !alike.is_empty() {
                let most = alike.len().min(MOST_AT_ONCE);
                let (batch, rest) = alike.split_at_mut(1 << most.ilog2());
                self.read_batch(photo, batch)?;
                alike = rest;
            }
        }
        Ok(readings)
    }

    fn read_batch(&self, photo: &Photo<'_>, lines: &mut [Line<'_>]) -> Result<(), RecipeError> {
        let Some(stride) = lines.first().map(Line::padded) else { return Ok(()) };
        let device = self.session.device();
        // What is beside a line is gray.
        let mut pixels = vec![0.0f32; lines.len() * 3 * HEIGHT * stride];
        for (line, planes) in lines.iter().zip(pixels.chunks_exact_mut(3 * HEIGHT * stride)) {
            line.strip.write(photo, HEIGHT, line.width, stride, planes);
        }
        let input = Buffer::from_slice(device, &pixels, [lines.len(), 3, HEIGHT, stride])?;
        let outputs = self.session.run(&[&input])?;
        let known = self.characters.len();
        let (probabilities, steps) = match &outputs[..] {
            [output] => match *output.shape().dims() {
                // Some know no space.
                [batch, steps, classes] if batch == lines.len() && (known - 1..=known).contains(&classes) => {
                    (output, steps)
                }
                _ => return Err(self.unfit(output.shape().to_string())),
            },
            _ => return Err(self.unfit(format!("{} outputs", outputs.len()))),
        };
        if steps == 0 {
            return Ok(());
        }
        // Of thousands of classes, the best alone leaves the device.
        let along = || Params::new().with("axes", 2);
        let classes = Buffer::reserve(device, DType::S32, [lines.len(), steps])?;
        let scores = Buffer::reserve(device, DType::F32, [lines.len(), steps])?;
        device.run("argmax", &[probabilities], &classes, along())?;
        device.run("reduce_max", &[probabilities], &scores, along())?;
        let (classes, scores) = (classes.read::<i32>()?, scores.read::<f32>()?);
        for ((line, classes), scores) in lines.iter_mut().zip(classes.chunks(steps)).zip(scores.chunks(steps)) {
            *line.reading = self.decoded(classes, scores);
        }
        Ok(())
    }

    fn unfit(&self, found: String) -> RecipeError {
        let why = format!("it knows {} characters, and gives {found}", self.characters.len());
        RecipeError::Unfit { path: self.path.clone(), why }
    }

    fn decoded(&self, classes: &[i32], scores: &[f32]) -> Reading {
        decoded(classes, scores, &self.characters)
    }
}

/// A strip, how wide it is when it is read, and where goes what it says.
struct Line<'a> {
    strip: &'a Strip,
    width: usize,
    reading: &'a mut Reading,
}

impl<'a> Line<'a> {
    fn new(strip: &'a Strip, reading: &'a mut Reading) -> Line<'a> {
        let (length, height) = strip.size();
        let width = ((length / height * HEIGHT as f32).ceil() as usize).clamp(1, MOST_WIDTH);
        Line { strip, width, reading }
    }

    /// The width with what is beside it.
    fn padded(&self) -> usize {
        self.width.next_multiple_of(WIDTH_STEP).max(LEAST_WIDTH)
    }
}

/// What the best class of each step comes to: a class that is repeated counts once, unless there was none between, and the blank
/// stands for nothing.
fn decoded(classes: &[i32], scores: &[f32], characters: &[String]) -> Reading {
    let (mut text, mut sum, mut count, mut last) = (String::new(), 0.0, 0usize, BLANK);
    for (class, score) in classes.iter().zip(scores) {
        let class = usize::try_from(*class).unwrap_or(BLANK);
        if class != BLANK && class != last {
            text.push_str(characters.get(class).map_or("", String::as_str));
            (sum, count) = (sum + score, count + 1);
        }
        last = class;
    }
    let score = if count == 0 { 0.0 } else { sum / count as f32 };
    Reading { text: text.trim().to_owned(), score }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_classes_are_one_character() {
        let characters: Vec<String> = ["", "a", "b", "l", " "].map(str::to_owned).to_vec();
        let read = |classes: &[i32]| decoded(classes, &vec![0.5; classes.len()], &characters).text;
        assert_eq!(read(&[0, 2, 2, 1, 0, 3, 3, 0, 3, 0]), "ball");
        assert_eq!(read(&[1, 4, 4, 2, 4]), "a b");
        assert_eq!(read(&[0, 0, 0]), "");
        assert_eq!(read(&[]), "");
        // A class that nobody has a name for is not read.
        assert_eq!(read(&[-1, 1, 99]), "a");
    }

    #[test]
    fn scores_are_those_of_the_steps_that_count() {
        let characters: Vec<String> = ["", "a", "b"].map(str::to_owned).to_vec();
        let reading = decoded(&[0, 1, 1, 0, 2], &[0.1, 0.75, 0.2, 0.1, 0.25], &characters);
        assert_eq!(reading, Reading { text: "ab".to_owned(), score: 0.5 });
        assert_eq!(decoded(&[0], &[1.0], &characters).score, 0.0);
        assert!(decoded(&[1], &[f32::NAN], &characters).score.is_nan());
    }

    #[test]
    fn widths_are_in_proportion_and_few() {
        let line = |length: f32, height: f32| {
            let strip = Strip { corners: [(0.0, 0.0), (length, 0.0), (length, height), (0.0, height)] };
            let mut reading = Reading::default();
            let line = Line::new(&strip, &mut reading);
            (line.width, line.padded())
        };
        assert_eq!(line(100.0, 24.0), (200, 320));
        assert_eq!(line(200.0, 24.0), (400, 480));
        assert_eq!(line(1e9, 1.0), (4800, 4800));
        // Strips of no height are no lines, but do no harm.
        assert_eq!((line(5.0, 0.0), line(0.0, 0.0)), ((4800, 4800), (1, 320)));
    }
}
