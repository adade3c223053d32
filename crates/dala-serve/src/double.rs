//! A back of no work: models that return what they are given, for tests and for measuring what the protocols cost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;

use crate::{
    Answer, Ask, Backend, BatchStatistics, Datatype, DeviceLoad, Kind, Listing, Load, ModelInfo, ModelLoad, Pending,
    PictureAnswer, PictureAsk, Port, Refusal, State, Statistics, Tensor, Times,
};

/// Serves models whose outputs are their inputs, by place; a missing optional input gives an empty output.
///
/// `identity` takes and gives rows of four floats, `every_type` rows of four of each element type. The pipeline `same` returns
/// its picture.
#[derive(Debug)]
pub struct Identity {
    models: Vec<Served>,
}

#[derive(Debug)]
struct Served {
    info: Arc<ModelInfo>,
    is_loaded: AtomicBool,
    done: Mutex<Statistics>,
}

impl Served {
    /// Counts a run of so many items. It took some time: clients tell by it that something happened.
    fn count(&self, items: usize) {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        let done = &mut *done;
        done.last = Some(SystemTime::now());
        done.items += items as u64;
        done.runs += 1;
        let sizes = done.batches.iter().position(|batch| batch.size == items);
        let place = sizes.unwrap_or_else(|| {
            done.batches.push(BatchStatistics { size: items, ..BatchStatistics::default() });
            done.batches.len() - 1
        });
        let batch = done.batches.get_mut(place).into_iter();
        let parts = batch.flat_map(|batch| [&mut batch.uploaded, &mut batch.ran, &mut batch.downloaded]);
        let whole = [&mut done.answered, &mut done.queued, &mut done.uploaded, &mut done.ran, &mut done.downloaded];
        whole.into_iter().chain(parts).for_each(|total| total.add(Duration::from_micros(1)));
    }
}

impl Default for Identity {
    fn default() -> Self {
        let shape = vec![None, Some(4)];
        let port = |name: String, datatype| Port { name: name.into(), datatype, shape: shape.clone(), optional: false };
        let one = |name: &str| vec![port(name.to_owned(), Datatype::Fp32)];
        // All but one that clients in Python have no numbers of.
        let types = Datatype::ALL.into_iter().filter(|datatype| *datatype != Datatype::Bf16);
        let each =
            |prefix: &str| types.clone().map(|datatype| port(format!("{prefix}_{datatype}"), datatype)).collect();
        let models = [("identity", one("input"), one("output")), ("every_type", each("INPUT"), each("OUTPUT"))];
        Identity::of(models.map(|(name, inputs, outputs)| ModelInfo {
            max_batch: Some(1 << 20),
            ..Identity::model(name, inputs, outputs)
        }))
    }
}

impl Identity {
    /// Serves these; outputs are the inputs of the same place.
    pub fn of(models: impl IntoIterator<Item = ModelInfo>) -> Identity {
        let served = |info: ModelInfo| {
            let (model, version) = (info.name.clone(), info.version.clone());
            let done = Mutex::new(Statistics { model, version, ..Statistics::default() });
            Served { info: Arc::new(info), is_loaded: AtomicBool::new(true), done }
        };
        Identity { models: models.into_iter().map(served).collect() }
    }

    /// Version 1 of a model with these inputs and outputs.
    pub fn model(name: &str, inputs: Vec<Port>, outputs: Vec<Port>) -> ModelInfo {
        let version: Arc<str> = "1".into();
        ModelInfo {
            name: name.into(),
            versions: vec![version.clone()],
            version,
            platform: "dala_identity".into(),
            inputs,
            outputs,
            max_batch: None,
        }
    }

    fn find(&self, name: &str, version: Option<&str>) -> Result<&Served, Refusal> {
        let served = self.models.iter().find(|served| *served.info.name == *name);
        let served = served.ok_or_else(|| Refusal::UnknownModel(name.to_owned()))?;
        match version {
            Some(version) if *version != *served.info.version => {
                Err(Refusal::UnknownVersion { model: name.to_owned(), version: version.to_owned() })
            }
            _ => Ok(served),
        }
    }

