//! What lies outside a picture.

/// What lies outside a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Border {
    /// The nearest pixel.
    Clamp,
    /// The picture mirrored, its edge not repeated.
    Reflect,
    /// The picture again.
    Wrap,
    /// Zeros.
    Zero,
}

impl Border {
    /// The words of a `border` param.
    pub const WORDS: &'static [&'static str] = &["clamp", "reflect", "wrap", "zero"];

    /// The border of that name; clamped if there is none.
    pub fn from_word(word: &str) -> Border {
        match word {
            "reflect" => Border::Reflect,
            "wrap" => Border::Wrap,
            "zero" => Border::Zero,
            _ => Border::Clamp,
        }
    }

    /// Where position `at` of an axis of `len` places is found; none if it counts as zero.
    pub fn place(self, at: i64, len: usize) -> Option<usize> {
        let size = len as i64;
        let inside = match self {
            _ if (0..size).contains(&at) => at,
            Border::Zero => return None,
            Border::Clamp => at.clamp(0, size - 1),
            Border::Wrap => at.rem_euclid(size),
            Border::Reflect if size == 1 => 0,
            Border::Reflect => {
                let period = 2 * (size - 1);
                let at = at.rem_euclid(period);
                at.min(period - at)
            }
        };
        Some(inside as usize)
    }
}
