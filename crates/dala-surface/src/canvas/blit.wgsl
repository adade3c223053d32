// A buffer's elements become the pixels of a texture.

struct Layout {
    width: u32,
    channels: u32,
    // Whether elements are floats from 0 to 1; otherwise they are bytes, four to a word.
    floats: u32,
    // The first word of the picture.
    start: u32,
}

@group(0) @binding(0) var<storage, read> words: array<u32>;
@group(0) @binding(1) var<uniform> picture: Layout;

// One triangle that covers everything.
@vertex
fn corner(@builtin(vertex_index) index: u32) -> @builtin(position) vec4<f32> {
    let x = f32((index << 1u) & 2u);
    let y = f32(index & 2u);
    return vec4<f32>(x * 2.0 - 1.0, y * 2.0 - 1.0, 0.0, 1.0);
}

fn level(element: u32) -> f32 {
    if picture.floats != 0u {
        let value = bitcast<f32>(words[picture.start + element]);
        // NaN is not above 0. Rounded here: how a texture rounds is the driver's choice.
        return round(min(select(0.0, value, value > 0.0), 1.0) * 255.0) / 255.0;
    }
    let word = words[picture.start + element / 4u];
    return f32((word >> (8u * (element % 4u))) & 255u) / 255.0;
}

@fragment
fn pixel(@builtin(position) at: vec4<f32>) -> @location(0) vec4<f32> {
    let place = vec2<u32>(at.xy);
    let first = (place.y * picture.width + place.x) * picture.channels;
    let red = level(first);
    if picture.channels == 1u {
        return vec4<f32>(red, red, red, 1.0);
    }
    let green = level(first + 1u);
    let blue = level(first + 2u);
    if picture.channels == 3u {
        return vec4<f32>(red, green, blue, 1.0);
    }
    return vec4<f32>(red, green, blue, level(first + 3u));
}
