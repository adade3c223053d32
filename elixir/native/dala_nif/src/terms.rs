//! Terms of the VM, to and from the types of `dala-compute`.

use std::collections::HashMap;
use std::time::Duration;

use dala_compute::{
    Buffer, CommandState, DType, Definition, DeviceInfo, DeviceKind, EngineError, Error, FramePolicy, KernelCache,
    KernelSpec, Lane, LaneStats, Operand, ParamKind, ParamSpec, ParamValue, Params, Power, Shape, SpecError, Stage,
    Stats, StreamOptions, StreamStats, SubmitOptions, Thermal, Times, Transient, WhenFull, param,
};
use dala_model::{Dim, LoadError, Model, ModelError, Port, UnsupportedOperator};
use rustler::types::atom::{self, Atom};
use rustler::{Encoder, Env, ResourceArc, Term, TermType};

use crate::host::host_data;
use crate::models::NotRun;
use crate::resources::BufferResource;

pub(crate) mod atoms {
    rustler::atoms! {
        ok, error, nil,
        error_module = "Elixir.Dala.Gpu.Compute.Error",
        code, message, details, cause, dtype, stage, argument, expected, actual, wanted, budget, live, peak, cached, buffers,
        kernel, param, suggestion, known, buffer, command, lane, capacity, name, max, bytes,
        invalid_argument,
        f32, f64, s32, s64, u32, u8, f16, bf16, s8, s16, u16, u64,
        pending, running, completed, failed, cancelled,
        interactive, default, background,
        wait, refuse, drop_oldest,
        latest, queue, block,
        run_kernel, copy_buffer, write_buffer, barrier, transient,
        float, int, number, bool,
        id, gpu, version, backend, kind, driver, memory_bytes, dtypes, native, packed, storage, refused,
        discrete, integrated, other_gpu, software, cpu,
        done, waiting, started, stopped, replaced, dropped, full, unplanned, large, freed,
        launches, compilations, kernels_found, uploaded_bytes, downloaded_bytes, memory_pressures, lanes, submitted,
        deadline_exceeded, power, thermal, suspended,
        frames_in, frames_out, dropped_stale, dropped_full, dropped_late, in_flight, queue_time, device_time, latency,
        p50, p99, busy, low, balanced, high, nominal, fair, serious, critical, summary, inputs, params, aliases, class,
        outputs, operators, operator, parameters, shape, batch, node, why, open_sizes,
        decided_by_values,
        folder, kernels, limit,
        path, score, left, top, right, bottom, landmarks, text, corners, seconds, spans, start_seconds, end_seconds,
        window_seconds, probabilities, label, description, mime_type,
    }
}

/// An argument that the Elixir side should not have let pass.
pub(crate) struct Bad(pub(crate) &'static str);

/// What a call returns on failure.
pub(crate) enum Failure {
    Error(Error),
    Bad(Bad),
    /// Something in a stage that is no such thing.
    Stage(Bad),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Error(error)
    }
}

impl From<Bad> for Failure {
    fn from(bad: Bad) -> Failure {
        Failure::Bad(bad)
    }
}

/// `{:ok, value}` or `{:error, error}`.
pub(crate) fn answer<'a, T: Encoder>(env: Env<'a>, result: Result<T, Failure>) -> Term<'a> {
    match result {
        Ok(value) => (atoms::ok(), value).encode(env),
        Err(failure) => (atoms::error(), failure_term(env, &failure)).encode(env),
    }
}

/// `:ok` or `{:error, error}`.
pub(crate) fn done<'a>(env: Env<'a>, result: Result<(), Failure>) -> Term<'a> {
    match result {
        Ok(()) => atoms::ok().encode(env),
        Err(failure) => (atoms::error(), failure_term(env, &failure)).encode(env),
    }
}

/// `:ok` or `{:error, error}`.
pub(crate) fn result<'a>(env: Env<'a>, result: &Result<(), Error>) -> Term<'a> {
    match result {
        Ok(()) => atoms::ok().encode(env),
        Err(error) => (atoms::error(), self::error(env, error)).encode(env),
    }
}

pub(crate) fn failure_term<'a>(env: Env<'a>, failure: &Failure) -> Term<'a> {
    match failure {
        Failure::Error(error) => self::error(env, error),
        Failure::Stage(Bad(what)) => error_struct(env, "invalid_stage", &format!("this is no {what}"), &[]),
        Failure::Bad(Bad(what)) => error_struct(env, "invalid_argument", &format!("this is no {what}"), &[]),
    }
}

