//! The rules: what runs next.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::hazards::Hazards;
use crate::{
    CommandId, End, Ended, Governor, Lane, LaneStats, Next, Pass, Piece, Power, ResourceId, Schedulable, Thermal, Time,
    Totals, WhileSuspended,
};

/// The most stages in a pass, however short they are.
const STAGES_IN_FLIGHT: usize = 256;

/// What a stage is expected to take if nobody knows: so long that nothing joins it.
const UNKNOWN: Duration = Duration::from_secs(3600);

struct Job<W, E> {
    work: Arc<W>,
    /// Where it was submitted: it counts there.
    home: Lane,
    /// Where it is queued: a higher lane, if a command there waits for it.
    lane: Lane,
    /// Its place in that lane's queue.
    place: i64,
    deadline: Option<Time>,
    /// The stage to launch next.
    next: usize,
    started: bool,
    /// How many of the passes in flight have stages of it.
    in_flight: usize,
    /// How it will end, whatever becomes of the stages in flight.
    doomed: Option<End<E>>,
    /// Commands that read what it writes.
    dependents: Vec<CommandId>,
}

impl<W: Schedulable, E> Job<W, E> {
    fn is_launched(&self) -> bool {
        self.started && self.next >= self.work.stages()
    }
}

/// Commands in each lane for which there is room from the beginning.
const ROOM: usize = 4096;

/// Which work runs next: plain data, told what happens.
///
/// Commands that ended are collected; whoever calls takes them with [`take_ended`](Scheduler::take_ended).
pub struct Scheduler<W, E> {
    capacity: usize,
    governor: Governor,
    jobs: FxHashMap<CommandId, Job<W, E>>,
    /// Commands with stages to launch, by place.
    queues: [BTreeSet<(i64, CommandId)>; 3],
    /// Commands that came since something was last decided. They enter their lanes before the next decision: whoever submits has
    /// no time to look through what must run before.
    arrived: Vec<CommandId>,
    /// Commands that enter their lane when those they wait for are launched.
    parked: BTreeSet<CommandId>,
    /// Commands that have not started, by home.
    pending: [BTreeSet<CommandId>; 3],
    deadlines: BTreeSet<(Time, CommandId)>,
    hazards: Hazards,
    /// Device time that a lane was kept from, of what it is guaranteed.
    owed: [Duration; 3],
    /// When a lane has rested enough.
    rested: [Time; 3],
    /// The places at either end of the queues.
    first_place: i64,
    last_place: i64,
    /// Passes that were launched, the oldest first, each with what it is expected to take.
    in_flight: VecDeque<(Arc<Pass<W>>, Duration)>,
    /// How many of them there may be.
    depth: usize,
    ended: Vec<Ended<W, E>>,
    totals: Totals,
    busy: [Duration; 3],
}

impl<W: Schedulable, E: Clone> Scheduler<W, E> {
    /// With room for `capacity` commands that have not started in each lane, and for `depth` passes in flight.
    pub fn new(capacity: usize, depth: usize) -> Scheduler<W, E> {
        Scheduler {
            capacity: capacity.max(1),
            depth: depth.max(1),
            governor: Governor::default(),
            // Tables that grow move all they hold, which takes too long for whoever submits just then.
            jobs: FxHashMap::with_capacity_and_hasher(3 * capacity.clamp(1, ROOM), Default::default()),
            queues: Default::default(),
            arrived: Vec::new(),
            parked: BTreeSet::new(),
            pending: Default::default(),
            deadlines: BTreeSet::new(),
            hazards: Hazards::with_room(4 * ROOM),
            owed: Default::default(),
            rested: Default::default(),
            first_place: 0,
            last_place: 0,
            in_flight: VecDeque::new(),
            ended: Vec::new(),
            totals: Totals::default(),
            busy: Default::default(),
        }
    }

    /// How hard the device may work.
    pub fn governor(&self) -> Governor {
        self.governor
    }

    /// Changes how much energy may be spent.
    pub fn set_power(&mut self, power: Power) {
        self.governor.power = power;
        self.rested = Default::default();
    }

