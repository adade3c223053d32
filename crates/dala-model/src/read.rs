//! From the bytes of a file to a graph with its names resolved.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use dala_spec::{DType, Data, Shape, TensorType};
use prost::Message;

use crate::attribute::{Attribute, Tensor};
use crate::error::{UnsupportedOperator, cut, shown};
use crate::external::Folder;
use crate::graph::{Graph, Node};
use crate::limits::{KEPT_CHARACTERS, MAX_ELEMENTS, MAX_METADATA_BYTES, MAX_RANK, MAX_WEIGHTS};
use crate::ops::{self, Declared};
use crate::proto::{
    AttributeProto, DimensionProto, GraphProto, ModelProto, NodeProto, StringStringEntryProto, TensorProto,
    ValueInfoProto, attribute_type, element_type,
};
use crate::{Dim, ModelError, Port, external, functions, scan};

/// The versions of ONNX's operators that are read.
const OPSETS: (i64, i64) = (7, 23);

/// How deep graphs may lie in one another.
const DEEPEST: usize = 16;

/// A file's graph, its inputs and what it says about itself.
pub(crate) struct File {
    pub(crate) graph: Graph,
    pub(crate) inputs: Vec<Port>,
    pub(crate) outputs: Vec<OutputRemark>,
    pub(crate) operators: Vec<(String, usize)>,
    pub(crate) parameters: usize,
    pub(crate) metadata: HashMap<String, String>,
}

/// What a file says about an output. The nodes decide what it is.
#[derive(Debug)]
pub(crate) struct OutputRemark {
    pub(crate) name: String,
    pub(crate) dtype: Option<DType>,
    pub(crate) is_bool: bool,
    /// The sizes, where it says so; none of those that it leaves open.
    pub(crate) dims: Option<Vec<Dim>>,
}

/// Reads a file; `folder` is where weights may be that are in other files.
pub(crate) fn read(bytes: Bytes, folder: Option<&Path>) -> Result<File, ModelError> {
    scan::scan(&bytes)?;
    let model = ModelProto::decode(bytes).map_err(undecoded)?;
    let opset = opset(&model)?;
    let metadata = metadata(model.metadata_props);
    let Some(mut file) = model.graph else {
        return Err(ModelError::NotOnnx { why: "it has no graph".to_owned() });
    };
    functions::inline(&mut file, model.functions)?;
    let mut unsupported = Vec::new();
    let mut counts = HashMap::new();
    check_operators(&file, opset, 0, &mut unsupported, &mut counts)?;
    if !unsupported.is_empty() {
        return Err(ModelError::Unsupported { operators: unsupported });
    }
    let outputs = file.output.iter().map(remark).collect();
    let folder = Folder::new(folder);
    let mut reader = Reader { opset, folder, graphs: 0, elements: 0, parameters: 0, scopes: Vec::new() };
    let (mut graph, inputs) = reader.graph(file)?;
    if graph.outputs.is_empty() {
        return Err(ModelError::Malformed { place: "the graph".to_owned(), why: "it has no outputs".to_owned() });
    }
    graph.elements = reader.elements;
    let (operators, parameters) = (most_frequent(counts), reader.parameters);
    Ok(File { graph, inputs, outputs, operators, parameters, metadata })
}

/// The texts beside a graph, the first of each name. What is no text, or too much, is left out: nothing in the graph needs it.
fn metadata(entries: Vec<Bytes>) -> HashMap<String, String> {
    let (mut texts, mut room) = (HashMap::new(), MAX_METADATA_BYTES);
    for entry in entries {
        let Some(left) = room.checked_sub(entry.len()) else { continue };
        if let Ok(StringStringEntryProto { key, value }) = StringStringEntryProto::decode(entry) {
            room = left;
            texts.entry(key).or_insert(value);
        }
    }
    texts
}

fn undecoded(error: prost::DecodeError) -> ModelError {
    ModelError::Malformed { place: "a message does not decode".to_owned(), why: shown(&error.to_string()) }
}

/// The names of a graph's values, and those of the graphs around it that it reads.
#[derive(Default)]
struct Scope {
    list: Vec<String>,
    numbers: HashMap<String, usize>,
    captures: HashMap<usize, usize>,
}