pub(crate) type Detail<'a> = (Atom, Term<'a>);

/// A map whose keys are atoms, each once.
pub(crate) fn map<'a>(env: Env<'a>, pairs: &[Detail<'a>]) -> Term<'a> {
    // Keys are atoms, each once: this cannot fail.
    Term::map_from_pairs(env, pairs).unwrap_or_else(|_| Term::map_new(env))
}

pub(crate) fn error_struct<'a>(env: Env<'a>, code: &str, message: &str, details: &[Detail<'a>]) -> Term<'a> {
    // Codes are a fixed list: they do not fill the VM's table of atoms.
    let code = Atom::from_str(env, code).unwrap_or_else(|_| atoms::error());
    map(
        env,
        &[
            (atom::__struct__(), atoms::error_module().encode(env)),
            (Atom::from_str(env, "__exception__").unwrap_or_else(|_| atoms::error()), true.encode(env)),
            (atoms::code(), code.encode(env)),
            (atoms::message(), message.encode(env)),
            (atoms::details(), map(env, details)),
        ],
    )
}

/// An error as `%Dala.Gpu.Compute.Error{}`.
pub(crate) fn error<'a>(env: Env<'a>, error: &Error) -> Term<'a> {
    error_struct(env, error.code(), &error.to_string(), &error_details(env, error))
}

/// What programs may want to know of an error besides its code.
fn error_details<'a>(env: Env<'a>, error: &Error) -> Vec<Detail<'a>> {
    let id = |id: u64| id.encode(env);
    match error {
        Error::InStage { stage, cause } => {
            let mut details = error_details(env, cause);
            details.push((atoms::stage(), stage.encode(env)));
            details
        }
        Error::Poisoned { buffer, cause } => {
            vec![(atoms::buffer(), id(buffer.0)), (atoms::cause(), self::error(env, cause))]
        }
        Error::DependencyFailed { command, cause } => {
            vec![(atoms::command(), id(command.0)), (atoms::cause(), self::error(env, cause))]
        }
        Error::Freed { buffer } | Error::UnknownBuffer { buffer } | Error::Unwritten { buffer } => {
            vec![(atoms::buffer(), id(buffer.0))]
        }
        Error::SizeMismatch { expected, actual } => {
            vec![(atoms::expected(), expected.encode(env)), (atoms::actual(), actual.encode(env))]
        }
        Error::Cancelled { command } | Error::Dropped { command } | Error::UnknownCommand { command } => {
            vec![(atoms::command(), id(command.0))]
        }
        Error::Overloaded { lane, capacity } => {
            vec![(atoms::lane(), lane_atom(*lane).encode(env)), (atoms::capacity(), capacity.encode(env))]
        }
        Error::Engine(EngineError::OutOfMemory { wanted, budget, live }) => vec![
            (atoms::wanted(), wanted.encode(env)),
            (atoms::budget(), budget.encode(env)),
            (atoms::live(), live.encode(env)),
        ],
        Error::Engine(EngineError::BufferTooLarge { bytes, max }) => {
            vec![(atoms::bytes(), bytes.encode(env)), (atoms::max(), max.encode(env))]
        }
        Error::Spec(error) => spec_details(env, error),
        _ => Vec::new(),
    }
}

fn spec_details<'a>(env: Env<'a>, error: &SpecError) -> Vec<Detail<'a>> {
    let text = |text: &str| text.encode(env);
    match error {
        SpecError::UnknownKernel { name, suggestion } => {
            vec![(atoms::name(), text(name)), (atoms::suggestion(), suggestion.encode(env))]
        }
        SpecError::UnknownParam { kernel, param, suggestion, known } => vec![
            (atoms::kernel(), text(kernel)),
            (atoms::param(), text(param)),
            (atoms::suggestion(), suggestion.encode(env)),
            (atoms::known(), known.encode(env)),
        ],
        SpecError::MissingParam { kernel, param } => {
            vec![(atoms::kernel(), text(kernel)), (atoms::param(), text(param))]
        }
        SpecError::Arity { kernel, expected, actual } => vec![
            (atoms::kernel(), text(kernel)),
            (atoms::expected(), text(expected)),
            (atoms::actual(), actual.encode(env)),
        ],
        SpecError::ShapeMismatch { kernel, argument, expected, actual } => vec![
            (atoms::kernel(), text(kernel)),
            (atoms::argument(), text(argument)),
            (atoms::expected(), text(expected)),
            (atoms::actual(), text(actual)),
        ],
        _ => Vec::new(),
    }
}

