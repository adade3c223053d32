//! One version of something that is served: what it is, what runs it, and what it did.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use dala_batch::{End, Ended, Key, Lane, Sizes};

use super::desk::{Desk, Shared};
use super::work::{Failure, Ran, Served, Share, Work};
use crate::{BatchStatistics, ModelInfo, Statistics, Tensor};

/// How many combinations of shapes have runs of their own. Requests of further ones are run one by one.
const MAX_SHAPES: usize = 64;

/// One version of a model or pipeline. It lives as long as it is served or a request for it has not ended; then its place at the
/// desk is free.
pub(super) struct Version {
    pub(super) info: Arc<ModelInfo>,
    work: Box<dyn Work>,
    desk: Arc<Shared>,
    sizes: Vec<u32>,
    keys: Mutex<Keys>,
    statistics: Mutex<Statistics>,
}

#[derive(Default)]
struct Keys {
    by_shapes: HashMap<Vec<Vec<usize>>, Key>,
    /// For requests that share runs with none.
    single: Option<Key>,
}

impl Version {
    /// Something that shares runs of these sizes.
    pub(super) fn new(info: ModelInfo, work: Box<dyn Work>, desk: &Arc<Shared>, sizes: Vec<u32>) -> Version {
        let statistics =
            Statistics { model: info.name.clone(), version: info.version.clone(), ..Statistics::default() };
        Version {
            info: Arc::new(info),
            work,
            desk: desk.clone(),
            sizes,
            keys: Mutex::default(),
            statistics: Mutex::new(statistics),
        }
    }

    /// Where requests of these inputs wait, with others that may share their run: every size but that of the batch is the same. Also
    /// how many items they are there.
    pub(super) fn key(&self, inputs: &[Tensor]) -> (Key, usize) {
        let skipped = usize::from(self.info.max_batch.is_some());
        let shapes: Vec<Vec<usize>> =
            inputs.iter().map(|input| input.shape.iter().skip(skipped).copied().collect()).collect();
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = keys.by_shapes.get(&shapes) {
            return (*key, self.items(inputs));
        }
        if keys.by_shapes.len() < MAX_SHAPES {
            let key = self.desk.key(Sizes::new(self.sizes.iter().copied()));
            keys.by_shapes.insert(shapes, key);
            return (key, self.items(inputs));
        }
        // A run of these holds one request, however many items it brings.
        (*keys.single.get_or_insert_with(|| self.desk.key([1])), 1)
    }

    /// How long a run of a size takes, measured before anybody asks.
    pub(super) fn assume(&self, inputs: &[Tensor], size: usize, takes: Duration) {
        self.desk.assume(self.key(inputs).0, size as u32, takes);
    }

    /// What it did so far.
    pub(super) fn statistics(&self) -> Statistics {
        self.counted().clone()
    }

    /// Begins to count anew: what was run to warm up is not told.
    pub(super) fn forget_statistics(&self) {
        let mut statistics = self.counted();
        *statistics =
            Statistics { model: self.info.name.clone(), version: self.info.version.clone(), ..Statistics::default() };
    }

    /// How long a request of the usual shapes would wait.
    pub(super) fn expected_wait(&self, desk: &Desk, lane: Lane) -> Duration {
        let key = self.keys.lock().unwrap_or_else(PoisonError::into_inner).by_shapes.values().next().copied();
        key.map_or(Duration::ZERO, |key| desk.expected_wait(key, lane))
    }

    fn counted(&self) -> MutexGuard<'_, Statistics> {
        // Sums are whole whatever panicked.
        self.statistics.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Served for Version {
    fn name(&self) -> &str {
        &self.info.name
    }

    fn items(&self, inputs: &[Tensor]) -> usize {
        self.info.items(inputs)
    }

    fn run(&self, size: usize, lane: Lane, shares: &[Share]) -> Result<Ran, Failure> {
        let ran = self.work.run(size, lane, shares)?;
        let items = shares.iter().map(|share| self.items(&share.inputs)).sum();
        let mut statistics = self.counted();
        let [up, run, down] = ran.times;
        let totals =
            |to: [&mut crate::Total; 3]| to.into_iter().zip([up, run, down]).for_each(|(total, time)| total.add(time));
        let Statistics { uploaded, ran: all, downloaded, batches, runs, .. } = &mut *statistics;
        *runs += 1;
        totals([uploaded, all, downloaded]);
        let at = batches.iter().position(|batch| batch.size == items).unwrap_or_else(|| {
            batches.push(BatchStatistics { size: items, ..BatchStatistics::default() });
            batches.len() - 1
        });
        if let Some(BatchStatistics { uploaded, ran, downloaded, .. }) = batches.get_mut(at) {
            totals([uploaded, ran, downloaded]);
        }
        drop(statistics);
        Ok(ran)
    }

    fn note(&self, ended: &Ended) {
        let mut statistics = self.counted();
        statistics.last = Some(SystemTime::now());
        statistics.queued.add(ended.waited);
        if ended.end == End::Done {
            statistics.items += u64::from(ended.request.items);
            statistics.answered.add(ended.took);
        } else {
            statistics.refused.add(ended.took);
        }
    }
}

impl Drop for Version {
    fn drop(&mut self) {
        let keys = self.keys.get_mut().unwrap_or_else(PoisonError::into_inner);
        let all: Vec<Key> = keys.by_shapes.drain().map(|(_, key)| key).chain(keys.single.take()).collect();
        self.desk.forget(&all);
    }
}
