//! Launchers choose between ways by size, alignment and device: here each way is taken, at sizes like those of real use, and held
//! against the kernel's reference, which the golden files vouch for.

use dala_compute::{Buffer, DType, Data, Definition, Device, Params, TensorType};
use dala_kernels::Reference;
use dala_spec::validate;

use crate::support::{Random, device_names, filled_with_rubbish, obtained, ordinary, upload};

/// Runs a call on every device and compares with the reference: bytes within the kernel's levels, floats within `tolerance`.
fn check(kernel: &str, dtype: DType, inputs: &[&[usize]], output: &[usize], params: Params, tolerance: f64) {
    let types: Vec<TensorType> = inputs.iter().map(|shape| TensorType::new(dtype, *shape)).collect();
    let output = TensorType::new(dtype, output);
    let own = dala_kernels::list::built_in().into_iter().find(|own| own.spec.name == kernel).unwrap();
    let signature = validate(&own.spec, &types, &output, &params).unwrap();
    let data: Vec<Data> = types.iter().enumerate().map(|(seed, ty)| ordinary(&mut Random(seed as u64), ty)).collect();
    let expected = own.reference.as_ref().unwrap()(&Reference { inputs: &data, signature: &signature });
    for name in device_names() {
        let device = Device::open(&name).unwrap();
        let what = format!("{name} {kernel} {types:?} -> {output:?} {params:?}");
        let buffers: Vec<_> =
            data.iter().zip(&types).map(|(data, ty)| upload(&device, data, ty.shape.clone())).collect();
        let target = filled_with_rubbish(&device, dtype, output.shape.clone());
        device.run(kernel, &buffers.iter().collect::<Vec<_>>(), &target, &params).unwrap();
        let allowed = if dtype == DType::U8 { own.spec.tolerance.levels.into() } else { tolerance };
        for (index, (a, b)) in expected.iter().zip(target.read_data().unwrap().iter()).enumerate() {
            let away = (a.as_f64() - b.as_f64()).abs();
            assert!(away <= allowed, "{what}: element {index} is {b}, the reference says {a}");
        }
    }
}

fn border(word: &str) -> Params {
    Params::new().with("border", word)
}

/// Rows of one vector and of many, radii up to what a vector holds and beyond, in all numbers of channels.
#[test]
fn filters() {
    for word in ["clamp", "reflect", "wrap", "zero"] {
        for shape in [&[9usize, 64, 4][..], &[5, 16, 4], &[6, 64, 3], &[7, 128], &[4, 128, 1], &[3, 33, 4]] {
            for radius in [1, 3, 7] {
                check("blur", DType::U8, &[shape], shape, border(word).with("radius", radius), 0.0);
            }
            check("sobel", DType::F32, &[shape], shape, border(word), 1e-5);
            check("sharpen", DType::U8, &[shape], shape, border(word).with("amount", 1.5), 0.0);
        }
    }
    check("blur", DType::F32, &[&[40, 64, 4]], &[40, 64, 4], Params::new().with("radius", 15), 1e-5);
    for radius in [16, 31, 32] {
        check("box_blur", DType::U8, &[&[40, 64, 4]], &[40, 64, 4], Params::new().with("radius", radius), 0.0);
    }
}

/// In one pass on cores and axis by axis elsewhere; growing and shrinking; windows at the edges.
#[test]
fn resizing() {
    for filter in ["nearest", "bilinear", "bicubic", "area"] {
        for (from, to) in [([45usize, 60], [30usize, 40]), ([30, 40], [45, 60]), ([9, 8], [3, 4]), ([64, 64], [64, 32])]
        {
            for channels in [4, 3] {
                for antialias in [true, false] {
                    let params = Params::new().with("filter", filter).with("antialias", antialias);
                    let (from, to) = ([from[0], from[1], channels], [to[0], to[1], channels]);
                    check("resize", DType::U8, &[&from], &to, params.clone(), 0.0);
                    check("resize", DType::F32, &[&from], &to, params, 1e-5);
                }
            }
        }
    }
    // Shrinking so far that rows no longer fit one pass.
    check("resize", DType::U8, &[&[96, 128, 4]], &[8, 8, 4], Params::new(), 0.0);
}

