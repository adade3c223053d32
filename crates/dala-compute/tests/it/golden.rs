//! Every kernel whose calls cannot be made up from its spec, against results of other people's libraries.
//!
//! The files in `tests/golden/` are made by `make_golden.py` there with NumPy, SciPy, OpenCV, Pillow and ONNX Runtime.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use dala_compute::{DType, Data, Device, ParamValue, Params, Support, TensorType};
use dala_kernels::{Kernel, Reference};
use dala_spec::validate;
use safetensors::{Dtype, SafeTensors};

use crate::support::{device_names, filled_with_rubbish, upload};

#[derive(serde::Deserialize)]
struct Index {
    cases: Vec<Case>,
}

#[derive(serde::Deserialize)]
struct Case {
    name: String,
    inputs: usize,
    params: BTreeMap<String, ParamValue>,
    /// How far integers may be away.
    levels: Option<i64>,
    /// How far floats may be away.
    absolute: Option<f64>,
    relative: Option<f64>,
}

struct Tensor {
    ty: TensorType,
    data: Data,
}

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden"))
}

fn dtype(dtype: Dtype) -> DType {
    match dtype {
        Dtype::F32 => DType::F32,
        Dtype::F64 => DType::F64,
        Dtype::I32 => DType::S32,
        Dtype::I64 => DType::S64,
        Dtype::U32 => DType::U32,
        Dtype::U8 => DType::U8,
        other => panic!("{other:?} in a golden file"),
    }
}

/// The golden cases of a kernel; none if it has no file.
fn cases(kernel: &str) -> Option<Vec<(Case, Vec<Tensor>, Tensor)>> {
    let bytes = std::fs::read(folder().join(format!("{kernel}.safetensors"))).ok()?;
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
    let index: Index = serde_json::from_str(&header.metadata().as_ref().unwrap()["golden"]).unwrap();
    let tensor = |name: String| {
        let view = file.tensor(&name).unwrap_or_else(|error| panic!("{name}: {error}"));
        let ty = TensorType::new(dtype(view.dtype()), view.shape());
        Tensor { data: Data::from_bytes(ty.dtype, view.data()), ty }
    };
    let load = |case: Case| {
        let inputs = (0..case.inputs).map(|number| tensor(format!("{}/in{number}", case.name))).collect();
        let output = tensor(format!("{}/out", case.name));
        (case, inputs, output)
    };
    Some(index.cases.into_iter().map(load).collect())
}

impl Case {
    /// How far an element is away, in units of what is allowed.
    fn distance(&self, levels: u8, expected: f64, actual: f64, float: bool) -> f64 {
        if expected == actual || expected.is_nan() && actual.is_nan() {
            return 0.0;
        }
        let allowed = match float {
            true => self.absolute.unwrap() + self.relative.unwrap_or(0.0) * expected.abs(),
            // As close as the file says, and never further than the kernel does.
            false => self.levels.unwrap().min(levels.into()) as f64,
        };
        let distance = (expected - actual).abs() / allowed;
        if distance.is_nan() { f64::INFINITY } else { distance }
    }

    /// Compares, and gives the largest distance in units of what is allowed.
    fn compare(&self, what: &str, levels: u8, expected: &Data, actual: &Data) -> f64 {
        assert_eq!(expected.len(), actual.len(), "{what}");
        let mut worst = 0.0;
        for (index, (expected, actual)) in expected.iter().zip(actual.iter()).enumerate() {
            let distance = self.distance(levels, expected.as_f64(), actual.as_f64(), expected.dtype().is_float());
            assert!(distance <= 1.0, "{what}: element {index} is {actual}, the golden file says {expected}");
            worst = f64::max(worst, distance);
        }
        worst
    }
}

fn params(case: &Case) -> Params {
    case.params.iter().fold(Params::new(), |params, (name, value)| params.with(name.clone(), value.clone()))
}

/// Runs a case and compares; none if the device refuses the case's element types.
fn check_case(device: &Device, kernel: &Kernel, case: &Case, inputs: &[Tensor], output: &Tensor) -> Option<f64> {
    let what = format!("{} {} {}", device.info().backend, kernel.spec.name, case.name);
    let buffers: Vec<_> = inputs.iter().map(|input| upload(device, &input.data, input.ty.shape.clone())).collect();
    let target = filled_with_rubbish(device, output.ty.dtype, output.ty.shape.clone());
    let before = device.stats();
    let result = device.run(&kernel.spec.name, &buffers.iter().collect::<Vec<_>>(), &target, params(case));
    let after = device.stats();
    match result {
        Err(error) if error.code() == "unsupported" => {
            // Only what the table of element types says.
            let support = device.support(&kernel.spec.name, inputs[0].ty.dtype).unwrap();
            let refuses = |dtype| device.info().dtypes.contains(&(dtype, Support::Refused));
            assert!(support == Support::Refused || refuses(output.ty.dtype), "{what}: {error}");
            assert_eq!(after.launches, before.launches, "{what}: refused after a launch");
            return None;
        }
        Err(error) => panic!("{what}: {error}"),
        Ok(()) => {}
    }
    assert_eq!(after.launches > before.launches, !output.data.is_empty(), "{what}: launches");
    Some(case.compare(&what, kernel.spec.tolerance.levels, &output.data, &target.read_data().unwrap()))
}

