//! What graphics code needs to work beside kernels: the wgpu device that the engine uses, and where buffers are on it.

use cubecl::wgpu::wgpu;

/// The graphics device that kernels run on. Everything in it is shared with the engine.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Graphics {
    /// What made the adapter.
    pub instance: wgpu::Instance,
    /// The adapter.
    pub adapter: wgpu::Adapter,
    /// The device. An error that no error scope catches loses it, for kernels too.
    pub device: wgpu::Device,
    /// Its queue. What is submitted to it is executed before what kernels submit later.
    pub queue: wgpu::Queue,
}

/// A place in a graphics buffer.
#[derive(Debug)]
#[non_exhaustive]
pub struct Place<'a> {
    /// The graphics buffer. It can be copied from and to, and bound as storage. Others share it.
    pub buffer: &'a wgpu::Buffer,
    /// Where in it, in bytes: a multiple of four.
    pub offset: u64,
    /// How many bytes there are, padding included.
    pub bytes: u64,
}
