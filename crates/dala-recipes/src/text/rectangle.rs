//! Rectangles around regions, turned as the text is.

use super::regions::Run;

/// A rectangle that may be turned. One whose sides are level has `along` (1, 0).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rectangle {
    middle: (f32, f32),
    /// Where its upper side leads to, of length 1: more to the right than up or down.
    along: (f32, f32),
    half_width: f32,
    half_height: f32,
}

impl Rectangle {
    /// The one of least area around the middles of a region's pixels.
    pub(crate) fn around(region: &[Run]) -> Option<Rectangle> {
        let hull = hull(region);
        let next = hull.iter().cycle().skip(1);
        let sides = hull.iter().zip(next).map(|(a, b)| ((b.0 - a.0) as f32, (b.1 - a.1) as f32));
        let along =
            sides.map(|(x, y)| if x == 0.0 && y == 0.0 { (1.0, 0.0) } else { (x / x.hypot(y), y / x.hypot(y)) });
        let all = along.map(|along| Rectangle::along(rightward(along), &hull));
        all.min_by(|a, b| a.area().total_cmp(&b.area()))
    }

    /// The one of a direction.
    fn along(along: (f32, f32), points: &[(i64, i64)]) -> Rectangle {
        let (mut low, mut high) = ((f32::INFINITY, f32::INFINITY), (f32::NEG_INFINITY, f32::NEG_INFINITY));
        for &(x, y) in points {
            let (x, y) = (x as f32, y as f32);
            let (right, down) = (x * along.0 + y * along.1, y * along.0 - x * along.1);
            low = (low.0.min(right), low.1.min(down));
            high = (high.0.max(right), high.1.max(down));
        }
        let (right, down) = ((low.0 + high.0) / 2.0, (low.1 + high.1) / 2.0);
        let middle = (right * along.0 - down * along.1, right * along.1 + down * along.0);
        Rectangle { middle, along, half_width: (high.0 - low.0) / 2.0, half_height: (high.1 - low.1) / 2.0 }
    }

    fn area(&self) -> f32 {
        4.0 * self.half_width * self.half_height
    }

    /// How long its shorter side is.
    pub(crate) fn shorter(&self) -> f32 {
        2.0 * self.half_width.min(self.half_height)
    }

    /// The same with all sides moved outward by area times `ratio` over perimeter: what a detector's map leaves out around letters.
    pub(crate) fn grown(self, ratio: f32) -> Rectangle {
        let perimeter = 4.0 * (self.half_width + self.half_height);
        let by = if perimeter > 0.0 { self.area() * ratio / perimeter } else { 0.0 };
        Rectangle { half_width: self.half_width + by, half_height: self.half_height + by, ..self }
    }

    /// The corners from the upper left on, clockwise.
    pub(crate) fn corners(&self) -> [(f32, f32); 4] {
        [(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)].map(|(right, down)| {
            let (right, down) = (right * self.half_width, down * self.half_height);
            let (x, y) = self.along;
            (self.middle.0 + right * x - down * y, self.middle.1 + right * y + down * x)
        })
    }

    /// The mean of the pixels whose middles it covers, or touches; zero if there are none.
    pub(crate) fn mean_inside(&self, map: &[f32], width: usize) -> f32 {
        /// How far outside a pixel still counts.
        const TOUCHES: f32 = 0.5;
        let rows = self.corners().map(|(_, y)| y);
        let first = rows.into_iter().fold(f32::INFINITY, f32::min).floor().max(0.0) as usize;
        let last = rows.into_iter().fold(0.0, f32::max).ceil() as usize;
        let (mut sum, mut count) = (0.0f64, 0usize);
        let all = map.chunks_exact(width.max(1)).enumerate().skip(first);
        for (y, row) in all.take((last + 1).saturating_sub(first)) {
            let down = y as f32 - self.middle.1;
            let (x, y) = self.along;
            let (a, b) = between(x, down * y, self.half_width + TOUCHES);
            let (c, d) = between(-y, down * x, self.half_height + TOUCHES);
            let (left, right) = ((self.middle.0 + a.max(c)).ceil().max(0.0), (self.middle.0 + b.min(d)).floor());
            if right < left {
                continue;
            }
            let inside = row.iter().skip(left as usize).take((right - left) as usize + 1);
            inside.for_each(|value| (sum, count) = (sum + f64::from(*value), count + 1));
        }
        if count == 0 { 0.0 } else { (sum / count as f64) as f32 }
    }
}

/// Where `rate * x + offset` is between `-half` and `half`.
fn between(rate: f32, offset: f32, half: f32) -> (f32, f32) {
    if rate.abs() < 1e-6 {
        let everywhere = offset.abs() <= half;
        return if everywhere { (f32::NEG_INFINITY, f32::INFINITY) } else { (f32::INFINITY, f32::NEG_INFINITY) };
    }
    let (a, b) = ((-half - offset) / rate, (half - offset) / rate);
    (a.min(b), a.max(b))
}