pub(crate) fn dtype_atom(dtype: DType) -> Atom {
    match dtype {
        DType::F32 => atoms::f32(),
        DType::F64 => atoms::f64(),
        DType::S32 => atoms::s32(),
        DType::S64 => atoms::s64(),
        DType::U32 => atoms::u32(),
        DType::U8 => atoms::u8(),
        DType::F16 => atoms::f16(),
        DType::BF16 => atoms::bf16(),
        DType::S8 => atoms::s8(),
        DType::S16 => atoms::s16(),
        DType::U16 => atoms::u16(),
        DType::U64 => atoms::u64(),
    }
}

pub(crate) fn dtype(atom: Atom) -> Result<DType, Bad> {
    DType::ALL.into_iter().find(|dtype| dtype_atom(*dtype) == atom).ok_or(Bad("element type"))
}

fn lane_atom(lane: Lane) -> Atom {
    match lane {
        Lane::Interactive => atoms::interactive(),
        Lane::Default => atoms::default(),
        Lane::Background => atoms::background(),
    }
}

fn lane(atom: Atom) -> Result<Lane, Bad> {
    Lane::ALL.into_iter().find(|lane| lane_atom(*lane) == atom).ok_or(Bad("lane"))
}

pub(crate) fn state_atom(state: CommandState) -> Atom {
    match state {
        CommandState::Pending => atoms::pending(),
        CommandState::Running => atoms::running(),
        CommandState::Completed => atoms::completed(),
        CommandState::Failed => atoms::failed(),
        CommandState::Cancelled => atoms::cancelled(),
    }
}

/// More dimensions than anybody has use for.
const MAX_RANK: usize = 32;

pub(crate) fn shape(term: Term) -> Result<Shape, Bad> {
    let bad = || Bad("shape");
    let len = term.list_length().map_err(|_| bad())?;
    if len > MAX_RANK {
        return Err(bad());
    }
    let dims: Vec<usize> = term.decode().map_err(|_| bad())?;
    Ok(Shape::from(dims))
}

pub(crate) fn buffer(term: Term) -> Result<Buffer, Bad> {
    let resource: ResourceArc<BufferResource> = term.decode().map_err(|_| Bad("buffer"))?;
    Ok(resource.0.clone())
}

/// The stages of a command, in the form that the Elixir side gives them.
pub(crate) fn stages(term: Term) -> Result<Vec<Stage>, Bad> {
    let stages = term.into_list_iterator().map_err(|_| Bad("list of stages"))?;
    let mut transients = Transients::default();
    stages.map(|term| stage(term, &mut transients)).collect()
}

/// The transients of a list of stages by their ids, each with what is said of it: two of the same id are the same.
#[derive(Default)]
struct Transients(HashMap<u64, (Transient, Declared)>);

type Declared = (Option<DType>, Option<Shape>);

impl Transients {
    /// `{:transient, id, shape or nil, element type or nil}`.
    fn get(&mut self, term: Term) -> Result<Transient, Bad> {
        let bad = |_| Bad("transient");
        let (name, id, shape, dtype): (Atom, u64, Term, Atom) = term.decode().map_err(bad)?;
        if name != atoms::transient() {
            return Err(Bad("transient"));
        }
        let dtype = if dtype == atoms::nil() { None } else { Some(self::dtype(dtype)?) };
        let shape = if shape.get_type() == TermType::Atom { None } else { Some(self::shape(shape)?) };
        // A buffer's shape is checked when it is given memory; this one is computed with before anybody asks for any.
        if shape.as_ref().is_some_and(|shape| shape.checked_len().is_none_or(|len| len > isize::MAX as usize / 8)) {
            return Err(Bad("shape that fits any memory"));
        }
        let declared = (dtype, shape);
        let (transient, known) = self.0.entry(id).or_insert_with(|| (declare(&declared), declared.clone()));
        if *known == declared { Ok(transient.clone()) } else { Err(Bad("transient of one shape and type")) }
    }
}

