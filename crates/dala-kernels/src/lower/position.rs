//! Where an element is, from its index: what programs do that look for elements at other places.

use dala_spec::{DType, Expr};

/// Up to here, a product with the reciprocal is near enough to a quotient to be rounded down to it. Devices multiply vectors of
/// floats at once, and divide integers one by one.
const LARGEST: usize = 1 << 21;

/// The coordinates of each element in a row-major shape of these sizes.
pub(crate) fn coordinates(sizes: &[usize]) -> Vec<Expr> {
    let len = sizes.iter().product();
    let (mut rest, mut found) = (Expr::index(), Vec::new());
    for size in sizes.iter().skip(1).rev() {
        let next = quotient(rest.clone(), *size, len);
        found.push(rest - next.clone() * Expr::size(*size));
        rest = next;
    }
    found.push(rest);
    found.reverse();
    found
}

/// `at / size` for positions below `len`.
fn quotient(at: Expr, size: usize, len: usize) -> Expr {
    match len <= LARGEST {
        // Half a step away from whole numbers on either side.
        true => ((at.cast(DType::F32) + 0.5) * Expr::number(1.0 / size as f64)).cast(DType::S32),
        false => at / Expr::size(size),
    }
}

/// The sum of these steps, each of its own length.
pub(crate) fn place(steps: impl IntoIterator<Item = (Expr, usize)>) -> Expr {
    let steps = steps.into_iter().map(|(at, length)| if length == 1 { at } else { at * Expr::size(length) });
    steps.reduce(|sum, step| sum + step).unwrap_or(Expr::from(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reciprocals_are_near_enough() {
        let sizes = (1..2000).chain([4095, 4097, 65_535, 65_537, 1_000_003, LARGEST - 1, LARGEST]);
        for size in sizes {
            let reciprocal = (1.0 / size as f64) as f32;
            // The first and the last position of every quotient.
            for quotient in 0..LARGEST.div_ceil(size) {
                for at in [quotient * size, (quotient * size + size - 1).min(LARGEST)] {
                    assert_eq!(((at as f32 + 0.5) * reciprocal) as usize, at / size, "{at} / {size}");
                }
            }
        }
    }
}
