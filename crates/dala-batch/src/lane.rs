//! What the lanes of the device mean for requests that wait for it.

use std::time::Duration;

use dala_schedule::Lane;

/// How much of all room, in percent, is there for a lane: what is above is kept for higher ones.
pub(crate) const fn room_percent(lane: Lane) -> u64 {
    match lane {
        Lane::Interactive => 100,
        Lane::Default => 90,
        Lane::Background => 75,
    }
}

/// When a request without a deadline counts as due: among requests with deadlines it must not wait for ever.
pub(crate) const fn patience(lane: Lane) -> Duration {
    match lane {
        Lane::Interactive => Duration::from_millis(100),
        Lane::Default => Duration::from_secs(1),
        Lane::Background => Duration::from_secs(10),
    }
}
