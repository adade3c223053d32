//! Everything that is served, by its name.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};
use std::thread;
use std::time::{Duration, Instant};

use dala_batch::{Lane, Limits};
use dala_model::Model;
use dala_plan::PipelineText;
use tokio::sync::oneshot;

use super::desk::{Asked, Desk};
use super::home::Home;
use super::onnx::Onnx;
use super::picture::Pictures;
use super::repository::{self, Found, Stamp};
use super::version::Version;
use super::work::{Failure, Served, Share};
use crate::{
    Answer, Ask, Backend, DeviceLoad, Kind, Listing, Load, ModelInfo, ModelLoad, Pending, PictureAnswer, PictureAsk,
    Refusal, State, Statistics, Tensor, Terms,
};

/// How often a folder is looked through.
const LOOK: Duration = Duration::from_millis(500);

/// How often it is looked whether what is unloaded has ended.
const ENDED: Duration = Duration::from_millis(2);

/// What a house is opened with.
#[derive(Clone, Debug)]
pub struct HouseOptions {
    /// The device that everything runs on, as `dala info` names it.
    pub device: String,
    /// Threads of a CPU device; one for each core if nothing is said.
    pub threads: Option<usize>,
    /// How many requests may wait, and how many batches may be with the device.
    pub limits: Limits,
    /// Items of runs that are planned: a run is of the best of these.
    pub sizes: Vec<u32>,
    /// The most pixels of a picture that is read.
    pub pixels: u64,
    /// Whether models are run before they are ready, so that nobody waits for their kernels.
    pub warm: bool,
}

impl Default for HouseOptions {
    fn default() -> HouseOptions {
        HouseOptions {
            device: "auto".to_owned(),
            threads: None,
            limits: Limits { overtakes: true, ..Limits::default() },
            sizes: vec![1, 2, 4, 8],
            pixels: 1 << 25,
            warm: true,
        }
    }
}

/// Models and pipelines on one device: the [`Backend`] of a server.
#[derive(Clone)]
pub struct House(Arc<Inner>);

/// Held by whoever still puts things into a [`House`].
#[must_use = "the house is ready without it"]
pub struct Opening(Arc<Inner>);

impl Drop for Opening {
    fn drop(&mut self) {
        self.0.opening.fetch_sub(1, Ordering::AcqRel);
    }
}

struct Inner {
    options: HouseOptions,
    home: Arc<Home>,
    desk: Desk,
    entries: RwLock<BTreeMap<Arc<str>, Entry>>,
    /// One thing is loaded at a time: loading takes memory and all cores.
    loading: Mutex<()>,
    busy: Mutex<Busy>,
    /// How many still put things into it that are to be there from the beginning.
    opening: AtomicUsize,
}

/// Something that is served or was.
struct Entry {
    kind: Kind,
    source: Source,
    state: State,
    reason: String,
    /// Whether its end was wanted: nobody misses it.
    unloaded: bool,
    current: Option<Arc<Version>>,
    /// How many versions there were.
    versions: u64,
    /// Of the file that was loaded last, whatever came of it.
    stamp: Option<Stamp>,
    /// Whether it is part of a folder that is watched.
    watched: bool,
}

/// Where something comes from.
#[derive(Clone)]
enum Source {
    File(PathBuf),
    Pipeline(PipelineText),
}

/// When it was last asked how busy the device is, and how much it had worked then.
struct Busy {
    at: Instant,
    worked: Duration,
    share: f32,
}

impl House {
    /// Opens the device. Nothing is served yet.
    ///
    /// # Errors
    /// The device cannot be opened, or threads cannot be started, in words.
    pub fn open(options: HouseOptions) -> Result<House, Refusal> {
        let home = Home::open(&options.device, options.threads);
        let home = home.map_err(|error| Refusal::Internal(error.to_string()))?;
        let desk = Desk::open(options.limits).map_err(|error| Refusal::Internal(error.to_string()))?;
        let busy = Busy { at: Instant::now(), worked: Duration::ZERO, share: 0.0 };
        Ok(House(Arc::new(Inner {
            options,
            home: Arc::new(home),
            desk,
            entries: RwLock::default(),
            loading: Mutex::default(),
            busy: Mutex::new(busy),
            opening: 0.into(),
        })))
    }

