//! What is wrong with an expression, and where.

use std::fmt;
use std::sync::Arc;

/// A place in the text an expression was parsed from.
#[derive(Clone, Debug)]
pub(crate) struct Location {
    pub(super) source: Arc<str>,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// An expression that does not parse or type-check. Prints the line and a mark under the place.
#[derive(Clone, Debug, PartialEq)]
pub struct ExprError {
    /// What is wrong, in one line.
    pub message: String,
    /// The text, if the expression came from text.
    pub source: Option<String>,
    /// The characters it is about, counted from 0, end excluded.
    pub span: Option<(usize, usize)>,
}

impl ExprError {
    pub(crate) fn new(message: impl Into<String>, at: &Option<Location>) -> ExprError {
        // Spans are kept in bytes; people count characters.
        let chars = |location: &Location, byte: usize| location.source[..byte].chars().count();
        ExprError {
            message: message.into(),
            source: at.as_ref().map(|location| location.source.to_string()),
            span: at.as_ref().map(|location| (chars(location, location.start), chars(location, location.end))),
        }
    }
}

impl fmt::Display for ExprError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let (Some(source), Some((start, end))) = (&self.source, self.span) {
            // Only the line that the place is on.
            let before: String = source.chars().take(start).collect();
            let column = before.chars().rev().take_while(|c| *c != '\n').count();
            let line = source.lines().nth(before.matches('\n').count()).unwrap_or_default();
            let width = (end - start).clamp(1, (line.chars().count() + 1).saturating_sub(column).max(1));
            write!(f, "\n  {line}\n  {}{}", " ".repeat(column), "^".repeat(width))?;
        }
        Ok(())
    }
}

impl std::error::Error for ExprError {}
