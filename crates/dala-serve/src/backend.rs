//! What stands behind the protocols: the one seam between the network and devices.

use std::pin::Pin;
use std::sync::Arc;

use crate::{Answer, Ask, Listing, Load, ModelInfo, PictureAnswer, PictureAsk, Refusal, Statistics};

/// An outcome that is not there yet. To drop it is to say that nobody wants it any more: what was not begun need not be.
pub type Pending<T> = Pin<Box<dyn Future<Output = Result<T, Refusal>> + Send>>;

/// Models and pipelines, ready to be asked.
///
/// All of it is called on the threads of an async runtime that also carry every other connection: nothing here may wait,
/// compute at length or read files. What takes time belongs into the [`Pending`] outcome, carried out on other threads.
pub trait Backend: Send + Sync + 'static {
    /// Everything that is served or could be, in a stable order.
    fn index(&self) -> Vec<Listing>;

    /// What requests for a model are checked against. Without a version, that of the newest that is ready.
    ///
    /// # Errors
    ///
    /// `UnknownModel`, `UnknownVersion`, `NotReady`.
    fn model(&self, name: &str, version: Option<&str>) -> Result<Arc<ModelInfo>, Refusal>;

    /// Asks a model. If its version was replaced since it was looked up, a newer one of the same inputs and outputs answers.
    fn infer(&self, ask: Ask) -> Pending<Answer>;

    /// Sends a picture through a pipeline.
    fn picture(&self, ask: PictureAsk) -> Pending<PictureAnswer>;

    /// Loads a model of the repository, or loads it anew. Done when it is ready.
    fn load(&self, model: &str) -> Pending<()>;

    /// Stops serving a model. Done when what it had taken in is answered.
    fn unload(&self, model: &str) -> Pending<()>;

    /// What models did since they were loaded: one, or all of them.
    ///
    /// # Errors
    ///
    /// `UnknownModel`, `UnknownVersion`.
    fn statistics(&self, model: Option<&str>, version: Option<&str>) -> Result<Vec<Statistics>, Refusal>;

    /// How busy it is now.
    fn busy(&self) -> Load;

    /// Whether requests can be answered at all: everything that was to be served at the start is loaded, and no device is lost.
    fn is_ready(&self) -> bool;

    /// Nothing new is taken from now on; requests that are being read may still come. Called once, when the server ends.
    fn drain(&self) {}
}
