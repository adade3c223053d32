//! The native side of the Elixir package: everything here returns in microseconds, and waiting is done by processes that
//! receive messages. All NIFs and resources are in this module, so that a linker keeps or drops them together.

mod answers;
mod host;
mod lock;
mod measure;
mod models;
mod owners;
mod pipelines;
mod recipe_terms;
mod recipes;
mod resources;
mod serving;
mod streams;
mod surfaces;
mod terms;
mod traces;

use std::borrow::Cow;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use dala_compute::{
    Buffer, Command, CommandId, Device, Error, KernelCache, Lane, Plan, Stage, SubmitOptions, WhenFull, WhileSuspended,
};
use dala_image::Limits;
use rustler::types::atom::Atom;
use rustler::{Binary, Encoder, Env, LocalPid, Monitor, Resource, ResourceArc, Term};

use answers::{Caller, Wait, watch};
use host::{Block, host_data};
use lock::lock;
use measure::measured;
use models::Models;
use owners::{Owner, later, own};
use pipelines::{Found, Pipeline};
use recipes::{Asked, Given, NotDone, Recipes};
use resources::{BufferResource, DeviceResource};
use serving::{AskTerm, Desk, RequestTerm, Routes};
use streams::FrameStream;
use surfaces::SurfaceResource;
use terms::{Bad, Failure, answer, atoms, done};
use traces::Tracing;

#[rustler::resource_impl]
impl Resource for DeviceResource {}

#[rustler::resource_impl]
impl Resource for BufferResource {}

#[rustler::resource_impl]
impl Resource for Block {}

#[rustler::resource_impl]
impl Resource for Wait {}

#[rustler::resource_impl]
impl Resource for Pipeline {}

#[rustler::resource_impl]
impl Resource for Tracing {}

#[rustler::resource_impl]
impl Resource for SurfaceResource {}

#[rustler::resource_impl]
impl Resource for FrameStream {
    /// Whoever gets the frames is gone.
    fn down<'a>(&'a self, _env: Env<'a>, _pid: LocalPid, _monitor: Monitor) {
        self.stop(true);
    }
}

#[rustler::resource_impl]
impl Resource for Owner {
    fn down<'a>(&'a self, _env: Env<'a>, pid: LocalPid, _monitor: Monitor) {
        Owner::down(self, pid);
    }
}

#[rustler::resource_impl]
impl Resource for Desk {}

#[rustler::resource_impl]
impl Resource for Routes {
    /// Whoever waited for an answer is gone.
    fn down<'a>(&'a self, _env: Env<'a>, pid: LocalPid, _monitor: Monitor) {
        Routes::down(self, pid);
    }
}

type Dev = ResourceArc<DeviceResource>;
type Buf = ResourceArc<BufferResource>;
type Surf = ResourceArc<SurfaceResource>;

// Devices.

#[rustler::nif]
fn open(env: Env, name: String, budget: Option<u64>, tag: Term) -> Atom {
    let open = move || {
        let mut options = dala_compute::DeviceOptions::new();
        options.memory_budget = budget;
        Device::open_with(&name, options)
    };
    in_a_thread(Caller::new(env, tag), open, |env, device| {
        let resource = |device| {
            let (models, recipes) = (Models::default(), Recipes::default());
            ResourceArc::new(DeviceResource(device, AtomicBool::new(false), models, recipes))
        };
        answer(env, device.map(resource).map_err(Failure::from))
    })
}

#[rustler::nif]
fn devices(env: Env, tag: Term) -> Atom {
    in_a_thread(Caller::new(env, tag), Device::list, |env, devices| {
        let infos: Vec<Term> = devices.iter().map(|info| terms::info(env, info)).collect();
        (atoms::ok(), infos).encode(env)
    })
}

#[rustler::nif]
fn info<'a>(env: Env<'a>, device: Dev) -> Term<'a> {
    measured("info", || terms::info(env, device.0.info()))
}

#[rustler::nif]
fn stats<'a>(env: Env<'a>, device: Dev) -> Term<'a> {
    measured("stats", || terms::stats(env, &device.0.stats()))
}

#[rustler::nif]
fn memory(env: Env, device: Dev, tag: Term) -> Atom {
    let ask = move || (device.0.memory(), device.0.buffer_count());
    in_a_thread(Caller::new(env, tag), ask, |env, (memory, buffers)| match memory {
        Ok(memory) => (atoms::ok(), terms::memory(env, &memory, buffers)).encode(env),
        Err(error) => terms::result(env, &Err(error)),
    })
}

/// Chooses where compiled kernels are kept, or that they are not. Says whether it was in time.
#[rustler::nif]
fn keep_kernels_in(folder: Option<String>) -> bool {
    KernelCache::keep_in(folder.as_deref().map(Path::new))
}

