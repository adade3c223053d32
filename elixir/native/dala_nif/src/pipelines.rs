//! Lists of stages that only grow, shared by every copy of a pipeline, and what they were compiled to.

use std::sync::Mutex;

use dala_compute::{Device, Error, Plan, Stage};
use rustler::env::SavedTerm;
use rustler::{Env, OwnedEnv, ResourceArc, Term};

use crate::lock::lock;
use crate::owners::later;
use crate::resources::DeviceResource;

/// A list of stages, as the terms they were given as: what they mean is found out when they are compiled.
pub(crate) struct Pipeline {
    /// None once it was freed.
    list: Mutex<Option<List>>,
    /// Apart from the list, which is locked while it is copied: whoever runs a pipeline does not wait for that.
    state: Mutex<State>,
}

struct List {
    env: OwnedEnv,
    stages: Vec<SavedTerm>,
}

#[derive(Default)]
struct State {
    /// How many stages there are.
    stages: usize,
    is_freed: bool,
    compiled: Option<Compiled>,
}

/// A plan, and the device it is for.
struct Compiled {
    plan: Plan,
    device: ResourceArc<DeviceResource>,
}

impl Compiled {
    fn is_for(&self, device: &ResourceArc<DeviceResource>) -> bool {
        self.device.as_c_arg() == device.as_c_arg()
    }
}

/// What there is to run.
pub(crate) enum Found {
    Plan(Plan),
    /// It is still to be compiled.
    Nothing,
    /// The pipeline was freed.
    Freed,
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        self.free();
    }
}

impl Pipeline {
    pub(crate) fn new() -> Pipeline {
        let list = List { env: OwnedEnv::new(), stages: Vec::new() };
        Pipeline { list: Mutex::new(Some(list)), state: Mutex::default() }
    }

    /// Appends a stage; false if the pipeline was freed.
    pub(crate) fn add(&self, stage: Term) -> bool {
        match &mut *lock(&self.list) {
            Some(list) => {
                let stage = list.env.save(stage);
                list.stages.push(stage);
                lock(&self.state).stages = list.stages.len();
                true
            }
            None => false,
        }
    }

    /// Copies of the stages.
    pub(crate) fn stages<'a>(&self, env: Env<'a>) -> Option<Vec<Term<'a>>> {
        lock(&self.list).as_ref().map(|list| {
            let copy = |stage: &SavedTerm| list.env.run(|own| stage.load(own).in_env(env));
            list.stages.iter().map(copy).collect()
        })
    }

    pub(crate) fn count(&self) -> usize {
        lock(&self.state).stages
    }

    /// What the stages were compiled to: all that there are now, or at least so many. Stages that are added while others are
    /// compiled must not make whoever waits for that start again and again.
    pub(crate) fn plan(&self, device: &ResourceArc<DeviceResource>, at_least: Option<usize>) -> Found {
        let state = lock(&self.state);
        let wanted = at_least.unwrap_or(state.stages);
        match &state.compiled {
            _ if state.is_freed => Found::Freed,
            Some(own) if own.is_for(device) && own.plan.stage_count() >= wanted => Found::Plan(own.plan.clone()),
            _ => Found::Nothing,
        }
    }

    /// Keeps what the stages were compiled to. Of several for one device, the one with the most stages is kept, and the first
    /// of those: each has memory of its own.
    pub(crate) fn keep(&self, plan: Plan, device: ResourceArc<DeviceResource>) {
        let new = Compiled { plan, device };
        let mut state = lock(&self.state);
        let known = state.compiled.as_ref().filter(|own| own.is_for(&new.device));
        let is_known = known.is_some_and(|own| own.plan.stage_count() >= new.plan.stage_count());
        let gone = if state.is_freed || is_known { Some(new) } else { state.compiled.replace(new) };
        drop(state);
        give_up(gone);
    }

    /// Forgets a plan that can run no more.
    pub(crate) fn forget(&self) {
        let gone = lock(&self.state).compiled.take();
        give_up(gone);
    }

    /// Forgets the stages and lets go of their buffers.
    pub(crate) fn free(&self) {
        let list = lock(&self.list).take();
        let state = std::mem::replace(&mut *lock(&self.state), State { is_freed: true, ..State::default() });
        give_up(state.compiled);
        // There may be many: that is no work for a scheduler.
        if list.as_ref().is_some_and(|list| !list.stages.is_empty()) {
            later(move || drop(list));
        }
    }
}

/// A plan gives memory back, and may be the last to hold its device, whose end waits for what is in flight.
fn give_up(compiled: Option<Compiled>) {
    if compiled.is_some() {
        later(move || drop(compiled));
    }
}

/// Whether a run of the plan takes too long to queue for a normal scheduler.
pub(crate) fn is_large(plan: &Plan) -> bool {
    const MANY: usize = 128;
    plan.launches() + plan.blueprint().externals.len() > MANY
}

/// Everything that is wrong with stages that do not compile.
pub(crate) fn problems(device: &Device, stages: &[Stage], error: Error) -> Vec<Error> {
    let mut problems = match error {
        Error::Pipeline { problems } => problems,
        other => vec![other],
    };
    // A pipeline with buffers that were freed is not looked at any further: what else is wrong shows stage by stage, except
    // that a stage by itself can have no transients.
    let known: Vec<usize> = problems.iter().map(stage_of).collect();
    let others = device.check(stages).into_iter().filter(|problem| {
        let is_news = !known.contains(&stage_of(problem));
        is_news && problem.code() != "transient_outside"
    });
    problems.extend(others);
    problems.sort_by_key(stage_of);
    if stages.len() == 1 {
        // There is only one that it could be.
        problems.iter_mut().for_each(|problem| {
            if let Error::InStage { cause, .. } = problem {
                *problem = (**cause).clone();
            }
        });
    }
    problems
}

fn stage_of(problem: &Error) -> usize {
    if let Error::InStage { stage, .. } = problem { *stage } else { 0 }
}