    /// The house is not ready as long as this is held, whatever is in it: for those who open it to the public before all is there.
    pub fn opening(&self) -> Opening {
        self.0.opening.fetch_add(1, Ordering::AcqRel);
        Opening(self.0.clone())
    }

    /// Serves a file: a model if it ends in `.onnx`, a pipeline if in `.toml`. Waits until it is ready.
    ///
    /// # Errors
    /// Why it cannot be served.
    pub fn add_file(&self, name: &str, path: &Path) -> Result<(), Refusal> {
        self.0.announce(name, Source::File(path.to_owned()), false);
        self.0.load_now(name)
    }

    /// Serves a pipeline. Waits until it is ready.
    ///
    /// # Errors
    /// Why it cannot be served.
    pub fn add_pipeline(&self, name: &str, text: PipelineText) -> Result<(), Refusal> {
        self.0.announce(name, Source::Pipeline(text), false);
        self.0.load_now(name)
    }

    /// Serves what is in a folder, and follows it: files that come are loaded, those that change replace what was there when
    /// they are ready, those that go are unloaded. Waits until what is there now is loaded; what cannot be is listed with its reason.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn watch(&self, folder: &Path) -> Result<(), Refusal> {
        let cannot = |error: std::io::Error| Refusal::Internal(format!("cannot read {}: {error}", folder.display()));
        let found = repository::look(folder).map_err(cannot)?;
        for (name, (path, _)) in &found {
            self.0.announce(name, Source::File(path.clone()), true);
            // Why it could not be loaded is in the listing.
            let _ = self.0.load_now(name);
        }
        let (house, folder) = (Arc::downgrade(&self.0), folder.to_owned());
        let follow = move || follow(&house, &folder, found);
        thread::Builder::new().name("dala-serve-folder".to_owned()).spawn(follow).map_err(cannot)?;
        Ok(())
    }
}

/// Follows a folder as long as the house stands.
fn follow(house: &Weak<Inner>, folder: &Path, mut before: Found) {
    loop {
        thread::sleep(LOOK);
        let Some(house) = house.upgrade() else { return };
        // A folder that cannot be read for a moment keeps what it had.
        let Ok(now) = repository::look(folder) else { continue };
        for (name, (path, stamp)) in &now {
            // A file that is still being written changes between two looks.
            let steady = before.get(name).is_some_and(|(_, before)| before == stamp);
            if steady && house.is_news(name, *stamp) {
                house.announce(name, Source::File(path.clone()), true);
                let _ = house.load_now(name);
            }
        }
        for name in before.keys().filter(|name| !now.contains_key(*name)) {
            house.retire(name, "its file is gone");
            house.forget_file(name);
        }
        before = now;
    }
}