    /// Changes how hot the device is.
    pub fn set_thermal(&mut self, thermal: Thermal) {
        self.governor.thermal = thermal;
        self.rested = Default::default();
    }

    /// Nothing starts any more. What is in flight goes on to the end of its pass.
    pub fn suspend(&mut self, pending: WhileSuspended) {
        self.governor.suspended = Some(pending);
        if pending == WhileSuspended::Fail {
            self.end_all(&End::Suspended);
        }
    }

    /// Work starts again.
    pub fn resume(&mut self) {
        self.governor.suspended = None;
    }

    /// Ends everything that is not in flight, as cancelled.
    pub fn close(&mut self) {
        self.end_all(&End::Cancelled);
    }

    /// Whether a lane has no room for another command.
    pub fn is_full(&self, lane: Lane) -> bool {
        self.pending[lane.index()].len() >= self.capacity
    }

    /// Room in each lane.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Makes room in a lane: its oldest command that has not started ends as dropped.
    pub fn drop_oldest(&mut self, lane: Lane) -> Option<CommandId> {
        let oldest = self.pending[lane.index()].first().copied()?;
        self.end(oldest, End::Dropped);
        Some(oldest)
    }

    /// The command whose result a read would see now, if nobody knows yet how it ends.
    pub fn source(&self, resource: ResourceId) -> Option<CommandId> {
        self.hazards.source(resource)
    }

    /// Accepts a command. Ids must come in rising order.
    pub fn submit(&mut self, id: CommandId, work: Arc<W>, lane: Lane, deadline: Option<Time>) {
        let parks = work.needs_caller() && self.hazards.blocks(id, work.reads(), work.writes());
        for source in work.reads().iter().filter_map(|read| self.hazards.source(*read)) {
            if let Some(job) = self.jobs.get_mut(&source) {
                job.dependents.push(id);
            }
        }
        self.hazards.enter(id, work.reads(), work.writes());
        if parks {
            self.parked.insert(id);
        } else {
            if self.arrived.len() > 2 * self.jobs.len() + 64 {
                // A suspended queue decides nothing, and commands may end all the same.
                self.arrived.retain(|id| self.jobs.contains_key(id));
            }
            self.arrived.push(id);
        }
        if !work.needs_caller() {
            self.pending[lane.index()].insert(id);
        }
        self.deadlines.extend(deadline.map(|deadline| (deadline, id)));
        self.totals.submitted += 1;
        let job = Job {
            work,
            home: lane,
            lane: if parks { Lane::Background } else { lane },
            place: 0,
            deadline,
            next: 0,
            started: false,
            in_flight: 0,
            doomed: None,
            dependents: Vec::new(),
        };
        self.jobs.insert(id, job);
    }

    /// Ends a command as cancelled: at once if it is not in flight, else after the stages that are. Says whether it will
    /// not complete: one whose last stage is launched will.
    pub fn cancel(&mut self, id: CommandId) -> bool {
        match self.jobs.get_mut(&id) {
            Some(job) if job.is_launched() => false,
            Some(job) if job.in_flight > 0 => {
                job.doomed.get_or_insert(End::Cancelled);
                true
            }
            Some(_) => {
                self.end(id, End::Cancelled);
                true
            }
            None => false,
        }
    }

    /// Ends the commands whose deadline passed before they started.
    pub fn expire(&mut self, now: Time) {
        while let Some((deadline, id)) = self.deadlines.first().copied()
            && deadline <= now
        {
            self.end(id, End::DeadlineExceeded);
        }
    }

    /// Whether there are commands that have not ended.
    pub fn has_work(&self) -> bool {
        !self.jobs.is_empty()
    }

    /// Whether something may have to be done without anything else happening: now, or when a deadline passes.
    pub fn is_active(&self) -> bool {
        let waits = self.governor.suspended.is_some() && self.in_flight.is_empty() && self.deadlines.is_empty();
        !self.jobs.is_empty() && !waits
    }

