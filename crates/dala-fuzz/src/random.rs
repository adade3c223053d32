//! Numbers that are the same for the same seed.

/// A source of random numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

/// Where numbers end, wrap, or change their type.
const EDGES: [i64; 27] = [
    0,
    1,
    -1,
    2,
    3,
    -2,
    4,
    7,
    8,
    16,
    17,
    127,
    128,
    255,
    256,
    65_535,
    65_536,
    1 << 20,
    i32::MAX as i64,
    i32::MIN as i64,
    u32::MAX as i64,
    1 << 32,
    1 << 40,
    1 << 53,
    1 << 62,
    i64::MAX,
    i64::MIN,
];

impl Random {
    /// The numbers of this seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Any 64 bits.
    pub fn bits(&mut self) -> u64 {
        // SplitMix64: seeds that are close give numbers that are not.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 up to `end`, which is left out; 0 if that is 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.bits() % end.max(1) as u64) as usize
    }

    /// True in so many of a hundred cases.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of these, which must not be none.
    pub fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    /// A number, mostly one where something changes.
    pub fn number(&mut self) -> i64 {
        match self.below(8) {
            0 => self.bits() as i64,
            1 => self.pick(&EDGES).wrapping_sub(1),
            2 => self.below(1000) as i64,
            _ => self.pick(&EDGES),
        }
    }

    /// A float, often a strange one.
    pub fn float(&mut self) -> f64 {
        match self.below(6) {
            0 => f64::from_bits(self.bits()),
            1 => self.pick(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, f64::MAX, f64::MIN_POSITIVE, 5e-324]),
            2 => self.number() as f64,
            _ => self.below(2001) as f64 / 100.0 - 10.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers() {
        let numbers = |seed| {
            let mut random = Random::new(seed);
            [random.bits(), random.below(10) as u64, random.number() as u64]
        };
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
        assert_eq!(Random::new(1).below(0), 0);
    }
}
