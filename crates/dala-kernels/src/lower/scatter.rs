//! Updates that are put at places which indices say: in order, so that the same comes out everywhere.
//!
//! Lines along the axis are independent of each other. A unit has a part of a line, and goes through all updates of the line.

use std::sync::Arc;

use cubecl::prelude::*;
use dala_plan::{DeviceFacts, Lowering, Place};
use dala_spec::expr::{BinaryOp, apply_binary};
use dala_spec::{DType, Expr, KernelSpec, ParamKind, Scalar, Signature, SpecError, TensorType, param};

use super::map;
use crate::keys::REDUCTION;
use crate::launch::{CubeFunction, CubeLaunch, Grid, LaunchRefused, cube_task};

/// What becomes of an element and an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reduction {
    Add,
    Mul,
    Max,
    Min,
}

impl Reduction {
    /// That of a call; none if the last update counts.
    pub(crate) fn of(call: &Signature) -> Option<Reduction> {
        match call.params.word(REDUCTION) {
            "add" => Some(Reduction::Add),
            "mul" => Some(Reduction::Mul),
            "max" => Some(Reduction::Max),
            "min" => Some(Reduction::Min),
            _ => None,
        }
    }

    /// The same in plain Rust, of two values as they are computed with.
    pub(crate) fn apply(self, a: Scalar, b: Scalar) -> Scalar {
        let op = match self {
            Reduction::Add => BinaryOp::Add,
            Reduction::Mul => BinaryOp::Mul,
            Reduction::Max => BinaryOp::Max,
            Reduction::Min => BinaryOp::Min,
        };
        apply_binary(op, a, b)
    }
}

/// The param that says it.
pub(crate) fn with_reduction(spec: KernelSpec) -> KernelSpec {
    spec.param(param(REDUCTION, ParamKind::words(&["none", "add", "mul", "max", "min"])).default("none").summary(
        "what becomes of an element and its updates: the last of them, or their sum, product, largest or smallest",
    ))
}

/// Lines `{outer, size, inner}` and as many updates for each as `count` says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lines {
    pub(crate) outer: usize,
    pub(crate) size: usize,
    pub(crate) inner: usize,
    pub(crate) count: usize,
    /// Whether the places are the same for lines side by side: `{outer, count}`, not `{outer, count, inner}`.
    pub(crate) shared: bool,
}

/// The number of the last update for each element, or -1. `places` are where updates go, and -1 for nowhere.
pub(crate) fn last_updates(
    lowering: &mut Lowering,
    call: &Signature,
    facts: &DeviceFacts,
    lines: Lines,
    places: (Place, TensorType),
) -> (Place, TensorType) {
    let ty = TensorType::new(DType::S32, [lines.outer, lines.size, lines.inner]);
    let last = lowering.transient(ty.clone());
    let function: Arc<dyn CubeFunction> = Arc::new(Scatter { lines, how: None });
    let step = Signature { inputs: vec![places.1], output: ty.clone(), params: call.params.clone() };
    lowering.step(cube_task("scatter", &function, step, facts), [places.0], last);
    (last, ty)
}

/// An input as devices compute with it.
pub(crate) fn widened(
    lowering: &mut Lowering,
    call: &Signature,
    number: usize,
) -> Result<(Place, TensorType), SpecError> {
    let own = &call.inputs[number];
    let wide = TensorType { dtype: own.dtype.register(), shape: own.shape.clone() };
    if wide == *own {
        return Ok((Place::Input(number), wide));
    }
    let place = lowering.transient(wide.clone());
    let task = map(&Expr::input("x"), &[("x", own.clone())], wide.clone(), call)?;
    lowering.step(task, [Place::Input(number)], place);
    Ok((place, wide))
}

/// Writes the second input with all updates of its places, which are of the type that devices compute with.
pub(crate) fn joined(
    lowering: &mut Lowering,
    call: &Signature,
    facts: &DeviceFacts,
    (lines, how): (Lines, Reduction),
    places: (Place, TensorType),
    updates: (Place, TensorType),
) -> Result<(), SpecError> {
    let x = widened(lowering, call, 1)?;
    let wide = x.1.clone();
    let writes = if wide == call.output { Place::Output } else { lowering.transient(wide.clone()) };
    let function: Arc<dyn CubeFunction> = Arc::new(Scatter { lines, how: Some(how) });
    let inputs = vec![x.1, places.1, updates.1];
    let step = Signature { inputs, output: wide.clone(), params: call.params.clone() };
    lowering.step(cube_task("scatter", &function, step, facts), [x.0, places.0, updates.0], writes);
    if writes != Place::Output {
        let task = map(&Expr::input("x"), &[("x", wide)], call.output.clone(), call)?;
        lowering.step(task, [writes], Place::Output);
    }
    Ok(())
}

struct Scatter {
    lines: Lines,
    /// None for the number of the last update.
    how: Option<Reduction>,
}