    /// Whether passes are in flight.
    pub fn is_in_flight(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// What to do now.
    pub fn next(&mut self, now: Time) -> Next<W> {
        self.expire(now);
        self.admit();
        let (lane, room) = match self.choose_lane(now) {
            Ok(chosen) => chosen,
            Err(_) if self.is_in_flight() => return Next::Finish,
            Err(rested) => {
                let deadline = self.deadlines.first().map(|(deadline, _)| *deadline);
                return Next::Idle { until: [rested, deadline].into_iter().flatten().min() };
            }
        };
        let (pass, expected) = self.fill_pass(lane, room);
        self.unpark();
        let pass = Arc::new(pass);
        self.in_flight.push_back((pass.clone(), expected));
        match &pass.pieces[..] {
            [piece] if piece.work.needs_caller() => Next::Caller(piece.command),
            _ => Next::Run(pass),
        }
    }

    /// The oldest pass in flight was executed, with one result for each piece, and kept the device busy for so long.
    pub fn settle(&mut self, now: Time, results: Vec<Result<(), E>>, busy: Duration) {
        let Some((pass, _)) = self.in_flight.pop_front() else { return };
        self.admit();
        self.count(pass.lane, now, busy);
        for (piece, result) in pass.pieces.iter().zip(results) {
            let Some(job) = self.jobs.get_mut(&piece.command) else { continue };
            job.in_flight -= 1;
            if let Err(error) = result {
                // The first cause, unless it was to end already.
                job.doomed.get_or_insert(End::Failed(error));
            }
            if job.in_flight > 0 {
                continue;
            }
            match job.doomed.take() {
                Some(end) => self.end(piece.command, end),
                None if job.is_launched() => self.end(piece.command, End::Completed),
                None => {}
            }
        }
    }

    /// The commands that ended since the last call, in the order in which they did.
    pub fn take_ended(&mut self) -> Vec<Ended<W, E>> {
        std::mem::take(&mut self.ended)
    }

    /// What became of commands so far.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// A lane, now and so far.
    pub fn lane(&self, lane: Lane) -> LaneStats {
        LaneStats { pending: self.pending[lane.index()].len(), busy: self.busy[lane.index()] }
    }

    fn take_place(&mut self) -> i64 {
        self.last_place += 1;
        self.last_place
    }

    /// Lets those that came into their lanes.
    fn admit(&mut self) {
        for id in std::mem::take(&mut self.arrived) {
            // Unless it has ended by now.
            let Some(job) = self.jobs.get(&id) else { continue };
            let (work, lane) = (job.work.clone(), job.lane);
            // Whoever it waits for must not be kept waiting by commands that it may overtake itself.
            self.lift_those_before(id, &work, lane);
            let place = self.take_place();
            self.queues[lane.index()].insert((place, id));
            if let Some(job) = self.jobs.get_mut(&id) {
                job.place = place;
            }
        }
    }

    /// Moves every command that must be launched before `id` to its lane, if it is in a lower one.
    fn lift_those_before(&mut self, id: CommandId, work: &Arc<W>, lane: Lane) {
        let mut lifted = Vec::new();
        let mut unseen = vec![(id, work.clone())];
        let mut before = Vec::new();
        while let Some((id, work)) = unseen.pop() {
            self.hazards.nearest_before(id, work.reads(), work.writes(), &mut before);
            for other in before.drain(..) {
                // Those before one in this lane or above were lifted when it came.
                if let Some(job) = self.jobs.get_mut(&other)
                    && job.lane > lane
                {
                    self.queues[job.lane.index()].remove(&(job.place, other));
                    self.parked.remove(&other);
                    job.lane = lane;
                    lifted.push(other);
                    unseen.push((other, job.work.clone()));
                }
            }
        }
        lifted.sort_unstable();
        for id in lifted {
            let place = self.take_place();
            self.queues[lane.index()].insert((place, id));
            if let Some(job) = self.jobs.get_mut(&id) {
                job.place = place;
            }
        }
    }

    /// Lets parked commands into their lanes, if nothing is left for them to wait for.
    fn unpark(&mut self) {
        if self.parked.is_empty() {
            return;
        }
        let free = |id: &CommandId| {
            let work = &self.jobs.get(id)?.work;
            (!self.hazards.blocks(*id, work.reads(), work.writes())).then_some(*id)
        };
        let free: Vec<CommandId> = self.parked.iter().filter_map(free).collect();
        // To the front: those that wait for it may be in the queue already.
        for id in free.into_iter().rev() {
            self.parked.remove(&id);
            self.first_place -= 1;
            let place = self.first_place;
            if let Some(job) = self.jobs.get_mut(&id) {
                (job.lane, job.place) = (job.home, place);
                self.queues[job.lane.index()].insert((place, id));
            }
        }
    }

    /// The first command of a lane, if nothing keeps it from starting. Only one in a higher lane can: those before it in
    /// this lane or a lower one are before it in the queue.
    fn head(&self, lane: Lane) -> Option<CommandId> {
        // One that is to end launches nothing more; it leaves the queue when its last stage in flight is settled.
        let goes_on = |id: &CommandId| self.jobs.get(id).is_some_and(|job| job.doomed.is_none());
        let id = self.queues[lane.index()].iter().map(|(_, id)| *id).find(goes_on)?;
        let work = &self.jobs.get(&id)?.work;
        (!self.hazards.blocks(id, work.reads(), work.writes())).then_some(id)
    }

    /// The lane whose turn it is, and for how long; or, if none can start, when one has rested.
    fn choose_lane(&self, now: Time) -> Result<(Lane, Duration), Option<Time>> {
        if self.governor.suspended.is_some() || self.in_flight.len() >= self.depth {
            return Err(None);
        }
        let mut rested = None;
        let mut highest = None;
        for lane in Lane::ALL {
            let Some(head) = self.head(lane) else { continue };
            let at = self.rested[lane.index()];
            if at > now {
                rested = Some(rested.map_or(at, |earliest: Time| earliest.min(at)));
                continue;
            }
            let (full, owed) = (self.governor.in_flight(lane), self.still_owed(lane));
            // All passes in flight share the time.
            let room = full / self.depth as u32;
            if highest.is_none() {
                highest = Some((lane, room, head));
            } else if owed >= self.next_cost(head, full).max(full / 4) {
                // Kept from higher lanes no longer than it is owed, and not for trifles.
                highest = Some((lane, owed.min(room), head));
                break;
            }
        }
        let Some((lane, room, head)) = highest else { return Err(rested) };
        match self.room_beside_others(head) {
            Some(left) => Ok((lane, room.min(left))),
            None => Err(None),
        }
    }

    /// What a lane is owed beside what it has in flight.
    fn still_owed(&self, lane: Lane) -> Duration {
        let own = self.in_flight.iter().filter(|(pass, _)| pass.lane == lane).map(|(_, expected)| *expected);
        self.owed[lane.index()].saturating_sub(own.sum())
    }

    /// How much may start beside what is in flight, if a command may at all: only small work, so that whoever comes next
    /// waits for little.
    fn room_beside_others(&self, head: CommandId) -> Option<Duration> {
        let all = self.governor.in_flight(Lane::Default);
        if self.in_flight.is_empty() {
            return Some(all);
        }
        let expected: Duration = self.in_flight.iter().map(|(_, expected)| *expected).sum();
        let left = all.checked_sub(expected)?;
        let work = &self.jobs.get(&head)?.work;
        (!work.needs_caller() && self.next_cost(head, UNKNOWN) <= left).then_some(left)
    }

    /// What the next stage of a command costs: a full pass, if nobody knows.
    fn next_cost(&self, head: CommandId, full: Duration) -> Duration {
        let known = |job: &Job<W, E>| (job.next < job.work.stages()).then(|| job.work.cost(job.next));
        self.jobs.get(&head).and_then(known).map_or(Duration::ZERO, |cost| cost.unwrap_or(full))
    }

    fn fill_pass(&mut self, lane: Lane, room: Duration) -> (Pass<W>, Duration) {
        let alone = self.in_flight.is_empty();
        let (mut pieces, mut stages, mut expected) = (Vec::new(), 0, Duration::ZERO);
        while let Some(id) = self.head(lane) {
            let Some(job) = self.jobs.get_mut(&id) else { break };
            if job.work.needs_caller() && !pieces.is_empty() {
                break;
            }
            let first = job.next;
            while job.next < job.work.stages() {
                let cost = match job.work.cost(job.next) {
                    // Nobody knows how long it takes, so nothing runs beside it.
                    None if stages == 0 && alone => UNKNOWN,
                    // There is room for the first: that was seen to.
                    Some(cost) if stages == 0 && (alone || pieces.is_empty()) => cost,
                    Some(cost) if expected + cost <= room && stages < STAGES_IN_FLIGHT => cost,
                    _ => break,
                };
                expected += cost;
                stages += 1;
                job.next += 1;
            }
            if job.next == first && job.work.stages() > first {
                break;
            }
            job.in_flight += 1;
            if !job.started {
                job.started = true;
                self.pending[job.home.index()].remove(&id);
                job.deadline.take().map(|deadline| self.deadlines.remove(&(deadline, id)));
            }
            let whole = job.is_launched();
            let (work, last) = (job.work.clone(), job.next);
            if whole {
                self.queues[lane.index()].remove(&(job.place, id));
                self.hazards.launched(id, work.reads(), work.writes());
            }
            let by_caller = work.needs_caller();
            pieces.push(Piece { command: id, work, stages: first..last });
            if !whole || by_caller {
                break;
            }
        }
        (Pass { lane, pieces }, expected)
    }

    /// Shares and rests after a pass.
    fn count(&mut self, lane: Lane, now: Time, busy: Duration) {
        self.totals.passes += 1;
        self.totals.busy += busy;
        self.busy[lane.index()] += busy;
        // Passes that overlapped rest one after the other.
        let rested = &mut self.rested[lane.index()];
        *rested = now.max(*rested) + self.governor.rest(lane, busy);
        for other in Lane::ALL {
            let owed = &mut self.owed[other.index()];
            if self.queues[other.index()].is_empty() {
                *owed = Duration::ZERO;
            } else if other == lane {
                *owed = owed.saturating_sub(busy);
            } else {
                *owed += busy * other.guaranteed_percent() / 100;
            }
        }
    }

    fn end_all(&mut self, end: &End<E>) {
        let mut all: Vec<CommandId> = self.jobs.keys().copied().collect();
        all.sort_unstable();
        for id in all {
            match self.jobs.get_mut(&id) {
                // Its last stages are on their way: it completes.
                Some(job) if job.is_launched() => {}
                Some(job) if job.in_flight > 0 => {
                    job.doomed.get_or_insert(end.clone());
                }
                Some(_) => self.end(id, end.clone()),
                None => {}
            }
        }
    }

    /// Ends a command that is not in flight, and those that were to read what it should have written.
    fn end(&mut self, id: CommandId, end: End<E>) {
        let mut ending = vec![(id, end)];
        while let Some((id, end)) = ending.pop() {
            let Some(job) = self.jobs.remove(&id) else { continue };
            if !job.is_launched() {
                self.queues[job.lane.index()].remove(&(job.place, id));
                self.parked.remove(&id);
                self.hazards.launched(id, job.work.reads(), job.work.writes());
            }
            if !job.started {
                self.pending[job.home.index()].remove(&id);
                job.deadline.map(|deadline| self.deadlines.remove(&(deadline, id)));
            }
            self.hazards.settled(id, job.work.writes());
            self.totals.count(&end);
            if !matches!(end, End::Completed) {
                let (root, cause) = match &end {
                    End::DependencyFailed { root, cause } => (*root, cause.clone()),
                    other => (id, Arc::new(other.clone())),
                };
                for dependent in job.dependents {
                    let end = End::DependencyFailed { root, cause: cause.clone() };
                    match self.jobs.get_mut(&dependent) {
                        Some(job) if job.in_flight > 0 => {
                            job.doomed.get_or_insert(end);
                        }
                        Some(_) => ending.push((dependent, end)),
                        None => {}
                    }
                }
            }
            self.ended.push(Ended { id, work: job.work, end });
        }
        self.unpark();
    }
}

impl<W, E> Scheduler<W, E> {
    /// Whether nothing is left of any command.
    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.jobs.is_empty()
            && self.queues.iter().all(BTreeSet::is_empty)
            && self.parked.is_empty()
            && self.pending.iter().all(BTreeSet::is_empty)
            && self.deadlines.is_empty()
            && self.hazards.is_empty()
    }
}

#[cfg(test)]
mod tests;
