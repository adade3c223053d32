//! How far a batch is, on stderr.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle, TermLike};

use crate::args::Progress;

/// Often enough to be smooth.
const HERTZ: u8 = 10;
const WIDTH: u16 = 80;

/// A bar for so many pictures.
pub(super) fn bar(pictures: usize, when: Progress) -> ProgressBar {
    let terminal = io::stderr().is_terminal();
    let target = match when {
        Progress::Never => ProgressDrawTarget::hidden(),
        Progress::Auto if !terminal => ProgressDrawTarget::hidden(),
        Progress::Always if !terminal => ProgressDrawTarget::term_like_with_hz(Box::new(Plain), HERTZ),
        Progress::Auto | Progress::Always => ProgressDrawTarget::stderr_with_hz(HERTZ),
    };
    let bar = ProgressBar::with_draw_target(Some(pictures as u64), target);
    let rate = |state: &ProgressState, out: &mut dyn fmt::Write| {
        // Nothing can be done about a bar that cannot be drawn.
        let _ = write!(out, "{:.1} images/s", state.per_sec());
    };
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {rate}, {eta} left{msg}") {
        bar.set_style(style.with_key("rate", rate).progress_chars("=> "));
    }
    if !bar.is_hidden() {
        bar.enable_steady_tick(Duration::from_millis(500));
    }
    bar
}

/// A bar that was asked for where there is no terminal: each state on a line of its own.
#[derive(Debug)]
struct Plain;

impl TermLike for Plain {
    fn width(&self) -> u16 {
        WIDTH
    }

    fn move_cursor_up(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_down(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_right(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_left(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn write_line(&self, line: &str) -> io::Result<()> {
        self.write_str(line)
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        let text = text.trim();
        if text.is_empty() { Ok(()) } else { writeln!(io::stderr().lock(), "{text}") }
    }

    fn clear_line(&self) -> io::Result<()> {
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        io::stderr().flush()
    }
}
