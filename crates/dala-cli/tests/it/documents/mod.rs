//! Every command line of the documents is run, and what they show of its output is compared.
//!
//! A line `$ command` in a `console` block is run by a shell, in a folder that looks like a clone of the project and has the
//! files of [`FILES`] in it; with `dala` for the command of this build, on the CPU device. What follows it is its output, as
//! [`markdown::matches`] has it. An output that starts with `error:` is that of a command that fails. A block
//! ```` ```toml gray.toml ```` is the file `gray.toml`, and one ```` ```rust path ```` a part of that file of the project
//! (`rust,ignore`, if it makes no sense alone).

mod exceptions;
mod markdown;
mod pictures;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use self::exceptions::NOT_RUN;
use self::markdown::{Block, Shown};
use super::folder::Folder;
use super::{Run, dala, models};

/// Files that documents use, and what they are.
const FILES: [(&str, &str); 7] = [
    ("photo.jpg", "crates/dala-model/tests/data/espresso_coffee.jpg"),
    ("cat_chelsea.jpg", "crates/dala-model/tests/data/cat_chelsea.jpg"),
    ("espresso_coffee.jpg", "crates/dala-model/tests/data/espresso_coffee.jpg"),
    ("tripod_camera.png", "crates/dala-model/tests/data/tripod_camera.png"),
    ("logo.png", "docs/images/source.png"),
    ("astronaut.png", "crates/dala-model/zoo/pictures/astronaut.png"),
    ("speech.wav", "crates/dala-recipes/tests/data/speech.wav"),
];

/// One of the documents.
struct Document {
    /// Its path in the project.
    name: String,
    text: String,
}

impl Document {
    fn blocks(&self) -> Vec<Block> {
        markdown::parse(&self.text).0
    }

    fn commands(&self) -> Vec<Shown> {
        self.blocks().iter().filter(|block| block.language() == "console").flat_map(markdown::commands).collect()
    }
}

pub(crate) fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn documents() -> Vec<Document> {
    let mut paths = vec!["README.md".to_owned(), "CONTRIBUTING.md".to_owned(), "elixir/README.md".to_owned()];
    let mut folders = vec!["docs".to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(project().join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{folder}/{}", entry.file_name().to_str().unwrap());
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(path),
                false if path.ends_with(".md") => paths.push(path),
                false => {}
            }
        }
    }
    paths.sort();
    let read = |name: String| Document { text: fs::read_to_string(project().join(&name)).unwrap(), name };
    paths.into_iter().map(read).collect()
}

/// A folder like a clone, with the files that a document uses and those that it shows.
fn workplace(document: &Document) -> Folder {
    let (folder, project) = (Folder::new(), project());
    for name in ["crates", "docs", "examples", "scripts", "benches", "elixir"] {
        symlink(project.join(name), folder.path(name)).unwrap();
    }
    for (name, file) in FILES {
        fs::copy(project.join(file), folder.path(name)).unwrap();
    }
    symlink(models::model_file("mobilenet_v2.onnx"), folder.path("mobilenet_v2.onnx")).unwrap();
    folder.file("strange.onnx", models::strange());
    for block in document.blocks() {
        if let (true, Some(name)) = (["toml", "json"].contains(&block.language()), block.file()) {
            folder.file(name, &block.text);
        }
    }
    folder
}

/// Runs a command as a shell in that folder does.
fn shell(folder: &Folder, command: &str) -> Run {
    let command = command.replace("cargo run -p dala-cli --", "dala");
    let programs = Path::new(env!("CARGO_BIN_EXE_dala")).parent().unwrap();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([programs.to_owned()].into_iter().chain(std::env::split_paths(&path))).unwrap();
    // Both outputs in the order in which a reader sees them.
    let output = Command::new("timeout")
        .args(["900", "bash", "-c", &format!("exec 2>&1\n{command}")])
        .current_dir(folder.path("."))
        .env("PATH", path)
        .env("DALA_DEVICE", "cpu")
        .env("DALA_CACHE", "off")
        // Some memory is for each thread, and what is shown is of so many.
        .env("DALA_THREADS", "2")
        .output()
        .unwrap();
    output.into()
}

