//! `dala self-test`: is every kernel right on the devices of this machine?

use std::io::Write;
use std::time::Instant;

use anyhow::Result;
use dala_compute::{Buffer, DType, Data, Device, Scalar, Support, TensorType};
use dala_kernels::{Kernel, table};
use serde::Serialize;

use crate::args::SelfTestArgs;
use crate::device;
use crate::output::{self, Outcome};

/// What `--json` prints.
#[derive(Serialize)]
struct Report {
    version: &'static str,
    system: String,
    devices: Vec<DeviceReport>,
}

#[derive(Serialize)]
struct DeviceReport {
    backend: &'static str,
    name: String,
    driver: Option<String>,
    seconds: f64,
    /// Calls by how they ended.
    right: usize,
    wrong: usize,
    refused: usize,
    kernels: Vec<KernelReport>,
}

/// One kernel on one device: each element type is in one of the lists, or the kernel does not take it.
#[derive(Serialize)]
struct KernelReport {
    name: String,
    right: Vec<DType>,
    refused: Vec<DType>,
    wrong: Vec<Wrong>,
}

#[derive(Serialize)]
struct Wrong {
    dtype: DType,
    what: String,
}

/// How a call ended.
enum Ended {
    Right,
    /// The device does not compute on the type, and says so.
    Refused,
    Wrong(String),
}

pub(crate) fn run(args: &SelfTestArgs, out: &mut dyn Write) -> Result<Outcome> {
    let names = match args.device.as_slice() {
        [] => Device::list().into_iter().map(|info| info.id).collect::<Vec<_>>(),
        some => some.to_vec(),
    };
    // One that is not there is told before the others take their time.
    let devices: Vec<Device> = names.iter().map(|name| device::open(name)).collect::<Result<_>>()?;
    let system = format!("{} {}", std::env::consts::OS, std::env::consts::ARCH);
    let mut report = Report { version: env!("CARGO_PKG_VERSION"), system, devices: Vec::new() };
    if !args.json {
        writeln!(out, "dala {} on {}", report.version, report.system)?;
    }
    for device in &devices {
        let found = test(device)?;
        if !args.json {
            print(&found, out)?;
            // The next device takes a while.
            out.flush()?;
        }
        report.devices.push(found);
    }
    if args.json {
        output::json(out, &report)?;
    }
    let wrong: Vec<&str> =
        report.devices.iter().filter(|device| device.wrong > 0).map(|device| device.backend).collect();
    Ok(match (devices.is_empty(), wrong.is_empty()) {
        (true, _) => Outcome::Negative("this build finds no device on this machine".to_owned()),
        (_, true) => Outcome::Success,
        _ => Outcome::Negative(format!("{} does not compute what plain Rust does", wrong.join(", "))),
    })
}

fn test(device: &Device) -> Result<DeviceReport> {
    let (info, start) = (device.info(), Instant::now());
    let mut report = DeviceReport {
        backend: info.backend.name(),
        name: info.name.clone(),
        driver: info.driver.clone(),
        seconds: 0.0,
        right: 0,
        wrong: 0,
        refused: 0,
        kernels: Vec::new(),
    };
    for kernel in device.kernels() {
        let mut own =
            KernelReport { name: kernel.spec.name.clone(), right: Vec::new(), refused: Vec::new(), wrong: Vec::new() };
        for dtype in DType::ALL {
            match check(device, &kernel, dtype) {
                None => {}
                Some(Ended::Right) => own.right.push(dtype),
                Some(Ended::Refused) => own.refused.push(dtype),
                Some(Ended::Wrong(what)) => own.wrong.push(Wrong { dtype, what }),
            }
        }
        report.right += own.right.len();
        report.refused += own.refused.len();
        report.wrong += own.wrong.len();
        report.kernels.push(own);
    }
    report.seconds = start.elapsed().as_secs_f64();
    Ok(report)
}

