//! The engine's CPU server with its threads and its memory taken away: memory is a name, and a launch is recorded instead of
//! executed.

use std::cell::RefCell;
use std::sync::{Arc, OnceLock};

use cubecl::bytes::Bytes;
use cubecl::device::DeviceId;
use cubecl::prelude::{CubeCount, CubeKernel};
use cubecl::server::{
    BufferBinding, CopyDescriptor, KernelArguments, KernelResource, ProfileError, ProfilingToken, Server,
    ServerCommunication, ServerError, ServerStorage, ServerUtilities,
};
use cubecl_common::device::{DeviceService, ServerUtilitiesHandle};
use cubecl_common::profile::ProfileDuration;
use cubecl_cpu::compute::server::CpuServer;
use cubecl_environment::future::DynFut;
use cubecl_environment::stream::StreamId;
use cubecl_server::config::compilation::F16Evaluation;
use cubecl_server::execution::LaunchMode;
use cubecl_server::logging::ServerLogger;
use cubecl_server::memory_management::{ManagedMemoryHandle, MemoryAllocationMode, StreamMemoryReport};
use cubecl_server::storage::{BytesStorage, ComputeStorage, ManagedResource};

use super::code::{Code, Codes, NotReady, refused};
use super::memory::{Name, bound_name};

/// A launch as it was asked for.
pub(super) struct Taken {
    pub(super) code: Code,
    pub(super) cubes: [u32; 3],
    /// What each of its buffers is called.
    pub(super) buffers: Vec<Name>,
    /// Its numbers, as the code reads them.
    pub(super) numbers: Vec<u64>,
}

thread_local! {
    /// What was recorded last, on the device's thread.
    static TAKEN: RefCell<Option<Result<Taken, NotReady>>> = const { RefCell::new(None) };
}

/// The launch that `describe` makes, if it makes one. Called on the device's thread.
pub(super) fn taken<T>(describe: impl FnOnce() -> T) -> (T, Option<Result<Taken, NotReady>>) {
    TAKEN.take();
    let described = describe();
    (described, TAKEN.take())
}

/// The machine code of this process. A server that is opened again finds what it had.
static CODES: OnceLock<Codes> = OnceLock::new();

/// The machine code that launches are recorded with, once there is a server.
pub(super) fn codes() -> Option<&'static Codes> {
    CODES.get()
}

/// How far 16-bit floats may be computed with as 32-bit ones, as the engine's own server chose it: its name for the device ends with it.
/// To ask the settings that it chose from (`CubeClRuntimeConfig::get`) would compile a reader of TOML into this crate, a fifth of its code.
fn chosen(fingerprint: &str) -> Option<F16Evaluation> {
    [F16Evaluation::PerOperation, F16Evaluation::Chain, F16Evaluation::Accumulators]
        .into_iter()
        .find(|evaluation| fingerprint.ends_with(&format!("-f16_{evaluation}")))
}

/// The engine's server, which knows of no launches.
pub(crate) struct TakingServer {
    inner: CpuServer,
    codes: &'static Codes,
}

impl std::fmt::Debug for TakingServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TakingServer")
    }
}

impl TakingServer {
    fn take(
        &mut self,
        kernel: Box<dyn CubeKernel>,
        count: CubeCount,
        arguments: KernelArguments,
    ) -> Result<Taken, NotReady> {
        let Some(code) = self.codes.known(&kernel.id()) else { return Err(NotReady::Missing(kernel)) };
        let CubeCount::Static(x, y, z) = count else {
            return Err(ServerError::Launch(refused("its number of cubes is known only on the device").into()).into());
        };
        let buffers = arguments.resources.iter().filter_map(|resource| match resource {
            KernelResource::Buffer(binding) => Some(bound_name(binding)),
            KernelResource::TensorMap(_) => None,
        });
        let buffers = buffers.collect();
        Ok(Taken { code, cubes: [x, y, z], buffers, numbers: arguments.info.data })
    }
}

impl DeviceService for TakingServer {
    fn init(id: DeviceId) -> TakingServer {
        let inner = CpuServer::init(id);
        let f16_evaluation = chosen(&Server::utilities(&inner).properties.identity.fingerprint).unwrap_or_default();
        TakingServer { inner, codes: CODES.get_or_init(|| Codes::new(f16_evaluation)) }
    }