/// Whether a command lacks a model that is fetched only where somebody asks for it.
fn lacks_model(run: &Run) -> bool {
    run.code == 2 && run.stdout.contains("` is missing: ") && run.stdout.contains("Run `scripts/get-models ")
}

/// What is wrong with what a command did, if anything is.
fn problem(run: &Run, shown: &Shown) -> Option<String> {
    let fails = shown.output.first().is_some_and(|line| line.starts_with("error:"));
    let output: Vec<String> = run.stdout.trim_end().lines().map(|line| line.trim_end().to_owned()).collect();
    if (run.code != 0) != fails {
        return Some(format!("ended with {}:\n{}", run.code, run.stdout));
    }
    let differs = !shown.output.is_empty() && !markdown::matches(&shown.output, &output);
    differs.then(|| format!("gave\n{}\ninstead of\n{}", output.join("\n"), shown.output.join("\n")))
}

#[test]
fn every_command_does_what_is_shown() {
    let (mut problems, mut count, mut lacking) = (Vec::new(), 0, 0);
    for document in documents() {
        let commands = document.commands();
        let mut folder = None;
        for shown in &commands {
            if exceptions::find(&shown.command).is_some() {
                continue;
            }
            let folder = folder.get_or_insert_with(|| workplace(&document));
            count += 1;
            let run = shell(folder, &shown.command);
            if lacks_model(&run) {
                lacking += 1;
            } else if let Some(problem) = problem(&run, shown) {
                problems.push(format!("{}:{}: `{}` {problem}", document.name, shown.line, shown.command));
            }
        }
    }
    println!("{count} commands of the documents were run, {} are not: {}", NOT_RUN.len(), exceptions::reasons());
    println!("{lacking} of them lack a model that scripts/get-models fetches when it is asked for");
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
    assert!(count >= 20, "only {count} commands were found");
}

#[test]
fn what_is_not_run_here_is_listed_for_a_reason() {
    let commands: BTreeSet<String> = documents()
        .iter()
        .flat_map(Document::commands)
        .map(|shown| markdown::without_comment(&shown.command).to_owned())
        .collect();
    for exception in NOT_RUN {
        assert!(commands.contains(exception.command), "no document has `{}` any more", exception.command);
        if let Some((script, line)) = exception.run_by {
            let lines = fs::read_to_string(project().join(script)).unwrap();
            let runs = lines.lines().any(|found| !found.trim_start().starts_with('#') && found.contains(line));
            assert!(runs, "`{}` is not run here because {script} runs `{line}`, which it does not", exception.command);
        }
        exceptions::check_names(&project(), exception.command);
    }
}

/// Blocks of shells would escape the tests above.
#[test]
fn commands_are_in_console_blocks() {
    for document in documents() {
        for block in document.blocks() {
            let place = format!("{}:{}", document.name, block.line);
            assert!(!["sh", "bash", "shell", "zsh"].contains(&block.language()), "{place}: write ```console and `$ `");
            let known = ["console", "rust", "rust,ignore", "elixir", "toml", "json", "text", "python", ""];
            assert!(known.contains(&block.language()), "{place}: nobody checks a block of `{}`", block.language());
        }
    }
}

/// Rust is a part of a file that is compiled, or a doctest of a crate.
#[test]
fn rust_is_compiled() {
    let read = |name: &str| fs::read_to_string(project().join("crates").join(name).join("src/lib.rs")).unwrap();
    let crates = ["dala-compute", "dala-model", "dala-recipes", "dala-surface"].map(read).concat();
    for document in documents() {
        let rust = |block: &Block| block.language().starts_with("rust") && block.file().is_none();
        let ignored = |block: &Block| block.language() == "rust,ignore" && rust(block);
        assert!(!document.blocks().iter().any(ignored), "{}: only a part of a file may be ignored", document.name);
        if document.blocks().iter().any(rust) {
            let included = crates.contains(&format!("include_str!(\"../../../{}\")", document.name));
            assert!(included, "the Rust of {} is no doctest of a crate", document.name);
        }
    }
}