impl Scope {
    fn define(&mut self, name: &str) -> Result<usize, ModelError> {
        if name.is_empty() {
            return Err(ModelError::Malformed {
                place: "the graph".to_owned(),
                why: "an input or weight has no name".to_owned(),
            });
        }
        if self.numbers.contains_key(name) {
            return Err(ModelError::DuplicateValue { value: shown(name) });
        }
        Ok(self.add(name))
    }

    fn add(&mut self, name: &str) -> usize {
        let number = self.list.len();
        self.numbers.insert(name.to_owned(), number);
        self.list.push(name.to_owned());
        number
    }
}

/// The number of a name in the innermost graph; one of a graph around it becomes known in all between.
fn find(scopes: &mut [Scope], name: &str) -> Option<usize> {
    let (own, around) = scopes.split_last_mut()?;
    if let Some(number) = own.numbers.get(name) {
        return Some(*number);
    }
    let outer = find(around, name)?;
    let number = own.add(name);
    own.captures.insert(number, outer);
    Some(number)
}

/// Reads graphs, and those inside of their nodes.
struct Reader<'a> {
    opset: i64,
    folder: Folder<'a>,
    graphs: usize,
    /// The elements of all tensors so far, those in attributes as well.
    elements: usize,
    parameters: usize,
    scopes: Vec<Scope>,
}

impl Reader<'_> {
    fn scope(&mut self) -> &mut Scope {
        let last = self.scopes.len() - 1;
        &mut self.scopes[last]
    }

    fn find(&mut self, name: &str, reader: impl Fn() -> String) -> Result<usize, ModelError> {
        find(&mut self.scopes, name).ok_or_else(|| ModelError::UndefinedValue { node: reader(), value: shown(name) })
    }

    /// Adds a tensor of the file to those there are.
    fn count(&mut self, tensor: &Tensor) -> Result<(), ModelError> {
        self.elements = self.elements.saturating_add(tensor.data.len());
        // Integers of more than a byte are shapes and places.
        if tensor.ty.dtype.is_float() || tensor.ty.dtype.size() == 1 {
            self.parameters = self.parameters.saturating_add(tensor.data.len());
        }
        if self.elements <= MAX_WEIGHTS {
            return Ok(());
        }
        Err(too_large("all weights together", MAX_WEIGHTS))
    }

    fn graph(&mut self, file: GraphProto) -> Result<(Graph, Vec<Port>), ModelError> {
        self.scopes.push(Scope::default());
        let mut graph = Graph { id: self.graphs, opset: self.opset, ..Graph::default() };
        self.graphs += 1;
        for tensor in file.initializer {
            let number = self.scope().define(&tensor.name)?;
            let tensor = read_tensor(tensor, &self.folder, |name| format!("weight `{name}`"))?;
            self.count(&tensor)?;
            graph.constants.insert(number, tensor);
        }
        let mut ports = Vec::new();
        // The first open size of a first axis names the batch; others of another name are others.
        let mut batch = None;
        for input in &file.input {
            // Old files list the weights among the inputs.
            if self.scope().numbers.get(&input.name).is_some_and(|number| graph.constants.contains_key(number)) {
                continue;
            }
            graph.inputs.push(self.scope().define(&input.name)?);
            // Graphs inside of nodes take what they are given.
            if self.scopes.len() == 1 {
                ports.push(read_port(input, &mut batch)?);
            }
        }
        self.nodes(file.node, &mut graph)?;
        for output in &file.output {
            let number = self.find(&output.name, || "the graph's output".to_owned())?;
            graph.outputs.push(number);
            if let Some(ty) = declared_type(output) {
                graph.declared.insert(number, ty);
            }
        }
        let scope = self.scopes.pop().unwrap_or_default();
        graph.names = scope.list.iter().map(|name| cut(name, KEPT_CHARACTERS)).collect();
        graph.captures = scope.captures;
        graph.sort()?;
        Ok((graph, ports))
    }

    fn nodes(&mut self, nodes: Vec<NodeProto>, graph: &mut Graph) -> Result<(), ModelError> {
        // All outputs first: the nodes of a file need not be in order.
        let mut outputs = Vec::with_capacity(nodes.len());
        for node in &nodes {
            let scope = self.scope();
            let define = |name: &String| (!name.is_empty()).then(|| scope.define(name)).transpose();
            outputs.push(node.output.iter().map(define).collect::<Result<Vec<_>, _>>()?);
        }
        for ((number, node), outputs) in nodes.into_iter().enumerate().zip(outputs) {
            let (name, steps) = (cut(&node_name(&node, number), KEPT_CHARACTERS), steps(&node));
            let Some(operator) = ops::find(&node.domain, &node.op_type) else { continue };
            let mut inputs = Vec::with_capacity(node.input.len());
            for input in &node.input {
                inputs.push(match input.as_str() {
                    "" => None,
                    input => Some(self.find(input, || format!("node `{}`", shown(&name)))?),
                });
            }
            let (min, max) = operator.inputs;
            if !(min..=max).contains(&inputs.len()) || inputs.iter().take(min).any(Option::is_none) {
                let expected = if min == max { min.to_string() } else { format!("{min} to {max}") };
                let found = inputs.iter().flatten().count();
                return Err(ModelError::Inputs { node: shown(&name), expected, found });
            }
            let mut attributes = Vec::with_capacity(node.attribute.len());
            let (mut captured, mut graphs) = (Vec::new(), Vec::new());
            for mut attribute in node.attribute {
                let attribute_name = attribute.name.clone();
                if let Some(graph) = attribute.g.take() {
                    let graph = self.inner_graph(graph)?;
                    captured.extend(graph.captures.values());
                    graphs.push((attribute_name.clone(), Arc::new(graph)));
                }
                let attribute = read_attribute(attribute, &self.folder, &name)?;
                if let Attribute::Tensor(tensor) = &attribute {
                    self.count(tensor)?;
                }
                attributes.push((attribute_name, attribute));
            }
            captured.sort_unstable();
            captured.dedup();
            graph.nodes.push(Node { name, steps, operator, inputs, captured, outputs, attributes, graphs });
        }
        Ok(())
    }

    fn inner_graph(&mut self, bytes: Bytes) -> Result<Graph, ModelError> {
        if self.scopes.len() > DEEPEST {
            return Err(too_deep());
        }
        Ok(self.graph(GraphProto::decode(bytes).map_err(undecoded)?)?.0)
    }
}

