//! A fleet on one thread: real routers and real batchers, with messages, devices and failures under a simulated clock.

pub(crate) mod callers;
pub(crate) mod figures;
pub(crate) mod node;
pub(crate) mod random;
pub(crate) mod scenarios;
mod world;

use callers::How;
use figures::Figures;
use node::Table;

pub(crate) const MILLI: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1_000 * MILLI;

/// Something that happens to the fleet. Times and spans are in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Happening {
    /// So many nodes, in percent, are gone at once. Connections break; or, if silent, nothing is heard any more.
    Kill { percent: usize, silent: bool },
    /// Nodes from one number up to another end what they have, are away for a second, and come back.
    Restart { from: usize, to: usize },
    /// No message passes any more.
    Cut,
    /// Messages pass again.
    Mend,
}

/// What is simulated.
#[derive(Clone)]
pub(crate) struct Scenario {
    pub(crate) table: Table,
    pub(crate) nodes: usize,
    /// Nodes of callers, each with a router of its own for each model.
    pub(crate) callers: usize,
    /// Those whom requests are of, and who have turns at every node.
    pub(crate) people: u64,
    pub(crate) how: How,
    /// Of what all devices can do.
    pub(crate) load: f64,
    /// So many callers that ask again as soon as they were answered, instead of that load.
    pub(crate) closed: Option<usize>,
    /// What counts begins after the first of these, and requests end with the second.
    pub(crate) warm: u64,
    pub(crate) until: u64,
    /// What a message takes, one way; a tenth more or less.
    pub(crate) latency: u64,
    /// Of a hundred requests, how many may be run twice.
    pub(crate) pure_percent: u64,
    /// How many times as long the runs of the first node take.
    pub(crate) slow: f64,
    /// Of a hundred requests, how many are for the first model; the others are for the second.
    pub(crate) hot_percent: u64,
    /// Whether callers that are refused come again when they are told to, for ten seconds.
    pub(crate) returns: bool,
    /// How long after a node is gone, or wants to go, callers are told; if they are, and if it is back as well.
    pub(crate) notice: Option<u64>,
    pub(crate) happenings: Vec<(u64, Happening)>,
}

impl Scenario {
    pub(crate) fn new(table: Table, nodes: usize, how: How, load: f64) -> Scenario {
        Scenario {
            table,
            nodes,
            callers: 4,
            people: 50,
            how,
            load,
            closed: None,
            warm: SECOND,
            until: 6 * SECOND,
            latency: MILLI / 2,
            pure_percent: 100,
            slow: 1.0,
            hot_percent: 100,
            returns: false,
            notice: Some(SECOND),
            happenings: Vec::new(),
        }
    }

    pub(crate) fn run(&self) -> Figures {
        world::World::new(self).run()
    }
}
