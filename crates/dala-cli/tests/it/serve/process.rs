//! A server that runs in a process of its own.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use super::super::command;
use super::super::folder::Folder;

pub(super) struct Serving {
    child: Child,
    out: BufReader<ChildStdout>,
    pub(super) http: SocketAddr,
    faults: String,
    told: u32,
}

impl Serving {
    /// `dala serve` on the CPU device, with faults that are told by a file of the folder.
    pub(super) fn start(folder: &Folder, arguments: &[&str]) -> Serving {
        Serving::start_with(folder, arguments, |_| {})
    }

    pub(super) fn start_with(folder: &Folder, arguments: &[&str], change: impl FnOnce(&mut Command)) -> Serving {
        let all = [&["serve", "--http", "127.0.0.1:0", "--device", "cpu"], arguments].concat();
        let mut command = command(&all);
        let faults = folder.file("faults", "");
        command.env("DALA_FAULTS", &faults).stdout(Stdio::piped());
        change(&mut command);
        let mut child = command.spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let address = loop {
            let mut line = String::new();
            assert!(out.read_line(&mut line).unwrap() > 0, "the server ended: {:?}", child.wait());
            if let Some((_, rest)) = line.split_once("http://") {
                break rest.split([',', ';']).next().unwrap().to_owned();
            }
        };
        Serving { child, out, http: address.parse().unwrap(), faults, told: 0 }
    }

    /// What goes wrong from now on.
    pub(super) fn tell(&mut self, faults: &str) {
        self.told += 1;
        // Written at once, and never the same twice.
        let next = format!("{}.next", self.faults);
        std::fs::write(&next, format!("{faults}\n# {}", "x".repeat(self.told as usize % 5000))).unwrap();
        std::fs::rename(next, &self.faults).unwrap();
    }

    /// Memory of the process in bytes.
    pub(super) fn memory(&self) -> u64 {
        let statm = std::fs::read_to_string(format!("/proc/{}/statm", self.child.id())).unwrap();
        statm.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
    }

    pub(super) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Ends it as an operator does, and says what it said last.
    pub(super) fn end(mut self) -> String {
        self.signal("TERM");
        let begun = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < Duration::from_secs(300), "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(self.child.wait().unwrap().success());
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        rest
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
