//! Inputs from inputs: bytes changed, moved, put in and left out.

use crate::Random;

/// The longest input that is made: what a reader does with more of the same is found by those that are long on purpose.
const LONGEST: usize = 256 << 10;

/// Makes inputs from those that are there.
pub struct Mutator {
    /// What the target's language is made of.
    words: Vec<&'static str>,
}

impl Mutator {
    /// With words that mean something to the target.
    pub fn new(words: &[&'static str]) -> Mutator {
        Mutator { words: words.to_vec() }
    }

    /// Changes an input in one to eight places; `other` is one to take parts from.
    pub fn mutate(&self, bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
        let changes = 1 + random.below(random.clone().pick(&[1, 2, 4, 8]));
        for _ in 0..changes {
            self.once(bytes, other, random);
        }
        bytes.truncate(LONGEST);
    }

    fn once(&self, bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
        let at = random.below(bytes.len() + 1);
        // Mostly a few bytes, at times many.
        let most = random.pick(&[1, 2, 4, 8, 32, 1024]);
        let len = random.below(most) + 1;
        let range = at..(at + len).min(bytes.len());
        match random.below(12) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 if at < bytes.len() => bytes[at] = random.bits() as u8,
            2 if at < bytes.len() => bytes[at] = random.pick(&[0, 1, 0x7f, 0x80, 0xff, b' ', b'\n', b'0', b'9']),
            3 => {
                bytes.drain(range);
            }
            // Once more, or many times.
            4 => {
                let part = bytes[range].to_vec();
                let times = random.pick(&[1, 1, 1, 2, 8, 100]);
                bytes.splice(at..at, part.repeat(times));
            }
            5 => {
                let from = random.below(other.len());
                let part = other[from..(from + 4 * len).min(other.len())].to_vec();
                bytes.splice(at..at, part);
            }
            // The head of one and the tail of the other.
            6 => {
                bytes.truncate(at);
                bytes.extend_from_slice(&other[random.below(other.len())..]);
            }
            7 | 8 if !self.words.is_empty() => {
                let word = random.pick(&self.words);
                let end = if random.chance(50) { at } else { range.end };
                bytes.splice(at..end, word.bytes());
            }
            9 => self.number(bytes, at, random),
            10 => {
                let (from, to) = (range.start, random.below(bytes.len() + 1));
                let part: Vec<u8> = bytes.drain(range).collect();
                let to = if to > from { to.saturating_sub(part.len()) } else { to };
                bytes.splice(to..to, part);
            }
            _ => {
                let fresh: Vec<u8> = (0..len.min(16)).map(|_| random.bits() as u8).collect();
                bytes.splice(at..at, fresh);
            }
        }
    }

    /// Another number in place of one: digits in a text, a length or size elsewhere.
    fn number(&self, bytes: &mut Vec<u8>, at: usize, random: &mut Random) {
        let number = random.number();
        let Some(start) = (at..bytes.len()).take(64).find(|at| bytes[*at].is_ascii_digit()) else {
            let raw = number.to_le_bytes();
            let size = random.pick(&[1, 2, 4, 8]).min(bytes.len() - at);
            bytes[at..at + size].copy_from_slice(&raw[..size]);
            return;
        };
        let len = bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let text = match random.below(4) {
            0 => format!("{:?}", random.float()),
            _ => number.to_string(),
        };
        bytes.splice(start..start + len, text.into_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_input_is_mutated_the_same_way_for_the_same_seed() {
        let mutator = Mutator::new(&["word"]);
        let mut changed = 0;
        for seed in 0..2000 {
            let make = || {
                let mut random = Random::new(seed);
                let mut bytes = b"clamp(x * 12, 0)"[..random.below(17)].to_vec();
                let before = bytes.clone();
                mutator.mutate(&mut bytes, &b"other"[..random.below(6)], &mut random);
                (before, bytes)
            };
            assert_eq!(make(), make());
            let (before, after) = make();
            assert!(after.len() <= LONGEST);
            changed += usize::from(before != after);
        }
        assert!(changed > 1500, "{changed}");
    }
}
