//! Lists of stages that only grow, shared by every copy of a pipeline.

use std::sync::Mutex;

use rustler::env::SavedTerm;
use rustler::{Env, OwnedEnv, Term};

use crate::lock::lock;
use crate::owners::later;

/// A list of stages, as the terms they were given as: what they mean is found out when they run. None once it was freed.
pub(crate) struct Pipeline(Mutex<Option<List>>);

struct List {
    env: OwnedEnv,
    stages: Vec<SavedTerm>,
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        self.free();
    }
}

impl Pipeline {
    pub(crate) fn new() -> Pipeline {
        Pipeline(Mutex::new(Some(List { env: OwnedEnv::new(), stages: Vec::new() })))
    }

    /// Appends a stage; false if the pipeline was freed.
    pub(crate) fn add(&self, stage: Term) -> bool {
        match &mut *lock(&self.0) {
            Some(list) => {
                let stage = list.env.save(stage);
                list.stages.push(stage);
                true
            }
            None => false,
        }
    }

    /// Copies of the stages.
    pub(crate) fn stages<'a>(&self, env: Env<'a>) -> Option<Vec<Term<'a>>> {
        lock(&self.0).as_ref().map(|list| {
            let copy = |stage: &SavedTerm| list.env.run(|own| stage.load(own).in_env(env));
            list.stages.iter().map(copy).collect()
        })
    }

    pub(crate) fn count(&self) -> usize {
        lock(&self.0).as_ref().map_or(0, |list| list.stages.len())
    }

    /// Forgets the stages and lets go of their buffers.
    pub(crate) fn free(&self) {
        let list = lock(&self.0).take();
        // There may be many: that is no work for a scheduler.
        if list.as_ref().is_some_and(|list| !list.stages.is_empty()) {
            later(move || drop(list));
        }
    }
}