/// Where compiled kernels are kept, how many and how many bytes there are and may be, and why they are not if they are not.
#[rustler::nif(schedule = "DirtyIo")]
fn kernel_cache(env: Env<'_>) -> Term<'_> {
    terms::kernel_cache(env, KernelCache::get())
}

/// Lets this scheduler end the VM at any moment.
#[rustler::nif]
fn attend_exit() -> Atom {
    measured("attend_exit", dala_compute::attend_exit);
    atoms::ok()
}

/// Bytes that buffers use now.
#[rustler::nif]
fn live_bytes(device: Dev) -> u64 {
    measured("live_bytes", || device.0.live_bytes())
}

#[rustler::nif]
fn is_suspended(device: Dev) -> bool {
    measured("is_suspended", || device.0.stats().queue.governor.suspended.is_some())
}

#[rustler::nif]
fn trim(env: Env, device: Dev, tag: Term) -> Atom {
    let give_back = move || {
        host::trim();
        device.0.trim()
    };
    in_a_thread(Caller::new(env, tag), give_back, |env, result| terms::result(env, &result))
}

#[rustler::nif]
fn memory_pressure(env: Env, device: Dev, tag: Term) -> Atom {
    let give_back = move || {
        host::trim();
        device.0.memory_pressure()
    };
    in_a_thread(Caller::new(env, tag), give_back, |env, result| terms::result(env, &result))
}

#[rustler::nif]
fn suspend(env: Env, device: Dev, fail: bool, tag: Term) -> Atom {
    let pending = if fail { WhileSuspended::Fail } else { WhileSuspended::Wait };
    in_a_thread(Caller::new(env, tag), move || device.0.suspend(pending), |env, ()| atoms::ok().encode(env))
}

#[rustler::nif]
fn resume(device: Dev) -> Atom {
    device.0.resume();
    atoms::ok()
}

#[rustler::nif]
fn set_power<'a>(env: Env<'a>, device: Dev, level: Atom) -> Term<'a> {
    done(env, terms::power(level).map(|level| device.0.set_power(level)).map_err(Failure::from))
}

#[rustler::nif]
fn report_thermal<'a>(env: Env<'a>, device: Dev, level: Atom) -> Term<'a> {
    done(env, terms::thermal(level).map(|level| device.0.report_thermal(level)).map_err(Failure::from))
}

#[rustler::nif(schedule = "DirtyCpu")]
fn kernels<'a>(env: Env<'a>, device: Dev) -> Vec<Term<'a>> {
    device.0.kernels().iter().map(|kernel| terms::kernel(env, &kernel.spec)).collect()
}

#[rustler::nif(schedule = "DirtyCpu")]
fn define<'a>(
    env: Env<'a>,
    device: Dev,
    name: String,
    expression: String,
    inputs: Term<'a>,
    params: Term<'a>,
) -> Term<'a> {
    let define = || {
        let definition = terms::definition(inputs, params)?;
        Ok(device.0.define(&name, &expression, definition)?)
    };
    done(env, define())
}

// Models.

/// Reads a file with some of its sizes, and adds it as a kernel if it can be one; sends `{tag, {:ok, model}}`.
#[rustler::nif]
fn load_model(env: Env, device: Dev, name: String, path: String, sizes: Vec<(String, usize)>, tag: Term) -> Atom {
    measured("load_model", || {
        let load = move || device.2.load(&device.0, &name, &path, &sizes);
        in_a_thread(Caller::new(env, tag), load, |env, loaded| match loaded {
            Ok(session) => (atoms::ok(), terms::model(env, session.model())).encode(env),
            Err(why) => terms::not_run(env, why),
        })
    })
}

/// Runs a model on buffers in the order of its inputs; sends `{tag, {:ok, outputs}}` with new buffers, or nil if there is no model
/// of this name.
#[rustler::nif]
fn run_model(env: Env, device: Dev, name: String, inputs: Vec<Buf>, tag: Term) -> Atom {
    measured("run_model", || {
        let inputs: Vec<Buffer> = inputs.iter().map(|input| input.0.clone()).collect();
        let run = move || device.2.get(&name).map(|session| models::run(&session, &inputs));
        in_a_thread(Caller::new(env, tag), run, |env, made| match made {
            None => atoms::nil().encode(env),
            Some(Ok(outputs)) => {
                let outputs = outputs.into_iter().map(|buffer| ResourceArc::new(BufferResource(buffer)));
                (atoms::ok(), outputs.collect::<Vec<Buf>>()).encode(env)
            }
            Some(Err(why)) => terms::not_run(env, why),
        })
    })
}

/// A model that was loaded; nil if there is none of this name.
#[rustler::nif(schedule = "DirtyCpu")]
fn model<'a>(env: Env<'a>, device: Dev, name: String) -> Option<Term<'a>> {
    device.2.get(&name).map(|session| terms::model(env, session.model()))
}

/// The names of ImageNet's classes.
#[rustler::nif(schedule = "DirtyCpu")]
fn imagenet_classes() -> Vec<&'static str> {
    dala_model::imagenet_classes().collect()
}

// Recipes. What they are given may be large, and they take long: each answers from a thread of its own.

/// The faces in a photo; sends `{tag, {:ok, faces}}`.
#[rustler::nif(schedule = "DirtyCpu")]
fn detect<'a>(env: Env<'a>, device: Dev, photo: Term<'a>, model: Asked, options: (f32, usize), tag: Term<'a>) -> Atom {
    recipe(env, tag, photo, recipe_terms::faces, move |photo| device.3.detect(&device.0, photo, model, options))
}

/// The lines of text in a photo; sends `{tag, {:ok, lines}}`.
#[rustler::nif(schedule = "DirtyCpu")]
fn read_text<'a>(env: Env<'a>, device: Dev, photo: Term<'a>, models: (Asked, Asked), tag: Term<'a>) -> Atom {
    recipe(env, tag, photo, recipe_terms::lines, move |photo| device.3.read(&device.0, photo, models))
}

/// A photo made larger; sends `{tag, {:ok, {shape, binary}}}`.
#[rustler::nif(schedule = "DirtyCpu")]
fn upscale<'a>(env: Env<'a>, device: Dev, photo: Term<'a>, model: Asked, tag: Term<'a>) -> Atom {
    recipe(env, tag, photo, recipe_terms::picture, move |photo| device.3.upscale(&device.0, photo, model))
}

