//! A node as the file has it, before anything else of the file is looked at.

use std::collections::HashMap;

use crate::proto::{AttributeProto, NodeProto};

/// What a node alone tells. An attribute of the wrong type looks absent here, and is reported when it is used.
pub(crate) struct Declared<'a> {
    pub(crate) node: &'a NodeProto,
    pub(crate) opset: i64,
    /// The ranks of the weights.
    pub(crate) ranks: &'a HashMap<&'a str, usize>,
}

impl<'a> Declared<'a> {
    fn attribute(&self, name: &str) -> Option<&'a AttributeProto> {
        self.node.attribute.iter().find(|attribute| attribute.name == name)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.attribute(name).is_some()
    }

    pub(super) fn int(&self, name: &str) -> Option<i64> {
        self.attribute(name)?.i
    }

    pub(super) fn ints(&self, name: &str) -> &'a [i64] {
        self.attribute(name).map(|attribute| attribute.ints.as_slice()).unwrap_or_default()
    }

    /// Whether a text is something else than one of these words.
    pub(super) fn says_other(&self, name: &str, words: &[&str]) -> bool {
        let text = self.attribute(name).and_then(|attribute| attribute.s.as_ref());
        text.is_some_and(|text| !words.iter().any(|word| word.as_bytes() == &text[..]))
    }

    /// The rank of an input, if it is a weight.
    pub(super) fn rank(&self, place: usize) -> Option<usize> {
        self.ranks.get(self.node.input.get(place)?.as_str()).copied()
    }
}

/// The first of the reasons that holds.
pub(super) fn refused<const N: usize>(reasons: [(bool, &str); N]) -> Option<String> {
    reasons.into_iter().find(|(holds, _)| *holds).map(|(_, why)| format!("not supported: {why}"))
}
