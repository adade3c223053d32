//! Adapters that are reached through wgpu: which there are, and how one is opened for the engine.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use cubecl::future::block_on;
use cubecl::wgpu::{WgpuInitError, WgpuSetup, wgpu};

use super::adapter::Adapter;
use super::ending::stay_first;
use super::held::HeldThread;
use super::info::{AdapterId, Backend, DeviceKind, describe};
use super::interop::Graphics;
use super::shaders;
use super::staging::Staging;

fn api(backend: Backend) -> wgpu::Backend {
    match backend {
        Backend::Gl => wgpu::Backend::Gl,
        Backend::Metal => wgpu::Backend::Metal,
        _ => wgpu::Backend::Vulkan,
    }
}

/// The back end's only instance: drivers crash where instances come and go on several threads.
fn instance(backend: Backend) -> wgpu::Instance {
    let make = || {
        // Drivers make their compilers here, before any device is opened.
        stay_first();
        wgpu::Instance::new(wgpu::InstanceDescriptor {
            backends: api(backend).into(),
            ..wgpu::InstanceDescriptor::new_without_display_handle()
        })
    };
    instances().entry(backend).or_insert_with(make).clone()
}

fn instances() -> MutexGuard<'static, HashMap<Backend, wgpu::Instance>> {
    static INSTANCES: OnceLock<Mutex<HashMap<Backend, wgpu::Instance>>> = OnceLock::new();
    INSTANCES.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// The adapters that the driver lists, in its order. Asked once, unless there were none or `again` says so: OpenGL cannot be
/// asked while another thread uses it.
fn adapters(backend: Backend, again: bool) -> Vec<wgpu::Adapter> {
    static FOUND: OnceLock<Mutex<HashMap<Backend, Vec<wgpu::Adapter>>>> = OnceLock::new();
    let mut found = FOUND.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    let found = found.entry(backend).or_default();
    if again || found.is_empty() {
        *found = block_on(instance(backend).enumerate_adapters(api(backend).into()));
    }
    if found.is_empty() {
        // It knows only the drivers that there were when it was made, and nobody has an adapter of it.
        instances().remove(&backend);
    }
    found.clone()
}

/// The kinds of the adapters that the driver lists, in its order. None of them is opened.
pub(super) fn kinds(backend: Backend) -> Vec<DeviceKind> {
    adapters(backend, false).iter().map(|adapter| kind(&adapter.get_info())).collect()
}

fn kind(adapter: &wgpu::AdapterInfo) -> DeviceKind {
    match adapter.device_type {
        wgpu::DeviceType::DiscreteGpu => DeviceKind::Discrete,
        wgpu::DeviceType::IntegratedGpu => DeviceKind::Integrated,
        wgpu::DeviceType::Cpu => DeviceKind::Software,
        // OpenGL does not say; Mesa's software drivers are known by name.
        _ if ["llvmpipe", "softpipe", "swrast", "SwiftShader"].iter().any(|name| adapter.name.contains(name)) => {
            DeviceKind::Software
        }
        _ => DeviceKind::OtherGpu,
    }
}

/// Opens the adapter of that number as a device of our own, whose thread is ours; `again` if it was lost.
pub(super) fn open(id: AdapterId, again: bool) -> Result<Adapter, String> {
    let (all, AdapterId { backend, number }) = (adapters(id.backend, again), id);
    let count = all.len();
    let adapter = all.into_iter().nth(number).ok_or_else(|| match count {
        0 => format!("its driver lists no {backend} adapter"),
        _ => format!("the last {backend} adapter is {backend}:{}", count - 1),
    })?;
    let (device, queue) = request(&adapter).map_err(|error| error.to_string())?;
    let setup = WgpuSetup { instance: instance(backend), adapter, device, queue, backend: api(backend) };
    let about = setup.adapter.get_info();
    let driver = format!("{} {}", about.driver, about.driver_info).trim().to_owned();
    let client = shaders::client(&setup).map_err(|error| error.to_string())?;
    let thread = HeldThread::take(&client).map_err(|error| error.to_string())?;
    let (mut info, facts) = describe(id, kind(&about), Some(driver).filter(|driver| !driver.is_empty()), &client);
    info.name = about.name;
    let staging = Some(Mutex::new(Staging::new(setup.device.clone(), setup.queue.clone())));
    let WgpuSetup { instance, adapter, device, queue, .. } = setup;
    let graphics = Some(Graphics { instance, adapter, device, queue });
    Ok(Adapter { info, facts, client, thread: Some(Arc::new(thread)), staging, graphics })
}

/// A device with all that the adapter has, as the engine's compilers want it: for code of the driver's own language where the
/// engine makes such, for WGSL elsewhere.
fn request(adapter: &wgpu::Adapter) -> Result<(wgpu::Device, wgpu::Queue), WgpuInitError> {
    #[cfg(feature = "vulkan")]
    if adapter.get_info().backend == wgpu::Backend::Vulkan
        && let Some(opened) = block_on(cubecl::wgpu::vulkan::try_request_vulkan_device(adapter))?
    {
        return Ok(opened);
    }
    #[cfg(all(feature = "metal", target_os = "macos"))]
    if adapter.get_info().backend == wgpu::Backend::Metal {
        return block_on(cubecl::wgpu::metal::try_request_metal_device(adapter));
    }
    let asked = adapter.request_device(&wgpu::DeviceDescriptor {
        label: None,
        required_features: adapter.features().difference(wgpu::Features::MAPPABLE_PRIMARY_BUFFERS),
        required_limits: adapter.limits(),
        // The engine takes large pages and cuts them up itself.
        memory_hints: wgpu::MemoryHints::MemoryUsage,
        trace: wgpu::Trace::Off,
        // SAFETY: the engine's shaders are made for them, and no others run on the device.
        experimental_features: unsafe { wgpu::ExperimentalFeatures::enabled() },
    });
    block_on(asked).map_err(|error| WgpuInitError::RequestDevice { message: error.to_string() })
}
