//! Pipelines as text: a TOML file, or a chain such as `blur(radius=3) | grayscale`.

mod chain;
mod table;
mod write;

use std::fmt;
use std::ops::Range;

use dala_spec::TensorType;

use crate::{CellSpec, PipelineSpec, StageSpec};

/// The buffer that a chain starts from, and what a file calls the picture that it is given.
const INPUT: &str = "input";
/// The buffer that a chain ends in.
const OUTPUT: &str = "output";

/// A pipeline as it is written: stages over buffers that have names. What is behind the names is said later.
///
/// ```
/// use dala_plan::PipelineText;
/// use dala_spec::{DType, TensorType};
///
/// let text = PipelineText::from_chain("blur(radius=3) | grayscale")?;
/// assert_eq!(text.names(), ["input", "t0", "output"]);
///
/// let photo = TensorType::new(DType::U8, [480, 640, 3]);
/// let spec = text.spec(&[("input", photo)]);
/// assert!(!spec.cells[0].transient && spec.cells[1].transient);
/// # Ok::<(), dala_plan::TextError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PipelineText {
    /// Every buffer is a transient in it, in order of appearance.
    spec: PipelineSpec,
}

impl PipelineText {
    /// Reads a pipeline file.
    ///
    /// ```
    /// use dala_plan::PipelineText;
    ///
    /// let text = PipelineText::from_toml(r#"
    ///     [buffers.soft]
    ///     dtype = "u8"
    ///     shape = [480, 640, 4]
    ///
    ///     [[stage]]
    ///     kernel = "blur"
    ///     input = "input"
    ///     output = "soft"
    ///     params = { radius = 3, sigma = 1.5 }
    ///
    ///     [[stage]]
    ///     copy = "soft"
    ///     to = "output"
    /// "#)?;
    /// assert_eq!(text.names(), ["input", "soft", "output"]);
    /// # Ok::<(), dala_plan::TextError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The first thing that is wrong, with its place. Whether stages fit their kernels is not looked at.
    pub fn from_toml(text: &str) -> Result<PipelineText, TextError> {
        table::read(text)
    }

    /// Reads a chain of kernels with one input each, from `input` to `output`: `blur(radius=3) | grayscale`.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong, with its place. Whether stages fit their kernels is not looked at.
    pub fn from_chain(text: &str) -> Result<PipelineText, TextError> {
        chain::read(text)
    }

    /// The pipeline as a file; [`from_toml`](PipelineText::from_toml) reads the same pipeline from it.
    pub fn to_toml(&self) -> String {
        write::write(&self.spec)
    }

    /// The names of all buffers, in order of appearance.
    pub fn names(&self) -> Vec<&str> {
        self.spec.cells.iter().map(|cell| cell.name.as_str()).collect()
    }

    /// The names of the buffers that have to be given: those that a stage reads before any stage has written them.
    pub fn inputs(&self) -> Vec<&str> {
        let mut written = vec![false; self.spec.cells.len()];
        let mut needed = vec![false; self.spec.cells.len()];
        for stage in &self.spec.stages {
            let (reads, writes) = uses(stage);
            reads.iter().filter(|cell| !written[**cell]).for_each(|cell| needed[*cell] = true);
            writes.iter().for_each(|cell| written[*cell] = true);
        }
        self.names_where(&needed)
    }

    /// The names of the buffers that are left in the end: those that no stage reads after the last one that writes them.
    pub fn outputs(&self) -> Vec<&str> {
        let mut left = vec![false; self.spec.cells.len()];
        for stage in &self.spec.stages {
            let (reads, writes) = uses(stage);
            reads.iter().for_each(|cell| left[*cell] = false);
            writes.iter().for_each(|cell| left[*cell] = true);
        }
        self.names_where(&left)
    }

    fn names_where(&self, wanted: &[bool]) -> Vec<&str> {
        let names = self.names().into_iter().zip(wanted);
        names.filter(|(_, wanted)| **wanted).map(|(name, _)| name).collect()
    }

    /// The pipeline on buffers of these types. Buffers that are not given are transients, of the type that was declared if
    /// one was.
    pub fn spec(&self, given: &[(&str, TensorType)]) -> PipelineSpec {
        let bind = |cell: &CellSpec| match given.iter().find(|(name, _)| *name == cell.name) {
            Some((_, ty)) => CellSpec::external(cell.name.clone(), ty.clone()),
            None => cell.clone(),
        };
        PipelineSpec { cells: self.spec.cells.iter().map(bind).collect(), stages: self.spec.stages.clone() }
    }
}

/// The buffers that a stage reads, and those that it writes.
fn uses(stage: &StageSpec) -> (&[usize], &[usize]) {
    use std::slice::from_ref;
    match stage {
        StageSpec::Run { inputs, outputs, .. } => (inputs, outputs),
        StageSpec::Copy { from, to } => (from_ref(from), from_ref(to)),
        StageSpec::Barrier => (&[], &[]),
    }
}