/// The one of four directions at right angles that leads to the right.
fn rightward((x, y): (f32, f32)) -> (f32, f32) {
    let turns = [(x, y), (-y, x), (-x, -y), (y, -x)];
    turns.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((1.0, 0.0))
}

/// The corners of the smallest convex shape around a region's pixels, in order. Only ends of runs can be corners.
fn hull(region: &[Run]) -> Vec<(i64, i64)> {
    let ends = region.iter().flat_map(|run| [run.first, run.last].map(|x| (x as i64, run.y as i64)));
    let mut points: Vec<(i64, i64)> = ends.collect();
    points.sort_unstable();
    points.dedup();
    if points.len() < 3 {
        return points;
    }
    let mut corners = half_hull(points.iter().copied());
    corners.extend(half_hull(points.iter().rev().copied()));
    corners
}

/// One side of it, without its last point.
fn half_hull(points: impl Iterator<Item = (i64, i64)>) -> Vec<(i64, i64)> {
    let mut corners: Vec<(i64, i64)> = Vec::new();
    for point in points {
        while let [.., before, last] = corners[..] {
            let turn = (last.0 - before.0) * (point.1 - before.1) - (last.1 - before.1) * (point.0 - before.0);
            if turn > 0 {
                break;
            }
            corners.pop();
        }
        corners.push(point);
    }
    corners.pop();
    corners
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(runs: &[(usize, usize, usize)]) -> Vec<Run> {
        runs.iter().map(|&(y, first, last)| Run { y, first, last }).collect()
    }

    fn close(found: [(f32, f32); 4], expected: [(f32, f32); 4]) {
        let near = |(a, b): (&(f32, f32), &(f32, f32))| (a.0 - b.0).abs() < 1e-3 && (a.1 - b.1).abs() < 1e-3;
        assert!(found.iter().zip(&expected).all(near), "{found:?} is not {expected:?}");
    }

    #[test]
    fn level_regions_have_level_rectangles() {
        let region = runs(&[(2, 4, 9), (3, 5, 14), (4, 4, 12)]);
        let rectangle = Rectangle::around(&region).unwrap();
        close(rectangle.corners(), [(4.0, 2.0), (14.0, 2.0), (14.0, 4.0), (4.0, 4.0)]);
        assert_eq!(rectangle.shorter(), 2.0);
        // Area 20 times 1.2 over perimeter 24.
        close(rectangle.grown(1.2).corners(), [(3.0, 1.0), (15.0, 1.0), (15.0, 5.0), (3.0, 5.0)]);
    }

    #[test]
    fn slanted_regions_have_slanted_rectangles() {
        // A diamond: a square on its corner.
        let region = runs(&[(0, 4, 4), (1, 3, 5), (2, 2, 6), (3, 3, 5), (4, 4, 4)]);
        assert_eq!(hull(&region), [(2, 2), (4, 0), (6, 2), (4, 4)]);
        let rectangle = Rectangle::around(&region).unwrap();
        assert!((rectangle.area() - 8.0).abs() < 1e-4, "{rectangle:?}");
        // A band that goes down three to four.
        let band: Vec<(usize, usize, usize)> = vec![(0, 3, 3), (3, 7, 7), (4, 0, 0), (7, 4, 4)];
        let rectangle = Rectangle::around(&runs(&band)).unwrap();
        close(rectangle.corners(), [(3.0, 0.0), (7.0, 3.0), (4.0, 7.0), (0.0, 4.0)]);
        assert!((rectangle.shorter() - 5.0).abs() < 1e-4);
    }

    #[test]
    fn points_and_lines_have_flat_rectangles() {
        assert!(Rectangle::around(&[]).is_none());
        for region in [&[(3, 2, 2)][..], &[(3, 2, 9)], &[(0, 0, 0), (1, 1, 1), (2, 2, 2)]] {
            let rectangle = Rectangle::around(&runs(region)).unwrap();
            assert_eq!((rectangle.shorter(), rectangle.grown(1.6).shorter()), (0.0, 0.0), "{region:?}");
        }
    }

    #[test]
    fn means_are_those_of_covered_pixels() {
        let map: Vec<f32> = (0..100).map(|place| if place % 10 < 5 { 1.0 } else { 0.0 }).collect();
        let level = Rectangle { middle: (4.5, 4.5), along: (1.0, 0.0), half_width: 4.5, half_height: 1.5 };
        assert_eq!(level.mean_inside(&map, 10), 0.5);
        // Its corner is at the right, where there is nothing.
        let half = 0.5f32.sqrt();
        let slanted = Rectangle { middle: (8.0, 5.0), along: (half, half), half_width: 1.0, half_height: 1.0 };
        assert_eq!(slanted.mean_inside(&map, 10), 0.0);
        let outside = Rectangle { middle: (-50.0, 900.0), ..level };
        assert_eq!(outside.mean_inside(&map, 10), 0.0);
        assert_eq!(level.mean_inside(&[], 0), 0.0);
        assert!(level.mean_inside(&[f32::NAN; 100], 10).is_nan());
    }
}
