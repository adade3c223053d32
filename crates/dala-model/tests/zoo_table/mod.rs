//! The table of real models in `docs/MODELS.md`, made of what `scripts/zoo` found: `zoo/results.tsv`.

use std::collections::HashMap;
use std::path::Path;

const HEAD: &str = "| model | what it does | package | CPU | Vulkan | OpenGL ES |\n|---|---|---|---|---|---|\n";
/// How much of a reason is shown.
const SHOWN: usize = 120;

/// Says of each model how it went on each device, with the time beside ONNX Runtime's on the CPU.
#[test]
fn the_committed_zoo_table_is_true() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = folder.join("../../docs/MODELS.md");
    let zoo: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(folder.join("zoo/zoo.json")).unwrap()).unwrap();
    let results = std::fs::read_to_string(folder.join("zoo/results.tsv")).unwrap();
    let found: HashMap<(&str, &str), Vec<&str>> = results
        .lines()
        .skip(1)
        .map(|line| line.split('\t').collect::<Vec<_>>())
        .map(|cells| ((cells[0], cells[1]), cells[2..].to_vec()))
        .collect();
    let cell = |id: &str, device: &str| match found.get(&(id, device)).map(Vec::as_slice) {
        None => "not tried".to_owned(),
        Some(["agrees", _, _, times]) if device == "cpu" => format!("agrees, {times} x"),
        Some(["agrees", ..]) => "agrees".to_owned(),
        Some([why, ..]) => {
            let mut why = why.replace('|', "/");
            why.truncate(why.char_indices().nth(SHOWN).map_or(why.len(), |(end, _)| end));
            format!("no: {why}")
        }
        Some([]) => panic!("{id} has no result"),
    };
    let row = |entry: &serde_json::Value| {
        let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
        let id = text("id");
        assert!(found.contains_key(&(&*id, "cpu")), "{id} was not run: scripts/zoo {id}");
        let cells = ["cpu", "vulkan", "gl"].map(|device| cell(&id, device)).join(" | ");
        format!("| {id} | {} | {} {} | {cells} |\n", text("task"), text("package"), text("version"))
    };
    let table = format!("{HEAD}{}", zoo.as_array().unwrap().iter().map(row).collect::<String>());
    let text = std::fs::read_to_string(&page).unwrap();
    let (before, rest) = text.split_once(HEAD).unwrap();
    let after = rest.find("\n\n").map_or("", |end| &rest[end + 1..]);
    let renewed = format!("{before}{table}{after}");
    if std::env::var("DALA_UPDATE").is_ok() {
        std::fs::write(&page, renewed).unwrap();
    } else {
        assert!(text == renewed, "docs/MODELS.md is stale: run with DALA_UPDATE=1\n{table}");
    }
}
