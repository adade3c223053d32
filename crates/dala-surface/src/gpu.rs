//! What drawing on the graphics device has in common.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use dala_compute::interop::wgpu;

use crate::SurfaceError;

/// Runs calls to the graphics device. What it refuses becomes an error here: one that nobody catches would cost the
/// kernels their device.
pub(crate) fn guarded<T>(device: &wgpu::Device, call: impl FnOnce() -> T) -> Result<T, SurfaceError> {
    let memory = device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
    let validation = device.push_error_scope(wgpu::ErrorFilter::Validation);
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call));
    let refused = [at_once(validation.pop()), at_once(memory.pop())];
    if let Some(error) = refused.into_iter().flatten().flatten().next() {
        return Err(SurfaceError::Graphics { message: error.to_string() });
    }
    result.map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        SurfaceError::Graphics { message: text.unwrap_or("a panic without a message").to_owned() }
    })
}

/// What a future has to say now.
fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// A pipeline whose shader draws one triangle over everything.
pub(crate) fn drawing(device: &wgpu::Device, shader: &str, format: wgpu::TextureFormat) -> wgpu::RenderPipeline {
    let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
        label: Some("dala surface"),
        source: wgpu::ShaderSource::Wgsl(shader.into()),
    });
    device.create_render_pipeline(&wgpu::RenderPipelineDescriptor {
        label: Some("dala surface"),
        layout: None,
        vertex: wgpu::VertexState {
            module: &module,
            entry_point: Some("corner"),
            compilation_options: Default::default(),
            buffers: &[],
        },
        primitive: Default::default(),
        depth_stencil: None,
        multisample: Default::default(),
        fragment: Some(wgpu::FragmentState {
            module: &module,
            entry_point: Some("pixel"),
            compilation_options: Default::default(),
            targets: &[Some(format.into())],
        }),
        multiview_mask: None,
        cache: None,
    })
}

/// A part of a target: its left upper corner and its size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Region {
    pub(crate) x: f32,
    pub(crate) y: f32,
    pub(crate) width: f32,
    pub(crate) height: f32,
}

/// Draws over all of a target, or over a part while the rest becomes black.
pub(crate) fn draw(
    encoder: &mut wgpu::CommandEncoder,
    target: &wgpu::TextureView,
    pipeline: &wgpu::RenderPipeline,
    bound: &wgpu::BindGroup,
    part: Option<Region>,
) {
    let mut pass = begin(encoder, target);
    pass.set_pipeline(pipeline);
    pass.set_bind_group(0, bound, &[]);
    if let Some(Region { x, y, width, height }) = part {
        pass.set_viewport(x, y, width, height, 0.0, 1.0);
    }
    pass.draw(0..3, 0..1);
}

/// Makes a target black.
pub(crate) fn clear(encoder: &mut wgpu::CommandEncoder, target: &wgpu::TextureView) {
    drop(begin(encoder, target));
}

fn begin<'a>(encoder: &'a mut wgpu::CommandEncoder, target: &wgpu::TextureView) -> wgpu::RenderPass<'a> {
    encoder.begin_render_pass(&wgpu::RenderPassDescriptor {
        label: Some("dala surface"),
        color_attachments: &[Some(wgpu::RenderPassColorAttachment {
            view: target,
            depth_slice: None,
            resolve_target: None,
            ops: wgpu::Operations { load: wgpu::LoadOp::Clear(wgpu::Color::BLACK), store: wgpu::StoreOp::Store },
        })],
        ..Default::default()
    })
}
