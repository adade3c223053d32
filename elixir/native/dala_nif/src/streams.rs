//! Frames that flow through the same stages.

use std::sync::{Arc, Mutex};

use dala_compute::{Buffer, Device, Error, HostData, Pushed, Readback, Stage, Stream, StreamOptions, StreamStats};
use rustler::env::SavedTerm;
use rustler::{Encoder, Env, LocalPid, OwnedEnv, ResourceArc, Term};

use crate::answers::{self, Caller};
use crate::host::readback;
use crate::lock::lock;
use crate::owners::later;
use crate::terms::{self, atoms};

/// One frame. It keeps its stream: when garbage is collected must not decide what becomes of a frame.
struct Frame {
    number: u64,
    data: HostData,
    readback: Readback,
    _stream: ResourceArc<FrameStream>,
}

/// A stream and who waits to push a frame.
pub(crate) struct FrameStream {
    blocks: bool,
    state: Mutex<State>,
    recipient: Arc<Recipient>,
    pushers: Arc<Pushers>,
}

struct State {
    /// None once it was stopped.
    stream: Option<Stream<Frame>>,
    next: u64,
}

/// To whom frames are sent, tagged by a term; to nobody once that is gone.
struct Recipient {
    pid: LocalPid,
    tag: Mutex<Option<(OwnedEnv, SavedTerm)>>,
}

impl Recipient {
    fn send(&self, number: u64, result: Result<(), Error>, readback: &Readback) {
        // Held while it is sent: after `mute` nothing comes.
        let tag = lock(&self.tag);
        if let Some((env, tag)) = &*tag {
            let caller = env.run(|env| Caller::to(self.pid, tag.load(env)));
            caller.answer_numbered(number, |env| answers::data(env, result, readback));
        }
    }

    fn mute(&self) {
        lock(&self.tag).take();
    }
}

/// Processes that wait until there is room for their frame.
#[derive(Default)]
struct Pushers(Mutex<Vec<(LocalPid, Caller)>>);

impl Pushers {
    /// The calling process waits, once, however often it asks.
    fn add(&self, env: Env, tag: Term) {
        let mut waiting = lock(&self.0);
        waiting.retain(|(pid, _)| *pid != env.pid());
        waiting.push((env.pid(), Caller::new(env, tag)));
    }

    fn remove(&self, env: Env) {
        lock(&self.0).retain(|(pid, _)| *pid != env.pid());
    }

    /// There is room for one.
    fn wake_one(&self) {
        // Held while it is told: one that was removed is not told any more.
        let mut waiting = lock(&self.0);
        if !waiting.is_empty() {
            let (_, caller) = waiting.remove(0);
            caller.answer(|env| atoms::ok().encode(env));
        }
    }

    fn wake_all(&self) {
        for (_, caller) in lock(&self.0).drain(..) {
            caller.answer(|env| atoms::ok().encode(env));
        }
    }
}

impl FrameStream {
    pub(crate) fn new(
        device: &Device,
        (input, output): (Option<Buffer>, Option<Buffer>),
        stages: Vec<Stage>,
        (options, blocks): (StreamOptions, bool),
        (pid, tag): (LocalPid, Term),
    ) -> FrameStream {
        let make = move |frame: &Frame| {
            let write = input.as_ref().map(|input| Stage::write_buffer(input, frame.data.clone()));
            let read = output.as_ref().map(|output| Stage::read_buffer(output, &frame.readback));
            write.into_iter().chain(stages.iter().cloned()).chain(read).collect()
        };
        let env = OwnedEnv::new();
        let tag = env.save(tag);
        let recipient = Arc::new(Recipient { pid, tag: Mutex::new(Some((env, tag))) });
        let pushers: Arc<Pushers> = Arc::default();
        let (to, waiting) = (recipient.clone(), pushers.clone());
        let on_frame = move |frame: Frame, result| {
            to.send(frame.number, result, &frame.readback);
            waiting.wake_one();
        };
        let stream = Stream::with_callback(device, make, options, on_frame);
        let state = Mutex::new(State { stream: Some(stream), next: 0 });
        FrameStream { blocks, state, recipient, pushers }
    }

    /// Pushes a frame. If the stream blocks and there is no room it says `:full`, and tells the caller when to try again; the
    /// caller tries from time to time without being told too, for a lane may be full of others' commands.
    pub(crate) fn push<'a>(this: &ResourceArc<FrameStream>, env: Env<'a>, data: HostData, tag: Term<'a>) -> Term<'a> {
        // One at a time: numbers are in the order of the frames.
        let mut state = lock(&this.state);
        let State { stream: Some(stream), next } = &mut *state else {
            // It may be among those that are still to be told.
            this.pushers.remove(env);
            return (atoms::error(), atoms::stopped()).encode(env);
        };
        let frame = Frame { number: *next, data, readback: readback(), _stream: this.clone() };
        let pushed = if this.blocks {
            // Before looking: a frame that ends in between finds somebody to tell.
            this.pushers.add(env, tag);
            match stream.try_push(frame) {
                Ok(Some(_)) => return atoms::full().encode(env),
                Ok(None) => Ok(Pushed::Started),
                Err(error) => Err(error),
            }
        } else {
            stream.push(frame)
        };
        *next += 1;
        drop(state);
        if this.blocks {
            this.pushers.remove(env);
        }
        match pushed {
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

    /// Cancels frames that have not started; each is answered, unless nobody wants to hear of them any more. Whoever waits to
    /// push is told to try again, and finds that it was stopped.
    pub(crate) fn stop(&self, mute: bool) {
        if mute {
            self.recipient.mute();
        }
        let stream = lock(&self.state).stream.take();
        let (recipient, pushers) = (self.recipient.clone(), self.pushers.clone());
        later(move || {
            for frame in stream.iter().flat_map(Stream::close) {
                recipient.send(frame.number, Err(Error::Stopped), &frame.readback);
            }
            pushers.wake_all();
        });
    }
}
