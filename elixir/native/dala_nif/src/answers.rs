//! Answers to processes, as messages.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use dala_compute::{Command, EngineError, Error, Readback};
use rustler::env::SavedTerm;
use rustler::thread::is_scheduler_thread;
use rustler::{Encoder, Env, LocalPid, OwnedEnv, ResourceArc, Term};

use crate::host::Block;
use crate::lock::lock;
use crate::owners::later;
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
        let _ = env.send_and_clear(pid, |env| (tag.load(env), caught(env, answer)).encode(env));
    }

    /// Does something, and answers with what came of it.
    pub(crate) fn answer_with<T>(self, work: impl FnOnce() -> T, encode: impl for<'a> FnOnce(Env<'a>, T) -> Term<'a>) {
        let done = catch_unwind(AssertUnwindSafe(work));
        self.answer(|env| match done {
            Ok(value) => encode(env, value),
            Err(payload) => panicked(env, &*payload),
        });
    }

    /// Answers `{tag, number, answer}`.
    pub(crate) fn answer_numbered(mut self, number: u64, answer: impl for<'a> FnOnce(Env<'a>) -> Term<'a>) {
        let Caller { pid, env, tag } = &mut self;
        let _ = env.send_and_clear(pid, |env| (tag.load(env), number, caught(env, answer)).encode(env));
    }

    /// Answers how a command ended.
    pub(crate) fn answer_result(self, result: Result<(), Error>) {
        self.answer(|env| terms::result(env, &result));
    }
}

/// The answer. Somebody waits for it: a panic must become one too, or they would wait for ever.
fn caught<'a>(env: Env<'a>, answer: impl FnOnce(Env<'a>) -> Term<'a>) -> Term<'a> {
    catch_unwind(AssertUnwindSafe(|| answer(env))).unwrap_or_else(|payload| panicked(env, &*payload))
}

fn panicked<'a>(env: Env<'a>, payload: &(dyn Any + Send)) -> Term<'a> {
    let text = payload.downcast_ref::<String>().map(String::as_str).or(payload.downcast_ref::<&str>().copied());
    let message = format!("a panic: {}", text.unwrap_or("no message"));
    terms::result(env, &Err(EngineError::Internal { message }.into()))
}

/// Somebody who waits for a command, and may stop waiting.
pub(crate) struct Wait(Arc<Watch>);

impl Wait {
    /// Tells `caller` when `command` has ended.
    pub(crate) fn start(command: Command, caller: Caller) -> ResourceArc<Wait> {
        ResourceArc::new(Wait(watch(command, move |result| caller.answer_result(result))))
    }

    /// Stops waiting: a message was sent before this returns, or none will be.
    pub(crate) fn stop(&self) {
        drop(lock(&self.0.0).take());
    }
}

type Deliver = Box<dyn FnOnce(Result<(), Error>) + Send>;

/// A command that is awaited, by a task that is polled in the thread that ends the command: a thread of its own for answers
/// would make each come later.
pub(crate) struct Watch(Mutex<Option<(Command, Deliver)>>);

/// Delivers how a command ended, never from a thread of the VM.
pub(crate) fn watch(command: Command, deliver: impl FnOnce(Result<(), Error>) + Send + 'static) -> Arc<Watch> {
    let watch = Arc::new(Watch(Mutex::new(Some((command, Box::new(deliver))))));
    watch.clone().look();
    watch
}

impl Watch {
    /// Delivers if the command has ended; otherwise it is looked at again when it has.
    fn look(self: Arc<Self>) {
        let waker = Waker::from(self.clone());
        // The lock is held while it is delivered: whoever stops waiting knows whether it was.
        let mut waiting = lock(&self.0);
        let Some((command, _)) = waiting.as_mut() else { return };
        let Poll::Ready(result) = Pin::new(command).poll(&mut Context::from_waker(&waker)) else { return };
        if is_scheduler_thread() {
            drop(waiting);
            later(move || self.look());
        } else if let Some((_, deliver)) = waiting.take() {
            deliver(result);
        }
    }
}

impl Wake for Watch {
    fn wake(self: Arc<Self>) {
        self.look();
    }
}

/// `{:ok, binary}` with what was read, or the error.
pub(crate) fn data<'a>(env: Env<'a>, result: Result<(), Error>, readback: &Readback) -> Term<'a> {
    match result {
        Ok(()) => (atoms::ok(), binary(env, readback.take().unwrap_or_default())).encode(env),
        Err(error) => (atoms::error(), terms::error(env, &error)).encode(env),
    }
}

/// A binary of these bytes.
pub(crate) fn binary(env: Env<'_>, data: Vec<u8>) -> Term<'_> {
    if data.len() < WORTH_SHARING {
        let mut binary = rustler::NewBinary::new(env, data.len());
        binary.as_mut_slice().copy_from_slice(&data);
        return binary.into();
    }
    ResourceArc::new(Block(data)).make_binary(env, |block| &block.0).to_term(env)
}