/// A small call on the device and in plain Rust; none if the kernel does not take the type.
fn check(device: &Device, kernel: &Kernel, dtype: DType) -> Option<Ended> {
    let (types, output, params) = table::example(kernel, dtype)?;
    let name = &kernel.spec.name;
    let signature = match dala_spec::validate(&kernel.spec, &types, &output, &params) {
        Ok(signature) => signature,
        Err(problems) => return Some(Ended::Wrong(problems.first().map(ToString::to_string).unwrap_or_default())),
    };
    let inputs: Vec<Data> = types.iter().enumerate().map(|(seed, ty)| elements(ty, seed)).collect();
    let on_device = || -> Result<Data, dala_compute::Error> {
        let upload =
            |(data, ty): (&Data, &TensorType)| Buffer::from_bytes(device, &data.to_bytes(), ty.dtype, ty.shape.clone());
        let buffers: Vec<Buffer> = inputs.iter().zip(&types).map(upload).collect::<Result<_, _>>()?;
        // Whatever the kernel leaves out must not look right by chance.
        let bytes = vec![0xa5; output.shape.len() * output.dtype.size()];
        let target = Buffer::from_bytes(device, &bytes, output.dtype, output.shape.clone())?;
        device.run(name, &buffers.iter().collect::<Vec<_>>(), &target, &params)?;
        target.read_data()
    };
    let supported = device.support(name, dtype).unwrap_or(Support::Refused) != Support::Refused;
    Some(match (on_device(), kernel.on_host(&signature, &inputs)) {
        (Err(error), _) if error.code() == "unsupported" && !supported => Ended::Refused,
        (Err(error), _) => Ended::Wrong(error.to_string()),
        (Ok(_), Err(error)) => Ended::Wrong(error.to_string()),
        (Ok(_), Ok(None)) => Ended::Wrong("it has no reference to compare with".to_owned()),
        (Ok(actual), Ok(Some(expected))) => match difference(kernel, &expected, &actual) {
            None => Ended::Right,
            Some(what) => Ended::Wrong(what),
        },
    })
}

/// Few digits, so that sums are exact whatever their order; floats as in pictures, from 0 to 1.
fn elements(ty: &TensorType, seed: usize) -> Data {
    let value = |index: usize| {
        let step = (index * 7 + index / 5 + seed * 3) % 16;
        Scalar::from_f64(ty.dtype, if ty.dtype.is_float() { step as f64 / 16.0 } else { step as f64 })
    };
    Data::collect(ty.dtype, (0..ty.shape.len()).map(value).collect::<Vec<_>>())
}

/// The first element that is not as it should be.
fn difference(kernel: &Kernel, expected: &Data, actual: &Data) -> Option<String> {
    let mut pairs = expected.iter().zip(actual.iter()).enumerate();
    let off = |(expected, actual)| !kernel.spec.tolerance.accepts(expected, actual);
    let (index, (expected, actual)) = pairs.find(|(_, pair)| off(*pair))?;
    Some(format!("element {index} is {actual}, and should be {expected}"))
}

fn print(device: &DeviceReport, out: &mut dyn Write) -> Result<()> {
    let driver = device.driver.as_deref().unwrap_or("unknown");
    writeln!(out, "{} ({}, driver {driver})", device.backend, device.name)?;
    let DeviceReport { right, wrong, refused, seconds, kernels, .. } = device;
    let all = kernels.len();
    writeln!(
        out,
        "  {all} kernels, {right} calls right, {wrong} wrong, {refused} refused by element type, {seconds:.1} s"
    )?;
    for kernel in kernels {
        for Wrong { dtype, what } in &kernel.wrong {
            writeln!(out, "  wrong: {} on {dtype}: {what}", kernel.name)?;
        }
    }
    let mut lists: Vec<(String, Vec<&str>)> = Vec::new();
    for kernel in kernels.iter().filter(|kernel| !kernel.refused.is_empty()) {
        let types = kernel.refused.iter().map(|dtype| dtype.name()).collect::<Vec<_>>().join(", ");
        match lists.iter_mut().find(|(own, _)| *own == types) {
            Some((_, names)) => names.push(&kernel.name),
            None => lists.push((types, vec![&kernel.name])),
        }
    }
    for (types, names) in lists {
        writeln!(out, "  refused on {types}: {}", names.join(", "))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_off_by_what_the_kernel_says() {
        let registry = dala_kernels::Registry::built_in();
        let found = |name: &str, off: u8| {
            let kernel = registry.get(name).unwrap();
            difference(kernel, &Data::U8(vec![7, 100]), &Data::U8(vec![7, 100 + off])).is_some()
        };
        let cases = [("flip", 0), ("flip", 1), ("blur", 1), ("blur", 2)];
        assert_eq!(cases.map(|(name, off)| found(name, off)), [false, true, false, true]);
    }
}
