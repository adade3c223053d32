//! A window that the device itself draws in.

use dala_compute::interop::{Graphics, wgpu};

use super::fitted;
use super::window::Window;
use crate::SurfaceError;
use crate::canvas::graphics::GraphicsCanvas;
use crate::gpu::{Region, draw, drawing, guarded};

pub(crate) struct Swapchain {
    surface: wgpu::Surface<'static>,
    config: wgpu::SurfaceConfiguration,
    pipeline: wgpu::RenderPipeline,
    /// For pictures that are as large as the window, and for others.
    samplers: [wgpu::Sampler; 2],
    configured: bool,
}

impl Swapchain {
    /// None if this device draws in no window.
    pub(crate) fn new(graphics: &Graphics, window: &Window) -> Result<Option<Swapchain>, SurfaceError> {
        let Graphics { instance, adapter, device, .. } = graphics;
        let created = guarded(device, || instance.create_surface(window.handle()))?;
        let Ok(surface) = created else { return Ok(None) };
        let (width, height) = window.size();
        let found = guarded(device, || {
            (surface.get_capabilities(adapter), surface.get_default_config(adapter, width, height))
        })?;
        let (capabilities, Some(mut config)) = found else { return Ok(None) };
        // Pixels as they are: a format with a colour space of its own would change them.
        let Some(format) = capabilities.formats.iter().copied().find(|format| !format.is_srgb()) else {
            return Ok(None);
        };
        config.format = format;
        config.present_mode = wgpu::PresentMode::AutoVsync;
        guarded(device, || {
            let sampler = |filter| {
                let descriptor =
                    wgpu::SamplerDescriptor { mag_filter: filter, min_filter: filter, ..Default::default() };
                device.create_sampler(&descriptor)
            };
            let samplers = [sampler(wgpu::FilterMode::Nearest), sampler(wgpu::FilterMode::Linear)];
            let pipeline = drawing(device, include_str!("show.wgsl"), config.format);
            Some(Swapchain { surface, config, pipeline, samplers, configured: false })
        })
    }

    pub(crate) fn show(&mut self, canvas: &GraphicsCanvas, window: &Window) -> Result<(), SurfaceError> {
        let Graphics { device, queue, .. } = &canvas.graphics;
        let size = window.size();
        if size.0 == 0 || size.1 == 0 {
            // Minimised: there is nothing to draw on.
            return Ok(());
        }
        // A window that is being resized may change between configuring and drawing.
        for _ in 0..3 {
            if !self.configured || (self.config.width, self.config.height) != size {
                (self.config.width, self.config.height) = size;
                guarded(device, || self.surface.configure(device, &self.config))?;
                self.configured = true;
            }
            let frame = match guarded(device, || self.surface.get_current_texture())? {
                wgpu::CurrentSurfaceTexture::Success(frame) => frame,
                wgpu::CurrentSurfaceTexture::Suboptimal(frame) => {
                    self.configured = false;
                    frame
                }
                wgpu::CurrentSurfaceTexture::Outdated => {
                    self.configured = false;
                    continue;
                }
                // Nobody sees it, or the screen is busy: the next one will be shown.
                wgpu::CurrentSurfaceTexture::Occluded | wgpu::CurrentSurfaceTexture::Timeout => return Ok(()),
                wgpu::CurrentSurfaceTexture::Lost => {
                    return Err(if window.is_closed() {
                        SurfaceError::Closed
                    } else {
                        SurfaceError::Graphics { message: "the window was lost".to_owned() }
                    });
                }
                wgpu::CurrentSurfaceTexture::Validation => {
                    return Err(SurfaceError::Graphics { message: "the window gives no frame".to_owned() });
                }
            };
            return guarded(device, || {
                let picture = canvas.shown_texture();
                let (left, top, width, height) = fitted((picture.width(), picture.height()), size);
                let scaled = (width, height) != (picture.width(), picture.height());
                let bound = device.create_bind_group(&wgpu::BindGroupDescriptor {
                    label: Some("dala window"),
                    layout: &self.pipeline.get_bind_group_layout(0),
                    entries: &[
                        wgpu::BindGroupEntry {
                            binding: 0,
                            resource: wgpu::BindingResource::TextureView(&picture.create_view(&Default::default())),
                        },
                        wgpu::BindGroupEntry {
                            binding: 1,
                            resource: wgpu::BindingResource::Sampler(&self.samplers[usize::from(scaled)]),
                        },
                    ],
                });
                let part = Region { x: left as f32, y: top as f32, width: width as f32, height: height as f32 };
                let mut encoder = device.create_command_encoder(&Default::default());
                let target = frame.texture.create_view(&Default::default());
                draw(&mut encoder, &target, &self.pipeline, &bound, Some(part));
                queue.submit([encoder.finish()]);
                queue.present(frame);
            });
        }
        // It is still being resized: the next picture will fit.
        Ok(())
    }
}
