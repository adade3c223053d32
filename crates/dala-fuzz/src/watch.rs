//! Runs a session in a process of its own, and sees what a session cannot: that the process ends, or stands still.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::{Failure, session};

/// One input may take so long before its process is ended.
const HANGS: Duration = Duration::from_secs(300);
/// A target that ends its process this often is no longer tried.
const MOST_ENDS: usize = 10;
/// How often is looked.
const PAUSE: Duration = Duration::from_millis(50);

/// What is to be watched.
pub struct Watched<'a> {
    /// The target's name.
    pub target: &'a str,
    /// How long it is given inputs.
    pub time: Duration,
    /// Which inputs; a session after one that ended has the next seed.
    pub seed: u64,
    /// Where inputs that fail are put.
    pub failures: &'a Path,
}

/// How a target fared.
pub struct Seen {
    /// Whether a session reported a failure itself.
    pub failed: bool,
    /// Inputs that ended their process or made it stand still.
    pub ends: Vec<Failure>,
}

/// Runs sessions of a target, until its time is over. `command` makes the process of a session: of so many seconds, with a
/// seed, that notes its inputs in a file. Its code is 0 if all went well, and 1 if inputs failed.
///
/// # Errors
///
/// The process cannot be started, or a file not be read or written.
pub fn watch(watched: &Watched, command: impl Fn(f64, u64, &Path) -> Command) -> Result<Seen> {
    let state = std::env::temp_dir().join(format!("dala-fuzz-{}-{}", watched.target, std::process::id()));
    let start = Instant::now();
    let mut seen = Seen { failed: false, ends: Vec::new() };
    let mut seed = watched.seed;
    loop {
        let left = watched.time.saturating_sub(start.elapsed());
        fs::write(&state, []).with_context(|| format!("cannot write {}", state.display()))?;
        let mut child = command(left.as_secs_f64(), seed, &state).spawn().context("cannot start a session")?;
        let what = match end_of(&mut child, &state)? {
            End::Done(failed) => {
                seen.failed |= failed;
                break;
            }
            End::Died(how) => format!("ends the process ({how})"),
            End::Hangs => format!("takes over {} s", HANGS.as_secs()),
        };
        let bytes = fs::read(&state)?;
        let input = session::noted(&bytes).unwrap_or_default();
        let input: PathBuf = session::save(watched.failures, watched.target, input)?;
        seen.ends.push(Failure { what, input, seed, count: 1 });
        seed = seed.wrapping_add(1);
        if seen.ends.len() >= MOST_ENDS || start.elapsed() >= watched.time {
            break;
        }
    }
    // Nothing is left behind; that it is gone already is as good.
    let _ = fs::remove_file(&state);
    Ok(seen)
}

enum End {
    /// It came to its end, with failures or without.
    Done(bool),
    Died(String),
    Hangs,
}

fn end_of(child: &mut Child, state: &Path) -> Result<End> {
    let (mut last, mut since) = (None, Instant::now());
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(match status.code() {
                Some(code @ (0 | 1)) => End::Done(code == 1),
                _ => End::Died(status.to_string()),
            });
        }
        std::thread::sleep(PAUSE);
        let count = session::count(state);
        if count != last || count.is_none() {
            (last, since) = (count, Instant::now());
        } else if since.elapsed() > HANGS {
            child.kill()?;
            child.wait()?;
            return Ok(End::Hangs);
        }
    }
}