/// Windows in every way: whole pixels, inside and beyond the picture, apart, dilated, in groups, each channel by itself; vectors
/// that fit the channels and ones that do not.
#[test]
fn convolutions() {
    let windows = |stride: [i64; 2], padding: [i64; 4]| {
        Params::new().with("stride", stride.to_vec()).with("padding", padding.to_vec())
    };
    /// Pictures, size of windows, channels of the result, stride, padding, dilation, groups.
    type Case = ([usize; 4], [usize; 2], usize, [i64; 2], [i64; 4], [i64; 2], usize);
    let cases: &[Case] = &[
        ([1, 9, 11, 16], [1, 1], 32, [1, 1], [0; 4], [1, 1], 1),
        ([2, 7, 7, 24], [1, 1], 24, [1, 1], [0; 4], [1, 1], 1),
        ([1, 14, 14, 96], [1, 1], 576, [1, 1], [0; 4], [1, 1], 1),
        ([2, 8, 8, 20], [1, 1], 48, [2, 2], [0; 4], [1, 1], 1),
        ([1, 13, 10, 3], [3, 3], 32, [2, 2], [1, 1, 1, 1], [1, 1], 1),
        ([3, 6, 5, 8], [3, 3], 7, [1, 1], [1, 1, 1, 1], [1, 1], 1),
        ([1, 12, 9, 4], [5, 3], 16, [2, 1], [3, 0, 1, 2], [1, 2], 1),
        ([1, 9, 9, 12], [3, 3], 24, [1, 1], [1, 1, 1, 1], [1, 1], 3),
        ([2, 10, 9, 16], [3, 3], 16, [1, 1], [1, 1, 1, 1], [1, 1], 16),
        ([1, 11, 9, 24], [3, 3], 24, [2, 2], [1, 1, 1, 1], [1, 1], 24),
        ([1, 9, 14, 5], [5, 5], 5, [1, 2], [2, 2, 2, 2], [1, 1], 5),
        ([1, 12, 12, 6], [3, 3], 12, [1, 1], [2, 2, 2, 2], [2, 2], 6),
        ([1, 15, 15, 8], [7, 7], 8, [2, 2], [3, 3, 3, 3], [1, 1], 8),
    ];
    for (number, (x, size, out, stride, padding, dilation, groups)) in cases.iter().enumerate() {
        let weight = [size[0], size[1], x[3] / groups, *out];
        let to = |axis: usize| {
            let covered = (size[axis] - 1) * dilation[axis] as usize + 1;
            let around = x[axis + 1] + (padding[axis] + padding[axis + 2]) as usize;
            (around - covered) / stride[axis] as usize + 1
        };
        let output = [x[0], to(0), to(1), *out];
        let params = windows(*stride, *padding).with("dilation", dilation.to_vec()).with("groups", *groups as i64);
        let activation = ["none", "relu6", "hard_swish"][number % 3];
        let params = params.with("activation", activation);
        check("conv2d", DType::F32, &[x, &weight, &[*out]], &output, params.clone(), 2e-3);
        let whole = params.clone().with("activation", ["none", "relu"][number % 2]);
        check("conv2d", DType::S32, &[x, &weight, &[*out]], &output, whole, 0.0);
        let planar = [x[0], x[3], x[1], x[2]];
        if number % 2 == 0 {
            let params = params.with("layout", "nchw");
            check("conv2d", DType::F32, &[&planar, &weight, &[*out]], &output, params, 2e-3);
        }
        let size = size.map(|n| n as i64).to_vec();
        if padding.iter().all(|padding| *padding < 3) && number % 2 == 1 {
            let output = [x[0], to(0), to(1), x[3]];
            let params = windows(*stride, *padding).with("size", size);
            if *dilation == [1, 1] {
                check("avg_pool2d", DType::F32, &[x], &output, params.clone(), 1e-4);
                let params = params.clone().with("count_padding", true);
                check("avg_pool2d", DType::F32, &[x], &output, params, 1e-4);
            }
            check("max_pool2d", DType::F32, &[x], &output, params.with("dilation", dilation.to_vec()), 0.0);
        }
    }
}