fn declare((dtype, shape): &Declared) -> Transient {
    let mut transient = Transient::new();
    if let Some(dtype) = dtype {
        transient = transient.dtype(*dtype);
    }
    if let Some(shape) = shape {
        transient = transient.shape(shape.clone());
    }
    transient
}

/// A buffer, or in a pipeline a transient.
fn operand(term: Term, transients: &mut Transients) -> Result<Operand, Bad> {
    if term.get_type() == TermType::Tuple { Ok(transients.get(term)?.into()) } else { Ok(buffer(term)?.into()) }
}

/// What a kernel writes: one buffer, or a list of them where it has several outputs.
fn outputs(term: Term, transients: &mut Transients) -> Result<Vec<Operand>, Bad> {
    match term.into_list_iterator() {
        Ok(list) => list.map(|output| operand(output, transients)).collect(),
        Err(_) => Ok(vec![operand(term, transients)?]),
    }
}

fn stage(term: Term, transients: &mut Transients) -> Result<Stage, Bad> {
    let bad = || Bad("stage");
    if term.get_type() == TermType::Atom {
        let atom: Atom = term.decode().map_err(|_| bad())?;
        return if atom == atoms::barrier() { Ok(Stage::Barrier) } else { Err(bad()) };
    }
    let parts = rustler::types::tuple::get_tuple(term).map_err(|_| bad())?;
    let op: Atom = parts.first().ok_or_else(bad)?.decode().map_err(|_| bad())?;
    match parts[1..] {
        [kernel, inputs, output, params] if op == atoms::run_kernel() => {
            let inputs = inputs.into_list_iterator().map_err(|_| Bad("list of buffers"))?;
            Ok(Stage::RunKernel {
                kernel: kernel.decode().map_err(|_| Bad("kernel"))?,
                inputs: inputs.map(|input| operand(input, transients)).collect::<Result<_, _>>()?,
                outputs: outputs(output, transients)?,
                params: self::params(params)?,
            })
        }
        [from, to] if op == atoms::copy_buffer() => {
            Ok(Stage::CopyBuffer { from: operand(from, transients)?, to: operand(to, transients)? })
        }
        [to, data] if op == atoms::write_buffer() => {
            Ok(Stage::WriteBuffer { to: buffer(to)?, data: host_data(data).ok_or(Bad("binary"))? })
        }
        _ => Err(bad()),
    }
}

fn params(term: Term) -> Result<Params, Bad> {
    let mut params = Params::new();
    for pair in term.into_list_iterator().map_err(|_| Bad("list of params"))? {
        let (name, value): (String, Term) = pair.decode().map_err(|_| Bad("param"))?;
        params = params.with(name, param_value(value)?);
    }
    Ok(params)
}

fn param_value(term: Term) -> Result<ParamValue, Bad> {
    let bad = |_| Bad("value of a param");
    Ok(match term.get_type() {
        TermType::Atom => ParamValue::Bool(term.decode().map_err(bad)?),
        TermType::Integer => ParamValue::Int(term.decode().map_err(bad)?),
        TermType::Float => ParamValue::Float(term.decode().map_err(bad)?),
        TermType::Binary => ParamValue::Enum(term.decode().map_err(bad)?),
        _ => match term.decode::<Vec<i64>>() {
            Ok(numbers) => ParamValue::Ints(numbers),
            Err(_) => ParamValue::Floats(floats(term)?),
        },
    })
}

fn floats(term: Term) -> Result<Vec<f64>, Bad> {
    let bad = |_| Bad("list of numbers");
    let number = |term: Term| term.decode::<f64>().or_else(|_| term.decode::<i64>().map(|int| int as f64));
    term.into_list_iterator().map_err(bad)?.map(|term| number(term).map_err(bad)).collect()
}

/// `{lane, deadline in microseconds or nil, when_full}`. Waiting for room is done by the caller: no call waits here.
pub(crate) fn submit_options(term: Term) -> Result<SubmitOptions, Bad> {
    let (lane, deadline, when_full): (Atom, Option<u64>, Atom) = term.decode().map_err(|_| Bad("options"))?;
    let when_full = if when_full == atoms::drop_oldest() { WhenFull::DropOldest } else { WhenFull::Refuse };
    let options = SubmitOptions::new().lane(self::lane(lane)?).when_full(when_full);
    Ok(match deadline {
        Some(deadline) => options.deadline(Duration::from_micros(deadline)),
        None => options,
    })
}

