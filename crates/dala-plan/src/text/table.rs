//! Pipelines from TOML: a table for each stage, and one for each buffer whose type is said.

use std::ops::Range;

use dala_spec::{DType, ParamValue, Params, Shape, nearest};
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};
use toml_parser::Source;
use toml_parser::lexer::TokenKind;

use super::{PipelineText, TextError, number};
use crate::{CellSpec, PipelineSpec, StageSpec};

const RUN: [&str; 6] = ["kernel", "inputs", "input", "output", "outputs", "params"];
const COPY: [&str; 2] = ["copy", "to"];
const BARRIER: [&str; 1] = ["barrier"];

pub(super) fn read(text: &str) -> Result<PipelineText, TextError> {
    let reader = Reader { text };
    if let Some(at) = too_deep(text) {
        return Err(reader.fail(format!("brackets are nested more than {DEEPEST} deep"), at..at + 1));
    }
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().unwrap_or(0..0);
        reader.fail(error.message().to_owned(), at)
    })?;
    reader.pipeline(&Entries::of(table.get_ref()))
}

/// How deep brackets may be nested: the parser takes stack for each that is open, whatever comes of it.
const DEEPEST: usize = 32;

/// Where brackets are nested too deep. As in the parser, which reads on after errors, only its own kind closes what was opened last.
fn too_deep(text: &str) -> Option<usize> {
    let mut open = Vec::new();
    for token in Source::new(text).lex() {
        match token.kind() {
            TokenKind::LeftSquareBracket => open.push(TokenKind::RightSquareBracket),
            TokenKind::LeftCurlyBracket => open.push(TokenKind::RightCurlyBracket),
            kind => drop(open.pop_if(|end| *end == kind)),
        }
        if open.len() > DEEPEST {
            return Some(token.span().start());
        }
    }
    None
}

/// A table's keys and values, in the order in which they are written.
struct Entries<'a>(Vec<(&'a Spanned<DeString<'a>>, &'a Spanned<DeValue<'a>>)>);

impl<'a> Entries<'a> {
    fn of(table: &'a DeTable<'a>) -> Entries<'a> {
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        Entries(entries)
    }

    fn get(&self, name: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.0.iter().find(|(key, _)| key.get_ref() == name).map(|(_, value)| *value)
    }

    fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }
}

struct Reader<'a> {
    text: &'a str,
}