/// Packed by each unit for itself, packed before, and cut to length after; one row, many, transposed, in batches.
#[test]
fn products() {
    for (m, k, n) in [(64, 32, 128), (64, 31, 128), (3, 17, 256), (1, 40, 64), (65, 33, 70), (40, 128, 640)] {
        check("matmul", DType::F32, &[&[m, k], &[k, n]], &[m, n], Params::new(), 1e-4);
        check(
            "matmul",
            DType::F32,
            &[&[k, m], &[n, k]],
            &[m, n],
            [("transpose_a", true), ("transpose_b", true)].into(),
            1e-4,
        );
        check("matmul", DType::F32, &[&[3, m, k], &[k, n]], &[3, m, n], Params::new(), 1e-4);
        check("matmul", DType::S32, &[&[3, m, k], &[k, n]], &[3, m, n], Params::new(), 0.0);
        check("matmul", DType::F32, &[&[m, k], &[3, k, n]], &[3, m, n], Params::new(), 1e-4);
        check("dense", DType::F32, &[&[m, k], &[k, n], &[n]], &[m, n], [("activation", "relu")].into(), 1e-4);
    }
}

/// Whole lines, lines in pieces, lines side by side; lengths that suit vectors and lengths that do not.
#[test]
fn folds() {
    for (shape, output, axes) in [
        (&[2usize, 40_000][..], &[2usize][..], vec![1i64]),
        (&[2, 40_001], &[2], vec![1]),
        (&[40_000, 3], &[3], vec![0]),
        (&[9_000, 64], &[64], vec![0]),
        (&[3, 500, 16], &[3, 16], vec![1]),
        (&[7, 33, 5], &[33], vec![0, 2]),
        // Two elements at a time, where bytes travel four to a word.
        (&[3, 6], &[3], vec![1]),
        (&[3, 6], &[6], vec![0]),
        (&[5, 10, 2], &[5, 2], vec![1]),
    ] {
        let params = Params::new().with("axes", axes);
        check("reduce_sum", DType::F32, &[shape], output, params.clone(), 2e-2);
        check("reduce_max", DType::U8, &[shape], output, params.clone(), 0.0);
        check("reduce_min", DType::S32, &[shape], output, params, 0.0);
    }
    for axis in [0, 1, 2] {
        check("softmax", DType::F32, &[&[6, 48, 20]], &[6, 48, 20], [("axis", axis)].into(), 1e-6);
    }
}

