//! A request that was understood, and its answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use dala_batch::{Caller, Lane};

use crate::{ModelInfo, Tensor};

/// A request for a model. It was checked against the [`ModelInfo`]: names, types, shapes and lengths fit.
#[derive(Clone, Debug)]
pub struct Ask {
    /// What it was checked against, as [`Backend::model`](crate::Backend::model) gave it.
    pub model: Arc<ModelInfo>,
    /// One for each input of the model, in its order; those that are optional may be missing.
    pub inputs: Vec<Tensor>,
    /// Which outputs of the model are wanted, by their places there: at least one, each once.
    pub outputs: Vec<usize>,
    /// Whose it is, and when it is wanted.
    pub terms: Terms,
}

/// Whose request it is, and when its answer is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// How urgent it is.
    pub lane: Lane,
    /// After this nobody wants the answer.
    pub deadline: Option<Instant>,
    /// Who asks, so that all get their share.
    pub caller: Caller,
}

/// What a model answered.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The outputs that were wanted, in the order of [`Ask::outputs`].
    pub outputs: Vec<Tensor>,
    /// Which version answered; another than the one asked, if that was replaced meanwhile by one of the same inputs and outputs.
    pub version: Arc<str>,
    /// How long it took.
    pub times: Times,
}

/// Where the time of a request went, told to whoever asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// From when it was taken in until its run began.
    pub queued: Duration,
    /// How long the run took that it was part of.
    pub ran: Duration,
    /// How many items shared that run, its own included.
    pub batch: usize,
}

/// A request for a pipeline: a picture.
#[derive(Clone, Debug)]
pub struct PictureAsk {
    /// The name from the address, as it was sent: to be looked up, never made part of a path.
    pub pipeline: Arc<str>,
    /// The file, as it was sent.
    pub picture: Bytes,
    /// Whose it is, and when it is wanted.
    pub terms: Terms,
}

/// What a pipeline made of a picture.
#[derive(Clone, Debug)]
pub struct PictureAnswer {
    /// A file of this type.
    pub picture: Bytes,
    /// As `image/png`.
    pub content_type: &'static str,
    /// How long it took.
    pub times: Times,
}