/// How many steps of a walk a node counts as: what it says is read each time, but for graphs and tensors.
fn steps(node: &NodeProto) -> usize {
    /// What is read in about the time that anything takes.
    const BYTES: usize = 256;
    let apart = |attribute: &AttributeProto| {
        let tensor = attribute.t.as_ref().map_or(0, |tensor| tensor.encoded_len());
        tensor + attribute.g.as_ref().map_or(0, Bytes::len)
    };
    let apart: usize = node.attribute.iter().map(apart).sum();
    1 + node.encoded_len().saturating_sub(apart) / BYTES
}

fn opset(model: &ModelProto) -> Result<i64, ModelError> {
    let (min, max) = OPSETS;
    let own = model.opset_import.iter().find(|set| is_onnx(&set.domain));
    if own.is_none() && !model.opset_import.is_empty() {
        // All of its operators are of other sets.
        return Ok(max);
    }
    let set = own.ok_or_else(|| ModelError::Malformed {
        place: "the model".to_owned(),
        why: "it does not say which version of the operators it uses".to_owned(),
    })?;
    match set.version {
        version if (min..=max).contains(&version) => Ok(version),
        found => Err(ModelError::Opset { found, min, max }),
    }
}

fn is_onnx(domain: &str) -> bool {
    domain.is_empty() || domain == "ai.onnx"
}

fn node_name(node: &NodeProto, number: usize) -> String {
    if node.name.is_empty() { format!("{}_{number}", shown(&node.op_type)) } else { node.name.clone() }
}

/// What outputs are called in words.
const ORDINALS: [&str; 5] = ["first", "second", "third", "fourth", "fifth"];

