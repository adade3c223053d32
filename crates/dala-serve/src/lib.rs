//! Models and pipelines over the network: the Open Inference Protocol (KServe v2, as Triton speaks it) by HTTP and gRPC.
//!
//! The front reads requests of both protocols, checks them against what is served, and writes answers. Behind it stands one
//! [`Backend`], which decides what runs when and where. The front holds neither a model nor a device; the back knows neither
//! a socket nor a protocol. Tensors travel between them as slices of what the network delivered.
//!
//! The front is the one layer that validates: an [`Ask`] fits the [`ModelInfo`] that the back gave for it. Everything that
//! is not answered is a [`Refusal`], and [`Refusal::said`] is the one table of how both protocols say it.

mod ask;
mod back;
mod backend;
mod datatype;
pub mod double;
mod figures;
mod front;
mod model;
mod net;
mod options;
mod refusal;
mod tensor;
#[cfg(feature = "otel")]
mod traces;
pub mod wire;

pub use ask::{Answer, Ask, PictureAnswer, PictureAsk, Terms, Times};
pub use back::{House, HouseOptions, Opening};
pub use backend::{Backend, Pending};
pub use dala_batch::{Caller, Lane, Limits as QueueLimits};
pub use datatype::Datatype;
pub use figures::{BatchStatistics, DeviceLoad, Load, ModelLoad, Statistics, Total};
pub use model::{Kind, Listing, ModelInfo, Port, State};
pub use net::{BindError, Ended, Server, Stopper};
pub use options::{Limits, Options, TlsFiles};
pub use refusal::{Refusal, Said};
pub use tensor::{Tensor, byte_elements};
#[cfg(feature = "otel")]
pub use traces::{Traces, TracesError};