/// A block with a path is a part of that file.
#[test]
fn blocks_of_files_are_what_the_files_have() {
    let mut count = 0;
    for document in documents() {
        for block in document.blocks() {
            if let (true, Some(file)) = (block.language().starts_with("rust"), block.file()) {
                let text = fs::read_to_string(project().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
                assert!(text.contains(&block.text), "{}:{}: not what {file} has", document.name, block.line);
                count += 1;
            }
        }
    }
    assert!(count > 0, "no block names its file");
}

/// Commands that are only mentioned, as `dala graph -o plan.svg`, have the options that they are said to have.
#[test]
fn mentioned_options_exist() {
    let mut helps = std::collections::BTreeMap::new();
    for document in documents() {
        let (_, prose) = markdown::parse(&document.text);
        for (line, text) in prose {
            for span in markdown::code_spans(text) {
                let Some(arguments) = span.strip_prefix("dala ") else { continue };
                let words: Vec<&str> = arguments.split(|c: char| c.is_whitespace() || "[]|".contains(c)).collect();
                // `dala model info`, `dala eval`, but `dala info, kernels` names several.
                let names = if words[0] == "model" { &words[..words.len().min(2)] } else { &words[..1] };
                let help = helps.entry(names.join(" ")).or_insert_with(|| dala(&[names, &["--help"]].concat()).stdout);
                let place = format!("{}:{line}: `{span}`", document.name);
                assert!(help.contains("Usage: dala"), "{place}: there is no such command");
                for option in words.iter().filter(|word| word.starts_with('-') && word.len() > 1 && **word != "--") {
                    assert!(help.contains(option), "{place}: there is no option {option}");
                }
            }
        }
    }
    assert!(helps.len() > 5, "{helps:?}");
}

/// Files that are mentioned are there: `crates/dala-cli/src/main.rs`, `scripts/get-models`.
#[test]
fn mentioned_files_exist() {
    let mut count = 0;
    for document in documents() {
        for (line, text) in markdown::parse(&document.text).1 {
            for span in markdown::code_spans(text) {
                let folders = ["crates/", "scripts/", "docs/", "elixir/", "benches/", ".ci/"];
                let is_path = !span.contains(|c: char| c.is_whitespace() || "<*{$".contains(c));
                if !is_path || !folders.iter().any(|folder| span.starts_with(folder)) {
                    continue;
                }
                // What the guide to kernels has the reader make.
                if span.ends_with("math/reduce_range.rs") {
                    continue;
                }
                assert!(project().join(span).exists(), "{}:{line}: there is no {span}", document.name);
                count += 1;
            }
        }
    }
    assert!(count > 10, "only {count} files are mentioned");
}

#[test]
fn links_lead_somewhere() {
    let (mut broken, mut count) = (Vec::new(), 0);
    for document in documents() {
        let folder = project().join(&document.name).parent().unwrap().to_owned();
        for (line, text) in markdown::parse(&document.text).1 {
            for link in markdown::links(text).into_iter().filter(|link| !link.starts_with("https://")) {
                let (path, heading) = link.split_once('#').unwrap_or((link, ""));
                let file = if path.is_empty() { project().join(&document.name) } else { folder.join(path) };
                let found = file.exists() && (heading.is_empty() || has_heading(&file, heading));
                count += 1;
                if !found {
                    broken.push(format!("{}:{line}: {link}", document.name));
                }
            }
        }
    }
    assert!(broken.is_empty(), "these lead nowhere:\n{}", broken.join("\n"));
    assert!(count > 30, "only {count} links were found");
}

fn has_heading(file: &Path, heading: &str) -> bool {
    let text = fs::read_to_string(file).unwrap();
    let (_, prose) = markdown::parse(&text);
    prose.iter().any(|(_, line)| line.starts_with('#') && markdown::anchor(line) == heading)
}
