//! Everything that can go wrong: a typed error each time, nothing launched, the device usable afterwards.

use dala_compute::{Buffer, DType, Definition, Device, DeviceOptions, Error, ParamKind, Params, param};

use crate::support::{devices, filled_with_rubbish};

/// The device still computes.
fn expect_usable(device: &Device) {
    let x = Buffer::from_slice(device, &[1.0f32, 2.0], [2]).unwrap();
    device.run("scalar_mul", &[&x], &x, [("scalar", 3.0)]).unwrap();
    assert_eq!(x.read::<f32>().unwrap(), [3.0, 6.0]);
}

/// The call fails with `code`, launches nothing, and leaves its output as it was.
fn expect_refused(
    device: &Device,
    code: &str,
    kernel: &str,
    inputs: &[&Buffer],
    output: &Buffer,
    params: Params,
) -> Error {
    let (before, launches) = (output.read_bytes().ok(), device.stats().launches);
    let error = device.run(kernel, inputs, output, params).expect_err(kernel);
    assert_eq!(error.code(), code, "{kernel}: {error}");
    assert_eq!(device.stats().launches, launches, "{kernel} was launched");
    assert_eq!(output.read_bytes().ok(), before, "{kernel} changed its output");
    expect_usable(device);
    error
}

#[test]
fn calls_that_do_not_fit() {
    for device in devices() {
        let f = |shape: &[usize]| filled_with_rubbish(&device, DType::F32, shape);
        let (x, y, short, ints) = (f(&[4]), f(&[4]), f(&[3]), filled_with_rubbish(&device, DType::S32, [4]));
        let none = Params::new;
        let error = expect_refused(&device, "unknown_kernel", "rleu", &[&x], &y, none());
        assert_eq!(error.to_string(), "no kernel is called `rleu`, did you mean `relu`?");
        expect_refused(&device, "arity", "relu", &[&x, &x], &y, none());
        expect_refused(&device, "arity", "elementwise_add", &[&x], &y, none());
        let error = expect_refused(&device, "shape_mismatch", "elementwise_add", &[&x, &short], &y, none());
        assert_eq!(
            error.to_string(),
            "input `b` of kernel `elementwise_add` must have shape that broadcasts with {4}, found {3}"
        );
        expect_refused(&device, "shape_mismatch", "relu", &[&x], &f(&[2, 2]), none());
        expect_refused(&device, "dtype_mismatch", "elementwise_add", &[&x, &ints], &y, none());
        expect_refused(&device, "dtype_mismatch", "relu", &[&x], &ints, none());
        let error = expect_refused(&device, "dtype_mismatch", "sigmoid", &[&ints], &ints, none());
        assert_eq!(error.to_string(), "input `x` of kernel `sigmoid` must be f32, f64, f16 or bf16, found s32");
        expect_refused(&device, "rank_mismatch", "generate_gradient", &[], &f(&[4]), none());
        expect_refused(&device, "shape_mismatch", "generate_gradient", &[], &f(&[2, 2, 5]), none());
        let error = expect_refused(&device, "unknown_param", "relu", &[&x], &y, none().with("slop", 1));
        assert_eq!(error.to_string(), "kernel `relu` has no param `slop`, did you mean `slope`?");
        expect_refused(&device, "missing_param", "scalar_mul", &[&x], &y, none());
        expect_refused(&device, "param_type", "scalar_mul", &[&x], &y, none().with("scalar", "two"));
        let big = none().with("scalar", 3_000_000_000i64);
        expect_refused(&device, "param_out_of_range", "scalar_mul", &[&ints], &ints, big);

        // A size that is said must be the output's.
        let (image, small) = (f(&[9, 7, 3]), f(&[4, 6, 3]));
        let size = |size: Vec<i64>| none().with("size", size);
        device.run("preprocess", &[&image], &small, size(vec![4, 6])).unwrap();
        let error = expect_refused(&device, "shape_mismatch", "preprocess", &[&image], &small, size(vec![6, 4]));
        assert!(error.to_string().contains("{1, 3, 6, 4} or {6, 4, 3}, found {4, 6, 3}"), "{error}");
        expect_refused(&device, "param_out_of_range", "preprocess", &[&image], &small, size(vec![4]));
        expect_refused(&device, "param_out_of_range", "preprocess", &[&image], &small, size(vec![-4, 6]));
    }
}

