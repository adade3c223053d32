//! The values that layers read and make.

use std::sync::Arc;

use dala_spec::{Data, TensorType};

/// A tensor: an input, a constant or an output of a layer.
#[derive(Clone, Debug)]
pub struct Value {
    /// The name in the file, or one made from it. Not unique for values that the file does not have.
    pub name: String,
    /// The element type and shape.
    pub ty: TensorType,
    /// The elements, if they do not depend on the inputs. As many as the shape has.
    pub constant: Option<Arc<Data>>,
}
