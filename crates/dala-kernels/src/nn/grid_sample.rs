//! A picture sampled at places that a grid says: `{batch, channels, height, width}` and a grid `{batch, rows, columns, 2}` of x and y
//! from -1 to 1 give `{batch, channels, rows, columns}`; lines and volumes, with one and three axes, likewise. Between pixels it is the
//! nearest, or a sum of neighbours (`linear`, `cubic`, which is not for volumes). Outside there is nothing (`zeros`), the nearest pixel
//! (`border`), or the picture mirrored (`reflection`).

use dala_plan::{DeviceFacts, Lowering, Place};
use dala_spec::expr::{CompareOp, LogicOp, UnaryOp};
use dala_spec::{
    Class, DType, Data, Expr, FLOATS, KernelSpec, OutputDType, ParamKind, ResolvedParams, Shape, ShapeCall,
    ShapeProblem, Signature, SpecError, TensorType, Tolerance, param,
};

use crate::keys::{ALIGN_CORNERS, MODE, OUTSIDE};
use crate::lower::halves::in_f32;
use crate::lower::index::is_inside;
use crate::lower::{map, position};
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::new("grid_sample", Class::Stencil)
        .summary("A picture sampled at the places that a grid says")
        .input("x", FLOATS)
        .input("grid", FLOATS)
        .computed("{batch, channels, rows, columns}: a pixel for each place", OutputDType::Inputs, shape)
        .param(
            param(MODE, ParamKind::words(&["linear", "nearest", "cubic"]))
                .default("linear")
                .summary("what is between pixels"),
        )
        .param(
            param(OUTSIDE, ParamKind::words(&["zeros", "border", "reflection"]))
                .default("zeros")
                .summary("what is outside the picture"),
        )
        .param(
            param(ALIGN_CORNERS, ParamKind::Bool)
                .default(false)
                .summary("whether -1 and 1 are the middles of the first and last pixels, and not their far sides"),
        )
        .tolerance(Tolerance::close(4096.0, 4096.0));
    Kernel::lowered(spec, in_f32(lower)).example(&[&[1, 2, 4, 5], &[1, 3, 2, 2]], &[1, 2, 3, 2]).reference(reference)
}

fn shape(call: &ShapeCall) -> Result<Shape, ShapeProblem> {
    let (dims, grid) = (call.inputs[0].shape.dims(), call.inputs[1].shape.dims());
    let most = if call.params.word(MODE) == "cubic" { 2 } else { 3 };
    let (&[batch, channels, ref sizes @ ..], Some((&axes, places))) = (dims, grid.split_last()) else {
        return Err(ShapeProblem::Input(0, "{batch, channels, height, width}".to_owned()));
    };
    if !(1..=most).contains(&sizes.len()) || sizes.contains(&0) {
        return Err(ShapeProblem::Input(0, format!("with pixels along one to {most} axes after batch and channels")));
    }
    match places.split_first() {
        Some((&own, places)) if own == batch && places.len() == sizes.len() && axes == sizes.len() => {
            Ok(Shape::new([&[batch, channels], places].concat()))
        }
        _ => Err(ShapeProblem::Input(1, format!("{{{batch}, …, {}}} with as many axes as the picture", sizes.len()))),
    }
}

/// What the params say.
#[derive(Clone, Copy)]
struct Way<'a> {
    mode: &'a str,
    outside: &'a str,
    aligned: bool,
}