impl Inner {
    fn entries(&self) -> RwLockReadGuard<'_, BTreeMap<Arc<str>, Entry>> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn entries_mut(&self) -> RwLockWriteGuard<'_, BTreeMap<Arc<str>, Entry>> {
        self.entries.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a name known, with where it comes from.
    fn announce(&self, name: &str, source: Source, watched: bool) {
        let kind = match &source {
            Source::File(path) if path.extension().is_some_and(|kind| kind == "onnx") => Kind::Model,
            _ => Kind::Pipeline,
        };
        let mut entries = self.entries_mut();
        let entry = entries.entry(name.into()).or_insert_with(|| Entry {
            kind,
            source: source.clone(),
            state: State::Unavailable,
            reason: "it was not loaded yet".to_owned(),
            unloaded: false,
            current: None,
            versions: 0,
            stamp: None,
            watched,
        });
        entry.kind = kind;
        entry.source = source;
        entry.watched |= watched;
    }

    /// Whatever file comes by that name is news.
    fn forget_file(&self, name: &str) {
        self.entries_mut().entry(name.into()).and_modify(|entry| entry.stamp = None);
    }

    /// Whether a file is another than the one that was loaded last.
    fn is_news(&self, name: &str, stamp: Stamp) -> bool {
        self.entries().get(name).is_none_or(|entry| entry.stamp != Some(stamp))
    }

    /// Loads what a name stands for; what was there before answers until it is ready.
    fn load_now(&self, name: &str) -> Result<(), Refusal> {
        let _one = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        let (source, number) = {
            let mut entries = self.entries_mut();
            let entry = entries.get_mut(name).ok_or_else(|| Refusal::UnknownModel(name.to_owned()))?;
            entry.versions += 1;
            entry.unloaded = false;
            if entry.current.is_none() {
                (entry.state, entry.reason) = (State::Loading, String::new());
            }
            (entry.source.clone(), entry.versions)
        };
        // Looked at before it is read: what is written meanwhile is news.
        let stamp = match &source {
            Source::File(path) => Stamp::of(path).ok(),
            Source::Pipeline(_) => None,
        };
        let made = self.make(name, &number.to_string(), &source);
        let mut entries = self.entries_mut();
        let Some(entry) = entries.get_mut(name) else { return Ok(()) };
        entry.stamp = stamp;
        let before = match made {
            Ok(version) => {
                (entry.state, entry.reason) = (State::Ready, String::new());
                entry.current.replace(Arc::new(version))
            }
            Err(reason) => {
                entry.reason.clone_from(&reason);
                if entry.current.is_none() {
                    entry.state = State::Unavailable;
                }
                drop(entries);
                return Err(Refusal::NotReady { model: name.to_owned(), reason });
            }
        };
        // What it replaces is let go of where nobody waits.
        drop(entries);
        drop(before);
        Ok(())
    }

    fn make(&self, name: &str, version: &str, source: &Source) -> Result<Version, String> {
        let text = match source {
            Source::File(path) if path.extension().is_some_and(|kind| kind == "onnx") => {
                let model = Model::open(path).map_err(|error| error.to_string())?;
                return self.model(name, version, model);
            }
            Source::File(path) => {
                let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
                PipelineText::from_toml(&text).map_err(|error| error.to_string())?
            }
            Source::Pipeline(text) => text.clone(),
        };
        let work = Pictures::new(text, &self.home, self.options.pixels)?;
        work.check()?;
        Ok(Version::new(Pictures::info(name, version), Box::new(work), self.desk.shared(), vec![1]))
    }

    /// A model, with its kernels built and its runs timed where its sizes are known.
    fn model(&self, name: &str, version: &str, model: Model) -> Result<Version, String> {
        let work = Onnx::new(model, &self.home);
        let sizes = if work.is_shared() { self.options.sizes.clone() } else { vec![1] };
        let most = sizes.iter().copied().max().unwrap_or(1) as usize;
        let info = work.info(name, version, most);
        let outputs: Vec<usize> = (0..info.outputs.len()).collect();
        let samples: Vec<(usize, Vec<Tensor>)> =
            sizes.iter().filter_map(|size| Some((*size as usize, work.zeros(*size as usize)?))).collect();
        let version = Version::new(info, Box::new(work), self.desk.shared(), sizes);
        if !self.options.warm {
            return Ok(version);
        }
        for (size, inputs) in samples {
            let share = [Share { inputs: Arc::new(inputs), outputs: outputs.clone() }];
            let mut best = Duration::MAX;
            for _ in 0..3 {
                let begun = Instant::now();
                version.run(size, Lane::Background, &share).map_err(|failure| match failure {
                    Failure::Refused(refusal) => format!("a run of {size} fails: {refusal}"),
                    Failure::Lost => "the device was lost".to_owned(),
                })?;
                best = best.min(begun.elapsed());
            }
            version.assume(&share[0].inputs, size, best);
        }
        version.forget_statistics();
        Ok(version)
    }

    /// Stops serving something; what it took in is still answered. Gives what has to end.
    fn retire(&self, name: &str, why: &str) -> Option<Weak<Version>> {
        let mut entries = self.entries_mut();
        let entry = entries.get_mut(name)?;
        let current = entry.current.take();
        (entry.state, entry.reason, entry.unloaded) = (State::Unavailable, why.to_owned(), true);
        drop(entries);
        current.as_ref().map(Arc::downgrade)
    }

    fn current(&self, name: &str) -> Option<Result<Arc<Version>, Refusal>> {
        let entries = self.entries();
        let entry = entries.get(name)?;
        Some(entry.current.clone().ok_or_else(|| {
            let reason = if entry.reason.is_empty() { entry.state.name().to_lowercase() } else { entry.reason.clone() };
            Refusal::NotReady { model: name.to_owned(), reason }
        }))
    }

    /// Hands a request to the desk; the answer comes with what it was answered by.
    fn ask(&self, version: Arc<Version>, inputs: Vec<Tensor>, outputs: Vec<usize>, terms: Terms) -> Pending<Answer> {
        if self.home.is_gone() {
            let reason = "its device is lost, and could not be opened again".to_owned();
            return refused(Refusal::NotReady { model: version.name().to_owned(), reason });
        }
        let (key, items) = version.key(&inputs);
        let number = version.info.version.clone();
        let waiting = self.desk.ask(Asked { key, served: version, inputs, outputs, items, terms });
        match waiting {
            Ok(waiting) => Box::pin(async move {
                let done = waiting.await?;
                Ok(Answer { outputs: done.outputs, version: number, times: done.times })
            }),
            Err(refusal) => Box::pin(std::future::ready(Err(refusal))),
        }
    }

    /// The share of the last second or so in which the device worked.
    fn busy_share(&self) -> f32 {
        let worked = self.desk.worked();
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = busy.at.elapsed();
        if passed > Duration::from_millis(500) {
            let share = worked.saturating_sub(busy.worked).as_secs_f32() / passed.as_secs_f32();
            *busy = Busy { at: Instant::now(), worked, share: share.min(1.0) };
        }
        busy.share
    }
}

/// Whether requests that were checked against one fit the other.
fn same_ports(a: &ModelInfo, b: &ModelInfo) -> bool {
    a.inputs == b.inputs && a.outputs == b.outputs && a.max_batch == b.max_batch
}

impl Backend for House {
    fn index(&self) -> Vec<Listing> {
        let listing = |(name, entry): (&Arc<str>, &Entry)| Listing {
            name: name.clone(),
            version: entry.current.as_ref().map_or_else(|| "".into(), |version| version.info.version.clone()),
            kind: entry.kind,
            state: entry.state,
            reason: entry.reason.clone(),
        };
        self.0.entries().iter().map(listing).collect()
    }