/// Lists every node that cannot be read, before anything else is said about the file, and counts all of them.
fn check_operators(
    file: &GraphProto,
    opset: i64,
    depth: usize,
    unsupported: &mut Vec<UnsupportedOperator>,
    counts: &mut HashMap<String, usize>,
) -> Result<(), ModelError> {
    let ranks: HashMap<&str, usize> =
        file.initializer.iter().map(|tensor| (tensor.name.as_str(), tensor.dims.len())).collect();
    let read = file.node.iter().flat_map(|node| node.input.iter()).chain(file.output.iter().map(|output| &output.name));
    let read: HashSet<&str> = read.map(String::as_str).filter(|name| !name.is_empty()).collect();
    for (number, node) in file.node.iter().enumerate() {
        *counts.entry(node.op_type.clone()).or_default() += 1;
        let (operator, why) = match ops::find(&node.domain, &node.op_type) {
            None if !is_onnx(&node.domain) => {
                (format!("{}.{}", node.domain, node.op_type), Some("not an operator of ONNX".to_owned()))
            }
            None => (node.op_type.clone(), Some("not one of the operators that are read".to_owned())),
            Some(operator) => {
                let used = node.output.iter().skip(operator.outputs).any(|output| read.contains(output.as_str()));
                let outputs = used.then(|| format!("its {} output is used", ORDINALS[operator.outputs.min(4)]));
                (node.op_type.clone(), outputs.or_else(|| (operator.refuses)(&Declared { node, opset, ranks: &ranks })))
            }
        };
        if let Some(why) = why {
            let node = shown(&node_name(node, number));
            unsupported.push(UnsupportedOperator { node, operator: shown(&operator), why });
        }
        for graph in node.attribute.iter().filter_map(|attribute| attribute.g.as_ref()) {
            if depth == DEEPEST {
                return Err(too_deep());
            }
            check_operators(
                &GraphProto::decode(graph.clone()).map_err(undecoded)?,
                opset,
                depth + 1,
                unsupported,
                counts,
            )?;
        }
    }
    Ok(())
}

fn too_deep() -> ModelError {
    ModelError::TooLarge { what: "graphs inside of graphs".to_owned(), limit: format!("{DEEPEST} levels") }
}

/// The most frequent first, and those as frequent by name.
fn most_frequent(counts: HashMap<String, usize>) -> Vec<(String, usize)> {
    let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
    counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    counts
}

fn read_attribute(attribute: AttributeProto, folder: &Folder<'_>, node: &str) -> Result<Attribute, ModelError> {
    let attribute_name = attribute.name;
    let bad = |expected: &str, found: &str| ModelError::BadAttribute {
        node: shown(node),
        attribute: shown(&attribute_name),
        expected: expected.to_owned(),
        found: found.to_owned(),
    };
    // Very old files do not say which field is used.
    let kind = match attribute.r#type {
        0 if attribute.t.is_some() => attribute_type::TENSOR,
        0 if attribute.s.is_some() => attribute_type::STRING,
        0 if attribute.i.is_some() => attribute_type::INT,
        0 if attribute.f.is_some() => attribute_type::FLOAT,
        0 if !attribute.ints.is_empty() => attribute_type::INTS,
        0 if !attribute.floats.is_empty() => attribute_type::FLOATS,
        0 if !attribute.strings.is_empty() => attribute_type::STRINGS,
        kind => kind,
    };
    Ok(match kind {
        // A writer may leave out a number that is zero.
        attribute_type::FLOAT => Attribute::Float(attribute.f.unwrap_or_default()),
        attribute_type::INT => Attribute::Int(attribute.i.unwrap_or_default()),
        attribute_type::STRING => match std::str::from_utf8(&attribute.s.unwrap_or_default()) {
            Ok(text) => Attribute::Text(text.to_owned()),
            Err(_) => return Err(bad("a text", "bytes that are no UTF-8")),
        },
        attribute_type::TENSOR => {
            let tensor = attribute.t.ok_or_else(|| bad("a tensor", "nothing"))?;
            let what = |_: &str| format!("attribute `{}` of node `{}`", shown(&attribute_name), shown(node));
            Attribute::Tensor(read_tensor(*tensor, folder, what)?)
        }
        attribute_type::FLOATS => Attribute::Floats(attribute.floats),
        attribute_type::INTS => Attribute::Ints(attribute.ints),
        attribute_type::GRAPH => Attribute::Other("a graph"),
        attribute_type::STRINGS => {
            let texts = attribute.strings.iter().map(|text| std::str::from_utf8(text).map(str::to_owned));
            match texts.collect() {
                Ok(texts) => Attribute::Texts(texts),
                Err(_) => return Err(bad("texts", "bytes that are no UTF-8")),
            }
        }
        _ => Attribute::Other("something of another type"),
    })
}

