//! A file that was read.

use std::collections::{HashMap, HashSet};
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use dala_spec::{DType, TensorType};

use crate::budget::Budget;
use crate::error::{cut, shown};
use crate::graph::Graph;
use crate::limits::MAX_FILE_BYTES;
use crate::read::OutputRemark;
use crate::{Dim, ModelError, Network, Port, read, resolve};

/// Characters of the names of sizes that an error lists.
const KNOWN_CHARACTERS: usize = 1000;

/// A model from a file: checked, and with the sizes open that the file leaves open.
#[derive(Clone, Debug)]
pub struct Model {
    pub(crate) graph: Arc<Graph>,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    remarks: Arc<Vec<OutputRemark>>,
    operators: Vec<(String, usize)>,
    parameters: usize,
    metadata: Arc<HashMap<String, String>>,
    /// The smallest batch that fits the shapes in the file, and whether it is the only one.
    smallest: usize,
    only: bool,
    /// What depends on the values of its inputs, if something does that must be known beforehand.
    decided: Option<String>,
}

impl Model {
    /// Reads a model from the bytes of an ONNX file. If only its batch is open, all of it is checked, once, with the smallest
    /// batch: mostly one. Weights in other files are not found: see [`Model::open`].
    ///
    /// # Errors
    /// A [`ModelError`] for anything that is not a supported model; nodes that are not supported are listed all at once.
    pub fn read(bytes: impl Into<Bytes>) -> Result<Model, ModelError> {
        Model::from_file(read::read(bytes.into(), None)?)
    }

    fn from_file(file: read::File) -> Result<Model, ModelError> {
        let read::File { graph, inputs, outputs, operators, parameters, metadata } = file;
        let (graph, remarks, metadata) = (Arc::new(graph), Arc::new(outputs), Arc::new(metadata));
        let (smallest, only, decided) = (1, false, None);
        let outputs = Vec::new();
        Model { graph, inputs, outputs, remarks, operators, parameters, metadata, smallest, only, decided }.settled()
    }

    /// The same, checked as far as it can be, with what is known about its outputs.
    fn settled(mut self) -> Result<Model, ModelError> {
        (self.smallest, self.only, self.decided) = (1, false, None);
        let network = match self.open_sizes().is_empty() {
            true => match self.check() {
                // A session asks for it while it runs, if everything else is known.
                Err(error @ ModelError::NotConstant { .. }) => {
                    match self.remarks.iter().all(|remark| remark.dtype.is_some()) {
                        true => {
                            self.decided = Some(error.to_string());
                            None
                        }
                        false => return Err(error),
                    }
                }
                other => Some(other?),
            },
            false => None,
        };
        let (open, smallest) = (self.fixed_batch().is_none(), self.smallest);
        let unknown = network.is_none() && self.remarks.iter().any(|remark| remark.dtype.is_none());
        let tried = if unknown { self.tried() } else { Vec::new() };
        let mut outputs = Vec::with_capacity(self.remarks.len());
        for (place, remark) in self.remarks.iter().enumerate() {
            let value = network.as_ref().and_then(|network| network.values.get(*network.outputs.get(place)?));
            let name = remark.name.clone();
            outputs.push(match value {
                Some(value) => {
                    let mut dims: Vec<Dim> = value.ty.shape.dims().iter().map(|&dim| Dim::Known(dim)).collect();
                    // That is the network's batch. What the file says about outputs is a remark, so it decides only this.
                    let fixed = matches!(remark.dims.as_ref().and_then(|dims| dims.first()), Some(Dim::Known(_)));
                    if let Some(first) =
                        dims.first_mut().filter(|first| open && !fixed && **first == Dim::Known(smallest))
                    {
                        *first = Dim::Batch;
                    }
                    Port { name, dtype: value.ty.dtype, is_bool: remark.is_bool && value.ty.dtype == DType::U8, dims }
                }
                // Until a call says more.
                None => {
                    let dtype = remark.dtype.or_else(|| tried.get(place).copied());
                    let dtype = dtype.ok_or_else(|| ModelError::UnknownShape { input: shown(&name) })?;
                    let dims = remark.dims.clone().unwrap_or_else(|| vec![Dim::Open("…".to_owned())]);
                    Port { name, dtype, is_bool: remark.is_bool && dtype == DType::U8, dims }
                }
            });
        }
        self.outputs = outputs;
        Ok(self)
    }