    fn model(&self, name: &str, version: Option<&str>) -> Result<Arc<ModelInfo>, Refusal> {
        let unknown = || match self.0.opening.load(Ordering::Acquire) {
            0 => Refusal::UnknownModel(name.to_owned()),
            _ => Refusal::NotReady { model: name.to_owned(), reason: "the server is still loading".to_owned() },
        };
        // Pipelines are asked at an address of their own.
        if self.0.entries().get(name).is_some_and(|entry| entry.kind == Kind::Pipeline) {
            return Err(unknown());
        }
        let current = self.0.current(name).ok_or_else(unknown)??;
        match version {
            Some(version) if *version != *current.info.version => {
                Err(Refusal::UnknownVersion { model: name.to_owned(), version: version.to_owned() })
            }
            _ => Ok(current.info.clone()),
        }
    }

    fn infer(&self, ask: Ask) -> Pending<Answer> {
        let name = &ask.model.name;
        let version = match self.0.current(name) {
            Some(Ok(version)) if same_ports(&version.info, &ask.model) => version,
            Some(Ok(_)) => {
                let reason = "it was replaced by one of other inputs or outputs".to_owned();
                return refused(Refusal::NotReady { model: name.to_string(), reason });
            }
            Some(Err(refusal)) => return refused(refusal),
            None => return refused(Refusal::UnknownModel(name.to_string())),
        };
        self.0.ask(version, ask.inputs, ask.outputs, ask.terms)
    }

