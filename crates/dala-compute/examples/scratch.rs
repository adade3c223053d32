#![allow(warnings)]
use dala_compute::*;
fn main() {
    let device = Device::open_with("cpu", DeviceOptions::new().queue_capacity(1 << 22)).unwrap();
    let [a, b] = [0; 2].map(|_| Buffer::from_slice(&device, &[1.5f32; 1024], [1024]).unwrap());
    let out = Buffer::zeros(&device, DType::F32, [1024]).unwrap();
    device.run("elementwise_add", &[&a, &b], &out, ()).unwrap();
    let s = std::time::Instant::now();
    let b0 = device.stats().queue.totals;
    let rounds = 400;
    for _ in 0..rounds {
        let mut last = None;
        for _ in 0..1000 {
            last = Some(device.submit(Stage::run_kernel("elementwise_add", &[&a, &b], &out, ()), ()).unwrap());
        }
        last.unwrap().wait(None).unwrap();
    }
    let t = device.stats().queue.totals;
    println!(
        "{:?} per thousand, {:?} busy, {} passes",
        s.elapsed() / rounds,
        (t.busy - b0.busy) / rounds,
        (t.passes - b0.passes) / rounds as u64
    );
}
