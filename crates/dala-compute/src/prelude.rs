//! What nearly every program uses: `use dala_compute::prelude::*;`.

pub use crate::{
    Buffer, Command, DType, Data, Definition, Device, Error, Lane, ParamKind, Params, Pipeline, Plan, Stage,
    SubmitOptions, Transient, param, params,
};
