//! The error of every public call.

use std::sync::Arc;
use std::time::Duration;

use dala_plan::StageProblem;
use dala_schedule::{CommandId, Lane};
use dala_spec::{DType, SpecError};

use crate::engine::EngineError;
use crate::memory::BufferId;

/// Why a call failed. Each case has a stable [`code`](Error::code).
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The call does not fit its kernel.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The engine or the device failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// No device has this name.
    #[error("there is no device called `{name}`: use auto, vulkan, gl, metal, cuda, rocm or cpu")]
    UnknownDevice {
        /// The name that was asked for.
        name: String,
    },
    /// The device exists in principle, but not here.
    #[error("the {name} device is not available: {reason}")]
    DeviceUnavailable {
        /// The device's name.
        name: String,
        /// Why not.
        reason: String,
    },
    /// The buffer was freed.
    #[error("buffer {buffer} was freed")]
    Freed {
        /// The buffer.
        buffer: BufferId,
    },
    /// The buffer belongs to another device.
    #[error("buffer {buffer} belongs to another device ({theirs}), and the call is on {ours}")]
    ForeignBuffer {
        /// The buffer.
        buffer: BufferId,
        /// The device of the call.
        ours: String,
        /// The device of the buffer.
        theirs: String,
    },
    /// The work that should have written the buffer failed.
    #[error("buffer {buffer} was never written: {cause}")]
    Poisoned {
        /// The buffer.
        buffer: BufferId,
        /// The first failure.
        cause: Arc<Error>,
    },
    /// Nothing was written to the buffer yet.
    #[error("nothing was written to buffer {buffer} yet")]
    Unwritten {
        /// The buffer.
        buffer: BufferId,
    },
    /// Nobody holds a buffer of this id on this device.
    #[error("there is no buffer {buffer}")]
    UnknownBuffer {
        /// The id.
        buffer: BufferId,
    },
    /// The call was not planned yet, and the caller has no time for that.
    #[error("kernel `{kernel}` was not planned for such a call yet")]
    Unplanned {
        /// The kernel.
        kernel: String,
    },
    /// A text that is no command.
    #[error("this is no command: {reason}")]
    InvalidCommand {
        /// What is wrong with it.
        reason: String,
    },
    /// Data of the wrong length.
    #[error("{actual} bytes of data for a buffer of {expected} bytes")]
    SizeMismatch {
        /// Bytes in the buffer.
        expected: usize,
        /// Bytes of data.
        actual: usize,
    },
    /// Data of another element type.
    #[error("the buffer holds {expected}, and the data is {actual}")]
    ElementMismatch {
        /// The buffer's element type.
        expected: DType,
        /// The data's element type.
        actual: DType,
    },
    /// A stage of several is wrong or failed.
    #[error("stage {stage}: {cause}")]
    InStage {
        /// Which stage, counted from 0.
        stage: usize,
        /// What is wrong with it.
        cause: Box<Error>,
    },
    /// A pipeline has problems: all of them, each with its stage.
    #[error("{}", problems_text(.problems))]
    Pipeline {
        /// The problems, in the order of their stages.
        problems: Vec<Error>,
    },
    /// A transient buffer in a stage that is submitted by itself.
    #[error("{name} exists only while a pipeline runs: compile the stages as one")]
    TransientOutside {
        /// The transient.
        name: String,
    },
    /// Something that cannot be part of a pipeline.
    #[error("{what} cannot be part of a plan: do it before or after the plan runs")]
    NotPlannable {
        /// What it is.
        what: &'static str,
    },
    /// A buffer that a plan does not use.
    #[error("the plan does not use buffer {buffer}")]
    NotInPlan {
        /// The buffer.
        buffer: BufferId,
    },
    /// A buffer whose type is not the one that a plan was made for.
    #[error("the plan was made for {expected}, and buffer {buffer} is {actual}")]
    PlanMismatch {
        /// The buffer.
        buffer: BufferId,
        /// The type that the plan was made for.
        expected: String,
        /// The buffer's type.
        actual: String,
    },
    /// A name that no stage of a written pipeline uses.
    #[error("no stage uses a buffer called `{name}`{}", match .suggestion {
        Some(near) => format!(", did you mean `{near}`?"),
        None => String::new(),
    })]
    UnknownName {
        /// The name.
        name: String,
        /// A name that is close to it.
        suggestion: Option<String>,
    },
    /// The command was cancelled.
    #[error("command {command} was cancelled")]
    Cancelled {
        /// The command.
        command: CommandId,
    },
    /// The command did not start in time.
    #[error("{}", match command {
        Some(command) => format!("command {command} had not started by its deadline"),
        None => "there was no room in the lane before the command's deadline".to_owned(),
    })]
    DeadlineExceeded {
        /// The command, if it had come so far.
        command: Option<CommandId>,
    },
    /// A command whose result was needed did not complete.
    #[error("it needs the result of command {command}, which did not complete: {cause}")]
    DependencyFailed {
        /// The first command that did not complete.
        command: CommandId,
        /// Why not.
        cause: Arc<Error>,
    },
    /// A lane is full.
    #[error("the {lane} lane is full: {capacity} commands are waiting")]
    Overloaded {
        /// The lane.
        lane: Lane,
        /// How many commands it holds.
        capacity: usize,
    },
    /// A newer command took the command's place in a full lane.
    #[error("command {command} was dropped: its lane was full, and newer commands came")]
    Dropped {
        /// The command.
        command: CommandId,
    },
    /// The device is suspended.
    #[error("the device is suspended")]
    Suspended,
    /// The command has not ended yet.
    #[error("command {command} has not ended after {limit:?}; it goes on")]
    WaitTimeout {
        /// The command.
        command: CommandId,
        /// How long was waited.
        limit: Duration,
    },
    /// A stream has frames that have not ended yet.
    #[error("the stream has frames in flight after {limit:?}; they go on")]
    StreamBusy {
        /// How long was waited.
        limit: Duration,
    },
    /// The stream was ended.
    #[error("the stream was stopped")]
    Stopped,
    /// No command has this id, or it ended too long ago.
    #[error("there is no command {command}, or it ended long ago")]
    UnknownCommand {
        /// The id.
        command: CommandId,
    },
    /// A shape whose size does not fit the address space.
    #[error("a buffer of shape {shape} is larger than any memory")]
    ShapeTooLarge {
        /// The shape.
        shape: String,
    },
}

