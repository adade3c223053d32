use dala_compute::{Buffer, DType, Device, Params};
fn main() {
    let device = Device::open("cpu").unwrap();
    let a: Vec<usize> = std::env::args().skip(2).map(|n| n.parse().unwrap()).collect();
    let kind = std::env::args().nth(1).unwrap();
    let z = |dims: Vec<usize>| Buffer::zeros(&device, DType::F32, dims).unwrap();
    let start = std::time::Instant::now();
    let (inputs, y, params, name) = match kind.as_str() {
        "mm" => (vec![z(vec![a[0], a[1]]), z(vec![a[1], a[2]])], z(vec![a[0], a[2]]), Params::new(), "matmul"),
        "dw" => (
            vec![z(vec![1, a[0], a[0], a[1]]), z(vec![3, 3, 1, a[1]]), z(vec![a[1]])],
            z(vec![1, a[0], a[0], a[1]]),
            Params::new().with("groups", a[1] as i64).with("padding", vec![1i64; 4]),
            "conv2d",
        ),
        _ => (
            vec![z(vec![1, 1, a[0], a[1]]), z(vec![1, 1, a[1], a[2]]), z(vec![a[2]])],
            z(vec![1, 1, a[0], a[2]]),
            Params::new().with("activation", "relu6"),
            "conv2d",
        ),
    };
    let refs: Vec<&Buffer> = inputs.iter().collect();
    let mut best = f64::MAX;
    while start.elapsed().as_secs_f64() < 8.0 {
        let t = std::time::Instant::now();
        device.run(name, &refs, &y, params.clone()).unwrap();
        best = best.min(t.elapsed().as_secs_f64());
    }
    println!("best {} us", best * 1e6);
}