/// No width is special: every one up to a few vectors, in all numbers of channels, of lines that begin anywhere.
#[test]
fn any_size() {
    for width in 1..=19 {
        let channels = 1 + width % 4;
        let shape = [3, width, channels];
        check("blur", DType::U8, &[&shape], &shape, Params::new().with("radius", 2), 0.0);
        check("sharpen", DType::F32, &[&shape], &shape, border("reflect"), 1e-5);
        check("resize", DType::U8, &[&shape], &[5, width + 3, channels], Params::new(), 0.0);
        check("flip", DType::U8, &[&shape], &shape, Params::new(), 0.0);
        check("lut", DType::U8, &[&shape, &[256]], &shape, Params::new(), 0.0);
        check("softmax", DType::F32, &[&[3, width]], &[3, width], Params::new(), 1e-6);
        check("reduce_sum", DType::F32, &[&[3, width]], &[3], [("axes", 1)].into(), 1e-4);
        check("reduce_sum", DType::F32, &[&[3, width]], &[width], [("axes", 0)].into(), 1e-4);
        check("reduce_max", DType::U8, &[&[3, width]], &[width], [("axes", 0)].into(), 0.0);
        check("matmul", DType::F32, &[&[9, 5], &[5, width]], &[9, width], Params::new(), 1e-4);
        check("transpose", DType::U8, &[&[5, width]], &[width, 5], Params::new(), 0.0);
        check("concat", DType::U8, &[&[4, width], &[4, 3]], &[4, width + 3], [("axis", 1)].into(), 0.0);
    }
    for width in [63usize, 65, 127, 129, 131] {
        for channels in [2, 3] {
            let shape = [4, width, channels];
            check("blur", DType::U8, &[&shape], &shape, Params::new().with("radius", 6), 0.0);
            check("resize", DType::F32, &[&shape], &[3, width / 2, channels], Params::new(), 1e-5);
            check("crop", DType::U8, &[&shape], &[2, width - 3, channels], [("left", 2)].into(), 0.0);
        }
        check("reduce_prod", DType::F32, &[&[5, width]], &[width], [("axes", 0)].into(), 1e-2);
        check("layer_norm", DType::F32, &[&[5, width], &[width], &[width]], &[5, width], Params::new(), 1e-4);
        check("matmul", DType::F32, &[&[33, 40], &[40, width]], &[33, width], Params::new(), 1e-4);
        check("matmul", DType::F32, &[&[1, 40], &[40, width]], &[1, width], Params::new(), 1e-4);
    }
}

/// The first of the best, in lines that are cut into pieces: where pieces meet, twice, and beside what is not a number.
#[test]
fn positions_in_long_lines() {
    for name in device_names() {
        let device = Device::open(&name).unwrap();
        for (outer, length, inner) in [(1usize, 50_001usize, 1usize), (3, 20_000, 1), (2, 9_001, 3)] {
            for places in [vec![0], vec![length - 1], vec![4096, 4095], vec![7000, 9000, 8000]] {
                let mut line = vec![0.5f32; outer * length * inner];
                line[inner..2 * inner].fill(f32::NAN);
                for place in &places {
                    let at = (outer - 1) * length * inner + place.min(&(length - 1)) * inner + inner - 1;
                    line[at] = 2.0;
                }
                let x = upload(&device, &Data::F32(line), [outer, length, inner]);
                let out = filled_with_rubbish(&device, DType::S32, [outer, inner]);
                device.run("argmax", &[&x], &out, [("axes", 1)]).unwrap();
                let mut expected = vec![0; outer * inner];
                expected[outer * inner - 1] = places.iter().map(|place| (*place).min(length - 1)).min().unwrap() as i32;
                assert_eq!(out.read::<i32>().unwrap(), expected, "{name}: {outer} x {length} x {inner}, {places:?}");
            }
        }
    }
}

/// In vectors and word by word, forwards and backwards, in all sizes of elements.
#[test]
fn moves() {
    for dtype in DType::ALL {
        check("transpose", dtype, &[&[3, 64, 5]], &[64, 3, 5], Params::new().with("axes", vec![1, 0, 2]), 0.0);
        check(
            "transpose",
            dtype,
            &[&[2, 3, 4, 5, 8]],
            &[8, 4, 2, 5, 3],
            Params::new().with("axes", vec![4, 2, 0, 3, 1]),
            0.0,
        );
        check(
            "slice",
            dtype,
            &[&[20, 64]],
            &[7, 32],
            Params::new().with("start", vec![1, 16]).with("step", vec![2, 1]),
            0.0,
        );
        check("concat", dtype, &[&[6, 32], &[6, 16], &[6, 3]], &[6, 51], [("axis", 1)].into(), 0.0);
    }
    for word in ["horizontal", "vertical", "both"] {
        for shape in [&[9usize, 64, 4][..], &[9, 33, 3], &[7, 5]] {
            check("flip", DType::U8, &[shape], shape, [("direction", word)].into(), 0.0);
            check("flip", DType::F32, &[shape], shape, [("direction", word)].into(), 0.0);
        }
    }
    check("crop", DType::U8, &[&[40, 64, 4]], &[20, 32, 4], Params::new().with("top", 3).with("left", 16), 0.0);
}