/// When somebody speaks in a recording; sends `{tag, {:ok, heard}}`.
#[rustler::nif(schedule = "DirtyCpu")]
fn listen<'a>(env: Env<'a>, device: Dev, recording: Term<'a>, model: Asked, tag: Term<'a>) -> Atom {
    recipe(env, tag, recording, recipe_terms::heard, move |recording| device.3.listen(&device.0, recording, model))
}

/// What kind of file something is; sends `{tag, {:ok, kind}}`.
#[rustler::nif(schedule = "DirtyCpu")]
fn describe_type<'a>(env: Env<'a>, device: Dev, file: Term<'a>, model: Asked, tag: Term<'a>) -> Atom {
    recipe(env, tag, file, recipe_terms::file_type, move |file| device.3.describe_type(&device.0, file, model))
}

/// Answers with what a recipe makes of what it is given.
fn recipe<T>(
    env: Env,
    tag: Term,
    given: Term,
    encode: impl for<'b> FnOnce(Env<'b>, T) -> Term<'b> + Send + 'static,
    make: impl FnOnce(Given) -> Result<T, NotDone> + Send + 'static,
) -> Atom {
    let given = recipe_terms::given(given);
    let make = move || given.map(make);
    in_a_thread(Caller::new(env, tag), make, |env, made| match made {
        Ok(made) => recipe_terms::answer(env, made, encode),
        Err(bad) => done(env, Err(bad.into())),
    })
}

// Pictures.

/// The pixels of a picture's file as levels: `{:ok, {shape, binary}}`.
#[rustler::nif(schedule = "DirtyCpu")]
fn decode_picture<'a>(env: Env<'a>, file: Binary<'a>, max_pixels: u64) -> Term<'a> {
    match dala_image::decode(file.as_slice(), &Limits::pixels(max_pixels)) {
        Ok(picture) => (atoms::ok(), recipe_terms::picture(env, picture)).encode(env),
        Err(why) => (atoms::error(), terms::error_struct(env, why.code(), &why.to_string(), &[])).encode(env),
    }
}

/// A PNG file of pixels of shape `(height, width, channels)`: bytes, or floats from 0 to 1.
#[rustler::nif(schedule = "DirtyCpu")]
fn encode_png<'a>(env: Env<'a>, shape: (u32, u32, u8), floats: bool, pixels: Binary<'a>) -> Term<'a> {
    let (height, width, channels) = (shape.0 as usize, shape.1 as usize, usize::from(shape.2));
    let levels = match floats {
        true => Cow::Owned(dala_image::levels_of_bytes(pixels.as_slice())),
        false => Cow::Borrowed(pixels.as_slice()),
    };
    match dala_image::png(&levels, height, width, channels) {
        Ok(file) => (atoms::ok(), answers::binary(env, file)).encode(env),
        Err(why) => (atoms::error(), terms::error_struct(env, "no_picture", &why.to_string(), &[])).encode(env),
    }
}

// Buffers.

/// A buffer with the elements of a binary. The data is brought to the device later, before anybody uses the buffer.
#[rustler::nif]
fn buffer<'a>(env: Env<'a>, device: Dev, shape: Term<'a>, dtype: Atom, data: Term<'a>) -> Term<'a> {
    measured("buffer", || answer(env, filled_buffer(env, &device.0, shape, dtype, data)))
}

/// The same for large binaries: one that does not begin at a byte is copied by the VM when it is looked at.
#[rustler::nif(schedule = "DirtyCpu")]
fn buffer_large<'a>(env: Env<'a>, device: Dev, shape: Term<'a>, dtype: Atom, data: Term<'a>) -> Term<'a> {
    answer(env, filled_buffer(env, &device.0, shape, dtype, data))
}

fn filled_buffer(env: Env, device: &Device, shape: Term, dtype: Atom, data: Term) -> Result<Buf, Failure> {
    let data = host_data(data).ok_or(Bad("binary"))?;
    let buffer = Buffer::reserve(device, terms::dtype(dtype)?, terms::shape(shape)?)?;
    fill(env, device, buffer, |buffer| Stage::write_buffer(buffer, data))
}

#[rustler::nif]
fn zeros<'a>(env: Env<'a>, device: Dev, shape: Term<'a>, dtype: Atom) -> Term<'a> {
    measured("zeros", || {
        let make = || {
            let buffer = Buffer::reserve(&device.0, terms::dtype(dtype)?, terms::shape(shape)?)?;
            fill(env, &device.0, buffer, Stage::clear_buffer)
        };
        answer(env, make())
    })
}

/// Submits what fills a new buffer. Nobody owns that: the buffer may outlive the process that made it.
fn fill(env: Env, device: &Device, buffer: Buffer, stage: impl FnOnce(&Buffer) -> Stage) -> Result<Buf, Failure> {
    device.submit_with(stage(&buffer), refusing())?;
    // A process that makes much must come to an end of its turn: only then the VM gives back what it dropped.
    let percent = (buffer.size_bytes() / 10_000).clamp(1, 100) as i32;
    rustler::schedule::consume_timeslice(env, percent);
    Ok(ResourceArc::new(BufferResource(buffer)))
}

/// Waiting for room in a lane is done by processes.
fn refusing() -> SubmitOptions {
    SubmitOptions::new().lane(Lane::Interactive).when_full(WhenFull::Refuse)
}

