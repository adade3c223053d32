//! Every kernel on every element type on every device, against its plain Rust reference.

use std::collections::BTreeMap;

use dala_compute::{Buffer, DType, Data, Definition, Device, Params, Scalar, Support, TensorType};
use dala_kernels::{Kernel, Reference};
use dala_spec::{InputSpec, OutputDType, OutputShape, Signature, validate};

use crate::support::{device_names, elements, filled_with_rubbish, obtained, property_cases, upload};
use crate::table::committed;

const LENGTHS: [usize; 9] = [0, 1, 3, 7, 64, 65, 1000, 65_537, 1_000_003];

/// Long ones are about how work is spread, which three types show as well as twelve; the longest takes the reference longer than
/// all others together, so that one type shows it, except in a long run.
fn lengths(dtype: DType, output: DType) -> &'static [usize] {
    let shows = |dtype| matches!(dtype, DType::F32 | DType::U8 | DType::F16);
    match (dtype, output) {
        (DType::F32, DType::F32) => &LENGTHS,
        _ if shows(dtype) && shows(output) => &LENGTHS[..if property_cases() > 150 { 9 } else { 8 }],
        _ => &LENGTHS[..7],
    }
}

/// Params that take every path of a kernel.
fn param_sets(kernel: &str, dtype: DType) -> Vec<Params> {
    let one = |name: &str, values: &[f64]| values.iter().map(|value| Params::new().with(name, *value)).collect();
    let unsigned = matches!(dtype, DType::U32 | DType::U64);
    match kernel {
        "scalar_mul" if unsigned => one("scalar", &[2.0, 2.5]),
        "scalar_mul" | "scalar_add" => one("scalar", if unsigned { &[3.0, 0.5] } else { &[2.0, -3.0, 2.5] }),
        "relu" => one("slope", if unsigned { &[0.0, 0.5] } else { &[0.0, 0.1, -2.0] }),
        "fill" => one("value", if unsigned { &[0.0, 7.0, 2.5] } else { &[0.0, -7.0, 2.5] }),
        "clamp" => vec![
            Params::new(),
            Params::new().with("min", 3).with("max", 100),
            Params::new().with("min", 0.5).with("max", 50.5),
        ],
        "elementwise_add" | "elementwise_sub" | "elementwise_mul" if dtype.size() < 4 => {
            vec![Params::new(), Params::new().with("overflow", "wrap")]
        }
        _ => vec![Params::new()],
    }
}

/// The params of a cast: all ways to overflow in a long run, otherwise the usual one and, in turn, one of the others.
fn casts(from: DType, to: DType) -> Vec<Params> {
    let others: &[&str] = match (property_cases() > 150, (from as usize + to as usize) % 3) {
        (true, _) => &["usual", "wrap", "saturate"],
        (false, 0) => &["usual", "wrap"],
        (false, 1) => &["usual", "saturate"],
        _ => &["usual"],
    };
    others.iter().map(|overflow| Params::new().with("overflow", *overflow)).collect()
}

/// Shapes of about that many elements that the kernel's output may have.
fn shapes(kernel: &Kernel, len: usize) -> Vec<Vec<usize>> {
    match kernel.spec.output.shape {
        OutputShape::Image if len == 0 => vec![vec![0, 5, 4], vec![3, 0]],
        OutputShape::Image => {
            let height = (len as f64).sqrt() as usize;
            let width = len / height;
            vec![vec![height, width], vec![height, width.div_ceil(3), 3], vec![height, width.div_ceil(4), 4]]
        }
        _ => vec![vec![len]],
    }
}

fn outputs(kernel: &Kernel, dtype: DType) -> Vec<DType> {
    match kernel.spec.output.dtype {
        OutputDType::OneOf(dtypes) if !kernel.spec.inputs.is_empty() => dtypes.to_vec(),
        _ => vec![dtype],
    }
}

