//! Which pixels of a map belong together.

use std::ops::Range;

/// A pixel that is more likely than this is text.
const LIKELY: f32 = 0.3;

/// Pixels side by side, the first and the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) y: usize,
    pub(crate) first: usize,
    pub(crate) last: usize,
}

/// Runs and what they are known to be connected with: each has a parent, and those of one region the same root.
#[derive(Default)]
struct Forest {
    runs: Vec<Run>,
    parents: Vec<usize>,
}

impl Forest {
    fn root(&mut self, mut place: usize) -> usize {
        while self.parents[place] != place {
            // Each look makes the way shorter.
            self.parents[place] = self.parents[self.parents[place]];
            place = self.parents[place];
        }
        place
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.parents[a.max(b)] = a.min(b);
    }

    /// Adds the runs of a row.
    fn add_row(&mut self, y: usize, is_text: impl Fn(usize) -> bool, width: usize) {
        let mut x = 0;
        while x < width {
            if is_text(x) {
                let first = x;
                while x < width && is_text(x) {
                    x += 1;
                }
                self.parents.push(self.runs.len());
                self.runs.push(Run { y, first, last: x - 1 });
            }
            x += 1;
        }
    }

    /// Joins the runs of a row with those above that they touch, at corners too. Both are in order.
    fn join_rows(&mut self, above: Range<usize>, row: Range<usize>) {
        let mut next = above.start;
        for place in row {
            let run = self.runs[place];
            while next < above.end && self.runs[next].last + 1 < run.first {
                next += 1;
            }
            for other in next..above.end {
                if self.runs[other].first > run.last + 1 {
                    break;
                }
                self.join(place, other);
            }
        }
    }
}

/// The regions of a map of probabilities, as runs from the top. A pixel is text if it is likely, or one beside it to the left, above
/// or both is: strokes of one line meet where the network leaves a hair between them.
pub(crate) fn regions(map: &[f32], width: usize) -> Vec<Vec<Run>> {
    let mut forest = Forest::default();
    let (mut above, mut row_above): (Range<usize>, &[f32]) = (0..0, &[]);
    for (y, row) in map.chunks_exact(width.max(1)).enumerate() {
        let likely = |x: usize| [row, row_above].iter().any(|row| row.get(x).is_some_and(|value| *value > LIKELY));
        let start = forest.runs.len();
        forest.add_row(y, |x| likely(x) || x.checked_sub(1).is_some_and(likely), width);
        let own = start..forest.runs.len();
        forest.join_rows(above, own.clone());
        (above, row_above) = (own, row);
    }
    let mut regions: Vec<Vec<Run>> = vec![Vec::new(); forest.runs.len()];
    for place in 0..forest.runs.len() {
        let root = forest.root(place);
        regions[root].push(forest.runs[place]);
    }
    regions.retain(|region| !region.is_empty());
    regions
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of a map, of which `#` is likely.
    fn regions_of(rows: &[&str]) -> Vec<Vec<Run>> {
        let map: Vec<f32> = rows.concat().chars().map(|c| if c == '#' { 0.9 } else { 0.3 }).collect();
        regions(&map, rows.first().map_or(0, |row| row.len()))
    }

    fn run(y: usize, first: usize, last: usize) -> Run {
        Run { y, first, last }
    }

    #[test]
    fn pixels_grow_to_the_right_and_down() {
        assert_eq!(regions_of(&["....", ".#..", "...."]), [[run(1, 1, 2), run(2, 1, 2)]]);
        // At the edge there is nowhere to go.
        assert_eq!(regions_of(&["..", ".#"]), [[run(1, 1, 1)]]);
    }

    #[test]
    fn what_touches_is_one_region() {
        let count = |rows: &[&str]| regions_of(rows).len();
        assert_eq!(count(&["#.......", "........", "........", "...#...."]), 2);
        assert_eq!(count(&["#.......", "........", "..#.....", "........"]), 1);
        // Two arms that meet at the bottom, and one that is met from below.
        assert_eq!(count(&["#....#..", "#....#..", "#....#..", "######.."]), 1);
        assert_eq!(count(&["......#.", "......#.", "#..#..#.", "########"]), 1);
        // A ring around a spot.
        assert_eq!(
            count(&["#########", "#.......#", "#.......#", "#...#...#", "#.......#", "#.......#", "#########"]),
            2
        );
    }

    #[test]
    fn strange_maps_have_no_regions() {
        assert!(regions(&[], 0).is_empty());
        assert!(regions(&[0.9], 0).len() <= 1);
        assert!(regions(&[f32::NAN; 12], 4).is_empty());
        assert_eq!(regions(&[f32::INFINITY; 12], 4).len(), 1);
    }

    #[test]
    fn many_regions_are_found_in_no_time() {
        let width = 1024;
        let dot = |place: usize| if (place / width).is_multiple_of(4) && place.is_multiple_of(4) { 1.0 } else { 0.0 };
        let map: Vec<f32> = (0..width * width).map(dot).collect();
        assert_eq!(regions(&map, width).len(), 256 * 256);
    }
}
