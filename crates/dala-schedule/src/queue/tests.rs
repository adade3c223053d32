//! The threads, against an executor that adds numbers. With the feature `shuttle`, every test tries many interleavings of
//! its threads, and a lost wake-up shows as a deadlock.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail loudly")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use super::*;
use crate::ResourceId;

/// Tries a test once with real threads, or in many interleavings.
fn check(test: impl Fn() + Send + Sync + 'static) {
    #[cfg(feature = "shuttle")]
    {
        let count = std::env::var("DALA_INTERLEAVINGS").ok().and_then(|count| count.parse().ok()).unwrap_or(3000);
        let test = std::sync::Arc::new(test);
        let again = test.clone();
        shuttle::check_random(move || test(), count);
        shuttle::check_pct(move || again(), count, 3);
    }
    #[cfg(not(feature = "shuttle"))]
    for _ in 0..200 {
        test();
    }
}

const COUNTER: ResourceId = ResourceId(1);

struct Task {
    reads: Vec<ResourceId>,
    writes: Vec<ResourceId>,
    stages: usize,
    needs_caller: bool,
    panics: bool,
}

/// Adds one at each stage.
fn add(stages: usize) -> Task {
    Task { reads: vec![COUNTER], writes: vec![COUNTER], stages, needs_caller: false, panics: false }
}

fn by_caller() -> Task {
    Task { needs_caller: true, ..add(1) }
}