/// A whole number that does not fit is refused also when the plan for such numbers is known already.
#[test]
fn values_are_checked_at_every_call() {
    for device in devices() {
        let ints = Buffer::from_slice(&device, &[1i32, 2], [2]).unwrap();
        device.run("scalar_mul", &[&ints], &ints, [("scalar", 2)]).unwrap();
        let big = Params::new().with("scalar", 3_000_000_000i64);
        expect_refused(&device, "param_out_of_range", "scalar_mul", &[&ints], &ints, big);
        assert_eq!(ints.read::<i32>().unwrap(), [2, 4]);
    }
}

#[test]
fn foreign_and_freed_buffers() {
    let all = devices();
    for (index, device) in all.iter().enumerate() {
        let (x, y) = (filled_with_rubbish(device, DType::F32, [4]), filled_with_rubbish(device, DType::F32, [4]));
        // Another kind of device if there is one, and another device of the same kind.
        let twin = Device::open(device.info().backend.name()).unwrap();
        let other = all.iter().cycle().nth(index + 1).filter(|_| all.len() > 1);
        for other in other.into_iter().chain([&twin]) {
            let foreign = filled_with_rubbish(other, DType::F32, [4]);
            expect_refused(device, "foreign_buffer", "relu", &[&foreign], &y, Params::new());
            expect_refused(device, "foreign_buffer", "relu", &[&x], &foreign, Params::new());
            assert_eq!(x.copy_to(&foreign).unwrap_err().code(), "foreign_buffer");
        }
        let clone = x.clone();
        x.free();
        x.free();
        assert_eq!(clone.read_bytes().unwrap_err(), Error::Freed { buffer: x.id() });
        assert_eq!(clone.write(&[0.0f32; 4]).unwrap_err().code(), "freed");
        assert_eq!(clone.copy_to(&y).unwrap_err().code(), "freed");
        expect_refused(device, "freed", "relu", &[&clone], &y, Params::new());
        expect_refused(device, "freed", "relu", &[&y], &clone, Params::new());
    }
}

#[test]
fn too_much_memory() {
    for device in devices() {
        let limit = device.info().limits.max_buffer_bytes as usize;
        let live = device.memory().unwrap().live;
        if let Some(elements) = (limit / 4).checked_add(512) {
            let error = Buffer::zeros(&device, DType::F32, [elements]).unwrap_err();
            // On the CPU runtime the budget is below the largest buffer.
            assert!(["buffer_too_large", "out_of_memory"].contains(&error.code()), "{error}");
        }
        let error = Buffer::zeros(&device, DType::F64, [usize::MAX / 2, 3]).unwrap_err();
        assert_eq!(error.code(), "shape_too_large");
        let error = Buffer::zeros(&device, DType::U8, [1 << 50]).unwrap_err();
        assert!(["buffer_too_large", "out_of_memory"].contains(&error.code()), "{error}");
        assert_eq!(device.memory().unwrap().live, live, "a failed allocation counts");
        expect_usable(&device);
    }
}

#[test]
fn the_sum_of_allocations_is_bounded() {
    for name in crate::support::device_names() {
        let device = Device::open_with(&name, DeviceOptions::new().memory_budget(10 << 20)).unwrap();
        let mut held: Vec<Buffer> = (0..10).map(|_| Buffer::zeros(&device, DType::U8, [1 << 20]).unwrap()).collect();
        let error = Buffer::zeros(&device, DType::U8, [1 << 20]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "out of memory: 1048576 bytes wanted, 10485760 of 10485760 bytes are in use",
            "{name}"
        );
        assert_eq!(error.code(), "out_of_memory");
        held.pop();
        Buffer::zeros(&device, DType::U8, [1 << 20]).unwrap();
        device.set_memory_budget(0);
        assert_eq!(Buffer::zeros(&device, DType::U8, [1]).unwrap_err().code(), "out_of_memory");
        device.set_memory_budget(20 << 20);
        expect_usable(&device);
    }
}