fn check_device(name: &str) {
    let device = Device::open(name).unwrap();
    let only = std::env::var("DALA_GOLDEN").unwrap_or_default();
    let mut failures = Vec::new();
    let (mut compared, mut refused) = (0, Vec::new());
    for kernel in device.kernels() {
        if !only.is_empty() && kernel.spec.name != only {
            continue;
        }
        let Some(cases) = cases(&kernel.spec.name) else { continue };
        let mut worst = (0.0, String::new());
        let (start, built) = (Instant::now(), device.stats().compilations);
        for (case, inputs, output) in &cases {
            let run = || check_case(&device, &kernel, case, inputs, output);
            match std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
                Ok(None) => {
                    refused.push(format!("{} {}", kernel.spec.name, case.name));
                    continue;
                }
                Ok(Some(distance)) if distance > worst.0 => worst = (distance, case.name.clone()),
                Ok(_) => {}
                Err(panic) => failures.push(panic.downcast_ref::<String>().cloned().unwrap_or_default()),
            }
            compared += 1;
        }
        println!(
            "golden on {name}: {} {} cases, at most {:.2} of what is allowed ({}), {} kernels built, {:.1?}",
            kernel.spec.name,
            cases.len(),
            worst.0,
            worst.1,
            device.stats().compilations - built,
            start.elapsed()
        );
    }
    let stats = device.stats();
    println!("golden on {name}: {compared} cases compared, {} launches; refused by type: {refused:?}", stats.launches);
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    assert!(!only.is_empty() || compared >= 500, "{name}: only {compared} cases");
}

#[test]
fn golden_cases_on_every_device() {
    for name in device_names() {
        check_device(&name);
    }
}

/// The plain Rust references agree with the golden files too: they are what other sizes are checked against.
#[test]
fn references_agree_with_golden_cases() {
    let mut failures = Vec::new();
    for kernel in dala_kernels::list::built_in() {
        for (case, inputs, output) in cases(&kernel.spec.name).unwrap_or_default() {
            let what = format!("the reference of {} {}", kernel.spec.name, case.name);
            let types: Vec<TensorType> = inputs.iter().map(|input| input.ty.clone()).collect();
            let signature = validate(&kernel.spec, &types, &output.ty, &params(&case))
                .unwrap_or_else(|problems| panic!("{what}: {problems:?}"));
            let data: Vec<Data> = inputs.into_iter().map(|input| input.data).collect();
            let actual = kernel.reference.as_ref().unwrap()(&Reference { inputs: &data, signature: &signature });
            let compare = || case.compare(&what, kernel.spec.tolerance.levels, &output.data, &actual);
            if let Err(panic) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(compare)) {
                failures.push(panic.downcast_ref::<String>().cloned().unwrap_or_default());
            }
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

/// A kernel whose calls cannot be made up from its spec has golden cases, and no file is left over.
#[test]
fn every_kernel_has_cases() {
    let kernels = dala_kernels::list::built_in();
    for kernel in kernels.iter().filter(|kernel| kernel.example.is_some()) {
        let cases = cases(&kernel.spec.name).unwrap_or_default();
        assert!(cases.len() >= 8, "{} has {} golden cases", kernel.spec.name, cases.len());
    }
    for entry in std::fs::read_dir(folder()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        // That one is for single functions.
        if let Some(kernel) = name.strip_suffix(".safetensors").filter(|kernel| *kernel != "functions") {
            assert!(kernels.iter().any(|own| own.spec.name == kernel), "{name} belongs to no kernel");
        }
    }
}

#[test]
fn only_what_computes_in_floats_may_be_a_level_off() {
    let mut off: Vec<(String, u8)> = dala_kernels::list::built_in()
        .into_iter()
        .map(|kernel| (kernel.spec.name.clone(), kernel.spec.tolerance.levels))
        .filter(|(_, levels)| *levels > 0)
        .collect();
    off.sort();
    let expected = [
        "blur",
        "box_blur",
        "brightness_contrast",
        "generate_gradient",
        "grayscale",
        "lut",
        "overlay_alpha",
        "resize",
        "sharpen",
        "sobel",
    ];
    assert_eq!(off, expected.map(|name| (name.to_owned(), 1)));
}
