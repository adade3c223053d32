//! Numbers and sizes for people.

/// A size in decimal units: `512 B`, `8.3 MB`.
pub fn format_bytes(bytes: usize) -> String {
    scaled(bytes as u64, 1000, &["kB", "MB", "GB", "TB"])
}

/// A size in binary units, as memory is counted: `512 B`, `7.9 MiB`.
pub fn format_memory(bytes: u64) -> String {
    scaled(bytes, 1024, &["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"])
}

/// One decimal of the largest unit that it fills; each is `step` of the one before.
fn scaled(bytes: u64, step: u64, units: &[&str]) -> String {
    if bytes < step {
        return format!("{bytes} B");
    }
    let (mut size, step) = (bytes as f64 / step as f64, step as f64);
    let mut units = units.iter();
    // From here on, one decimal would round to a whole step.
    while size >= step - 0.05 && units.len() > 1 {
        size /= step;
        units.next();
    }
    format!("{size:.1} {}", units.next().unwrap_or(&""))
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

    #[test]
    fn sizes_use_the_largest_unit_they_fill() {
        for (count, text) in
            [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (3 << 29, "1.5 GiB"), (u64::MAX, "16.0 EiB")]
        {
            assert_eq!(format_memory(count), text);
        }
    }
}
