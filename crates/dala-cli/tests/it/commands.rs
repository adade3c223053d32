//! `dala completions`, `man` and `self-test`, and what is said about devices.

use std::fs;

use super::dala;
use super::folder::Folder;

/// The commands that the help lists.
fn commands() -> Vec<String> {
    let help = dala(&["--help"]).success();
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = lines.filter_map(|line| line.split_whitespace().next());
    let names: Vec<String> = names.filter(|name| *name != "help").map(str::to_owned).collect();
    assert!(names.len() >= 16 && names.iter().any(|name| name == "self-test"), "{help}");
    names
}

#[test]
fn every_shell_learns_every_command() {
    let commands = commands();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = dala(&["completions", shell]).success();
        for command in &commands {
            assert!(script.contains(command), "{shell} does not know {command}");
        }
    }
    assert!(dala(&["completions", "cmd"]).error(2).contains("possible values: bash"));
}

#[test]
fn there_is_a_page_for_every_command() {
    let commands = commands();
    let page = dala(&["man"]).success();
    assert!(page.contains(".TH dala 1") && page.contains("self\\-test"), "{page}");
    let folder = Folder::new();
    let line = folder.short(dala(&["man", &folder.path("man1")])).success();
    assert_eq!(line, format!("./man1: {} pages; read one with `man ./man1/dala.1`\n", commands.len() + 3));
    for command in commands.iter().map(String::as_str).chain(["model-info", "model-run"]) {
        let page = fs::read_to_string(folder.path(&format!("man1/dala-{command}.1"))).unwrap();
        assert!(page.contains(&format!(".TH dala-{command} 1")), "{page}");
    }
    assert!(fs::read_to_string(folder.path("man1/dala-run.1")).unwrap().contains("progress"));
    let file = folder.file("file", "");
    let message = folder.short(dala(&["man", &file])).error(2);
    assert!(message.starts_with("error: cannot make the folder ./file: "), "{message}");
}

#[test]
fn the_kernels_of_a_device_are_right() {
    let report = dala(&["self-test", "--device", "cpu", "--json"]).json();
    let device = &report["devices"][0];
    assert_eq!((device["backend"].as_str(), device["wrong"].as_u64()), (Some("cpu"), Some(0)), "{device}");
    let kernels = device["kernels"].as_array().unwrap();
    let listed = dala(&["kernels", "--json"]).json().as_array().unwrap().len();
    assert_eq!(kernels.len(), listed);
    // Every kernel ran on something.
    for kernel in kernels {
        assert!(!kernel["right"].as_array().unwrap().is_empty(), "{kernel}");
    }
    assert!(device["right"].as_u64().unwrap() > 2 * listed as u64, "{device}");
    assert!(device.get("driver").is_some() && report["version"] == env!("CARGO_PKG_VERSION"));
}

#[test]
fn a_device_that_is_not_there_is_answered_with_those_that_are() {
    for arguments in [
        &["self-test", "--device", "toaster"][..],
        &["eval", "x", "--device", "toaster", "--", "1"],
        &["verify", "--filter", "flip", "--device", "toaster"],
    ] {
        let message = dala(arguments).error(2);
        assert!(message.starts_with("error: ") && message.contains("toaster"), "{message}");
        assert!(message.contains("cpu") && message.contains("dala info"), "{message}");
    }
}

#[test]
fn charts_are_svg() {
    let message = dala(&["bench", "fusion", "--device", "cpu", "--plot", "out.png"]).error(2);
    assert_eq!(message, "error: cannot write out.png: name it .svg\n");
}
