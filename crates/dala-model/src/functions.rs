//! Operators that a file defines by nodes: each use becomes those nodes.

use std::collections::HashMap;

use prost::Message;

use crate::ModelError;
use crate::error::shown;
use crate::limits::MAX_NODES;
use crate::proto::{AttributeProto, FunctionProto, GraphProto, NodeProto};

/// How deep functions may use others.
const DEEPEST: usize = 16;

/// Puts the nodes of functions where they are used.
pub(crate) fn inline(graph: &mut GraphProto, functions: Vec<FunctionProto>) -> Result<(), ModelError> {
    if functions.is_empty() {
        return Ok(());
    }
    let key = |function: &FunctionProto| (function.domain.clone(), function.name.clone(), function.overload.clone());
    let by_name = functions.iter().map(|function| (key(function), function)).collect();
    let mut inliner = Inliner { functions: by_name, uses: 0, nodes: 0 };
    graph.node = inliner.nodes(std::mem::take(&mut graph.node), 0)?;
    Ok(())
}

struct Inliner<'a> {
    functions: HashMap<(String, String, String), &'a FunctionProto>,
    /// How many uses there were: names of their values must differ.
    uses: usize,
    nodes: usize,
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
        let mut names: HashMap<String, String> = given(&function.input, &used.input).into_iter().collect();
        let outputs = given(&function.output, &used.output);
        names.extend(outputs.into_iter().filter(|(_, actual)| !actual.is_empty()));
        let prefix = format!("{}#{}/", used.op_type, self.uses);
        let attributes = |name: &str| {
            let own = used.attribute.iter().find(|attribute| attribute.name == name);
            own.or_else(|| function.attribute_proto.iter().find(|attribute| attribute.name == name))
        };
        let mut nodes = function.node.clone();
        for (number, node) in nodes.iter_mut().enumerate() {
            let own = if node.name.is_empty() { format!("{}_{number}", node.op_type) } else { node.name.clone() };
            let whole = if used.name.is_empty() { prefix.clone() } else { format!("{}/", used.name) };
            rename(node, &names, &prefix, &attributes, 0)?;
            node.name = format!("{whole}{own}");
        }
        Ok(nodes)
    }
}

/// Gives the values of a function's node the names of its use, and takes attributes from there.
fn rename<'u>(
    node: &mut NodeProto,
    names: &HashMap<String, String>,
    prefix: &str,
    attributes: &dyn Fn(&str) -> Option<&'u AttributeProto>,
    depth: usize,
) -> Result<(), ModelError> {
    if depth > DEEPEST {
        return Err(too_deep());
    }
    for name in node.input.iter_mut().chain(&mut node.output).filter(|name| !name.is_empty()) {
        *name = names.get(name).cloned().unwrap_or_else(|| format!("{prefix}{name}"));
    }
    let taken = std::mem::take(&mut node.attribute).into_iter().filter_map(|attribute| {
        match attribute.ref_attr_name.as_str() {
            "" => Some(attribute),
            // One that neither use nor function gives is left out.
            other => attributes(other).map(|given| AttributeProto { name: attribute.name, ..given.clone() }),
        }
    });
    node.attribute = taken.collect();
    for attribute in &mut node.attribute {
        within(attribute, |graph| {
            let tensors = graph.initializer.iter_mut().map(|tensor| &mut tensor.name);
            let ports = graph.input.iter_mut().chain(&mut graph.output).map(|port| &mut port.name);
            for name in tensors.chain(ports).filter(|name| !name.is_empty()) {
                *name = names.get(name).cloned().unwrap_or_else(|| format!("{prefix}{name}"));
            }
            graph.node.iter_mut().try_for_each(|node| rename(node, names, prefix, attributes, depth + 1))
        })?;
    }
    Ok(())
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
