//! Photos, and strips of them that are turned upright for reading.

use crate::RecipeError;

/// How many samples along each axis a pixel of a strip is the mean of, at most.
const MOST_SAMPLES: usize = 8;

/// Red, green and blue levels of each pixel.
pub(crate) struct Photo<'a> {
    pub(crate) levels: &'a [u8],
    pub(crate) height: usize,
    pub(crate) width: usize,
}

impl Photo<'_> {
    /// Refuses what is none.
    pub(crate) fn new(levels: &[u8], height: usize, width: usize) -> Result<Photo<'_>, RecipeError> {
        let expected = height.checked_mul(width).and_then(|pixels| pixels.checked_mul(3));
        if levels.is_empty() || expected != Some(levels.len()) {
            let found = levels.len();
            return Err(RecipeError::Input(format!(
                "a photo of {height} by {width} pixels in colour is not made of {found} levels"
            )));
        }
        Ok(Photo { levels, height, width })
    }

    /// The place of the photo that is nearest; that of a NaN is the edge.
    pub(crate) fn nearest(&self, x: f32, y: f32) -> (f32, f32) {
        (x.max(0.0).min(self.width as f32), y.max(0.0).min(self.height as f32))
    }

    /// The levels between the middles of pixels; what is outside is as the edge is.
    fn sample(&self, x: f32, y: f32) -> [f32; 3] {
        let inside = |at: f32, size: usize| (at - 0.5).max(0.0).min((size - 1) as f32);
        let (x, y) = (inside(x, self.width), inside(y, self.height));
        let (left, top) = (x as usize, y as usize);
        let (right, bottom) = ((left + 1).min(self.width - 1), (top + 1).min(self.height - 1));
        let (x, y) = (x - left as f32, y - top as f32);
        let pixel = |row: usize, column: usize| {
            let start = (row * self.width + column) * 3;
            let levels = self.levels.get(start..).and_then(|levels| levels.first_chunk()).copied();
            levels.unwrap_or([0u8; 3]).map(f32::from)
        };
        let (a, b, c, d) = (pixel(top, left), pixel(top, right), pixel(bottom, left), pixel(bottom, right));
        std::array::from_fn(|channel| {
            let above = a[channel] + (b[channel] - a[channel]) * x;
            let below = c[channel] + (d[channel] - c[channel]) * x;
            above + (below - above) * y
        })
    }
}

/// Part of a photo, with its corners as it is read: top left, top right, bottom right, bottom left.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Strip {
    pub(crate) corners: [(f32, f32); 4],
}

impl Strip {
    /// The same, turned so many quarters against the clock.
    pub(crate) fn turned(mut self, quarters: usize) -> Strip {
        self.corners.rotate_left(quarters % 4);
        self
    }

    /// Width and height in pixels of the photo.
    pub(crate) fn size(&self) -> (f32, f32) {
        let [start, end, _, below] = self.corners;
        let side = |to: (f32, f32)| (to.0 - start.0).hypot(to.1 - start.1);
        (side(end), side(below))
    }

    /// The strip upright, so many pixels high and wide, by channel and row: blue, green and red from -1 to 1. Rows are `stride` long
    /// and planes `height` rows.
    pub(crate) fn write(&self, photo: &Photo<'_>, height: usize, width: usize, stride: usize, planes: &mut [f32]) {
        let [start, end, _, below] = self.corners;
        let samples = ((self.size().1 / height as f32).ceil() as usize).clamp(1, MOST_SAMPLES);
        let (across, down) = ((width * samples) as f32, (height * samples) as f32);
        let along = ((end.0 - start.0) / across, (end.1 - start.1) / across);
        let below = ((below.0 - start.0) / down, (below.1 - start.1) / down);
        let scale = 2.0 / 255.0 / (samples * samples) as f32;
        for row in 0..height {
            for column in 0..width {
                let mut sum = [0.0; 3];
                for sample in 0..samples * samples {
                    let right = (column * samples + sample % samples) as f32 + 0.5;
                    let lower = (row * samples + sample / samples) as f32 + 0.5;
                    let x = start.0 + along.0 * right + below.0 * lower;
                    let y = start.1 + along.1 * right + below.1 * lower;
                    sum.iter_mut().zip(photo.sample(x, y)).for_each(|(sum, level)| *sum += level);
                }
                for (plane, sum) in sum.into_iter().rev().enumerate() {
                    if let Some(value) = planes.get_mut((plane * height + row) * stride + column) {
                        *value = sum * scale - 1.0;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_photo_is_refused() {
        for (count, height, width) in [(0, 0, 0), (3, 1, 2), (0, 4, 0), (3, usize::MAX, 3)] {
            let error = Photo::new(&vec![0; count], height, width).err().unwrap();
            assert_eq!(error.code(), "bad_input");
        }
        assert!(Photo::new(&[0; 3], 1, 1).is_ok());
    }

    #[test]
    fn strips_are_turned_upright() {
        // Columns of 0, 85, 170 and 255 in red; green and blue are 0 and 255.
        let row = [0u8, 85, 170, 255].map(|red| [red, 0, 255]).concat();
        let levels = row.repeat(4);
        let photo = Photo::new(&levels, 4, 4).unwrap();
        let whole = Strip { corners: [(0.0, 0.0), (4.0, 0.0), (4.0, 4.0), (0.0, 4.0)] };
        assert_eq!(whole.size(), (4.0, 4.0));
        let mut planes = vec![9.0; 3 * 4 * 5];
        whole.write(&photo, 4, 4, 5, &mut planes);
        let close = |values: &[f32], expected: &[f32]| {
            assert!(values.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-5), "{values:?} {expected:?}");
        };
        close(&planes[..5], &[1.0, 1.0, 1.0, 1.0, 9.0]);
        close(&planes[20..25], &[-1.0, -1.0, -1.0, -1.0, 9.0]);
        close(&planes[40..45], &[-1.0, -1.0 / 3.0, 1.0 / 3.0, 1.0, 9.0]);
        // Against the clock the right side comes to the top, and halves are means.
        let mut planes = vec![0.0; 3 * 2 * 2];
        whole.turned(1).write(&photo, 2, 2, 2, &mut planes);
        close(&planes[8..], &[2.0 / 3.0, 2.0 / 3.0, -2.0 / 3.0, -2.0 / 3.0]);
        assert_eq!(whole.turned(1).corners[0], (4.0, 0.0));
        assert_eq!(whole.turned(4), whole);
    }

    #[test]
    fn places_outside_are_as_the_edge() {
        let photo = Photo::new(&[10, 20, 30], 1, 1).unwrap();
        for (x, y) in [(-5.0, 0.0), (9.0, 9.0), (f32::NAN, f32::INFINITY)] {
            assert_eq!(photo.sample(x, y), [10.0, 20.0, 30.0]);
        }
        assert_eq!((photo.nearest(-1.0, 9.0), photo.nearest(0.5, f32::NAN)), ((0.0, 1.0), (0.5, 0.0)));
    }
}
