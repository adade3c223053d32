//! Operators that a file defines by nodes: each use becomes those nodes.

use std::cell::Cell;
use std::collections::HashMap;

use prost::Message;

use crate::ModelError;
use crate::error::{cut, shown};
use crate::limits::{KEPT_CHARACTERS, MAX_FUNCTION_BYTES, MAX_NODES};
use crate::proto::{AttributeProto, FunctionProto, GraphProto, NodeProto, TensorProto};

/// How deep functions may use others.
const DEEPEST: usize = 16;
/// What an entry of a map counts as, in bytes.
const ENTRY: usize = 64;
/// Characters of a function's name in the names of its values.
const PREFIX: usize = 16;

/// Puts the nodes of functions where they are used.
pub(crate) fn inline(graph: &mut GraphProto, functions: Vec<FunctionProto>) -> Result<(), ModelError> {
    if functions.is_empty() {
        return Ok(());
    }
    let key = |function: &FunctionProto| (function.domain.clone(), function.name.clone(), function.overload.clone());
    let by_name = functions.iter().map(|function| (key(function), function)).collect();
    let mut inliner = Inliner { functions: by_name, uses: 0, nodes: 0, room: Room::default() };
    graph.node = inliner.nodes(std::mem::take(&mut graph.node), 0)?;
    Ok(())
}

struct Inliner<'a> {
    functions: HashMap<(String, String, String), &'a FunctionProto>,
    /// How many uses there were: names of their values must differ.
    uses: usize,
    nodes: usize,
    room: Room,
}

/// How many bytes were made for uses: a small function may be used often, with long names and lists.
#[derive(Default)]
struct Room(Cell<usize>);

impl Room {
    fn take(&self, bytes: usize) -> Result<(), ModelError> {
        self.0.set(self.0.get().saturating_add(bytes));
        if self.0.get() <= MAX_FUNCTION_BYTES {
            return Ok(());
        }
        let what = "what the uses of functions come to".to_owned();
        Err(ModelError::TooLarge { what, limit: format!("{MAX_FUNCTION_BYTES} bytes") })
    }

    /// For a name that is copied.
    fn name(&self, name: String) -> Result<String, ModelError> {
        self.take(name.len().saturating_add(size_of::<String>()))?;
        Ok(name)
    }

    /// For a node that is copied.
    fn node(&self, node: &NodeProto) -> Result<(), ModelError> {
        let names = node.input.iter().chain(&node.output).map(|name| name.len() + size_of::<String>());
        self.take(size_of::<NodeProto>() + names.sum::<usize>() + node.name.len() + node.op_type.len())?;
        node.attribute.iter().try_for_each(|attribute| self.attribute(attribute))
    }

    /// For an attribute that is copied. Elements in bytes are not: they are shared, and so are graphs until names are put in.
    fn attribute(&self, attribute: &AttributeProto) -> Result<(), ModelError> {
        /// Integers may take a byte in a file, and have eight in memory.
        const GROWS: usize = 8;
        let tensor = attribute.t.as_deref();
        let shared = tensor.and_then(|tensor| tensor.raw_data.as_ref()).map_or(0, bytes::Bytes::len);
        let shared = shared + attribute.g.as_ref().map_or(0, bytes::Bytes::len);
        let own = attribute.encoded_len().saturating_sub(shared).saturating_mul(GROWS);
        let tensor = tensor.map_or(0, |_| size_of::<TensorProto>());
        self.take(own.saturating_add(size_of::<AttributeProto>()).saturating_add(tensor))
    }
}