/// A call may write over its input, whatever it reads.
#[test]
fn in_place() {
    for name in device_names() {
        let device = Device::open(&name).unwrap();
        let ty = TensorType::new(DType::U8, [20, 64, 4]);
        let data = ordinary(&mut Random(5), &ty);
        let apart = filled_with_rubbish(&device, DType::U8, [20, 64, 4]);
        for (kernel, params) in
            [("blur", Params::new().with("radius", 2)), ("flip", Params::new()), ("lut", Params::new())]
        {
            let image = upload(&device, &data, [20, 64, 4]);
            let table = upload(&device, &ordinary(&mut Random(6), &TensorType::new(DType::U8, [256])), [256]);
            let inputs = if kernel == "lut" { vec![&image, &table] } else { vec![&image] };
            device.run(kernel, &inputs, &apart, &params).unwrap();
            device.run(kernel, &inputs, &image, &params).unwrap();
            assert_eq!(image.read_bytes().unwrap(), apart.read_bytes().unwrap(), "{name} {kernel}");
        }
    }
}

/// What a kernel is built for is code, not values: other weights, amounts, sizes of the same kind build nothing.
#[test]
fn other_values_build_nothing() {
    for name in device_names() {
        let device = Device::open(&name).unwrap();
        let run = |kernel: &str, from: &[usize], to: &[usize], params: Params| {
            let input = filled_with_rubbish(&device, DType::U8, from);
            let output = filled_with_rubbish(&device, DType::U8, to);
            device.run(kernel, &[&input], &output, params).unwrap();
        };
        let blur = |size: &[usize], sigma: f64| {
            run("blur", size, size, Params::new().with("radius", 2).with("sigma", sigma));
        };
        let resize = |from: &[usize], to: &[usize]| run("resize", from, to, Params::new().with("antialias", false));
        let crop = |top: i64| run("crop", &[20, 30, 3], &[5, 7, 3], Params::new().with("top", top));
        blur(&[8, 64, 4], 1.0);
        resize(&[20, 32, 4], &[10, 16, 4]);
        crop(1);
        run("sharpen", &[8, 64, 4], &[8, 64, 4], Params::new());
        let built = obtained(&device);
        blur(&[8, 64, 4], 2.5);
        blur(&[30, 128, 4], 0.7);
        resize(&[50, 64, 4], &[30, 32, 4]);
        crop(9);
        run("sharpen", &[9, 32, 4], &[9, 32, 4], Params::new().with("amount", 0.3));
        assert_eq!(obtained(&device), built, "{name}");
    }
}

/// A user's expression may read a table anywhere; outside counts as the nearest inside.
#[test]
fn tables_in_expressions() {
    for name in device_names() {
        let device = Device::open(&name).unwrap();
        device.define("look_up", "gather(table, x - 1) + 0.5", Definition::inputs(["x", "table"])).unwrap();
        let x: Vec<i32> = (-3..70).collect();
        for entries in [1usize, 5, 64] {
            let table: Vec<f32> = (0..entries).map(|entry| entry as f32 * 1.5).collect();
            let expected: Vec<f32> =
                x.iter().map(|x| table[(x - 1).clamp(0, entries as i32 - 1) as usize] + 0.5).collect();
            let x = upload(&device, &Data::S32(x.clone()), [x.len()]);
            let table = upload(&device, &Data::F32(table), [entries]);
            let out = filled_with_rubbish(&device, DType::F32, [expected.len()]);
            device.run("look_up", &[&x, &table], &out, ()).unwrap();
            assert_eq!(out.read::<f32>().unwrap(), expected, "{name} {entries}");
            // Nothing to look up in is refused, unless nothing is looked up.
            let empty = filled_with_rubbish(&device, DType::F32, [0]);
            assert_eq!(device.run("look_up", &[&x, &empty], &out, ()).unwrap_err().code(), "shape_mismatch");
        }
        let error = device.define("no_index", "gather(t, x * 0.5)", Definition::inputs(["x", "t"]));
        let x = filled_with_rubbish(&device, DType::F32, [4]);
        let ran = error.and_then(|()| device.run("no_index", &[&x, &x], &x, ()));
        assert!(ran.unwrap_err().to_string().contains("an index is an integer"));
    }
}