/// The problems of a pipeline, one to a line.
fn problems_text(problems: &[Error]) -> String {
    match problems {
        [only] => only.to_string(),
        _ => {
            let lines: Vec<String> = problems.iter().map(|problem| format!("\n  {problem}")).collect();
            format!("the pipeline has {} problems:{}", problems.len(), lines.concat())
        }
    }
}

impl From<Vec<StageProblem>> for Error {
    fn from(problems: Vec<StageProblem>) -> Error {
        let problem =
            |problem: StageProblem| Error::InStage { stage: problem.stage, cause: Box::new(problem.error.into()) };
        Error::Pipeline { problems: problems.into_iter().map(problem).collect() }
    }
}

impl Error {
    /// A stable name for the case, for programs to match on.
    pub fn code(&self) -> &'static str {
        match self {
            Error::Spec(error) => error.code(),
            Error::Engine(error) => error.code(),
            Error::UnknownDevice { .. } => "unknown_device",
            Error::DeviceUnavailable { .. } => "device_unavailable",
            Error::Freed { .. } => "freed",
            Error::ForeignBuffer { .. } => "foreign_buffer",
            Error::Poisoned { .. } => "poisoned",
            Error::Unwritten { .. } => "unwritten",
            Error::UnknownBuffer { .. } => "unknown_buffer",
            Error::Unplanned { .. } => "unplanned",
            Error::InvalidCommand { .. } => "invalid_command",
            Error::SizeMismatch { .. } => "size_mismatch",
            Error::ElementMismatch { .. } => "dtype_mismatch",
            Error::InStage { cause, .. } => cause.code(),
            Error::Pipeline { .. } => "invalid_pipeline",
            Error::TransientOutside { .. } => "transient_outside",
            Error::NotPlannable { .. } => "not_plannable",
            Error::NotInPlan { .. } => "not_in_plan",
            Error::PlanMismatch { .. } => "plan_mismatch",
            Error::UnknownName { .. } => "unknown_name",
            Error::Cancelled { .. } => "cancelled",
            Error::DeadlineExceeded { .. } => "deadline_exceeded",
            Error::DependencyFailed { .. } => "dependency_failed",
            Error::Overloaded { .. } => "overloaded",
            Error::Dropped { .. } => "dropped",
            Error::Suspended => "suspended",
            Error::WaitTimeout { .. } => "wait_timeout",
            Error::StreamBusy { .. } => "wait_timeout",
            Error::Stopped => "stopped",
            Error::UnknownCommand { .. } => "unknown_command",
            Error::ShapeTooLarge { .. } => "shape_too_large",
        }
    }

    /// Says in which stage it happened, if there are several.
    pub(crate) fn in_stage(self, stage: usize, stages: usize) -> Error {
        if stages > 1 { Error::InStage { stage, cause: Box::new(self) } } else { self }
    }
}
