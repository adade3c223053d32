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
//! - After every call, [`take_ended`](Batcher::take_ended) says which requests ended. Every request that was taken is in it
//!   exactly once.
//! - After every [`offer`](Batcher::offer) and [`finished`](Batcher::finished), and when the time of [`Next::WaitUntil`] has
//!   come, ask [`next`](Batcher::next) until it does not say [`Next::Run`].
//!
//! What it leaves to others: the requests' data, what a run is, threads and clocks, and which requests have the same key. A
//! request with more items than the largest plan is refused; the server cuts it.

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
pub use lane::Lane;
pub use limits::Limits;
pub use load::Load;
pub use request::{Caller, Key, Refusal, Refused, Request, Room, Ticket};
pub use sizes::Sizes;
pub use time::Time;
pub use trace::{Event, Turn, Wait};