/// The number of the buffer of that name: a new one if there is none yet.
fn number(cells: &mut Vec<CellSpec>, name: &str) -> usize {
    cells.iter().position(|cell| cell.name == name).unwrap_or_else(|| {
        cells.push(CellSpec::transient(name));
        cells.len() - 1
    })
}

/// A text that is no pipeline. Prints what is wrong, the line, and a mark under the place.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TextError {
    /// What is wrong, in one line.
    pub message: String,
    /// The line it is about, counted from 1.
    pub line: usize,
    /// The first character it is about, counted from 1.
    pub column: usize,
    /// How many characters it is about, at least 1.
    pub width: usize,
    /// The line itself.
    pub source: String,
    /// Whether there are other lines.
    in_file: bool,
}

impl TextError {
    /// `at` is in bytes of `text`.
    fn new(message: impl Into<String>, text: &str, at: Range<usize>) -> TextError {
        let before = text.get(..at.start).unwrap_or(text);
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let source = text[start..].lines().next().unwrap_or_default();
        let column = before[start..].chars().count();
        let about = text.get(at).unwrap_or_default().lines().next().unwrap_or_default().chars().count();
        TextError {
            message: message.into(),
            line: before.matches('\n').count() + 1,
            column: column + 1,
            width: about.max(1),
            source: source.to_owned(),
            in_file: text.trim_end().contains('\n'),
        }
    }
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.in_file {
            write!(f, "line {}, column {}: ", self.line, self.column)?;
        }
        f.write_str(&self.message)?;
        if self.source.trim().is_empty() {
            return Ok(());
        }
        // Tabs stay tabs, so that the mark is under its place.
        let blank = |c: char| if c == '\t' { '\t' } else { ' ' };
        let indent: String = self.source.chars().take(self.column - 1).map(blank).collect();
        write!(f, "\n  {}\n  {indent}{}", self.source, "^".repeat(self.width))
    }
}

impl std::error::Error for TextError {}

#[cfg(test)]
mod tests {
    use dala_spec::{DType, Shape};

    use super::*;

    #[test]
    fn given_buffers_are_external_and_all_others_keep_what_was_declared() {
        let text = "[buffers.soft]\ndtype = 'u8'\n[[stage]]\nkernel = 'blur'\ninput = 'input'\noutput = 'soft'\n\
                    [[stage]]\ncopy = 'soft'\nto = 'output'\n";
        let text = PipelineText::from_toml(text).unwrap();
        let ty = TensorType::new(DType::U8, [4, 5, 3]);
        let spec = text.spec(&[("output", ty.clone()), ("input", ty.clone()), ("unused", ty.clone())]);
        let soft = CellSpec { dtype: Some(DType::U8), ..CellSpec::transient("soft") };
        assert_eq!(spec.cells, [CellSpec::external("input", ty.clone()), soft, CellSpec::external("output", ty)]);
        assert_eq!(spec.stages, text.spec(&[]).stages);
    }

    #[test]
    fn declared_types_are_replaced_by_those_that_are_given() {
        let text = "[buffers.output]\nshape = [7]\n[[stage]]\nkernel = 'fill'\noutput = 'output'\n";
        let text = PipelineText::from_toml(text).unwrap();
        assert_eq!(text.spec(&[]).cells[0].shape, Some(Shape::from([7])));
        let ty = TensorType::new(DType::F32, [2, 2]);
        assert_eq!(text.spec(&[("output", ty.clone())]).cells, [CellSpec::external("output", ty)]);
    }

    #[test]
    fn inputs_are_read_first_and_outputs_are_written_last() {
        let text = "[[stage]]\nkernel = 'a'\ninputs = ['x', 'table']\noutput = 'y'\n\
                    [[stage]]\ncopy = 'y'\nto = 'kept'\n\
                    [[stage]]\nbarrier = true\n\
                    [[stage]]\nkernel = 'b'\ninput = 'y'\noutput = 'y'\n\
                    [[stage]]\nkernel = 'c'\ninput = 'y'\noutput = 'x'\n";
        let text = PipelineText::from_toml(text).unwrap();
        assert_eq!(text.inputs(), ["x", "table"]);
        assert_eq!(text.outputs(), ["x", "kept"]);
        let chain = PipelineText::from_chain("blur | relu").unwrap();
        assert_eq!((chain.inputs(), chain.outputs()), (vec!["input"], vec!["output"]));
    }

    #[test]
    fn marks_are_under_their_place_behind_tabs_and_other_alphabets() {
        let error = TextError::new("bad", "größe\n\tä = ü\n", 12..13);
        assert_eq!((error.line, error.column, error.width), (2, 4, 1));
        assert_eq!(error.to_string(), "line 2, column 4: bad\n  \tä = ü\n  \t  ^");
    }

    #[test]
    fn places_at_the_end_have_no_line_to_show() {
        let error = TextError::new("bad", "a = 1\n\n", 7..7);
        assert_eq!(error.to_string(), "bad");
        assert_eq!(TextError::new("bad", "", 0..0).to_string(), "bad");
        // Whatever a parser says about places, it does not end the program.
        assert_eq!(TextError::new("bad", "ä", 1..99).line, 1);
    }
}