/// `{policy, in flight, lane, deadline in microseconds or nil}`. A stream that blocks makes its caller wait, not its call.
pub(crate) fn stream_options(term: Term) -> Result<(StreamOptions, bool), Bad> {
    let (policy, in_flight, lane, deadline): (Term, usize, Atom, Option<u64>) =
        term.decode().map_err(|_| Bad("options"))?;
    let (policy, blocks) = match policy.decode::<(Atom, usize)>() {
        Ok((name, limit)) if name == atoms::queue() => (FramePolicy::Queue(limit), false),
        _ => match policy.decode::<Atom>() {
            Ok(name) if name == atoms::latest() => (FramePolicy::Latest, false),
            Ok(name) if name == atoms::block() => (FramePolicy::Queue(0), true),
            _ => return Err(Bad("policy")),
        },
    };
    let options = StreamOptions::new(policy).in_flight(in_flight).lane(self::lane(lane)?);
    let options = match deadline {
        Some(deadline) => options.deadline(Duration::from_micros(deadline)),
        None => options,
    };
    Ok((options, blocks))
}

/// Inputs by name, and params as `{name, default}` or `{name, kind}`.
pub(crate) fn definition(inputs: Term, params: Term) -> Result<Definition, Bad> {
    let inputs: Vec<String> = inputs.decode().map_err(|_| Bad("list of inputs"))?;
    let params = params.into_list_iterator().map_err(|_| Bad("list of params"))?;
    params.map(param_spec).try_fold(Definition::inputs(inputs), |definition, param| Ok(definition.param(param?)))
}

fn param_spec(term: Term) -> Result<ParamSpec, Bad> {
    let (name, value): (String, Term) = term.decode().map_err(|_| Bad("param"))?;
    let kinds = [
        (atoms::float(), ParamKind::Float),
        (atoms::int(), ParamKind::Int),
        (atoms::number(), ParamKind::Number),
        (atoms::bool(), ParamKind::Bool),
    ];
    if let Ok(kind) = value.decode::<Atom>()
        && let Some((_, kind)) = kinds.into_iter().find(|(name, _)| *name == kind)
    {
        return Ok(param(name, kind));
    }
    let default = param_value(value)?;
    let kind = match default {
        ParamValue::Bool(_) => ParamKind::Bool,
        ParamValue::Int(_) => ParamKind::Number,
        ParamValue::Float(_) => ParamKind::Float,
        _ => return Err(Bad("default of a param")),
    };
    Ok(param(name, kind).default(default))
}

pub(crate) fn info<'a>(env: Env<'a>, info: &DeviceInfo) -> Term<'a> {
    let kind = match info.kind {
        DeviceKind::Discrete => atoms::discrete(),
        DeviceKind::Integrated => atoms::integrated(),
        DeviceKind::OtherGpu => atoms::other_gpu(),
        DeviceKind::Software => atoms::software(),
        DeviceKind::Cpu => atoms::cpu(),
    };
    let support = |(dtype, support): &(DType, dala_compute::Support)| {
        let how = match support {
            dala_compute::Support::Native => atoms::native(),
            dala_compute::Support::Storage => atoms::storage(),
            dala_compute::Support::Packed => atoms::packed(),
            dala_compute::Support::Refused => atoms::refused(),
        };
        (dtype_atom(*dtype), how.encode(env))
    };
    let dtypes: Vec<Detail> = info.dtypes.iter().map(support).collect();
    map(
        env,
        &[
            (atoms::id(), info.id.encode(env)),
            (atoms::name(), info.name.encode(env)),
            (atoms::gpu(), info.gpu.encode(env)),
            (atoms::backend(), info.backend.name().encode(env)),
            (atoms::kind(), kind.encode(env)),
            (atoms::driver(), info.driver.encode(env)),
            (atoms::memory_bytes(), info.memory_bytes.encode(env)),
            (atoms::dtypes(), map(env, &dtypes)),
        ],
    )
}

pub(crate) fn memory<'a>(env: Env<'a>, memory: &dala_compute::MemoryStats, buffers: usize) -> Term<'a> {
    map(
        env,
        &[
            (atoms::budget(), memory.budget.encode(env)),
            (atoms::live(), memory.live.encode(env)),
            (atoms::peak(), memory.peak.encode(env)),
            (atoms::cached(), memory.cached.encode(env)),
            (atoms::buffers(), buffers.encode(env)),
        ],
    )
}

