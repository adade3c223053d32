//! A recording at another rate: each new sample is a sum of those around its moment, weighted by a windowed sinc.

use std::f64::consts::PI;

/// Waves of the filter on each side of its middle: more cut more sharply.
const WAVES: usize = 24;
/// Points of the filter for each wave; between them it is a straight line.
const POINTS: usize = 512;
/// The share of the lower rate's band that passes; the rest is where the filter falls.
const PASSES: f64 = 0.92;
/// The shape of Kaiser's window: what should not pass is damped by about 80 decibels.
const KAISER: f64 = 8.0;
/// Weights that are kept: for the usual rates, those of all moments between two samples.
const MAX_KEPT: u64 = 1 << 20;

/// Changes the rate of a recording that comes in pieces; memory does not grow with its length.
#[derive(Clone, Debug)]
pub struct Resampler {
    from: u64,
    to: u64,
    /// The right half of the filter, from its middle.
    filter: Vec<f32>,
    /// Points of the filter that a sample of the recording takes.
    step: f64,
    /// Samples to each side that a new one is made of.
    reach: usize,
    /// The weights for each moment between two samples, if they are not too many, and how far apart these moments are.
    rows: Vec<Vec<f32>>,
    between: u64,
    /// What new samples still need, and `reach` of silence before the first.
    held: Vec<f32>,
    /// The number of the recording's sample that is `reach` after the first of `held`.
    first: u64,
    taken: u64,
    given: u64,
}

impl Resampler {
    /// From so many samples a second to so many; none of both may be 0, which counts as 1.
    pub fn new(from: u32, to: u32) -> Resampler {
        let (from, to) = (u64::from(from.max(1)), u64::from(to.max(1)));
        // In terms of the recording's samples: the lower of both rates says what passes.
        let pass = if from == to { 1.0 } else { PASSES * (to as f64 / from as f64).min(1.0) };
        let reach = (WAVES as f64 / pass).ceil() as usize;
        let point = |place: usize| {
            let wave = place as f64 / POINTS as f64;
            let sinc = if place == 0 { 1.0 } else { libm::sin(PI * wave) / (PI * wave) };
            (pass * sinc * kaiser(wave / WAVES as f64)) as f32
        };
        let filter = (0..=WAVES * POINTS).map(point).collect();
        let step = pass * POINTS as f64;
        let (held, between) = (vec![0.0; reach], common_divisor(from, to));
        let rows = Vec::new();
        let mut own = Resampler { from, to, filter, step, reach, rows, between, held, first: 0, taken: 0, given: 0 };
        let moments = to / between;
        if moments * (2 * reach as u64 + 1) <= MAX_KEPT {
            own.rows = (0..moments).map(|moment| own.row(moment * between)).collect();
        }
        own
    }

    /// Takes the next samples; adds those to `out` that are known by now.
    pub fn push(&mut self, samples: &[f32], out: &mut Vec<f32>) {
        self.taken += samples.len() as u64;
        if self.from == self.to {
            return out.extend(samples);
        }
        self.held.extend(samples);
        self.give(u64::MAX, out);
    }

    /// Adds the last samples to `out`: in all there are as many as the recording lasts. Nothing may follow.
    pub fn finish(&mut self, out: &mut Vec<f32>) {
        if self.from != self.to {
            self.held.resize(self.held.len() + self.reach + 1, 0.0);
            self.give((self.taken * self.to).div_ceil(self.from), out);
        }
    }

    /// Adds new samples, up to the one with this number, as long as all that they are made of is there.
    fn give(&mut self, end: u64, out: &mut Vec<f32>) {
        while self.given < end {
            let (place, rest) = (self.given * self.from / self.to, self.given * self.from % self.to);
            // The samples up to its moment begin here in `held`, and the last one after it is `2 * reach` further.
            let start = (place - self.first) as usize;
            let Some(around) = self.held.get(start..start + 2 * self.reach + 1) else { break };
            let computed;
            let row = match self.rows.get((rest / self.between) as usize) {
                Some(row) => row,
                None => {
                    computed = self.row(rest);
                    &computed
                }
            };
            let sum: f32 = around.iter().zip(row).map(|(sample, weight)| sample * weight).sum();
            out.push(sum);
            self.given += 1;
        }
        let done = (self.given * self.from / self.to - self.first) as usize;
        let done = done.min(self.held.len());
        self.held.drain(..done);
        self.first += done as u64;
    }

