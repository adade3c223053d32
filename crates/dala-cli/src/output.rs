//! How every command answers: JSON, columns, one error message and the exit code.

use std::io::{self, Write};
use std::process::ExitCode;

use serde::Serialize;

/// How a command that did not fail ended.
pub(crate) enum Outcome {
    /// It has answered.
    Success,
    /// The answer is no, for the reason given.
    Negative(String),
}

/// The exit code for how a command ended; what is wrong goes to stderr.
pub(crate) fn exit_code(result: anyhow::Result<Outcome>) -> ExitCode {
    match result {
        Ok(Outcome::Success) => ExitCode::SUCCESS,
        Ok(Outcome::Negative(reason)) => {
            report(&reason);
            ExitCode::from(1)
        }
        // The reader has seen enough: `dala kernels | head -1`.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            report(&format!("{error:#}"));
            ExitCode::from(2)
        }
    }
}

fn report(message: &str) {
    // Nobody is left to tell if stderr is closed too.
    let _ = tell(&format!("error: {message}"));
}

/// Something that should be known, but changes nothing.
pub(crate) fn warn(message: &str) {
    let _ = tell(&format!("warning: {message}"));
}

/// Says a line where it cannot get between results.
pub(crate) fn tell(text: &str) -> io::Result<()> {
    writeln!(io::stderr().lock(), "{text}")
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let mut failures = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    failures.any(|failure| failure.kind() == io::ErrorKind::BrokenPipe)
}

/// Writes a value as indented JSON.
pub(crate) fn json(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)
}

/// Writes rows in columns as wide as their widest cell, each line after `indent`.
pub(crate) fn columns<const N: usize>(out: &mut dyn Write, indent: &str, rows: &[[String; N]]) -> io::Result<()> {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    for row in rows {
        let cells: Vec<String> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        writeln!(out, "{indent}{}", cells.join("  ").trim_end())?;
    }
    Ok(())
}

/// So many of something, in words: `1 kernel`, `2 kernels`.
pub(crate) fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_end_at_their_text() {
        let mut text = Vec::new();
        let rows = [["é".to_owned(), "b".to_owned()], ["long".to_owned(), String::new()]];
        columns(&mut text, "  ", &rows).unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), "  é     b\n  long\n");
    }

    #[test]
    fn a_closed_pipe_is_found_below_other_causes() {
        let closed = io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(is_broken_pipe(&anyhow::Error::new(closed).context("while printing")));
        assert!(!is_broken_pipe(&anyhow::anyhow!("broken pipe")));
    }
}
