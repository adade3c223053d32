//! Pictures of another size: weighted sums along each axis.

use dala_plan::work::{AxisSum, Fragment, Resample};
use dala_plan::{DeviceFacts, Lowering, Place, Step, Task};
use dala_spec::{DType, Data, ImageShape, Signature, SpecError, TensorType};

use super::{hand_on, load_float};
use crate::Reference;

/// How a pixel between pixels is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interpolation {
    Nearest,
    Bilinear,
    Bicubic,
    Area,
}

impl Interpolation {
    /// The words of a `filter` param.
    pub(crate) const WORDS: &'static [&'static str] = &["nearest", "bilinear", "bicubic", "area"];

    pub(crate) fn from_word(word: &str) -> Interpolation {
        match word {
            "nearest" => Interpolation::Nearest,
            "bicubic" => Interpolation::Bicubic,
            "area" => Interpolation::Area,
            _ => Interpolation::Bilinear,
        }
    }

    /// How far the weights reach.
    fn support(self) -> f64 {
        match self {
            Interpolation::Nearest | Interpolation::Area => 0.5,
            Interpolation::Bilinear => 1.0,
            Interpolation::Bicubic => 2.0,
        }
    }

    /// The weight at a distance.
    fn weight(self, x: f64) -> f64 {
        // Keys' cubic with the parameter that is exact for parabolas.
        const A: f64 = -0.5;
        let distance = x.abs();
        match self {
            Interpolation::Nearest | Interpolation::Area => f64::from(x > -0.5 && x <= 0.5),
            Interpolation::Bilinear => (1.0 - distance).max(0.0),
            Interpolation::Bicubic if distance < 1.0 => ((A + 2.0) * distance - (A + 3.0)) * distance * distance + 1.0,
            Interpolation::Bicubic if distance < 2.0 => (((distance - 5.0) * distance + 8.0) * distance - 4.0) * A,
            Interpolation::Bicubic => 0.0,
        }
    }
}

/// What each place after is made of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AxisTable {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) taps: usize,
    pub(crate) places: Vec<u32>,
    pub(crate) weights: Vec<f32>,
}

/// Part of an axis that is scaled from `from` to `to` places: `count` places from `start` on.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) start: usize,
    pub(crate) count: usize,
}

impl Window {
    /// All of it.
    pub(crate) fn whole(from: usize, to: usize) -> Window {
        Window { from, to, start: 0, count: to }
    }
}

impl AxisTable {
    /// The table of a window. Shrinking widens the weights if `antialias` says so.
    pub(crate) fn new(window: Window, filter: Interpolation, antialias: bool) -> AxisTable {
        let Window { from, to, start, count } = window;
        let scale = from as f64 / to as f64;
        let widened = if antialias { scale.max(1.0) } else { 1.0 };
        let support = filter.support() * widened;
        let row = |place: usize| -> (usize, Vec<f64>) {
            if filter == Interpolation::Nearest {
                // In whole numbers, so that no rounding decides between two pixels.
                return (((2 * place + 1) * from / (2 * to)).min(from - 1), vec![1.0]);
            }
            let centre = (place as f64 + 0.5) * scale;
            let first = (centre - support + 0.5).max(0.0) as usize;
            let end = ((centre + support + 0.5).max(0.0) as usize).clamp(first + 1, from.max(first + 1));
            let first = first.min(from - 1);
            let weigh = |at: usize| filter.weight((at as f64 + 0.5 - centre) / widened);
            let weights: Vec<f64> = (first..end.min(from)).map(weigh).collect();
            let sum: f64 = weights.iter().sum();
            (first, weights.iter().map(|weight| weight / sum).collect())
        };
        let rows: Vec<(usize, Vec<f64>)> = (start..start + count).map(row).collect();
        let taps = rows.iter().map(|(_, weights)| weights.len()).max().unwrap_or(1).max(1);
        let (mut places, mut weights) = (Vec::new(), Vec::new());
        for (first, row) in rows {
            for tap in 0..taps {
                places.push(if tap < row.len() { (first + tap) as u32 } else { AxisSum::NOWHERE });
                weights.push(row.get(tap).copied().unwrap_or(0.0) as f32);
            }
        }
        AxisTable { from, to: count, taps, places, weights }
    }

    fn constants(self, lowering: &mut Lowering) -> (Place, Place) {
        (lowering.constant(Data::U32(self.places)), lowering.constant(Data::F32(self.weights)))
    }

    /// The same as windows of `taps` neighbours that lie inside: the first of each, and their weights.
    fn windows(&self) -> Option<(Vec<i32>, Vec<f32>)> {
        let last = self.from.checked_sub(self.taps)?;
        let (mut firsts, mut weights) = (Vec::new(), vec![0.0; self.to * self.taps]);
        for at in 0..self.to {
            // Windows at the end start earlier, with nothing for those before.
            let first = (self.places[at * self.taps] as usize).min(last);
            firsts.push(first as i32);
            for (place, weight) in self.row(at).filter(|(_, weight)| *weight != 0.0) {
                let tap = place.checked_sub(first).filter(|tap| *tap < self.taps)?;
                weights[at * self.taps + tap] += weight as f32;
            }
        }
        Some((firsts, weights))
    }

