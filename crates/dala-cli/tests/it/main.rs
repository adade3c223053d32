//! Runs the `dala` command as a shell does and compares output and exit code.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, missing_docs, reason = "tests")]

mod architecture;
mod batch;
#[cfg(unix)]
mod cache;
mod commands;
mod documents;
mod eval;
mod folder;
mod formats;
mod info;
mod kernels;
mod models;
mod photos;
mod pipelines;
mod pipes;
mod read;
mod recipes;
mod rooms;
#[cfg(target_os = "linux")]
mod serve;
#[cfg(unix)]
mod watch;

use std::process::{Command, Output};

/// What a run of the command left behind.
struct Run {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Run {
    /// The output of a run that succeeded.
    fn success(self) -> String {
        assert_eq!(self.code, 0, "{}", self.stderr);
        self.stdout
    }

    /// The same, parsed.
    fn json(self) -> serde_json::Value {
        serde_json::from_str(&self.success()).unwrap()
    }

    /// The message of a run that ended with `code`, without output.
    fn error(self, code: i32) -> String {
        assert_eq!((self.code, self.stdout.as_str()), (code, ""), "{}", self.stderr);
        self.stderr
    }
}

/// The command, out of reach of the caller's choice of device.
fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dala"));
    command.args(arguments).env_remove("DALA_DEVICE");
    command
}

impl From<Output> for Run {
    fn from(output: Output) -> Run {
        Run {
            code: output.status.code().unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

fn dala(arguments: &[&str]) -> Run {
    command(arguments).output().unwrap().into()
}

#[test]
fn help_and_version_are_answers_and_bad_arguments_are_failures() {
    assert!(dala(&["--help"]).success().contains("kernels"));
    assert_eq!(dala(&["--version"]).success(), concat!("dala ", env!("CARGO_PKG_VERSION"), "\n"));
    assert!(dala(&["dance"]).error(2).starts_with("error: "));
    assert!(dala(&["eval", "x", "--dtype", "f8", "--", "1"]).error(2).contains("possible values: f32, f64"));
}
