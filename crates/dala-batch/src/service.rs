//! What runs take: measured for each planned size, guessed for those that were not.

use std::time::Duration;

use crate::Sizes;
use crate::time::nanos;

/// Of a mean of many, how much a new measurement counts.
const GAIN: f64 = 1.0 / 8.0;

/// How fast an estimate fades that keeps its size from being used.
const FADE: f64 = 1.0 / 256.0;

/// What a run of one size took, so far.
#[derive(Clone, Copy, Debug)]
struct Measured {
    mean: f64,
    /// The mean distance from the mean.
    deviation: f64,
    count: u32,
}

impl Measured {
    fn first(nanos: f64) -> Measured {
        Measured { mean: nanos, deviation: nanos / 8.0, count: 1 }
    }

    fn learn(&mut self, nanos: f64) {
        // Runs have outliers upwards only. One that took half as long as was expected shows that the mean was one.
        if 2.0 * nanos < self.mean {
            *self = Measured::first(nanos);
            return;
        }
        let nanos = nanos.min(2.0 * self.mean + 4.0 * self.deviation);
        let gain = GAIN.max(1.0 / f64::from(self.count + 1));
        self.deviation += ((nanos - self.mean).abs() - self.deviation) * gain.max(0.25);
        self.mean += (nanos - self.mean) * gain;
        self.count = self.count.saturating_add(1);
    }
}

/// What runs of a key take.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    sizes: Sizes,
    measured: Vec<Option<Measured>>,
    /// Nanoseconds for each size, none of them zero. All the same as long as nothing is known.
    costs: Vec<u64>,
}

impl Service {
    pub(crate) fn new(sizes: Sizes) -> Service {
        let count = sizes.as_slice().len();
        Service { measured: vec![None; count], costs: vec![1; count], sizes }
    }

    /// Whether anything was measured or assumed.
    pub(crate) fn is_known(&self) -> bool {
        self.measured.iter().any(Option::is_some)
    }

    /// A run of a size took so long.
    pub(crate) fn learn(&mut self, size: u32, took: Duration) {
        let nanos = nanos(took).max(1) as f64;
        let Ok(place) = self.sizes.as_slice().binary_search(&size) else { return };
        let Some(own) = self.measured.get_mut(place) else { return };
        let mean = match own {
            Some(known) => {
                known.learn(nanos);
                known.mean
            }
            None => own.insert(Measured::first(nanos)).mean,
        };
        // Nobody would use a plan that is worse than runs of this one, and so its time would never be measured again.
        for (other, known) in self.sizes.as_slice().iter().zip(&mut self.measured) {
            if let Some(known) = known {
                let bound = mean * (f64::from(*other) / f64::from(size)).max(1.0);
                known.mean -= (known.mean - 0.9 * bound) * if known.mean > bound { FADE } else { 0.0 };
            }
        }
        self.fill();
    }

    /// A run of a size will take so long, as far as anybody knows.
    pub(crate) fn assume(&mut self, size: u32, takes: Duration) {
        let nanos = nanos(takes).max(1) as f64;
        let Ok(place) = self.sizes.as_slice().binary_search(&size) else { return };
        if let Some(own) = self.measured.get_mut(place) {
            *own = Some(Measured::first(nanos));
            self.fill();
        }
    }

    pub(crate) fn sizes(&self) -> &Sizes {
        &self.sizes
    }

