//! Models of ONNX files.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use dala_compute::{Buffer, DType, Shape};
use dala_model::{Dim, LoadError, Model, Port as ModelPort, Session};

use super::home::{Home, is_lost};
use super::work::{Failure, Ran, Share, Work};
use crate::{Datatype, Lane, ModelInfo, Port, Refusal, Tensor};

/// A model on a device.
pub(super) struct Onnx {
    model: Model,
    home: Arc<Home>,
    /// The session on the device of that number.
    session: Mutex<Option<(usize, Arc<Session>)>>,
    /// Whether the first axis of all inputs and outputs counts items.
    shared: bool,
    /// Kept to be filled again: memory that is new costs as much as what is copied into it.
    joined: Mutex<Vec<u8>>,
}

/// The names of element types on both sides.
const TYPES: [(DType, Datatype); 12] = [
    (DType::F32, Datatype::Fp32),
    (DType::F64, Datatype::Fp64),
    (DType::F16, Datatype::Fp16),
    (DType::BF16, Datatype::Bf16),
    (DType::S8, Datatype::Int8),
    (DType::S16, Datatype::Int16),
    (DType::S32, Datatype::Int32),
    (DType::S64, Datatype::Int64),
    (DType::U8, Datatype::Uint8),
    (DType::U16, Datatype::Uint16),
    (DType::U32, Datatype::Uint32),
    (DType::U64, Datatype::Uint64),
];

fn datatype(port: &ModelPort) -> Datatype {
    match port.is_bool {
        true => Datatype::Bool,
        false => TYPES.iter().find(|(own, _)| *own == port.dtype).map_or(Datatype::Bytes, |(_, named)| *named),
    }
}

fn dtype(datatype: Datatype) -> Option<DType> {
    match datatype {
        Datatype::Bool => Some(DType::U8),
        _ => TYPES.iter().find(|(_, named)| *named == datatype).map(|(own, _)| *own),
    }
}

/// What clients see of an input or output.
fn port(own: &ModelPort) -> Port {
    let size = |dim: &Dim| match dim {
        Dim::Known(size) => Some(*size),
        Dim::Batch | Dim::Open(_) => None,
    };
    Port {
        name: own.name.as_str().into(),
        datatype: datatype(own),
        shape: own.dims.iter().map(size).collect(),
        optional: false,
    }
}

/// Whether requests may share a run: the first axis of all inputs and outputs is the batch.
fn is_shared(model: &Model) -> bool {
    let batch = |port: &ModelPort| port.dims.first() == Some(&Dim::Batch);
    model.inputs().iter().all(batch) && model.outputs().iter().all(batch) && !model.inputs().is_empty()
}

impl Onnx {
    pub(super) fn new(model: Model, home: &Arc<Home>) -> Onnx {
        let shared = is_shared(&model);
        Onnx { model, home: home.clone(), session: Mutex::default(), shared, joined: Mutex::default() }
    }

    /// Whether requests may share a run.
    pub(super) fn is_shared(&self) -> bool {
        self.shared
    }

    /// What clients may know of it.
    pub(super) fn info(&self, name: &str, version: &str, most: usize) -> ModelInfo {
        let version: Arc<str> = version.into();
        ModelInfo {
            name: name.into(),
            versions: vec![version.clone()],
            version,
            platform: "dala_onnx".into(),
            inputs: self.model.inputs().iter().map(port).collect(),
            outputs: self.model.outputs().iter().map(port).collect(),
            max_batch: self.shared.then_some(most),
        }
    }

    /// Inputs of zeros for so many items; none if sizes are open that only a request says.
    pub(super) fn zeros(&self, items: usize) -> Option<Vec<Tensor>> {
        let zero = |port: &ModelPort| {
            let shape = port.shape(items)?.dims().to_vec();
            let bytes = Tensor::elements(&shape)?.checked_mul(port.dtype.size())?;
            let (name, datatype) = (port.name.as_str().into(), datatype(port));
            Some(Tensor { name, datatype, shape, data: Bytes::from(vec![0; bytes]) })
        };
        self.model.inputs().iter().map(zero).collect()
    }

    fn session(&self) -> (usize, Arc<Session>) {
        let opened = self.home.now();
        let mut held = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        match &*held {
            Some((number, session)) if *number == opened.number => (*number, session.clone()),
            _ => {
                let session = Arc::new(Session::new(&opened.device, &self.model));
                *held = Some((opened.number, session.clone()));
                (opened.number, session)
            }
        }
    }