#[test]
fn more_buffers_than_the_device_binds() {
    for device in devices() {
        let max = device.info().limits.max_bindings;
        let count = max.min(60);
        let names: Vec<String> = (0..count).map(|i| format!("x{i}")).collect();
        // As many inputs as fit beside the output.
        let fitting = &names[..(max - 1).min(59)];
        device.define("sum_all", &fitting.join(" + "), Definition::inputs(fitting)).unwrap();
        let ones = Buffer::from_slice(&device, &[1.0f32; 5], [5]).unwrap();
        let out = filled_with_rubbish(&device, DType::F32, [5]);
        device.run("sum_all", &vec![&ones; fitting.len()], &out, ()).unwrap();
        assert_eq!(out.read::<f32>().unwrap(), [fitting.len() as f32; 5]);
        if count == max {
            device.define("too_many", &names.join(" + "), Definition::inputs(&names)).unwrap();
            let error = expect_refused(&device, "unsupported", "too_many", &vec![&ones; count], &out, Params::new());
            assert!(error.to_string().contains(&format!("binds at most {max}")), "{error}");
        } else {
            println!("{device:?} binds {max} buffers: more than anyone writes out, not tried");
        }
    }
}

#[test]
fn definitions_that_do_not_work() {
    for device in devices() {
        let gain = || param("gain", ParamKind::Float).default(1.0);
        let define = |name: &str, text: &str| device.define(name, text, Definition::inputs(["x"]).param(gain()));
        let error = define("brighten", "clamp(x * gian, 0, 1)").unwrap_err();
        assert_eq!(error.code(), "bad_expression");
        assert!(error.to_string().ends_with("  clamp(x * gian, 0, 1)\n            ^^^^"), "{error}");
        assert_eq!(define("relu", "x").unwrap_err().code(), "duplicate_kernel");
        assert_eq!(define("No good", "x").unwrap_err().code(), "bad_name");
        // Types are known only at the call.
        define("bad_types", "x && gain > 0").unwrap();
        let x = filled_with_rubbish(&device, DType::F32, [2]);
        let error = expect_refused(&device, "bad_expression", "bad_types", &[&x], &x, Params::new());
        assert!(error.to_string().contains("a number where a condition is needed"), "{error}");
        define("brighten", "clamp(x * gain, 0, 1)").unwrap();
        assert_eq!(define("brighten", "x").unwrap_err().code(), "duplicate_kernel");
        assert!(device.kernels().iter().any(|kernel| kernel.spec.name == "brighten"));
        expect_usable(&device);
    }
}

/// Division by zero and other traps that kill processes elsewhere.
#[test]
fn no_value_kills_the_process() {
    for device in devices() {
        let a = Buffer::from_slice(&device, &[7i32, -7, i32::MIN, 0, i32::MIN], [5]).unwrap();
        let b = Buffer::from_slice(&device, &[0i32, 0, -1, 0, 0], [5]).unwrap();
        let out = filled_with_rubbish(&device, DType::S32, [5]);
        device.run("elementwise_div", &[&a, &b], &out, ()).unwrap();
        assert_eq!(out.read::<i32>().unwrap(), [0, 0, i32::MIN, 0, 0]);
        device.define("by_zero", "x / 0.0", Definition::inputs(["x"])).unwrap();
        let x = Buffer::from_slice(&device, &[1.0f32, -1.0, 0.0], [3]).unwrap();
        device.run("by_zero", &[&x], &x, ()).unwrap();
        let result = x.read::<f32>().unwrap();
        assert_eq!(result[..2], [f32::INFINITY, f32::NEG_INFINITY]);
        assert!(result[2].is_nan());
    }
}
