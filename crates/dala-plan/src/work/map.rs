//! Programs over every element.

use dala_spec::expr::Op;
use dala_spec::{DType, Program, Shape, TensorType, Unsupported};

use super::TaskKind;
use crate::words::{count, format_bytes};
use crate::{DeviceFacts, Support};

/// A program over every element, or every pixel, of its output.
#[derive(Clone, Debug)]
pub struct Map {
    /// The program.
    pub program: Program,
    /// The output's shape.
    pub shape: Shape,
    /// How many elements each input has: gathers are kept inside.
    pub lens: Vec<usize>,
}

impl Map {
    /// A program over 32-bit words, from inputs of as many words to its output.
    pub fn over_words(program: Program, words: usize) -> Map {
        Map { lens: vec![words; program.inputs().len()], shape: Shape::new([words]), program }
    }

    /// A copy of a whole buffer, in 32-bit words, whatever its element type.
    pub fn copy(ty: &TensorType) -> Map {
        Map::over_words(Program::move_words(), (ty.shape.len() * ty.dtype.size()).div_ceil(4))
    }
}

impl TaskKind for Map {
    fn describe(&self) -> String {
        let (program, elements) = (&self.program, self.shape.len());
        let items = match program.pixel() {
            Some(channels) => count(elements / channels.max(1), "pixel"),
            None => count(elements, "element"),
        };
        if program.is_copy() {
            return format!("copy, {}", format_bytes(elements.saturating_mul(program.outputs()[0].size())));
        }
        let computes = |op: &&Op| !matches!(op, Op::Input { .. } | Op::Const(_) | Op::Param(_) | Op::Store { .. });
        let work = match program.ops().iter().filter(computes).count() {
            0 if program.inputs().is_empty() => "fill".to_owned(),
            0 => "conversion".to_owned(),
            operations => format!("program of {}", count(operations, "operation")),
        };
        let from = distinct(program.inputs().iter().map(|input| input.dtype));
        let to = distinct(program.outputs().iter().copied());
        let types = if from.is_empty() || from == to { to } else { format!("{from} to {to}") };
        format!("{work} over {items}, {types}")
    }

    fn programs(&self) -> Vec<&Program> {
        vec![&self.program]
    }

    fn programs_mut(&mut self) -> Vec<&mut Program> {
        vec![&mut self.program]
    }

    fn support(&self, facts: &DeviceFacts) -> Result<Support, Unsupported> {
        facts.runs(&self.program)
    }

    fn indexed(&self, longest: usize) -> usize {
        if !self.program.uses_position() && !self.program.reads_neighbours() {
            return 0;
        }
        // Views of large elements count words.
        self.lens.iter().copied().chain([self.shape.len(), longest]).max().unwrap_or(0)
    }

    fn results(&self) -> usize {
        self.program.outputs().len()
    }
}

/// The element types, each once.
fn distinct(dtypes: impl Iterator<Item = DType>) -> String {
    let mut names: Vec<&str> = Vec::new();
    for dtype in dtypes {
        if !names.contains(&dtype.name()) {
            names.push(dtype.name());
        }
    }
    names.join(", ")
}
