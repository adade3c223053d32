//! One launch, of whatever kind.

use dala_spec::{Scalar, Signature, SpecError};

use super::TaskKind;
use crate::{CAPACITY_STEP, DeviceFacts};

/// Positions are 32 bits wide, except where whole buffers are walked through once.
pub const LARGEST_INDEX: usize = i32::MAX as usize - CAPACITY_STEP;

macro_rules! tasks {
    ($($(#[$doc:meta])* $file:ident: $task:ident,)+) => {
        /// One launch.
        #[derive(Clone, Debug)]
        pub enum Task {
            $($(#[$doc])* $task(super::$task),)+
        }

        impl Task {
            /// What it says about itself.
            pub fn kind(&self) -> &dyn TaskKind {
                match self {
                    $(Task::$task(task) => task,)+
                }
            }

            /// The same, to be changed.
            pub fn kind_mut(&mut self) -> &mut dyn TaskKind {
                match self {
                    $(Task::$task(task) => task,)+
                }
            }
        }
    };
}
crate::with_tasks!(tasks);

impl Task {
    /// The same task with the params of a call settled in its programs.
    ///
    /// # Errors
    ///
    /// A whole number does not fit the integers it computes with.
    pub fn bound(mut self, kernel: &str, signature: &Signature) -> Result<Task, SpecError> {
        for program in self.kind_mut().programs_mut() {
            *program = program.bound(&program.param_values(kernel, signature)?);
        }
        Ok(self)
    }

    /// The values of its programs' run-time params for a call of `kernel`, in the order of [`TaskKind::programs`].
    ///
    /// # Errors
    ///
    /// A whole number does not fit the integers it computes with.
    pub fn param_values(&self, kernel: &str, signature: &Signature) -> Result<Vec<Scalar>, SpecError> {
        let mut values = Vec::new();
        for program in self.kind().programs() {
            values.extend(program.param_values(kernel, signature)?);
        }
        Ok(values)
    }

    /// Whether a device can run it: it computes what the programs do, its launcher takes the task as it is, and nothing is
    /// beyond the largest index. How long its call's buffers are was looked at before.
    pub fn fits(&self, facts: &DeviceFacts) -> bool {
        let kind = self.kind();
        kind.support(facts).is_ok() && kind.launches(facts) && kind.indexed(0) <= LARGEST_INDEX
    }
}
