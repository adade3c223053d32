//! Buffers: every element type and length, all ways in and out.

use dala_compute::{Buffer, DType, Device, Error};

use crate::support::{devices, elements, filled_with_rubbish, upload};

fn lengths() -> Vec<usize> {
    (0..=64).chain([127, 255, 511, 513, 4_095, 16_385, 65_537, 262_145, 1_048_577, 5_000_001]).collect()
}

#[test]
fn every_type_and_length_round_trips() {
    for device in devices() {
        for dtype in DType::ALL {
            for len in lengths() {
                let data = elements(dtype, len, len as u64);
                let buffer = upload(&device, &data, [len]);
                assert_eq!((buffer.dtype(), buffer.len(), buffer.size_bytes()), (dtype, len, len * dtype.size()));
                assert_eq!(buffer.read_bytes().unwrap(), data.to_bytes(), "{device:?} {dtype} {len}");
            }
        }
    }
}

#[test]
fn zeros_are_zero_also_in_used_memory() {
    for device in devices() {
        for dtype in DType::ALL {
            for len in lengths() {
                drop(filled_with_rubbish(&device, dtype, [len]));
                let buffer = Buffer::zeros(&device, dtype, [len]).unwrap();
                assert!(buffer.read_bytes().unwrap().iter().all(|byte| *byte == 0), "{device:?} {dtype} {len}");
            }
        }
    }
}

#[test]
fn copies_move_every_byte_and_no_more() {
    for device in devices() {
        for dtype in DType::ALL {
            for len in lengths().into_iter().filter(|len| *len < 100_000) {
                let data = elements(dtype, len, 5);
                let (from, to) = (upload(&device, &data, [len]), filled_with_rubbish(&device, dtype, [len]));
                let neighbour = filled_with_rubbish(&device, DType::U8, [512]);
                from.copy_to(&to).unwrap();
                assert_eq!(to.read_bytes().unwrap(), data.to_bytes(), "{device:?} {dtype} {len}");
                assert!(neighbour.read::<u8>().unwrap().iter().all(|byte| *byte == 0xA5));
            }
        }
        let (a, b) = (filled_with_rubbish(&device, DType::F32, [4]), filled_with_rubbish(&device, DType::U8, [16]));
        a.copy_to(&b).unwrap();
        a.copy_to(&a).unwrap();
        let short = filled_with_rubbish(&device, DType::U8, [15]);
        assert_eq!(a.copy_to(&short).unwrap_err().code(), "size_mismatch");
    }
}

#[test]
fn writes_replace_and_check() {
    for device in devices() {
        let buffer = Buffer::from_slice(&device, &[1i64, 2, 3], [3]).unwrap();
        buffer.write(&[4i64, 5, 6]).unwrap();
        assert_eq!(buffer.read::<i64>().unwrap(), [4, 5, 6]);
        assert_eq!(buffer.write(&[1i64]).unwrap_err(), Error::SizeMismatch { expected: 24, actual: 8 });
        assert_eq!(buffer.write(&[1f64, 2.0, 3.0]).unwrap_err().code(), "dtype_mismatch");
        assert_eq!(buffer.read::<f32>().unwrap_err().code(), "dtype_mismatch");
        assert_eq!(Buffer::from_slice(&device, &[1u8, 2], [3]).unwrap_err().code(), "size_mismatch");
        let scalar = Buffer::from_slice(&device, &[7u32], []).unwrap();
        assert_eq!(scalar.read::<u32>().unwrap(), [7]);
        assert_eq!(format!("{scalar:?}"), format!("Buffer {} u32 {{}}", scalar.id()));
    }
}

/// What was read stays as it was: on the CPU runtime the engine's own reads show later writes.
#[test]
fn reads_are_copies() {
    for device in devices() {
        let buffer = Buffer::from_slice(&device, &vec![1.0f32; 100_000], [100_000]).unwrap();
        let before = buffer.read::<f32>().unwrap();
        device.run("scalar_mul", &[&buffer], &buffer, [("scalar", 3.0)]).unwrap();
        assert!(before.iter().all(|x| *x == 1.0) && buffer.read::<f32>().unwrap().iter().all(|x| *x == 3.0));
    }
}

#[test]
fn buffers_outlive_their_device_handle_and_threads() {
    let buffer = {
        let device = Device::open("cpu").unwrap();
        Buffer::from_slice(&device, &[1u8, 2, 3], [3]).unwrap()
    };
    let read = std::thread::spawn(move || buffer.read::<u8>().unwrap()).join().unwrap();
    assert_eq!(read, [1, 2, 3]);
}

/// Many threads, one device: each sees its own results.
#[test]
fn threads_share_a_device() {
    for device in devices() {
        std::thread::scope(|scope| {
            for thread in 0..8u32 {
                let device = device.clone();
                scope.spawn(move || {
                    for round in 0..20u32 {
                        let x = Buffer::from_slice(&device, &vec![thread * 100 + round; 1000], [1000]).unwrap();
                        device.run("scalar_add", &[&x], &x, [("scalar", 1)]).unwrap();
                        assert_eq!(x.read::<u32>().unwrap(), vec![thread * 100 + round + 1; 1000]);
                    }
                });
            }
        });
    }
}
