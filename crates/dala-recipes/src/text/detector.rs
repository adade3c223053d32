//! Where lines of text are.

use std::cmp::Reverse;
use std::path::Path;

use dala_compute::{Buffer, DType, Device, Params};
use dala_model::{Model, Session};

use super::rectangle::Rectangle;
use super::regions::{Run, regions};
use super::strip::{Photo, Strip};
use crate::RecipeError;

/// What sides are multiples of.
const STEP: usize = 32;
/// Photos become so large that their shorter side is this long, as far as the longer one allows.
const SHORTER: f32 = 736.0;
/// The longest side.
const LONGEST: f32 = 2000.0;
/// What is smaller than so many pixels of the map is no text.
const SMALLEST: f32 = 3.0;
/// The least mean probability of a line.
const LEAST_SCORE: f32 = 0.5;
/// How much larger lines are than what the network marks of them.
const GROWTH: f32 = 1.6;
/// How many lines are looked at, the largest first.
const MOST_LINES: usize = 1000;
/// Boxes that are so many times as high as they are wide hold text that runs down or up.
const UPRIGHT: f32 = 1.5;

/// A network that gives for each pixel how likely it is part of a line of text.
pub(crate) struct Detector {
    session: Session,
    path: String,
}

impl Detector {
    pub(crate) fn open(device: &Device, path: &Path) -> Result<Detector, RecipeError> {
        let (model, path) = (Model::open(path)?, path.display().to_string());
        let fits = matches!(model.inputs(), [input] if input.dtype == DType::F32 && input.dims.len() == 4)
            && matches!(model.outputs(), [output] if output.dtype == DType::F32);
        match fits {
            true => Ok(Detector { session: Session::new(device, &model), path }),
            false => Err(RecipeError::Unfit { path, why: "it does not make a map of a picture".to_owned() }),
        }
    }

    /// The lines of a photo, each upright or on its side.
    pub(crate) fn find(&self, photo: &Photo<'_>) -> Result<Vec<Strip>, RecipeError> {
        let (height, width) = size(photo.height, photo.width);
        let device = self.session.device();
        // Blue, green and red from -1 to 1, as RapidOCR gives them: with ImageNet's means, words of one line fall apart.
        let levels: Vec<u8> = photo.levels.as_chunks::<3>().0.iter().flat_map(|&[r, g, b]| [b, g, r]).collect();
        let levels = Buffer::from_slice(device, &levels, [photo.height, photo.width, 3])?;
        let input = Buffer::reserve(device, DType::F32, [1, 3, height, width])?;
        let range = Params::new().with("mean", vec![0.5; 3]).with("std", vec![0.5; 3]);
        device.run("preprocess", &[&levels], &input, range)?;
        let maps = self.session.run(&[&input])?;
        let map = match &maps[..] {
            [map] if map.shape().dims() == [1, 1, height, width] => map.read::<f32>()?,
            _ => {
                let why = format!("it does not make a map of {height} by {width} of a picture of that size");
                return Err(RecipeError::Unfit { path: self.path.clone(), why });
            }
        };
        let (across, down) = (photo.width as f32 / width as f32, photo.height as f32 / height as f32);
        let place = |(x, y): (f32, f32)| ((x + 0.5) * across, (y + 0.5) * down);
        let strips = rectangles(&map, width).into_iter().map(|rectangle| {
            let strip = Strip { corners: rectangle.corners().map(place) };
            let (length, height) = strip.size();
            strip.turned(usize::from(height >= length * UPRIGHT))
        });
        Ok(strips.collect())
    }
}

/// What a photo's height and width become.
fn size(height: usize, width: usize) -> (usize, usize) {
    let (shorter, longer) = (height.min(width) as f32, height.max(width) as f32);
    let scale = (SHORTER / shorter).max(1.0).min(LONGEST / longer);
    let multiple = |side: usize| ((side as f32 * scale / STEP as f32).round() as usize).max(1) * STEP;
    (multiple(height), multiple(width))
}

/// The rectangles around the lines of a map.
fn rectangles(map: &[f32], width: usize) -> Vec<Rectangle> {
    let mut regions = regions(map, width);
    regions.sort_by_key(|region| Reverse(region.iter().map(|run| run.last - run.first + 1).sum::<usize>()));
    let likely = |region: &Vec<Run>| {
        let rectangle = Rectangle::around(region)?;
        let large = rectangle.shorter() >= SMALLEST && rectangle.mean_inside(map, width) > LEAST_SCORE;
        large.then(|| rectangle.grown(GROWTH))
    };
    regions.iter().take(MOST_LINES).filter_map(likely).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_multiples_within_bounds() {
        assert_eq!(size(191, 384), (736, 1472));
        assert_eq!(size(800, 1200), (800, 1216));
        assert_eq!(size(3000, 4000), (1504, 2016));
        assert_eq!(size(1, 1), (736, 736));
        // As large as the longer side allows.
        assert_eq!(size(10, 1000), (32, 2016));
        assert_eq!(size(1, 1_000_000), (32, 2016));
    }

    #[test]
    fn small_and_unlikely_regions_are_no_lines() {
        let (width, height) = (60, 40);
        let map = |left: usize, top: usize, right: usize, bottom: usize, value: f32| {
            let inside = move |place: usize| {
                (left..right).contains(&(place % width)) && (top..bottom).contains(&(place / width))
            };
            (0..width * height).map(|place| if inside(place) { value } else { 0.0 }).collect::<Vec<f32>>()
        };
        let found = rectangles(&map(10, 10, 40, 20, 0.9), width);
        // 31 by 11 pixels are 30 by 10 between their middles: area 300 times 1.6 over perimeter 80 is 6.
        let corners = found[0].corners();
        assert_eq!((found.len(), corners[0], corners[2]), (1, (4.0, 4.0), (46.0, 26.0)));
        assert!(rectangles(&map(10, 10, 40, 12, 0.9), width).is_empty());
        assert!(rectangles(&map(10, 10, 40, 20, 0.4), width).is_empty());
        assert!(rectangles(&map(0, 0, 60, 40, f32::NAN), width).is_empty());
    }
}
