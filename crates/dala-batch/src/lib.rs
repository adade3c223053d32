//! Which requests share a run of a device.
//!
//! A server hands every request to a [`Batcher`], and asks it what to run. The batcher is plain data under a clock that its
//! caller reads: it has no thread, no socket and no device, and a server in any language can carry out what it says.
//!
//! ```
//! use std::time::Duration;
//! use dala_batch::{Batcher, Caller, End, Lane, Limits, Next, Outcome, Request, Time};
//!
//! let at = |ms| Time(Duration::from_millis(ms));
//! let mut batcher = Batcher::new(Limits::default());
//! let key = batcher.key([1, 2, 4, 8]);
//! let request = Request { key, lane: Lane::Default, caller: Caller(1), deadline: None, items: 1, bytes: 600 };
//!
//! // A lone request on an idle device runs at once.
//! let first = batcher.offer(at(0), request).unwrap();
//! let Next::Run(batch) = batcher.next(at(0)) else { panic!() };
//! assert_eq!((batch.size, &batch.tickets[..]), (1, &[first][..]));
//!
//! // Those that come while it runs share the next batch.
//! batcher.offer(at(1), request).unwrap();
//! batcher.offer(at(2), request).unwrap();
//! assert_eq!(batcher.next(at(2)), Next::Idle);
//! batcher.finished(at(10), batch.id, Outcome::Done);
//! assert_eq!(batcher.take_ended()[0].end, End::Done);
//! let Next::Run(batch) = batcher.next(at(10)) else { panic!() };
//! assert_eq!((batch.size, batch.tickets.len()), (2, 2));
//! ```
//!
//! How a server uses it:
//!
//! - After every [`offer`](Batcher::offer) and [`finished`](Batcher::finished), and when the time of [`Next::WaitUntil`] has
//!   come, ask [`next`](Batcher::next) until it does not say [`Next::Run`].
//! - After every call, [`take_ended`](Batcher::take_ended) says which requests ended. Every request that was taken is in it
//!   exactly once, those that left included.
//!
//! The rules:
//!
//! - **Size.** Of the planned sizes the one with the most items in a second that are answered in time. So a plan with empty
//!   places is run only if no smaller ones together are cheaper.
//! - **Order.** A higher [`Lane`] goes first; a lower one keeps a small share of the device, and fills places that are left.
//!   In a lane callers have turns of eight items; in a turn the earliest deadline goes first, whatever its key. Without a
//!   deadline a request counts as due after 0.1, 1 or 10 seconds, by its lane.
//! - **Passing.** Where a device lets urgent runs go between the parts of others ([`Limits::overtakes`]), a batch of a higher
//!   lane than all that runs does not wait for a slot.
//! - **Waiting.** What comes while the device is busy gathers. A request that finds it idle runs at once, unless
//!   [`Limits::linger`] says otherwise. A device that becomes free waits only for callers that it just answered, if they are
//!   known to send again at once and all gain by it.
//! - **Deadlines** are for answers. A request that is expected to be answered later is refused at once, with the expected
//!   wait; one that became too late ends before it costs a run. Expectations may be wrong: a request that is alone is tried.
//! - **Room** is bounded in items and bytes, and is left for higher lanes and for one more caller.
//! - **Failures.** A batch that fails is tried again in halves, until the request that makes it fail is alone. With a lost
//!   device the same, and a request that was there too often is given up.
//! - **Times.** What runs take is measured for each key and size; sizes that were not run yet are guessed from others.
//!
//! Every decision can be [traced](Batcher::trace): an [`Event`] prints as a line with the numbers that it stood on.
//!
//! What it leaves to others: the requests' data, what a run is, threads and clocks, and which requests have the same key. A
//! request with more items than the largest plan is refused; the server cuts it. A decision takes about a microsecond for
//! each request; nothing is looked through.

mod batch;
mod batcher;
mod callers;
mod choose;
mod lane;
mod limits;
mod load;
mod queues;
mod request;
mod running;
mod service;
mod shares;
mod sizes;
mod slab;
mod time;
mod trace;
mod window;

pub use batch::{Batch, BatchId, End, Ended, Next, Outcome};
pub use batcher::Batcher;
pub use dala_schedule::Lane;
pub use limits::Limits;
pub use load::Load;
pub use request::{Caller, Key, Refusal, Refused, Request, Room, Ticket};
pub use sizes::Sizes;
pub use time::Time;
pub use trace::{Event, Turn, Wait};