fn expect_equal(what: &str, kernel: &Kernel, expected: &Data, actual: &Data) {
    assert_eq!(expected.len(), actual.len(), "{what}");
    if expected.dtype() == actual.dtype() && expected.as_bytes() == actual.as_bytes() {
        return;
    }
    for (index, (expected, actual)) in expected.iter().zip(actual.iter()).enumerate() {
        let close = kernel.spec.tolerance.accepts(expected, actual);
        assert!(close, "{what}: element {index} is {actual}, and the reference says {expected}");
    }
}

/// Values for which a function says how accurate it is.
fn in_domain(kernel: &str, data: Data) -> Data {
    let limit = match kernel {
        "sin" | "cos" | "tan" => 10_000.0,
        "remainder" | "modulo" => 100.0,
        _ => return data,
    };
    let dtype = data.dtype();
    let kept = |value: Scalar| match value.as_f64() {
        x if dtype.is_float() && x.is_finite() && x.abs() > limit => Scalar::from_f64(dtype, x % limit),
        _ => value,
    };
    Data::collect(dtype, data.iter().map(kept))
}

/// Runs one call on a device and its reference, and compares. Returns whether the device ran it.
fn check_call(device: &Device, kernel: &Kernel, dtype: DType, output: DType, shape: &[usize], params: &Params) -> bool {
    let name = &kernel.spec.name;
    let what = format!("{} {name} {dtype} -> {output} {shape:?} {params:?}", device.info().backend);
    let len: usize = shape.iter().product();
    let input = |(number, input): (usize, &InputSpec)| {
        let own = if input.dtypes.contains(&dtype) { dtype } else { input.dtypes[0] };
        in_domain(name, elements(own, len, len as u64 + number as u64))
    };
    let inputs: Vec<Data> = kernel.spec.inputs.iter().enumerate().map(input).collect();
    let types: Vec<TensorType> = inputs.iter().map(|data| TensorType::new(data.dtype(), shape)).collect();
    let signature: Signature = validate(&kernel.spec, &types, &TensorType::new(output, shape), params).unwrap();
    let buffers: Vec<_> = inputs.iter().map(|data| upload(device, data, shape)).collect();
    let target = filled_with_rubbish(device, output, shape);
    let before = device.stats();
    let result = device.run(name, &buffers.iter().collect::<Vec<_>>(), &target, params);
    let after = device.stats();
    if let Err(error) = result {
        assert_eq!(error.code(), "unsupported", "{what}: {error}");
        assert_eq!(before.launches, after.launches, "{what}: refused after a launch");
        let text = error.to_string();
        assert!(text.contains(device.info().backend.name()) && text.contains("f32"), "{what}: {text}");
        return false;
    }
    assert_eq!(after.launches - before.launches, u64::from(len > 0), "{what}: launches");
    let expected = kernel.reference.as_ref().unwrap()(&Reference { inputs: &inputs, signature: &signature });
    expect_equal(&what, kernel, &expected, &target.read_data().unwrap());
    true
}