impl Scatter {
    /// In how many parts each line is, so that there is work for all units.
    fn parts(&self, facts: &DeviceFacts) -> usize {
        let wanted: usize = if facts.cpu { 2 * facts.units_per_cube as usize } else { 1024 };
        let Lines { outer, size, inner, .. } = self.lines;
        wanted.div_ceil((outer * inner).max(1)).clamp(1, size.max(1))
    }
}

impl CubeFunction for Scatter {
    fn grid(&self, _: &Signature, facts: &DeviceFacts) -> Grid {
        Grid::one_each(self.lines.outer * self.lines.inner * self.parts(facts), facts)
    }

    fn launch(&self, launch: &CubeLaunch) -> Result<(), LaunchRefused> {
        let Lines { outer, size, inner, count, shared } = self.lines;
        let parts = self.parts(launch.facts());
        let number = |value: usize| u32::try_from(value).map_err(|_| LaunchRefused("it is too large".to_owned()));
        let sizes = SizesLaunch::new(
            number(outer * inner * parts)?,
            number(parts)?,
            number(size.div_ceil(parts))?,
            number(size)?,
            number(inner)?,
            number(count)?,
            number(if shared { 1 } else { inner })?,
            u32::from(!shared),
        );
        let (client, cubes, dim) = (launch.client(), launch.count(), launch.dim());
        let Some(how) = self.how else {
            number_updates::launch(client, cubes, dim, launch.input(0)?, launch.output()?, sizes);
            return Ok(());
        };
        let (x, places, updates) = (launch.input(0)?, launch.input(1)?, launch.input(2)?);
        let out = launch.output()?;
        match launch.call().output.dtype {
            DType::F32 => add_updates::launch::<f32>(client, cubes, dim, x, places, updates, out, sizes, how),
            DType::F64 => add_updates::launch::<f64>(client, cubes, dim, x, places, updates, out, sizes, how),
            DType::S32 => add_updates::launch::<i32>(client, cubes, dim, x, places, updates, out, sizes, how),
            DType::S64 => add_updates::launch::<i64>(client, cubes, dim, x, places, updates, out, sizes, how),
            DType::U32 => add_updates::launch::<u32>(client, cubes, dim, x, places, updates, out, sizes, how),
            DType::U64 => add_updates::launch::<u64>(client, cubes, dim, x, places, updates, out, sizes, how),
            other => return Err(LaunchRefused(format!("{other} is not computed with"))),
        }
        Ok(())
    }
}

/// What a unit needs to know.
#[derive(CubeLaunch, CubeType)]
struct Sizes {
    units: u32,
    /// Parts of a line, and how much of it each has.
    parts: u32,
    share: u32,
    size: u32,
    inner: u32,
    count: u32,
    /// How far apart places are, and those of lines side by side.
    step: u32,
    side: u32,
}

#[cube(launch)]
fn number_updates(places: &[i32], last: &mut [i32], sizes: &Sizes) {
    let unit = ABSOLUTE_POS as u32;
    if unit < sizes.units {
        let line = unit / sizes.parts;
        let begin = unit % sizes.parts * sizes.share;
        let end = min(begin + sizes.share, sizes.size);
        let (block, beside) = (line / sizes.inner, line % sizes.inner);
        let first = block * sizes.size * sizes.inner + beside;
        for at in begin..end {
            last[(first + at * sizes.inner) as usize] = -1i32;
        }
        for number in 0..sizes.count {
            let place = places[((block * sizes.count + number) * sizes.step + beside * sizes.side) as usize] as u32;
            if place >= begin && place < end {
                last[(first + place * sizes.inner) as usize] = number as i32;
            }
        }
    }
}

#[cube(launch)]
fn add_updates<T: Numeric>(
    x: &[T],
    places: &[i32],
    updates: &[T],
    out: &mut [T],
    sizes: &Sizes,
    #[comptime] how: Reduction,
) {
    let unit = ABSOLUTE_POS as u32;
    if unit < sizes.units {
        let line = unit / sizes.parts;
        let begin = unit % sizes.parts * sizes.share;
        let end = min(begin + sizes.share, sizes.size);
        let (block, beside) = (line / sizes.inner, line % sizes.inner);
        let first = block * sizes.size * sizes.inner + beside;
        for at in begin..end {
            let own = (first + at * sizes.inner) as usize;
            out[own] = x[own];
        }
        for number in 0..sizes.count {
            let entry = block * sizes.count + number;
            let place = places[(entry * sizes.step + beside * sizes.side) as usize] as u32;
            if place >= begin && place < end {
                let own = (first + place * sizes.inner) as usize;
                let (a, b) = (out[own], updates[(entry * sizes.inner + beside) as usize]);
                if comptime!(how == Reduction::Add) {
                    out[own] = a + b;
                } else if comptime!(how == Reduction::Mul) {
                    out[own] = a * b;
                } else if comptime!(how == Reduction::Max) {
                    out[own] = max(a, b);
                } else {
                    out[own] = min(a, b);
                }
            }
        }
    }
}
