//! Why a file was refused.

use crate::limits::SHOWN_CHARACTERS;

/// A node that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsupportedOperator {
    /// The node's name.
    pub node: String,
    /// Its operator.
    pub operator: String,
    /// What about it is not supported.
    pub why: String,
}

/// A file that is not a model, or not one that can be run. Each case has a stable [`code`](ModelError::code).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The file cannot be opened or read.
    #[error("cannot read `{path}`")]
    Io {
        /// The file.
        path: String,
        /// Why not.
        source: std::io::Error,
    },
    /// The file is of another format.
    #[error("this is not an ONNX file: {why}")]
    NotOnnx {
        /// What does not fit.
        why: String,
    },
    /// The file ends too early.
    #[error("the file is cut off: it says that {missing} more bytes follow its end")]
    Truncated {
        /// How many bytes are missing, at least.
        missing: u64,
    },
    /// The file is an ONNX file with a part that cannot be.
    #[error("the file is damaged: {place}: {why}")]
    Malformed {
        /// Which part.
        place: String,
        /// What is wrong with it.
        why: String,
    },
    /// The operators are of a version that is not known.
    #[error(
        "the model uses operator set {found}, those from {min} to {max} are supported: export it again with one of them"
    )]
    Opset {
        /// The version of the file.
        found: i64,
        /// The oldest that is read.
        min: i64,
        /// The newest that is read.
        max: i64,
    },
    /// Some nodes cannot be read: all of them.
    #[error("{}", unsupported(.operators))]
    Unsupported {
        /// The nodes, in the order of the file.
        operators: Vec<UnsupportedOperator>,
    },
    /// An element type that is not supported.
    #[error(
        "{what} has elements of type {found}, supported are floats of 16, 32 and 64 bits, integers of 8 to 64 bits, and bool"
    )]
    ElementType {
        /// The input, weight or attribute.
        what: String,
        /// Its element type.
        found: String,
    },
    /// A weight is in another file that cannot be used.
    #[error("the elements of `{tensor}` are in another file: {why}")]
    ExternalData {
        /// The weight.
        tensor: String,
        /// What is wrong with it.
        why: String,
    },
    /// Sizes are asked for that only a call says.
    #[error("input `{input}` has open sizes {shape}: give them, or ask with the sizes of a call")]
    OpenSizes {
        /// The input.
        input: String,
        /// Its shape in words.
        shape: String,
    },
    /// A size that the model does not have.
    #[error("no open size is called `{name}`; open are {}", if .known.is_empty() { "none" } else { .known })]
    UnknownSize {
        /// The name.
        name: String,
        /// Those there are.
        known: String,
    },
    /// A call with too few or too many inputs.
    #[error("the model takes {expected} inputs, found {found}")]
    InputCount {
        /// How many it takes.
        expected: usize,
        /// How many were given.
        found: usize,
    },
    /// A call with an input that does not fit.
    #[error("input `{input}` takes {expected}, found {found}")]
    Input {
        /// The input.
        input: String,
        /// What it takes.
        expected: String,
        /// What was given.
        found: String,
    },
    /// An input has no shape.
    #[error("input `{input}` has no shape: export the model with one")]
    UnknownShape {
        /// The input.
        input: String,
    },
    /// Nodes wait for each other.
    #[error("node `{node}` reads its own result, through other nodes or directly")]
    Cyclic {
        /// A node of the circle.
        node: String,
    },
    /// A value that nothing makes.
    #[error("{node} reads `{value}`, which is no input, no weight and no node's output")]
    UndefinedValue {
        /// The node, or `the graph's output`.
        node: String,
        /// The value.
        value: String,
    },
    /// Two values of one name.
    #[error("two values are called `{value}`")]
    DuplicateValue {
        /// The name.
        value: String,
    },
    /// A node with too few or too many inputs.
    #[error("node `{node}` takes {expected} inputs, found {found}")]
    Inputs {
        /// The node.
        node: String,
        /// How many it takes.
        expected: String,
        /// How many it has, without those that are left out.
        found: usize,
    },
    /// An attribute of the wrong type or with a value that cannot be.
    #[error("attribute `{attribute}` of node `{node}` must be {expected}, found {found}")]
    BadAttribute {
        /// The node.
        node: String,
        /// The attribute.
        attribute: String,
        /// What it may be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// Shapes that do not go together.
    #[error("node `{node}` needs {expected}, found {found}")]
    ShapeMismatch {
        /// The node.
        node: String,
        /// What it needs.
        expected: String,
        /// What it has.
        found: String,
    },
    /// Element types that do not go together.
    #[error("node `{node}` needs {expected}, found {found}")]
    TypeMismatch {
        /// The node.
        node: String,
        /// What it needs.
        expected: String,
        /// What it has.
        found: String,
    },
    /// An input that must be known beforehand but depends on the model's input.
    #[error("{input} of node `{node}` depends on the model's input; it must follow from weights and shapes alone")]
    NotConstant {
        /// The node.
        node: String,
        /// The input.
        input: String,
    },
    /// A constant with a value that cannot be.
    #[error("{input} of node `{node}` must be {expected}, found {found}")]
    BadValue {
        /// The node.
        node: String,
        /// The input.
        input: String,
        /// What it may be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// Something is larger than a limit.
    #[error("{what} would be larger than {limit}")]
    TooLarge {
        /// What.
        what: String,
        /// The limit, with its unit.
        limit: String,
    },
    /// A batch that the model does not take.
    #[error("the model takes a batch of {allowed}, not of {asked}")]
    Batch {
        /// The batch that was asked for.
        asked: usize,
        /// What it may be.
        allowed: String,
    },
}

impl ModelError {
    /// A stable name for the case, for programs to match on.
    pub fn code(&self) -> &'static str {
        match self {
            ModelError::Io { .. } => "io",
            ModelError::NotOnnx { .. } => "not_onnx",
            ModelError::Truncated { .. } => "truncated",
            ModelError::Malformed { .. } => "malformed",
            ModelError::Opset { .. } => "unsupported_opset",
            ModelError::Unsupported { .. } => "unsupported_operator",
            ModelError::ElementType { .. } => "unsupported_element_type",
            ModelError::ExternalData { .. } => "external_data",
            ModelError::OpenSizes { .. } => "open_sizes",
            ModelError::UnknownSize { .. } => "unknown_size",
            ModelError::InputCount { .. } => "arity",
            ModelError::Input { .. } => "bad_input",
            ModelError::UnknownShape { .. } => "unknown_shape",
            ModelError::Cyclic { .. } => "cyclic",
            ModelError::UndefinedValue { .. } => "undefined_value",
            ModelError::DuplicateValue { .. } => "duplicate_value",
            ModelError::Inputs { .. } => "arity",
            ModelError::BadAttribute { .. } => "bad_attribute",
            ModelError::ShapeMismatch { .. } => "shape_mismatch",
            ModelError::TypeMismatch { .. } => "dtype_mismatch",
            ModelError::NotConstant { .. } => "not_constant",
            ModelError::BadValue { .. } => "bad_value",
            ModelError::TooLarge { .. } => "too_large",
            ModelError::Batch { .. } => "bad_batch",
        }
    }
}