/// Every cell of the table, on one device. A refused cell must be refused, every other must give the right result.
fn check_device(name: &str) {
    let device = Device::open(name).unwrap();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut calls = 0;
    for cell in committed().iter().filter(|cell| cell.device == name) {
        let kernel = device.kernels().into_iter().find(|kernel| kernel.spec.name == cell.kernel).unwrap();
        *counts.entry(cell.support.name()).or_default() += 1;
        assert_eq!(device.support(&cell.kernel, cell.dtype).unwrap(), cell.support, "{name} {}", cell.kernel);
        if kernel.example.is_some() {
            calls += usize::from(check_example(&device, &kernel, cell.dtype, cell.support));
            continue;
        }
        let first = usize::from(kernel.spec.output.dtype == OutputDType::Rest);
        let takes = kernel.spec.inputs[first..].iter().all(|input| input.dtypes.contains(&cell.dtype));
        if cell.support == Support::Refused && !takes {
            refused_by_type(&device, &kernel, cell.dtype);
            continue;
        }
        for output in outputs(&kernel, cell.dtype) {
            let allowed = match kernel.spec.output.dtype {
                OutputDType::OneOf(dtypes) => dtypes.contains(&output),
                OutputDType::Inputs | OutputDType::First | OutputDType::Rest => true,
            };
            if !allowed {
                assert_eq!(cell.support, Support::Refused);
                continue;
            }
            for &len in lengths(cell.dtype, output) {
                for shape in shapes(&kernel, len) {
                    let sets = match cell.kernel.as_str() {
                        "cast" => casts(cell.dtype, output),
                        kernel => param_sets(kernel, cell.dtype),
                    };
                    for params in sets {
                        let ran = check_call(&device, &kernel, cell.dtype, output, &shape, &params);
                        // A cast to the same type is a copy, and copies move words on every device.
                        let is_copy = kernel.spec.name == "copy" || cell.kernel == "cast" && output == cell.dtype;
                        let refused = |dtype: &DType| device.info().dtypes.contains(&(*dtype, Support::Refused));
                        let computes = cell.support != Support::Refused && ![cell.dtype, output].iter().any(refused);
                        assert_eq!(ran, is_copy || computes, "{name} {} {} -> {output}", cell.kernel, cell.dtype);
                        calls += usize::from(ran);
                    }
                }
            }
        }
    }
    let stats = device.stats();
    println!(
        "conformance on {name}: {counts:?} cells, {calls} calls compared, {} launches, {} kernels built",
        stats.launches, stats.compilations
    );
    assert!(
        counts.values().sum::<usize>() >= dala_kernels::list::built_in().len() * DType::ALL.len(),
        "{name}: the table has {counts:?}"
    );
    assert!(calls >= 1000 && stats.launches >= 1000, "{name} ran too little");
}

/// The small call of a kernel whose shapes cannot be made up. What it computes at length is held against golden files.
fn check_example(device: &Device, kernel: &Kernel, dtype: DType, support: Support) -> bool {
    let name = &kernel.spec.name;
    let Some((types, output, params)) = dala_kernels::table::example(kernel, dtype) else {
        assert_eq!(support, Support::Refused, "{name} does not take {dtype}");
        return false;
    };
    let what = format!("{} {name} {types:?} -> {output:?} {params:?}", device.info().backend);
    let signature =
        validate(&kernel.spec, &types, &output, &params).unwrap_or_else(|problems| panic!("{what}: {problems:?}"));
    let small = |ty: &TensorType, seed: u64| {
        // Few digits, so that sums are exact whatever their order; floats as in pictures, from 0 to 1.
        let values = elements(DType::U8, ty.shape.len(), seed);
        let scale = if ty.dtype.is_float() { 16.0 } else { 1.0 };
        let value = |value: Scalar| Scalar::from_f64(ty.dtype, value.as_f64() % 16.0 / scale);
        Data::collect(ty.dtype, values.iter().map(value))
    };
    let inputs: Vec<Data> = types.iter().enumerate().map(|(index, ty)| small(ty, index as u64)).collect();
    let buffers: Vec<_> = inputs.iter().zip(&types).map(|(data, ty)| upload(device, data, ty.shape.clone())).collect();
    let target = filled_with_rubbish(device, output.dtype, output.shape.clone());
    let before = device.stats().launches;
    let result = device.run(name, &buffers.iter().collect::<Vec<_>>(), &target, &params);
    if support == Support::Refused {
        assert_eq!(result.unwrap_err().code(), "unsupported", "{what}");
        assert_eq!(device.stats().launches, before, "{what}: refused after a launch");
        return false;
    }
    result.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(device.stats().launches > before, "{what}: nothing was launched");
    let expected = kernel.reference.as_ref().unwrap()(&Reference { inputs: &inputs, signature: &signature });
    expect_equal(&what, kernel, &expected, &target.read_data().unwrap());
    true
}

