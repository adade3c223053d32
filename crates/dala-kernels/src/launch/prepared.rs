//! Launches that are repeated: what the engine is told each time is put together once.
//!
//! The engine's own launch functions describe the device, the kernel and its arguments anew with every launch, which takes
//! longer than a small kernel itself.

use std::sync::Arc;

use cubecl::InfoBuilder;
use cubecl::client::Client;
use cubecl::prelude::*;
use cubecl::server::{KernelArguments, KernelResource, MetadataBindingInfo};

use crate::device::args::{BufferAt, BufferKey};

/// A kernel that is shared by all launches of it.
#[derive(Clone)]
struct Shared {
    kernel: Arc<dyn CubeKernel>,
    id: KernelId,
}

impl KernelMetadata for Shared {
    fn name(&self) -> &'static str {
        self.kernel.name()
    }

    fn id(&self) -> KernelId {
        self.id.clone()
    }

    fn address_type(&self) -> ElemType {
        self.kernel.address_type()
    }
}

impl CubeKernel for Shared {
    fn define(&self) -> KernelDefinition {
        self.kernel.define()
    }
}

/// A launch, ready to be repeated as it is. It keeps the engine's hold on its buffers.
pub struct Prepared {
    shared: Shared,
    count: (u32, u32, u32),
    resources: Vec<KernelResource>,
    io: Vec<BufferIOAttr>,
    info: Vec<u64>,
    dynamic: usize,
}

impl Prepared {
    /// Queues it once more.
    pub fn launch(&self, client: &Client) {
        let (x, y, z) = self.count;
        let info = MetadataBindingInfo { data: self.info.clone(), dynamic_metadata_offset: self.dynamic };
        let arguments = KernelArguments { resources: self.resources.clone(), declared_io: self.io.clone(), info };
        client.launch(Box::new(self.shared.clone()), CubeCount::Static(x, y, z), arguments);
    }
}

/// The arguments of a launch, in the order of the kernel's own.
#[derive(Default)]
pub(super) struct Arguments {
    resources: Vec<KernelResource>,
    io: Vec<BufferIOAttr>,
    info: InfoBuilder,
}

impl Arguments {
    /// Buffers that are read, or written as well.
    pub(super) fn buffers(&mut self, buffers: Vec<BufferAt>, io: BufferIOAttr) -> Vec<BufferKey> {
        let add = |buffer: BufferAt| {
            let alias = match buffer.arg {
                BufferArg::Handle { handle } => {
                    let binding = handle.handle;
                    let len = binding.size_in_used() / (buffer.elem.size() * buffer.width) as u64;
                    self.info.metadata.register_buffer(len, AddressType::U32);
                    self.resources.push(KernelResource::Buffer(binding));
                    self.io.push(io);
                    None
                }
                BufferArg::Alias { input_pos, .. } => {
                    if let Some(own) = self.io.get_mut(input_pos) {
                        *own = BufferIOAttr::ReadWrite;
                    }
                    Some(input_pos)
                }
            };
            BufferKey { alias, elem: buffer.elem, width: buffer.width }
        };
        buffers.into_iter().map(add).collect()
    }

    /// Scalars whose types are known only now.
    pub(super) fn scalars(&mut self, scalars: Vec<InputScalar>, elems: &[ElemType]) -> Vec<InputScalarCompilationArg> {
        let add = |(scalar, elem): (InputScalar, &ElemType)| {
            self.info.scalars.push_raw(scalar.as_bytes(), *elem);
            InputScalarCompilationArg::new(*elem)
        };
        scalars.into_iter().zip(elems).map(add).collect()
    }

    /// A whole number.
    pub(super) fn number(&mut self, value: u32) {
        self.info.scalars.push(value);
    }

    /// The launch of a kernel with these arguments.
    pub(super) fn prepared(mut self, kernel: impl CubeKernel, count: (u32, u32, u32)) -> Prepared {
        let info = self.info.finish(AddressType::U32);
        let id = kernel.id();
        Prepared {
            shared: Shared { kernel: Arc::new(kernel), id },
            count,
            resources: self.resources,
            io: self.io,
            info: info.data,
            dynamic: info.dynamic_metadata_offset,
        }
    }
}
