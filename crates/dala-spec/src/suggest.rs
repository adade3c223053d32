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
        .map(|candidate| (strsim::osa_distance(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
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
