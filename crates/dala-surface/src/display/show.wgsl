// A texture, as large as the viewport.

struct Corner {
    @builtin(position) position: vec4<f32>,
    @location(0) place: vec2<f32>,
}

@group(0) @binding(0) var picture: texture_2d<f32>;
@group(0) @binding(1) var picture_sampler: sampler;

@vertex
fn corner(@builtin(vertex_index) index: u32) -> Corner {
    let x = f32((index << 1u) & 2u);
    let y = f32(index & 2u);
    // Textures begin at the top, the screen at the bottom.
    return Corner(vec4<f32>(x * 2.0 - 1.0, 1.0 - y * 2.0, 0.0, 1.0), vec2<f32>(x, y));
}

@fragment
fn pixel(corner: Corner) -> @location(0) vec4<f32> {
    return vec4<f32>(textureSample(picture, picture_sampler, corner.place).rgb, 1.0);
}