fn refused_by_type(device: &Device, kernel: &Kernel, dtype: DType) {
    let inputs: Vec<_> = kernel.spec.inputs.iter().map(|_| filled_with_rubbish(device, dtype, [3])).collect();
    let output = filled_with_rubbish(device, dtype, [3]);
    let before = device.stats().launches;
    let error = device.run(&kernel.spec.name, &inputs.iter().collect::<Vec<_>>(), &output, ()).unwrap_err();
    assert_eq!(error.code(), "dtype_mismatch", "{}: {error}", kernel.spec.name);
    let known = kernel.spec.inputs.last().map_or("f32", |input| input.dtypes[0].name());
    assert!(error.to_string().contains(known), "{error} does not say what is supported");
    assert_eq!(device.stats().launches, before);
}

#[test]
fn every_cell_of_the_table() {
    for name in device_names() {
        check_device(&name);
    }
}

/// u8 gives the same bytes on every device, packed or not.
#[test]
fn pixels_are_the_same_everywhere() {
    let data = elements(DType::U8, 10_007, 1);
    let results: Vec<Vec<u8>> = device_names()
        .iter()
        .map(|name| {
            let device = Device::open(name).unwrap();
            let (x, out) = (upload(&device, &data, [10_007]), filled_with_rubbish(&device, DType::U8, [10_007]));
            let mut all = Vec::new();
            for (kernel, params) in [
                ("scalar_mul", Params::new().with("scalar", 1.37)),
                ("scalar_add", Params::new().with("scalar", -31.5)),
                ("clamp", Params::new().with("min", 20).with("max", 99.5)),
                ("neg", Params::new()),
            ] {
                device.run(kernel, &[&x], &out, params).unwrap();
                all.extend(out.read::<u8>().unwrap());
            }
            all
        })
        .collect();
    assert!(results.windows(2).all(|pair| pair[0] == pair[1]));
}

/// Elements of 16 bits give the same bits on every device, packed or not: conversions are rounded in one way.
#[test]
fn halves_are_the_same_everywhere() {
    for dtype in [DType::F16, DType::BF16, DType::S16, DType::U16, DType::S8] {
        // Every pattern of bits there is.
        let count = 1 << (8 * dtype.size());
        let bytes: Vec<u8> =
            (0..count as u32).flat_map(|bits| bits.to_le_bytes().into_iter().take(dtype.size())).collect();
        let results: Vec<Vec<u8>> = device_names()
            .iter()
            .map(|name| {
                let device = Device::open(name).unwrap();
                let x = Buffer::from_bytes(&device, &bytes, dtype, [count]).unwrap();
                let out = filled_with_rubbish(&device, dtype, [count]);
                let mut all = Vec::new();
                for scalar in [1.0, 0.37, 1.5] {
                    device.run("scalar_mul", &[&x], &out, [("scalar", scalar)]).unwrap();
                    let found = out.read_data().unwrap();
                    if scalar == 1.0 {
                        let same = |(own, found): (Scalar, Scalar)| own == found || own.as_f64().is_nan();
                        let known = Data::from_bytes(dtype, &bytes);
                        assert!(known.iter().zip(found.iter()).all(same), "{name}: {dtype} times one");
                    }
                    // NaN has many patterns.
                    let plain = found.iter().map(|value| if value.as_f64().is_nan() { 0 } else { value.bits() as u16 });
                    all.extend(plain.flat_map(u16::to_le_bytes));
                }
                all
            })
            .collect();
        assert!(results.windows(2).all(|pair| pair[0] == pair[1]), "{dtype}");
    }
}

/// A pointwise kernel may write over its input, and read one buffer twice.
#[test]
fn in_place() {
    for name in device_names() {
        let device = Device::open(&name).unwrap();
        for len in [1usize, 65, 100_003] {
            let x: Vec<f32> = (0..len).map(|i| i as f32 - 7.0).collect();
            let buffer = upload(&device, &Data::F32(x.clone()), [len]);
            device.run("elementwise_add", &[&buffer, &buffer], &buffer, ()).unwrap();
            let other = upload(&device, &Data::F32(x.clone()), [len]);
            device.run("elementwise_sub", &[&other, &buffer], &buffer, ()).unwrap();
            assert_eq!(buffer.read::<f32>().unwrap(), x.iter().map(|x| x - (x + x)).collect::<Vec<_>>(), "{name}");
        }
    }
}

