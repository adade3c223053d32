//! How busy the server is, and what its models did.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::State;

/// How busy the back is now: for the page, for metrics, and for routers that choose the shorter wait.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Load {
    /// What each model and pipeline has to do.
    pub models: Vec<ModelLoad>,
    /// What each device has to do.
    pub devices: Vec<DeviceLoad>,
    /// How long a new request would wait, by lane, the highest first.
    pub expected_wait: [Duration; 3],
    /// How full the queue is, from 0 to 1: at 1 it refuses.
    pub fullness: f32,
}

/// What one model or pipeline has to do.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelLoad {
    /// Its name.
    pub name: Arc<str>,
    /// The version that is asked for without one.
    pub version: Arc<str>,
    /// Whether it can be asked.
    pub state: State,
    /// Items that wait.
    pub queued: usize,
    /// Items on a device.
    pub running: usize,
    /// How long a new request of the default lane would wait.
    pub expected_wait: Duration,
}

/// What one device has to do.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceLoad {
    /// As `dala info` names it.
    pub name: Arc<str>,
    /// The share of the last seconds in which it worked, from 0 to 1.
    pub busy: f32,
    /// Memory that is in use.
    pub memory_bytes: u64,
    /// Memory that may be used, if that is limited.
    pub budget_bytes: Option<u64>,
    /// How often it was lost and opened again.
    pub lost: usize,
}

/// What one version of a model did since it was loaded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statistics {
    /// The model's name.
    pub model: Arc<str>,
    /// Its version.
    pub version: Arc<str>,
    /// When a request last came.
    pub last: Option<SystemTime>,
    /// Items that were answered.
    pub items: u64,
    /// Runs of the device, each of one or more items.
    pub runs: u64,
    /// Requests that were answered, and how long each took.
    pub answered: Total,
    /// Requests that were not, and how long each took.
    pub refused: Total,
    /// What they waited for a run.
    pub queued: Total,
    /// Getting inputs to the device.
    pub uploaded: Total,
    /// The runs.
    pub ran: Total,
    /// Getting outputs back.
    pub downloaded: Total,
    /// The runs by how many items shared them.
    pub batches: Vec<BatchStatistics>,
}

/// What runs of one size did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BatchStatistics {
    /// How many items shared each.
    pub size: usize,
    /// Getting inputs to the device.
    pub uploaded: Total,
    /// The runs.
    pub ran: Total,
    /// Getting outputs back.
    pub downloaded: Total,
}

/// How often something happened, and how long it took together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// How often.
    pub count: u64,
    /// How long together.
    pub time: Duration,
}

impl Total {
    /// Counts one more.
    pub fn add(&mut self, time: Duration) {
        self.count += 1;
        self.time = self.time.saturating_add(time);
    }
}
