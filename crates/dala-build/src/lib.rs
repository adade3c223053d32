//! What build scripts share.

use std::path::Path;
use std::{env, fs};

/// Numbers the sources of the crate that is being built, as the environment variable `DALA_SOURCES` of its compiler: what was
/// derived from other sources must not be taken for what would be derived from these.
#[expect(clippy::print_stdout, reason = "so build scripts speak to cargo")]
pub fn number_sources() {
    let sources = Path::new(&env::var("CARGO_MANIFEST_DIR").unwrap_or_default()).join("src");
    println!("cargo:rerun-if-changed={}", sources.display());
    // FNV-1a: the same on every machine and with every compiler.
    let mut number = 0xcbf2_9ce4_8422_2325_u64;
    add(&sources, &mut number);
    println!("cargo:rustc-env=DALA_SOURCES={number:016x}");
}

fn add(path: &Path, number: &mut u64) {
    let mut paths: Vec<_> = fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            add(&path, number);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            for byte in fs::read(&path).unwrap_or_default() {
                *number = (*number ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
    }
}
