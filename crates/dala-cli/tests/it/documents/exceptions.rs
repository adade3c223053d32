//! Commands of the documents that the tests do not run, each with its reason.

use std::path::Path;

use super::markdown::without_comment;

/// A command that is not run here.
pub(crate) struct Exception {
    /// As the documents have it, without a comment.
    pub(crate) command: &'static str,
    pub(crate) why: &'static str,
    /// The script that runs it, or the same on another scale, and a part of the line that does.
    pub(crate) run_by: Option<(&'static str, &'static str)>,
}

const fn ci(command: &'static str, line: &'static str) -> Exception {
    Exception { command, why: "CI runs it", run_by: Some((".ci/run", line)) }
}

const fn long(command: &'static str, line: &'static str) -> Exception {
    Exception { command, why: "takes too long for CI", run_by: Some(("scripts/long-checks", line)) }
}

const fn never(command: &'static str, why: &'static str) -> Exception {
    Exception { command, why, run_by: None }
}

const PACKAGES: &str = "needs Python packages that CI does not install";
const BY_HAND: &str = "takes long, and is for people";

pub(crate) const NOT_RUN: &[Exception] = &[
    ci("scripts/setup-debian.sh", "scripts/setup-debian.sh"),
    // CI builds the same command in the profile of the tests: in this one it would build the engine once more.
    ci("cargo install --locked --path crates/dala-cli", BUILD),
    ci("dala self-test --device cpu", "debug/dala\" self-test"),
    // Benchmarks.
    ci("dala bench fusion --device cpu", "bench \"$suite\" --device \"$device\""),
    ci("dala bench overhead --device cpu", "for suite in fusion overhead startup"),
    ci("cargo run -p dala-cli -- bench overhead --device cpu", "for suite in fusion overhead startup"),
    ci("dala bench startup --device cpu", "for suite in fusion overhead startup"),
    never("dala bench image --device cpu", PACKAGES),
    never("dala bench batch --device cpu", PACKAGES),
    never("dala bench model --device cpu", PACKAGES),
    never("dala bench photos --device cpu", PACKAGES),
    never("dala bench zoo --device cpu --memory", PACKAGES),
    never("dala bench sizes --device cpu", BY_HAND),
    never("dala bench types --device cpu", BY_HAND),
    never("pip install -r benches/peers/requirements.txt", PACKAGES),
    ci("cargo build -p dala-compute --example peers", BUILD),
    never("python benches/peers/run.py cpu", PACKAGES),
    long("cargo run -p dala-compute --example figures", "examples/figures commands cpu vulkan"),
    // Simulated fleets, and meshes of Erlang nodes.
    never("cargo run --release -p dala-route --example fleet large", BY_HAND),
    never("cargo run --release -p dala-route --example fleet agree", BY_HAND),
    never("cargo run --release -p dala-route --example fleet -- --csv curve > figures/curve.csv", BY_HAND),
    never("cargo run --release -p dala-route --example fleet -- --csv gpu > figures/gpu.csv", BY_HAND),
    never("cargo run --release -p dala-route --example fleet -- --csv million", BY_HAND),
    never(
        "cargo run --release -p dala-route --example fleet -- --csv --nodes 1000 --line figures/line.csv killed restart cut > figures/events.csv",
        BY_HAND,
    ),
    never(
        "cargo run --release -p dala-route --example fleet -- --csv --nodes 8,100,1000 --seconds 4 slow > figures/slow.csv",
        BY_HAND,
    ),
    never("cargo run --release -p dala-route --example fleet -- --csv --nodes 1000 --seconds 4 hot", BY_HAND),
    never("cargo run --release -p dala-route --example fleet -- --csv callers > figures/callers.csv", BY_HAND),
    never("python3 benches/fleet/mesh.py > figures/mesh.csv", BY_HAND),
    never("python3 benches/fleet/mesh.py --star 40 120", BY_HAND),
    never("python3 benches/fleet/draw.py figures docs/images", BY_HAND),
    // Examples. What they print is compared there; `check_names` wants the text beside each.
    ci("cargo run -p dala-compute --example hello -- cpu", EXAMPLES),
    ci("cargo run -p dala-compute --example custom_expression -- cpu", EXAMPLES),
    ci("cargo run -p dala-compute --example own_kernels -- cpu", EXAMPLES),
    ci("cargo run -p dala-compute --example image_pipeline -- cpu", EXAMPLES),
    ci("cargo run -p dala-compute --example async_commands -- cpu", EXAMPLES),
    ci("cargo run -p dala-compute --example streams -- cpu", EXAMPLES),
    ci("cargo run -p dala-model --example inference -- cpu", EXAMPLES),
    ci("scripts/run-examples cpu", EXAMPLES),
    // Tests.
    ci("cargo test -p dala-cli documents", TESTS),
    ci("cargo test -p dala-spec -p dala-plan", TESTS),
    ci("cargo test -p dala-schedule", TESTS),
    ci(
        "cargo test -p dala-schedule --features shuttle queue",
        "cargo test --locked -p dala-schedule --features shuttle queue",
    ),
    ci("cargo test -p dala-kernels --test plans", TESTS),
    ci("cargo test -p dala-compute", TESTS),
    ci("DALA_TEST_DEVICES=cpu cargo test -p dala-compute", TESTS),
    ci("cargo test -p dala-compute --test it golden", TESTS),
    ci("DALA_GOLDEN=blur cargo test -p dala-compute --test it golden -- --nocapture", TESTS),
    ci("DALA_PROPERTY_CASES=2000 cargo test -p dala-compute --test it random -- --nocapture", TESTS),
    ci("DALA_PIPELINE_CASES=2000 cargo test -p dala-compute --test it pipelines -- --nocapture", TESTS),
    ci("scripts/get-models people", "scripts/get-models people"),
    never("scripts/mutation-check", BY_HAND),
    never("scripts/mutation-check steady", BY_HAND),
    never("scripts/reach", BY_HAND),
    // The guide to kernels: its kernel is compiled and checked by `dala-kernels`.
    never("pip install -r crates/dala-compute/tests/golden/requirements.txt", PACKAGES),
    never("cd crates/dala-compute/tests/golden && python make_golden.py", PACKAGES),
    never("DALA_UPDATE=1 cargo test -p dala-compute --test it table", "writes into the project"),
    ci("cargo test -p dala-kernels && cargo test -p dala-compute", TESTS),
    never("scripts/make-pictures", "writes into the project; the tests here run it in another folder"),
    // Elixir.
    ci("DALA_DEVICE=cpu mix test", ELIXIR),
    ci("DALA_DEVICE=cpu mix test --exclude long", ELIXIR),
    ci("../scripts/elixir-root mix test --exclude long", "timeout 1800 scripts/elixir-root"),
    ci("DALA_HEALTH_SECONDS=5 mix test test/health_test.exs", ELIXIR),
    ci("DALA_HOSTILE_CALLS=1000000 mix test test/hostile_test.exs", ELIXIR),
    ci("cargo build --workspace --bin fuzz", BUILD),
    ci("fuzz --short --seed 1", "debug/fuzz\" --short --seed 1"),
    never("fuzz picture --seconds 600", "takes long, and is for people"),
    never("fuzz expression --input FILE", "there is no input that fails"),
    long("DALA_DEVICE=cpu MIX_ENV=test mix run bench/figures.exs", "MIX_ENV=test mix run bench/figures.exs"),
    ci("../scripts/test-static-nif", "scripts/test-static-nif"),
    ci("../scripts/process-ends", "scripts/process-ends --short"),
    never("../scripts/test-with-nx DIR", "needs a copy of Nx"),
];