/// What does not fit is refused before a launch, with a message that says what would.
#[test]
fn refusals() {
    let device = Device::open(&device_names()[0]).unwrap();
    let image = filled_with_rubbish(&device, DType::U8, [8, 6, 3]);
    let floats = |shape: &[usize]| filled_with_rubbish(&device, DType::F32, shape);
    let launches = device.stats().launches;
    let refused = |kernel: &str, inputs: &[&Buffer], output: &Buffer, params: Params| {
        device.run(kernel, inputs, output, params).unwrap_err().to_string()
    };
    let out = filled_with_rubbish(&device, DType::U8, [8, 6, 4]);
    assert_eq!(
        refused("blur", &[&image], &out, Params::new()),
        "the output of kernel `blur` must have shape {8, 6, 3}, found {8, 6, 4}"
    );
    assert_eq!(
        refused("matmul", &[&floats(&[2, 3]), &floats(&[4, 5])], &floats(&[2, 5]), Params::new()),
        "input `b` of kernel `matmul` must have shape {..., 3, 5}, found {4, 5}"
    );
    assert_eq!(
        refused("softmax", &[&floats(&[2, 3])], &floats(&[2, 3]), [("axis", 2)].into()),
        "param `axis` of kernel `softmax` must be from -2 to 1, found 2"
    );
    assert_eq!(
        refused("crop", &[&image], &filled_with_rubbish(&device, DType::U8, [4, 6, 3]), [("top", 5)].into()),
        "param `top` of kernel `crop` must be from 0 to 4, found 5"
    );
    assert_eq!(refused("concat", &[], &image, Params::new()), "kernel `concat` takes 1 to 32 inputs, found 0");
    assert_eq!(
        refused("reduce_max", &[&floats(&[0, 3])], &floats(&[3]), [("axes", 0)].into()),
        "input `x` of kernel `reduce_max` must have shape at least one element along every reduced axis, found {0, 3}"
    );
    // Numbers that would overflow are outside, not inside again.
    let numbers = filled_with_rubbish(&device, DType::S32, [4]);
    let step = |step: i64| Params::new().with("step", vec![step]);
    assert_eq!(
        refused("slice", &[&numbers], &numbers, step(6_148_914_691_236_517_206)),
        "the output of kernel `slice` must have shape of at most 1 elements along axis 0, found {4}"
    );
    assert_eq!(
        refused("slice", &[&numbers], &numbers, step(-1)),
        "param `step` of kernel `slice` must be from 1 to 2147483647, found {-1}"
    );
    let counts = filled_with_rubbish(&device, DType::U32, [4]);
    let range = Params::new().with("min", -1e39).with("max", 1e39);
    assert!(refused("histogram", &[&floats(&[4])], &counts, range).contains("param `max`"));
    assert_eq!(device.stats().launches, launches);
}

/// Shapes with a zero beside sizes that no memory would hold have nothing to compute.
#[test]
fn empty_but_huge() {
    let device = Device::open(&device_names()[0]).unwrap();
    let launches = device.stats().launches;
    let side = 1usize << 36;
    let run = |kernel: &str, dtype, from: &[usize], to: &[usize]| {
        let (input, output) = (filled_with_rubbish(&device, dtype, from), filled_with_rubbish(&device, dtype, to));
        device.run(kernel, &[&input], &output, ()).unwrap_or_else(|error| panic!("{kernel}: {error}"));
    };
    run("blur", DType::U8, &[0, side], &[0, side]);
    run("softmax", DType::F32, &[0, side, side], &[0, side, side]);
    run("transpose", DType::F32, &[0, side, side], &[side, side, 0]);
    assert_eq!(device.stats().launches, launches);
}

