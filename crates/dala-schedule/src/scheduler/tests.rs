//! The rules, tried by a simulated device on a clock that is set by hand.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests fail loudly and report what they ran")]

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Mutex;

use super::*;

const MICROSECOND: Duration = Duration::from_micros(1);

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn some_of(&mut self, bound: u64, most: u64) -> Vec<ResourceId> {
        let count = self.below(most + 1);
        let some: BTreeSet<u64> = (0..count).map(|_| self.below(bound)).collect();
        some.into_iter().map(ResourceId).collect()
    }
}

#[derive(Debug, Default)]
struct Task {
    reads: Vec<ResourceId>,
    writes: Vec<ResourceId>,
    /// What each stage takes.
    takes: Vec<Duration>,
    /// What is known of that.
    known: Mutex<Vec<bool>>,
    fails_at: Option<usize>,
    needs_caller: bool,
}

impl Task {
    fn new(takes: &[Duration]) -> Task {
        Task { takes: takes.to_vec(), known: Mutex::new(vec![true; takes.len()]), ..Task::default() }
    }
}

impl Schedulable for Task {
    fn stages(&self) -> usize {
        self.takes.len()
    }
    fn cost(&self, stage: usize) -> Option<Duration> {
        self.known.lock().unwrap()[stage].then_some(self.takes[stage])
    }
    fn reads(&self) -> &[ResourceId] {
        &self.reads
    }
    fn writes(&self) -> &[ResourceId] {
        &self.writes
    }
    fn needs_caller(&self) -> bool {
        self.needs_caller
    }
}

type Value = u64;

