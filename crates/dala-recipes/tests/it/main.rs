//! Recipes with real models, beside what other programs make of the same.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, missing_docs, reason = "tests")]

mod text;
