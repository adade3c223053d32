//! Shapes drawn into photos.

/// Pixels of a side, at most: photos are smaller.
const MOST_STEPS: usize = 1 << 16;

/// Draws the sides of a shape, `thickness` pixels wide, into red, green and blue levels of a photo that is `width` pixels wide.
pub fn outline(levels: &mut [u8], width: usize, corners: &[(f32, f32)], thickness: usize, colour: [u8; 3]) {
    let height = levels.len().checked_div(width * 3).unwrap_or_default();
    let pixels = levels.as_chunks_mut::<3>().0;
    let mut dot = |x: f32, y: f32| {
        let first = |at: f32| (at - (thickness.max(1) - 1) as f32 / 2.0).round();
        for place in 0..thickness.max(1).pow(2) {
            let x = first(x) + (place % thickness.max(1)) as f32;
            let y = first(y) + (place / thickness.max(1)) as f32;
            let inside = (0.0..width as f32).contains(&x) && (0.0..height as f32).contains(&y);
            if let Some(pixel) = pixels.get_mut(y as usize * width + x as usize).filter(|_| inside) {
                *pixel = colour;
            }
        }
    };
    for (start, end) in corners.iter().zip(corners.iter().cycle().skip(1)) {
        let (x, y) = (end.0 - start.0, end.1 - start.1);
        let steps = (x.abs().max(y.abs()).ceil() as usize).clamp(1, MOST_STEPS);
        for step in 0..=steps {
            let part = step as f32 / steps as f32;
            dot(start.0 + x * part, start.1 + y * part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(corners: &[(f32, f32)], thickness: usize) -> String {
        let mut levels = vec![0; 4 * 5 * 3];
        outline(&mut levels, 5, corners, thickness, [9, 8, 7]);
        let pixel = |pixel: &[u8; 3]| if *pixel == [9, 8, 7] { '#' } else { '.' };
        levels.as_chunks::<3>().0.chunks(5).map(|row| row.iter().map(pixel).collect::<String>() + "\n").collect()
    }

    #[test]
    fn the_sides_are_drawn_and_nothing_else() {
        assert_eq!(drawn(&[(1.0, 0.0), (4.0, 0.0), (4.0, 3.0), (1.0, 3.0)], 1), ".####\n.#..#\n.#..#\n.####\n");
        assert_eq!(drawn(&[(0.0, 0.0), (3.0, 3.0)], 1), "#....\n.#...\n..#..\n...#.\n");
        assert_eq!(drawn(&[(0.5, 0.5)], 2), "##...\n##...\n.....\n.....\n");
    }

    #[test]
    fn what_is_outside_is_left_out() {
        assert_eq!(drawn(&[(-9.0, 1.0), (90.0, 1.0)], 1), ".....\n#####\n.....\n.....\n");
        let strange = [(f32::NAN, f32::INFINITY), (1e30, -1e30)];
        assert_eq!(drawn(&strange, 3), ".....\n.....\n.....\n.....\n");
        outline(&mut [], 0, &[(0.0, 0.0)], 1, [0; 3]);
    }
}