/// A name of the file, short enough to be shown.
pub(crate) fn shown(name: &str) -> String {
    cut(name, SHOWN_CHARACTERS)
}

/// A name of the file with at most so many characters.
pub(crate) fn cut(name: &str, most: usize) -> String {
    match name.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", name.get(..end).unwrap_or_default()),
        None => name.to_owned(),
    }
}

/// How many kinds, and how many nodes of a kind, the message names.
const SHOWN_KINDS: usize = 12;
const SHOWN_NODES: usize = 3;

/// One line for each kind of trouble, with the first nodes that have it.
fn unsupported(operators: &[UnsupportedOperator]) -> String {
    let mut kinds: Vec<(&str, &str, Vec<&str>)> = Vec::new();
    let mut left_out = 0;
    for UnsupportedOperator { node, operator, why } in operators {
        let room = kinds.len() < SHOWN_KINDS;
        match kinds.iter_mut().find(|kind| kind.0 == operator && kind.1 == why) {
            Some(kind) => kind.2.push(node),
            None if room => kinds.push((operator, why, vec![node])),
            None => left_out += 1,
        }
    }
    let lines = kinds.iter().map(|(operator, why, nodes)| {
        let names: Vec<String> = nodes.iter().take(SHOWN_NODES).map(|node| format!("`{node}`")).collect();
        let more = match nodes.len().saturating_sub(SHOWN_NODES) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("{operator} ({why}) at {}{more}", names.join(", "))
    });
    let mut text = format!("the model has operators that are not supported: {}", lines.collect::<Vec<_>>().join("; "));
    if left_out > 0 {
        text += &format!("; and {left_out} more nodes");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut() {
        assert_eq!(shown("short"), "short");
        let long = shown(&"é".repeat(500));
        assert_eq!(long.chars().count(), SHOWN_CHARACTERS + 1);
    }

    #[test]
    fn a_long_list_names_the_first_nodes_of_each_kind() {
        let operators = (0..50)
            .map(|number| UnsupportedOperator {
                node: format!("n{number}"),
                operator: if number % 2 == 0 { "Loop" } else { "If" }.to_owned(),
                why: "no such operator".to_owned(),
            })
            .collect();
        let text = ModelError::Unsupported { operators }.to_string();
        assert_eq!(
            text,
            "the model has operators that are not supported: Loop (no such operator) at `n0`, `n2`, `n4` and 22 more; \
             If (no such operator) at `n1`, `n3`, `n5` and 22 more"
        );
    }
}
