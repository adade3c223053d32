//! Pipelines that are wrong, and what is said about them: everything at once, stage by stage.
//!
//! A row is what is wrong, the pipeline, the users' buffers, and the messages.

use dala_kernels::Registry;
use dala_spec::DeviceFacts;

use super::{cpu, gpu, pipeline};

type Row = (&'static str, &'static str, &'static str, &'static [&'static str]);

fn check(facts: &DeviceFacts, rows: &[Row]) {
    let mut wrong = Vec::new();
    for (name, text, buffers, expected) in rows {
        let found = match dala_kernels::compile(&pipeline(text, buffers), &Registry::built_in(), facts, true) {
            Ok(_) => vec!["nothing is wrong".to_owned()],
            Err(problems) => problems.iter().map(|found| format!("stage {}: {}", found.stage, found.error)).collect(),
        };
        if found != *expected {
            wrong.push(format!("{name}: {text}\n{found:#?}\nexpected {expected:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Kernels that do not exist.
#[test]
fn kernels() {
    check(
        &cpu(),
        &[
            ("a misspelt kernel", "blurr", "input u8 6x8x4, output u8 6x8x4", &[]),
            ("letters in another order", "rleu", "input f32 100, output f32 100", &[]),
            ("a kernel that is spelt with a capital letter", "Blur", "input u8 6x8x4, output u8 6x8x4", &[]),
            ("a misspelt alias", "gausian_blur(radius=3)", "input u8 6x8x4, output u8 6x8x4", &[]),
            ("nothing is close", "mobilenet_v2", "input f32 100, output f32 100", &[]),
            ("too short to be a misspelling", "ad", "input f32 100, output f32 100", &[]),
            ("two unknown kernels", "blur | sharpn | treshold", "input u8 6x8x4, output u8 6x8x4", &[]),
        ],
    );
}

/// Too many inputs, or too few.
#[test]
fn arity() {
    check(
        &cpu(),
        &[
            ("one of two", "elementwise_add", "input f32 100, output f32 100", &[]),
            (
                "two of one",
                "stage = [{ kernel = 'relu', inputs = ['a', 'b'], output = 'output' }]",
                "a f32 4, b f32 4, output f32 4",
                &[],
            ),
            ("none of one", "stage = [{ kernel = 'blur', output = 'output' }]", "input u8 6x8x4, output u8 6x8x4", &[]),
            (
                "three of two",
                "stage = [{ kernel = 'matmul', inputs = ['a', 'a', 'a'], output = 'output' }]",
                "a f32 4x4, output f32 4x4",
                &[],
            ),
            ("one of none", "fill(value=3)", "input f32 100, output f32 100", &[]),
            (
                "two of three",
                "stage = [{ kernel = 'dense', inputs = ['x', 'weight'], output = 'output' }]",
                "x f32 2x4, weight f32 4x3, output f32 2x3",
                &[],
            ),
            ("none of several", "stage = [{ kernel = 'concat', output = 'output' }]", "output f32 4", &[]),
            (
                "more than any number",
                "stage = [{ kernel = 'concat', inputs = ['x', 'x', 'x', 'x', 'x', 'x', 'x', 'x', 'x', 'x', 'x', 'x', 'x', 'x', 'x', 'x', 'x', 'x', 'x', 'x'], output = 'output' }]",
                "x f32 4, output f32 80",
                &[],
            ),
        ],
    );
}

/// Element types that do not fit.
#[test]
fn types() {
    check(
        &cpu(),
        &[
            ("integers where floats are needed", "exp", "input s32 100, output s32 100", &[]),
            ("a picture of integers", "blur(radius=2)", "input s32 6x8x4, output s32 6x8x4", &[]),
            ("softmax of bytes", "softmax", "input u8 4x10, output u8 4x10", &[]),
            (
                "bytes and floats",
                "stage = [{ kernel = 'elementwise_add', inputs = ['a', 'b'], output = 'output' }]",
                "a u8 100, b f32 100, output u8 100",
                &[],
            ),
            (
                "floats and bytes",
                "stage = [{ kernel = 'overlay_alpha', inputs = ['base', 'overlay'], output = 'output' }]",
                "base f32 4x4x4, overlay u8 4x4x4, output f32 4x4x4",
                &[],
            ),
            ("an output of another type", "relu", "input f32 100, output u8 100", &[]),
            ("an output of a type that the kernel never gives", "histogram", "input u8 6x8, output f32 256", &[]),
            ("network input in bytes", "preprocess", "input u8 6x8x3, output u8 1x3x4x4", &[]),
            ("positions that are floats", "argmax(axes=1)", "input f32 4x10, output f32 4", &[]),
            ("a sum in bytes", "reduce_sum", "input u8 4x10, output u8", &[]),
            ("a mean in integers", "reduce_mean", "input s32 4x10, output s32", &[]),
            ("a maximum of another type", "reduce_max", "input u8 4x10, output f32", &[]),
            (
                "two kinds of floats",
                "stage = [{ kernel = 'matmul', inputs = ['a', 'b'], output = 'output' }]",
                "a f32 4x4, b f64 4x4, output f32 4x4",
                &[],
            ),
            (
                "every argument of another type",
                "stage = [{ kernel = 'dense', inputs = ['x', 'weight', 'bias'], output = 'output' }]",
                "x f32 2x4, weight f64 4x3, bias u8 3, output f64 2x3",
                &[],
            ),
            (
                "a table of floats for bytes",
                "stage = [{ kernel = 'lut', inputs = ['input', 'table'], output = 'output' }]",
                "input u8 6x8x4, table f32 256, output u8 6x8x4",
                &[],
            ),
            (
                "the wrong type throughout",
                "stage = [{ kernel = 'sqrt', input = 'a', output = 'b' }]",
                "a u8 4, b u8 4",
                &[],
            ),
        ],
    );
}

/// Shapes that do not fit one another.
#[test]
fn shapes() {
    check(
        &cpu(),
        &[
            (
                "inputs of two lengths",
                "stage = [{ kernel = 'elementwise_add', inputs = ['a', 'b'], output = 'output' }]",
                "a f32 4x5, b f32 5x4, output f32 4x5",
                &[],
            ),
            (
                "a row is not repeated",
                "stage = [{ kernel = 'elementwise_mul', inputs = ['a', 'row'], output = 'output' }]",
                "a f32 4x5, row f32 5, output f32 4x5",
                &[],
            ),
            ("an output of another length", "relu", "input f32 100, output f32 99", &[]),
            ("an output of another shape", "relu", "input f32 4x25, output f32 25x4", &[]),
            (
                "everything differs",
                "stage = [{ kernel = 'elementwise_max', inputs = ['a', 'b'], output = 'output' }]",
                "a f32 4, b f32 5, output f32 6",
                &[],
            ),
            ("a line is no picture", "blur", "input u8 100, output u8 100", &[]),
            ("pictures have one batch", "sharpen", "input u8 1x6x8x4, output u8 1x6x8x4", &[]),
            ("two channels", "box_blur", "input u8 6x8x2, output u8 6x8x2", &[]),
            ("a filter keeps the size", "sobel", "input u8 6x8x4, output u8 6x8", &[]),
            ("resized to other channels", "resize", "input u8 6x8x4, output u8 3x4x3", &[]),
            ("resized to no picture", "resize", "input u8 6x8, output u8 24", &[]),
            ("resized from nothing", "resize", "input u8 0x8x4, output u8 3x4x4", &[]),
            ("grey in three channels", "grayscale", "input u8 6x8x4, output u8 6x8x3", &[]),
            (
                "a lookup table of other columns",
                "stage = [{ kernel = 'lut', inputs = ['input', 'table'], output = 'output' }]",
                "input u8 6x8x4, table u8 256x3, output u8 6x8x4",
                &[],
            ),
            (
                "an empty lookup table",
                "stage = [{ kernel = 'lut', inputs = ['input', 'table'], output = 'output' }]",
                "input u8 6x8x4, table u8 0, output u8 6x8x4",
                &[],
            ),
            (
                "an overlay without alpha",
                "stage = [{ kernel = 'overlay_alpha', inputs = ['base', 'overlay'], output = 'output' }]",
                "base u8 6x8x4, overlay u8 6x8x3, output u8 6x8x4",
                &[],
            ),
            (
                "an overlay on grey",
                "stage = [{ kernel = 'overlay_alpha', inputs = ['base', 'overlay'], output = 'output' }]",
                "base u8 6x8, overlay u8 6x8x4, output u8 6x8",
                &[],
            ),
            ("a crop that is larger", "crop", "input u8 6x8x4, output u8 7x8x4", &[]),
            (
                "a gradient of one dimension",
                "stage = [{ kernel = 'generate_gradient', output = 'output' }]",
                "output u8 16",
                &[],
            ),
            (
                "a gradient of five channels",
                "stage = [{ kernel = 'generate_gradient', output = 'output' }]",
                "output u8 4x4x5",
                &[],
            ),
            ("channels neither first nor last", "preprocess", "input u8 6x8x3, output f32 4x3x4", &[]),
            (
                "another size than the param says",
                "preprocess(size=[224, 224])",
                "input u8 6x8x3, output f32 1x3x4x4",
                &[],
            ),
            (
                "a crop of more than there is",
                "preprocess(fit=crop, resize=4)",
                "input u8 6x8x3, output f32 1x3x5x5",
                &[],
            ),
            ("a sum over an axis that the output keeps", "reduce_sum(axes=1)", "input f32 4x10, output f32 4x10", &[]),
            ("the largest of none", "reduce_max(axes=1)", "input f32 4x0, output f32 4", &[]),
            ("a histogram without bins", "histogram", "input u8 6x8, output u32 0", &[]),
            ("a histogram of pairs", "histogram", "input u8 6x8, output u32 16x16", &[]),
            ("other numbers of elements", "reshape", "input f32 4x5, output f32 3x7", &[]),
            ("transposed to the same shape", "transpose", "input f32 4x5, output f32 4x5", &[]),
            ("a slice that is too long", "slice(start=[1, 0], step=[2, 1])", "input f32 8x4, output f32 5x4", &[]),
            ("a slice of fewer dimensions", "slice", "input f32 8x4, output f32 4", &[]),
            (
                "buffers that do not fit side by side",
                "stage = [{ kernel = 'concat', inputs = ['a', 'b', 'c'], output = 'output', params = { axis = 1 } }]",
                "a f32 4x2, b f32 4x3, c f32 5x1, output f32 4x6",
                &[],
            ),
            (
                "too short for all",
                "stage = [{ kernel = 'concat', inputs = ['a', 'b'], output = 'output' }]",
                "a f32 4, b f32 4, output f32 7",
                &[],
            ),
            (
                "matrices that do not fit",
                "stage = [{ kernel = 'matmul', inputs = ['a', 'b'], output = 'output' }]",
                "a f32 3x8, b f32 5x8, output f32 3x5",
                &[],
            ),
            (
                "transposed matrices that do not fit",
                "stage = [{ kernel = 'matmul', inputs = ['a', 'b'], output = 'output', params = { transpose_b = true } }]",
                "a f32 3x8, b f32 8x5, output f32 3x5",
                &[],
            ),
            (
                "a vector is no matrix",
                "stage = [{ kernel = 'matmul', inputs = ['a', 'b'], output = 'output' }]",
                "a f32 8, b f32 8x5, output f32 5",
                &[],
            ),
            (
                "batches of two sizes",
                "stage = [{ kernel = 'matmul', inputs = ['a', 'b'], output = 'output' }]",
                "a f32 2x3x8, b f32 4x8x5, output f32 2x3x5",
                &[],
            ),
            (
                "a product of another size",
                "stage = [{ kernel = 'matmul', inputs = ['a', 'b'], output = 'output' }]",
                "a f32 3x8, b f32 8x5, output f32 5x3",
                &[],
            ),
            (
                "a weight that is no matrix",
                "stage = [{ kernel = 'dense', inputs = ['x', 'weight', 'bias'], output = 'output' }]",
                "x f32 2x4, weight f32 12, bias f32 3, output f32 2x3",
                &[],
            ),
            (
                "a weight of another size",
                "stage = [{ kernel = 'dense', inputs = ['x', 'weight', 'bias'], output = 'output' }]",
                "x f32 2x4, weight f32 5x3, bias f32 3, output f32 2x3",
                &[],
            ),
            (
                "a bias of another size",
                "stage = [{ kernel = 'dense', inputs = ['x', 'weight', 'bias'], output = 'output' }]",
                "x f32 2x4, weight f32 4x3, bias f32 4, output f32 2x3",
                &[],
            ),
            (
                "a scale of another size",
                "stage = [{ kernel = 'layer_norm', inputs = ['x', 'scale', 'bias'], output = 'output' }]",
                "x f32 2x4, scale f32 2, bias f32 4, output f32 2x4",
                &[],
            ),
        ],
    );
}

/// Params that are missing, unknown, of the wrong type or out of range.
#[test]
fn params() {
    check(
        &cpu(),
        &[
            ("missing", "scalar_add", "input f32 100, output f32 100", &[]),
            ("misspelt", "blur(raduis=3)", "input u8 6x8x4, output u8 6x8x4", &[]),
            ("misspelt, so that another is missing", "scale(scaler=2)", "input f32 100, output f32 100", &[]),
            ("not close to any", "blur(speed=3)", "input u8 6x8x4, output u8 6x8x4", &[]),
            ("of a kernel that has none", "abs(epsilon=3)", "input f32 100, output f32 100", &[]),
            ("two that are unknown", "sharpen(strength=1, edges=zero)", "input u8 6x8x4, output u8 6x8x4", &[]),
            ("a fraction where a whole number is needed", "blur(radius=2.5)", "input u8 6x8x4, output u8 6x8x4", &[]),
            ("a flag where a number is needed", "relu(slope=true)", "input f32 100, output f32 100", &[]),
            ("a number where a flag is needed", "reduce_sum(keep_dims=1)", "input f32 4, output f32", &[]),
            ("a word that is none of the words", "blur(border=mirror)", "input u8 6x8x4, output u8 6x8x4", &[]),
            ("a number where a word is needed", "flip(direction=1)", "input u8 6x8x4, output u8 6x8x4", &[]),
            ("fractions where axes are needed", "reduce_sum(axes=[0.5])", "input f32 4, output f32", &[]),
            ("one number where a list is needed", "preprocess(mean=0.5)", "input u8 6x8x3, output f32 1x3x4x4", &[]),
            ("a list where a number is needed", "clamp(max=[1, 2])", "input f32 100, output f32 100", &[]),
            ("negative", "blur(radius=-1)", "input u8 6x8x4, output u8 6x8x4", &[]),
            ("too large", "box_blur(radius=100000)", "input u8 6x8x4, output u8 6x8x4", &[]),
            ("larger than a table holds", "blur(radius=60000)", "input u8 20000x64, output u8 20000x64", &[]),
            (
                "more than opaque",
                "stage = [{ kernel = 'overlay_alpha', inputs = ['a', 'b'], output = 'output', params = { opacity = 1.5 } }]",
                "a u8 4x4x4, b u8 4x4x4, output u8 4x4x4",
                &[],
            ),
            ("not a number", "sharpen(amount=nan)", "input u8 6x8x4, output u8 6x8x4", &[]),
            ("infinite", "layer_norm(epsilon=inf)", "input f32 100, output f32 100", &[]),
            ("an axis that is not there", "reduce_sum(axes=2)", "input f32 4x5, output f32 4", &[]),
            ("one of two axes that is not there", "reduce_mean(axes=[0, -3])", "input f32 4x5, output f32 4", &[]),
            ("an axis of a softmax", "softmax(axis=-3)", "input f32 4x5, output f32 4x5", &[]),
            ("an axis of one number", "softmax", "input f32, output f32", &[]),
            (
                "an axis to join along",
                "stage = [{ kernel = 'concat', inputs = ['a', 'a'], output = 'output', params = { axis = 1 } }]",
                "a f32 4, output f32 8",
                &[],
            ),
            ("an axis twice", "transpose(axes=[0, 0])", "input f32 4x5, output f32 4x5", &[]),
            ("too few axes", "transpose(axes=[1, 0])", "input f32 4x5x6, output f32 5x4x6", &[]),
            ("a crop that starts too low", "crop(top=4)", "input u8 6x8x4, output u8 3x8x4", &[]),
            ("a slice that starts behind the end", "slice(start=9)", "input f32 8, output f32 0", &[]),
            ("a slice that goes nowhere", "slice(step=0)", "input f32 8, output f32 8", &[]),
            ("a slice with one start for two axes", "slice(start=1)", "input f32 8x8, output f32 4x4", &[]),
            ("a histogram that ends before it starts", "histogram(min=5, max=2)", "input u8 6x8, output u32 16", &[]),
            ("two means for three channels", "preprocess(mean=[0.5, 0.5])", "input u8 6x8x3, output f32 1x3x4x4", &[]),
            ("divided by zero", "preprocess(std=[1, 0, 1])", "input u8 6x8x3, output f32 1x3x4x4", &[]),
            ("a size of three numbers", "preprocess(size=[1, 2, 3])", "input u8 6x8x3, output f32 1x3x4x4", &[]),
            ("a negative size", "preprocess(size=[-4, 4])", "input u8 6x8x3, output f32 1x3x4x4", &[]),
            (
                "a whole number that the type does not hold",
                "scalar_add(scalar=3000000000)",
                "input s32 100, output s32 100",
                &[],
            ),
            (
                "a fill that the type does not hold",
                "stage = [{ kernel = 'fill', output = 'output', params = { value = -1 } }]",
                "output u32 4",
                &[],
            ),
            (
                "a byte that is too large",
                "stage = [{ kernel = 'fill', output = 'output', params = { value = 256 } }]",
                "output u8 4",
                &[],
            ),
        ],
    );
}

/// Buffers that live only inside the pipeline.
#[test]
fn transients() {
    check(
        &cpu(),
        &[
            (
                "read before anything is written",
                "stage = [{ kernel = 'relu', input = 'nothing', output = 'output' }]",
                "input f32 100, output f32 100",
                &[],
            ),
            (
                "both inputs are never written",
                "stage = [{ kernel = 'elementwise_add', inputs = ['a', 'b'], output = 'output' }]",
                "input f32 100, output f32 100",
                &[],
            ),
            (
                "one input twice",
                "stage = [{ kernel = 'elementwise_add', inputs = ['a', 'a'], output = 'output' }]",
                "input f32 100, output f32 100",
                &[],
            ),
            (
                "the second of two inputs",
                "stage = [{ kernel = 'elementwise_add', inputs = ['input', 'b'], output = 'output' }]",
                "input f32 100, output f32 100",
                &[],
            ),
            (
                "written too late",
                "stage = [{ kernel = 'relu', input = 't', output = 'output' }, { kernel = 'abs', input = 'input', output = 't' }]",
                "input f32 100, output f32 100",
                &[],
            ),
            (
                "read and written by the same stage",
                "stage = [{ kernel = 'relu', input = 't', output = 't' }, { kernel = 'relu', input = 't', output = 'output' }]",
                "input f32 100, output f32 100",
                &[],
            ),
            ("a copy of nothing", "stage = [{ copy = 't', to = 'output' }]", "input f32 100, output f32 100", &[]),
            (
                "declared, but not written",
                "stage = [{ kernel = 'relu', input = 't', output = 'output' }]\nbuffers.t = { dtype = 'f32', shape = [100] }",
                "input f32 100, output f32 100",
                &[],
            ),
            (
                "a conversion to what",
                "stage = [{ kernel = 'cast', input = 'input', output = 't' }, { kernel = 'relu', input = 't', output = 'output' }]",
                "input u8 4, output f32 4",
                &[],
            ),
            ("a sum of bytes in what", "reduce_sum(axes=1) | relu", "input u8 4x10, output f32 4", &[]),
            ("positions in what", "argmax(axes=1) | cast", "input f32 4x10, output f32 4", &[]),
            (
                "a fill of what, and how many",
                "stage = [{ kernel = 'fill', output = 't' }, { kernel = 'relu', input = 't', output = 'output' }]",
                "input f32 100, output f32 100",
                &[],
            ),
            ("a gradient of which size", "grayscale", "output u8 4x4", &[]),
            ("resized to which size", "resize | grayscale", "input u8 6x8x4, output u8 6x8x4", &[]),
            ("cropped to which size", "crop(top=1) | flip", "input u8 6x8x4, output u8 6x8x4", &[]),
            ("reshaped to which shape", "reshape | relu", "input f32 100, output f32 100", &[]),
            ("how many bins", "histogram | cast", "input u8 6x8, output f32 256", &[]),
            ("which network input", "preprocess(size=[4, 4]) | relu", "input u8 6x8x3, output f32 1x3x4x4", &[]),
            (
                "the shape is known but not the type",
                "stage = [{ kernel = 'fill', output = 't' }, { kernel = 'relu', input = 't', output = 'output' }]\nbuffers.t.shape = [100]",
                "input f32 100, output f32 100",
                &[],
            ),
            (
                "the type is known but not the shape",
                "stage = [{ kernel = 'generate_gradient', output = 't' }, { kernel = 'grayscale', input = 't', output = 'output' }]\nbuffers.t.dtype = 'u8'",
                "output u8 4x4",
                &[],
            ),
            (
                "declared as another type",
                "stage = [{ kernel = 'blur', input = 'input', output = 't' }, { kernel = 'grayscale', input = 't', output = 'output' }]\nbuffers.t.dtype = 'f32'",
                "input u8 6x8x4, output u8 6x8",
                &[],
            ),
            (
                "declared with another shape",
                "stage = [{ kernel = 'blur', input = 'input', output = 't' }, { kernel = 'grayscale', input = 't', output = 'output' }]\nbuffers.t.shape = [6, 8, 3]",
                "input u8 6x8x4, output u8 6x8",
                &[],
            ),
            (
                "declared with too few elements",
                "stage = [{ kernel = 'relu', input = 'input', output = 't' }, { kernel = 'abs', input = 't', output = 'output' }]\nbuffers.t.shape = [99]",
                "input f32 100, output f32 100",
                &[],
            ),
            (
                "written once more as something else",
                "stage = [{ kernel = 'relu', input = 'input', output = 't' }, { kernel = 'histogram', input = 'photo', output = 't' }, { kernel = 'abs', input = 't', output = 'output' }]",
                "input f32 100, output f32 100, photo u8 4x4",
                &[],
            ),
            (
                "its type does not suit the next stage",
                "stage = [{ kernel = 'histogram', input = 'input', output = 't' }, { kernel = 'softmax', input = 't', output = 'output' }]\nbuffers.t.shape = [16]",
                "input u8 6x8, output f32 16",
                &[],
            ),
            ("its shape does not suit the next stage", "grayscale | sharpen", "input u8 6x8x4, output u8 6x8x4", &[]),
        ],
    );
}

/// Copies between buffers of two sizes.
#[test]
fn copies() {
    check(
        &cpu(),
        &[
            ("shorter", "stage = [{ copy = 'input', to = 'output' }]", "input f32 100, output f32 99", &[]),
            ("of a wider type", "stage = [{ copy = 'input', to = 'output' }]", "input u8 100, output f32 100", &[]),
            (
                "into a declared transient",
                "stage = [{ copy = 'input', to = 't' }, { copy = 't', to = 'output' }]\nbuffers.t = { dtype = 'u8', shape = [10] }",
                "input f32 100, output f32 100",
                &[],
            ),
            (
                "out of a computed transient",
                "stage = [{ kernel = 'grayscale', input = 'input', output = 't' }, { copy = 't', to = 'output' }]",
                "input u8 6x8x4, output u8 6x8x4",
                &[],
            ),
            ("of a kernel that copies", "copy", "input f32 4x5, output f32 20", &[]),
        ],
    );
}

/// Every problem is said once, in order; what follows from one is not.
#[test]
fn several() {
    check(
        &cpu(),
        &[
            (
                "in one stage",
                "stage = [{ kernel = 'overlay_alpha', inputs = ['a', 'b'], output = 'output', params = { opacity = 2, mode = 'add' } }]",
                "a u8 4x4x4, b f32 4x4x4, output u8 4x4x4",
                &[],
            ),
            (
                "a type, a shape and a param",
                "stage = [{ kernel = 'elementwise_add', inputs = ['a', 'b'], output = 'output', params = { factor = 2 } }]",
                "a u8 4, b f32 5, output u8 4",
                &[],
            ),
            (
                "in two stages",
                "blur(radius=-1) | sharpen(amuont=0.5) | grayscale",
                "input u8 6x8x4, output u8 6x8",
                &[],
            ),
            (
                "nobody knows what an unknown kernel gives",
                "blur | sharpn | relu | sqrt",
                "input u8 6x8x4, output u8 6x8x4",
                &[],
            ),
            (
                "but params are checked",
                "sharpn | blur(radius=-1) | sharpen(amount=much)",
                "input u8 6x8x4, output u8 6x8x4",
                &[],
            ),
            (
                "and what is beside it",
                "stage = [{ kernel = 'nothing', input = 'input', output = 'a' }, { kernel = 'exp', input = 'input', output = 'b' }, { kernel = 'elementwise_add', inputs = ['a', 'b'], output = 'c' }, { kernel = 'relu', input = 'c', output = 'output' }, { copy = 'output', to = 'input' }]",
                "input s32 100, output s32 99",
                &[],
            ),
            (
                "a stage whose output is known goes on",
                "stage = [{ kernel = 'relu', input = 'input', output = 'output', params = { slop = 1 } }, { kernel = 'softmax', input = 'output', output = 'output', params = { axis = 5 } }]",
                "input f32 100, output f32 100",
                &[],
            ),
            (
                "what is missing and what is wrong",
                "stage = [{ kernel = 'elementwise_add', inputs = ['input', 't'], output = 'a', params = { x = 1 } }, { kernel = 'exp', input = 'a', output = 'b' }, { kernel = 'fill', output = 'c' }, { kernel = 'scalar_add', input = 'input', output = 'output' }]",
                "input f32 100, output f32 100",
                &[],
            ),
            (
                "a transient is written again",
                "stage = [{ kernel = 'nothing', input = 'input', output = 't' }, { kernel = 'abs', input = 'input', output = 't' }, { kernel = 'exp', input = 't', output = 'output' }]",
                "input s32 100, output s32 100",
                &[],
            ),
            (
                "wrong before and after a barrier",
                "stage = [{ kernel = 'relu', input = 'input', output = 't', params = { slope = 'steep' } }, { barrier = true }, { kernel = 'relu', input = 't', output = 'output' }, { kernel = 'blur', input = 'input', output = 'output' }]",
                "input f32 100, output f32 100",
                &[],
            ),
            (
                "every stage",
                "scalar_add | scalar_mul(x=1) | relu(slope=true) | clamp(min=low)",
                "input f32 100, output f32 100",
                &[],
            ),
        ],
    );
}

/// What the device does not compute.
#[test]
fn devices() {
    check(
        &gpu(),
        &[
            ("doubles", "relu", "input f64 100, output f64 100", &[]),
            ("long integers", "abs", "input s64 100, output s64 100", &[]),
            (
                "a product of doubles",
                "stage = [{ kernel = 'matmul', inputs = ['a', 'b'], output = 'output' }]",
                "a f64 4x4, b f64 4x4, output f64 4x4",
                &[],
            ),
            ("a sum in long integers", "reduce_sum", "input u8 4x10, output s64", &[]),
            ("positions in long integers", "argmax(axes=1)", "input f32 4x10, output s64 4", &[]),
            (
                "a transient of doubles",
                "stage = [{ kernel = 'cast', input = 'input', output = 't' }, { kernel = 'exp', input = 't', output = 'u' }, { kernel = 'cast', input = 'u', output = 'output' }]\nbuffers.t.dtype = 'f64'",
                "input f32 100, output f32 100",
                &[],
            ),
            ("in every stage", "relu | reduce_sum | sqrt", "input f64 4x10, output f64", &[]),
            ("also of nothing", "relu", "input f64 0, output f64 0", &[]),
            ("more elements than positions", "transpose", "input f32 50000x50000, output f32 50000x50000", &[]),
            (
                "a gradient that is too large",
                "stage = [{ kernel = 'generate_gradient', output = 'output' }]",
                "output u8 50000x50000",
                &[],
            ),
        ],
    );
}

/// What a device with doubles does not compute on them.
#[test]
fn functions() {
    check(
        &DeviceFacts { f64: true, ..gpu() },
        &[
            ("powers of doubles", "exp", "input f64 100, output f64 100", &[]),
            ("a softmax of doubles", "sqrt | softmax", "input f64 4x10, output f64 4x10", &[]),
            ("one of two stages", "relu | tanh", "input f64 100, output f64 100", &[]),
        ],
    );
}

/// More buffers than a launch binds.
#[test]
fn bindings() {
    check(
        &DeviceFacts { max_bindings: 3, ..cpu() },
        &[
            (
                "four of three",
                "stage = [{ kernel = 'dense', inputs = ['x', 'weight', 'bias'], output = 'output' }]",
                "x f32 32x64, weight f32 64x64, bias f32 64, output f32 32x64",
                &[],
            ),
            ("tables and pictures", "blur", "input u8 6x7, output u8 6x7", &[]),
        ],
    );
}