impl<'a> Way<'a> {
    fn of(params: &'a ResolvedParams) -> Way<'a> {
        Way { mode: params.word(MODE), outside: params.word(OUTSIDE), aligned: params.flag(ALIGN_CORNERS) }
    }

    /// Where the picture ends along an axis.
    fn ends(self, size: usize) -> (f64, f64) {
        if self.aligned { (0.0, size as f64 - 1.0) } else { (-0.5, size as f64 - 0.5) }
    }
}

/// Weights of four neighbours, by how far the place is from the second of them.
const CUBIC: f64 = -0.75;

fn near<T>(x: T, number: impl Fn(f64) -> T) -> T
where
    T: Clone + std::ops::Add<Output = T> + std::ops::Mul<Output = T>,
{
    (number(CUBIC + 2.0) * x.clone() + number(-CUBIC - 3.0)) * x.clone() * x + number(1.0)
}

fn far<T>(x: T, number: impl Fn(f64) -> T) -> T
where
    T: Clone + std::ops::Add<Output = T> + std::ops::Mul<Output = T>,
{
    ((number(CUBIC) * x.clone() + number(-5.0 * CUBIC)) * x.clone() + number(8.0 * CUBIC)) * x + number(-4.0 * CUBIC)
}

/// Neighbours of a place and their weights, along one axis.
fn taps(way: Way, place: Expr) -> Vec<(Expr, Option<Expr>)> {
    let whole = |place: Expr| place.cast(DType::S32);
    if way.mode == "nearest" {
        return vec![(whole(place.unary(UnaryOp::Round)), None)];
    }
    let floor = place.clone().unary(UnaryOp::Floor);
    let rest = place - floor.clone();
    let first = whole(floor);
    let number = Expr::number;
    if way.mode == "linear" {
        return vec![(first.clone(), Some(number(1.0) - rest.clone())), (first + 1, Some(rest))];
    }
    let back = number(1.0) - rest.clone();
    vec![
        (first.clone() - 1, Some(far(rest.clone() + number(1.0), number))),
        (first.clone(), Some(near(rest, number))),
        (first.clone() + 1, Some(near(back.clone(), number))),
        (first + 2, Some(far(back + number(1.0), number))),
    ]
}

/// A place mirrored at both ends until it is inside.
fn mirrored(place: Expr, (low, high): (f64, f64)) -> Expr {
    let range = high - low;
    if range == 0.0 {
        return Expr::number(low) + place * Expr::number(0.0);
    }
    // Twice the range is one way there and back.
    let turned = (place - Expr::number(low)).unary(UnaryOp::Abs);
    let rounds = (turned.clone() * Expr::number(0.5 / range)).unary(UnaryOp::Floor);
    let rest = turned - rounds * Expr::number(2.0 * range);
    let back = Expr::number(range) - (rest - Expr::number(range)).unary(UnaryOp::Abs);
    back + Expr::number(low)
}

fn lower(call: &Signature, _: &DeviceFacts) -> Result<Lowering, SpecError> {
    let (x, grid, mut lowering) = (&call.inputs[0], &call.inputs[1], Lowering::new());
    let way = Way::of(&call.params);
    let (channels, sizes) = (x.shape.dims()[1], &x.shape.dims()[2..]);
    let places: usize = call.output.shape.dims()[2..].iter().product();
    let mut coordinates = position::coordinates(&[x.shape.dims()[0], channels, places]).into_iter();
    let mut next = || coordinates.next().unwrap_or(Expr::from(0));
    let (batch, channel, at) = (next(), next(), next());
    let axes = sizes.len();
    let entry = Expr::local("entry");
    // For each axis, its neighbours as names.
    let mut names: Vec<(String, Expr)> = vec![
        ("entry".to_owned(), (batch.clone() * Expr::size(places) + at) * Expr::size(axes)),
        ("plane".to_owned(), (batch * Expr::size(channels) + channel) * Expr::size(sizes.iter().product())),
    ];
    let mut combined: Vec<(Expr, Option<Expr>, Option<Expr>)> = vec![(Expr::local("plane"), None, None)];
    let mut stride: usize = sizes.iter().product();
    for (axis, &size) in sizes.iter().enumerate() {
        stride /= size;
        let found = Expr::input("grid").gather(entry.clone() + Expr::size(axes - 1 - axis));
        let (scale, offset) = match way.aligned {
            true => ((size as f64 - 1.0) / 2.0, (size as f64 - 1.0) / 2.0),
            false => (size as f64 / 2.0, (size as f64 - 1.0) / 2.0),
        };
        let mut place = found * Expr::number(scale) + Expr::number(offset);
        if way.mode == "nearest" {
            place = place.unary(UnaryOp::Round);
        }
        place = match way.outside {
            "border" if way.mode != "cubic" => place.clamp(Expr::number(0.0), Expr::number(size as f64 - 1.0)),
            "reflection" => {
                let ends = way.ends(size);
                let mirrored = mirrored(place.clone(), ends);
                let below = place.clone().compare(CompareOp::Lt, Expr::number(ends.0));
                let above = place.clone().compare(CompareOp::Gt, Expr::number(ends.1));
                Expr::select(below, mirrored.clone(), Expr::select(above, mirrored, place))
            }
            _ => place,
        };
        names.push((format!("place{axis}"), place));
        let own = taps(way, Expr::local(format!("place{axis}")));
        let mut all = Vec::new();
        for (number, (tap, weight)) in own.into_iter().enumerate() {
            let inside = match way.outside {
                "border" => tap.clone().clamp(0, Expr::size(size - 1)),
                "reflection" => {
                    let found = mirrored(tap.clone().cast(DType::F32), way.ends(size)).cast(DType::S32);
                    let is_in = is_inside(tap.clone(), size);
                    Expr::select(is_in, tap.clone(), found).clamp(0, Expr::size(size - 1))
                }
                _ => tap.clone(),
            };
            let (tap_name, weight_name) = (format!("tap{axis}{number}"), format!("weight{axis}{number}"));
            names.push((tap_name.clone(), inside));
            let weight = weight.map(|weight| {
                names.push((weight_name.clone(), weight));
                Expr::local(weight_name)
            });
            let tap = Expr::local(tap_name);
            let is_in = (way.outside == "zeros").then(|| is_inside(tap.clone(), size));
            for (place, product, inside) in &combined {
                let place = place.clone() + tap.clone() * Expr::size(stride);
                let product = match (product.clone(), weight.clone()) {
                    (Some(a), Some(b)) => Some(a * b),
                    (a, b) => a.or(b),
                };
                let inside = match (inside.clone(), is_in.clone()) {
                    (Some(a), Some(b)) => Some(a.logic(LogicOp::And, b)),
                    (a, b) => a.or(b),
                };
                all.push((place, product, inside));
            }
        }
        combined = all;
    }
    let terms = combined.into_iter().map(|(place, weight, inside)| {
        let mut value = Expr::input("x").gather(place);
        if let Some(inside) = inside {
            value = Expr::select(inside, value, Expr::number(0.0));
        }
        weight.map_or(value.clone(), |weight| value * weight)
    });
    let sum = terms.reduce(|sum, term| sum + term).unwrap_or(Expr::number(0.0));
    let expr = names.into_iter().rev().fold(sum, |rest, (name, value)| Expr::with_local(name, value, rest));
    let flat = |ty: &TensorType| TensorType::new(ty.dtype, [ty.shape.len()]);
    let task = map(&expr, &[("x", flat(x)), ("grid", flat(grid))], flat(&call.output), call)?;
    lowering.step(task, [Place::Input(0), Place::Input(1)], Place::Output);
    Ok(lowering)
}

fn reference(call: &Reference) -> Data {
    let (dims, way) = (call.signature.inputs[0].shape.dims(), Way::of(call.params()));
    let (channels, sizes) = (dims[1], &dims[2..]);
    let places: usize = call.signature.output.shape.dims()[2..].iter().product();
    let reflect = |place: f64, (low, high): (f64, f64)| {
        let range = high - low;
        if range == 0.0 || (low..=high).contains(&place) {
            return place.clamp(low, high);
        }
        let rest = (place - low).abs() % (2.0 * range);
        low + range - (rest - range).abs()
    };
    call.numbers(|index| {
        let (plane, at) = (index / places, index % places);
        let entry = (plane / channels * places + at) * sizes.len();
        let mut combined = vec![(Some(plane), 1.0)];
        for (axis, &size) in sizes.iter().enumerate() {
            let found = call.float(1, entry + sizes.len() - 1 - axis);
            let mut place = match way.aligned {
                true => (found + 1.0) / 2.0 * (size as f64 - 1.0),
                false => ((found + 1.0) * size as f64 - 1.0) / 2.0,
            };
            if way.mode == "nearest" {
                place = place.round_ties_even();
            }
            place = match way.outside {
                "border" if way.mode != "cubic" => place.clamp(0.0, size as f64 - 1.0),
                "reflection" => reflect(place, way.ends(size)),
                _ => place,
            };
            let (floor, rest) = (place.floor(), place - place.floor());
            let number = |value: f64| value;
            let taps = match way.mode {
                "nearest" => vec![(place.round_ties_even(), 1.0)],
                "linear" => vec![(floor, 1.0 - rest), (floor + 1.0, rest)],
                _ => vec![
                    (floor - 1.0, far(rest + 1.0, number)),
                    (floor, near(rest, number)),
                    (floor + 1.0, near(1.0 - rest, number)),
                    (floor + 2.0, far(2.0 - rest, number)),
                ],
            };
            let inside = |tap: f64| match way.outside {
                "border" => Some(tap.clamp(0.0, size as f64 - 1.0) as usize),
                "reflection" => Some((reflect(tap, way.ends(size)) as usize).min(size - 1)),
                _ => (0.0..size as f64).contains(&tap).then_some(tap as usize),
            };
            let along = |(at, weight): &(Option<usize>, f64)| {
                let next = |(tap, own): &(f64, f64)| {
                    let found = at.and_then(|at| Some(at * size + inside(*tap)?));
                    (found, weight * own)
                };
                taps.iter().map(next).collect::<Vec<_>>()
            };
            combined = combined.iter().flat_map(along).collect();
        }
        combined.iter().filter_map(|(at, weight)| Some(call.float(0, (*at)?) * weight)).sum()
    })
}