fn too_large(what: &str, elements: usize) -> ModelError {
    ModelError::TooLarge { what: what.to_owned(), limit: format!("{elements} elements") }
}

fn read_tensor(
    mut tensor: TensorProto,
    folder: &Folder<'_>,
    what: impl Fn(&str) -> String,
) -> Result<Tensor, ModelError> {
    let what = what(&shown(&tensor.name));
    let dtype = element_type::dtype(tensor.data_type)
        .map_err(|found| ModelError::ElementType { what: what.clone(), found: found.to_owned() })?;
    let malformed = |why: String| ModelError::Malformed { place: what.clone(), why };
    let mut dims = Vec::new();
    if tensor.dims.len() > MAX_RANK {
        return Err(ModelError::TooLarge { what, limit: format!("{MAX_RANK} dimensions") });
    }
    for &dim in &tensor.dims {
        let dim = usize::try_from(dim).map_err(|_| malformed(format!("it has a dimension of {dim}")))?;
        dims.push(dim);
    }
    let shape = Shape::from(dims);
    let len = shape.checked_len().filter(|_| shape.dims().iter().all(|&dim| dim <= MAX_ELEMENTS));
    let len = len.filter(|&len| len <= MAX_ELEMENTS).ok_or_else(|| too_large(&what, MAX_ELEMENTS))?;

    if tensor.data_location == 1 || !tensor.external_data.is_empty() {
        tensor.raw_data = Some(external::elements(&tensor, len.saturating_mul(dtype.size()), folder)?);
    }
    let is_bool = tensor.data_type == element_type::BOOL;
    let found = count_elements(&tensor, dtype);
    if found != (len, 0) {
        let extra = if found.1 > 0 { format!(" and {} bytes", found.1) } else { String::new() };
        return Err(malformed(format!("its shape {shape} has {len} elements, the file has {}{extra}", found.0)));
    }
    let mut data = take_elements(tensor, dtype);
    if let (Data::U8(values), true) = (&mut data, is_bool) {
        values.iter_mut().for_each(|value| *value = u8::from(*value != 0));
    }
    if data.len() != len {
        return Err(malformed(format!("its shape {shape} has {len} elements, the file has {}", data.len())));
    }
    Ok(Tensor { ty: TensorType { dtype, shape }, data: Arc::new(data) })
}

/// How many elements the file has for a tensor, and how many bytes are left over.
fn count_elements(tensor: &TensorProto, dtype: DType) -> (usize, usize) {
    if let Some(raw) = tensor.raw_data.as_ref().filter(|raw| !raw.is_empty()) {
        return (raw.len() / dtype.size(), raw.len() % dtype.size());
    }
    let count = match dtype {
        DType::F32 => tensor.float_data.len(),
        DType::F64 => tensor.double_data.len(),
        DType::S64 => tensor.int64_data.len(),
        DType::U32 | DType::U64 => tensor.uint64_data.len(),
        _ => tensor.int32_data.len(),
    };
    (count, 0)
}

