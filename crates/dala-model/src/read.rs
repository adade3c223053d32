//! From the bytes of a file to a graph with its names resolved.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use dala_spec::{DType, Data, Shape, TensorType};
use prost::Message;

use crate::attribute::{Attribute, Tensor};
use crate::error::{UnsupportedOperator, shown};
use crate::graph::{Graph, Node};
use crate::limits::{MAX_ELEMENTS, MAX_RANK};
use crate::ops::{self, Declared};
use crate::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, attribute_type, element_type,
};
use crate::{Dim, ModelError, Port, scan};

/// The versions of ONNX's operators that are read.
const OPSETS: (i64, i64) = (7, 22);

/// A file's graph, its inputs and what it says about itself.
pub(crate) struct File {
    pub(crate) graph: Graph,
    pub(crate) inputs: Vec<Port>,
    /// The name of each output, and whether the file gives it a fixed first dimension.
    pub(crate) outputs: Vec<(String, bool)>,
    pub(crate) operators: Vec<(String, usize)>,
    pub(crate) parameters: usize,
}

pub(crate) fn read(bytes: Bytes) -> Result<File, ModelError> {
    scan::scan(&bytes)?;
    let model = ModelProto::decode(bytes).map_err(|error| ModelError::Malformed {
        place: "a message does not decode".to_owned(),
        why: shown(&error.to_string()),
    })?;
    let opset = opset(&model)?;
    let Some(file) = model.graph else {
        return Err(ModelError::NotOnnx { why: "it has no graph".to_owned() });
    };
    check_operators(&file, opset)?;
    let operators = count_operators(&file);
    let outputs = file.output.iter().map(|output| (output.name.clone(), has_fixed_first_axis(output))).collect();

    let mut names = Names::default();
    let mut graph = Graph { opset, ..Graph::default() };
    let mut parameters = 0;
    for tensor in file.initializer {
        let number = names.define(&tensor.name)?;
        let tensor = read_tensor(tensor, |name| format!("weight `{name}`"))?;
        graph.count(&tensor)?;
        if tensor.ty.dtype.is_float() {
            parameters += tensor.data.len();
        }
        graph.constants.insert(number, tensor);
    }
    let mut inputs = Vec::new();
    for input in &file.input {
        // Old files list the weights among the inputs.
        if names.numbers.get(&input.name).is_some_and(|number| graph.constants.contains_key(number)) {
            continue;
        }
        graph.inputs.push(names.define(&input.name)?);
        inputs.push(read_port(input)?);
    }
    read_nodes(file.node, &mut names, &mut graph)?;
    for output in &file.output {
        let number = names.find(&output.name, || "the graph's output".to_owned())?;
        graph.outputs.push(number);
    }
    if graph.outputs.is_empty() {
        return Err(ModelError::Malformed { place: "the graph".to_owned(), why: "it has no outputs".to_owned() });
    }
    graph.names = names.list;
    graph.sort()?;
    Ok(File { graph, inputs, outputs, operators, parameters })
}

/// The names of values and their numbers.
#[derive(Default)]
struct Names {
    list: Vec<String>,
    numbers: HashMap<String, usize>,
}

impl Names {
    fn define(&mut self, name: &str) -> Result<usize, ModelError> {
        let number = self.list.len();
        if name.is_empty() {
            return Err(ModelError::Malformed {
                place: "the graph".to_owned(),
                why: "an input or weight has no name".to_owned(),
            });
        }
        if self.numbers.insert(name.to_owned(), number).is_some() {
            return Err(ModelError::DuplicateValue { value: shown(name) });
        }
        self.list.push(name.to_owned());
        Ok(number)
    }