pub(crate) fn kernel_cache<'a>(env: Env<'a>, cache: &KernelCache) -> Term<'a> {
    // A folder that cannot be read holds nothing for us.
    let (kernels, bytes) = cache.size().unwrap_or_default();
    let folder = cache.folder().map(|folder| folder.to_string_lossy().into_owned());
    map(
        env,
        &[
            (atoms::folder(), folder.encode(env)),
            (atoms::refused(), cache.refused().encode(env)),
            (atoms::kernels(), kernels.encode(env)),
            (atoms::bytes(), bytes.encode(env)),
            (atoms::limit(), KernelCache::LIMIT.encode(env)),
        ],
    )
}

/// Microseconds.
fn micros(env: Env<'_>, time: Duration) -> Term<'_> {
    (time.as_secs_f64() * 1e6).encode(env)
}

pub(crate) fn stats<'a>(env: Env<'a>, stats: &Stats) -> Term<'a> {
    let queue = &stats.queue;
    let lane = |lane: &LaneStats| {
        map(env, &[(atoms::pending(), lane.pending.encode(env)), (atoms::busy(), micros(env, lane.busy))])
    };
    let lanes: Vec<Detail> =
        Lane::ALL.iter().zip(&queue.lanes).map(|(name, stats)| (lane_atom(*name), lane(stats))).collect();
    let (power, thermal) = (power_atom(queue.governor.power), thermal_atom(queue.governor.thermal));
    map(
        env,
        &[
            (atoms::launches(), stats.launches.encode(env)),
            (atoms::compilations(), stats.compilations.encode(env)),
            (atoms::kernels_found(), stats.kernels_found.encode(env)),
            (atoms::uploaded_bytes(), stats.uploaded_bytes.encode(env)),
            (atoms::downloaded_bytes(), stats.downloaded_bytes.encode(env)),
            (atoms::memory_pressures(), stats.memory_pressures.encode(env)),
            (atoms::submitted(), queue.totals.submitted.encode(env)),
            (atoms::completed(), queue.totals.completed.encode(env)),
            (atoms::failed(), queue.totals.failed.encode(env)),
            (atoms::cancelled(), queue.totals.cancelled.encode(env)),
            (atoms::deadline_exceeded(), queue.totals.deadline_exceeded.encode(env)),
            (atoms::dropped(), queue.totals.dropped.encode(env)),
            (atoms::busy(), micros(env, queue.totals.busy)),
            (atoms::lanes(), map(env, &lanes)),
            (atoms::power(), power.encode(env)),
            (atoms::thermal(), thermal.encode(env)),
            (atoms::suspended(), queue.governor.suspended.is_some().encode(env)),
        ],
    )
}

pub(crate) fn stream_stats<'a>(env: Env<'a>, stats: &StreamStats) -> Term<'a> {
    let times =
        |times: &Times| map(env, &[(atoms::p50(), micros(env, times.p50)), (atoms::p99(), micros(env, times.p99))]);
    map(
        env,
        &[
            (atoms::frames_in(), stats.frames_in.encode(env)),
            (atoms::frames_out(), stats.frames_out.encode(env)),
            (atoms::dropped_stale(), stats.dropped_stale.encode(env)),
            (atoms::dropped_full(), stats.dropped_full.encode(env)),
            (atoms::dropped_late(), stats.dropped_late.encode(env)),
            (atoms::failed(), stats.failed.encode(env)),
            (atoms::waiting(), stats.waiting.encode(env)),
            (atoms::in_flight(), stats.in_flight.encode(env)),
            (atoms::queue_time(), times(&stats.queue_time)),
            (atoms::device_time(), times(&stats.device_time)),
            (atoms::latency(), times(&stats.latency)),
        ],
    )
}

