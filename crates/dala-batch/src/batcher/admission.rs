//! Which requests are taken, and when they can be answered.

use std::time::Duration;

use super::Batcher;
use crate::lane::room_percent;
use crate::time::nanos;
use crate::{Caller, Key, Lane, Refusal, Refused, Request, Room, Time};

/// Items and bytes that there is room for in a lane.
fn lane_room(all: (u64, u64), lane: Lane) -> (u64, u64) {
    let of = |all: u64| (u128::from(all) * u128::from(room_percent(lane))).div_ceil(100) as u64;
    (of(all.0), of(all.1))
}

impl Batcher {
    /// Whether a request may come in.
    pub(super) fn admit(&self, now: Time, request: &Request) -> Result<(), Refused> {
        let Request { key, lane, caller, deadline, items, bytes } = *request;
        let never = |why| Err(Refused { why, retry_after: Duration::ZERO });
        if self.draining {
            return never(Refusal::Draining);
        }
        let Some(waiting) = self.queues.get(key) else { return never(Refusal::UnknownKey) };
        if items == 0 {
            return never(Refusal::Empty);
        }
        let most = (waiting.service.sizes().largest().min(self.limits.items), self.limits.bytes);
        if items > most.0 || bytes > most.1 {
            return never(Refusal::TooLarge { items: most.0, bytes: most.1 });
        }
        let all = (u64::from(self.limits.items), self.limits.bytes);
        let own = self.callers.find(caller).and_then(|id| self.callers.get(id)).map(|own| (own.items, own.bytes));
        let rooms = [
            (Room::Lane(lane), (self.items, self.bytes), lane_room(all, lane), self.entries.len() == 0),
            (Room::Caller(caller), own.unwrap_or_default(), self.caller_room(all), own.is_none()),
        ];
        for (whose, held, room, is_empty) in rooms {
            let over = held.0 + u64::from(items) > room.0 || held.1.saturating_add(bytes) > room.1;
            if over && !is_empty {
                // Room comes when a batch ends; if none runs, with the next one that does.
                let retry_after = self.running.remaining(now).max(Duration::from_nanos(waiting.service.least(1)));
                let expected_wait = self.wait_for(now, request);
                return Err(Refused {
                    why: Refusal::Full { whose, items: held.0, bytes: held.1, expected_wait },
                    retry_after,
                });
            }
        }
        let Some(deadline) = deadline else { return Ok(()) };
        // Who is taken should not be late because a run takes a little longer than usual.
        let (slack, usual) = (deadline.since(now), self.wait_for(now, request));
        let deviation = Duration::from_nanos(waiting.service.deviation().saturating_mul(2)).min(usual / 4);
        // What higher lanes take comes in bursts.
        let bursts = usual.mul_f64(self.shares.above(lane));
        let expected_wait = usual + deviation + bursts;
        // What is expected may be wrong. An idle device finds out; where others would have to wait for that, it does not.
        let is_idle = self.entries.len() == 0;
        if slack.is_zero() || expected_wait > slack && !is_idle {
            let retry_after =
                expected_wait.saturating_sub(slack).max(Duration::from_nanos(waiting.service.least(items)));
            return Err(Refused { why: Refusal::TooLate { expected_wait }, retry_after });
        }
        Ok(())
    }

    /// Items that there is room for in a lane.
    pub(super) fn room(&self, lane: Lane) -> u32 {
        let (items, bytes) = lane_room((self.limits.items.into(), self.limits.bytes), lane);
        let left = if self.bytes < bytes { items.saturating_sub(self.items) } else { 0 };
        u32::try_from(left).unwrap_or(u32::MAX)
    }

    /// Items and bytes that one caller may have: as much as is free, or a multiple of that. So each of several that send as
    /// much as they can has the same, and there is room for one more.
    fn caller_room(&self, all: (u64, u64)) -> (u64, u64) {
        let percent = self.limits.caller_percent.min(100);
        let of = |free: u64| match 100 - percent {
            0 => u64::MAX,
            others => u64::try_from(u128::from(free) * u128::from(percent) / u128::from(others)).unwrap_or(u64::MAX),
        };
        (of(all.0.saturating_sub(self.items)), of(all.1.saturating_sub(self.bytes)))
    }

    pub(super) fn wait_for(&self, now: Time, request: &Request) -> Duration {
        let Request { key, lane, caller, items, .. } = *request;
        Duration::from_nanos(self.wait_nanos(now, key, lane, Some(caller), items))
    }

    /// Nanoseconds until the device is through with what a lane does not overtake.
    pub(super) fn committed_nanos(&self, now: Time, lane: Lane) -> u64 {
        let remaining = match self.limits.overtakes {
            true => self.running.remaining_for(now, lane),
            false => self.running.remaining(now),
        };
        nanos(remaining).saturating_add(self.again_cost)
    }

    /// Nanoseconds until a request of so many items would be answered: after what runs, what waits in higher lanes, and of its
    /// own lane what goes before it. With those of its own key it shares batches, and goes when the first of its batch does.
    pub(super) fn wait_nanos(&self, now: Time, key: Key, lane: Lane, caller: Option<Caller>, items: u32) -> u64 {
        let Some(own) = self.queues.get(key) else { return 0 };
        let part = |of: u64, part: u64, all: u64| (u128::from(of) * u128::from(part) / u128::from(all)) as u64;
        let (ahead, all) = (self.callers.ahead(caller, lane), self.queues.items(lane).max(1));
        let mut shared = part(own.items(lane), ahead.min(all), all) + u64::from(items);
        let mut others = 0u64;
        for higher in Lane::ALL.into_iter().filter(|other| *other < lane) {
            others = others.saturating_add(self.queues.backlog(higher).saturating_sub(own.backlog(higher)));
            shared += own.items(higher);
        }
        let with_it = (shared - u64::from(items)) % u64::from(own.service.fastest(u64::MAX).0);
        let of_lane = part(self.queues.backlog(lane).saturating_sub(own.backlog(lane)), ahead.min(all), all);
        others = others.saturating_add(part(of_lane, shared - with_it / 2, shared));
        let committed = self.committed_nanos(now, lane);
        let (before, run) = match own.service.is_known() {
            true => own.service.answer(shared, committed.saturating_add(others), own.arrivals.gap(now)),
            false => (committed.saturating_add(others), 0),
        };
        let waiting = Lane::ALL.map(|lane| self.queues.items(lane) > 0);
        let stretched = self.shares.stretch(lane, before.saturating_sub(committed), waiting);
        committed.saturating_add(stretched).saturating_add(run)
    }
}
