//! What goes into a model and comes out.

use dala_spec::{DType, Shape};

/// An input or output of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// The name in the file.
    pub name: String,
    /// The element type.
    pub dtype: DType,
    /// The dimensions, outermost first.
    pub dims: Vec<Dim>,
}

impl Port {
    /// Its shape for a batch.
    pub fn shape(&self, batch: usize) -> Shape {
        let size = |dim: &Dim| match dim {
            Dim::Known(size) => *size,
            Dim::Batch => batch,
        };
        Shape::new(self.dims.iter().map(size).collect::<Vec<usize>>())
    }

    /// Its shape in words: `{batch, 3, 224, 224}`.
    pub fn shape_in_words(&self) -> String {
        let size = |dim: &Dim| match dim {
            Dim::Known(size) => size.to_string(),
            Dim::Batch => "batch".to_owned(),
        };
        format!("{{{}}}", self.dims.iter().map(size).collect::<Vec<_>>().join(", "))
    }
}

/// A dimension of an input or output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dim {
    /// Always this many.
    Known(usize),
    /// As many as the batch that the model is resolved for.
    Batch,
}