fn hash(of: impl Hash) -> Value {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// A device that executes stages in the order of their launch, and remembers what each of them saw.
struct Device {
    random: Random,
    now: Time,
    scheduler: Scheduler<Task, &'static str>,
    in_flight: VecDeque<Arc<Pass<Task>>>,
    depth: usize,
    memory: BTreeMap<ResourceId, Value>,
    submitted: Vec<(CommandId, Arc<Task>, Lane, Option<Time>)>,
    /// What each stage of a command read.
    seen: HashMap<CommandId, Vec<Vec<Value>>>,
    started: Vec<CommandId>,
    ends: HashMap<CommandId, End<&'static str>>,
    /// The last command that should have written a resource and has ended, and whether it did.
    written: HashMap<ResourceId, (CommandId, bool)>,
    refused: usize,
    passes: usize,
}

impl Device {
    fn new(seed: u64, capacity: usize) -> Device {
        Device::with_depth(seed, capacity, 1)
    }

    fn with_depth(seed: u64, capacity: usize, depth: usize) -> Device {
        Device {
            depth,
            random: Random(seed),
            now: Time::default(),
            scheduler: Scheduler::new(capacity, depth),
            in_flight: VecDeque::new(),
            memory: BTreeMap::new(),
            submitted: Vec::new(),
            seen: HashMap::new(),
            started: Vec::new(),
            ends: HashMap::new(),
            written: HashMap::new(),
            refused: 0,
            passes: 0,
        }
    }

    fn submit(&mut self, task: Task, lane: Lane, deadline: Option<Time>) -> CommandId {
        if self.scheduler.is_full(lane) {
            let dropped = self.scheduler.drop_oldest(lane).unwrap();
            self.collect();
            assert_eq!(self.ends[&dropped], End::Dropped);
        }
        let id = CommandId(self.submitted.len() as u64 + 1);
        let poisoned = |read: &ResourceId| self.written.get(read).is_some_and(|(_, written)| !written);
        if task.reads.iter().any(|read| self.scheduler.source(*read).is_none() && poisoned(read)) {
            self.refused += 1;
            return id;
        }
        let task = Arc::new(task);
        self.submitted.push((id, task.clone(), lane, deadline));
        self.scheduler.submit(id, task, lane, deadline);
        assert!(self.scheduler.lane(lane).pending <= self.scheduler.capacity());
        id
    }

    /// Starts a pass, if there is one to start.
    fn start(&mut self) -> Option<Time> {
        let pass = match self.scheduler.next(self.now) {
            Next::Run(pass) => pass,
            Next::Caller(id) => {
                assert!(self.in_flight.is_empty(), "nothing runs beside a caller");
                let (pass, _) = self.scheduler.in_flight[0].clone();
                assert!(pass.pieces.len() == 1 && pass.pieces[0].command == id);
                pass
            }
            Next::Finish => {
                self.collect();
                self.finish();
                return None;
            }
            Next::Idle { until } => {
                assert!(self.in_flight.is_empty());
                self.collect();
                return until;
            }
        };
        self.collect();
        assert!(self.in_flight.len() < self.depth, "too many passes");
        assert!(self.scheduler.governor().suspended.is_none(), "nothing starts on a suspended device");
        self.check_bounds(&pass);
        for piece in &pass.pieces {
            self.launch(piece);
        }
        self.passes += 1;
        self.in_flight.push_back(pass);
        None
    }

    fn check_bounds(&self, pass: &Arc<Pass<Task>>) {
        assert!(!pass.pieces.is_empty());
        // All that is in flight together: one stage, or little.
        let all = self.in_flight.iter().chain([pass]).flat_map(|pass| &pass.pieces);
        let stages = all.flat_map(|piece| piece.stages.clone().map(|stage| piece.work.cost(stage)));
        let stages: Vec<Option<Duration>> = stages.filter(|cost| *cost != Some(Duration::ZERO)).collect();
        let expected: Duration = stages.iter().flatten().sum();
        let room = self.scheduler.governor().in_flight(Lane::Default);
        // Power may have been turned down since.
        let room = if self.in_flight.is_empty() { room } else { room.max(Duration::from_millis(4)) };
        assert!(stages.len() <= 1 || (stages.iter().all(Option::is_some) && expected <= room), "{stages:?}");
    }

    fn launch(&mut self, piece: &Piece<Task>) {
        let (id, task) = (piece.command, &piece.work);
        let seen = self.seen.entry(id).or_default();
        if piece.stages.start == 0 {
            self.started.push(id);
            let (.., deadline) = self.submitted[id.0 as usize - 1];
            assert!(deadline.is_none_or(|deadline| deadline > self.now), "{id} started past its deadline");
        }
        for stage in piece.stages.clone() {
            assert_eq!(seen.len(), stage, "stages of {id} in order");
            let values: Vec<Value> = task.reads.iter().map(|read| *self.memory.entry(*read).or_default()).collect();
            for write in &task.writes {
                self.memory.insert(*write, hash((id.0, stage, &values, write)));
            }
            seen.push(values);
            task.known.lock().unwrap()[stage] = true;
        }
    }

    /// Ends the pass in flight.
    fn finish(&mut self) {
        let pass = self.in_flight.pop_front().unwrap();
        let stages = |piece: &Piece<Task>| piece.work.takes[piece.stages.clone()].iter().sum::<Duration>();
        let busy = pass.pieces.iter().map(stages).sum();
        let result = |piece: &Piece<Task>| match piece.work.fails_at {
            Some(stage) if piece.stages.contains(&stage) => Err("fault"),
            _ => Ok(()),
        };
        self.now = self.now + busy;
        self.scheduler.settle(self.now, pass.pieces.iter().map(result).collect(), busy);
        self.collect();
    }

    fn collect(&mut self) {
        for ended in self.scheduler.take_ended() {
            for write in &ended.work.writes {
                let written = self.written.entry(*write).or_insert((ended.id, true));
                // A later command may have ended before: what it left counts.
                if ended.id >= written.0 {
                    *written = (ended.id, ended.end == End::Completed);
                }
            }
            assert!(self.ends.insert(ended.id, ended.end).is_none(), "{} ended twice", ended.id);
        }
    }

    /// How often anything happened.
    fn moves(&self) -> u64 {
        (self.passes + self.ends.len()) as u64 + self.scheduler.totals().passes
    }

    /// Until nothing is left.
    fn drain(&mut self) {
        self.scheduler.resume();
        self.scheduler.set_thermal(Thermal::Nominal);
        for _ in 0..100_000 {
            let before = self.moves();
            if !self.in_flight.is_empty() && self.random.chance(50) {
                self.finish();
            } else if !self.scheduler.has_work() {
                return;
            } else if let Some(until) = self.start() {
                self.now = self.now.max(until);
            } else {
                assert!(self.moves() > before, "stuck");
            }
        }
        panic!("no end");
    }

    /// What happened must be what happens when the commands that completed run one after the other, in the order of
    /// submission, and each of the others leaves rubbish.
    fn check_against_sequential(&self) {
        let mut memory: BTreeMap<ResourceId, Option<Value>> = BTreeMap::new();
        for (id, task, ..) in &self.submitted {
            let end = self.ends.get(id).unwrap_or_else(|| panic!("{id} never ended"));
            if *end != End::Completed {
                memory.extend(task.writes.iter().map(|write| (*write, None)));
                continue;
            }
            let seen = self.seen.get(id).cloned().unwrap_or_default();
            assert_eq!(seen.len(), task.takes.len(), "{id} completed without all of its stages");
            for (stage, seen) in seen.iter().enumerate() {
                let values: Option<Vec<Value>> =
                    task.reads.iter().map(|read| *memory.entry(*read).or_insert(Some(0))).collect();
                assert_eq!(Some(seen), values.as_ref(), "{id} stage {stage} of {task:?}");
                for write in &task.writes {
                    memory.insert(*write, Some(hash((id.0, stage, seen, write))));
                }
            }
        }
        for (resource, value) in memory {
            if let Some(value) = value {
                assert_eq!(self.memory.get(&resource).copied().unwrap_or_default(), value, "{resource:?}");
            }
        }
        assert!(self.scheduler.is_empty(), "something is left over");
    }
}

fn random_task(random: &mut Random, resources: u64) -> Task {
    let stages = if random.chance(5) { 0 } else { 1 + random.below(4) as usize };
    let span = |random: &mut Random| match random.below(6) {
        0 => Duration::ZERO,
        1 => Duration::from_millis(random.below(20)),
        _ => MICROSECOND * random.below(900) as u32,
    };
    let needs_caller = random.chance(10);
    let takes: Vec<Duration> = (0..if needs_caller { 1 } else { stages }).map(|_| span(random)).collect();
    Task {
        reads: if resources == 0 { Vec::new() } else { random.some_of(resources, 3) },
        writes: if resources == 0 || takes.is_empty() { Vec::new() } else { random.some_of(resources, 2) },
        known: Mutex::new(takes.iter().map(|_| !random.chance(15)).collect()),
        fails_at: random.chance(6).then(|| random.below(4) as usize),
        needs_caller,
        takes,
    }
}

/// One random schedule: commands, failures, cancellations, deadlines, suspensions, heat; at random moments.
fn random_schedule(seed: u64) -> Device {
    let mut device = Device::new(seed, 0);
    let random = &mut device.random;
    device.depth = 1 + random.below(3) as usize;
    device.scheduler = Scheduler::new(2 + random.below(30) as usize, device.depth);
    let resources = if random.chance(20) { 0 } else { 1 + random.below(8) };
    let commands = 1 + random.below(30);
    while device.submitted.len() < commands as usize {
        let random = &mut device.random;
        match random.below(20) {
            0..9 => {
                let task = random_task(random, resources);
                let lane = Lane::ALL[random.below(3) as usize];
                let deadline = random.chance(15).then(|| device.now + MICROSECOND * random.below(5000) as u32);
                device.submit(task, lane, deadline);
            }
            9..12 if !device.in_flight.is_empty() => device.finish(),
            9..16 => drop(device.start()),
            16 if device.refused > 100 => break,
            16 => device.now = device.now + MICROSECOND * random.below(3000) as u32,
            17 => {
                let id = CommandId(1 + random.below(device.submitted.len() as u64 + 1));
                let was_over = device.ends.contains_key(&id);
                let accepted = device.scheduler.cancel(id);
                device.collect();
                assert!(!(was_over && accepted));
            }
            18 => match random.below(3) {
                0 => device.scheduler.set_power([Power::Low, Power::Balanced, Power::High][random.below(3) as usize]),
                1 => device.scheduler.set_thermal([Thermal::Fair, Thermal::Serious][random.below(2) as usize]),
                _ => device.scheduler.set_thermal(Thermal::Critical),
            },
            _ if device.scheduler.governor().suspended.is_some() => device.scheduler.resume(),
            _ if random.chance(50) => {
                let how = if random.chance(80) { WhileSuspended::Wait } else { WhileSuspended::Fail };
                device.scheduler.suspend(how);
                device.collect();
            }
            _ => {}
        }
    }
    device.drain();
    if resources == 0 {
        // Nothing makes them wait for each other, so lanes start in order.
        let mut last = [CommandId(0); 3];
        for id in &device.started {
            let lane = device.submitted[id.0 as usize - 1].2.index();
            assert!(*id > last[lane], "{id} started after {}", last[lane]);
            last[lane] = *id;
        }
    }
    device
}

#[test]
fn random_schedules_equal_sequential_ones() {
    let count = std::env::var("DALA_SCHEDULES").ok().and_then(|count| count.parse().ok()).unwrap_or(100_000);
    let (mut commands, mut passes) = (0, 0);
    let mut ends: BTreeMap<&'static str, usize> = BTreeMap::new();
    for seed in 0..count {
        let device = std::panic::catch_unwind(|| {
            let device = random_schedule(seed);
            device.check_against_sequential();
            device
        });
        let device = device.unwrap_or_else(|_| panic!("schedule {seed}"));
        commands += device.submitted.len();
        passes += device.passes;
        for end in device.ends.values() {
            *ends
                .entry(match end {
                    End::Completed => "completed",
                    End::Failed(_) => "failed",
                    End::Cancelled => "cancelled",
                    End::DeadlineExceeded => "past its deadline",
                    End::Dropped => "dropped",
                    End::Suspended => "suspended",
                    End::DependencyFailed { .. } => "dependency failed",
                })
                .or_default() += 1;
        }
        let totals = device.scheduler.totals();
        assert_eq!(totals.submitted, totals.completed + totals.failed + totals.cancelled);
    }
    println!("{count} schedules, {commands} commands, {passes} passes: {ends:?}");
    assert!(count < 1000 || ends.len() == 7, "every end was seen: {ends:?}");
}

/// A lane that always has work, beside others that always have work, keeps its share, and no stage of it waits forever.
#[test]
fn no_lane_starves() {
    for seed in 0..200 {
        let mut device = Device::new(seed, 1 << 20);
        let span = |random: &mut Random| MICROSECOND * (50 + random.below(3000)) as u32;
        let mut busy = [Duration::ZERO; 3];
        let (mut last_start, mut longest_wait) = ([Time::default(); 3], [Duration::ZERO; 3]);
        while device.now < Time(Duration::from_secs(4)) {
            for lane in Lane::ALL {
                while device.scheduler.lane(lane).pending < 80 {
                    let takes: Vec<Duration> =
                        (0..1 + device.random.below(3)).map(|_| span(&mut device.random)).collect();
                    device.submit(Task::new(&takes), lane, None);
                }
            }
            device.start();
            let (lane, before) = (device.in_flight[0].lane.index(), device.now);
            longest_wait[lane] = longest_wait[lane].max(before.since(last_start[lane]));
            device.finish();
            last_start[lane] = device.now;
            busy[lane] += device.now.since(before);
        }
        let share = |lane: Lane| busy[lane.index()].as_secs_f64() / device.now.0.as_secs_f64();
        assert!(share(Lane::Default) > 0.09, "seed {seed}: {busy:?}");
        assert!(share(Lane::Background) > 0.045, "seed {seed}: {busy:?}");
        assert!(share(Lane::Interactive) > 0.8, "seed {seed}: {busy:?}");
        // A stage of 3 ms at five percent.
        assert!(longest_wait[Lane::Background.index()] < Duration::from_millis(100), "seed {seed}: {longest_wait:?}");
    }
}

/// However busy the background is, an interactive command waits for what is in flight when it comes, and for no more.
#[test]
fn interactive_commands_wait_for_one_stage() {
    for seed in 0..500 {
        let mut device = Device::new(seed, 1 << 20);
        for _ in 0..200 {
            let takes: Vec<Duration> =
                (0..1 + device.random.below(40)).map(|_| MICROSECOND * device.random.below(9000) as u32).collect();
            device.submit(Task::new(&takes), Lane::Background, None);
        }
        for _ in 0..100 {
            device.start();
            let command = device.random.chance(40).then(|| {
                // It comes while a pass is in flight.
                device.submit(Task::new(&[MICROSECOND * 30]), Lane::Interactive, None)
            });
            device.finish();
            if let Some(command) = command {
                device.start();
                assert_eq!(device.in_flight[0].pieces[0].command, command, "seed {seed}");
                device.finish();
                assert_eq!(device.ends.get(&command), Some(&End::Completed));
            }
        }
    }
}

/// A command that an interactive one waits for goes before others of its own lane.
#[test]
fn those_before_are_lifted() {
    let mut device = Device::new(1, 1000);
    let ms = Duration::from_millis(5);
    for _ in 0..20 {
        device.submit(Task::new(&[ms]), Lane::Background, None);
    }
    let x = vec![ResourceId(1)];
    let first = device.submit(Task { writes: x.clone(), ..Task::new(&[ms]) }, Lane::Background, None);
    let second =
        device.submit(Task { reads: x.clone(), writes: vec![ResourceId(2)], ..Task::new(&[ms]) }, Lane::Default, None);
    let last = device.submit(Task { reads: vec![ResourceId(2)], ..Task::new(&[ms]) }, Lane::Interactive, None);
    for expected in [first, second, last] {
        device.start();
        assert_eq!(device.in_flight[0].pieces[0].command, expected);
        device.finish();
    }
    device.drain();
    device.check_against_sequential();
}

/// A thread that waits for background work does not make it urgent, and is not kept waiting once it is done.
#[test]
fn callers_do_not_hurry_those_before() {
    let mut device = Device::new(1, 1000);
    let ms = Duration::from_millis(5);
    let x = vec![ResourceId(1)];
    let background: Vec<CommandId> =
        (0..5).map(|_| device.submit(Task { writes: x.clone(), ..Task::new(&[ms]) }, Lane::Background, None)).collect();
    let reader = Task { reads: x, needs_caller: true, ..Task::new(&[ms]) };
    let read = device.submit(reader, Lane::Interactive, None);
    let unrelated = device.submit(Task::new(&[ms]), Lane::Background, None);
    let urgent = device.submit(Task::new(&[ms]), Lane::Interactive, None);
    for expected in [&[urgent], &background[..], &[read, unrelated]].concat() {
        device.start();
        assert_eq!(device.in_flight[0].pieces[0].command, expected);
        device.finish();
    }
}

#[test]
fn long_commands_yield_between_stages() {
    let mut device = Device::new(1, 1000);
    let long = device.submit(Task::new(&[Duration::from_millis(3); 10]), Lane::Background, None);
    device.start();
    let short = device.submit(Task::new(&[MICROSECOND]), Lane::Interactive, None);
    device.finish();
    assert!(!device.ends.contains_key(&long));
    device.start();
    device.finish();
    assert_eq!(device.ends.get(&short), Some(&End::Completed));
    assert!(!device.ends.contains_key(&long));
    device.drain();
    assert_eq!(device.ends.get(&long), Some(&End::Completed));
}

#[test]
fn small_stages_share_a_pass() {
    let mut device = Device::new(1, 1000);
    for _ in 0..100 {
        device.submit(Task::new(&[MICROSECOND * 100]), Lane::Default, None);
    }
    device.drain();
    // Twenty of 0.1 ms fit 2 ms.
    assert_eq!(device.passes, 5);
}

/// Where launches return before the work is done, small passes overlap, and large ones do not.
#[test]
fn small_passes_overlap() {
    let mut device = Device::with_depth(1, 1000, 2);
    for _ in 0..30 {
        device.submit(Task::new(&[MICROSECOND * 100]), Lane::Default, None);
    }
    let large = device.submit(Task::new(&[Duration::from_millis(5)]), Lane::Default, None);
    device.start();
    device.start();
    assert_eq!(device.in_flight.len(), 2);
    assert_eq!(device.in_flight[1].pieces.len(), 10);
    device.finish();
    device.start();
    assert_eq!(device.in_flight.len(), 2);
    // The large one waits until it is alone.
    device.finish();
    assert!(matches!(device.scheduler.next(device.now), Next::Finish));
    device.finish();
    device.start();
    assert_eq!(device.in_flight[0].pieces[0].command, large);
    device.drain();
}

/// A command that is to end launches nothing more, however many passes are in flight.
#[test]
fn doomed_commands_stop() {
    for how in 0..3 {
        let mut device = Device::with_depth(1, 1000, 2);
        let stages = vec![MICROSECOND * 600; 100];
        let fails_at = (how == 1).then_some(1);
        let long = device.submit(Task { fails_at, ..Task::new(&stages) }, Lane::Default, None);
        for _ in 0..3 {
            device.start();
        }
        match how {
            0 => assert!(device.scheduler.cancel(long)),
            1 => {}
            _ => device.scheduler.close(),
        }
        device.drain();
        assert!(device.passes <= 6, "{} passes", device.passes);
        assert_ne!(device.ends[&long], End::Completed);
    }
}

/// Commands that end before anything is decided leave nothing behind, and take nobody along.
#[test]
fn suspended_queues_forget_what_was_dropped() {
    let mut device = Device::new(1, 100);
    device.scheduler.suspend(WhileSuspended::Wait);
    let mut kept = Vec::new();
    for _ in 0..5000 {
        if device.scheduler.is_full(Lane::Default) {
            device.scheduler.drop_oldest(Lane::Default);
            device.collect();
            kept.remove(0);
        }
        kept.push(device.submit(Task::new(&[MICROSECOND]), Lane::Default, None));
    }
    assert!(device.scheduler.arrived.len() <= 300, "{}", device.scheduler.arrived.len());
    device.scheduler.resume();
    device.drain();
    assert_eq!(kept.len(), 100);
    assert!(kept.iter().all(|id| device.ends[id] == End::Completed));
}

/// Shares and rests are the same with two passes in flight.
#[test]
fn overlapping_passes_keep_shares_and_rests() {
    let mut device = Device::with_depth(1, 1 << 20, 2);
    while device.now < Time(Duration::from_secs(2)) {
        for lane in [Lane::Interactive, Lane::Background] {
            while device.scheduler.lane(lane).pending < 20 {
                device.submit(Task::new(&[MICROSECOND * 200]), lane, None);
            }
        }
        device.start();
    }
    let share = device.scheduler.lane(Lane::Background).busy.as_secs_f64() / device.now.0.as_secs_f64();
    assert!((0.04..0.06).contains(&share), "{share}");

    let mut device = Device::with_depth(1, 1 << 20, 2);
    device.scheduler.set_thermal(Thermal::Critical);
    while device.now < Time(Duration::from_secs(5)) {
        while device.scheduler.lane(Lane::Background).pending < 20 {
            device.submit(Task::new(&[MICROSECOND * 400]), Lane::Background, None);
        }
        if let Some(until) = device.start() {
            device.now = device.now.max(until);
        }
    }
    let share = device.scheduler.lane(Lane::Background).busy.as_secs_f64() / device.now.0.as_secs_f64();
    assert!((0.04..0.06).contains(&share), "{share}");
}

#[test]
fn heat_makes_lanes_rest() {
    let mut device = Device::new(1, 1000);
    device.scheduler.set_thermal(Thermal::Serious);
    device.submit(Task::new(&[Duration::from_millis(30); 2]), Lane::Background, None);
    device.start();
    device.finish();
    let until = device.start().unwrap();
    // Thirty milliseconds of work are fifteen percent of two hundred.
    assert_eq!(until, Time(Duration::from_millis(200)));
    device.submit(Task::new(&[MICROSECOND]), Lane::Interactive, None);
    assert_eq!(device.start(), None);
    assert_eq!(device.in_flight[0].lane, Lane::Interactive, "others need not rest");
}