    /// What the samples around a moment count, which is `rest` parts of `to` after the middle one.
    fn row(&self, rest: u64) -> Vec<f32> {
        let rest = rest as f64 / self.to as f64;
        let weight = |tap: usize| {
            let point = (tap as f64 - self.reach as f64 - rest).abs() * self.step;
            let (whole, part) = (point as usize, (point - point.floor()) as f32);
            match self.filter.get(whole..whole + 2) {
                Some(&[a, b]) => a + (b - a) * part,
                _ => 0.0,
            }
        };
        (0..=2 * self.reach).map(weight).collect()
    }
}

/// A whole recording at another rate.
pub fn resample(samples: &[f32], from: u32, to: u32) -> Vec<f32> {
    let mut out = Vec::new();
    let mut resampler = Resampler::new(from, to);
    resampler.push(samples, &mut out);
    resampler.finish(&mut out);
    out
}

fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

/// Kaiser's window, from 1 in the middle to almost 0 at 1.
fn kaiser(place: f64) -> f64 {
    bessel(KAISER * libm::sqrt((1.0 - place * place).max(0.0))) / bessel(KAISER)
}

/// The modified Bessel function of order 0, by its series.
fn bessel(x: f64) -> f64 {
    let (mut sum, mut term) = (1.0, 1.0);
    for number in 1..40 {
        let factor = x / (2.0 * f64::from(number));
        term *= factor * factor;
        sum += term;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tone(hertz: f64, rate: u32, count: usize) -> Vec<f32> {
        (0..count).map(|place| libm::sin(2.0 * PI * hertz * place as f64 / f64::from(rate)) as f32).collect()
    }

    /// The largest difference, away from the ends.
    fn difference(a: &[f32], b: &[f32]) -> f32 {
        assert_eq!(a.len(), b.len());
        let inner = a.iter().zip(b).skip(200).take(a.len() - 400);
        inner.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
    }

    #[test]
    fn tones_stay_what_they_are() {
        for (from, to) in [(44_100, 16_000), (48_000, 16_000), (11_025, 16_000), (22_050, 8_000), (44_101, 16_000)] {
            for hertz in [50.0, 440.0, 3_000.0] {
                let count = from as usize / 4;
                let expected = tone(hertz, to, (count * to as usize).div_ceil(from as usize));
                let found = difference(&resample(&tone(hertz, from, count), from, to), &expected);
                assert!(found < 5e-4, "{hertz} Hz from {from} to {to}: {found}");
            }
        }
    }

    #[test]
    fn what_the_new_rate_cannot_hold_is_gone() {
        for (hertz, from, to) in [(9_000.0, 44_100, 16_000), (20_000.0, 48_000, 16_000), (5_000.0, 16_000, 8_000)] {
            let quiet = resample(&tone(hertz, from, 20_000), from, to);
            let most = quiet.iter().skip(200).take(quiet.len() - 400).fold(0.0f32, |most, own| most.max(own.abs()));
            assert!(most < 1e-3, "{hertz} Hz from {from} to {to}: {most}");
        }
    }

    #[test]
    fn pieces_give_the_same_as_the_whole() {
        let samples = tone(300.0, 44_100, 5_000);
        let whole = resample(&samples, 44_100, 16_000);
        for piece in [1, 7, 441, 4_999] {
            let mut resampler = Resampler::new(44_100, 16_000);
            let mut out = Vec::new();
            for part in samples.chunks(piece) {
                resampler.push(part, &mut out);
                assert!(resampler.held.len() < 4 * resampler.reach + piece);
            }
            resampler.finish(&mut out);
            assert_eq!(out, whole, "pieces of {piece}");
        }
    }

    #[test]
    fn the_same_rate_and_nothing_stay_as_they_are() {
        let samples = tone(300.0, 16_000, 100);
        assert_eq!(resample(&samples, 16_000, 16_000), samples);
        assert!(resample(&[], 44_100, 16_000).is_empty());
        assert_eq!(resample(&[1.0], 8_000, 16_000).len(), 2);
        assert_eq!(resample(&[1.0; 7], 48_000, 16_000).len(), 3);
    }
}