/// `{id, shape, dtype, bytes}`.
#[rustler::nif]
fn buffer_info(buffer: Buf) -> (u64, Vec<usize>, Atom, usize) {
    measured("buffer_info", || {
        let buffer = &buffer.0;
        (buffer.id().0, buffer.shape().dims().to_vec(), terms::dtype_atom(buffer.dtype()), buffer.size_bytes())
    })
}

#[rustler::nif]
fn free(buffer: Buf) -> Atom {
    measured("free", || buffer.0.free());
    atoms::ok()
}

/// Sends `{tag, {:ok, binary}}` with the elements, once the commands before it are done.
#[rustler::nif]
fn read<'a>(env: Env<'a>, device: Dev, buffer: Buf, tag: Term<'a>) -> Term<'a> {
    measured("read", || {
        let readback = host::readback();
        let submitted = device.0.submit_with(Stage::read_buffer(&buffer.0, &readback), refusing());
        let read = submitted.map(|command| {
            let caller = Caller::new(env, tag);
            own(env, command.clone());
            let id = buffer.0.id();
            watch(command, move |result| {
                // Whether that came before or after it was asked for, it is the same to the caller.
                let result = result.map_err(|error| match error {
                    Error::DependencyFailed { cause, .. } => Error::Poisoned { buffer: id, cause },
                    other => other,
                });
                caller.answer(|env| answers::data(env, result, &readback));
            });
        });
        done(env, read.map_err(Failure::from))
    })
}

// Commands.

/// Queues stages; refused as `:unplanned` if that would take long. `tag` is nil, or what the message of completion is tagged with.
#[rustler::nif]
fn submit<'a>(env: Env<'a>, device: Dev, stages: Term<'a>, options: Term<'a>, owned: bool, tag: Term<'a>) -> Term<'a> {
    measured("submit", || {
        let options = terms::submit_options(options).map(SubmitOptions::only_planned);
        answer(env, submit_stages(env, &device.0, stages, options, owned, tag))
    })
}

/// The same for long lists, and for kernels that are to be planned first.
#[rustler::nif(schedule = "DirtyCpu")]
fn submit_many<'a>(
    env: Env<'a>,
    device: Dev,
    stages: Term<'a>,
    options: Term<'a>,
    owned: bool,
    tag: Term<'a>,
) -> Term<'a> {
    answer(env, submit_stages(env, &device.0, stages, terms::submit_options(options), owned, tag))
}

/// The same for a command that is written as JSON.
#[rustler::nif(schedule = "DirtyCpu")]
fn submit_json<'a>(env: Env<'a>, device: Dev, json: String, options: Term<'a>) -> Term<'a> {
    let submit = || {
        let stages = device.0.parse_command(&json)?;
        let command = device.0.submit_with(stages, terms::submit_options(options)?)?;
        let id = command.id().0;
        own(env, command);
        Ok(id)
    };
    answer(env, submit())
}

fn submit_stages(
    env: Env,
    device: &Device,
    stages: Term,
    options: Result<SubmitOptions, Bad>,
    owned: bool,
    tag: Term,
) -> Result<u64, Failure> {
    let command = device.submit_with(terms::stages(stages).map_err(Failure::Stage)?, options?)?;
    Ok(queued(env, command, owned, tag))
}

/// The id of a command that was queued, whose end is told to whoever wants to know.
fn queued(env: Env, command: Command, owned: bool, tag: Term) -> u64 {
    let id = command.id().0;
    if tag.decode::<Atom>().ok() != Some(atoms::nil()) {
        let caller = Caller::new(env, tag);
        watch(command.clone(), move |result| caller.answer_result(result));
    }
    if owned {
        own(env, command);
    }
    id
}

/// Everything that is wrong with stages.
#[rustler::nif(schedule = "DirtyCpu")]
fn check<'a>(env: Env<'a>, device: Dev, stages: Term<'a>) -> Term<'a> {
    let problems = terms::stages(stages).map(|stages| device.0.check(&stages)).map_err(Failure::Stage);
    answer(env, problems.map(|problems| problems.iter().map(|error| terms::error(env, error)).collect::<Vec<_>>()))
}

fn command(device: &Device, id: u64) -> Result<Command, Failure> {
    Ok(device.command(CommandId(id))?)
}

#[rustler::nif]
fn state<'a>(env: Env<'a>, device: Dev, id: u64) -> Term<'a> {
    measured("state", || answer(env, command(&device.0, id).map(|command| terms::state_atom(command.poll()))))
}

/// How a command ended: `{:ok, :pending}` as long as it has not.
#[rustler::nif]
fn outcome<'a>(env: Env<'a>, device: Dev, id: u64) -> Term<'a> {
    measured("outcome", || match command(&device.0, id) {
        Ok(command) => match command.outcome() {
            None => (atoms::ok(), atoms::pending()).encode(env),
            Some(Ok(())) => (atoms::ok(), atoms::completed()).encode(env),
            Some(result) => terms::result(env, &result),
        },
        Err(failure) => done(env, Err(failure)),
    })
}

/// `{:done, result}`, or `{:waiting, wait}` and a message `{tag, result}` later.
#[rustler::nif]
fn wait<'a>(env: Env<'a>, device: Dev, id: u64, tag: Term<'a>) -> Term<'a> {
    measured("wait", || match command(&device.0, id) {
        Ok(command) => match command.outcome() {
            Some(result) => (atoms::done(), terms::result(env, &result)).encode(env),
            None => (atoms::waiting(), Wait::start(command, Caller::new(env, tag))).encode(env),
        },
        Err(failure) => (atoms::done(), done(env, Err(failure))).encode(env),
    })
}

