//! Bearer tokens: who may ask.

use std::path::Path;

use subtle::ConstantTimeEq;

/// The tokens that are known.
#[derive(Debug, Default)]
pub(crate) struct Tokens(Vec<String>);

/// Shorter ones could be guessed.
const SHORTEST: usize = 16;

impl Tokens {
    /// Reads a file of tokens, one a line. Empty lines and those that begin with `#` say nothing.
    pub(crate) fn read(path: &Path) -> Result<Tokens, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Tokens::parse(&text).map_err(|problem| format!("{}: {problem}", path.display()))
    }

    fn parse(text: &str) -> Result<Tokens, String> {
        let mut tokens = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let token = line.trim();
            if token.is_empty() || token.starts_with('#') {
                continue;
            }
            let line = index + 1;
            if token.len() < SHORTEST {
                return Err(format!("line {line}: a token has {SHORTEST} characters or more"));
            }
            if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(format!("line {line}: a token has no spaces, and letters, digits and signs only"));
            }
            tokens.push(token.to_owned());
        }
        // An empty file locks everybody out, which nobody wants.
        if tokens.is_empty() { Err("no tokens".to_owned()) } else { Ok(Tokens(tokens)) }
    }

    /// Which token the header has. Compares with all of them in full, so that the time it takes does not tell which nearly fitted.
    pub(crate) fn find(&self, header: &[u8]) -> Option<usize> {
        let (scheme, token) = header.split_at_checked(7)?;
        if !scheme.eq_ignore_ascii_case(b"bearer ") {
            return None;
        }
        let token = token.trim_ascii();
        let mut found = None;
        for (index, known) in self.0.iter().enumerate() {
            if bool::from(known.as_bytes().ct_eq(token)) {
                found = Some(index);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_found() {
        let tokens = Tokens::parse("# two\n0123456789abcdef\n\n  fedcba9876543210  \n").unwrap();
        assert_eq!(tokens.find(b"Bearer 0123456789abcdef"), Some(0));
        assert_eq!(tokens.find(b"bearer  fedcba9876543210"), Some(1));
        for wrong in
            ["", "Bearer ", "Bearer 0123456789abcdeg", "Basic 0123456789abcdef", "0123456789abcdef", "Bearer # two"]
        {
            assert_eq!(tokens.find(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn files_that_are_not_tokens() {
        for wrong in ["", "# only\n", "short", "0123456789 abcdef", "0123456789abcd\u{e9}f"] {
            assert!(Tokens::parse(wrong).is_err(), "{wrong}");
        }
    }
}
