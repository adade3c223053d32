//! Random calls of kernels that lower to steps, against their references: sizes, axes and params that nobody thought of.

use dala_compute::{DType, Data, Device, Params, TensorType};
use dala_kernels::{Reference, Work};
use dala_spec::validate;

use crate::support::{Random, device_names, filled_with_rubbish, ordinary, property_cases, upload};

struct Call {
    kernel: &'static str,
    inputs: Vec<TensorType>,
    output: TensorType,
    params: Params,
}

const BORDERS: [&str; 4] = ["clamp", "reflect", "wrap", "zero"];

/// A picture's shape: sizes on both sides of what vectors divide, all numbers of channels.
fn picture(random: &mut Random) -> Vec<usize> {
    let size = [1 + random.below(20), random.pick(&[1, 2, 3, 5, 8, 12, 16, 17, 32, 33, 48, 64, 66])];
    let channels: &[usize] = random.pick(&[&[][..], &[1], &[3], &[4]]);
    [&size, channels].concat()
}

fn shape(random: &mut Random, ranks: std::ops::Range<usize>) -> Vec<usize> {
    let rank = ranks.start + random.below(ranks.len());
    (0..rank).map(|_| 1 + random.below(9)).collect()
}

/// A call that fits its kernel.
fn call(random: &mut Random) -> Call {
    let pixel = random.pick(&[DType::U8, DType::F32]);
    let (any, float) = (random.pick(&DType::ALL), random.pick(&[DType::F32, DType::F64]));
    let new = |kernel, inputs: &[(DType, &[usize])], output: (DType, &[usize]), params| Call {
        kernel,
        inputs: inputs.iter().map(|(dtype, shape)| TensorType::new(*dtype, *shape)).collect(),
        output: TensorType::new(output.0, output.1),
        params,
    };
    let none = Params::new;
    match random.below(14) {
        0 => {
            let shape = picture(random);
            let params = none().with("border", random.pick(&BORDERS));
            let params = match random.pick(&["blur", "box_blur", "sharpen", "sobel"]) {
                kernel @ ("sharpen" | "sobel") => return new(kernel, &[(pixel, &shape)], (pixel, &shape), params),
                kernel => (kernel, params.with("radius", random.pick(&[0i64, 1, 2, 3, 7, 9, 15, 20, 40]))),
            };
            new(params.0, &[(pixel, &shape)], (pixel, &shape), params.1)
        }
        1 => {
            let from = picture(random);
            let mut to = from.clone();
            (to[0], to[1]) = (1 + random.below(30), 1 + random.below(70));
            let params = none().with("filter", random.pick(&["nearest", "bilinear", "bicubic", "area"]));
            new("resize", &[(pixel, &from)], (pixel, &to), params.with("antialias", random.below(2) == 0))
        }
        2 => {
            let from = picture(random);
            let mut to = from.clone();
            (to[0], to[1]) = (1 + random.below(from[0]), 1 + random.below(from[1]));
            let (top, left) = (random.below(from[0] - to[0] + 1), random.below(from[1] - to[1] + 1));
            new("crop", &[(pixel, &from)], (pixel, &to), none().with("top", top as i64).with("left", left as i64))
        }
        3 | 4 => {
            let from = shape(random, 0..5);
            let axes: Vec<i64> = (0..from.len() as i64).filter(|_| random.below(2) == 0).collect();
            let keep = random.below(2) == 0;
            let reduced = |axis: usize| axes.is_empty() || axes.contains(&(axis as i64));
            let size = |(axis, size): (usize, &usize)| if reduced(axis) { keep.then_some(1) } else { Some(*size) };
            let to: Vec<usize> = from.iter().enumerate().filter_map(size).collect();
            let kernel = random.pick(&["reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "argmax", "argmin"]);
            let output = match kernel {
                "reduce_max" | "reduce_min" => any,
                "reduce_mean" => DType::F32,
                "reduce_sum" => random.pick(&[DType::F32, DType::S32, DType::U32]),
                _ => random.pick(&[DType::S32, DType::U32]),
            };
            new(kernel, &[(any, &from)], (output, &to), none().with("axes", axes).with("keep_dims", keep))
        }
        5 => {
            let shape = shape(random, 1..5);
            let axis = random.below(shape.len()) as i64;
            let kernel = random.pick(&["softmax", "log_softmax"]);
            new(kernel, &[(float, &shape)], (float, &shape), none().with("axis", axis))
        }
        6 => {
            let from = shape(random, 1..6);
            let mut order: Vec<usize> = (0..from.len()).collect();
            for at in (1..order.len()).rev() {
                order.swap(at, random.below(at + 1));
            }
            let to: Vec<usize> = order.iter().map(|axis| from[*axis]).collect();
            let axes: Vec<i64> = order.iter().map(|axis| *axis as i64).collect();
            new("transpose", &[(any, &from)], (any, &to), none().with("axes", axes))
        }
        7 => {
            let from = shape(random, 1..4);
            let axis = random.below(from.len());
            let parts: Vec<Vec<usize>> = (0..1 + random.below(4))
                .map(|_| {
                    let mut part = from.clone();
                    part[axis] = random.below(9);
                    part
                })
                .collect();
            let mut to = from.clone();
            to[axis] = parts.iter().map(|part| part[axis]).sum();
            let inputs: Vec<(DType, &[usize])> = parts.iter().map(|part| (any, &part[..])).collect();
            new("concat", &inputs, (any, &to), none().with("axis", axis as i64))
        }
        8 => {
            let (from, mode) = (shape(random, 0..6), random.pick(&["constant", "edge", "reflect"]));
            let side = |random: &mut Random| -> Vec<i64> {
                let most = |size: &usize| if mode == "reflect" { *size } else { 9 };
                from.iter().map(|size| if random.below(2) == 0 { 0 } else { random.below(most(size)) as i64 }).collect()
            };
            let (before, after) = (side(random), side(random));
            let sides = before.iter().zip(&after).map(|(before, after)| (before + after) as usize);
            let to: Vec<usize> = from.iter().zip(sides).map(|(size, sides)| size + sides).collect();
            let params = none().with("before", before).with("after", after).with("mode", mode);
            new("pad", &[(any, &from)], (any, &to), params.with("value", 7))
        }
        9 => {
            let (from, indices) = (shape(random, 1..5), shape(random, 0..3));
            let axis = random.below(from.len());
            let to = [&from[..axis], &indices, &from[axis + 1..]].concat();
            let kind = random.pick(&[DType::S32, DType::S64, DType::U32]);
            new("gather", &[(any, &from), (kind, &indices)], (any, &to), none().with("axis", axis as i64))
        }
        10 | 11 => {
            let from = shape(random, 1..5);
            let axis = random.below(from.len());
            let mut to: Vec<usize> = from.iter().map(|size| 1 + random.below(*size)).collect();
            to[axis] = 1 + random.below(12);
            let kind = random.pick(&[DType::S32, DType::S64, DType::U32]);
            let params = none().with("axis", axis as i64);
            match random.pick(&["gather", "none", "add", "mul", "max", "min"]) {
                "gather" => new("gather_elements", &[(any, &from), (kind, &to)], (any, &to), params),
                how => {
                    let inputs = [(kind, &to[..]), (any, &from), (any, &to)];
                    new("scatter_elements", &inputs, (any, &from), params.with("reduction", how))
                }
            }
        }
        12 => {
            let from = shape(random, 1..5);
            let axis = random.below(from.len());
            let params = none().with("axis", axis as i64);
            if random.below(2) == 0 {
                let params = params.with("exclusive", random.below(2) == 0).with("reverse", random.below(2) == 0);
                return new("cumulative_sum", &[(any, &from)], (any, &from), params);
            }
            let mut to = from.clone();
            to[axis] = 1 + random.below(from[axis]);
            let kind = random.pick(&[DType::S32, DType::S64, DType::U32]);
            new("argsort", &[(any, &from)], (kind, &to), params.with("descending", random.below(2) == 0))
        }
        _ => {
            let (m, n) = (1 + random.below(40), random.pick(&[1, 3, 16, 31, 64, 70, 128]));
            let k = random.below(40);
            let (swap_a, swap_b) = (random.below(2) == 0, random.below(2) == 0);
            let a = if swap_a { [k, m] } else { [m, k] };
            let b = if swap_b { [n, k] } else { [k, n] };
            let params = none().with("transpose_a", swap_a).with("transpose_b", swap_b);
            new("matmul", &[(float, &a), (float, &b)], (float, &[m, n]), params)
        }
    }
}

#[test]
fn random_calls() {
    for name in device_names() {
        let device = Device::open(&name).unwrap();
        let (mut compared, mut refused) = (0, 0);
        for seed in 0..property_cases() as u64 {
            let mut random = Random(seed);
            let Call { kernel, inputs, output, params } = call(&mut random);
            let what = format!("{name}, seed {seed}: {kernel} {inputs:?} -> {output:?} {params:?}");
            let own = device.kernels().into_iter().find(|own| own.spec.name == kernel).unwrap();
            assert!(matches!(own.work, Work::Lowered(_)), "{kernel} is an expression, and tested as one");
            let signature =
                validate(&own.spec, &inputs, &output, &params).unwrap_or_else(|errors| panic!("{what}: {errors:?}"));
            let data: Vec<Data> = inputs.iter().map(|ty| ordinary(&mut random, ty)).collect();
            let buffers: Vec<_> =
                data.iter().zip(&inputs).map(|(data, ty)| upload(&device, data, ty.shape.clone())).collect();
            let target = filled_with_rubbish(&device, output.dtype, output.shape.clone());
            match device.run(kernel, &buffers.iter().collect::<Vec<_>>(), &target, &params) {
                Err(error) if error.code() == "unsupported" => {
                    refused += 1;
                    continue;
                }
                result => result.unwrap_or_else(|error| panic!("{what}: {error}")),
            }
            let expected = own.reference.as_ref().unwrap()(&Reference { inputs: &data, signature: &signature });
            for (index, (a, b)) in expected.iter().zip(target.read_data().unwrap().iter()).enumerate() {
                let away = (a.as_f64() - b.as_f64()).abs();
                let allowed = match output.dtype {
                    // Computed in floats, and rounded: a value halfway may go either way.
                    dtype if dtype.narrow_range().is_some() && !kernel.starts_with("reduce") => 1.0,
                    dtype if dtype.is_float() => dtype.epsilon().max(1e-4) * a.as_f64().abs().max(1.0),
                    _ => 0.0,
                };
                assert!(a == b || away <= allowed, "{what}: element {index} is {b}, the reference says {a}");
            }
            compared += 1;
        }
        println!("random calls on {name}: {compared} compared, {refused} refused by element type");
        assert!(compared > refused, "{name} compared too little");
    }
}