/// Ends a wait: the message is in the mailbox when this returns, or never comes.
#[rustler::nif]
fn stop_waiting(wait: ResourceArc<Wait>) -> Atom {
    measured("stop_waiting", || wait.stop());
    atoms::ok()
}

/// Sends `{tag, {:ok, whether it will not complete}}`. Not at once: all that need its result end too.
#[rustler::nif]
fn cancel(env: Env, device: Dev, id: u64, tag: Term) -> Atom {
    measured("cancel", || {
        let caller = Caller::new(env, tag);
        let cancel = move || command(&device.0, id).map(|command| command.cancel());
        later(move || caller.answer_with(cancel, answer));
        atoms::ok()
    })
}

// Pipelines.

#[rustler::nif]
fn pipeline() -> ResourceArc<Pipeline> {
    measured("pipeline", || ResourceArc::new(Pipeline::new()))
}

/// Appends a stage, whatever it is; false if the pipeline was freed.
#[rustler::nif]
fn pipeline_add(pipeline: ResourceArc<Pipeline>, stage: Term) -> bool {
    measured("pipeline_add", || pipeline.add(stage))
}

/// The same, however large it is.
#[rustler::nif(schedule = "DirtyCpu")]
fn pipeline_add_large(pipeline: ResourceArc<Pipeline>, stage: Term) -> bool {
    pipeline.add(stage)
}

#[rustler::nif]
fn is_pipeline(term: Term) -> bool {
    term.decode::<ResourceArc<Pipeline>>().is_ok()
}

/// The stages as they were added; nil if the pipeline was freed.
#[rustler::nif(schedule = "DirtyCpu")]
fn pipeline_stages<'a>(env: Env<'a>, pipeline: ResourceArc<Pipeline>) -> Option<Vec<Term<'a>>> {
    pipeline.stages(env)
}

#[rustler::nif]
fn pipeline_count(pipeline: ResourceArc<Pipeline>) -> usize {
    measured("pipeline_count", || pipeline.count())
}

#[rustler::nif]
fn pipeline_free(pipeline: ResourceArc<Pipeline>) -> Atom {
    measured("pipeline_free", || pipeline.free());
    atoms::ok()
}

/// Queues a run of what the pipeline was compiled to: `{:ok, {id, stages}}`, `:unplanned` if it is still to be compiled,
/// `:large` if that is no call for a normal scheduler, or `:freed`. `at_least` is nil, or how many of the stages are enough.
#[rustler::nif]
fn pipeline_submit<'a>(
    env: Env<'a>,
    device: Dev,
    pipeline: ResourceArc<Pipeline>,
    at_least: Option<usize>,
    options: Term<'a>,
    owned: bool,
    tag: Term<'a>,
) -> Term<'a> {
    measured("pipeline_submit", || {
        with_plan(env, &device, &pipeline, at_least, |plan| {
            if pipelines::is_large(plan) {
                atoms::large().encode(env)
            } else {
                answer(env, submit_plan(env, plan, options, owned, tag))
            }
        })
    })
}

/// The same, however large it is.
#[rustler::nif(schedule = "DirtyCpu")]
fn pipeline_submit_large<'a>(
    env: Env<'a>,
    device: Dev,
    pipeline: ResourceArc<Pipeline>,
    at_least: Option<usize>,
    options: Term<'a>,
    owned: bool,
    tag: Term<'a>,
) -> Term<'a> {
    with_plan(env, &device, &pipeline, at_least, |plan| answer(env, submit_plan(env, plan, options, owned, tag)))
}

/// The same on other buffers: `buffers` has pairs of one that the stages name and the one that takes its place.
#[rustler::nif(schedule = "DirtyCpu")]
fn pipeline_submit_on<'a>(
    env: Env<'a>,
    device: Dev,
    pipeline: ResourceArc<Pipeline>,
    at_least: Option<usize>,
    buffers: Vec<(Buf, Buf)>,
    call: (Term<'a>, bool, Term<'a>),
) -> Term<'a> {
    let (options, owned, tag) = call;
    with_plan(env, &device, &pipeline, at_least, |plan| {
        let pairs: Vec<(&Buffer, &Buffer)> = buffers.iter().map(|(own, other)| (&own.0, &other.0)).collect();
        let submitted = plan.rebind(&pairs).map_err(Failure::from);
        answer(env, submitted.and_then(|plan| submit_plan(env, &plan, options, owned, tag)))
    })
}

fn submit_plan(env: Env, plan: &Plan, options: Term, owned: bool, tag: Term) -> Result<(u64, usize), Failure> {
    let command = plan.submit_with(terms::submit_options(options)?)?;
    Ok((queued(env, command, owned, tag), plan.stage_count()))
}

/// Does something with what a pipeline was compiled to; `:unplanned` or `:freed` if there is nothing.
fn with_plan<'a>(
    env: Env<'a>,
    device: &Dev,
    pipeline: &Pipeline,
    at_least: Option<usize>,
    act: impl FnOnce(&Plan) -> Term<'a>,
) -> Term<'a> {
    match pipeline.plan(device, at_least) {
        Found::Plan(plan) => act(&plan),
        Found::Nothing => atoms::unplanned().encode(env),
        Found::Freed => atoms::freed().encode(env),
    }
}

