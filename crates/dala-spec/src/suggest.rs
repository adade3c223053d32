//! "Did you mean …?"

/// The candidate closest to `name`, if one is close enough to be a likely misspelling.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A third of the letters may be wrong; in one or two letters nothing is a misspelling.
    let letters = name.chars().count();
    let limit = letters / 3;
    candidates
        .into_iter()
        // Each letter too many is one that is wrong; and names of a megabyte take long to compare.
        .filter(|candidate| letters.abs_diff(candidate.chars().count()) <= limit)
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// How many insertions, deletions, replacements and swaps of neighbours turn `a` into `b`.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0usize; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let replace = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let mut best = replace.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    best = best.min(rows[i - 2][j - 2] + 1);
                }
                best
            };
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_misspellings_only() {
        let names = ["relu", "scalar_mul", "gelu"];
        assert_eq!(nearest("rleu", names), Some("relu"));
        assert_eq!(nearest("scaler_mul", names), Some("scalar_mul"));
        assert_eq!(nearest("histogram", names), None);
        assert_eq!(nearest(&"k".repeat(10_000_000), names), None);
    }
}