fn take_elements(tensor: TensorProto, dtype: DType) -> Data {
    if let Some(raw) = tensor.raw_data.filter(|raw| !raw.is_empty()) {
        return Data::from_bytes(dtype, &raw);
    }
    match dtype {
        DType::F32 => Data::F32(tensor.float_data),
        DType::F64 => Data::F64(tensor.double_data),
        DType::S64 => Data::S64(tensor.int64_data),
        DType::S32 => Data::S32(tensor.int32_data),
        DType::U64 => Data::U64(tensor.uint64_data),
        // Fields are wider than the elements; a number that does not fit keeps its low bits, as other readers do.
        DType::U32 => Data::U32(tensor.uint64_data.iter().map(|&value| value as u32).collect()),
        // 16-bit floats are there as their bits.
        narrow => {
            let numbers = tensor.int32_data.iter();
            let bytes: Vec<u8> =
                numbers.flat_map(|value| value.to_le_bytes().into_iter().take(narrow.size())).collect();
            Data::from_bytes(narrow, &bytes)
        }
    }
}

/// What a file says about an output.
fn remark(output: &ValueInfoProto) -> OutputRemark {
    let tensor = output.r#type.as_ref().and_then(|ty| ty.tensor_type.as_ref());
    let dims = tensor.and_then(|tensor| tensor.shape.as_ref()).map(|shape| {
        let dims = shape.dim.iter().take(MAX_RANK).enumerate();
        dims.map(|(axis, dim)| {
            known_size(dim).map_or_else(|| Dim::Open(size_name(&output.name, axis, dim)), Dim::Known)
        })
        .collect()
    });
    let dtype = tensor.and_then(|tensor| element_type::dtype(tensor.elem_type).ok());
    let is_bool = tensor.is_some_and(|tensor| tensor.elem_type == element_type::BOOL);
    OutputRemark { name: output.name.clone(), dtype, is_bool, dims }
}

/// The type of a value, where a file says all of it.
fn declared_type(output: &ValueInfoProto) -> Option<TensorType> {
    let OutputRemark { dtype, dims, .. } = remark(output);
    let sizes = dims?.into_iter().map(|dim| match dim {
        Dim::Known(size) => Some(size),
        _ => None,
    });
    Some(TensorType::new(dtype?, sizes.collect::<Option<Vec<usize>>>()?))
}

fn known_size(dim: &DimensionProto) -> Option<usize> {
    usize::try_from(dim.dim_value.filter(|&size| size > 0)?).ok().filter(|size| *size <= MAX_ELEMENTS)
}

/// What an open size is called: as in the file, or by its place.
fn size_name(port: &str, axis: usize, dim: &DimensionProto) -> String {
    match dim.dim_param.as_deref() {
        Some(name) if !matches!(name, "" | "?" | "-1") => name.to_owned(),
        _ => format!("{port}.{axis}"),
    }
}

fn read_port(input: &ValueInfoProto, batch: &mut Option<String>) -> Result<Port, ModelError> {
    let name = shown(&input.name);
    let what = format!("input `{name}`");
    let tensor = input.r#type.as_ref().and_then(|ty| ty.tensor_type.as_ref());
    let tensor =
        tensor.ok_or_else(|| ModelError::ElementType { what: what.clone(), found: "that is no tensor".to_owned() })?;
    let dtype = element_type::dtype(tensor.elem_type)
        .map_err(|found| ModelError::ElementType { what: what.clone(), found: found.to_owned() })?;
    let shape = tensor.shape.as_ref().ok_or_else(|| ModelError::UnknownShape { input: name.clone() })?;
    if shape.dim.len() > MAX_RANK {
        return Err(ModelError::TooLarge { what, limit: format!("{MAX_RANK} dimensions") });
    }
    let mut dims = Vec::new();
    for (axis, dim) in shape.dim.iter().enumerate() {
        if dim.dim_value.is_some_and(|size| size > MAX_ELEMENTS as i64) {
            return Err(too_large(&what, MAX_ELEMENTS));
        }
        dims.push(match (known_size(dim), axis) {
            (Some(size), _) => Dim::Known(size),
            (None, 0) => {
                let own = dim.dim_param.clone().unwrap_or_default();
                match batch.get_or_insert_with(|| own.clone()) == &own {
                    true => Dim::Batch,
                    false => Dim::Open(size_name(&input.name, axis, dim)),
                }
            }
            (None, _) => Dim::Open(size_name(&input.name, axis, dim)),
        });
    }
    Ok(Port { name: input.name.clone(), dtype, is_bool: tensor.elem_type == element_type::BOOL, dims })
}
