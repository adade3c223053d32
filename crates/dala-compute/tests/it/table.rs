//! The committed table of kernels, element types and devices.

use std::fmt::Write;

use dala_compute::{DType, Device, Support};

use crate::pictures;
use crate::support::{device_names, devices};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/KERNELS.md");

/// One cell: kernel, element type, device, and what the table says.
pub struct Cell {
    pub kernel: String,
    pub dtype: DType,
    pub device: String,
    pub support: Support,
}

/// The cells of the committed table.
pub fn committed() -> Vec<Cell> {
    let text = std::fs::read_to_string(PATH).expect("docs/KERNELS.md is committed");
    let support = |word: &str| match word {
        "native" => Support::Native,
        "storage" => Support::Storage,
        "packed" => Support::Packed,
        "refused" => Support::Refused,
        other => panic!("`{other}` in the table"),
    };
    let mut cells = Vec::new();
    let lines = text.lines().skip_while(|line| !line.starts_with("## On which element types"));
    let lines = lines.take_while(|line| !line.starts_with("## What image kernels do"));
    for line in lines.filter(|line| line.starts_with("| `")) {
        let columns: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        for (dtype, cell) in DType::ALL.iter().zip(&columns[1..]) {
            let words: Vec<&str> = cell.split(" / ").collect();
            let devices = ["cpu", "vulkan", "gl"];
            // One word stands for all devices.
            for (index, device) in devices.iter().enumerate() {
                cells.push(Cell {
                    kernel: columns[0].trim_matches('`').to_owned(),
                    dtype: *dtype,
                    device: (*device).to_owned(),
                    support: support(words[if words.len() == 1 { 0 } else { index }]),
                });
            }
        }
    }
    cells
}

fn table(devices: &[Device]) -> String {
    let mut text = String::from(
        "# Kernels\n\n\
         Made by the tests; `DALA_UPDATE=1 cargo test -p dala-compute --test it table` writes it anew.\n\n\
         ## What they compute\n\n\
         | kernel | also called | class | what it computes | params |\n|---|---|---|---|---|\n",
    );
    for kernel in devices[0].kernels() {
        let spec = &kernel.spec;
        let params: Vec<String> = spec
            .params
            .iter()
            .map(|param| {
                let default = param.default.as_ref().map(|value| format!(" = {value}")).unwrap_or_default();
                format!("`{}`: {}{default}", param.name, param.kind).replace('|', "\\|")
            })
            .collect();
        let aliases: Vec<String> = spec.aliases.iter().map(|alias| format!("`{alias}`")).collect();
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} | {} |",
            spec.name,
            aliases.join(", "),
            spec.class.name(),
            spec.summary,
            params.join(", ")
        );
    }
    text.push_str(
        "\n## On which element types, and how\n\n\
         Each cell says how the CPU runtime, Vulkan (lavapipe) and OpenGL (llvmpipe) run the kernel on elements of the type, \
         in this order; one word stands for all three. *native*: with instructions for the type. *storage*: converted when \
         loaded and stored, computed in f32. *packed*: several elements in a 32-bit word, computed in s32 or f32. *refused*: an error before launch. The type is that of the first input; where the \
         caller chooses the output's, as in `cast` and `argmax`, it may be any the kernel gives and the device computes on. Every cell is tested.\n\n\
         | kernel |",
    );
    DType::ALL.iter().for_each(|dtype| write!(text, " {dtype} |").unwrap());
    let _ = writeln!(text, "\n|{}", "---|".repeat(DType::ALL.len() + 1));
    for kernel in devices[0].kernels() {
        let _ = write!(text, "| `{}` |", kernel.spec.name);
        for dtype in DType::ALL {
            let words: Vec<&str> =
                devices.iter().map(|device| device.support(&kernel.spec.name, dtype).unwrap().name()).collect();
            let same = words.iter().all(|word| *word == words[0]);
            let _ = write!(text, " {} |", if same { words[0].to_owned() } else { words.join(" / ") });
        }
        text.push('\n');
    }
    text.push_str(&pictures::section());
    text
}

#[test]
fn the_committed_table_is_true() {
    if device_names() != ["cpu", "vulkan", "gl"] {
        println!("skipped: the table is about cpu, vulkan and gl, and DALA_TEST_DEVICES names others");
        return;
    }
    let text = table(&devices());
    if std::env::var("DALA_UPDATE").is_ok() {
        std::fs::write(PATH, &text).unwrap();
    }
    let committed = std::fs::read_to_string(PATH).unwrap_or_default();
    assert!(committed == text, "docs/KERNELS.md is stale: run with DALA_UPDATE=1\n{text}");
}