/// Channels are read before they are overwritten, also where a pixel does not fit a vector.
#[test]
fn channels_in_place() {
    for name in device_names() {
        let device = Device::open(&name).unwrap();
        let swap = "select(channel == 0, x.b, select(channel == 2, x.r, x))";
        device.define("swap_red_and_blue", swap, Definition::inputs(["x"])).unwrap();
        for (shape, dtype) in [([61, 67, 3], DType::U8), ([61, 67, 4], DType::U8), ([33, 101, 3], DType::F32)] {
            let data = elements(dtype, shape.iter().product(), 9).to_bytes();
            let buffer = Buffer::from_bytes(&device, &data, dtype, shape).unwrap();
            device.run("swap_red_and_blue", &[&buffer], &buffer, ()).unwrap();
            let mut expected = data;
            for pixel in expected.chunks_mut(shape[2] * dtype.size()) {
                for byte in 0..dtype.size() {
                    pixel.swap(byte, 2 * dtype.size() + byte);
                }
            }
            assert_eq!(buffer.read_bytes().unwrap(), expected, "{name} {shape:?} {dtype}");
        }
    }
}

/// Devices take powers through a logarithm, which knows neither signs nor zero. No kernel uses `pow`, and random
/// expressions leave it out, so it has its cases here.
#[test]
fn powers() {
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    let cases: [(f32, f32, f32); 14] = [
        (2.0, 3.0, 8.0),
        (-2.0, 3.0, -8.0),
        (-2.0, 2.0, 4.0),
        (-2.0, -1.0, -0.5),
        (-2.0, 0.5, nan),
        (9.0, 0.5, 3.0),
        (0.0, 0.0, 1.0),
        (-3.0, 0.0, 1.0),
        (0.0, 2.0, 0.0),
        (0.0, -1.0, inf),
        (1.0, 77.0, 1.0),
        (-1.0, 77.0, -1.0),
        (10.0, -3.0, 0.001),
        (1.5, 20.5, 4072.591),
    ];
    for name in device_names() {
        let device = Device::open(&name).unwrap();
        device.define("power", "pow(x, y)", Definition::inputs(["x", "y"])).unwrap();
        let x = Buffer::from_slice(&device, &cases.map(|case| case.0), [cases.len()]).unwrap();
        let y = Buffer::from_slice(&device, &cases.map(|case| case.1), [cases.len()]).unwrap();
        let out = filled_with_rubbish(&device, DType::F32, [cases.len()]);
        device.run("power", &[&x, &y], &out, ()).unwrap();
        for ((base, exponent, expected), actual) in cases.into_iter().zip(out.read::<f32>().unwrap()) {
            let close = (expected - actual).abs() <= 1e-5 * expected.abs();
            assert!(
                expected == actual || close || expected.is_nan() && actual.is_nan(),
                "{name}: {base} to the power of {exponent} is {actual}, expected {expected}"
            );
        }
    }
}

/// A new param value or a new length builds no kernel; a fraction on integers does, once.
#[test]
fn values_and_lengths_compile_nothing() {
    for name in device_names() {
        let device = Device::open(&name).unwrap();
        for dtype in [DType::F32, DType::F16, DType::BF16, DType::S8, DType::U16] {
            let run = |len: usize, scalar: f64| {
                let x = upload(&device, &elements(dtype, len, 3), [len]);
                device.run("scalar_mul", &[&x], &x, [("scalar", scalar)]).unwrap();
            };
            run(10, 1.5);
            let built = obtained(&device);
            for (len, scalar) in [(10, 2.5), (11, 2.5), (1_000_000, -3.5), (1, 0.5), (70_000, f64::INFINITY)] {
                run(len, scalar);
            }
            assert_eq!(obtained(&device), built, "{name} {dtype}");
        }
    }
}
