//! A back that does as it is told: it answers, refuses, or waits.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use dala_serve::double::Identity;
use dala_serve::{
    Answer, Ask, Backend, Listing, Load, ModelInfo, Pending, PictureAnswer, PictureAsk, Refusal, Statistics, Terms,
};
use tokio::sync::watch;

/// Like [`Identity`], unless told otherwise.
pub(crate) struct Told {
    pub(crate) same: Identity,
    /// What every request is refused with.
    pub(crate) refuses: Mutex<Option<Refusal>>,
    /// Requests wait while it is true.
    pub(crate) holds: watch::Sender<bool>,
    /// What the last request came with.
    pub(crate) terms: Mutex<Option<Terms>>,
    /// Requests that wait.
    pub(crate) waiting: Arc<AtomicUsize>,
    pub(crate) load: Mutex<Load>,
}

impl Default for Told {
    fn default() -> Self {
        Told {
            same: Identity::default(),
            refuses: Mutex::default(),
            holds: watch::Sender::new(false),
            terms: Mutex::default(),
            waiting: Arc::default(),
            load: Mutex::default(),
        }
    }
}

/// Counts one more for as long as it is there.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Told {
    fn told<T: Send + 'static>(&self, terms: Terms, otherwise: Pending<T>) -> Pending<T> {
        *self.terms.lock().unwrap() = Some(terms);
        if let Some(refusal) = self.refuses.lock().unwrap().clone() {
            return Box::pin(std::future::ready(Err(refusal)));
        }
        let mut holds = self.holds.subscribe();
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let counted = Counted(self.waiting.clone());
        Box::pin(async move {
            let _counted = counted;
            holds.wait_for(|holds| !holds).await.unwrap();
            otherwise.await
        })
    }
}

impl Backend for Told {
    fn index(&self) -> Vec<Listing> {
        self.same.index()
    }

    fn model(&self, name: &str, version: Option<&str>) -> Result<Arc<ModelInfo>, Refusal> {
        self.same.model(name, version)
    }

    fn infer(&self, ask: Ask) -> Pending<Answer> {
        let terms = ask.terms;
        self.told(terms, self.same.infer(ask))
    }

    fn picture(&self, ask: PictureAsk) -> Pending<PictureAnswer> {
        let terms = ask.terms;
        self.told(terms, self.same.picture(ask))
    }

    fn load(&self, model: &str) -> Pending<()> {
        self.same.load(model)
    }

    fn unload(&self, model: &str) -> Pending<()> {
        self.same.unload(model)
    }

    fn statistics(&self, model: Option<&str>, version: Option<&str>) -> Result<Vec<Statistics>, Refusal> {
        self.same.statistics(model, version)
    }

    fn busy(&self) -> Load {
        self.load.lock().unwrap().clone()
    }

    fn is_ready(&self) -> bool {
        true
    }
}