/// What a kernel is.
pub(crate) fn kernel<'a>(env: Env<'a>, spec: &KernelSpec) -> Term<'a> {
    let inputs: Vec<&str> = spec.inputs.iter().map(|input| input.name.as_str()).collect();
    let param = |param: &ParamSpec| {
        let default = param.default.as_ref().map(|value| value.to_string());
        map(
            env,
            &[
                (atoms::name(), param.name.encode(env)),
                (atoms::kind(), param.kind.to_string().encode(env)),
                (atoms::default(), default.encode(env)),
                (atoms::summary(), param.summary.encode(env)),
            ],
        )
    };
    let params: Vec<Term> = spec.params.iter().map(param).collect();
    map(
        env,
        &[
            (atoms::name(), spec.name.encode(env)),
            (atoms::aliases(), spec.aliases.encode(env)),
            (atoms::summary(), spec.summary.encode(env)),
            (atoms::class(), spec.class.name().encode(env)),
            (atoms::inputs(), inputs.encode(env)),
            (atoms::params(), params.encode(env)),
        ],
    )
}

/// What a model is.
pub(crate) fn model<'a>(env: Env<'a>, model: &Model) -> Term<'a> {
    let size = |dim: &Dim| match dim {
        Dim::Known(size) => size.encode(env),
        Dim::Batch => atoms::batch().encode(env),
        Dim::Open(name) => name.encode(env),
    };
    let port = |port: &Port| {
        let dims: Vec<Term> = port.dims.iter().map(size).collect();
        map(
            env,
            &[
                (atoms::name(), port.name.encode(env)),
                (atoms::dtype(), dtype_atom(port.dtype).encode(env)),
                (atoms::shape(), rustler::types::tuple::make_tuple(env, &dims)),
            ],
        )
    };
    let ports = |ports: &[Port]| ports.iter().map(port).collect::<Vec<Term>>().encode(env);
    map(
        env,
        &[
            (atoms::inputs(), ports(model.inputs())),
            (atoms::outputs(), ports(model.outputs())),
            (atoms::operators(), model.operators().encode(env)),
            (atoms::parameters(), model.parameters().encode(env)),
            (atoms::open_sizes(), model.open_sizes().encode(env)),
            (atoms::decided_by_values(), model.decided_by_values().encode(env)),
        ],
    )
}

/// Why a model was not loaded or did not run, as `{:error, %Dala.Gpu.Compute.Error{}}`.
pub(crate) fn not_run<'a>(env: Env<'a>, why: NotRun) -> Term<'a> {
    let operator = |operator: &UnsupportedOperator| {
        map(
            env,
            &[
                (atoms::operator(), operator.operator.encode(env)),
                (atoms::node(), operator.node.encode(env)),
                (atoms::why(), operator.why.encode(env)),
            ],
        )
    };
    let why = match why {
        NotRun::Broken(what) => {
            error_struct(env, "internal", &format!("{what} failed inside the library: this is a bug in it"), &[])
        }
        NotRun::Refused(LoadError::Device(own)) => error(env, &own),
        NotRun::Refused(refused) => {
            let (code, message) = (refused.code(), refused.to_string());
            match refused {
                LoadError::Model(ModelError::Unsupported { operators }) => {
                    let operators: Vec<Term> = operators.iter().map(operator).collect();
                    error_struct(env, code, &message, &[(atoms::operators(), operators.encode(env))])
                }
                LoadError::Model(ModelError::Io { source, .. }) => {
                    error_struct(env, code, &format!("{message}: {source}"), &[])
                }
                _ => error_struct(env, code, &message, &[]),
            }
        }
    };
    (atoms::error(), why).encode(env)
}

fn power_atom(power: Power) -> Atom {
    match power {
        Power::Low => atoms::low(),
        Power::Balanced => atoms::balanced(),
        Power::High => atoms::high(),
    }
}

pub(crate) fn power(atom: Atom) -> Result<Power, Bad> {
    let all = [Power::Low, Power::Balanced, Power::High];
    all.into_iter().find(|power| power_atom(*power) == atom).ok_or(Bad("level of power"))
}

fn thermal_atom(thermal: Thermal) -> Atom {
    match thermal {
        Thermal::Nominal => atoms::nominal(),
        Thermal::Fair => atoms::fair(),
        Thermal::Serious => atoms::serious(),
        Thermal::Critical => atoms::critical(),
    }
}

pub(crate) fn thermal(atom: Atom) -> Result<Thermal, Bad> {
    let all = [Thermal::Nominal, Thermal::Fair, Thermal::Serious, Thermal::Critical];
    all.into_iter().find(|thermal| thermal_atom(*thermal) == atom).ok_or(Bad("level of heat"))
}