    /// What place `at` is made of: positions and weights, for references.
    pub(crate) fn row(&self, at: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        let range = at * self.taps..(at + 1) * self.taps;
        let places = self.places[range.clone()].iter().zip(&self.weights[range]);
        let inside = places.filter(|(place, _)| **place != AxisSum::NOWHERE);
        inside.map(|(place, weight)| (*place as usize, f64::from(*weight)))
    }
}

/// A fragment that stores the sum as the output's type.
pub(crate) fn store_value(call: &Signature, from: DType) -> Result<Fragment, SpecError> {
    hand_on(from, call.output.dtype, call)
}

/// What a place is made of, by the plain definition.
pub(crate) fn reference(
    call: &Reference,
    down: &AxisTable,
    across: &AxisTable,
    (y, x): (usize, usize),
    channel: usize,
) -> f64 {
    let channels = call.signature.inputs[0].shape.image().map_or(1, |image| image.channels);
    let mut sum = 0.0;
    for (row, weight) in down.row(y) {
        for (column, across_weight) in across.row(x) {
            sum += weight * across_weight * call.float(0, (row * across.from + column) * channels + channel);
        }
    }
    sum
}

/// Resamples the first input, a picture, and writes what `store` makes of value 0 to `writes`.
pub(crate) fn resampled(
    lowering: &mut Lowering,
    call: &Signature,
    facts: &DeviceFacts,
    image: ImageShape,
    (down, across): (AxisTable, AxisTable),
    store: Fragment,
    writes: Place,
) -> Result<(), SpecError> {
    let dtype = call.inputs[0].dtype;
    if let Some(step) = in_one_pass(lowering, call, facts, image, (&down, &across), &store)? {
        let line = Resample::line(image.width, image.channels);
        let row = lowering.transient(TensorType::new(DType::F32, [facts.units_per_cube as usize, line]));
        lowering.steps.push(Step { writes: vec![writes, row], ..step });
        return Ok(());
    }
    let between = lowering.transient(TensorType::new(DType::F32, [down.to, image.width, image.channels]));
    let rows = down.to;
    let step = AxisSum {
        outer: 1,
        from: down.from,
        to: down.to,
        inner: image.width * image.channels,
        taps: down.taps,
        load: load_float(2, dtype, call)?,
        store: hand_on(DType::F32, DType::F32, call)?,
    };
    let tables = down.constants(lowering);
    lowering.step(Task::AxisSum(step), [tables.0, tables.1, Place::Input(0)], between);
    let step = AxisSum {
        outer: rows,
        from: across.from,
        to: across.to,
        inner: image.channels,
        taps: across.taps,
        load: load_float(2, DType::F32, call)?,
        store,
    };
    let tables = across.constants(lowering);
    lowering.step(Task::AxisSum(step), [tables.0, tables.1, between], writes);
    Ok(())
}

/// The launch that does it at once, where device and picture suit.
fn in_one_pass(
    lowering: &mut Lowering,
    call: &Signature,
    facts: &DeviceFacts,
    image: ImageShape,
    (down, across): (&AxisTable, &AxisTable),
    store: &Fragment,
) -> Result<Option<Step>, SpecError> {
    let (from, to, taps) = ((down.from, across.from), (down.to, across.to), (down.taps, across.taps));
    if !Resample::fits(facts) || image.channels > 4 {
        return Ok(None);
    }
    let (Some((rows, row_weights)), Some((columns, column_weights))) = (down.windows(), across.windows()) else {
        return Ok(None);
    };
    let reads = vec![
        lowering.constant(Data::S32(rows)),
        lowering.constant(Data::F32(row_weights)),
        lowering.constant(Data::S32(columns)),
        lowering.constant(Data::F32(column_weights)),
        Place::Input(0),
    ];
    let load = load_float(4, call.inputs[0].dtype, call)?;
    let task = Task::Resample(Resample { from, to, channels: image.channels, taps, load, store: store.clone() });
    Ok(Some(Step { task, reads, writes: Vec::new(), parts: Vec::new() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_sum_to_one_and_stay_inside() {
        for filter in [Interpolation::Nearest, Interpolation::Bilinear, Interpolation::Bicubic, Interpolation::Area] {
            for (from, to) in [(1, 1), (1, 7), (7, 1), (5, 5), (480, 300), (300, 480), (3, 2)] {
                for antialias in [false, true] {
                    let table = AxisTable::new(Window::whole(from, to), filter, antialias);
                    let inside = |place: &u32| *place == AxisSum::NOWHERE || (0..from as u32).contains(place);
                    assert!(table.places.iter().all(inside));
                    for at in 0..to {
                        let sum: f64 = table.row(at).map(|(_, weight)| weight).sum();
                        assert!((sum - 1.0).abs() < 1e-5, "{filter:?} {from} to {to}: {sum}");
                    }
                }
            }
        }
    }
}