    fn set_loaded(&self, model: &str, is_loaded: bool) -> Pending<()> {
        let served = self.find(model, None);
        let outcome = served.map(|served| served.is_loaded.store(is_loaded, Ordering::Release));
        Box::pin(std::future::ready(outcome))
    }
}

fn outputs(ask: &Ask) -> Result<Vec<Tensor>, Refusal> {
    let output = |&place: &usize| {
        let port = ask.model.outputs.get(place).ok_or_else(|| Refusal::Internal("no such output".to_owned()))?;
        let wanted = ask.model.inputs.get(place).map(|input| &input.name);
        let given = ask.inputs.iter().find(|input| Some(&input.name) == wanted);
        let (shape, data) = match given {
            Some(input) => (input.shape.clone(), input.data.clone()),
            None => (vec![0], Bytes::new()),
        };
        Ok(Tensor { name: port.name.clone(), datatype: port.datatype, shape, data })
    };
    ask.outputs.iter().map(output).collect()
}

impl Backend for Identity {
    fn index(&self) -> Vec<Listing> {
        let listing = |name: &Arc<str>, version: &str, kind, is_loaded| Listing {
            name: name.clone(),
            version: version.into(),
            kind,
            state: if is_loaded { State::Ready } else { State::Unavailable },
            reason: if is_loaded { "" } else { "unloaded" }.to_owned(),
        };
        let model = |served: &Served| {
            let is_loaded = served.is_loaded.load(Ordering::Acquire);
            listing(&served.info.name, &served.info.version, Kind::Model, is_loaded)
        };
        self.models.iter().map(model).chain([listing(&"same".into(), "1", Kind::Pipeline, true)]).collect()
    }

    fn model(&self, name: &str, version: Option<&str>) -> Result<Arc<ModelInfo>, Refusal> {
        let served = self.find(name, version)?;
        if !served.is_loaded.load(Ordering::Acquire) {
            return Err(Refusal::NotReady { model: name.to_owned(), reason: "unloaded".to_owned() });
        }
        Ok(served.info.clone())
    }

    fn infer(&self, ask: Ask) -> Pending<Answer> {
        let times = Times { queued: Duration::ZERO, ran: Duration::ZERO, batch: ask.model.items(&ask.inputs) };
        let answer = outputs(&ask).map(|outputs| Answer { outputs, version: ask.model.version.clone(), times });
        if let (Ok(served), true) = (self.find(&ask.model.name, None), answer.is_ok()) {
            served.count(times.batch);
        }
        Box::pin(std::future::ready(answer))
    }

    fn picture(&self, ask: PictureAsk) -> Pending<PictureAnswer> {
        let answer = match &*ask.pipeline {
            "same" => {
                let times = Times { batch: 1, ..Times::default() };
                Ok(PictureAnswer { picture: ask.picture, content_type: "image/png", times })
            }
            other => Err(Refusal::UnknownPipeline(other.to_owned())),
        };
        Box::pin(std::future::ready(answer))
    }

    fn load(&self, model: &str) -> Pending<()> {
        self.set_loaded(model, true)
    }

    fn unload(&self, model: &str) -> Pending<()> {
        self.set_loaded(model, false)
    }

    fn statistics(&self, model: Option<&str>, version: Option<&str>) -> Result<Vec<Statistics>, Refusal> {
        let of = |served: &Served| served.done.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match model {
            Some(name) => Ok(vec![of(self.find(name, version)?)]),
            None => Ok(self.models.iter().map(of).collect()),
        }
    }

    fn busy(&self) -> Load {
        let models = self.models.iter().map(|served| ModelLoad {
            name: served.info.name.clone(),
            version: served.info.version.clone(),
            state: State::Ready,
            queued: 0,
            running: 0,
            expected_wait: Duration::ZERO,
        });
        let device = DeviceLoad { name: "none".into(), busy: 0.0, memory_bytes: 0, budget_bytes: None, lost: 0 };
        Load { models: models.collect(), devices: vec![device], ..Load::default() }
    }

    fn is_ready(&self) -> bool {
        true
    }
}
