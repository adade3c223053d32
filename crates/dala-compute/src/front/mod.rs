//! How work is written down: by calls, as text, as JSON.

mod definition;
mod json;
mod operand;
mod pipeline;
mod text;

pub use definition::Definition;
pub use operand::{Operand, Outputs, Transient};
pub use pipeline::{Pipeline, PlanOptions};
