//! Finds and opens adapters.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use super::adapter::Adapter;
#[cfg(feature = "cpu")]
use super::cpu;
use super::cube;
use super::ending::{attend_exit, stay_first};
use super::error::EngineError;
use super::guard::caught;
#[cfg(feature = "cpu")]
use super::held::HeldThread;
#[cfg(any(feature = "cpu", feature = "cuda", feature = "rocm"))]
use super::info::describe;
use super::info::{AdapterId, Backend, DeviceKind};
use super::interface::Engine;
use super::panics::silence_caught_panics;

/// The adapters of a back end, by number: what kind each is. None of them is opened, and a back end that is not built in, or
/// finds no driver, has none.
pub(crate) fn kinds(backend: Backend) -> Vec<DeviceKind> {
    attend_exit();
    let kinds = caught(|| match backend {
        _ if !backend.is_built() => Vec::new(),
        Backend::Cpu => vec![DeviceKind::Cpu],
        #[cfg(feature = "graphics")]
        Backend::Vulkan | Backend::Gl | Backend::Metal => super::graphics::kinds(backend),
        #[cfg(feature = "cuda")]
        Backend::Cuda => native(cubecl::Device::cuda),
        #[cfg(feature = "rocm")]
        Backend::Rocm => native(cubecl::Device::rocm),
        #[allow(unreachable_patterns, reason = "every back end may be built in")]
        _ => Vec::new(),
    });
    kinds.unwrap_or_default()
}

/// As many as there are: the engine only says whether there is one of a number.
#[cfg(any(feature = "cuda", feature = "rocm"))]
fn native<E>(device: impl Fn(usize) -> Result<cubecl::Device, E>) -> Vec<DeviceKind> {
    const MOST: usize = 64;
    stay_first();
    (0..MOST).map_while(|number| device(number).ok()).map(|_| DeviceKind::Discrete).collect()
}

/// An adapter, opened on first use and shared from then on. One that could not be opened is tried again the next time, and so is
/// one whose device was lost.
pub(crate) fn open_adapter(id: AdapterId) -> Result<Arc<Adapter>, String> {
    static OPENED: OnceLock<Mutex<HashMap<AdapterId, Arc<Adapter>>>> = OnceLock::new();
    let backend = id.backend;
    if !backend.is_built() {
        return Err(format!("this build has no {backend} back end: build with the `{backend}` feature"));
    }
    #[cfg(feature = "faults")]
    super::faulty::openable()?;
    attend_exit();
    silence_caught_panics();
    let mut opened = OPENED.get_or_init(Mutex::default).lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let before = opened.get(&id);
    if let Some(adapter) = before.filter(|adapter| !adapter.is_lost()) {
        return Ok(adapter.clone());
    }
    let again = before.is_some();
    stay_first();
    let adapter = Arc::new(caught(|| open(id, again)).map_err(|error| error.to_string())??);
    opened.insert(id, adapter.clone());
    Ok(adapter)
}

#[cfg_attr(not(feature = "graphics"), expect(unused_variables, reason = "other adapters are not lost"))]
fn open(id: AdapterId, again: bool) -> Result<Adapter, String> {
    match id.backend {
        #[cfg(feature = "graphics")]
        Backend::Vulkan | Backend::Gl | Backend::Metal => super::graphics::open(id, again),
        #[cfg(feature = "cuda")]
        Backend::Cuda => open_native(id, cubecl::Device::cuda(id.number), DeviceKind::Discrete),
        #[cfg(feature = "rocm")]
        Backend::Rocm => open_native(id, cubecl::Device::rocm(id.number), DeviceKind::Discrete),
        #[cfg(feature = "cpu")]
        Backend::Cpu => open_cpu(id),
        #[allow(unreachable_patterns, reason = "every back end may be built in")]
        other => Err(format!("this build has no {other} back end")),
    }
}

#[cfg(feature = "cpu")]
fn open_cpu(id: AdapterId) -> Result<Adapter, String> {
    if id.number > 0 {
        return Err("there is one CPU device".to_owned());
    }
    let client = super::cpu::client();
    let thread = HeldThread::take(&client).map_err(|error| error.to_string())?;
    let (mut info, mut facts) = describe(id, DeviceKind::Cpu, None, &client);
    // The engine counts the cores that its own thread may use, and binds that to a few.
    facts.units_per_cube = super::cpu::threads() as u32;
    info.limits.max_units = facts.units_per_cube;
    Ok(Adapter {
        info,
        facts,
        client,
        thread: Some(Arc::new(thread)),
        #[cfg(feature = "graphics")]
        staging: None,
        #[cfg(feature = "graphics")]
        graphics: None,
    })
}

#[cfg(any(feature = "cuda", feature = "rocm"))]
fn open_native(
    id: AdapterId,
    device: Result<cubecl::Device, cubecl::device::DeviceUnavailable>,
    kind: DeviceKind,
) -> Result<Adapter, String> {
    let client = device.map_err(|error| error.to_string())?.client();
    let (info, facts) = describe(id, kind, None, &client);
    Ok(Adapter {
        info,
        facts,
        client,
        thread: None,
        #[cfg(feature = "graphics")]
        staging: None,
        #[cfg(feature = "graphics")]
        graphics: None,
    })
}

/// What drives an adapter for one device.
#[cfg_attr(not(feature = "cpu"), expect(unused_variables, reason = "only the CPU device has threads of ours"))]
pub(crate) fn open_engine(adapter: Arc<Adapter>, threads: Option<usize>) -> Result<Arc<dyn Engine>, EngineError> {
    let engine: Arc<dyn Engine> = match adapter.info.backend {
        #[cfg(feature = "cpu")]
        Backend::Cpu => Arc::new(cpu::CpuEngine::new(adapter, threads)?),
        _ => Arc::new(cube::CubeEngine::new(adapter)),
    };
    #[cfg(feature = "faults")]
    let engine = super::faulty::wrapped(engine);
    Ok(engine)
}
