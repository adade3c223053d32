//! `dala completions` and `dala man`: made from the one definition of the command line.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::args::Cli;
use crate::output::Outcome;

pub(crate) fn completions(shell: Shell, out: &mut dyn Write) -> Result<Outcome> {
    // Into memory first: the library takes a reader that has gone away for a bug.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "dala", &mut script);
    out.write_all(&script)?;
    Ok(Outcome::Success)
}

/// The page of `dala` alone, or a page for every command in a folder.
pub(crate) fn man(folder: Option<&Path>, out: &mut dyn Write) -> Result<Outcome> {
    let mut command = Cli::command();
    command.build();
    let Some(folder) = folder else {
        Man::new(command).render(out)?;
        return Ok(Outcome::Success);
    };
    fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let count = pages(&command, "dala", folder)?;
    writeln!(out, "{}: {count} pages; read one with `man {}/dala.1`", folder.display(), folder.display())?;
    Ok(Outcome::Success)
}

/// Writes the pages of a command and of those below it, and says how many.
fn pages(command: &clap::Command, name: &str, folder: &Path) -> Result<usize> {
    let file = folder.join(format!("{name}.1"));
    let mut page = Vec::new();
    Man::new(command.clone().display_name(name.to_owned())).title(name).render(&mut page)?;
    fs::write(&file, page).with_context(|| format!("cannot write {}", file.display()))?;
    let below = command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help");
    below
        .map(|below| pages(below, &format!("{name}-{}", below.get_name()), folder))
        .try_fold(1, |sum, count| Ok(sum + count?))
}
