//! A walk over the bytes of a file before they are decoded: is it whole, is it ONNX, how many parts does it have.
//!
//! A message of two bytes decodes to some hundred bytes, so the parts are counted before memory is taken for them.

use crate::ModelError;
use crate::limits::{MAX_ATTRIBUTES, MAX_DIMENSIONS, MAX_NAMES, MAX_NODES, MAX_VALUES};

/// A kind of message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Model,
    Graph,
    Node,
    Attribute,
    Value,
    Type,
    TensorType,
    Shape,
    Function,
    Tensor,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Model => "the model",
            Kind::Graph => "the graph",
            Kind::Node => "a node",
            Kind::Attribute => "an attribute",
            Kind::Value => "an input or output",
            Kind::Type | Kind::TensorType => "the type of an input or output",
            Kind::Shape => "the shape of an input or output",
            Kind::Function => "a function",
            Kind::Tensor => "a tensor",
        }
    }

    /// The kind of message in a field, if its parts are counted.
    fn field(self, number: u64) -> Option<Kind> {
        match (self, number) {
            (Kind::Model, 7) => Some(Kind::Graph),
            (Kind::Graph, 1) => Some(Kind::Node),
            (Kind::Graph, 11 | 12) => Some(Kind::Value),
            (Kind::Node, 5) => Some(Kind::Attribute),
            (Kind::Attribute, 6) => Some(Kind::Graph),
            (Kind::Model, 25) => Some(Kind::Function),
            (Kind::Function, 7) => Some(Kind::Node),
            (Kind::Function, 11) => Some(Kind::Attribute),
            (Kind::Graph | Kind::Attribute, 5) => Some(Kind::Tensor),
            (Kind::Value, 2) => Some(Kind::Type),
            (Kind::Type, 1) => Some(Kind::TensorType),
            (Kind::TensorType, 2) => Some(Kind::Shape),
            _ => None,
        }
    }
}

#[derive(Default)]
struct Counts {
    nodes: usize,
    values: usize,
    names: usize,
    attributes: usize,
    dimensions: usize,
    entries: usize,
}

impl Counts {
    fn add(&mut self, kind: Kind, field: u64) -> Result<(), ModelError> {
        let (count, limit, what) = match (kind, field) {
            (Kind::Graph, 1) | (Kind::Function, 7) => (&mut self.nodes, MAX_NODES, "nodes"),
            (Kind::Graph, 5 | 11 | 12) => (&mut self.values, MAX_VALUES, "weights, inputs and outputs"),
            (Kind::Node, 1 | 2) | (Kind::Function, 4 | 5) => {
                (&mut self.names, MAX_NAMES, "names of inputs and outputs of nodes")
            }
            (Kind::Node, 5) | (Kind::Function, 11) => (&mut self.attributes, MAX_ATTRIBUTES, "attributes"),
            (Kind::Attribute, 9) => (&mut self.names, MAX_NAMES, "texts of attributes"),
            (Kind::Attribute, 5) => (&mut self.values, MAX_VALUES, "weights, inputs and outputs"),
            (Kind::Shape, 1) => (&mut self.dimensions, MAX_DIMENSIONS, "dimensions of inputs and outputs"),
            (Kind::Tensor, 13) => (&mut self.names, MAX_NAMES, "texts about weights in other files"),
            (Kind::Model, 14) => (&mut self.names, MAX_NAMES, "texts beside the graph"),
            (Kind::Model, 8 | 25) => (&mut self.entries, MAX_VALUES, "operator sets"),
            _ => return Ok(()),
        };
        *count += 1;
        if *count > limit {
            return Err(ModelError::TooLarge { what: format!("the number of {what}"), limit: limit.to_string() });
        }
        Ok(())
    }
}

/// Checks that `bytes` are whole ONNX messages with a graph and not too many parts.
pub(crate) fn scan(bytes: &[u8]) -> Result<(), ModelError> {
    let mut counts = Counts::default();
    let mut graphs = 0;
    // The stack holds what is left of each message around.
    let mut stack = vec![(Kind::Model, bytes)];
    let mut strange = false;
    while let Some((kind, rest)) = stack.pop() {
        let Some((field, after)) = next_field(rest) else {
            let why = "bytes that are no field".to_owned();
            return Err(if kind == Kind::Model {
                ModelError::NotOnnx { why: "it starts or goes on with ".to_owned() + &why }
            } else {
                ModelError::Malformed { place: kind.name().to_owned(), why }
            });
        };
        let Some(field) = field else { continue };
        if kind == Kind::Model {
            strange |= !is_model_field(field.number, field.wire);
            graphs += usize::from(field.number == 7);
        }
        if field.missing > 0 {
            return Err(match kind {
                Kind::Model if strange => ModelError::NotOnnx { why: "it has fields that ONNX does not".to_owned() },
                Kind::Model => ModelError::Truncated { missing: field.missing },
                _ => ModelError::Malformed {
                    place: kind.name().to_owned(),
                    why: format!("a field is {} bytes longer than what it is part of", field.missing),
                },
            });
        }
        counts.add(kind, field.number)?;
        stack.push((kind, after));
        if let (Some(inner), 2) = (kind.field(field.number), field.wire) {
            stack.push((inner, field.content));
        }
    }
    match graphs {
        0 => Err(ModelError::NotOnnx { why: "it has no graph".to_owned() }),
        _ => Ok(()),
    }
}