impl Inliner<'_> {
    fn nodes(&mut self, nodes: Vec<NodeProto>, depth: usize) -> Result<Vec<NodeProto>, ModelError> {
        if depth > DEEPEST {
            return Err(too_deep());
        }
        let mut all = Vec::with_capacity(nodes.len());
        for mut node in nodes {
            self.nodes += 1;
            if self.nodes > MAX_NODES {
                let what = "the number of nodes, with those of functions,".to_owned();
                return Err(ModelError::TooLarge { what, limit: MAX_NODES.to_string() });
            }
            let key = (node.domain.clone(), node.op_type.clone(), node.overload.clone());
            if let Some(function) = self.functions.get(&key).copied() {
                let body = self.body(function, &node)?;
                all.extend(self.nodes(body, depth + 1)?);
                continue;
            }
            for attribute in &mut node.attribute {
                within(attribute, |graph| {
                    graph.node = self.nodes(std::mem::take(&mut graph.node), depth + 1)?;
                    Ok(())
                })?;
            }
            all.push(node);
        }
        Ok(all)
    }

    /// The nodes of a function for one of its uses.
    fn body(&mut self, function: &FunctionProto, used: &NodeProto) -> Result<Vec<NodeProto>, ModelError> {
        self.uses += 1;
        let given = |formal: &[String], actual: &[String]| -> Vec<(String, String)> {
            let actual = actual.iter().cloned().chain(std::iter::repeat(String::new()));
            formal.iter().cloned().zip(actual).collect()
        };
        // Before maps of them are made.
        let attributes = used.attribute.len() + function.attribute_proto.len();
        self.room.take(ENTRY * (function.input.len() + function.output.len() + attributes))?;
        let mut names: HashMap<String, String> = given(&function.input, &used.input).into_iter().collect();
        let outputs = given(&function.output, &used.output);
        names.extend(outputs.into_iter().filter(|(_, actual)| !actual.is_empty()));
        names.iter().try_for_each(|(formal, actual)| self.room.take(formal.len() + actual.len()))?;
        let prefix = format!("{}#{}/", cut(&used.op_type, PREFIX), self.uses);
        // The first of a name counts, and those of the use before the function's own.
        let attributes = function.attribute_proto.iter().rev().chain(used.attribute.iter().rev());
        let attributes = attributes.map(|attribute| (attribute.name.as_str(), attribute)).collect();
        let given = Use { names, prefix, attributes, room: &self.room };
        let mut nodes = Vec::with_capacity(function.node.len());
        for (number, node) in function.node.iter().enumerate() {
            self.room.node(node)?;
            let mut node = node.clone();
            let own = if node.name.is_empty() { format!("{}_{number}", node.op_type) } else { node.name.clone() };
            let whole = if used.name.is_empty() { given.prefix.clone() } else { format!("{}/", used.name) };
            given.rename(&mut node, 0)?;
            node.name = self.room.name(cut(&format!("{whole}{own}"), KEPT_CHARACTERS))?;
            nodes.push(node);
        }
        Ok(nodes)
    }
}

/// What one use gives to the nodes of a function.
struct Use<'u> {
    names: HashMap<String, String>,
    prefix: String,
    attributes: HashMap<&'u str, &'u AttributeProto>,
    room: &'u Room,
}

impl Use<'_> {
    fn name(&self, name: &mut String) -> Result<(), ModelError> {
        if name.is_empty() {
            return Ok(());
        }
        let new = self.names.get(name).cloned().unwrap_or_else(|| format!("{}{name}", self.prefix));
        *name = self.room.name(new)?;
        Ok(())
    }

    /// Gives the values of a function's node the names of its use, and takes attributes from there.
    fn rename(&self, node: &mut NodeProto, depth: usize) -> Result<(), ModelError> {
        if depth > DEEPEST {
            return Err(too_deep());
        }
        node.input.iter_mut().chain(&mut node.output).try_for_each(|name| self.name(name))?;
        for attribute in std::mem::take(&mut node.attribute) {
            // One that neither use nor function gives is left out.
            if attribute.ref_attr_name.is_empty() {
                node.attribute.push(attribute);
            } else if let Some(given) = self.attributes.get(attribute.ref_attr_name.as_str()) {
                self.room.attribute(given)?;
                node.attribute.push(AttributeProto { name: attribute.name, ..(*given).clone() });
            }
        }
        for attribute in &mut node.attribute {
            self.room.take(attribute.g.as_ref().map_or(0, bytes::Bytes::len))?;
            within(attribute, |graph| {
                let tensors = graph.initializer.iter_mut().map(|tensor| &mut tensor.name);
                let ports = graph.input.iter_mut().chain(&mut graph.output).map(|port| &mut port.name);
                tensors.chain(ports).try_for_each(|name| self.name(name))?;
                graph.node.iter_mut().try_for_each(|node| self.rename(node, depth + 1))
            })?;
        }
        Ok(())
    }
}

