//! Answers to processes, as messages.

use std::sync::{Mutex, PoisonError};

use dala_compute::{Command, Error, Readback};
use rustler::env::SavedTerm;
use rustler::{Encoder, Env, LocalPid, OwnedEnv, ResourceArc, Term};

use crate::host::Block;
use crate::terms::{self, atoms};

/// Smaller data is copied into the message: a binary of its own costs more.
const WORTH_SHARING: usize = 4 * 1024;

/// A process that waits for a message `{tag, answer}`.
pub(crate) struct Caller {
    pid: LocalPid,
    env: OwnedEnv,
    tag: SavedTerm,
}

impl Caller {
    /// The calling process.
    pub(crate) fn new(env: Env, tag: Term) -> Caller {
        Caller::to(env.pid(), tag)
    }

    /// Another process.
    pub(crate) fn to(pid: LocalPid, tag: Term) -> Caller {
        let env = OwnedEnv::new();
        let tag = env.save(tag);
        Caller { pid, env, tag }
    }

    /// Answers. Never from a thread of the VM.
    pub(crate) fn answer(mut self, answer: impl for<'a> FnOnce(Env<'a>) -> Term<'a>) {
        let Caller { pid, env, tag } = &mut self;
        // If the process is gone, nobody wants to know.
        let _ = env.send_and_clear(pid, |env| (tag.load(env), answer(env)).encode(env));
    }

    /// Answers `{tag, number, answer}`.
    pub(crate) fn answer_numbered(mut self, number: u64, answer: impl for<'a> FnOnce(Env<'a>) -> Term<'a>) {
        let Caller { pid, env, tag } = &mut self;
        let _ = env.send_and_clear(pid, |env| (tag.load(env), number, answer(env)).encode(env));
    }

    /// Answers how a command ended.
    pub(crate) fn answer_result(self, result: Result<(), Error>) {
        self.answer(|env| terms::result(env, &result));
    }
}

/// Somebody who waits for a command, and may stop waiting.
pub(crate) struct Wait(Mutex<Option<Caller>>);

impl Wait {
    /// Tells `caller` when `command` has ended.
    pub(crate) fn start(command: &Command, caller: Caller) -> ResourceArc<Wait> {
        let wait = ResourceArc::new(Wait(Mutex::new(Some(caller))));
        let waiting = wait.clone();
        command.on_complete(move |result| {
            // The lock is held while the message is sent: whoever stops waiting knows whether there is one.
            if let Some(caller) = waiting.caller().take() {
                caller.answer_result(result);
            }
        });
        wait
    }

    /// Stops waiting: a message was sent before this returns, or none will be.
    pub(crate) fn stop(&self) {
        drop(self.caller().take());
    }

    fn caller(&self) -> std::sync::MutexGuard<'_, Option<Caller>> {
        // Nothing is left half-done by a panic under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `{:ok, binary}` with what was read, or the error.
pub(crate) fn data<'a>(env: Env<'a>, result: Result<(), Error>, readback: &Readback) -> Term<'a> {
    match result {
        Ok(()) => (atoms::ok(), binary(env, readback.take().unwrap_or_default())).encode(env),
        Err(error) => (atoms::error(), terms::error(env, &error)).encode(env),
    }
}

fn binary(env: Env<'_>, data: Vec<u8>) -> Term<'_> {
    if data.len() < WORTH_SHARING {
        let mut binary = rustler::NewBinary::new(env, data.len());
        binary.as_mut_slice().copy_from_slice(&data);
        return binary.into();
    }
    ResourceArc::new(Block(data)).make_binary(env, |block| &block.0).to_term(env)
}