impl Reader<'_> {
    fn fail(&self, message: impl Into<String>, at: Range<usize>) -> TextError {
        TextError::new(message, self.text, at)
    }

    fn pipeline(&self, entries: &Entries) -> Result<PipelineText, TextError> {
        self.keys(entries, &["buffers", "stage"], "a pipeline has")?;
        let mut spec = PipelineSpec::default();
        let stages = match entries.get("stage") {
            None => return Err(self.fail("there is no stage: write one under [[stage]]", 0..0)),
            Some(stages) => match stages.get_ref() {
                DeValue::Array(stages) if !stages.is_empty() => stages,
                DeValue::Array(_) => {
                    return Err(self.fail("there is no stage: write one under [[stage]]", stages.span()));
                }
                DeValue::Table(_) => return Err(self.fail("stages are a list: write [[stage]]", stages.span())),
                other => return Err(self.wrong("stage", "a list of tables: write [[stage]]", other, stages.span())),
            },
        };
        for stage in stages.iter() {
            let DeValue::Table(table) = stage.get_ref() else {
                return Err(self.wrong("stage", "a list of tables", stage.get_ref(), stage.span()));
            };
            let stage = self.stage(&Entries::of(table), stage.span(), &mut spec.cells)?;
            spec.stages.push(stage);
        }
        if let Some(buffers) = entries.get("buffers") {
            let DeValue::Table(table) = buffers.get_ref() else {
                return Err(self.wrong("buffers", "a table: write [buffers.NAME]", buffers.get_ref(), buffers.span()));
            };
            for (name, buffer) in Entries::of(table).0 {
                self.buffer(name, buffer, &mut spec.cells)?;
            }
        }
        Ok(PipelineText { spec })
    }

    /// Refuses keys that mean nothing.
    fn keys(&self, entries: &Entries, allowed: &[&'static str], owner: &str) -> Result<(), TextError> {
        let unknown = entries.0.iter().find(|(key, _)| !allowed.contains(&key.get_ref().as_ref()));
        let Some((key, _)) = unknown else { return Ok(()) };
        let hint = match nearest(key.get_ref(), allowed.iter().copied()) {
            Some(near) => format!(", did you mean `{near}`?"),
            None => format!(": {owner} {}", list(allowed)),
        };
        Err(self.fail(format!("unknown key `{}`{hint}", key.get_ref()), key.span()))
    }

    fn wrong(&self, key: &str, expected: &str, found: &DeValue, at: Range<usize>) -> TextError {
        self.fail(format!("`{key}` must be {expected}, found {}", kind(found)), at)
    }

    fn buffer(
        &self,
        name: &Spanned<DeString>,
        value: &Spanned<DeValue>,
        cells: &mut [CellSpec],
    ) -> Result<(), TextError> {
        let (key, at) = (name.get_ref().as_ref(), name.span());
        let DeValue::Table(table) = value.get_ref() else {
            return Err(self.wrong(&format!("buffers.{key}"), "a table", value.get_ref(), value.span()));
        };
        let entries = Entries::of(table);
        self.keys(&entries, &["dtype", "shape"], "a buffer has")?;
        let suggestion = nearest(key, cells.iter().map(|cell| cell.name.as_str()));
        let hint = suggestion.map_or_else(String::new, |near| format!(", did you mean `{near}`?"));
        let unused = self.fail(format!("no stage uses the buffer `{key}`{hint}"), at);
        let cell = cells.iter_mut().find(|cell| cell.name == key).ok_or(unused)?;
        if let Some(dtype) = entries.get("dtype") {
            let name = self.string("dtype", dtype)?;
            let names = DType::ALL.map(DType::name);
            let unknown = || format!("no element type is called `{name}`: use one of {}", list(&names));
            cell.dtype = Some(DType::from_name(name).ok_or_else(|| self.fail(unknown(), dtype.span()))?);
        }
        if let Some(shape) = entries.get("shape") {
            cell.shape = Some(self.shape(shape)?);
        }
        Ok(())
    }

    fn shape(&self, value: &Spanned<DeValue>) -> Result<Shape, TextError> {
        let DeValue::Array(dims) = value.get_ref() else {
            return Err(self.wrong("shape", "a list of sizes", value.get_ref(), value.span()));
        };
        let size = |dim: &Spanned<DeValue>| {
            let size = match dim.get_ref() {
                DeValue::Integer(whole) => usize::from_str_radix(whole.as_str(), whole.radix()).ok(),
                _ => None,
            };
            size.ok_or_else(|| self.fail("a size is an integer that is not negative", dim.span()))
        };
        Ok(Shape::from(dims.iter().map(size).collect::<Result<Vec<usize>, _>>()?))
    }

    fn stage(&self, entries: &Entries, at: Range<usize>, cells: &mut Vec<CellSpec>) -> Result<StageSpec, TextError> {
        let kinds: Vec<&'static str> =
            ["kernel", "copy", "barrier"].into_iter().filter(|kind| entries.has(kind)).collect();
        match kinds.as_slice() {
            ["kernel"] => self.run(entries, at, cells),
            ["copy"] => self.copy(entries, at, cells),
            ["barrier"] => self.barrier(entries),
            [] => {
                // A misspelt key says more than that one is missing.
                self.keys(entries, &[&RUN[..], &COPY, &BARRIER].concat(), "a stage may have")?;
                Err(self.fail("a stage needs `kernel`, `copy` or `barrier`", at))
            }
            several => Err(self.fail(format!("{} cannot be in one stage: make it several", list(several)), at)),
        }
    }

    fn run(&self, entries: &Entries, at: Range<usize>, cells: &mut Vec<CellSpec>) -> Result<StageSpec, TextError> {
        self.keys(entries, &RUN, "a stage that runs a kernel has")?;
        let needed =
            |key: &str| entries.get(key).ok_or_else(|| self.fail(format!("the stage needs `{key}`"), at.clone()));
        let kernel = self.string("kernel", needed("kernel")?)?.to_owned();
        let inputs = match (entries.get("inputs"), entries.get("input")) {
            (Some(_), Some(input)) => return Err(self.fail("give either `input` or `inputs`", input.span())),
            (Some(inputs), None) => self.names("inputs", inputs, cells)?,
            (None, Some(input)) => vec![self.name("input", input, cells)?],
            (None, None) => Vec::new(),
        };
        let outputs = match (entries.get("outputs"), entries.get("output")) {
            (Some(_), Some(output)) => return Err(self.fail("give either `output` or `outputs`", output.span())),
            (Some(outputs), None) => self.names("outputs", outputs, cells)?,
            (None, _) => vec![self.name("output", needed("output")?, cells)?],
        };
        let params = entries.get("params").map(|params| self.params(params)).transpose()?.unwrap_or_default();
        Ok(StageSpec::Run { kernel, inputs, outputs, params })
    }

    /// A list of buffers.
    fn names(&self, key: &str, value: &Spanned<DeValue>, cells: &mut Vec<CellSpec>) -> Result<Vec<usize>, TextError> {
        match value.get_ref() {
            DeValue::Array(names) => names.iter().map(|name| self.name(key, name, cells)).collect(),
            other => Err(self.wrong(key, "a list of buffers, such as [\"input\"]", other, value.span())),
        }
    }

    fn copy(&self, entries: &Entries, at: Range<usize>, cells: &mut Vec<CellSpec>) -> Result<StageSpec, TextError> {
        self.keys(entries, &COPY, "a copy has")?;
        let needed =
            |key: &str| entries.get(key).ok_or_else(|| self.fail(format!("the copy needs `{key}`"), at.clone()));
        let from = self.name("copy", needed("copy")?, cells)?;
        Ok(StageSpec::Copy { from, to: self.name("to", needed("to")?, cells)? })
    }

    fn barrier(&self, entries: &Entries) -> Result<StageSpec, TextError> {
        self.keys(entries, &BARRIER, "a barrier has only")?;
        match entries.get("barrier").map(|value| (value.get_ref(), value.span())) {
            Some((DeValue::Boolean(true), _)) | None => Ok(StageSpec::Barrier),
            Some((DeValue::Boolean(false), at)) => Err(self.fail("a barrier that is none: leave the stage out", at)),
            Some((other, at)) => Err(self.wrong("barrier", "true", other, at)),
        }
    }

    fn string<'v>(&self, key: &str, value: &'v Spanned<DeValue>) -> Result<&'v str, TextError> {
        match value.get_ref() {
            DeValue::String(text) => Ok(text),
            other => Err(self.wrong(key, "a string", other, value.span())),
        }
    }

    /// The number of the buffer that a key names.
    fn name(&self, key: &str, value: &Spanned<DeValue>, cells: &mut Vec<CellSpec>) -> Result<usize, TextError> {
        let name = match value.get_ref() {
            DeValue::String(name) => name,
            other => return Err(self.wrong(key, "the name of a buffer", other, value.span())),
        };
        if name.is_empty() || name.contains(|c: char| !c.is_alphanumeric() && !"_-".contains(c)) {
            let message = format!("{name:?} cannot name a buffer: use letters, digits, `_` and `-`");
            return Err(self.fail(message, value.span()));
        }
        Ok(number(cells, name))
    }

    fn params(&self, value: &Spanned<DeValue>) -> Result<Params, TextError> {
        let DeValue::Table(table) = value.get_ref() else {
            let expected = "a table, such as { radius = 3 }";
            return Err(self.wrong("params", expected, value.get_ref(), value.span()));
        };
        let entries = Entries::of(table);
        entries.0.iter().try_fold(Params::new(), |params, (name, value)| {
            Ok(params.with(name.get_ref().as_ref(), self.param(name.get_ref(), value)?))
        })
    }

    fn param(&self, name: &str, value: &Spanned<DeValue>) -> Result<ParamValue, TextError> {
        match value.get_ref() {
            DeValue::Boolean(flag) => Ok(ParamValue::Bool(*flag)),
            DeValue::String(word) => Ok(ParamValue::Enum(word.to_string())),
            DeValue::Integer(_) | DeValue::Float(_) => self.number(name, value),
            DeValue::Array(numbers) => {
                let numbers = numbers.iter().map(|number| self.number(name, number)).collect::<Result<_, _>>()?;
                Ok(super::chain::list(numbers))
            }
            other => {
                let expected = "a number, true or false, a word, or a list of numbers";
                Err(self.wrong(name, expected, other, value.span()))
            }
        }
    }

    fn number(&self, param: &str, value: &Spanned<DeValue>) -> Result<ParamValue, TextError> {
        match value.get_ref() {
            DeValue::Integer(whole) => match i64::from_str_radix(whole.as_str(), whole.radix()) {
                Ok(whole) => Ok(ParamValue::Int(whole)),
                Err(_) => Err(self.fail(format!("`{whole}` does not fit 64 bits"), value.span())),
            },
            DeValue::Float(float) => match float.as_str().parse::<f64>() {
                Ok(number) if number.is_finite() || !float.as_str().contains(|c: char| c.is_ascii_digit()) => {
                    Ok(ParamValue::Float(number))
                }
                _ => Err(self.fail(format!("`{float}` is too large for a float"), value.span())),
            },
            other => Err(self.wrong(param, "a list of numbers", other, value.span())),
        }
    }
}

