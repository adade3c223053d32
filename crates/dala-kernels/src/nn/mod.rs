//! Parts of neural networks.

pub mod dense;
pub mod layer_norm;
pub mod log_softmax;
pub mod softmax;
