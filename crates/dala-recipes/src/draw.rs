//! Lines on photos, to show what was found.

use dala_image::{Picture, Samples};

use crate::RecipeError;
use crate::picture_model::check;

/// A photo that is drawn on, in RGB.
pub struct Drawing {
    photo: Picture,
    levels: Vec<u8>,
    thickness: f32,
}

impl Drawing {
    /// A copy of a photo: gray becomes colours, and transparency is left out. Lines are as thick as suits its size.
    ///
    /// # Errors
    /// [`RecipeError::Input`] for what is no photo.
    pub fn on(photo: &Picture) -> Result<Drawing, RecipeError> {
        check(photo)?;
        let levels = photo.samples.levels();
        let levels = match photo.channels {
            1 => levels.iter().flat_map(|gray| [*gray; 3]).collect(),
            channels => levels.chunks_exact(channels).flat_map(|pixel| pixel.iter().take(3)).copied().collect(),
        };
        let thickness = (photo.height.max(photo.width) as f32 / 250.0).clamp(1.0, 12.0).round();
        let photo = Picture { channels: 3, samples: Samples::U8(Vec::new()), ..photo.clone() };
        Ok(Drawing { photo, levels, thickness })
    }

    /// The edges of a box.
    pub fn rectangle(&mut self, [left, top, right, bottom]: [f32; 4], colour: [u8; 3]) {
        self.polygon(&[(left, top), (right, top), (right, bottom), (left, bottom)], colour);
    }

    /// Lines from point to point, and from the last to the first; points are across and down.
    pub fn polygon(&mut self, points: &[(f32, f32)], colour: [u8; 3]) {
        let next = points.iter().cycle().skip(1);
        for (from, to) in points.iter().zip(next) {
            self.line(*from, *to, self.thickness, colour);
        }
    }

    /// A round dot, somewhat wider than lines.
    pub fn dot(&mut self, at: (f32, f32), colour: [u8; 3]) {
        self.line(at, at, self.thickness * 2.0, colour);
    }

    /// The photo with everything on it.
    pub fn into_picture(self) -> Picture {
        Picture { samples: Samples::U8(self.levels), ..self.photo }
    }

    /// Colours the pixels whose middle is near a line. What is outside of the photo is not drawn.
    fn line(&mut self, from: (f32, f32), to: (f32, f32), thickness: f32, colour: [u8; 3]) {
        if ![from.0, from.1, to.0, to.1].iter().all(|place| place.is_finite()) {
            return;
        }
        let half = thickness / 2.0;
        // Casts of floats end at zero and at the largest number.
        let places = |a: f32, b: f32, size: usize| {
            let start = (a.min(b) - half).floor() as usize;
            start.min(size)..((a.max(b) + half).ceil() as usize).min(size)
        };
        let (rows, columns) = (places(from.1, to.1, self.photo.height), places(from.0, to.0, self.photo.width));
        let (first, count) = (columns.start, columns.len());
        let lines = self.levels.chunks_exact_mut(self.photo.width * 3).enumerate();
        for (row, line) in lines.skip(rows.start).take(rows.len()) {
            for (column, pixel) in line.chunks_exact_mut(3).enumerate().skip(first).take(count) {
                if distance((column as f32 + 0.5, row as f32 + 0.5), from, to) <= half {
                    pixel.copy_from_slice(&colour);
                }
            }
        }
    }
}

/// How far a point is from the nearest point of a line.
fn distance(point: (f32, f32), from: (f32, f32), to: (f32, f32)) -> f32 {
    let (across, down) = (to.0 - from.0, to.1 - from.1);
    let length = across * across + down * down;
    let along = match length > 0.0 {
        true => (((point.0 - from.0) * across + (point.1 - from.1) * down) / length).clamp(0.0, 1.0),
        false => 0.0,
    };
    (point.0 - from.0 - along * across).hypot(point.1 - from.1 - along * down)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn black(height: usize, width: usize, channels: usize) -> Picture {
        Picture::new(height, width, channels, Samples::U8(vec![0; height * width * channels])).unwrap()
    }

    /// Rows of `#` for what is red.
    fn shown(drawing: Drawing) -> Vec<String> {
        let picture = drawing.into_picture();
        let levels = picture.samples.levels();
        let pixel = |pixel: &[u8]| if pixel == [255, 0, 0] { '#' } else { '.' };
        levels.chunks_exact(picture.width * 3).map(|row| row.chunks_exact(3).map(pixel).collect()).collect()
    }

    const RED: [u8; 3] = [255, 0, 0];

    #[test]
    fn boxes_are_drawn_and_end_at_the_edges() {
        let mut drawing = Drawing::on(&black(5, 7, 3)).unwrap();
        drawing.rectangle([1.5, 1.5, 5.5, 3.5], RED);
        assert_eq!(shown(drawing), [".......", ".#####.", ".#...#.", ".#####.", "......."]);
        let mut drawing = Drawing::on(&black(5, 7, 3)).unwrap();
        drawing.rectangle([-9.0, 1.5, 4.5, 1e9], RED);
        assert_eq!(shown(drawing), [".......", "#####..", "....#..", "....#..", "....#.."]);
    }

    #[test]
    fn slanted_lines_and_dots_are_drawn() {
        let mut drawing = Drawing::on(&black(4, 4, 1)).unwrap();
        drawing.polygon(&[(0.5, 0.5), (3.5, 3.5)], RED);
        assert_eq!(shown(drawing), ["#...", ".#..", "..#.", "...#"]);
        let mut drawing = Drawing::on(&black(4, 4, 4)).unwrap();
        drawing.dot((2.0, 2.0), RED);
        assert_eq!(shown(drawing), ["....", ".##.", ".##.", "...."]);
    }

    #[test]
    fn what_is_nowhere_is_not_drawn() {
        let mut drawing = Drawing::on(&black(3, 3, 3)).unwrap();
        drawing.rectangle([f32::NAN, 0.0, f32::INFINITY, 1.0], RED);
        drawing.dot((-50.0, 1e30), RED);
        drawing.polygon(&[], RED);
        assert_eq!(shown(drawing), ["..."; 3]);
        let empty = Picture { height: 0, ..black(1, 1, 3) };
        assert!(matches!(Drawing::on(&empty), Err(RecipeError::Input(_))));
    }

    #[test]
    fn lines_are_thicker_on_larger_photos() {
        let mut drawing = Drawing::on(&black(1, 1000, 3)).unwrap();
        drawing.polygon(&[(100.0, -5.0), (100.0, 5.0)], RED);
        assert_eq!(shown(drawing)[0].matches('#').count(), 4);
    }
}
