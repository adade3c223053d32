//! Which plan a batch runs, and which requests are in it.

use crate::Ticket;
use crate::service::{Service, is_faster};

/// A request that may be in the next batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) ticket: Ticket,
    pub(crate) items: u32,
    /// Nanoseconds until its deadline.
    pub(crate) slack: u64,
    /// Whether it is of the lane whose turn it is.
    pub(crate) leads: bool,
}

/// A plan, and what it is filled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) size: u32,
    /// Nanoseconds that it takes.
    pub(crate) cost: u64,
    pub(crate) items: u32,
    /// Whether other lanes made it larger.
    pub(crate) enlarged: bool,
}

/// Takes of the candidates in order those that fit a plan and are answered in time by it; says how many items these are.
pub(crate) fn fill(
    candidates: &[Candidate],
    (size, cost): (u32, u64),
    leading: bool,
    mut take: impl FnMut(&Candidate),
) -> u32 {
    let mut items = 0;
    for candidate in candidates {
        let fits = candidate.items <= size - items && candidate.slack >= cost;
        if fits && (candidate.leads || !leading) {
            items += candidate.items;
            take(candidate);
        }
        if items == size {
            break;
        }
    }
    items
}

/// The plan with the most items in a second that are answered in time; the smaller of two that are as good.
///
/// The lane whose turn it is decides, and others fill what is left. They make the batch larger only where that is at least
/// twice as many items in a second, and takes at most twice as long.
pub(crate) fn choose(service: &Service, candidates: &[Candidate]) -> Option<Choice> {
    let count = |run, leading| fill(candidates, run, leading, |_| {});
    let mut own: Option<Choice> = None;
    for (size, cost) in service.runs() {
        let items = count((size, cost), true);
        let best = own.map_or((0, 1), |own| (own.items.into(), own.cost));
        if is_faster((items.into(), cost), best) {
            own = Some(Choice { size, cost, items, enlarged: false });
        }
    }
    let own = own?;
    let mut best = own;
    if candidates.iter().any(|candidate| !candidate.leads) {
        best.items = count((own.size, own.cost), false);
        for (size, cost) in
            service.runs().filter(|(size, cost)| *size > own.size && *cost <= own.cost.saturating_mul(2))
        {
            let items = count((size, cost), false);
            let keeps_all = count((size, cost), true) >= own.items;
            let twice = (2 * u64::from(own.items), own.cost);
            let no_slower = !is_faster(twice, (items.into(), cost));
            if keeps_all && no_slower && is_faster((items.into(), cost), (best.items.into(), best.cost)) {
                best = Choice { size, cost, items, enlarged: true };
            }
        }
    }
    Some(best)
}