const EXAMPLES: &str = "scripts/run-examples \"$device\"";
const TESTS: &str = "cargo test --locked --workspace -- --nocapture";
const BUILD: &str = "cargo build --locked --workspace --bins --examples";
const ELIXIR: &str = "elixir_tests cpu";

pub(crate) fn find(command: &str) -> Option<&'static Exception> {
    NOT_RUN.iter().find(|exception| exception.command == without_comment(command))
}

/// How many there are for each reason.
pub(crate) fn reasons() -> String {
    let mut reasons: Vec<&str> = NOT_RUN.iter().map(|exception| exception.why).collect();
    reasons.sort_unstable();
    let count = |why: &str| NOT_RUN.iter().filter(|exception| exception.why == why).count();
    reasons.dedup();
    reasons.iter().map(|why| format!("{} ({why})", count(why))).collect::<Vec<_>>().join(", ")
}

/// What a command names is there: scripts, crates, examples, tests.
pub(crate) fn check_names(project: &Path, command: &str) {
    let words: Vec<&str> = command.split_whitespace().collect();
    let exists = |path: String| assert!(project.join(&path).exists(), "`{command}`: there is no {path}");
    let mut package = "";
    for pair in words.windows(2) {
        match pair {
            ["-p", name] => {
                exists(format!("crates/{name}/Cargo.toml"));
                package = *name;
            }
            // A crate outside of the workspace, which is an example inside as well.
            ["--example", name] if project.join("examples").join(name.replace('_', "-")).is_dir() => {
                exists(format!("examples/{}/{name}.txt", name.replace('_', "-")));
            }
            ["--example", name] => {
                let folder = format!("crates/{package}/examples/{name}");
                exists(if project.join(&folder).is_dir() { folder } else { format!("{folder}.rs") });
                if command.ends_with("-- cpu") {
                    exists(format!("crates/{package}/examples/{name}.txt"));
                }
            }
            ["--test", name] => {
                let folder = format!("crates/{package}/tests/{name}");
                exists(if project.join(&folder).is_dir() { folder } else { format!("{folder}.rs") });
            }
            _ => {}
        }
    }
    for word in words {
        let path = word.trim_start_matches("../");
        if ["scripts/", "benches/", ".ci/", "crates/"].iter().any(|folder| path.starts_with(folder)) {
            exists(path.to_owned());
        }
    }
}
