//! What the terminal can show.

/// Whether the terminal shows more than ASCII, as far as the environment tells.
pub(crate) fn is_utf8() -> bool {
    let set = |name: &&str| std::env::var(name).is_ok_and(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find(set).and_then(|name| std::env::var(name).ok());
    locale.is_some_and(|locale| ["utf-8", "utf8"].iter().any(|name| locale.to_ascii_lowercase().ends_with(name)))
}
