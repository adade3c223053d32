//! What the other tests share: devices, data, comparison.

use dala_compute::{Buffer, DType, Data, Device, Scalar, Shape, TensorType};

/// The devices that must be there: all three software ones, unless `DALA_TEST_DEVICES` names others.
pub fn device_names() -> Vec<String> {
    let names = std::env::var("DALA_TEST_DEVICES").unwrap_or_else(|_| "cpu,vulkan,gl".to_owned());
    names.split(',').map(str::to_owned).collect()
}

/// Runs the named test again for each device, in a process of its own, where nothing else moves memory or time: the variable
/// tells it which device. Shows the lines of what it prints that contain `shown`.
pub fn alone(test: &str, variable: &str, shown: &str) {
    let names = device_names();
    alone_on(&names.iter().map(String::as_str).collect::<Vec<_>>(), test, variable, shown);
}

/// The same, for these devices, as far as they are to be tested.
pub fn alone_on(devices: &[&str], test: &str, variable: &str, shown: &str) {
    for name in device_names().iter().filter(|name| devices.contains(&name.as_str())) {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(variable, name)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        text.lines().filter(|line| line.contains(shown)).for_each(|line| println!("{line}"));
        assert!(output.status.success(), "{name}:\n{text}\n{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// A fresh device of each kind. A missing one fails the test.
pub fn devices() -> Vec<Device> {
    device_names().iter().map(|name| Device::open(name).unwrap_or_else(|error| panic!("{name}: {error}"))).collect()
}

/// How many kernels a device got so far, built or kept by an earlier process.
pub fn obtained(device: &Device) -> u64 {
    let stats = device.stats();
    stats.compilations + stats.kernels_found
}

/// A small deterministic random number generator.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    /// From -1 to 1.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

/// Elements of a type: ordinary values, and among them every value that is known for trouble.
pub fn elements(dtype: DType, len: usize, seed: u64) -> Data {
    let mut random = Random(seed);
    let float = |random: &mut Random| {
        const SPECIAL: [f64; 12] =
            [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e30];
        if random.below(8) == 0 { random.pick(&SPECIAL) } else { random.unit() * random.pick(&[1.0, 10.0, 80.0]) }
    };
    let int = |random: &mut Random| {
        const SPECIAL: [i64; 9] =
            [0, 1, -1, i32::MIN as i64, i32::MAX as i64, u32::MAX as i64, i64::MIN, i64::MAX, 255];
        match random.below(4) {
            0 => random.pick(&SPECIAL),
            1 => random.next() as i64,
            _ => random.below(600) as i64 - 300,
        }
    };
    let element = |_| match dtype {
        float_type if float_type.is_float() => Scalar::from_f64(dtype, float(&mut random)),
        small if small.size() < 4 => Scalar::from_i64(small, random.next() as i64),
        other => Scalar::from_i64(other, int(&mut random)),
    };
    Data::collect(dtype, (0..len).map(element).collect::<Vec<_>>())
}

/// Elements without surprises: all bytes, floats between -1 and 1, other integers of three digits.
pub fn ordinary(random: &mut Random, ty: &TensorType) -> Data {
    let value = |_| match ty.dtype {
        DType::U8 | DType::S8 => Scalar::from_i64(ty.dtype, random.next() as i64),
        dtype if dtype.is_float() => Scalar::from_f64(dtype, random.unit()),
        dtype @ (DType::U32 | DType::U16 | DType::U64) => Scalar::from_i64(dtype, random.below(1000) as i64),
        dtype => Scalar::from_i64(dtype, random.below(1000) as i64 - 300),
    };
    Data::collect(ty.dtype, (0..ty.shape.len()).map(value).collect::<Vec<_>>())
}

/// How many random expressions and calls each device gets; about 150 take a quarter of a minute.
pub fn property_cases() -> usize {
    std::env::var("DALA_PROPERTY_CASES").ok().and_then(|count| count.parse().ok()).unwrap_or(150)
}

pub fn upload(device: &Device, data: &Data, shape: impl Into<Shape>) -> Buffer {
    Buffer::from_bytes(device, &data.to_bytes(), data.dtype(), shape).unwrap()
}

/// A buffer of the type filled with a pattern that no kernel is asked to produce.
pub fn filled_with_rubbish(device: &Device, dtype: DType, shape: impl Into<Shape>) -> Buffer {
    let shape = shape.into();
    let bytes = vec![0xA5; shape.len() * dtype.size()];
    Buffer::from_bytes(device, &bytes, dtype, shape).unwrap()
}