    /// What goes to the device for one input of all requests, one after the other; what is missing is zero.
    fn joined(&self, place: usize, size: usize, shares: &[Share], session: &Session) -> Result<Buffer, LoadError> {
        let parts: Vec<&Tensor> = shares.iter().filter_map(|share| share.inputs.get(place)).collect();
        let Some(first) = parts.first() else { return Ok(Buffer::zeros(session.device(), DType::F32, [0])?) };
        let dtype = dtype(first.datatype).unwrap_or(DType::U8);
        let mut shape = first.shape.clone();
        let rows = if self.shared { shape.first().copied().unwrap_or(1) } else { 1 };
        if !self.shared || (parts.len() == 1 && rows == size) {
            return Ok(Buffer::from_bytes(session.device(), &first.data, dtype, Shape::new(shape))?);
        }
        let bytes = first.data.len() / rows.max(1) * size;
        let mut joined = std::mem::take(&mut *self.joined.lock().unwrap_or_else(PoisonError::into_inner));
        joined.clear();
        parts.iter().for_each(|part| joined.extend_from_slice(&part.data));
        joined.resize(bytes, 0);
        shape.iter_mut().take(1).for_each(|rows| *rows = size);
        let buffer = Buffer::from_bytes(session.device(), &joined, dtype, Shape::new(shape))?;
        *self.joined.lock().unwrap_or_else(PoisonError::into_inner) = joined;
        Ok(buffer)
    }

    fn run_on(&self, session: &Session, size: usize, lane: Lane, shares: &[Share]) -> Result<Ran, LoadError> {
        let begun = Instant::now();
        let places = 0..self.model.inputs().len();
        let inputs = places.map(|place| self.joined(place, size, shares, session)).collect::<Result<Vec<_>, _>>()?;
        let uploaded = Instant::now();
        let outputs = session.run_in(&inputs.iter().collect::<Vec<_>>(), lane)?;
        let ran = Instant::now();
        // What nobody wants stays where it is.
        let wanted = |place: usize| shares.iter().any(|share| share.outputs.contains(&place));
        let read = |(place, buffer): (usize, &Buffer)| match wanted(place) {
            true => Ok(Bytes::from(buffer.read_bytes()?)),
            false => Ok(Bytes::new()),
        };
        let read = outputs.iter().enumerate().map(read).collect::<Result<Vec<Bytes>, LoadError>>()?;
        let mut split = Vec::with_capacity(shares.len());
        let mut row = 0;
        for share in shares {
            let rows = match (self.shared, share.inputs.first()) {
                (true, Some(first)) => first.shape.first().copied().unwrap_or(1),
                _ => size,
            };
            let part = |place: &usize| {
                let (port, buffer, all) = (self.model.outputs().get(*place)?, outputs.get(*place)?, read.get(*place)?);
                let mut shape = buffer.shape().dims().to_vec();
                let each = all.len() / size.max(1);
                if self.shared {
                    // Of a model whose outputs do not follow the batch nobody can say what belongs to whom.
                    if shape.first() != Some(&size) {
                        return None;
                    }
                    shape.iter_mut().take(1).for_each(|first| *first = rows);
                }
                let range = if self.shared { row * each..(row + rows) * each } else { 0..all.len() };
                let (name, datatype) = (port.name.as_str().into(), datatype(port));
                Some(Tensor { name, datatype, shape, data: all.slice(range) })
            };
            split.push(share.outputs.iter().map(part).collect::<Option<Vec<Tensor>>>().unwrap_or_default());
            row += rows;
        }
        let times = [uploaded - begun, ran - uploaded, ran.elapsed()];
        Ok(Ran { outputs: split, times })
    }
}

impl Work for Onnx {
    fn run(&self, size: usize, lane: Lane, shares: &[Share]) -> Result<Ran, Failure> {
        let (number, session) = self.session();
        let rows = |share: &Share| share.inputs.first().and_then(|first| first.shape.first().copied()).unwrap_or(1);
        let size = if self.shared { size.max(shares.iter().map(rows).sum()) } else { size };
        let ran = self.run_on(&session, size, lane, shares).map_err(|error| {
            if is_lost(error.code()) {
                self.home.again(number);
                return Failure::Lost;
            }
            Failure::Refused(match error {
                LoadError::Model(error) => Refusal::BadInput(error.to_string()),
                error => Refusal::Failed(error.to_string()),
            })
        })?;
        match ran.outputs.iter().zip(shares).all(|(outputs, share)| outputs.len() == share.outputs.len()) {
            true => Ok(ran),
            false => Err(Failure::Refused(Refusal::Failed(
                "an output of the model does not have as many items as its inputs".to_owned(),
            ))),
        }
    }
}
