//! Planned batch sizes.

/// The batch sizes that a key has plans for: rising, none twice, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes(Vec<u32>);

impl Sizes {
    /// In any order; zeros and repetitions are left out. None at all is a plan for single items.
    pub fn new(sizes: impl IntoIterator<Item = u32>) -> Sizes {
        let mut sizes: Vec<u32> = sizes.into_iter().filter(|size| *size > 0).collect();
        sizes.sort_unstable();
        sizes.dedup();
        if sizes.is_empty() {
            sizes.push(1);
        }
        Sizes(sizes)
    }

    /// The sizes, the smallest first.
    pub fn as_slice(&self) -> &[u32] {
        &self.0
    }

    /// The most items that a batch can have.
    pub fn largest(&self) -> u32 {
        self.0.last().copied().unwrap_or(1)
    }
}

impl<const N: usize> From<[u32; N]> for Sizes {
    fn from(sizes: [u32; N]) -> Sizes {
        Sizes::new(sizes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_put_in_order() {
        assert_eq!(Sizes::from([8, 0, 1, 4, 8]).as_slice(), [1, 4, 8]);
        assert_eq!(Sizes::from([]).as_slice(), [1]);
        assert_eq!(Sizes::from([4, 2]).largest(), 4);
    }
}
