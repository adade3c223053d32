//! How calls become launches, as plain data: stages over buffers, tasks, fusion, memory, and what a device is like.
//!
//! This crate knows no device but by its [`DeviceFacts`], starts no thread and does no I/O. Each stage is validated by
//! `dala-spec`; kernels and their launchers are in `dala-kernels`.
//!
//! The main types:
//!
//! - [`PipelineSpec`]: stages over buffers, as the user wrote them; [`PipelineText`] is how they are written down
//! - [`DeviceFacts`]: what a device computes on, and how
//! - [`Lowering`]: what a call comes down to: launches over its buffers and over scratch memory
//! - [`Task`], [`Fragment`]: what a launch does, and the programs at its edges
//! - [`Blueprint`]: a plan, fused and laid out in memory: it prints as text ([`Blueprint::explain`]) and as a picture
//!   ([`Blueprint::to_svg`])
//!
//! ```
//! use dala_plan::PipelineText;
//!
//! let text = PipelineText::from_chain("blur(radius=3) | grayscale")?;
//! assert_eq!(text.spec(&[]).stages.len(), 2);
//! # Ok::<(), dala_plan::TextError>(())
//! ```

/// The number of this crate's sources: what was derived from others must not be taken for what would be derived from these.
pub const SOURCES: &str = env!("DALA_SOURCES");

pub mod draw;
mod facts;
mod pipeline;
pub mod plan;
mod text;
pub mod words;
pub mod work;

pub use facts::{CAPACITY_STEP, DeviceFacts, Support, per_word};
pub use pipeline::{CellSpec, CheckedPipeline, PipelineSpec, StageProblem, StageSpec};
pub use plan::{Blueprint, Rules};
pub use text::{PipelineText, TextError};
pub use work::{Fragment, Lowering, Place, Step, Task};