impl Schedulable for Task {
    fn stages(&self) -> usize {
        self.stages
    }
    fn cost(&self, _stage: usize) -> Option<Duration> {
        Some(Duration::from_micros(600))
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

#[derive(Default)]
struct Adder {
    value: AtomicUsize,
    busy: AtomicUsize,
    ended: AtomicUsize,
    poisoned: Mutex<(u64, bool)>,
}

impl Adder {
    /// Adds, and makes sure that nobody else does meanwhile.
    fn add(&self, count: usize) {
        assert_eq!(self.busy.swap(1, Ordering::SeqCst), 0, "two threads drive");
        let before = self.value.load(Ordering::SeqCst);
        thread::yield_now();
        self.value.store(before + count, Ordering::SeqCst);
        self.busy.store(0, Ordering::SeqCst);
    }
}

impl Executor for Arc<Adder> {
    type Job = Task;
    type Error = String;

    type Launched = ();

    fn depth(&self) -> usize {
        2
    }

    fn launch(&self, pass: &Pass<Task>) {
        assert!(!pass.pieces.iter().any(|piece| piece.work.panics), "as asked");
        let busy = self.busy.fetch_add(1, Ordering::SeqCst);
        assert_eq!(busy, 0, "two threads drive");
        thread::yield_now();
        self.busy.fetch_sub(1, Ordering::SeqCst);
    }

    fn finish(&self, pass: &Pass<Task>, (): ()) -> Vec<Result<(), String>> {
        let run = |piece: &crate::Piece<Task>| {
            self.add(piece.stages.len());
            Ok(())
        };
        pass.pieces.iter().map(run).collect()
    }

    fn readable(&self, _work: &Task, _resource: ResourceId) -> Result<(), String> {
        if lock(&self.poisoned).1 { Err("poisoned".to_owned()) } else { Ok(()) }
    }

    fn ended(&self, command: CommandId, work: &Task, end: &End<String>) {
        self.ended.fetch_add(1, Ordering::SeqCst);
        let mut poisoned = lock(&self.poisoned);
        if !work.writes.is_empty() && command.0 >= poisoned.0 {
            *poisoned = (command.0, *end != End::Completed);
        }
    }

    fn panicked(&self, message: &str) -> String {
        message.to_owned()
    }
}

fn queue(capacity: usize) -> (Arc<Adder>, Arc<Queue<Arc<Adder>>>) {
    let adder = Arc::new(Adder::default());
    (adder.clone(), Arc::new(Queue::new(adder, QueueOptions { capacity })))
}

fn spawn(work: impl FnOnce() + Send + 'static) -> thread::JoinHandle<()> {
    thread::spawn(work)
}

fn join(threads: Vec<thread::JoinHandle<()>>) {
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn every_way_to_wait() {
    check(|| {
        let (adder, queue) = queue(100);
        let (q, a) = (queue.clone(), adder.clone());
        let threads = vec![
            spawn({
                let queue = queue.clone();
                move || queue.run(add(2), Submission::default()).unwrap()
            }),
            spawn({
                let queue = queue.clone();
                move || {
                    let how = Submission { lane: Lane::Background, ..Submission::default() };
                    let tickets: Vec<_> = (0..2).map(|_| queue.submit(add(1), how).unwrap()).collect();
                    for ticket in &tickets {
                        assert_eq!(queue.wait(ticket, None), Some(End::Completed));
                    }
                }
            }),
            spawn(move || {
                let how = Submission { lane: Lane::Interactive, ..Submission::default() };
                let value = q.act(by_caller(), how, || {
                    a.add(1);
                    Ok(a.value.load(Ordering::SeqCst))
                });
                assert!(value.unwrap() >= 1);
            }),
        ];
        join(threads);
        assert_eq!(adder.value.load(Ordering::SeqCst), 5);
        assert_eq!(adder.ended.load(Ordering::SeqCst), 4);
    });
}

struct Flag(Mutex<bool>, Condvar);

impl Flag {
    fn wait(&self) {
        let mut woken = lock(&self.0);
        while !*woken {
            woken = self.1.wait(woken).unwrap_or_else(PoisonError::into_inner);
        }
        *woken = false;
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        *lock(&self.0) = true;
        self.1.notify_all();
    }
}

/// Callbacks and wakers come once, even if they are registered while the command ends.
#[test]
fn every_waiter_hears_of_the_end() {
    check(|| {
        let (_, queue) = queue(100);
        let tickets: Vec<_> = (0..2).map(|_| queue.submit(add(1), Submission::default()).unwrap()).collect();
        let called = Arc::new(AtomicUsize::new(0));
        let threads = tickets.into_iter().map(|ticket| {
            let (called, queue) = (called.clone(), queue.clone());
            spawn(move || {
                let calls = called.clone();
                queue.on_end(&ticket, move |_| {
                    calls.fetch_add(1, Ordering::SeqCst);
                });
                let flag = Arc::new(Flag(Mutex::new(false), Condvar::new()));
                let (waker, mut slot) = (Waker::from(flag.clone()), None);
                while ticket.register(&waker, &mut slot).is_none() {
                    flag.wait();
                }
            })
        });
        join(threads.collect());
        // Callbacks come shortly after the end is seen, in order: this one is the last.
        let done = Arc::new(Flag(Mutex::new(false), Condvar::new()));
        let last = queue.submit(add(1), Submission::default()).unwrap();
        let flag = done.clone();
        queue.on_end(&last, move |_| flag.wake());
        done.wait();
        assert_eq!(called.load(Ordering::SeqCst), 2);
    });
}

#[test]
fn full_lanes_make_submitters_wait() {
    check(|| {
        let (adder, queue) = queue(1);
        let threads = (0..3).map(|_| {
            let queue = queue.clone();
            spawn(move || {
                for _ in 0..2 {
                    queue.submit(add(1), Submission::default()).unwrap();
                }
            })
        });
        join(threads.collect());
        queue.run(add(1), Submission::default()).unwrap();
        assert_eq!(adder.value.load(Ordering::SeqCst), 7);
    });
}

#[test]
fn cancelling_races_with_everything() {
    check(|| {
        let (adder, queue) = queue(100);
        let tickets: Vec<_> = (0..3).map(|_| queue.submit(add(2), Submission::default()).unwrap()).collect();
        let cancel = {
            let (queue, id) = (queue.clone(), tickets[0].id());
            spawn(move || {
                queue.cancel(id);
            })
        };
        let waiter = {
            let (queue, ticket) = (queue.clone(), tickets[1].clone());
            spawn(move || drop(queue.wait(&ticket, None)))
        };
        let ends: Vec<_> = tickets.iter().map(|ticket| queue.wait(ticket, None).unwrap()).collect();
        join(vec![cancel, waiter]);
        match &ends[0] {
            End::Completed => assert_eq!(ends, [End::Completed, End::Completed, End::Completed]),
            End::Cancelled => {
                assert!(matches!(&ends[1], End::DependencyFailed { root, .. } if *root == tickets[0].id()));
                assert!(matches!(&ends[2], End::DependencyFailed { root, .. } if *root == tickets[0].id()));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(adder.ended.load(Ordering::SeqCst), 3);
    });
}

#[test]
fn suspended_queues_do_nothing() {
    check(|| {
        let (adder, queue) = queue(100);
        let submitter = {
            let queue = queue.clone();
            spawn(move || {
                queue.submit(add(2), Submission::default()).unwrap();
                queue.run(add(1), Submission::default()).unwrap();
            })
        };
        queue.suspend(WhileSuspended::Wait);
        let value = adder.value.load(Ordering::SeqCst);
        thread::yield_now();
        assert_eq!(adder.value.load(Ordering::SeqCst), value);
        queue.resume();
        join(vec![submitter]);
        assert_eq!(adder.value.load(Ordering::SeqCst), 3);
    });
}

#[test]
fn closing_answers_everyone() {
    check(|| {
        let (adder, queue) = queue(100);
        let tickets: Vec<_> = (0..3).map(|_| queue.submit(add(1), Submission::default()).unwrap()).collect();
        drop(queue);
        assert!(tickets.iter().all(|ticket| ticket.state().is_final()));
        assert_eq!(adder.ended.load(Ordering::SeqCst), 3);
    });
}

/// Callbacks may use the queue as anyone does: they wait, they read, they suspend, also if lanes are full.
#[test]
fn callbacks_use_the_queue() {
    check(|| {
        let (adder, queue) = queue(1);
        let done = Arc::new(Flag(Mutex::new(false), Condvar::new()));
        let tickets: Vec<_> = (0..2).map(|_| queue.submit(add(1), Submission::default()).unwrap()).collect();
        for ticket in &tickets {
            let (again, adder, flag) = (queue.clone(), adder.clone(), done.clone());
            let is_last = ticket.id() == tickets[1].id();
            queue.on_end(ticket, move |_| {
                again.submit(add(1), Submission::default()).unwrap();
                again
                    .act(by_caller(), Submission::default(), || {
                        adder.add(1);
                        Ok(())
                    })
                    .unwrap();
                again.suspend(WhileSuspended::Wait);
                again.resume();
                again.run(add(1), Submission::default()).unwrap();
                drop(again);
                if is_last {
                    flag.wake();
                }
            });
        }
        queue.run(add(1), Submission::default()).unwrap();
        done.wait();
        assert_eq!(adder.value.load(Ordering::SeqCst), 9);
    });
}

#[cfg(not(feature = "shuttle"))]
mod with_real_threads {
    use super::*;

    /// Only so that nothing hangs.
    const LIMIT: Duration = Duration::from_secs(300);

    #[test]
    fn panics_are_answers() {
        let (adder, queue) = queue(100);
        let panics = || Task { panics: true, ..add(1) };
        let ticket = queue.submit(panics(), Submission::default()).unwrap();
        assert_eq!(queue.wait(&ticket, Some(LIMIT)), Some(End::Failed("as asked".to_owned())));
        let error = queue.run(panics(), Submission::default()).unwrap_err();
        assert_eq!(error, Unfinished::Refused(Refusal::Unreadable("poisoned".to_owned())));
        let heals = Task { reads: Vec::new(), ..by_caller() };
        queue.act(heals, Submission::default(), || Ok(())).unwrap();
        let error = queue.act(by_caller(), Submission::default(), || -> Result<(), _> { panic!("mine") }).unwrap_err();
        assert!(matches!(error, Unfinished::Ended(_, End::Failed(message)) if message == "mine"));
        queue.act(Task { reads: Vec::new(), ..by_caller() }, Submission::default(), || Ok(())).unwrap();
        let ticket = queue.submit(add(1), Submission::default()).unwrap();
        queue.on_end(&ticket, |_| panic!("a callback that panics"));
        assert_eq!(queue.wait(&ticket, None), Some(End::Completed));
        queue.run(add(1), Submission::default()).unwrap();
        assert_eq!(adder.value.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn waits_and_deadlines_are_bounded() {
        let (_, queue) = queue(1);
        queue.suspend(WhileSuspended::Wait);
        let ticket = queue.submit(add(1), Submission::default()).unwrap();
        assert_eq!(queue.wait(&ticket, Some(Duration::from_millis(1))), None);
        assert_eq!(ticket.state(), crate::CommandState::Pending);
        let refused = queue.submit(add(1), Submission { when_full: WhenFull::Refuse, ..Submission::default() });
        assert_eq!(refused.err(), Some(Refusal::Full { lane: Lane::Default, capacity: 1 }));
        assert!(queue.cancel(ticket.id()));
        let within = Submission { start_within: Some(Duration::from_millis(5)), ..Submission::default() };
        let ticket = queue.submit(Task { reads: vec![], ..add(1) }, within).unwrap();
        assert_eq!(queue.wait(&ticket, Some(LIMIT)), Some(End::DeadlineExceeded));
        queue.run(Task { reads: vec![], writes: vec![], ..add(0) }, within).unwrap_err();
        queue.resume();
    }

    /// A thread that waits to read is not dropped for someone's newer command.
    #[test]
    fn callers_are_not_dropped() {
        let (adder, queue) = queue(1);
        queue.suspend(WhileSuspended::Wait);
        let (reader, own) = (queue.clone(), adder.clone());
        let thread = spawn(move || {
            let how = Submission { lane: Lane::Interactive, ..Submission::default() };
            let act = || {
                own.add(1);
                Ok(())
            };
            reader.act(by_caller(), how, act).unwrap();
        });
        while lock(&queue.0.state).cells.is_empty() {
            std::thread::yield_now();
        }
        let how = Submission { when_full: WhenFull::DropOldest, lane: Lane::Interactive, ..Submission::default() };
        let free = || Task { reads: vec![], ..add(1) };
        let tickets: Vec<_> = (0..3).map(|_| queue.submit(free(), how).unwrap()).collect();
        queue.resume();
        join(vec![thread]);
        assert_eq!(queue.wait(&tickets[2], None), Some(End::Completed));
        assert_eq!(adder.value.load(Ordering::SeqCst), 2);
    }

    /// A limit ends a wait also where it is the callbacks' thread that waits.
    #[test]
    fn callbacks_wait_with_limits() {
        let (_, queue) = queue(1);
        let ticket = queue.submit(add(1), Submission::default()).unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        let again = queue.clone();
        queue.on_end(&ticket, move |_| {
            let next = again.submit(add(1), Submission::default()).unwrap();
            let first = again.wait(&next, Some(LIMIT));
            again.suspend(WhileSuspended::Wait);
            let held = again.submit(add(1), Submission::default()).unwrap();
            let second = again.wait(&held, Some(Duration::from_millis(5)));
            let within = Submission { start_within: Some(Duration::from_millis(5)), ..Submission::default() };
            let third = again.submit(add(1), within).err();
            again.resume();
            sender.send((first, second, third)).unwrap();
        });
        let (first, second, third) = receiver.recv_timeout(2 * LIMIT).unwrap();
        assert_eq!((first, second), (Some(End::Completed), None));
        assert_eq!(third, Some(Refusal::DeadlineExceeded));
    }

    #[test]
    fn the_newest_take_the_place_of_the_oldest() {
        let (adder, queue) = queue(2);
        queue.suspend(WhileSuspended::Wait);
        let how = Submission { when_full: WhenFull::DropOldest, ..Submission::default() };
        let free = || Task { reads: vec![], ..add(1) };
        let tickets: Vec<_> = (0..5).map(|_| queue.submit(free(), how).unwrap()).collect();
        queue.resume();
        let ends: Vec<_> = tickets.iter().map(|ticket| queue.wait(ticket, None).unwrap()).collect();
        assert_eq!(ends, [End::Dropped, End::Dropped, End::Dropped, End::Completed, End::Completed]);
        assert_eq!(adder.value.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn failing_while_suspended() {
        let (_, queue) = queue(10);
        queue.suspend(WhileSuspended::Wait);
        let ticket = queue.submit(add(1), Submission::default()).unwrap();
        queue.suspend(WhileSuspended::Fail);
        assert_eq!(queue.wait(&ticket, None), Some(End::Suspended));
        assert_eq!(queue.run(add(1), Submission::default()), Err(Unfinished::Refused(Refusal::Suspended)));
        queue.resume();
    }

    #[test]
    fn old_commands_are_forgotten() {
        let (_, queue) = queue(100);
        let nothing = || Task { reads: vec![], writes: vec![], ..add(0) };
        let first = queue.submit(nothing(), Submission::default()).unwrap().id();
        queue.run(nothing(), Submission::default()).unwrap();
        assert!(queue.find(first).is_some());
        for _ in 0..REMEMBERED {
            let ticket = queue.submit(nothing(), Submission::default()).unwrap();
            queue.run(nothing(), Submission::default()).unwrap();
            queue.wait(&ticket, None);
        }
        assert!(queue.find(first).is_none());
        let state = lock(&queue.0.state);
        assert_eq!((state.cells.len(), state.finished.len()), (REMEMBERED, REMEMBERED));
    }
}
