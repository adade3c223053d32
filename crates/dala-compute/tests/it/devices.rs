//! Devices: what they say of themselves, and how they are chosen.

use dala_compute::{Backend, DType, Device, DeviceKind, Support};

use crate::support::device_names;

#[test]
fn devices_tell_the_truth() {
    for name in device_names() {
        let device = Device::open(&name).unwrap();
        let info = device.info();
        println!("{name}: {} ({}), gpu {}, driver {:?}", info.name, info.kind.name(), info.gpu, info.driver);
        assert_eq!(info.backend.name(), name);
        assert!(!info.name.is_empty() && info.limits.max_buffer_bytes > 0 && info.limits.max_bindings >= 8);
        assert_eq!(info.gpu, info.kind.is_gpu());
        if info.name.contains("llvmpipe") {
            assert_eq!(info.kind, DeviceKind::Software);
            assert!(!info.gpu, "a software rasteriser is no GPU");
        }
        assert!(info.dtypes.contains(&(DType::F32, Support::Native)));
        let u8 = if info.backend == Backend::Cpu { Support::Native } else { Support::Packed };
        assert!(info.dtypes.contains(&(DType::U8, u8)));
        if info.backend == Backend::Gl {
            assert!(info.dtypes.contains(&(DType::F64, Support::Refused)));
        }
    }
}

#[test]
fn the_list_is_sorted_by_preference() {
    let list = Device::list();
    let names: Vec<&str> = list.iter().map(|info| info.backend.name()).collect();
    for name in device_names() {
        assert!(names.contains(&name.as_str()), "{name} is not in {names:?}");
    }
    let place = |wanted: fn(DeviceKind) -> bool| list.iter().position(|info| wanted(info.kind));
    let (gpu, cpu) = (place(DeviceKind::is_gpu), place(|kind| kind == DeviceKind::Cpu));
    let software = place(|kind| kind == DeviceKind::Software);
    let places: Vec<usize> = [gpu, cpu, software].into_iter().flatten().collect();
    assert!(places.is_sorted(), "{names:?}");
}

#[test]
fn unknown_and_unbuilt_devices_are_errors() {
    assert_eq!(Device::open("gpu").unwrap_err().code(), "unknown_device");
    if !Backend::Cuda.is_built() {
        let error = Device::open("cuda").unwrap_err();
        assert_eq!(error.code(), "device_unavailable");
        assert!(error.to_string().contains("build with the `cuda` feature"), "{error}");
    }
}

/// `auto` in a process of its own, because the environment belongs to the process.
#[test]
fn the_environment_overrides_auto() {
    if let Ok(expected) = std::env::var("DALA_TEST_EXPECTED") {
        assert_eq!(Device::open("auto").unwrap().info().backend.name(), expected);
        return;
    }
    let run = |variable: Option<&str>, expected: &str| {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "devices::the_environment_overrides_auto"]).env("DALA_TEST_EXPECTED", expected);
        match variable {
            Some(value) => command.env("DALA_DEVICE", value),
            None => command.env_remove("DALA_DEVICE"),
        };
        let output = command.output().unwrap();
        assert!(output.status.success(), "{variable:?} did not give {expected}");
    };
    let best = Device::list()[0].backend.name();
    run(None, best);
    run(Some("auto"), best);
    for name in device_names() {
        run(Some(&name), &name);
    }
}