fn too_deep() -> ModelError {
    let what = "functions and graphs inside of one another".to_owned();
    ModelError::TooLarge { what, limit: format!("{DEEPEST} levels") }
}

/// Changes the graph of an attribute, if it has one.
fn within(
    attribute: &mut AttributeProto,
    change: impl FnOnce(&mut GraphProto) -> Result<(), ModelError>,
) -> Result<(), ModelError> {
    let Some(bytes) = attribute.g.take() else { return Ok(()) };
    let mut graph = GraphProto::decode(bytes).map_err(|error| ModelError::Malformed {
        place: "a graph inside of a node".to_owned(),
        why: shown(&error.to_string()),
    })?;
    change(&mut graph)?;
    attribute.g = Some(graph.encode_to_vec().into());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::{Net, float};
    use crate::proto::OperatorSetIdProto;

    fn used(op: &str, input: String, output: String) -> NodeProto {
        let (input, output, op_type) = (vec![input], vec![output], op.to_owned());
        NodeProto { input, output, op_type, domain: "own".to_owned(), ..NodeProto::default() }
    }

    fn function(name: &str, node: Vec<NodeProto>) -> FunctionProto {
        let [input, output] = ["a", "b"].map(|name| vec![name.to_owned()]);
        FunctionProto {
            name: name.to_owned(),
            domain: "own".to_owned(),
            input,
            output,
            node,
            ..FunctionProto::default()
        }
    }

    /// What reading `uses` uses of the first function comes to.
    fn code(functions: Vec<FunctionProto>, uses: usize) -> &'static str {
        let mut net = Net::new(13).x(&[-1, 4]);
        let name = |number: usize| if number == 0 { "x".to_owned() } else { format!("v{number}") };
        net.graph().node = (0..uses).map(|number| used("F", name(number), name(number + 1))).collect();
        net.model.functions = functions;
        net.model.opset_import.push(OperatorSetIdProto { domain: "own".to_owned(), version: 1 });
        net.output(&name(uses)).code()
    }

    #[test]
    fn functions_that_use_themselves_are_refused() {
        let own =
            |next: &str| vec![used(next, "a".to_owned(), "m".to_owned()), used(next, "m".to_owned(), "b".to_owned())];
        assert_eq!(code(vec![function("F", own("F"))], 1), "too_large");
        assert_eq!(code(vec![function("F", own("G")), function("G", own("F"))], 1), "too_large");
    }

    #[test]
    fn what_uses_come_to_is_counted() {
        let mut node = NodeProto { domain: String::new(), ..used("Neg", "a".to_owned(), "b".to_owned()) };
        assert_eq!(code(vec![function("F", vec![node.clone()])], 2000), "read");
        // Each use copies the floats, whether they are the node's or the function's.
        let floats = AttributeProto { floats: vec![0.5; 50_000], ..float("big", 1.0) };
        let mut with_default = function("F", vec![node.clone()]);
        with_default.attribute_proto = vec![floats.clone()];
        with_default.node[0].attribute = vec![AttributeProto { ref_attr_name: "big".to_owned(), ..float("f", 1.0) }];
        assert_eq!(code(vec![with_default], 2000), "too_large");
        node.attribute = vec![floats];
        assert_eq!(code(vec![function("F", vec![node])], 2000), "too_large");
    }
}
