//! Pictures as textures of the device that kernels run on: a buffer is drawn into one, and nothing leaves the device.

use dala_compute::interop::{Access, Graphics, Place, wgpu};
use dala_compute::{Buffer, DType, Device};

use crate::SurfaceError;
use crate::canvas::check_sides;
use crate::gpu::{drawing, guarded};
use crate::picture::{Layout, Snapshot};

/// Pixels as they are: no colour space is applied to them.
pub(crate) const FORMAT: wgpu::TextureFormat = wgpu::TextureFormat::Rgba8Unorm;

/// What the shader knows of a buffer.
#[repr(C)]
#[derive(Clone, Copy, bytemuck::NoUninit)]
struct Uniform {
    width: u32,
    channels: u32,
    floats: u32,
    start: u32,
}

pub(crate) struct GraphicsCanvas {
    device: Device,
    pub(crate) graphics: Graphics,
    blit: wgpu::RenderPipeline,
    uniform: wgpu::Buffer,
    shown: wgpu::Texture,
    next: wgpu::Texture,
    /// Whether `next` was written since it was shown.
    fresh: bool,
    /// Where pixels of the host arrive, once some came.
    pixels: Option<Buffer>,
    /// Where pixels for the host leave from, once some were asked for.
    readback: Option<Buffer>,
}

impl GraphicsCanvas {
    pub(crate) fn new(
        device: &Device,
        graphics: Graphics,
        width: u32,
        height: u32,
    ) -> Result<GraphicsCanvas, SurfaceError> {
        check_sides(width, height, graphics.device.limits().max_texture_dimension_2d)?;
        let (blit, uniform) = guarded(&graphics.device, || {
            let uniform = graphics.device.create_buffer(&wgpu::BufferDescriptor {
                label: Some("dala picture"),
                size: size_of::<Uniform>() as u64,
                usage: wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
                mapped_at_creation: false,
            });
            (drawing(&graphics.device, include_str!("blit.wgsl"), FORMAT), uniform)
        })?;
        let (shown, next) = (black(&graphics, width, height)?, black(&graphics, width, height)?);
        let device = device.clone();
        Ok(GraphicsCanvas { device, graphics, blit, uniform, shown, next, fresh: false, pixels: None, readback: None })
    }

    pub(crate) fn resize(&mut self, width: u32, height: u32) -> Result<(), SurfaceError> {
        check_sides(width, height, self.graphics.device.limits().max_texture_dimension_2d)?;
        let (shown, next) = (black(&self.graphics, width, height)?, black(&self.graphics, width, height)?);
        (self.shown, self.next, self.fresh) = (shown, next, false);
        (self.pixels, self.readback) = (None, None);
        Ok(())
    }

    pub(crate) fn set_buffer(&mut self, buffer: &Buffer, layout: Layout) -> Result<(), SurfaceError> {
        buffer.use_in_graphics(Access::Read, |place| self.draw(&place, layout))??;
        self.fresh = true;
        Ok(())
    }

    pub(crate) fn set_pixels(&mut self, rgba: &[u8]) -> Result<(), SurfaceError> {
        let (width, height) = (self.next.width(), self.next.height());
        let pixels = kept(&mut self.pixels, &self.device, height, width * 4)?;
        pixels.write_bytes(rgba)?;
        self.set_buffer(&pixels, Layout { width, height, channels: 4, floats: false })
    }

    pub(crate) fn advance(&mut self) {
        if std::mem::take(&mut self.fresh) {
            std::mem::swap(&mut self.shown, &mut self.next);
        }
    }

    pub(crate) fn shown_texture(&self) -> &wgpu::Texture {
        &self.shown
    }