fn kind(value: &DeValue) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a float",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// `a`, `a and b`, `a, b and c`.
fn list(names: &[&str]) -> String {
    match names {
        [] => "nothing".to_owned(),
        [only] => format!("`{only}`"),
        [rest @ .., last] => {
            let rest: Vec<String> = rest.iter().map(|name| format!("`{name}`")).collect();
            format!("{} and `{last}`", rest.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn brackets_without_end_are_refused_before_they_are_parsed() {
        // Neither another kind of bracket closes them nor one in a text or a comment.
        let closed_by_others = ["params = { \"c\"]\noutput = ", "a = [}, ", "a = [ \"]\", ", "a = [ # ]\n"];
        for open in ["[", "{", "a = [", "a = {b = ["].into_iter().chain(closed_by_others) {
            let error = read(&open.repeat(100_000)).unwrap_err();
            assert!(error.to_string().contains("brackets are nested more than 32 deep"), "{error}");
        }
        // As many as are closed again.
        for few in ["[],", "\"[\",", "# [\n"] {
            let flat = format!("a = [{}]", few.repeat(1000));
            assert!(!read(&flat).unwrap_err().to_string().contains("nested"), "{flat}");
        }
    }

    /// A file that uses everything.
    const WHOLE: &str = r#"[buffers.soft]
dtype = "u8"
shape = [480, 640, 4]

[buffers.sum]
dtype = "f32"

[[stage]]
kernel = "blur"
inputs = ["input"]
output = "soft"
params = { border = "reflect", radius = 3, sigma = 1.5 }

[[stage]]
copy = "soft"
to = "kept"

[[stage]]
barrier = true

[[stage]]
kernel = "reduce_sum"
inputs = ["kept"]
output = "sum"
params = { axes = [0, 1], keep_dims = false, weights = [1.0, 2.5] }

[[stage]]
kernel = "fill"
output = "output"
"#;

    fn message(text: &str) -> String {
        PipelineText::from_toml(text).unwrap_err().to_string()
    }

    /// What is wrong with a stage that has these lines too.
    fn in_stage(line: &str) -> String {
        message(&format!("[[stage]]\nkernel = \"blur\"\noutput = \"output\"\n{line}\n"))
    }

    /// The same without its lines and marks.
    fn short(text: &str) -> String {
        message(text).lines().next().unwrap_or_default().to_owned()
    }

    #[test]
    fn a_file_says_stages_over_named_buffers() {
        let text = PipelineText::from_toml(WHOLE).unwrap();
        assert_eq!(text.names(), ["input", "soft", "kept", "sum", "output"]);
        let spec = text.spec(&[]);
        assert_eq!((spec.cells[1].dtype, &spec.cells[1].shape), (Some(DType::U8), &Some(Shape::from([480, 640, 4]))));
        assert_eq!((spec.cells[3].dtype, &spec.cells[3].shape), (Some(DType::F32), &None));
        let blur = Params::new().with("radius", 3).with("sigma", 1.5).with("border", "reflect");
        let sum = Params::new().with("axes", vec![0i64, 1]).with("keep_dims", false).with("weights", vec![1.0, 2.5]);
        let run = |kernel: &str, inputs: &[usize], output, params| StageSpec::Run {
            kernel: kernel.to_owned(),
            inputs: inputs.to_vec(),
            outputs: vec![output],
            params,
        };
        let expected = [
            run("blur", &[0], 1, blur),
            StageSpec::Copy { from: 1, to: 2 },
            StageSpec::Barrier,
            run("reduce_sum", &[2], 3, sum),
            run("fill", &[], 4, Params::new()),
        ];
        assert_eq!(spec.stages, expected);
    }

    #[test]
    fn a_file_is_written_as_it_was_read() {
        assert_eq!(PipelineText::from_toml(WHOLE).unwrap().to_toml(), WHOLE);
    }

    #[test]
    fn one_input_needs_no_list_and_params_may_have_a_table() {
        let short = "[[stage]]\nkernel = 'blur'\ninput = 'input'\noutput = 'output'\n[stage.params]\nradius = 0x10\n";
        let long = "[[stage]]\nkernel = 'blur'\ninputs = ['input']\noutput = 'output'\nparams = {radius = 16}\n";
        assert_eq!(PipelineText::from_toml(short).unwrap(), PipelineText::from_toml(long).unwrap());
    }

    #[test]
    fn a_file_without_stages_says_how_to_write_one() {
        assert_eq!(message(""), "there is no stage: write one under [[stage]]");
        assert_eq!(short("stage = []"), "there is no stage: write one under [[stage]]");
        assert_eq!(short("[stage]\nkernel = 'blur'"), "line 1, column 1: stages are a list: write [[stage]]");
        assert_eq!(short("stage = 3"), "`stage` must be a list of tables: write [[stage]], found an integer");
        assert_eq!(short("stage = ['blur']"), "`stage` must be a list of tables, found a string");
    }

    #[test]
    fn toml_errors_name_line_and_column() {
        let error = PipelineText::from_toml("[[stage]]\nkernel = \n").unwrap_err();
        assert_eq!((error.line, error.column), (2, 10));
        assert!(error.to_string().starts_with("line 2, column 10: "), "{error}");
        let twice = in_stage("output = 'x'");
        assert_eq!(twice, "line 4, column 1: duplicate key\n  output = 'x'\n  ^^^^^^");
    }

    #[test]
    fn misspelt_keys_are_refused_with_a_suggestion() {
        let expected = "line 2, column 1: unknown key `kernal`, did you mean `kernel`?\n  kernal = 'blur'\n  ^^^^^^";
        assert_eq!(message("[[stage]]\nkernal = 'blur'\n"), expected);
        assert_eq!(
            short("[[stages]]\nkernel = 'blur'\n"),
            "line 1, column 3: unknown key `stages`, did you mean `stage`?"
        );
        assert_eq!(
            in_stage("parms = {}"),
            "line 4, column 1: unknown key `parms`, did you mean `params`?\n  parms = {}\n  ^^^^^"
        );
    }

    #[test]
    fn other_unknown_keys_are_refused_with_what_is_allowed() {
        assert_eq!(
            in_stage("speed = 3"),
            "line 4, column 1: unknown key `speed`: a stage that runs a kernel has `kernel`, `inputs`, `input`, \
             `output`, `outputs` and `params`\n  speed = 3\n  ^^^^^"
        );
        assert_eq!(short("size = 3"), "unknown key `size`: a pipeline has `buffers` and `stage`");
        let copy = short("[[stage]]\ncopy = 'input'\nto = 'output'\nparams = {}\n");
        assert_eq!(copy, "line 4, column 1: unknown key `params`: a copy has `copy` and `to`");
        let barrier = short("[[stage]]\nbarrier = true\nto = 'output'\n");
        assert_eq!(barrier, "line 3, column 1: unknown key `to`: a barrier has only `barrier`");
    }

    #[test]
    fn stage_with_two_kinds_of_work_is_refused() {
        assert_eq!(
            message("[[stage]]\ninput = 'input'\noutput = 'output'\n"),
            "line 1, column 1: a stage needs `kernel`, `copy` or `barrier`\n  [[stage]]\n  ^^^^^^^^^"
        );
        assert_eq!(
            short("[[stage]]\nkernel = 'blur'\ncopy = 'input'\n"),
            "line 1, column 1: `kernel` and `copy` cannot be in one stage: make it several"
        );
    }

    #[test]
    fn missing_keys_of_a_stage_are_named() {
        assert_eq!(short("[[stage]]\nkernel = 'blur'\n"), "line 1, column 1: the stage needs `output`");
        assert_eq!(short("[[stage]]\ncopy = 'input'\n"), "line 1, column 1: the copy needs `to`");
    }

    #[test]
    fn values_of_the_wrong_type_are_marked() {
        assert_eq!(
            message("[[stage]]\nkernel = 3\noutput = 'output'\n"),
            "line 2, column 10: `kernel` must be a string, found an integer\n  kernel = 3\n           ^"
        );
        assert_eq!(
            in_stage("inputs = 'input'"),
            "line 4, column 10: `inputs` must be a list of buffers, such as [\"input\"], found a string\n  \
             inputs = 'input'\n           ^^^^^^^"
        );
        assert_eq!(
            in_stage("inputs = [1]"),
            "line 4, column 11: `inputs` must be the name of a buffer, found an integer\n  inputs = [1]\n            ^"
        );
        assert_eq!(
            in_stage("params = 3"),
            "line 4, column 10: `params` must be a table, such as { radius = 3 }, found an integer\n  \
             params = 3\n           ^"
        );
        assert_eq!(short("[[stage]]\nbarrier = 1\n"), "line 2, column 11: `barrier` must be true, found an integer");
    }

    #[test]
    fn one_input_or_several_but_not_both() {
        assert_eq!(
            in_stage("inputs = ['a']\ninput = 'b'"),
            "line 5, column 9: give either `input` or `inputs`\n  input = 'b'\n          ^^^"
        );
    }

    #[test]
    fn a_barrier_is_there_or_not() {
        assert_eq!(
            message("[[stage]]\nbarrier = false\n"),
            "line 2, column 11: a barrier that is none: leave the stage out\n  barrier = false\n            ^^^^^"
        );
    }

    #[test]
    fn params_are_numbers_flags_words_and_lists_of_numbers() {
        assert_eq!(
            in_stage("params = { radius = { x = 1 } }"),
            "line 4, column 21: `radius` must be a number, true or false, a word, or a list of numbers, found a table\n  \
             params = { radius = { x = 1 } }\n                      ^^^^^^^^^"
        );
        assert_eq!(
            in_stage("params = { size = [1, 'two'] }"),
            "line 4, column 23: `size` must be a list of numbers, found a string\n  \
             params = { size = [1, 'two'] }\n                        ^^^^^"
        );
        assert_eq!(
            in_stage("params = { a = 1e999 }"),
            "line 4, column 16: `1e999` is too large for a float\n  params = { a = 1e999 }\n                 ^^^^^"
        );
        assert_eq!(
            in_stage("params = { a = 9223372036854775808 }"),
            "line 4, column 16: `9223372036854775808` does not fit 64 bits\n  \
             params = { a = 9223372036854775808 }\n                 ^^^^^^^^^^^^^^^^^^^"
        );
    }

    #[test]
    fn buffers_have_plain_names() {
        for bad in ["", "a b", "a=b", "a\\tb"] {
            let found = in_stage(&format!("input = \"{bad}\""));
            let expected = format!("\"{bad}\" cannot name a buffer: use letters, digits, `_` and `-`");
            assert!(found.starts_with(&format!("line 4, column 9: {expected}\n")), "{found}");
        }
    }

    #[test]
    fn types_are_declared_for_buffers_that_are_used() {
        let stage = "[[stage]]\nkernel = 'blur'\ninput = 'input'\noutput = 'soft'\n";
        assert_eq!(
            message(&format!("[buffers.sotf]\ndtype = 'u8'\n{stage}")),
            "line 1, column 10: no stage uses the buffer `sotf`, did you mean `soft`?\n  \
             [buffers.sotf]\n           ^^^^"
        );
        assert_eq!(
            message(&format!("[buffers.soft]\ntype = 'u8'\n{stage}")),
            "line 2, column 1: unknown key `type`, did you mean `dtype`?\n  type = 'u8'\n  ^^^^"
        );
        assert_eq!(
            message(&format!("[buffers.soft]\ndtype = 'int8'\n{stage}")),
            "line 2, column 9: no element type is called `int8`: use one of `f32`, `f64`, `s32`, `s64`, `u32`, `u8`, \
             `f16`, `bf16`, `s8`, `s16`, `u16` and `u64`\n  \
             dtype = 'int8'\n          ^^^^^^"
        );
        assert_eq!(
            message(&format!("[buffers.soft]\nshape = [4, -1]\n{stage}")),
            "line 2, column 13: a size is an integer that is not negative\n  shape = [4, -1]\n              ^^"
        );
        assert_eq!(
            message(&format!("[buffers.soft]\nshape = 4\n{stage}")),
            "line 2, column 9: `shape` must be a list of sizes, found an integer\n  shape = 4\n          ^"
        );
        assert_eq!(
            message(&format!("buffers = 3\n{stage}")),
            "line 1, column 11: `buffers` must be a table: write [buffers.NAME], found an integer\n  \
             buffers = 3\n            ^"
        );
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC*", line in "[a-c\\[\\].={}\"'0-9 \n]{0,30}") {
            for text in [text, line] {
                if let Err(error) = PipelineText::from_toml(&text) {
                    prop_assert!(!error.to_string().is_empty());
                }
            }
        }
    }
}