/// Compiles stages, which are those of the pipeline, and keeps the result there: `:ok`, or `{:error, problems}`.
#[rustler::nif(schedule = "DirtyCpu")]
fn pipeline_compile<'a>(env: Env<'a>, device: Dev, pipeline: ResourceArc<Pipeline>, stages: Term<'a>) -> Term<'a> {
    let compile = || -> Result<Plan, Vec<Failure>> {
        let stages = terms::stages(stages).map_err(|bad| vec![Failure::Stage(bad)])?;
        let compiled = device.0.compile(&dala_compute::Pipeline::from(stages.clone()));
        let problems = |error| pipelines::problems(&device.0, &stages, error);
        compiled.map_err(|error| problems(error).into_iter().map(Failure::from).collect())
    };
    match compile() {
        Ok(plan) => {
            pipeline.keep(plan, device.clone());
            atoms::ok().encode(env)
        }
        Err(problems) => {
            // What was compiled before can run no more: a buffer was freed.
            pipeline.forget();
            let problems: Vec<Term> = problems.iter().map(|problem| terms::failure_term(env, problem)).collect();
            (atoms::error(), problems).encode(env)
        }
    }
}

/// What the pipeline was compiled to, as text: `{:ok, text}`, `:unplanned` or `:freed`.
#[rustler::nif(schedule = "DirtyCpu")]
fn pipeline_explain<'a>(
    env: Env<'a>,
    device: Dev,
    pipeline: ResourceArc<Pipeline>,
    at_least: Option<usize>,
) -> Term<'a> {
    with_plan(env, &device, &pipeline, at_least, |plan| (atoms::ok(), plan.explain()).encode(env))
}

/// The same as a picture.
#[rustler::nif(schedule = "DirtyCpu")]
fn pipeline_svg<'a>(env: Env<'a>, device: Dev, pipeline: ResourceArc<Pipeline>, at_least: Option<usize>) -> Term<'a> {
    with_plan(env, &device, &pipeline, at_least, |plan| (atoms::ok(), plan.to_svg()).encode(env))
}

/// Builds every kernel of what the pipeline was compiled to; sends `{tag, {:ok, built}}`, or `{tag, why_not}`.
#[rustler::nif]
fn pipeline_warm(env: Env, device: Dev, pipeline: ResourceArc<Pipeline>, at_least: Option<usize>, tag: Term) -> Atom {
    let warm = move || match pipeline.plan(&device, at_least) {
        Found::Plan(plan) => {
            let before = device.0.stats().compilations;
            Ok(plan.warm_up().map(|()| device.0.stats().compilations - before))
        }
        Found::Nothing => Err(atoms::unplanned()),
        Found::Freed => Err(atoms::freed()),
    };
    in_a_thread(Caller::new(env, tag), warm, |env, warmed| match warmed {
        Ok(built) => answer(env, built.map_err(Failure::from)),
        Err(nothing) => nothing.encode(env),
    })
}

// Traces.

/// Begins to record what the device does; nil if somebody does so already.
#[rustler::nif]
fn trace_start(device: Dev) -> Option<ResourceArc<Tracing>> {
    measured("trace_start", || Tracing::start(device).map(ResourceArc::new))
}

/// Ends that: what was recorded, as the text of a file; nil if it was ended before.
#[rustler::nif(schedule = "DirtyCpu")]
fn trace_stop(tracing: ResourceArc<Tracing>) -> Option<String> {
    tracing.stop().map(|trace| dala_compute::trace::to_perfetto(&trace))
}

// Streams.

/// A stream of frames: each is written to `input`, goes through the stages, and `output` is sent to `pid` as `{tag, number,
/// result}`.
#[rustler::nif(schedule = "DirtyCpu")]
fn stream<'a>(
    env: Env<'a>,
    device: Dev,
    buffers: (Term<'a>, Term<'a>),
    stages: Term<'a>,
    options: Term<'a>,
    to: (LocalPid, Term<'a>),
) -> Term<'a> {
    let make = || {
        let (input, output) = (optional_buffer(buffers.0)?, optional_buffer(buffers.1)?);
        let (options, blocks) = terms::stream_options(options)?;
        let stages = terms::stages(stages).map_err(Failure::Stage)?;
        // Plans them too, so that pushing frames does not.
        if let Some(problem) = device.0.check(&stages).into_iter().next() {
            return Err(problem.into());
        }
        let stream = FrameStream::new(&device.0, (input, output), stages, (options, blocks), to);
        let stream = ResourceArc::new(stream);
        if env.monitor(&stream, &to.0).is_none() {
            stream.stop(true);
        }
        Ok(stream)
    };
    answer(env, make())
}

fn optional_buffer(term: Term) -> Result<Option<Buffer>, Bad> {
    if term.decode::<Atom>().ok() == Some(atoms::nil()) { Ok(None) } else { terms::buffer(term).map(Some) }
}

/// What became of the frame; `:full` and a message `{tag, :ok}` later if the stream blocks. Frames may be large, stages many,
/// and plans forgotten by now.
#[rustler::nif(schedule = "DirtyCpu")]
fn stream_push<'a>(env: Env<'a>, stream: ResourceArc<FrameStream>, frame: Term<'a>, tag: Term<'a>) -> Term<'a> {
    match host_data(frame) {
        Some(frame) => FrameStream::push(&stream, env, frame, tag),
        None => done(env, Err(Bad("binary").into())),
    }
}

#[rustler::nif(schedule = "DirtyCpu")]
fn stream_stats<'a>(env: Env<'a>, stream: ResourceArc<FrameStream>) -> Option<Term<'a>> {
    stream.stats().map(|stats| terms::stream_stats(env, &stats))
}

/// Ends a stream. If it is to be mute, no frame is sent after this returns.
#[rustler::nif]
fn stream_stop(stream: ResourceArc<FrameStream>, mute: bool) -> Atom {
    measured("stream_stop", || stream.stop(mute));
    atoms::ok()
}

