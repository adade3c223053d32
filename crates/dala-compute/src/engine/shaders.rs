//! Shaders of graphics devices: found in the folder of kept kernels, or made by the engine's compilers.
//!
//! The engine takes its compiler as a type, so ours is put in front of it. What a driver makes of a shader, the driver keeps itself.

use cubecl::ir::{DeviceProperties, ElemType, TargetProperties, UIntKind};
use std::time::Instant;

use cubecl::prelude::{CubeKernel, KernelDefinition};
use cubecl::server::{LaunchError, ServerUtilities};
use cubecl::wgpu::{
    AutoCompiler, AutoRepresentation, CompilerInfo, RuntimeOptions, WgpuBackend, WgpuCompiler, WgpuCompilerInitError,
    WgpuInitError, WgpuServer, WgpuSetup, try_init_device, wgpu,
};
use cubecl::{CompilationError, Compiler, Device, WgpuCompilationOptions, client::Client};
use cubecl_common::device::{Device as _, ServiceId};
use cubecl_server::allocator::ContiguousMemoryLayoutPolicy;
use cubecl_server::kernel::{BufferIOAttr, CompiledKernel};
use dala_kernels::launch::CompileCount;

use super::cache::store::{Key, Store};
use super::cache::{BuiltKernel, KernelCache};

/// The server of a graphics device.
pub(super) type ShaderServer = WgpuServer<KeptCompiler>;

/// The engine's compiler for the device's language, asked for what is not kept.
#[derive(Clone, Debug)]
pub(super) struct KeptCompiler(AutoCompiler);

/// A client of a device whose shaders are kept.
pub(super) fn client(setup: &WgpuSetup) -> Result<Client, WgpuInitError> {
    // What the engine finds out about a device when it opens it, it tells only through a server of its own. That one is never
    // used; it shares its thread with ours.
    let device = try_init_device(setup.clone(), RuntimeOptions::try_default()?)?;
    let engine = Device::Wgpu(device.clone()).client();
    let mut properties = engine.properties().clone();
    let options = compilation_options(setup, &properties);
    let compiler = KeptCompiler::init(setup.backend, &options);
    compiler.limit_properties(&mut properties);
    let (memory, timing) = (properties.memory.clone(), properties.timing_method);
    let (utilities, captures) = ServerUtilities::init(
        ServiceId::of::<ShaderServer>(device.to_id()),
        engine.name(),
        properties,
        compiler.target_properties(),
        std::sync::Arc::default(),
        ContiguousMemoryLayoutPolicy::new(memory.alignment as usize),
    );
    let RuntimeOptions { tasks_max, memory_config } = RuntimeOptions::try_default()?;
    let server = ShaderServer::new(
        memory,
        memory_config,
        options,
        setup.device.clone(),
        setup.queue.clone(),
        tasks_max,
        setup.backend,
        timing,
        utilities,
        captures,
    );
    Client::try_init(device.to_id(), server)
        .map_err(|error| WgpuInitError::Registration { message: format!("{device:?}: {error:?}") })
}

/// How the engine compiles for a device.
fn compilation_options(setup: &WgpuSetup, properties: &DeviceProperties) -> WgpuCompilationOptions {
    native_options(setup, properties).unwrap_or_else(|| WgpuCompilationOptions {
        supports_u64: properties.supports_type(ElemType::UInt(UIntKind::U64)),
        ..WgpuCompilationOptions::default()
    })
}

/// The same for a device whose own language the engine knows. Properties are registered once more, with a copy.
#[cfg(any(feature = "vulkan", all(feature = "metal", target_os = "macos")))]
fn native_options(setup: &WgpuSetup, properties: &DeviceProperties) -> Option<WgpuCompilationOptions> {
    #[cfg(all(feature = "metal", target_os = "macos"))]
    use cubecl::wgpu::metal::register_metal_features;
    #[cfg(feature = "vulkan")]
    use cubecl::wgpu::vulkan::register_vulkan_features;
    let (mut properties, mut options) = (properties.clone(), WgpuCompilationOptions::default());
    let is_native = match setup.backend {
        #[cfg(feature = "vulkan")]
        wgpu::Backend::Vulkan => register_vulkan_features(&setup.adapter, &mut properties, &mut options),
        #[cfg(all(feature = "metal", target_os = "macos"))]
        wgpu::Backend::Metal => register_metal_features(&setup.adapter, &mut properties, &mut options),
        _ => false,
    };
    is_native.then_some(options)
}

#[cfg(not(any(feature = "vulkan", all(feature = "metal", target_os = "macos"))))]
fn native_options(_: &WgpuSetup, _: &DeviceProperties) -> Option<WgpuCompilationOptions> {
    None
}

impl KeptCompiler {
    /// Where the shader of a kernel is kept, if it is: under everything that it depends on. What others wrote may change without
    /// notice, and is not kept.
    fn place(
        &self,
        kernel: &dyn CubeKernel,
        definition: &KernelDefinition,
        options: &WgpuCompilationOptions,
    ) -> Option<(&'static Store, Key)> {
        let id = kernel.id();
        let store = KernelCache::get().store().filter(|_| dala_kernels::is_numbered(id.type_name()))?;
        let properties = definition.body.state().device_properties.as_ref()?.checksum();
        let device = format!("{options:?} {properties:x} {:?}", dala_kernels::SOURCES);
        // A shader is entered by its name, which differs between programs that were built otherwise.
        let name = &definition.settings.kernel_name;
        Some((store, Key::of(&[self.lang_tag(), &device, &id.stable_format(), name])))
    }
}

