//! What goes into a model and comes out.

use dala_spec::{DType, Shape, TensorType};

/// An input or output of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// The name in the file.
    pub name: String,
    /// The element type.
    pub dtype: DType,
    /// Whether its elements are the truth values of the file's format: bytes that are 0 or 1.
    pub is_bool: bool,
    /// The dimensions, outermost first.
    pub dims: Vec<Dim>,
}

impl Port {
    /// Its shape for a batch; none if other sizes are open too.
    pub fn shape(&self, batch: usize) -> Option<Shape> {
        Some(Shape::new(self.dims.iter().map(|dim| dim.size(batch)).collect::<Option<Vec<usize>>>()?))
    }

    /// Its shape in words: `{batch, 3, height, width}`.
    pub fn shape_in_words(&self) -> String {
        let size = |dim: &Dim| match dim {
            Dim::Known(size) => size.to_string(),
            Dim::Batch => "batch".to_owned(),
            Dim::Open(name) => name.clone(),
        };
        format!("{{{}}}", self.dims.iter().map(size).collect::<Vec<_>>().join(", "))
    }

    /// Whether it takes a tensor of that type.
    pub fn takes(&self, ty: &TensorType) -> bool {
        let fits = |(dim, size): (&Dim, &usize)| match dim {
            Dim::Known(known) => known == size,
            Dim::Batch | Dim::Open(_) => true,
        };
        ty.dtype == self.dtype && ty.shape.rank() == self.dims.len() && self.dims.iter().zip(ty.shape.dims()).all(fits)
    }
}

/// A dimension of an input or output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dim {
    /// Always this many.
    Known(usize),
    /// As many as the batch that the model is resolved for.
    Batch,
    /// As many as a call has. The name is the file's, or the port's with the number of the axis: `x.2`. Files may give sizes that
    /// differ one name, so it says what to call a size, not which sizes are equal.
    Open(String),
}

impl Dim {
    /// How many that are for a batch; none if only a call says it.
    pub fn size(&self, batch: usize) -> Option<usize> {
        match self {
            Dim::Known(size) => Some(*size),
            Dim::Batch => Some(batch),
            Dim::Open(_) => None,
        }
    }
}