    /// The element types of outputs, where the file does not name all, found with sizes that many models take.
    fn tried(&self) -> Vec<DType> {
        const SIZES: [usize; 5] = [1, 32, 64, 224, 512];
        let found = SIZES.into_iter().find_map(|tried| {
            let dims = |port: &Port| port.dims.iter().map(|dim| dim.size(1).unwrap_or(tried)).collect::<Vec<usize>>();
            let types: Vec<TensorType> =
                self.inputs.iter().map(|port| TensorType::new(port.dtype, dims(port))).collect();
            let network = resolve::resolve(&self.graph, &self.inputs, &types).ok()?;
            network.outputs.iter().map(|output| Some(network.values.get(*output)?.ty.dtype)).collect()
        });
        found.unwrap_or_default()
    }

    /// The network for the smallest batch, which is found on the way.
    fn check(&mut self) -> Result<Network, ModelError> {
        if let Some(fixed) = self.fixed_batch() {
            self.smallest = fixed;
            return self.network(fixed);
        }
        let error = match self.network(1) {
            Err(error @ (ModelError::ShapeMismatch { .. } | ModelError::BadValue { .. })) => error,
            other => return other,
        };
        // A shape that is written down may be one for several. All tries share what one may take.
        let budget = Budget::new(self.graph.elements);
        for batch in self.graph.batches() {
            if let Ok(network) = self.network_within(batch, &budget) {
                self.smallest = batch;
                self.only = self.network(batch * 2).is_err();
                return Ok(network);
            }
        }
        Err(error)
    }

    fn network(&self, batch: usize) -> Result<Network, ModelError> {
        self.network_within(batch, &Budget::new(self.graph.elements))
    }

    fn network_within(&self, batch: usize, budget: &Budget) -> Result<Network, ModelError> {
        let ty = |port: &Port| match port.shape(batch) {
            Some(shape) => Ok(TensorType { dtype: port.dtype, shape }),
            None => Err(ModelError::OpenSizes { input: shown(&port.name), shape: port.shape_in_words() }),
        };
        let types = self.inputs.iter().map(ty).collect::<Result<Vec<_>, _>>()?;
        resolve::resolve_within(&self.graph, &self.inputs, &types, budget)
    }

    /// Reads the ONNX file at `path`. Weights may be in other files, in its folder or below it.
    ///
    /// # Errors
    /// [`ModelError::Io`] if the file cannot be read, and everything that [`Model::read`] gives.
    pub fn open(path: &Path) -> Result<Model, ModelError> {
        let failed = |source| ModelError::Io { path: path.display().to_string(), source };
        let file = std::fs::File::open(path).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        // What is no plain file does not say its size, and may have no end.
        let mut bytes = Vec::with_capacity(if size > MAX_FILE_BYTES { 0 } else { size as usize });
        if size <= MAX_FILE_BYTES {
            file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
        }
        if size.max(bytes.len() as u64) > MAX_FILE_BYTES {
            return Err(ModelError::TooLarge { what: "the file".to_owned(), limit: format!("{MAX_FILE_BYTES} bytes") });
        }
        Model::from_file(read::read(bytes.into(), path.parent())?)
    }

    /// The same model with some of its open sizes fixed, by their names as [`Port::dims`] has them, or by the port's name and the
    /// number of the axis: `("x.2", 320)`. `batch` is the open size of first axes. A size that the file fixes may be given another
    /// value by port and axis: many networks run at any size, whatever their file says.
    ///
    /// # Errors
    /// [`ModelError::UnknownSize`] for a name that no size has, and what is wrong with the model for these sizes.
    pub fn with_sizes(&self, sizes: &[(&str, usize)]) -> Result<Model, ModelError> {
        let mut model = self.clone();
        for &(name, size) in sizes {
            let mut found = false;
            for port in &mut model.inputs {
                for (axis, dim) in port.dims.iter_mut().enumerate() {
                    let own = match dim {
                        Dim::Known(_) => None,
                        Dim::Batch => Some("batch"),
                        Dim::Open(own) => Some(own.as_str()),
                    };
                    if own == Some(name) || name == format!("{}.{axis}", port.name) {
                        *dim = Dim::Known(size);
                        found = true;
                    }
                }
            }
            if !found {
                let known = cut(&model.open_sizes().join(", "), KNOWN_CHARACTERS);
                return Err(ModelError::UnknownSize { name: shown(name), known });
            }
        }
        model.settled()
    }

