//! `docs/ARCHITECTURE.md` shows the project as it is: its folders, and which crate needs which.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use super::documents::project;

/// The text of a block of the document: the first whose opening line is this one, after the heading.
fn block(heading: &str, opening: &str) -> String {
    let text = fs::read_to_string(project().join("docs/ARCHITECTURE.md")).unwrap();
    let after = text.split_once(heading).unwrap().1;
    let inside = after.split_once(&format!("\n{opening}\n")).unwrap().1;
    inside.split_once("\n```").unwrap().0.to_owned()
}

/// The folders of the drawn tree, from the project's root.
fn drawn() -> BTreeSet<String> {
    let mut drawn = BTreeSet::new();
    let mut above: Vec<String> = Vec::new();
    for line in block("## The house", "```").lines() {
        let depth = (line.len() - line.trim_start().len()) / 2;
        let names: Vec<&str> = line.split_whitespace().take_while(|word| word.ends_with('/')).collect();
        if depth > above.len() {
            continue;
        }
        above.truncate(depth);
        for name in &names {
            let name = name.trim_end_matches('/');
            let inside = match (above.first().map(String::as_str), depth) {
                // Below a crate, folders are those of its sources, unless they say otherwise.
                (Some("crates"), 2..) if !name.starts_with("tests") => {
                    let (krate, rest) = (above[1].clone(), above[2..].join("/"));
                    Path::new("crates").join(krate).join("src").join(rest).join(name)
                }
                _ => Path::new(&above.join("/")).join(name),
            };
            drawn.insert(inside.to_str().unwrap().to_owned());
        }
        if let [name] = names[..] {
            above.push(name.trim_end_matches('/').to_owned());
        }
    }
    drawn
}

fn folders_in(path: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(project().join(path)) else { return Vec::new() };
    let folders = entries.map(|entry| entry.unwrap()).filter(|entry| entry.path().is_dir());
    folders.map(|entry| format!("{path}/{}", entry.file_name().to_str().unwrap())).collect()
}

#[test]
fn drawn_folders_are_there_and_no_room_is_missing() {
    let drawn = drawn();
    assert!(drawn.len() > 20, "{drawn:?}");
    for folder in &drawn {
        assert!(project().join(folder).is_dir(), "ARCHITECTURE.md draws {folder}, which is not there");
    }
    for krate in folders_in("crates") {
        assert!(drawn.contains(&krate), "ARCHITECTURE.md does not draw {krate}");
        for room in folders_in(&format!("{krate}/src")) {
            assert!(drawn.contains(&room), "ARCHITECTURE.md does not draw {room}");
        }
    }
}

#[test]
fn drawn_arrows_are_those_of_cargo() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(project())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut real = BTreeMap::new();
    for package in metadata["packages"].as_array().unwrap() {
        let dependencies = package["dependencies"].as_array().unwrap().iter();
        let own = dependencies.filter(|dependency| dependency["kind"].is_null());
        let names = own.map(|dependency| dependency["name"].as_str().unwrap().to_owned());
        let ours: BTreeSet<String> = names.filter(|name| name.starts_with("dala")).collect();
        real.insert(package["name"].as_str().unwrap().to_owned(), ours);
    }
    let lines = |(name, needs): (&String, &BTreeSet<String>)| {
        format!("{name:<13} -> {}", needs.iter().cloned().collect::<Vec<_>>().join(" ")).trim_end().to_owned()
    };
    let real: Vec<String> = real.iter().map(lines).collect();
    let drawn: Vec<String> = block("## The house", "```text arrows").lines().map(str::to_owned).collect();
    assert_eq!(drawn, real, "the arrows of ARCHITECTURE.md are to be:\n{}", real.join("\n"));
}

/// The crate of kernels outside of the workspace is built with `--locked`: its list of packages has to follow ours.
#[test]
fn outside_crate_is_locked_to_what_it_needs() {
    let manifest = project().join("examples/own-kernels/Cargo.toml");
    let mut command = Command::new(env!("CARGO"));
    let answer =
        command.args(["tree", "--locked", "--offline", "--depth", "1", "--manifest-path"]).arg(manifest).output();
    let answer = answer.unwrap();
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
}