// Surfaces. Each call belongs to the surface's own process, copies pixels or waits for the device, and has time for that.

/// A window if there is a title; otherwise nobody sees it.
#[rustler::nif(schedule = "DirtyIo")]
fn surface<'a>(env: Env<'a>, device: Dev, width: u32, height: u32, title: Option<String>) -> Term<'a> {
    match surfaces::open(&device.0, width, height, title.as_deref()) {
        Ok(surface) => (atoms::ok(), ResourceArc::new(SurfaceResource(surface))).encode(env),
        Err(error) => surfaces::failed(env, &error),
    }
}

#[rustler::nif(schedule = "DirtyIo")]
fn surface_set_pixels<'a>(env: Env<'a>, surface: Surf, pixels: Binary<'a>) -> Term<'a> {
    surfaces::done(env, surface.0.set_pixels(pixels.as_slice()))
}

#[rustler::nif(schedule = "DirtyIo")]
fn surface_set_buffer<'a>(env: Env<'a>, surface: Surf, buffer: Buf) -> Term<'a> {
    surfaces::done(env, surface.0.set_buffer(&buffer.0))
}

#[rustler::nif(schedule = "DirtyIo")]
fn surface_present<'a>(env: Env<'a>, surface: Surf) -> Term<'a> {
    surfaces::done(env, surface.0.present())
}

#[rustler::nif(schedule = "DirtyIo")]
fn surface_resize<'a>(env: Env<'a>, surface: Surf, width: u32, height: u32) -> Term<'a> {
    surfaces::done(env, surface.0.resize(width, height))
}

/// `{:ok, png}`.
#[rustler::nif(schedule = "DirtyIo")]
fn surface_snapshot<'a>(env: Env<'a>, surface: Surf) -> Term<'a> {
    match surface.0.snapshot().and_then(|picture| picture.to_png()) {
        Ok(file) => (atoms::ok(), answers::binary(env, file)).encode(env),
        Err(error) => surfaces::failed(env, &error),
    }
}

/// `{width, height, presented, on_device}`.
#[rustler::nif(schedule = "DirtyIo")]
fn surface_info(surface: Surf) -> (u32, u32, u64, bool) {
    let (width, height) = surface.0.size();
    (width, height, surface.0.presented(), surface.0.on_device())
}

// Serving. What runs next and which node is asked is decided here; processes carry it out.

/// A place where requests wait: so many items and bytes, and so many batches at a time.
#[rustler::nif]
fn desk(items: u32, bytes: u64, slots: u32) -> ResourceArc<Desk> {
    ResourceArc::new(Desk::new(items, bytes, slots))
}

/// The number of a key whose requests share runs of these sizes; `{size, microseconds}` of those that were tried.
#[rustler::nif]
fn desk_key(desk: ResourceArc<Desk>, sizes: Vec<u32>, tried: Vec<(u32, u64)>) -> u64 {
    measured("desk_key", || desk.key(sizes, &tried))
}

/// `{:ok, ticket}` or `{:error, {code, microseconds, text}}`.
#[rustler::nif]
fn desk_offer<'a>(env: Env<'a>, desk: ResourceArc<Desk>, request: RequestTerm) -> Term<'a> {
    measured("desk_offer", || desk.offer(env, request).unwrap_or_else(|bad| done(env, Err(bad.into()))))
}

/// `{:run, {batch, size, items, tickets}}`, `{:wait, microseconds}` or `:idle`.
#[rustler::nif]
fn desk_next<'a>(env: Env<'a>, desk: ResourceArc<Desk>) -> Term<'a> {
    measured("desk_next", || desk.next(env))
}

/// A batch is `:done`, `:failed` or `:lost`.
#[rustler::nif]
fn desk_finished<'a>(env: Env<'a>, desk: ResourceArc<Desk>, batch: u64, how: Atom) -> Term<'a> {
    measured("desk_finished", || done(env, desk.finished(batch, how).map_err(Failure::from)))
}

#[rustler::nif]
fn desk_gone(desk: ResourceArc<Desk>, ticket: u64) -> Atom {
    measured("desk_gone", || desk.gone(ticket));
    atoms::ok()
}

#[rustler::nif]
fn desk_caller_gone(desk: ResourceArc<Desk>, caller: u64) -> Atom {
    measured("desk_caller_gone", || desk.caller_gone(caller));
    atoms::ok()
}

#[rustler::nif]
fn desk_drain(desk: ResourceArc<Desk>) -> Atom {
    measured("desk_drain", || desk.drain());
    atoms::ok()
}

/// `{ticket, how, took, waited, runs}` of each request that ended since the last call.
#[rustler::nif]
fn desk_ended<'a>(env: Env<'a>, desk: ResourceArc<Desk>) -> Vec<Term<'a>> {
    measured("desk_ended", || desk.take_ended(env))
}

#[rustler::nif]
fn desk_load<'a>(env: Env<'a>, desk: ResourceArc<Desk>) -> Term<'a> {
    measured("desk_load", || desk.load(env))
}

/// What a node says of itself with every answer.
#[rustler::nif]
fn desk_word<'a>(env: Env<'a>, desk: ResourceArc<Desk>, key: u64) -> Term<'a> {
    measured("desk_word", || match desk.word(key) {
        Ok(word) => word.encode(env),
        Err(bad) => done(env, Err(bad.into())),
    })
}

