//! What people ask of photos, recordings and files, answered by published models: each recipe prepares what a model takes, runs it
//! in a [`Session`](dala_model::Session), and makes of what it gives something that can be read or drawn.

mod error;
mod models;
pub mod text;

pub use error::RecipeError;
pub use models::{ModelFile, find};

/// The Rust of the documents is compiled. (A test of `dala-cli` finds documents that are missing here.)
#[cfg(doctest)]
#[doc = include_str!("../../../docs/RECIPES.md")]
struct Recipes;
