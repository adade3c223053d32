//! Frames that flow through the same stages.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dala_compute::{Buffer, Device, HostData, Pushed, Readback, Stage, Stream, StreamOptions, StreamStats};
use rustler::env::SavedTerm;
use rustler::{Encoder, Env, LocalPid, OwnedEnv, Term};

use crate::answers::{self, Caller};
use crate::terms::{self, atoms};

/// One frame.
struct Frame {
    number: u64,
    data: HostData,
    readback: Readback,
}

/// A stream and who waits to push a frame.
pub(crate) struct FrameStream {
    output_bytes: usize,
    in_flight: usize,
    blocks: bool,
    state: Mutex<State>,
    waiting: Arc<Mutex<VecDeque<Caller>>>,
}

struct State {
    /// None once it was stopped.
    stream: Option<Stream<Frame>>,
    next: u64,
}

/// To whom frames are sent, tagged by a term.
struct Recipient {
    pid: LocalPid,
    tag: Mutex<(OwnedEnv, SavedTerm)>,
}

impl Recipient {
    fn send(&self, number: u64, result: Result<(), dala_compute::Error>, readback: &Readback) {
        // A copy of the tag: sending clears the environment of the message.
        let caller = {
            let tag = lock(&self.tag);
            let (env, tag) = &*tag;
            env.run(|env| Caller::to(self.pid, tag.load(env)))
        };
        caller.answer_numbered(number, |env| answers::data(env, result, readback));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing is left half-done by a panic under these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FrameStream {
    pub(crate) fn new(
        device: &Device,
        (input, output): (Option<Buffer>, Option<Buffer>),
        stages: Vec<Stage>,
        (options, blocks): (StreamOptions, bool),
        (pid, tag): (LocalPid, Term),
    ) -> FrameStream {
        let output_bytes = output.as_ref().map_or(0, Buffer::size_bytes);
        let make = move |frame: &Frame| {
            let write = input.as_ref().map(|input| Stage::write_buffer(input, frame.data.clone()));
            let read = output.as_ref().map(|output| Stage::read_buffer(output, &frame.readback));
            write.into_iter().chain(stages.iter().cloned()).chain(read).collect()
        };
        let env = OwnedEnv::new();
        let tag = env.save(tag);
        let recipient = Recipient { pid, tag: Mutex::new((env, tag)) };
        let waiting: Arc<Mutex<VecDeque<Caller>>> = Arc::default();
        let pushers = waiting.clone();
        let on_frame = move |frame: Frame, result| {
            recipient.send(frame.number, result, &frame.readback);
            let next = lock(&pushers).pop_front();
            if let Some(pusher) = next {
                pusher.answer(|env| atoms::ok().encode(env));
            }
        };
        let in_flight = options.in_flight;
        let stream = Stream::with_callback(device, make, options, on_frame);
        let state = Mutex::new(State { stream: Some(stream), next: 0 });
        FrameStream { output_bytes, in_flight, blocks, state, waiting }
    }

    /// Pushes a frame; or says `:full` and tells the caller when to try again.
    pub(crate) fn push<'a>(&self, env: Env<'a>, data: HostData, tag: Term<'a>) -> Term<'a> {
        // One at a time: numbers are in the order of the frames, and of two that find the last place, one gets it.
        let mut state = lock(&self.state);
        let State { stream: Some(stream), next } = &mut *state else {
            return (atoms::error(), atoms::stopped()).encode(env);
        };
        if self.blocks {
            // Before looking: a frame that ends in between finds somebody to tell.
            lock(&self.waiting).push_back(Caller::new(env, tag));
            if stream.in_flight() >= self.in_flight {
                return atoms::full().encode(env);
            }
            lock(&self.waiting).pop_back();
        }
        let frame = Frame { number: *next, data, readback: crate::host::readback(self.output_bytes) };
        *next += 1;
        match stream.push(frame) {
            Ok(Pushed::Started) => atoms::started().encode(env),
            Ok(Pushed::Waiting) => atoms::waiting().encode(env),
            Ok(Pushed::Replaced) => atoms::replaced().encode(env),
            Ok(Pushed::Dropped) => atoms::dropped().encode(env),
            Err(error) => terms::result(env, &Err(error)),
        }
    }

    pub(crate) fn stats(&self) -> Option<StreamStats> {
        lock(&self.state).stream.as_ref().map(Stream::stats)
    }

    /// Cancels frames that have not started; whoever waits to push is told to try again, and finds that it was stopped.
    pub(crate) fn stop(&self) {
        let stream = lock(&self.state).stream.take();
        let waiting = std::mem::take(&mut *lock(&self.waiting));
        crate::owners::later(move || {
            drop(stream);
            for pusher in waiting {
                pusher.answer(|env| atoms::ok().encode(env));
            }
        });
    }
}