    /// The same model with sizes left open, each by its port's name and the number of its axis: `x.2`. Calls decide them then,
    /// whatever the file says.
    ///
    /// # Errors
    /// As [`with_sizes`](Model::with_sizes).
    pub fn with_open_sizes(&self, sizes: &[&str]) -> Result<Model, ModelError> {
        let mut model = self.clone();
        for name in sizes {
            let axes = model.inputs.iter_mut().flat_map(|Port { name, dims, .. }| {
                dims.iter_mut().enumerate().map(move |(axis, dim)| (format!("{name}.{axis}"), dim))
            });
            match axes.into_iter().find(|(own, _)| own == name) {
                Some((own, dim)) => *dim = Dim::Open(own),
                None => return Err(ModelError::UnknownSize { name: shown(name), known: "port.axis".to_owned() }),
            }
        }
        model.settled()
    }

    /// The names of sizes that are open beside the batch, each once.
    pub fn open_sizes(&self) -> Vec<&str> {
        let (mut names, mut seen) = (Vec::new(), HashSet::new());
        for dim in self.inputs.iter().flat_map(|port| &port.dims) {
            if let Dim::Open(name) = dim
                && seen.insert(name.as_str())
            {
                names.push(name.as_str());
            }
        }
        names
    }

    /// What must be known of the inputs' values before everything else is, in words. Such a model runs in parts, with the host
    /// deciding between them: in a [`Session`](crate::Session), not as a kernel.
    pub fn decided_by_values(&self) -> Option<&str> {
        self.decided.as_deref()
    }

    /// The inputs, in the order of the file; weights are not among them.
    pub fn inputs(&self) -> &[Port] {
        &self.inputs
    }

    /// The outputs, in the order of the file.
    pub fn outputs(&self) -> &[Port] {
        &self.outputs
    }

    /// The operators of the file's nodes and how often each is used, the most frequent first.
    pub fn operators(&self) -> Vec<(String, usize)> {
        self.operators.clone()
    }

    /// The number of weights: the elements of all tensors of floats or bytes in the file.
    pub fn parameters(&self) -> usize {
        self.parameters
    }

    /// A text that whoever wrote the file put beside the graph, such as the names of its classes. Of very long texts, those past
    /// [`MAX_METADATA_BYTES`](crate::limits::MAX_METADATA_BYTES) are not kept.
    pub fn metadata(&self, key: &str) -> Option<&str> {
        self.metadata.get(key).map(String::as_str)
    }

    /// Whether weights are floats of 16 bits: results are then as close as these are.
    pub fn half_weights(&self) -> bool {
        let halves = |tensor: &crate::attribute::Tensor| tensor.ty.dtype.is_float() && tensor.ty.dtype.size() == 2;
        self.graph.constants.values().any(halves)
    }

    /// The only batch size that the model takes, or `None` if it takes any.
    pub fn fixed_batch(&self) -> Option<usize> {
        if self.only {
            return Some(self.smallest);
        }
        if self.inputs.iter().any(|input| input.dims.first() == Some(&Dim::Batch)) {
            return None;
        }
        let first = self.inputs.iter().find_map(|input| input.dims.first());
        Some(match first {
            Some(Dim::Known(size)) => *size,
            _ => 1,
        })
    }

    /// The batch of inputs: the size of the first axis that is one.
    pub(crate) fn batch_of(&self, types: &[TensorType]) -> Option<usize> {
        let mut pairs = self.inputs.iter().zip(types);
        pairs.find_map(|(port, ty)| match port.dims.first() {
            Some(Dim::Batch) => ty.shape.dims().first().copied(),
            _ => None,
        })
    }

    /// The smallest batch size that the model takes.
    pub fn smallest_batch(&self) -> usize {
        self.smallest
    }