    fn find(&self, name: &str, reader: impl Fn() -> String) -> Result<usize, ModelError> {
        let undefined = || ModelError::UndefinedValue { node: reader(), value: shown(name) };
        self.numbers.get(name).copied().ok_or_else(undefined)
    }
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

/// Lists every node that cannot be read, before anything else is said about the file.
fn check_operators(file: &GraphProto, opset: i64) -> Result<(), ModelError> {
    let ranks: HashMap<&str, usize> =
        file.initializer.iter().map(|tensor| (tensor.name.as_str(), tensor.dims.len())).collect();
    let read = file.node.iter().flat_map(|node| node.input.iter()).chain(file.output.iter().map(|output| &output.name));
    let read: HashSet<&str> = read.map(String::as_str).filter(|name| !name.is_empty()).collect();
    let mut operators = Vec::new();
    for (number, node) in file.node.iter().enumerate() {
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
            operators.push(UnsupportedOperator { node, operator: shown(&operator), why });
        }
    }
    if operators.is_empty() { Ok(()) } else { Err(ModelError::Unsupported { operators }) }
}

/// The most frequent first, and those as frequent by name.
fn count_operators(file: &GraphProto) -> Vec<(String, usize)> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for node in &file.node {
        *counts.entry(&node.op_type).or_default() += 1;
    }
    let mut counts: Vec<(String, usize)> = counts.into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
    counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    counts
}

fn read_nodes(nodes: Vec<NodeProto>, names: &mut Names, graph: &mut Graph) -> Result<(), ModelError> {
    // All outputs first: the nodes of a file need not be in order.
    let mut outputs = Vec::with_capacity(nodes.len());
    for node in &nodes {
        let define = |name: &String| (!name.is_empty()).then(|| names.define(name)).transpose();
        outputs.push(node.output.iter().map(define).collect::<Result<Vec<_>, _>>()?);
    }
    for ((number, node), outputs) in nodes.into_iter().enumerate().zip(outputs) {
        let name = node_name(&node, number);
        let Some(operator) = ops::find(&node.domain, &node.op_type) else { continue };
        let reader = || format!("node `{}`", shown(&name));
        let inputs = node.input.iter().map(|input| match input.as_str() {
            "" => Ok(None),
            input => names.find(input, reader).map(Some),
        });
        let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
        let (min, max) = operator.inputs;
        if !(min..=max).contains(&inputs.len()) || inputs.iter().take(min).any(Option::is_none) {
            let expected = if min == max { min.to_string() } else { format!("{min} to {max}") };
            let found = inputs.iter().flatten().count();
            return Err(ModelError::Inputs { node: shown(&name), expected, found });
        }
        let mut attributes = Vec::with_capacity(node.attribute.len());
        for attribute in node.attribute {
            let attribute_name = attribute.name.clone();
            let attribute = read_attribute(attribute, &name)?;
            if let Attribute::Tensor(tensor) = &attribute {
                graph.count(tensor)?;
            }
            attributes.push((attribute_name, attribute));
        }
        graph.nodes.push(Node { name, operator, inputs, outputs, attributes });
    }
    Ok(())
}

fn read_attribute(attribute: AttributeProto, node: &str) -> Result<Attribute, ModelError> {
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
            Attribute::Tensor(read_tensor(*tensor, what)?)
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

fn read_tensor(tensor: TensorProto, what: impl Fn(&str) -> String) -> Result<Tensor, ModelError> {
    let what = what(&shown(&tensor.name));
    if tensor.data_location == 1 || !tensor.external_data.is_empty() {
        return Err(ModelError::ExternalData { tensor: shown(&tensor.name) });
    }
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

fn has_fixed_first_axis(value: &ValueInfoProto) -> bool {
    let tensor = value.r#type.as_ref().and_then(|ty| ty.tensor_type.as_ref());
    let first = tensor.and_then(|tensor| tensor.shape.as_ref()?.dim.first());
    first.is_some_and(|dim| dim.dim_value.is_some_and(|size| size > 0))
}

fn read_port(input: &ValueInfoProto) -> Result<Port, ModelError> {
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
        dims.push(match dim.dim_value.filter(|&size| size > 0).map(usize::try_from) {
            Some(Ok(size)) if size <= MAX_ELEMENTS => Dim::Known(size),
            Some(_) => return Err(too_large(&what, MAX_ELEMENTS)),
            None if axis == 0 => Dim::Batch,
            None => return Err(ModelError::SymbolicAxis { input: name, axis }),
        });
    }
    Ok(Port { name: input.name.clone(), dtype, dims })
}