    /// Each size with the nanoseconds of a run.
    pub(crate) fn runs(&self) -> impl DoubleEndedIterator<Item = (u32, u64)> + '_ {
        self.sizes.as_slice().iter().copied().zip(self.costs.iter().copied())
    }

    /// Nanoseconds of a run of a size.
    pub(crate) fn cost(&self, size: u32) -> u64 {
        self.runs().find(|(own, _)| *own == size).map_or(1, |(_, cost)| cost)
    }

    /// Nanoseconds of the smallest run that holds so many items.
    pub(crate) fn least(&self, items: u32) -> u64 {
        self.runs().find(|(size, _)| *size >= items).map_or(1, |(_, cost)| cost)
    }

    /// The run with the most items in a second when so many wait: what is full, or what is worth its empty places. A plan
    /// with empty places is chosen only if no others together are cheaper, because none has more items in a second.
    pub(crate) fn fastest(&self, items: u64) -> (u32, u64) {
        let mut best = (1, u64::MAX);
        for (size, cost) in self.runs() {
            if is_faster((items.min(size.into()), cost), (items.min(best.0.into()), best.1)) {
                best = (size, cost);
            }
        }
        best
    }

    /// Nanoseconds to run so many items, one batch after the other.
    pub(crate) fn time_for(&self, mut items: u64) -> u64 {
        let mut total: u64 = 0;
        while items > 0 {
            let (size, cost) = self.fastest(items);
            let runs = (items / u64::from(size)).max(1);
            total = total.saturating_add(cost.saturating_mul(runs));
            items = items.saturating_sub(runs.saturating_mul(size.into()));
        }
        total
    }

    /// Nanoseconds by which runs of the best size are usually off.
    pub(crate) fn deviation(&self) -> u64 {
        let (size, _) = self.fastest(u64::MAX);
        let known = self.sizes.as_slice().iter().zip(&self.measured).find(|(own, _)| **own == size);
        known.and_then(|(_, measured)| *measured).map_or(0, |measured| measured.deviation as u64)
    }

    /// Nanoseconds until the last of so many items starts, and of its run, if the first start after `before`. Others that come
    /// meanwhile, one every `gap`, fill its batch up.
    pub(crate) fn answer(&self, items: u64, before: u64, gap: Option<f64>) -> (u64, u64) {
        let (size, cost) = self.fastest(u64::MAX);
        let full = items.saturating_sub(1) / u64::from(size);
        let (before, rest) = (before.saturating_add(full.saturating_mul(cost)), items - full * u64::from(size));
        let meanwhile = gap.map_or(0, |gap| (before as f64 / gap.max(1.0)) as u64);
        let (last, cost) = self.fastest(rest.saturating_add(meanwhile));
        (before, if u64::from(last) >= rest { cost } else { self.time_for(rest) })
    }

    /// Costs of all sizes from those that were measured.
    fn fill(&mut self) {
        let known: Vec<(f64, f64)> = (self.sizes.as_slice().iter().zip(&self.measured))
            .filter_map(|(size, measured)| measured.map(|measured| (f64::from(*size), measured.mean)))
            .collect();
        for (size, cost) in self.sizes.as_slice().iter().zip(&mut self.costs) {
            *cost = guess(&known, f64::from(*size)).max(1.0) as u64;
        }
    }
}

/// Whether `items` in `nanos` are more in a second than those of another run.
pub(crate) fn is_faster((items, nanos): (u64, u64), (other_items, other_nanos): (u64, u64)) -> bool {
    u128::from(items) * u128::from(other_nanos) > u128::from(other_items) * u128::from(nanos)
}

