//! Numbers and sizes for people.

/// A size for people, in decimal units: `512 B`, `8.3 MB`.
pub fn format_bytes(bytes: usize) -> String {
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut size = bytes as f64 / 1000.0;
    let mut units = ["kB", "MB", "GB", "TB"].into_iter().peekable();
    // From here on, one decimal would round to a thousand.
    while size >= 999.95 && units.len() > 1 {
        size /= 1000.0;
        units.next();
    }
    format!("{size:.1} {}", units.next().unwrap_or("TB"))
}

/// Sizes along axes.
pub(crate) fn times(sizes: &[usize]) -> String {
    sizes.iter().map(usize::to_string).collect::<Vec<_>>().join(" x ")
}

/// How many there are, if not one.
pub(crate) fn several(batch: usize) -> String {
    if batch == 1 { String::new() } else { format!("{batch} of ") }
}

/// A number of things.
pub(crate) fn count(number: usize, of: &str) -> String {
    let ending = match (number, of.ends_with("ch")) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{number} {of}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_use_decimal_units() {
        let sizes = [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (8_294_400, "8.3 MB"),
            (999_949, "999.9 kB"),
            (999_950, "1.0 MB"),
            (1_500_000_000, "1.5 GB"),
            (2_000_000_000_000_000, "2000.0 TB"),
        ];
        for (bytes, text) in sizes {
            assert_eq!(format_bytes(bytes), text);
        }
    }
}
