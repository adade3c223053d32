//! What it took to build kernels, as a table.

use std::io::Write;
use std::time::Duration;

use dala_compute::BuiltKernel;

/// One line for each kernel, those that took longest first, and their sum: times of one core, of which several are at work.
pub(crate) fn table(out: &mut dyn Write, kernels: &[BuiltKernel]) -> std::io::Result<()> {
    let mut kernels: Vec<&BuiltKernel> = kernels.iter().collect();
    kernels.sort_by_key(|kernel| std::cmp::Reverse(kernel.compiled));
    writeln!(out, "| kernel | generated, ms | compiled, ms | bytes |\n|---|---|---|---|")?;
    let cell = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let milliseconds = |time: Duration| format!("{:.1}", time.as_secs_f64() * 1e3);
    for kernel in &kernels {
        let generated = cell(kernel.generated.map(milliseconds));
        let bytes = cell(kernel.bytes.map(|bytes| bytes.to_string()));
        writeln!(out, "| `{}` | {generated} | {} | {bytes} |", kernel.name, milliseconds(kernel.compiled))?;
    }
    let generated: Option<Duration> = kernels.iter().map(|kernel| kernel.generated).sum();
    let compiled: Duration = kernels.iter().map(|kernel| kernel.compiled).sum();
    let bytes: usize = kernels.iter().filter_map(|kernel| kernel.bytes).sum();
    let (count, generated) = (kernels.len(), cell(generated.map(milliseconds)));
    writeln!(out, "| all {count} | {generated} | {} | {bytes} |", milliseconds(compiled))
}
