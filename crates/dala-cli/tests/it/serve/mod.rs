//! `dala serve` as those see it who run it: a real process, real sockets, and things that go wrong.
//!
//! Trials are short by themselves; `DALA_TRIALS=long` runs them at the size that figures are told for.

mod faults;
mod load;
mod overload;
mod process;
mod usual;

use self::process::Serving;
use super::folder::Folder;
use super::models::onnx;

/// Whether trials run at full size.
fn is_long() -> bool {
    std::env::var("DALA_TRIALS").is_ok_and(|size| size == "long")
}

/// A model of rows of four numbers, in any number: `y` is made of `x` by one operator.
fn rows(folder: &Folder, name: &str, operator: &str) -> String {
    folder.file(name, onnx(&[0, 4], &[["node", operator, "x", "y"]], &["y"]))
}
