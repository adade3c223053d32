//! Devices: what they say of themselves, and how they are chosen.

use dala_compute::{Backend, Buffer, DType, Device, DeviceKind, Support};

use crate::support::{alone_on, device_names};

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

/// Two adapters can be had from one driver: the file that names it is there twice.
#[test]
fn every_adapter_is_listed_and_can_be_opened() {
    const NAME: &str = "devices::every_adapter_is_listed_and_can_be_opened";
    if std::env::var("DALA_TEST_TWICE").is_err() {
        let Some(driver) = vulkan_driver() else {
            return println!("no file of a software driver for Vulkan was found: nothing to list twice");
        };
        let copies = ["one", "two"].map(|name| {
            let copy = std::env::temp_dir().join(format!("dala-{name}-{}.json", std::process::id()));
            std::fs::copy(&driver, &copy).unwrap();
            copy
        });
        let drivers = std::env::join_paths(&copies).unwrap();
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", NAME, "--nocapture"])
            .env("DALA_TEST_TWICE", "1")
            .env("VK_DRIVER_FILES", &drivers)
            .env("VK_ICD_FILENAMES", &drivers)
            .output()
            .unwrap();
        copies.iter().for_each(|copy| std::fs::remove_file(copy).unwrap());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let ids: Vec<String> = Device::list().into_iter().map(|info| info.id).collect();
    assert!(["vulkan:0", "vulkan:1", "gl:0", "cpu"].iter().all(|id| ids.iter().any(|own| own == id)), "{ids:?}");
    let [first, second] = ["vulkan:0", "vulkan:1"].map(|id| Device::open(id).unwrap());
    assert_eq!((&*first.info().id, &*second.info().id), ("vulkan:0", "vulkan:1"));
    for device in [&first, &second] {
        let x = Buffer::from_slice(device, &[-1.0f32, 2.0], [2]).unwrap();
        device.run("relu", &[&x], &x, ()).unwrap();
        assert_eq!(x.read::<f32>().unwrap(), [0.0, 2.0]);
    }
    let error = Device::open("vulkan:2").unwrap_err();
    assert_eq!(error.code(), "device_unavailable");
    assert!(error.to_string().contains("vulkan:1"), "{error}");
    assert_eq!(Device::open("vulkan").unwrap().info().id, "vulkan:0");
}

/// A driver that is installed while a program runs is found by it.
#[test]
fn a_driver_that_comes_later_is_found() {
    const NAME: &str = "devices::a_driver_that_comes_later_is_found";
    let Ok(later) = std::env::var("DALA_TEST_LATER") else {
        if vulkan_driver().is_none() {
            return println!("no file of a software driver for Vulkan was found: none can come later");
        }
        let later = std::env::temp_dir().join(format!("dala-later-{}.json", std::process::id()));
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", NAME, "--nocapture"])
            .env("DALA_TEST_LATER", &later)
            .env("VK_DRIVER_FILES", &later)
            .env("VK_ICD_FILENAMES", &later)
            .output()
            .unwrap();
        let _ = std::fs::remove_file(&later);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        return;
    };
    assert_eq!(Device::open("vulkan").unwrap_err().code(), "device_unavailable");
    std::fs::copy(vulkan_driver().unwrap(), later).unwrap();
    let device = Device::open("vulkan").unwrap();
    let x = Buffer::from_slice(&device, &[-1.0f32, 2.0], [2]).unwrap();
    device.run("relu", &[&x], &x, ()).unwrap();
    assert_eq!(x.read::<f32>().unwrap(), [0.0, 2.0]);
}

/// The file that tells the loader about Mesa's software driver.
fn vulkan_driver() -> Option<std::path::PathBuf> {
    let files = std::fs::read_dir("/usr/share/vulkan/icd.d").ok()?.flatten().map(|file| file.path());
    let mut files =
        files.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("lvp_")));
    files.next()
}

#[test]
fn names_with_numbers_are_checked() {
    for name in ["vulkan:", "vulkan:x", "vulkan:-1", "cpu:0:0", ":0"] {
        assert_eq!(Device::open(name).unwrap_err().code(), "unknown_device", "{name}");
    }
    assert_eq!(Device::open("cpu:0").unwrap().info().id, "cpu");
    assert_eq!(Device::open("cpu:1").unwrap_err().code(), "device_unavailable");
}

/// What the driver took away can be had again: a device is gone for good, its adapter is not.
#[test]
fn a_lost_device_can_be_opened_again() {
    let Ok(name) = std::env::var("DALA_TEST_LOST") else {
        return alone_on(&["vulkan", "gl"], "devices::a_lost_device_can_be_opened_again", "DALA_TEST_LOST", "lost on");
    };
    let works = |device: &Device| -> Result<Vec<f32>, dala_compute::Error> {
        let x = Buffer::from_slice(device, &[-1.0f32, 2.0], [2])?;
        device.run("relu", &[&x], &x, ())?;
        x.read::<f32>()
    };
    let device = Device::open(&name).unwrap();
    assert_eq!(works(&device).unwrap(), [0.0, 2.0]);
    device.graphics().unwrap().device.destroy();
    let error = works(&device).unwrap_err();
    println!("lost on {name}: {error}");
    assert_eq!(error.code(), "device_lost", "{error}");
    assert_eq!(works(&Device::open(&name).unwrap()).unwrap(), [0.0, 2.0]);
}

/// Panics of others are not kept from people, whatever their threads are called.
#[test]
fn other_peoples_panics_are_shown() {
    const NAME: &str = "devices::other_peoples_panics_are_shown";
    if std::env::var("DALA_TEST_PANICS").is_err() {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", NAME, "--nocapture"])
            .env("DALA_TEST_PANICS", "1")
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && errors.contains("this one is theirs"), "{errors}");
        return;
    }
    let _device = Device::open("cpu").unwrap();
    let thread = std::thread::Builder::new().name("DSP of somebody".to_owned());
    assert!(thread.spawn(|| panic!("this one is theirs")).unwrap().join().is_err());
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