    /// The model for this batch size, with every shape known and every constant computed.
    ///
    /// # Errors
    /// [`ModelError::Batch`] for a size that the model does not take, [`ModelError::OpenSizes`] if others are open too, and
    /// whatever is wrong with the shapes.
    pub fn resolve(&self, batch: usize) -> Result<Network, ModelError> {
        let allowed = match self.fixed_batch() {
            Some(fixed) if fixed != batch => fixed.to_string(),
            _ if batch == 0 => "at least 1".to_owned(),
            _ => return self.network(batch),
        };
        Err(ModelError::Batch { asked: batch, allowed })
    }

    /// The model for inputs of these types, with every shape known and every constant computed.
    ///
    /// # Errors
    /// [`ModelError::Input`] for a type that the model does not take, and whatever is wrong with the shapes.
    pub fn resolve_for(&self, types: &[TensorType]) -> Result<Network, ModelError> {
        self.check_inputs(types)?;
        resolve::resolve(&self.graph, &self.inputs, types)
    }

    pub(crate) fn check_inputs(&self, types: &[TensorType]) -> Result<(), ModelError> {
        if types.len() != self.inputs.len() {
            return Err(ModelError::InputCount { expected: self.inputs.len(), found: types.len() });
        }
        match self.inputs.iter().zip(types).find(|(port, ty)| !port.takes(ty)) {
            None => Ok(()),
            Some((port, ty)) => Err(ModelError::Input {
                input: shown(&port.name),
                expected: format!("{} {}", port.dtype, port.shape_in_words()),
                found: ty.to_string(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use crate::builder::{Net, everything, floats, single};
    use crate::limits::MAX_METADATA_BYTES;
    use crate::proto::{StringStringEntryProto, TensorProto, element_type};

    #[test]
    fn a_model_says_what_goes_in_and_comes_out() {
        let model = Model::read(everything().bytes()).unwrap();
        let dims = vec![Dim::Batch, Dim::Known(3), Dim::Known(17), Dim::Known(16)];
        assert_eq!(model.inputs(), [Port { name: "x".to_owned(), dtype: DType::F32, is_bool: false, dims }]);
        let outputs: Vec<(&str, DType)> = model.outputs().iter().map(|port| (&*port.name, port.dtype)).collect();
        assert_eq!(outputs, [("probabilities", DType::F32), ("double", DType::F64), ("padded", DType::F32)]);
        assert_eq!(model.outputs()[0].dims, [Dim::Batch, Dim::Known(10)]);
        assert_eq!(model.operators()[..2], [("Concat".to_owned(), 2), ("Conv".to_owned(), 2)]);
        assert_eq!(model.parameters(), 216 + 72 + 8 + 8 + 8 + 2 + 80 + 40 + 4 + 1);
        assert_eq!(model.fixed_batch(), None);
        let network = model.resolve(3).unwrap();
        assert_eq!(network.values[network.outputs[0]].ty.shape.dims(), [3, 10]);
        // The shape arithmetic and the constants are gone.
        assert_eq!(network.layers.len(), 24);
    }

    #[test]
    fn a_fixed_batch_is_the_only_one() {
        let model = Model::read(single(13, "Relu", &[4, 2], vec![], vec![]).bytes()).unwrap();
        assert_eq!(model.fixed_batch(), Some(4));
        assert!(model.resolve(4).is_ok());
        assert_eq!(model.resolve(1).unwrap_err().code(), "bad_batch");
        let open = Model::read(single(13, "Relu", &[-1, 2], vec![], vec![]).bytes()).unwrap();
        assert_eq!(open.resolve(0).unwrap_err().code(), "bad_batch");
        assert_eq!(open.resolve(usize::MAX).unwrap_err().code(), "too_large");
    }

    fn reshaped(to: &[i64]) -> Result<Model, ModelError> {
        let shape = crate::builder::list(to);
        Model::read(single(13, "Reshape", &[-1, 4], vec![shape], vec![]).bytes())
    }

    #[test]
    fn a_shape_that_is_written_down_may_say_the_batch() {
        let only = reshaped(&[2, 6]).unwrap();
        assert_eq!((only.smallest_batch(), only.fixed_batch()), (3, Some(3)));
        assert_eq!(only.resolve(1).unwrap_err().code(), "bad_batch");
        assert_eq!(only.outputs()[0].dims, [Dim::Known(2), Dim::Known(6)]);
        let even = reshaped(&[-1, 8]).unwrap();
        assert_eq!((even.smallest_batch(), even.fixed_batch()), (2, None));
        assert!(even.resolve(6).is_ok() && even.resolve(3).is_err());
        assert_eq!(reshaped(&[-1, 4]).unwrap().smallest_batch(), 1);
        assert_eq!(reshaped(&[3, 5]).unwrap_err().code(), "shape_mismatch");
    }

    #[test]
    fn one_may_not_be_enough_for_a_batch() {
        let third =
            Model::read(single(13, "Gather", &[-1, 4], vec![crate::builder::list(&[2])], vec![]).bytes()).unwrap();
        assert_eq!((third.smallest_batch(), third.fixed_batch()), (3, None));
        assert!(third.resolve(5).is_ok() && third.resolve(2).is_err());
    }

    #[test]
    fn texts_beside_the_graph_are_kept_within_bounds() {
        let with = |entries: &[&[u8]]| {
            let mut net = single(13, "Relu", &[1, 2], vec![], vec![]);
            net.model.metadata_props = entries.iter().map(|entry| Bytes::copy_from_slice(entry)).collect();
            Model::read(net.bytes()).unwrap()
        };
        let entry = |key: &str, value: &str| {
            StringStringEntryProto { key: key.to_owned(), value: value.to_owned() }.encode_to_vec()
        };
        let long = entry("long", &"a".repeat(MAX_METADATA_BYTES));
        // A field of text that is no text, and one that ends too early.
        let (bytes, cut) = ([0x0a, 1, 0xff], [0x0a, 9, b'k']);
        let model = with(&[&entry("names", "cat\ndög"), &long, &bytes, &cut, &entry("names", "late"), &entry("", "x")]);
        assert_eq!((model.metadata("names"), model.metadata("")), (Some("cat\ndög"), Some("x")));
        assert_eq!((model.metadata("long"), model.metadata("other")), (None, None));
        assert_eq!(with(&[]).metadata("names"), None);
    }

    #[test]
    fn any_size_may_be_open_until_a_call() {
        let model = Model::read(single(13, "Relu", &[-1, 2, -1], vec![], vec![]).bytes()).unwrap();
        assert_eq!(model.open_sizes(), ["n"]);
        assert_eq!(model.resolve(1).unwrap_err().code(), "open_sizes");
        let types = |dims: &[usize]| [TensorType::new(DType::F32, dims)];
        let network = model.resolve_for(&types(&[3, 2, 5])).unwrap();
        assert_eq!(network.values[network.outputs[0]].ty.shape.dims(), [3, 2, 5]);
        assert_eq!(model.resolve_for(&types(&[3, 4, 5])).unwrap_err().code(), "bad_input");
        assert_eq!(model.resolve_for(&[]).unwrap_err().code(), "arity");
        let fixed = model.with_sizes(&[("n", 7)]).unwrap();
        assert_eq!(fixed.resolve(2).unwrap().values[0].ty.shape.dims(), [2, 2, 7]);
        assert_eq!(fixed.outputs()[0].dims, [Dim::Batch, Dim::Known(2), Dim::Known(7)]);
        assert_eq!(model.with_sizes(&[("x.2", 7)]).unwrap().inputs(), fixed.inputs());
        assert_eq!(model.with_sizes(&[("m", 7)]).unwrap_err().code(), "unknown_size");
        let open = fixed.with_open_sizes(&["x.1", "x.2"]).unwrap();
        assert_eq!(
            (open.open_sizes(), open.with_open_sizes(&["x.3"]).unwrap_err().code()),
            (vec!["x.1", "x.2"], "unknown_size")
        );
        let network = open.resolve_for(&types(&[3, 4, 5])).unwrap();
        assert_eq!(network.values[network.outputs[0]].ty.shape.dims(), [3, 4, 5]);
        // What the file fixes may be something else, where the rest fits.
        assert_eq!(
            model.with_sizes(&[("x.1", 9), ("n", 7)]).unwrap().resolve(2).unwrap().values[0].ty.shape.dims(),
            [2, 9, 7]
        );
    }

    #[test]
    fn everything_that_is_not_supported_is_listed() {
        let net = Net::new(13)
            .x(&[1, 2])
            .node("StringSplit", &["nowhere"], "a", vec![])
            .node("Relu", &["x"], "b", vec![])
            .node("Nothing", &["x"], "c", vec![])
            .node("Resize", &["x"], "d", vec![crate::builder::int("antialias", 1)]);
        let ModelError::Unsupported { operators } = Model::read(net.bytes()).unwrap_err() else {
            panic!("another error")
        };
        let found: Vec<(&str, &str)> = operators.iter().map(|one| (&*one.operator, &*one.node)).collect();
        assert_eq!(found, [("StringSplit", "the_a"), ("Nothing", "the_c"), ("Resize", "the_d")]);
    }

    #[test]
    fn nodes_may_be_in_any_order_but_not_in_a_circle() {
        let forward = Net::new(13).x(&[1, 2]);
        let net = forward.clone().node("Relu", &["a"], "y", vec![]).node("Exp", &["x"], "a", vec![]).output("y");
        let network = net.resolve(1).unwrap();
        let names: Vec<&str> = network.layers.iter().map(|layer| &*layer.name).collect();
        assert_eq!(names, ["the_a", "the_y"]);
        let circle = forward.clone().node("Add", &["x", "b"], "a", vec![]).node("Relu", &["a"], "b", vec![]);
        assert_eq!(circle.clone().output("b").code(), "cyclic");
        assert_eq!(circle.node("Relu", &["x"], "y", vec![]).output("y").code(), "cyclic");
        assert_eq!(forward.node("Add", &["x", "y"], "y", vec![]).output("y").code(), "cyclic");
    }

    #[test]
    fn names_are_defined_once() {
        let net = Net::new(13).x(&[1, 2]).node("Relu", &["x"], "y", vec![]);
        assert_eq!(net.clone().node("Relu", &["x"], "y", vec![]).output("y").code(), "duplicate_value");
        assert_eq!(net.clone().node("Relu", &["x"], "x", vec![]).output("y").code(), "duplicate_value");
        assert_eq!(net.clone().node("Relu", &["z"], "a", vec![]).output("y").code(), "undefined_value");
        assert_eq!(net.clone().output("z").code(), "undefined_value");
        assert_eq!(net.clone().code(), "malformed");
        // Old files have the weights among the inputs.
        let old = net.input("w", element_type::FLOAT, &[2]).floats("w", &[2], vec![1.0; 2]);
        let old = Model::read(old.node("Add", &["y", "w"], "z", vec![]).output("z").bytes()).unwrap();
        assert_eq!(old.inputs().len(), 1);
    }

    #[test]
    fn weights_that_cannot_be_read_are_named() {
        let with = |tensor: TensorProto| single(13, "Add", &[1, 2], vec![tensor], vec![]);
        let complex = TensorProto { data_type: 14, ..floats(&[2], vec![]) };
        let error = Model::read(with(complex).bytes()).unwrap_err();
        assert_eq!(error.code(), "unsupported_element_type");
        assert!(error.to_string().starts_with("weight `c0` has elements of type complex64"), "{error}");
        let elsewhere = vec![StringStringEntryProto { key: "location".to_owned(), value: "w.bin".to_owned() }];
        let external = TensorProto { external_data: elsewhere, data_location: 1, ..floats(&[2], vec![]) };
        assert_eq!(with(external).code(), "external_data");
        assert_eq!(with(floats(&[3], vec![1.0; 2])).code(), "malformed");
        assert_eq!(with(floats(&[-2], vec![1.0; 2])).code(), "malformed");
        assert_eq!(with(floats(&[1 << 40, 1 << 40], vec![])).code(), "too_large");
        assert_eq!(with(TensorProto { raw_data: Some(vec![0; 7].into()), ..floats(&[2], vec![]) }).code(), "malformed");
    }

    #[test]
    fn long_chains_are_read() {
        let mut net = Net::new(13).x(&[-1, 1]);
        let mut last = "x".to_owned();
        for number in 0..20_000 {
            let next = format!("v{number}");
            net = net.node("Relu", &[&last], &next, vec![]);
            last = next;
        }
        net.graph().node.reverse();
        assert_eq!(net.output(&last).resolve(1).unwrap().layers.len(), 20_000);
    }

    #[test]
    fn versions_out_of_range_are_refused() {
        for (opset, code) in [(6, "unsupported_opset"), (7, "read"), (23, "read"), (24, "unsupported_opset")] {
            assert_eq!(single(opset, "Relu", &[1, 2], vec![], vec![]).code(), code);
        }
    }
}
