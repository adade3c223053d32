//! The little of Markdown that the tests of the documents need.

/// A fenced block.
pub(crate) struct Block {
    /// What stands behind the opening fence.
    pub(crate) info: String,
    /// The line of its first text, counted from 1.
    pub(crate) line: usize,
    pub(crate) text: String,
}

impl Block {
    /// The first word behind the fence.
    pub(crate) fn language(&self) -> &str {
        self.info.split_whitespace().next().unwrap_or_default()
    }

    /// The second: the file that the block is.
    pub(crate) fn file(&self) -> Option<&str> {
        self.info.split_whitespace().nth(1)
    }
}

/// A command in a block, and what is shown of its output.
pub(crate) struct Shown {
    pub(crate) line: usize,
    pub(crate) command: String,
    pub(crate) output: Vec<String>,
}

/// The fenced blocks, and the lines outside of them with their numbers.
pub(crate) fn parse(text: &str) -> (Vec<Block>, Vec<(usize, &str)>) {
    let (mut blocks, mut prose) = (Vec::new(), Vec::new());
    let mut open: Option<(Block, usize)> = None;
    for (line, text) in (1..).zip(text.lines()) {
        let trimmed = text.trim_start();
        match (&mut open, trimmed.strip_prefix("```")) {
            (None, Some(info)) => {
                let block = Block { info: info.trim().to_owned(), line: line + 1, text: String::new() };
                open = Some((block, text.len() - trimmed.len()));
            }
            (None, None) => prose.push((line, text)),
            (Some(_), Some("")) => blocks.extend(open.take().map(|(block, _)| block)),
            (Some((block, indent)), _) => {
                // Blocks in lists are indented.
                block.text.push_str(text.get(*indent..).unwrap_or_default());
                block.text.push('\n');
            }
        }
    }
    assert!(open.is_none(), "a block is not closed");
    (blocks, prose)
}

/// The commands of a `console` block: lines that start with `$ `, each with the lines that follow it.
pub(crate) fn commands(block: &Block) -> Vec<Shown> {
    let mut commands: Vec<Shown> = Vec::new();
    let mut continues = false;
    for (line, text) in (block.line..).zip(block.text.lines()) {
        if let Some(command) = text.strip_prefix("$ ") {
            commands.push(Shown { line, command: command.to_owned(), output: Vec::new() });
        } else if let Some(last) = commands.last_mut() {
            if continues {
                last.command = format!("{}\n{text}", last.command);
            } else {
                last.output.push(text.to_owned());
            }
        } else {
            panic!("line {line}: a console block starts with `$ ` and a command, found `{text}`");
        }
        continues = commands.last().is_some_and(|last| last.output.is_empty() && text.ends_with('\\'));
    }
    // Empty lines set commands apart.
    for shown in &mut commands {
        while shown.output.last().is_some_and(|line| line.trim().is_empty()) {
            shown.output.pop();
        }
    }
    commands
}

/// A command without the comment behind it.
pub(crate) fn without_comment(command: &str) -> &str {
    let mut quote = None;
    for (at, c) in command.char_indices() {
        match (quote, c) {
            (None, '#') if command[..at].ends_with(' ') => return command[..at].trim_end(),
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), _) if open == c => quote = None,
            _ => {}
        }
    }
    command.trim_end()
}

/// What stands between single backticks on a line.
pub(crate) fn code_spans(line: &str) -> Vec<&str> {
    line.split('`').skip(1).step_by(2).collect()
}

/// Where the links of a line lead.
pub(crate) fn links(line: &str) -> Vec<&str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect()
}

/// How a heading is called in a link to it.
pub(crate) fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    text.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Whether an output is what a document shows. `…` stands for any text, on a line of its own for any lines; times are not
/// compared, nor is how columns are set apart.
pub(crate) fn matches(shown: &[String], output: &[String]) -> bool {
    match shown.split_first() {
        None => output.is_empty(),
        Some((first, rest)) if first.trim() == "…" => {
            (0..=output.len()).any(|skipped| matches(rest, &output[skipped..]))
        }
        Some((first, rest)) => match output.split_first() {
            Some((line, others)) => line_matches(&settled(first), &settled(line)) && matches(rest, others),
            None => false,
        },
    }
}

/// A line with single spaces, and `#` for times.
fn settled(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_time = |at: usize| {
        let unit = words.get(at + 1).map(|word| word.trim_end_matches([',', '.', ';', ')', ':']));
        let number = words[at].trim_start_matches('(');
        matches!(unit, Some("ms" | "s" | "µs" | "ns" | "min")) && number.parse::<f64>().is_ok()
    };
    let settled: Vec<&str> = (0..words.len()).map(|at| if is_time(at) { "#" } else { words[at] }).collect();
    settled.join(" ")
}

fn line_matches(shown: &str, line: &str) -> bool {
    match shown.split_once('…') {
        None => shown == line,
        Some((before, after)) => match line.strip_prefix(before) {
            Some(rest) => {
                let starts = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
                starts.into_iter().any(|at| line_matches(after, &rest[at..]))
            }
            None => false,
        },
    }
}

#[test]
fn outputs_are_compared_but_for_times() {
    let matches = |shown: &[&str], output: &[&str]| {
        matches(
            &shown.iter().map(|s| s.to_string()).collect::<Vec<_>>(),
            &output.iter().map(|s| s.to_string()).collect::<Vec<_>>(),
        )
    };
    assert!(matches(&["0 4 6"], &["0 4 6"]));
    assert!(!matches(&["0 4 6"], &["0 4 7"]));
    assert!(!matches(&["0 4 6"], &["0 4 6", "more"]));
    assert!(!matches(&["a", "b"], &["a"]));
    assert!(matches(&["on cpu, 17.3 ms"], &["on cpu,  8 ms"]));
    assert!(!matches(&["17.3 MB"], &["17.4 MB"]));
    assert!(matches(&["cpu: … cores"], &["cpu: some name, 2 cores"]));
    assert!(matches(&["a", "…", "z"], &["a", "b", "c", "z"]));
    assert!(!matches(&["a", "…", "z"], &["a", "b"]));
}

#[test]
fn commands_have_their_outputs() {
    let (blocks, prose) = parse("one\n```console\n$ a \\\n  b  # why\n1\n\n2\n\n$ c\n```\ntwo `x` [y](z.md#w)\n");
    let shown = commands(&blocks[0]);
    assert_eq!(shown.len(), 2);
    assert_eq!(without_comment(&shown[0].command), "a \\\n  b");
    assert_eq!((shown[0].line, &shown[0].output), (3, &vec!["1".to_owned(), String::new(), "2".to_owned()]));
    assert_eq!(without_comment("dala eval \"x # y\" # z"), "dala eval \"x # y\"");
    assert_eq!((shown[1].line, shown[1].output.len()), (9, 0));
    assert_eq!(prose[1].0, 11);
    assert_eq!((code_spans(prose[1].1), links(prose[1].1)), (vec!["x"], vec!["z.md#w"]));
    assert_eq!(anchor("## What is fused, and why"), "what-is-fused-and-why");
}