/// The cost of a size from known ones, which are in order.
fn guess(known: &[(f64, f64)], size: f64) -> f64 {
    let above = known.partition_point(|(own, _)| *own < size);
    let (near, far) = match (above.checked_sub(1).and_then(|below| known.get(below)), known.get(above)) {
        (_, Some(same)) if same.0 == size => return same.1,
        (Some(below), Some(above)) => return below.1 + (above.1 - below.1) * (size - below.0) / (above.0 - below.0),
        (Some(below), None) => (below, above.checked_sub(2).and_then(|place| known.get(place))),
        (None, Some(first)) => (first, known.get(above + 1)),
        (None, None) => return 1.0,
    };
    // On the line through the nearest two. An item costs no less than nothing, and no more than its part.
    let part = near.1 / near.0;
    let slope = match far {
        Some(far) => ((far.1 - near.1) / (far.0 - near.0)).clamp(0.0, part),
        // Of one size nothing follows for others. Larger ones count as free, or else nobody would find out.
        None if size > near.0 => 0.0,
        None => part / 2.0,
    };
    near.1 + slope * (size - near.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn service(table: &[(u32, u64)]) -> Service {
        let mut service = Service::new(Sizes::new(table.iter().map(|(size, _)| *size)));
        for (size, takes) in table {
            service.assume(*size, ms(*takes));
        }
        service
    }

    /// The cheapest way to run so many items, tried exhaustively.
    fn cheapest(table: &[(u32, u64)], items: u32) -> u64 {
        let mut best = vec![0];
        for items in 1..=items {
            let of = |(size, takes): &(u32, u64)| takes + best[items.saturating_sub(*size) as usize];
            best.push(table.iter().map(of).min().unwrap());
        }
        best[items as usize]
    }

    #[test]
    fn empty_places_are_never_dearer_than_smaller_plans() {
        let cores = [(1, 11), (2, 20), (4, 38), (8, 74)];
        let gpu = [(1, 5), (8, 8), (32, 15)];
        let odd = [(1, 3), (3, 10), (5, 11), (7, 40), (16, 41)];
        for table in [&cores[..], &gpu, &odd] {
            let service = service(table);
            for items in 1..=64 {
                let (size, cost) = service.fastest(items.into());
                if size > items {
                    assert_eq!(cost / 1_000_000, cheapest(table, items), "{table:?}, {items} items, plan of {size}");
                }
                let total = service.time_for(items.into()) / 1_000_000;
                assert!(total as f64 <= 1.34 * cheapest(table, items) as f64, "{table:?}, {items} items: {total}");
            }
        }
        assert_eq!(service(&cores).fastest(5), (4, 38_000_000));
        assert_eq!(service(&gpu).fastest(5), (8, 8_000_000));
    }

    #[test]
    fn unknown_sizes_are_guessed() {
        let mut service = Service::new(Sizes::from([1, 2, 4, 8]));
        assert!(!service.is_known());
        assert_eq!(service.fastest(3).0, 4, "as long as nothing is known, all at once");
        service.learn(1, ms(12));
        assert_eq!(service.runs().map(|(_, cost)| cost / 1_000_000).collect::<Vec<_>>(), [12, 12, 12, 12]);
        service.learn(4, ms(36));
        assert_eq!(service.runs().map(|(_, cost)| cost / 1_000_000).collect::<Vec<_>>(), [12, 20, 36, 68]);
        let mut service = Service::new(Sizes::from([1, 2, 4, 8]));
        service.learn(8, ms(40));
        service.learn(4, ms(10));
        assert_eq!(service.cost(1), 2_500_000, "no less than its part");
    }

    #[test]
    fn estimates_follow_and_outliers_do_not_last() {
        let mut service = service(&[(1, 10), (8, 20)]);
        for _ in 0..50 {
            service.learn(1, ms(10));
        }
        // A laptop that slept in a run.
        service.learn(1, Duration::MAX);
        assert!(service.cost(1) < 12_000_000, "{}", service.cost(1));
        for _ in 0..20 {
            service.learn(1, ms(40));
        }
        assert!((30_000_000..=40_000_000).contains(&service.cost(1)), "{}", service.cost(1));
        service.learn(1, ms(10));
        assert_eq!(service.cost(1), 10_000_000);
    }

    /// A first run that compiled must not keep its size from being used for ever.
    #[test]
    fn estimates_that_nobody_uses_fade() {
        let mut service = service(&[(1, 10), (8, 20)]);
        service.assume(8, ms(2000));
        let mut runs = 0;
        while service.fastest(8).0 == 1 {
            service.learn(1, ms(10));
            runs += 1;
        }
        assert!((100..2000).contains(&runs), "{runs}");
        service.learn(8, ms(20));
        assert_eq!(service.cost(8), 20_000_000);
    }
}
