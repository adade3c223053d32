//! `dala info`: the devices of this machine.

use std::collections::BTreeMap;
use std::io::{self, Write};

use dala_compute::{Device, DeviceInfo, Limits, Support};
use dala_plan::words::format_memory;
use serde::Serialize;

use crate::args::InfoArgs;
use crate::output::{self, Outcome};

pub(crate) fn run(args: &InfoArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let devices = Device::list();
    if args.json {
        output::json(out, &devices.iter().map(DeviceJson::from).collect::<Vec<_>>())?;
    } else {
        for (position, device) in devices.iter().enumerate() {
            if position > 0 {
                writeln!(out)?;
            }
            describe(out, device)?;
        }
    }
    if devices.is_empty() {
        return Ok(Outcome::Negative("this build finds no device on this machine".to_owned()));
    }
    Ok(Outcome::Success)
}

fn describe(out: &mut dyn Write, device: &DeviceInfo) -> io::Result<()> {
    let unknown = || "unknown".to_owned();
    let dtypes: Vec<String> =
        device.dtypes.iter().map(|(dtype, support)| format!("{dtype} {}", support.name())).collect();
    let limits = &device.limits;
    let (x, y, z) = limits.max_cubes;
    let row = |label: &str, value: String| [label.to_owned(), value];
    writeln!(out, "{}: {}", device.id, device.name)?;
    output::columns(
        out,
        "  ",
        &[
            row("kind", device.kind.name().to_owned()),
            row("gpu", if device.gpu { "yes" } else { "no" }.to_owned()),
            row("driver", device.driver.clone().unwrap_or_else(unknown)),
            row("memory", device.memory_bytes.map_or_else(unknown, format_memory)),
            row("largest buffer", format_memory(limits.max_buffer_bytes)),
            row("bindings", limits.max_bindings.to_string()),
            row("cubes", format!("{x} x {y} x {z}, of up to {} units", limits.max_units)),
            row("element types", dtypes.join(", ")),
        ],
    )
}

/// A device as `--json` shows it. These names are what scripts rely on, so they are apart from the library's.
#[derive(Serialize)]
struct DeviceJson<'a> {
    id: &'a str,
    backend: &'static str,
    name: &'a str,
    kind: &'static str,
    gpu: bool,
    driver: Option<&'a str>,
    memory_bytes: Option<u64>,
    limits: LimitsJson,
    dtypes: BTreeMap<&'static str, Support>,
    version: &'static str,
}

#[derive(Serialize)]
struct LimitsJson {
    max_buffer_bytes: u64,
    max_bindings: usize,
    max_cubes: (u32, u32, u32),
    max_units: u32,
}

impl<'a> From<&'a DeviceInfo> for DeviceJson<'a> {
    fn from(device: &'a DeviceInfo) -> DeviceJson<'a> {
        let Limits { max_buffer_bytes, max_bindings, max_cubes, max_units } = device.limits;
        DeviceJson {
            id: &device.id,
            backend: device.backend.name(),
            name: &device.name,
            kind: device.kind.name(),
            gpu: device.gpu,
            driver: device.driver.as_deref(),
            memory_bytes: device.memory_bytes,
            limits: LimitsJson { max_buffer_bytes, max_bindings, max_cubes, max_units },
            dtypes: device.dtypes.iter().map(|(dtype, support)| (dtype.name(), *support)).collect(),
            version: env!("CARGO_PKG_VERSION"),
        }
    }
}
