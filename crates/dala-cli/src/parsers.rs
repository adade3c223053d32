//! What arguments of several commands are made of.

use std::time::Duration;

/// `200ms` or `1.5s`.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let (number, seconds) = match text.strip_suffix("ms") {
        Some(number) => (number, 1e-3),
        None => (text.strip_suffix('s').unwrap_or_default(), 1.0),
    };
    let time = number.parse().ok().and_then(|number: f64| Duration::try_from_secs_f64(number * seconds).ok());
    time.filter(|time| !time.is_zero()).ok_or_else(|| "write a time above zero, such as 200ms or 1.5s".to_owned())
}

/// A count of at least one.
pub(crate) fn positive(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|count| *count > 0).ok_or_else(|| "write a whole number above zero".to_owned())
}

/// How often a second.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate: &f64| (0.001..=1e9).contains(rate));
    rate.ok_or_else(|| "write how many a second: a number from 0.001 to 1000000000".to_owned())
}
