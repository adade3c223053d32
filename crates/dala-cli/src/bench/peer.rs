//! Other programs that do the same work.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};

/// A Python program in a process of its own, which runs a round when it is told to.
pub(super) struct Peer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts a program and waits until it is ready. `needs` is what Python must have.
    pub(super) fn start(program: &str, arguments: &[&str], needs: &str) -> Result<Peer> {
        let fix = || format!("the peer needs Python with {needs}: pip install -r benches/peers/requirements.txt");
        let mut child = Command::new("python3")
            .args(["-c", program])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(fix)?;
        let (input, output) = (child.stdin.take().with_context(fix)?, child.stdout.take().with_context(fix)?);
        let mut peer = Peer { child, input, output: BufReader::new(output) };
        peer.line().with_context(fix)?;
        Ok(peer)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        if line.is_empty() {
            bail!("the peer has ended");
        }
        Ok(line.trim().to_owned())
    }

    /// What it answers to a line.
    pub(super) fn ask(&mut self, what: &str) -> Result<String> {
        writeln!(self.input, "{what}")?;
        self.line()
    }

    /// The milliseconds of one run.
    pub(super) fn time(&mut self, what: &str) -> Result<f64> {
        let line = self.ask(what)?;
        line.parse().with_context(|| format!("the peer said {line}"))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It ends by itself when its input does; this is for one that hangs.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