/// Whether a model has such a field; later versions may have more, with higher numbers.
fn is_model_field(number: u64, wire: u64) -> bool {
    match number {
        1 | 5 => wire == 0,
        2..=4 | 6..=8 | 14 | 20 | 25 | 26 => wire == 2,
        _ => false,
    }
}

struct Field<'a> {
    number: u64,
    wire: u64,
    content: &'a [u8],
    /// How many bytes of the content lie past the end.
    missing: u64,
}

/// The first field and what follows it; no field at the end; `None` for bytes that are none.
fn next_field(bytes: &[u8]) -> Option<(Option<Field<'_>>, &[u8])> {
    if bytes.is_empty() {
        return Some((None, bytes));
    }
    let (key, rest) = varint(bytes)?;
    let (number, wire) = (key >> 3, key & 7);
    if number == 0 || key > u64::from(u32::MAX) {
        return None;
    }
    let (len, rest) = match wire {
        0 => match varint(rest) {
            Some((_, after)) => (0, after),
            // Cut off inside the number, if it goes on to the end.
            None if rest.len() < 10 => return Some((Some(Field { number, wire, content: rest, missing: 1 }), rest)),
            None => return None,
        },
        1 => (8, rest),
        5 => (4, rest),
        2 => match varint(rest) {
            Some(parts) => parts,
            None if rest.len() < 10 => return Some((Some(Field { number, wire, content: rest, missing: 1 }), rest)),
            None => return None,
        },
        _ => return None,
    };
    let split = usize::try_from(len).ok().and_then(|len| rest.split_at_checked(len));
    Some(match split {
        Some((content, after)) => (Some(Field { number, wire, content, missing: 0 }), after),
        None => (Some(Field { number, wire, content: rest, missing: len - rest.len() as u64 }), rest),
    })
}

/// The number at the start, seven bits to a byte, and what follows it.
fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0u64;
    for (place, &byte) in bytes.iter().take(10).enumerate() {
        number |= u64::from(byte & 0x7f) << (7 * place).min(63);
        if byte < 0x80 {
            return Some((number, bytes.get(place + 1..)?));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use crate::proto::{AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto};

    fn model(graph: GraphProto) -> Vec<u8> {
        ModelProto { ir_version: 8, graph: Some(graph), ..ModelProto::default() }.encode_to_vec()
    }

    #[test]
    fn other_formats_are_told_apart_from_cut_files() {
        for other in [&b""[..], b"\x89PNG\r\n\x1a\n0000000000", b"PK\x03\x04 zip", b"{\"a\": 1}", b"hello world"] {
            assert_eq!(scan(other).unwrap_err().code(), "not_onnx", "{other:?}");
        }
        let whole = model(GraphProto { name: "a graph with a name".to_owned(), ..GraphProto::default() });
        assert!(scan(&whole).is_ok());
        for len in 4..whole.len() {
            assert_eq!(scan(&whole[..len]).unwrap_err().code(), "truncated", "{len}");
        }
    }

    #[test]
    fn parts_are_counted() {
        let nodes = vec![NodeProto::default(); MAX_NODES + 1];
        assert_eq!(scan(&model(GraphProto { node: nodes, ..GraphProto::default() })).unwrap_err().code(), "too_large");
        let attributes = vec![AttributeProto::default(); MAX_ATTRIBUTES + 1];
        let functions = vec![FunctionProto { attribute_proto: attributes, ..FunctionProto::default() }];
        let file = ModelProto { graph: Some(GraphProto::default()), functions, ..ModelProto::default() };
        assert_eq!(scan(&file.encode_to_vec()).unwrap_err().code(), "too_large");
        let inner = NodeProto { input: vec![String::new(); MAX_NAMES + 1], ..NodeProto::default() };
        let graph = GraphProto { node: vec![inner], ..GraphProto::default() };
        assert_eq!(scan(&model(graph)).unwrap_err().code(), "too_large");
    }
}