impl Compiler for KeptCompiler {
    type Representation = AutoRepresentation;
    type CompilationOptions = WgpuCompilationOptions;

    fn compile(
        &mut self,
        definition: KernelDefinition,
        options: &WgpuCompilationOptions,
    ) -> Result<AutoRepresentation, CompilationError> {
        self.0.compile(definition, options)
    }

    fn buffer_io(representation: &AutoRepresentation) -> Option<Vec<BufferIOAttr>> {
        AutoCompiler::buffer_io(representation)
    }

    fn extension(&self) -> &'static str {
        self.0.extension()
    }

    fn lang_tag(&self) -> &'static str {
        self.0.lang_tag()
    }
}

impl WgpuCompiler for KeptCompiler {
    fn validate_runtime(
        backend: wgpu::Backend,
        options: &WgpuCompilationOptions,
        requested: WgpuBackend,
    ) -> Result<(), WgpuCompilerInitError> {
        AutoCompiler::validate_runtime(backend, options, requested)
    }

    fn init(backend: wgpu::Backend, options: &WgpuCompilationOptions) -> KeptCompiler {
        KeptCompiler(AutoCompiler::init(backend, options))
    }

    fn limit_properties(&self, properties: &mut DeviceProperties) {
        self.0.limit_properties(properties);
    }

    fn target_properties(&self) -> TargetProperties {
        self.0.target_properties()
    }

    fn compile_kernel(
        &mut self,
        kernel: &dyn CubeKernel,
        definition: KernelDefinition,
        options: &WgpuCompilationOptions,
    ) -> Result<CompiledKernel<KeptCompiler>, CompilationError> {
        let (name, units) = (definition.settings.kernel_name.clone(), definition.settings.cube_dim);
        let place = self.place(kernel, &definition, options);
        let representation = match place.and_then(|(store, key)| found(store, key)) {
            Some(representation) => {
                CompileCount::not_built();
                representation
            }
            None => {
                let start = Instant::now();
                let made = self.0.compile(definition, options)?;
                if !dala_kernels::is_numbered(kernel.id().type_name()) {
                    CompileCount::built_other();
                }
                let (time, packed) = (start.elapsed(), packed(&made));
                if let (Some((store, key)), Some(packed)) = (place, &packed) {
                    store.put(key, packed);
                }
                BuiltKernel::remember(kernel.name(), None, time, packed.map(|packed| packed.len()));
                made
            }
        };
        Ok(CompiledKernel {
            entrypoint_name: name,
            debug_name: Some(kernel.name()),
            source: if is_text(&representation) { representation.to_string() } else { String::new() },
            io: AutoCompiler::buffer_io(&representation),
            repr: Some(representation),
            cube_dim: units.into(),
            debug_info: None,
        })
    }

    fn validate_ir(
        &self,
        representation: &Option<AutoRepresentation>,
        properties: &DeviceProperties,
    ) -> Result<(), LaunchError> {
        self.0.validate_ir(representation, properties)
    }

    fn normalize_repr(&self, representation: Option<AutoRepresentation>) -> (CompilerInfo, Option<AutoRepresentation>) {
        self.0.normalize_repr(representation)
    }
}

/// Whether the driver is handed a text. To print what it is not handed takes as long as to make it.
fn is_text(representation: &AutoRepresentation) -> bool {
    match representation {
        #[cfg(feature = "vulkan")]
        AutoRepresentation::SpirV(_) => false,
        _ => true,
    }
}

fn found(store: &Store, key: Key) -> Option<AutoRepresentation> {
    let representation = unpacked(&store.get(key)?);
    if representation.is_none() {
        store.remove(key);
    }
    representation
}

/// What is kept of a shader: the length of its description, the description, its words. Texts are not kept: they are made quickly,
/// and then translated by wgpu and the driver.
#[cfg(feature = "vulkan")]
fn packed(representation: &AutoRepresentation) -> Option<Vec<u8>> {
    let AutoRepresentation::SpirV(shader) = representation else { return None };
    let mut shader = shader.clone();
    let words = std::mem::take(&mut shader.assembled_module);
    let description = serde_json::to_vec(&shader).ok()?;
    let mut bytes = (description.len() as u32).to_le_bytes().to_vec();
    bytes.extend(description);
    bytes.extend(words.into_iter().flat_map(u32::to_le_bytes));
    Some(bytes)
}

#[cfg(feature = "vulkan")]
fn unpacked(bytes: &[u8]) -> Option<AutoRepresentation> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (description, words) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    let (words, []) = words.as_chunks::<4>() else { return None };
    let mut representation = AutoRepresentation::SpirV(serde_json::from_slice(description).ok()?);
    if let AutoRepresentation::SpirV(shader) = &mut representation {
        shader.assembled_module = words.iter().copied().map(u32::from_le_bytes).collect();
    }
    Some(representation)
}

#[cfg(not(feature = "vulkan"))]
fn packed(_: &AutoRepresentation) -> Option<Vec<u8>> {
    None
}

#[cfg(not(feature = "vulkan"))]
fn unpacked(_: &[u8]) -> Option<AutoRepresentation> {
    None
}