    /// Draws the picture at a place into the next texture.
    fn draw(&self, place: &Place<'_>, layout: Layout) -> Result<(), SurfaceError> {
        let Graphics { device, queue, .. } = &self.graphics;
        let alignment = u64::from(device.limits().min_storage_buffer_offset_alignment);
        let offset = place.offset / alignment * alignment;
        let uniform = Uniform {
            width: layout.width,
            channels: layout.channels,
            floats: layout.floats.into(),
            start: ((place.offset - offset) / 4) as u32,
        };
        // From the boundary before the picture to its end, in whole words.
        let bytes = (place.offset - offset + place.bytes).next_multiple_of(4).min(place.buffer.size() - offset);
        guarded(device, || {
            queue.write_buffer(&self.uniform, 0, bytemuck::bytes_of(&uniform));
            let elements = wgpu::BufferBinding { buffer: place.buffer, offset, size: wgpu::BufferSize::new(bytes) };
            let bound = device.create_bind_group(&wgpu::BindGroupDescriptor {
                label: Some("dala picture"),
                layout: &self.blit.get_bind_group_layout(0),
                entries: &[
                    wgpu::BindGroupEntry { binding: 0, resource: wgpu::BindingResource::Buffer(elements) },
                    wgpu::BindGroupEntry { binding: 1, resource: self.uniform.as_entire_binding() },
                ],
            });
            let mut encoder = device.create_command_encoder(&Default::default());
            let target = self.next.create_view(&Default::default());
            crate::gpu::draw(&mut encoder, &target, &self.blit, &bound, None);
            queue.submit([encoder.finish()]);
        })
    }

    /// Reads the shown texture: this is what leaves the device, and the device counts it.
    pub(crate) fn shown(&mut self) -> Result<Snapshot, SurfaceError> {
        let (width, height) = (self.shown.width(), self.shown.height());
        let stride = (width * 4).next_multiple_of(wgpu::COPY_BYTES_PER_ROW_ALIGNMENT);
        let readback = kept(&mut self.readback, &self.device, height, stride)?;
        let Graphics { device, queue, .. } = &self.graphics;
        readback.use_in_graphics(Access::Write, |place| {
            guarded(device, || {
                let mut encoder = device.create_command_encoder(&Default::default());
                let layout = wgpu::TexelCopyBufferLayout {
                    offset: place.offset,
                    bytes_per_row: Some(stride),
                    rows_per_image: Some(height),
                };
                let to = wgpu::TexelCopyBufferInfo { buffer: place.buffer, layout };
                encoder.copy_texture_to_buffer(self.shown.as_image_copy(), to, self.shown.size());
                queue.submit([encoder.finish()]);
            })
        })??;
        let bytes = readback.read_bytes()?;
        let rows = bytes.chunks_exact(stride as usize);
        let rgba = rows.flat_map(|row| &row[..width as usize * 4]).copied().collect();
        Ok(Snapshot { width, height, rgba })
    }
}

/// Rows of bytes, made when they are first needed.
fn kept(buffer: &mut Option<Buffer>, device: &Device, rows: u32, bytes: u32) -> Result<Buffer, SurfaceError> {
    match buffer {
        Some(buffer) => Ok(buffer.clone()),
        None => Ok(buffer.insert(Buffer::reserve(device, DType::U8, [rows as usize, bytes as usize])?).clone()),
    }
}

/// A texture that is black and opaque.
fn black(graphics: &Graphics, width: u32, height: u32) -> Result<wgpu::Texture, SurfaceError> {
    let Graphics { device, queue, .. } = graphics;
    guarded(device, || {
        let texture = device.create_texture(&wgpu::TextureDescriptor {
            label: Some("dala surface"),
            size: wgpu::Extent3d { width, height, depth_or_array_layers: 1 },
            mip_level_count: 1,
            sample_count: 1,
            dimension: wgpu::TextureDimension::D2,
            format: FORMAT,
            usage: wgpu::TextureUsages::RENDER_ATTACHMENT
                | wgpu::TextureUsages::TEXTURE_BINDING
                | wgpu::TextureUsages::COPY_SRC,
            view_formats: &[],
        });
        let mut encoder = device.create_command_encoder(&Default::default());
        crate::gpu::clear(&mut encoder, &texture.create_view(&Default::default()));
        queue.submit([encoder.finish()]);
        texture
    })
}
