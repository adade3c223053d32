use dala_compute::{Buffer, DType, Device, Params};
use std::time::{Duration, Instant};
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::open("cpu")?;
    let time = |kernel: &str, inputs: &[Vec<usize>], output: Vec<usize>, params: Params, macs: usize| {
        let buffers: Vec<Buffer> = inputs
            .iter()
            .map(|dims| {
                let n: usize = dims.iter().product();
                let data: Vec<f32> = (0..n).map(|n| (n * 7919 % 1000) as f32 / 500.0 - 1.0).collect();
                Buffer::from_slice(&device, &data, dims.clone()).unwrap()
            })
            .collect();
        let y = Buffer::zeros(&device, DType::F32, output.clone()).unwrap();
        let refs: Vec<&Buffer> = buffers.iter().collect();
        device.run(kernel, &refs, &y, params.clone()).unwrap();
        let mut best = Duration::MAX;
        for _ in 0..60 {
            let start = Instant::now();
            device.run(kernel, &refs, &y, params.clone()).unwrap();
            best = best.min(start.elapsed());
        }
        println!(
            "{kernel} {inputs:?} {:8.1} us {:6.1} GFLOP/s",
            best.as_secs_f64() * 1e6,
            2.0 * macs as f64 / best.as_secs_f64() / 1e9
        );
    };
    let none = Params::new();
    time("matmul", &[vec![512, 512], vec![512, 512]], vec![512, 512], none.clone(), 512 * 512 * 512);
    for (h, c, o) in [(7, 320, 1280), (14, 96, 576), (14, 576, 96), (112, 16, 96), (56, 144, 24), (56, 24, 144)] {
        let m = h * h;
        time("matmul", &[vec![m, c], vec![c, o]], vec![m, o], none.clone(), m * c * o);
        for activation in ["none", "relu6"] {
            let params = none.clone().with("activation", activation);
            time("conv2d", &[vec![1, h, h, c], vec![1, 1, c, o], vec![o]], vec![1, h, h, o], params, m * c * o);
        }
    }
    for (h, c, s) in [(112, 32, 1), (112, 96, 2), (56, 144, 1), (14, 576, 1), (7, 960, 1)] {
        let to = h / s;
        let params =
            none.clone().with("groups", c as i64).with("padding", vec![1i64; 4]).with("stride", vec![s as i64; 2]);
        time("conv2d", &[vec![1, h, h, c], vec![3, 3, 1, c], vec![c]], vec![1, to, to, c], params, to * to * c * 9);
    }
    let params = none.clone().with("padding", vec![1i64; 4]).with("stride", vec![2i64; 2]);
    time(
        "conv2d",
        &[vec![1, 224, 224, 3], vec![3, 3, 3, 32], vec![32]],
        vec![1, 112, 112, 32],
        params,
        112 * 112 * 32 * 27,
    );
    Ok(())
}