/// NaN never wins, wherever it stands; one alone does.
#[test]
fn places_of_nan() {
    for name in device_names() {
        let device = Device::open(&name).unwrap();
        let mut line = vec![0.0f32; 32];
        line[..4].copy_from_slice(&[f32::NAN, 1.0, f32::NAN, 3.0]);
        line[17] = 100.0;
        for (shape, axes) in [(vec![32], vec![0i64]), (vec![16, 2], vec![0, 1]), (vec![32, 1], vec![0])] {
            let x = upload(&device, &Data::F32(line.clone()), shape);
            let out =
                filled_with_rubbish(&device, DType::S32, vec![1; 1 - usize::from(axes.len() == x.shape().rank())]);
            device.run("argmax", &[&x], &out, Params::new().with("axes", axes)).unwrap();
            assert_eq!(out.read::<i32>().unwrap(), [17], "{name}");
        }
        let nothing = upload(&device, &Data::F32(vec![f32::NAN; 5]), [5]);
        let out = filled_with_rubbish(&device, DType::S32, []);
        device.run("argmin", &[&nothing], &out, ()).unwrap();
        assert_eq!(out.read::<i32>().unwrap(), [0], "{name}");
    }
}

/// What lies outside is nothing, not a neighbour that is multiplied by nothing.
#[test]
fn zeros_outside() {
    for name in device_names() {
        let device = Device::open(&name).unwrap();
        for width in [7usize, 16] {
            let mut pixels = vec![0.0f32; 7 * width];
            pixels[0] = f32::INFINITY;
            let x = upload(&device, &Data::F32(pixels), [7, width]);
            let out = filled_with_rubbish(&device, DType::F32, [7, width]);
            device.run("blur", &[&x], &out, Params::new().with("border", "zero")).unwrap();
            let seen = out.read::<f32>().unwrap();
            let expected = |index: usize| if index % width < 2 && index / width < 2 { f32::INFINITY } else { 0.0 };
            assert!((0..7 * width).all(|index| seen[index] == expected(index)), "{name} {width}: {seen:?}");
        }
    }
}

/// A whole number too large to be exact is no integer, whatever was computed before.
#[test]
fn plans_are_not_mixed_up() {
    for name in device_names() {
        let device = Device::open(&name).unwrap();
        let x = upload(&device, &Data::S32(vec![16_777_217]), [1]);
        let out = filled_with_rubbish(&device, DType::S32, [1]);
        device.run("scalar_add", &[&x], &out, [("scalar", 1e16)]).unwrap();
        device.run("scalar_add", &[&x], &out, [("scalar", 1.0)]).unwrap();
        assert_eq!(out.read::<i32>().unwrap(), [16_777_218], "{name}");
    }
}

/// Positions are found in one way in small buffers and in another in large ones: both on either side of where they meet.
#[test]
fn rows_are_repeated_in_large_buffers() {
    for name in device_names() {
        let device = Device::open(&name).unwrap();
        for rows in [1498, 1500] {
            let columns = 1399;
            let sums = |at: usize| (at % columns) as i32 * 10_000 + (at / columns) as i32;
            let across = upload(&device, &Data::S32((0..columns as i32).map(|at| at * 10_000).collect()), [columns]);
            let down = upload(&device, &Data::S32((0..rows as i32).collect()), [rows, 1]);
            let out = filled_with_rubbish(&device, DType::S32, [rows, columns]);
            device.run("elementwise_add", &[&across, &down], &out, ()).unwrap();
            let found = out.read::<i32>().unwrap();
            assert!(found.iter().enumerate().all(|(at, sum)| *sum == sums(at)), "{name}: {rows} rows");
        }
    }
}