    fn utilities(&self) -> ServerUtilitiesHandle {
        DeviceService::utilities(&self.inner)
    }
}

impl ServerCommunication for TakingServer {}

impl ServerStorage for TakingServer {
    type Storage = BytesStorage;

    fn get_resource(
        &mut self,
        binding: BufferBinding,
        stream: StreamId,
    ) -> Result<ManagedResource<<BytesStorage as ComputeStorage>::Resource>, ServerError> {
        self.inner.get_resource(binding, stream)
    }
}

impl Server for TakingServer {
    unsafe fn launch(
        &mut self,
        kernel: Box<dyn CubeKernel>,
        count: CubeCount,
        arguments: KernelArguments,
        _stream: StreamId,
        _mode: LaunchMode,
    ) {
        let taken = match TAKEN.take() {
            None => self.take(kernel, count, arguments),
            // The other one would be lost.
            Some(_) => {
                Err(ServerError::Launch(refused("its function launches more than once in one step").into()).into())
            }
        };
        TAKEN.set(Some(taken));
    }

    fn initialize_memory(
        &mut self,
        memory: ManagedMemoryHandle,
        bytes: u64,
        stream: StreamId,
    ) -> Result<(), ServerError> {
        self.inner.initialize_memory(memory, bytes, stream)
    }

    fn staging(&mut self, sizes: &[usize], stream: StreamId) -> Result<Vec<Bytes>, ServerError> {
        self.inner.staging(sizes, stream)
    }

    fn logger(&self) -> Arc<ServerLogger> {
        self.inner.logger()
    }

    fn utilities(&self) -> Arc<ServerUtilities> {
        Server::utilities(&self.inner)
    }

    fn read(&mut self, descriptors: Vec<CopyDescriptor>, stream: StreamId) -> DynFut<Result<Vec<Bytes>, ServerError>> {
        self.inner.read(descriptors, stream)
    }

    fn write(&mut self, descriptors: Vec<(CopyDescriptor, Bytes)>, stream: StreamId) {
        self.inner.write(descriptors, stream);
    }

    fn sync(&mut self, handles: Vec<BufferBinding>, stream: StreamId) -> DynFut<Result<(), ServerError>> {
        self.inner.sync(handles, stream)
    }

    fn check(&mut self, handles: Vec<BufferBinding>, stream: StreamId) -> Result<(), ServerError> {
        self.inner.check(handles, stream)
    }

    fn flush(&mut self, stream: StreamId) -> Result<(), ServerError> {
        self.inner.flush(stream)
    }

    fn memory_report(&mut self, stream: StreamId) -> Option<StreamMemoryReport> {
        self.inner.memory_report(stream)
    }

    fn stream_ids(&self) -> Vec<StreamId> {
        self.inner.stream_ids()
    }

    fn memory_cleanup(&mut self, stream: StreamId) -> Result<(), ServerError> {
        self.inner.memory_cleanup(stream)
    }

    fn start_profile(&mut self, stream: StreamId) -> Result<ProfilingToken, ServerError> {
        self.inner.start_profile(stream)
    }

    fn end_profile(&mut self, stream: StreamId, token: ProfilingToken) -> Result<ProfileDuration, ProfileError> {
        self.inner.end_profile(stream, token)
    }

    fn abandon_profile(&mut self, stream: StreamId, token: ProfilingToken) {
        self.inner.abandon_profile(stream, token);
    }

    fn allocation_mode(&mut self, mode: MemoryAllocationMode, stream: StreamId) {
        self.inner.allocation_mode(mode, stream);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cubecl_cpu::host_device_fingerprint;

    #[test]
    fn what_the_engine_chose_is_read_in_its_name_for_the_device() {
        for evaluation in [F16Evaluation::PerOperation, F16Evaluation::Chain, F16Evaluation::Accumulators] {
            assert_eq!(chosen(&host_device_fingerprint(evaluation)), Some(evaluation));
        }
        assert_eq!(chosen("x86_64-zen"), None);
    }
}