/// Whom this node asks for a name: nobody yet.
#[rustler::nif]
fn routes() -> ResourceArc<Routes> {
    ResourceArc::new(Routes::new())
}

#[rustler::nif]
fn routes_join(routes: ResourceArc<Routes>, member: u64) -> Atom {
    measured("routes_join", || routes.join(member));
    atoms::ok()
}

#[rustler::nif]
fn routes_leave(routes: ResourceArc<Routes>, member: u64) -> Atom {
    measured("routes_leave", || routes.leave(member));
    atoms::ok()
}

#[rustler::nif]
fn routes_heard(routes: ResourceArc<Routes>, member: u64, word: Term) -> Atom {
    measured("routes_heard", || routes.heard(member, word));
    atoms::ok()
}

/// `{:ok, {ticket, member, microseconds}}` or `{:error, {code, microseconds, text}}`, as the next three.
#[rustler::nif]
fn routes_ask<'a>(env: Env<'a>, routes: ResourceArc<Routes>, ask: AskTerm) -> Term<'a> {
    measured("routes_ask", || Routes::ask(&routes, env, ask).unwrap_or_else(|bad| done(env, Err(bad.into()))))
}

#[rustler::nif]
fn routes_refused<'a>(env: Env<'a>, routes: ResourceArc<Routes>, ticket: u64, word: Term<'a>) -> Term<'a> {
    measured("routes_refused", || Routes::refused(&routes, env, ticket, word))
}

#[rustler::nif]
fn routes_lost<'a>(env: Env<'a>, routes: ResourceArc<Routes>, ticket: u64, perhaps: bool) -> Term<'a> {
    measured("routes_lost", || Routes::lost(&routes, env, ticket, perhaps))
}

#[rustler::nif]
fn routes_late<'a>(env: Env<'a>, routes: ResourceArc<Routes>, ticket: u64) -> Term<'a> {
    measured("routes_late", || Routes::late(&routes, env, ticket))
}

#[rustler::nif]
fn routes_answered(env: Env, routes: ResourceArc<Routes>, ticket: u64, word: Term) -> Atom {
    measured("routes_answered", || Routes::answered(&routes, env, ticket, word));
    atoms::ok()
}

#[rustler::nif]
fn routes_info<'a>(env: Env<'a>, routes: ResourceArc<Routes>) -> Term<'a> {
    measured("routes_info", || routes.info(env))
}

// The library itself.

#[rustler::nif]
fn nop() -> Atom {
    measured("nop", atoms::ok)
}

#[rustler::nif]
fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// Starts or stops measuring how long calls keep their scheduler busy.
#[rustler::nif]
fn measure(on: bool) -> Atom {
    measure::switch(on);
    atoms::ok()
}

/// `[{name, calls, longest, all}]` in nanoseconds of CPU time.
#[rustler::nif]
fn measurements() -> Vec<(&'static str, u64, u64, u64)> {
    measure::times().into_iter().map(|(name, times)| (name, times.calls, times.max, times.total)).collect()
}

/// Runs a kernel so often from a native thread, which waits for each: what the same takes without the VM. Answers the
/// nanoseconds of each.
#[rustler::nif]
fn time_runs<'a>(env: Env<'a>, device: Dev, call: (String, Vec<Buf>, Buf), times: usize, tag: Term<'a>) -> Atom {
    let measure = move || {
        let (kernel, inputs, output) = call;
        let inputs: Vec<&Buffer> = inputs.iter().map(|input| &input.0).collect();
        let run = |_| {
            let start = std::time::Instant::now();
            device.0.run(&kernel, &inputs, &output.0, ()).map(|()| start.elapsed().as_nanos() as u64)
        };
        (0..times).map(run).collect::<Result<Vec<u64>, _>>().map_err(Failure::from)
    };
    in_a_thread(Caller::new(env, tag), measure, answer)
}

/// Panics where calls do their work, for tests: whoever waits is to be answered all the same.
#[rustler::nif]
fn panic_in(env: Env, place: String, tag: Term) -> Atom {
    // Unlike `panic!`, this reports nothing.
    fn panics<T>() -> T {
        std::panic::resume_unwind(Box::new("as asked"))
    }
    let caller = Caller::new(env, tag);
    match place.as_str() {
        "thread" => return in_a_thread(caller, panics, |env, ()| atoms::ok().encode(env)),
        "answer" => return in_a_thread(caller, || (), |_, ()| panics()),
        "frame" => later(move || caller.answer_numbered(7, |_| panics())),
        _ => later(move || caller.answer_with(panics, |env, ()| atoms::ok().encode(env))),
    }
    atoms::ok()
}

/// Answers with what comes of something that may take long.
fn in_a_thread<T>(
    caller: Caller,
    work: impl FnOnce() -> T + Send + 'static,
    encode: impl for<'a> FnOnce(Env<'a>, T) -> Term<'a> + Send + 'static,
) -> Atom {
    let work = move || caller.answer_with(work, encode);
    let work = std::sync::Arc::new(std::sync::Mutex::new(Some(work)));
    let take = |work: &std::sync::Mutex<Option<_>>| lock(work).take();
    let in_thread = work.clone();
    let run = move || {
        if let Some(work) = take(&in_thread) {
            work();
        }
    };
    if std::thread::Builder::new().name("dala-call".to_owned()).spawn(run).is_err() {
        // Answers must not be sent from a scheduler's thread: there is one for what is done later.
        later(move || {
            if let Some(work) = take(&work) {
                work();
            }
        });
    }
    atoms::ok()
}

rustler::init!("Elixir.Dala.Gpu.Compute.Native");
