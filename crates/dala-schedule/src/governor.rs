//! How hard a device may work: power, heat, and whether it may work at all.

use std::time::Duration;

use crate::Lane;

/// How much energy the program wants to spend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Power {
    /// Lower lanes rest between passes, and passes are short.
    Low,
    /// Lanes run freely.
    #[default]
    Balanced,
    /// Longer passes: fewer waits for the device, at the price of latency.
    High,
}

/// How hot the device is, in the words of mobile systems.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Thermal {
    /// Cool.
    #[default]
    Nominal,
    /// Warm: background work rests half of the time.
    Fair,
    /// Hot: the default and the background lane are slowed down.
    Serious,
    /// About to be throttled or shut down: everything is slowed down.
    Critical,
}

/// What becomes of pending commands while a device is suspended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WhileSuspended {
    /// They wait until it is resumed.
    #[default]
    Wait,
    /// They fail, and so do new ones.
    Fail,
}

/// How hard a device may work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Governor {
    /// What the program asked for.
    pub power: Power,
    /// What the program reported.
    pub thermal: Thermal,
    /// Set while the device may not be touched.
    pub suspended: Option<WhileSuspended>,
}

impl Governor {
    /// The share of time, in percent, that passes of a lane may keep the device busy.
    pub fn duty_percent(&self, lane: Lane) -> u32 {
        let by_power = match self.power {
            Power::Low => [100, 60, 30],
            Power::Balanced | Power::High => [100, 100, 100],
        };
        let by_heat = match self.thermal {
            Thermal::Nominal => [100, 100, 100],
            Thermal::Fair => [100, 80, 50],
            Thermal::Serious => [100, 40, 15],
            Thermal::Critical => [50, 15, 5],
        };
        by_power[lane.index()].min(by_heat[lane.index()])
    }

    /// How much device time may be in flight at once. A single stage may take longer: it cannot be cut.
    pub fn in_flight(&self, lane: Lane) -> Duration {
        let span = match self.power {
            Power::Low => Duration::from_millis(1),
            Power::Balanced => Duration::from_millis(2),
            Power::High => Duration::from_millis(4),
        };
        // The first of a pass is answered with the last: whoever waits should not wait for many.
        if lane == Lane::Interactive { span / 4 } else { span }
    }

    /// How long a lane rests after a pass that kept the device busy for `busy`.
    pub(crate) fn rest(&self, lane: Lane, busy: Duration) -> Duration {
        let duty = self.duty_percent(lane);
        busy * (100 - duty) / duty
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duty_is_kept_by_resting() {
        let mut governor = Governor::default();
        assert_eq!(governor.rest(Lane::Background, Duration::from_millis(10)), Duration::ZERO);
        governor.thermal = Thermal::Fair;
        assert_eq!(governor.rest(Lane::Background, Duration::from_millis(10)), Duration::from_millis(10));
        assert_eq!(governor.rest(Lane::Interactive, Duration::from_millis(10)), Duration::ZERO);
        governor.power = Power::Low;
        assert_eq!(governor.duty_percent(Lane::Background), 30);
        assert_eq!(governor.in_flight(Lane::Default), Duration::from_millis(1));
    }
}
