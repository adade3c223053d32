//! Pipelines that are wrong, and what is said about them: the table is `wrong.md`.

use dala_kernels::Registry;
use dala_plan::DeviceFacts;

use super::{cpu, gpu, pipeline};

const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/plans/wrong.md");

/// The device that a section's title ends with.
fn device(title: &str) -> DeviceFacts {
    match title.rsplit_once(", on ").unwrap().1 {
        "a CPU" => cpu(),
        "a CPU that binds 3 buffers" => DeviceFacts { max_bindings: 3, ..cpu() },
        "a GPU" => gpu(),
        other => panic!("no device is called {other}"),
    }
}

/// What is wrong with a case: a name, the lines of a pipeline, its buffers, and messages, which are not looked at.
fn messages(case: &str, facts: &DeviceFacts) -> Vec<String> {
    let lines = || case.lines().skip(1);
    let buffers = lines().find_map(|line| line.strip_prefix("with ")).unwrap_or_default();
    let text: Vec<&str> = lines().filter(|line| !line.starts_with("with ") && !line.starts_with("> ")).collect();
    match dala_kernels::compile(&pipeline(&text.join("\n"), buffers), &Registry::built_in(), facts, true) {
        Ok(_) => panic!("nothing is wrong with\n{case}"),
        Err(problems) => problems.iter().map(|found| format!("> stage {}: {}", found.stage, found.error)).collect(),
    }
}

#[test]
fn everything_that_is_wrong_is_said() {
    let table = std::fs::read_to_string(TABLE).unwrap();
    let (mut facts, mut blocks, mut changed) = (cpu(), Vec::new(), Vec::new());
    for block in table.trim_end().split("\n\n") {
        if let Some(title) = block.strip_prefix("## ") {
            facts = device(title);
        }
        let mut lines: Vec<&str> = block.lines().collect();
        let found = if block.starts_with("### ") { messages(block, &facts) } else { Vec::new() };
        if !found.is_empty() {
            lines.retain(|line| !line.starts_with("> "));
            lines.extend(found.iter().map(String::as_str));
        }
        let now = lines.join("\n");
        if now != block {
            changed.push(format!("{block}\n\nis now\n\n{now}"));
        }
        blocks.push(now);
    }
    if std::env::var_os("DALA_UPDATE").is_some() {
        return std::fs::write(TABLE, blocks.join("\n\n") + "\n").unwrap();
    }
    assert!(changed.is_empty(), "{}", changed.join("\n\n"));
}
