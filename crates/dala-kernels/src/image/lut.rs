//! A lookup table: `{n}` for all channels, `{n, channels}` with a column for each, or a colour cube `{n, n, n, 3}` indexed by red, green
//! and blue. Between two entries, values are interpolated linearly. Alpha passes through, unless the table has a column for it.

use dala_spec::expr::{CompareOp, UnaryOp};
use dala_spec::{
    Class, DType, Data, Expr, KernelSpec, OutputDType, PIXELS, Shape, ShapeCall, ShapeProblem, Signature, Tolerance,
};

use crate::lower::{pixel, shapes};
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::new("lut", Class::Pixel)
        .alias("lut_apply")
        .summary("Lookup table: for each value, or a colour cube")
        .input("x", PIXELS)
        .side_input("table", PIXELS)
        .computed("the input's", OutputDType::Inputs, shape)
        .tolerance(Tolerance::close(64.0, 64.0).levels(1));
    Kernel::pointwise(spec, work).example(&[&[5, 7, 4], &[256]], &[5, 7, 4]).reference(reference)
}

fn shape(call: &ShapeCall) -> Result<Shape, ShapeProblem> {
    let image = shapes::image(call, 0)?;
    let fits = match *call.inputs[1].shape.dims() {
        [n] => n > 0,
        [n, columns] => n > 0 && columns == image.channels,
        [r, g, b, 3] => r > 0 && r == g && g == b && image.channels >= 3,
        _ => false,
    };
    let wanted = || format!("{{n}}, {{n, {}}} or, for colours, {{n, n, n, 3}}", image.channels);
    if fits { Ok(call.inputs[0].shape.clone()) } else { Err(ShapeProblem::Input(1, wanted())) }
}

/// The lower entry, and how far the value is towards the next, of a value on a scale of 0 to `full`.
fn entry(value: Expr, full: f64, n: usize) -> (Expr, Expr) {
    let unit = (value.cast(DType::F32) * (1.0 / full)).clamp(0.0, 1.0);
    let place = unit * Expr::number(n as f64 - 1.0);
    let lower = place.clone().unary(UnaryOp::Floor);
    // The last entry has no next: it is all of the one before.
    let lower = lower.min(Expr::number(n.saturating_sub(2) as f64));
    (lower.clone().cast(DType::S32), place - lower)
}

fn work(call: &Signature) -> Expr {
    let (x, table) = (|| Expr::input("x"), |at: Expr| Expr::input("table").gather(at).cast(DType::F32));
    let (full, dims) = (pixel::full(call.inputs[0].dtype), call.inputs[1].shape.dims());
    let mix = |a: Expr, b: Expr, t: Expr| a.clone() + (b - a) * t;
    match *dims {
        [n, ref columns @ ..] if dims.len() <= 2 => {
            let at = |entry: Expr| match columns {
                [columns] if *columns > 1 => entry * Expr::size(*columns) + Expr::channel(),
                _ => entry,
            };
            let result = if n == 256 && call.inputs[0].dtype == DType::U8 {
                // Every value has an entry of its own.
                table(at(x().cast(DType::S32)))
            } else {
                let (entry, t) = entry(x(), full, n);
                mix(table(at(entry.clone())), table(at(entry + 1)), t)
            };
            if columns.is_empty() { pixel::but_alpha(call, result) } else { result }
        }
        [n, ..] => {
            let parts: Vec<(Expr, Expr)> = (0..3).map(|channel| entry(x().channel_of(channel), full, n)).collect();
            let channel = || Expr::channel().min(2);
            let corner = |r: i64, g: i64, b: i64| {
                let row = (parts[0].0.clone() + r) * Expr::size(n) + (parts[1].0.clone() + g);
                let cell = row * Expr::size(n) + (parts[2].0.clone() + b);
                table(cell * 3 + channel())
            };
            let along_b = |r, g| mix(corner(r, g, 0), corner(r, g, 1), parts[2].1.clone());
            let along_g = |r| mix(along_b(r, 0), along_b(r, 1), parts[1].1.clone());
            let colour = mix(along_g(0), along_g(1), parts[0].1.clone());
            match call.output.shape.dims() {
                [_, _, 4] => Expr::select(Expr::channel().compare(CompareOp::Eq, 3), x(), colour),
                _ => colour,
            }
        }
        [] => x(),
    }
}

fn reference(call: &Reference) -> Data {
    let (full, dims) = (pixel::full(call.dtype()), call.signature.inputs[1].shape.dims());
    let channels = call.signature.output.shape.image().map_or(1, |image| image.channels);
    let n = dims[0];
    let entry = |value: f64| {
        let place = (value / full).clamp(0.0, 1.0) * (n - 1) as f64;
        let lower = place.floor().min(n.saturating_sub(2) as f64);
        (lower as usize, place - lower)
    };
    // An entry beyond the last one is the last one.
    let table = |at: usize| call.float(1, at.min(call.inputs[1].len() - 1));
    call.numbers(|index| {
        let channel = index % channels;
        let value = call.float(0, index);
        match dims {
            [_] | [_, _, _, _] if channel == 3 => value,
            [_] | [_, _] => {
                let (columns, column) = if dims.len() == 2 { (dims[1], channel) } else { (1, 0) };
                let (lower, t) = entry(value);
                let (a, b) = (table(lower * columns + column), table((lower + 1) * columns + column));
                a + (b - a) * t
            }
            _ => {
                let first = index - channel;
                let parts: Vec<(usize, f64)> = (0..3).map(|part| entry(call.float(0, first + part))).collect();
                let mut sum = 0.0;
                for corner in 0..8 {
                    let (mut at, mut weight) = (0, 1.0);
                    for (part, (lower, t)) in parts.iter().enumerate() {
                        let up = corner >> part & 1;
                        at = at * n + (lower + up).min(n - 1);
                        weight *= if up == 1 { *t } else { 1.0 - t };
                    }
                    sum += weight * table(at * 3 + channel);
                }
                sum
            }
        }
    })
}