    fn picture(&self, ask: PictureAsk) -> Pending<PictureAnswer> {
        let is_pipeline = self.0.entries().get(&*ask.pipeline).is_some_and(|entry| entry.kind == Kind::Pipeline);
        let version = match self.0.current(&ask.pipeline) {
            Some(Ok(version)) if is_pipeline => version,
            Some(Err(refusal)) if is_pipeline => return refused(refusal),
            _ => return refused(Refusal::UnknownPipeline(ask.pipeline.to_string())),
        };
        let answer = self.0.ask(version, Pictures::inputs(ask.picture), vec![0], ask.terms);
        Box::pin(async move {
            let Answer { outputs, times, .. } = answer.await?;
            let made = outputs.into_iter().next();
            let picture = made.ok_or_else(|| Refusal::Internal("a pipeline made nothing".to_owned()))?.data;
            Ok(PictureAnswer { picture, content_type: "image/png", times })
        })
    }

    fn load(&self, model: &str) -> Pending<()> {
        let (sender, done) = oneshot::channel();
        let (inner, model) = (self.0.clone(), model.to_owned());
        let loading = move || {
            // Who asked for it may be gone.
            let _ = sender.send(inner.load_now(&model));
        };
        if let Err(error) = thread::Builder::new().name("dala-serve-load".to_owned()).spawn(loading) {
            return refused(Refusal::Internal(error.to_string()));
        }
        Box::pin(async move { done.await.unwrap_or_else(|_| Err(Refusal::Internal("loading did not end".to_owned()))) })
    }

    fn unload(&self, model: &str) -> Pending<()> {
        if self.0.entries().get(model).is_none() {
            return refused(Refusal::UnknownModel(model.to_owned()));
        }
        let ending = self.0.retire(model, "it was unloaded");
        Box::pin(async move {
            while ending.as_ref().is_some_and(|version| version.strong_count() > 0) {
                tokio::time::sleep(ENDED).await;
            }
            Ok(())
        })
    }

    fn statistics(&self, model: Option<&str>, version: Option<&str>) -> Result<Vec<Statistics>, Refusal> {
        if let Some(name) = model {
            self.model(name, version)?;
            return Ok(self.0.current(name).into_iter().flatten().map(|version| version.statistics()).collect());
        }
        let entries = self.0.entries();
        Ok(entries.values().filter_map(|entry| Some(entry.current.as_ref()?.statistics())).collect())
    }

    fn busy(&self) -> Load {
        let load = self.0.desk.load();
        let versions: Vec<_> = {
            let entries = self.0.entries();
            entries.iter().map(|(name, entry)| (name.clone(), entry.state, entry.current.clone())).collect()
        };
        let models = versions.into_iter().map(|(name, state, version)| {
            let expected_wait =
                version.as_ref().map_or(Duration::ZERO, |version| version.expected_wait(&self.0.desk, Lane::Default));
            let (queued, running) = version.as_ref().map_or((0, 0), |version| self.0.desk.of(&**version));
            let version = version.map_or_else(|| "".into(), |version| version.info.version.clone());
            ModelLoad { name, version, state, queued, running, expected_wait }
        });
        let opened = self.0.home.now();
        let budget = opened.device.memory().ok();
        let device = DeviceLoad {
            name: opened.device.info().id.as_str().into(),
            busy: self.0.busy_share(),
            memory_bytes: opened.device.live_bytes(),
            budget_bytes: budget.map(|memory| memory.budget).filter(|budget| *budget < u64::MAX),
            lost: opened.number,
        };
        let items = f64::from(load.queued_items + load.running_items) / f64::from(self.0.options.limits.items.max(1));
        let bytes = load.bytes as f64 / self.0.options.limits.bytes.max(1) as f64;
        Load {
            models: models.collect(),
            devices: vec![device],
            expected_wait: load.expected_wait,
            fullness: items.max(bytes).min(1.0) as f32,
        }
    }

    fn is_ready(&self) -> bool {
        let ready = |entry: &Entry| entry.watched || entry.state == State::Ready || entry.unloaded;
        let begun = self.0.opening.load(Ordering::Acquire) == 0 && !self.0.desk.load().draining;
        begun && !self.0.home.is_gone() && self.0.entries().values().all(ready)
    }

    fn drain(&self) {
        self.0.desk.drain();
    }
}

fn refused<T: Send + 'static>(refusal: Refusal) -> Pending<T> {
    Box::pin(std::future::ready(Err(refusal)))
}
