//! Which node a request goes to.
//!
//! Several members answer to one name: nodes, processes or addresses that serve the same model. Whoever sends requests to
//! them asks a [`Router`] where each one goes, and tells it what became of it. The router is plain data under a clock that its
//! caller reads: it has no thread, no socket and no protocol, and knows of members what it is told.
//!
//! ```
//! use std::time::Duration;
//! use dala_route::{Ask, Lane, Limits, Member, Ran, Router, Time, Word};
//!
//! let at = |ms| Time(Duration::from_millis(ms));
//! let says = |ms| Some(Word { expected_wait: [Duration::from_millis(ms); 3], room: [100; 3], ..Word::default() });
//! let mut router = Router::new(Limits::default());
//! router.join(at(0), Member(1));
//! router.join(at(0), Member(2));
//!
//! // Nothing is known yet: they have turns, from a random one on.
//! let ask = Ask { lane: Lane::Default, deadline: Some(at(300)), pure: true, only: None };
//! let first = router.ask(at(0), ask, 7).unwrap();
//! let second = router.ask(at(0), ask, 7).unwrap();
//! assert_ne!(first.member, second.member);
//!
//! // Every answer says how long the next one would wait: the shorter, whosever turn it is.
//! router.answered(at(20), first.ticket, says(90));
//! router.answered(at(21), second.ticket, says(10));
//! let third = router.ask(at(22), ask, 7).unwrap();
//! assert_eq!(third.member, second.member);
//!
//! // It is lost. The request is pure, so that the other may answer it.
//! let again = router.lost(at(30), third.ticket, Ran::Perhaps, 7).unwrap();
//! assert_eq!((again.ticket, again.member), (third.ticket, first.member));
//! router.answered(at(120), again.ticket, says(10));
//! assert_eq!(router.in_flight(), 0);
//! ```
//!
//! How a caller uses it: [`ask`](Router::ask), send the request to the member of the [`Route`], and tell one of
//! [`answered`](Router::answered), [`refused`](Router::refused), [`lost`](Router::lost), [`late`](Router::late) and
//! [`gone`](Router::gone). The three in the middle give the next route, or the reason why there is none. A ticket is always with
//! exactly one member.
//!
//! The rules:
//!
//! - **Choice.** Members have turns; the one whose turn it is is compared with one at random, which is taken if it would answer
//!   clearly sooner. Turns spread requests evenly, which is best where all are alike, and the second look passes over whoever is
//!   slow or full. Callers that looked at all members would find the same best one, and it would be the worst a moment later.
//! - **Waits** are what a member said last, less the time since, and more for each request that was sent to it since. As far as
//!   its word is worked off, what it usually says takes its place, and after a second or so what all usually say. A member that
//!   answers later than it says, for a long way or any other reason, is known by that.
//! - **Refusal** is only for what was said of late: the rest of the word alone is past the deadline, with sixteen members. It
//!   says when to ask again. Old words refuse nothing, so nobody is refused for ever.
//! - **Lost members**, and those that drain, are passed over for a time, each time longer; then one request tries them, one that
//!   may be lost if there is any. Without a sign of a member for half of the time that a request has, or three times as long as
//!   was expected, it counts as lost. Who was not asked for a while is asked as soon as anything is heard of it. When nobody is
//!   left and one comes back, all others are tried at once.
//! - **Repeats.** What certainly did not run goes to another member at once; what may have run only if it is pure. A request
//!   goes to nobody twice, is sent [`Limits::tries`] times at most, and only to who would be in time. Of all requests
//!   [`Limits::repeat_percent`] are repeated at most, so that failures do not become load.
//! - **Bound requests** ([`Ask::only`]) go to one member or nowhere.
//!
//! Every decision can be [traced](Router::trace): an [`Event`] prints as a line with the numbers that it stood on.
//!
//! What it leaves to others: who is a member, how requests get there, timers. A decision takes well below a microsecond,
//! whatever the number of members.

mod ask;
mod budget;
mod known;
mod limits;
mod mean;
mod members;
mod router;
mod trace;
mod word;

pub use ask::{Ask, Ran, Refusal, Refused, Route, Ticket};
pub use dala_batch::{Lane, Time};
pub use limits::Limits;
pub use router::{Router, Standing};
pub use trace::{Event, Pick};
pub use word::{Member, Word};
