//! What is tried, as it is in the tables.

use super::callers::How;
use super::node::{CORES, GPU};
use super::{Happening, MILLI, SECOND, Scenario};

/// When the network is back in [`cut`].
pub(crate) const MENDED: u64 = 6 * SECOND;

/// A steady load.
pub(crate) fn load(nodes: usize, how: How, load: f64, seconds: u64) -> Scenario {
    Scenario { until: (1 + seconds) * SECOND, ..Scenario::new(CORES, nodes, how, load) }
}

/// A million requests in a second, for a thousand nodes.
pub(crate) fn million(how: How, warm: u64, until: u64) -> Scenario {
    let load = 1e6 / (1000.0 * GPU.saturation());
    Scenario { callers: 8, warm, until, ..Scenario::new(GPU, 1000, how, load) }
}

/// A tenth of the nodes is gone at once. Their names are taken from the list a second later.
pub(crate) fn killed(nodes: usize, how: How, silent: bool, pure_percent: u64) -> Scenario {
    let happenings = vec![(3 * SECOND, Happening::Kill { percent: 10, silent })];
    Scenario { happenings, pure_percent, ..Scenario::new(CORES, nodes, how, 0.7) }
}

/// One node in eight after the other is started anew; callers are told that it goes, or find out.
pub(crate) fn restarts(nodes: usize, how: How, told: bool) -> Scenario {
    let step = nodes.div_ceil(8);
    let restart = |turn: usize| {
        let time = SECOND + turn as u64 * 2 * SECOND;
        (time, Happening::Restart { from: turn * step, to: (turn + 1) * step })
    };
    let happenings = (0..nodes.div_ceil(step)).map(restart).collect();
    let notice = told.then_some(MILLI);
    Scenario { happenings, notice, until: 19 * SECOND, ..Scenario::new(CORES, nodes, how, 0.7) }
}

/// One node takes five times as long.
pub(crate) fn slow(nodes: usize, how: How, load: f64) -> Scenario {
    Scenario { slow: 5.0, until: 11 * SECOND, ..Scenario::new(CORES, nodes, how, load) }
}

/// Two models, and nine of ten requests are for one of them.
pub(crate) fn hot(nodes: usize, how: How, load: f64) -> Scenario {
    Scenario { hot_percent: 90, until: 11 * SECOND, ..Scenario::new(CORES, nodes, how, load) }
}

/// No message passes for three seconds. Callers that are refused come again when they are told to.
pub(crate) fn cut(nodes: usize, how: How) -> Scenario {
    let happenings = vec![(3 * SECOND, Happening::Cut), (MENDED, Happening::Mend)];
    Scenario { happenings, returns: true, until: 16 * SECOND, ..Scenario::new(CORES, nodes, how, 0.6) }
}
