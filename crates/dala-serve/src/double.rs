//! A back of no work: models that return what they are given, for tests and for measuring what the protocols cost.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::{
    Answer, Ask, Backend, Datatype, DeviceLoad, Kind, Listing, Load, ModelInfo, ModelLoad, Pending, PictureAnswer,
    PictureAsk, Port, Refusal, State, Statistics, Tensor, Times,
};

/// Serves models whose outputs are their inputs, by place; a missing optional input gives an empty output.
///
/// `identity` takes and gives one tensor of any shape; `every_type` one of each element type. The pipeline `same` returns its picture.
#[derive(Debug)]
pub struct Identity {
    models: Vec<Arc<ModelInfo>>,
}

impl Default for Identity {
    fn default() -> Self {
        let port = |name: &str, datatype| Port { name: name.into(), datatype, shape: vec![None], optional: false };
        let one = |name: &str| vec![port(name, Datatype::Fp32)];
        let each = |prefix: &str| {
            let named = |datatype: Datatype| port(&format!("{prefix}_{datatype}"), datatype);
            Datatype::ALL.map(|datatype| Port { optional: true, ..named(datatype) }).to_vec()
        };
        Identity::of([
            Identity::model("identity", one("input"), one("output")),
            Identity::model("every_type", each("in"), each("out")),
        ])
    }
}

impl Identity {
    /// Serves these; outputs are the inputs of the same place.
    pub fn of(models: impl IntoIterator<Item = ModelInfo>) -> Identity {
        Identity { models: models.into_iter().map(Arc::new).collect() }
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
}

impl Backend for Identity {
    fn index(&self) -> Vec<Listing> {
        let listing = |name: &Arc<str>, version: &str, kind| Listing {
            name: name.clone(),
            version: version.into(),
            kind,
            state: State::Ready,
            reason: String::new(),
        };
        let models = self.models.iter().map(|model| listing(&model.name, &model.version, Kind::Model));
        models.chain([listing(&"same".into(), "1", Kind::Pipeline)]).collect()
    }

    fn model(&self, name: &str, version: Option<&str>) -> Result<Arc<ModelInfo>, Refusal> {
        let model = self.models.iter().find(|model| *model.name == *name);
        let model = model.ok_or_else(|| Refusal::UnknownModel(name.to_owned()))?;
        match version {
            Some(version) if *version != *model.version => {
                Err(Refusal::UnknownVersion { model: name.to_owned(), version: version.to_owned() })
            }
            _ => Ok(model.clone()),
        }
    }

    fn infer(&self, ask: Ask) -> Pending<Answer> {
        let output = |place: usize| {
            let port = ask.model.outputs.get(place).ok_or_else(|| Refusal::Internal("no such output".into()))?;
            let wanted = ask.model.inputs.get(place).map(|input| &input.name);
            let given = ask.inputs.iter().find(|input| Some(&input.name) == wanted);
            let (shape, data) = match given {
                Some(input) => (input.shape.clone(), input.data.clone()),
                None => (vec![0], Bytes::new()),
            };
            Ok(Tensor { name: port.name.clone(), datatype: port.datatype, shape, data })
        };
        let outputs: Result<Vec<_>, Refusal> = ask.outputs.iter().map(|&place| output(place)).collect();
        let times = Times { queued: Duration::ZERO, ran: Duration::ZERO, batch: ask.items() };
        let version = ask.model.version.clone();
        Box::pin(std::future::ready(outputs.map(|outputs| Answer { outputs, version, times })))
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
        let known = self.model(model, None).map(|_| ());
        Box::pin(std::future::ready(known))
    }

    fn unload(&self, model: &str) -> Pending<()> {
        self.load(model)
    }

    fn statistics(&self, model: Option<&str>, version: Option<&str>) -> Result<Vec<Statistics>, Refusal> {
        let of = |model: &ModelInfo| Statistics {
            model: model.name.clone(),
            version: model.version.clone(),
            ..Statistics::default()
        };
        match model {
            Some(name) => Ok(vec![of(&*self.model(name, version)?)]),
            None => Ok(self.models.iter().map(|model| of(model)).collect()),
        }
    }

    fn busy(&self) -> Load {
        let models = self.models.iter().map(|model| ModelLoad {
            name: model.name.clone(),
            version: model.version.clone(),
            state: State::Ready,
            queued: 0,
            running: 0,
            expected_wait: Duration::ZERO,
        });
        let device = DeviceLoad { name: "none".into(), busy: 0.0, memory_bytes: 0, budget_bytes: None };
        Load { models: models.collect(), devices: vec![device], ..Load::default() }
    }

    fn is_ready(&self) -> bool {
        true
    }
}
