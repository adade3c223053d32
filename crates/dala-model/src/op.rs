//! What a layer computes, with everything that its shapes do not say.

/// The operation of a layer.
///
/// Pictures are `{batch, channels, height, width}`. Paddings are top, left, bottom, right; pairs are height, width.
/// Sizes of results are not repeated here: the shape of the layer's output has them.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// A convolution of `x`, weights `{out, in / groups, height, width}` and a bias `{out}`, which is always there.
    Conv {
        /// Steps between windows.
        stride: [usize; 2],
        /// Zeros around the picture.
        padding: [usize; 4],
        /// Steps between the elements of a window.
        dilation: [usize; 2],
        /// Into how many independent parts the channels are split.
        groups: usize,
    },
    /// `(x - mean) / sqrt(variance + epsilon) * scale + bias` of `x, scale, bias, mean, variance`, by channel (axis 1).
    BatchNorm {
        /// Added to the variance.
        epsilon: f32,
    },
    /// `max(x, 0)`.
    Relu,
    /// `x` moved into a range.
    Clip {
        /// The lower end; `f32::MIN` if the file gives none.
        min: f32,
        /// The upper end; `f32::MAX` if the file gives none.
        max: f32,
    },
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    /// `x * clamp(x / 6 + 0.5, 0, 1)`.
    HardSwish,
    /// `clamp(alpha * x + beta, 0, 1)`.
    HardSigmoid {
        /// The slope.
        alpha: f32,
        /// The value at zero.
        beta: f32,
    },
    /// The hyperbolic tangent.
    Tanh,
    /// `x` where it is not negative, `alpha * x` where it is.
    LeakyRelu {
        /// The slope for negative values.
        alpha: f32,
    },
    /// The exponential function.
    Exp,
    /// The square root.
    Sqrt,
    /// Arithmetic on two values, each repeated along axes where it has size one, as NumPy does.
    Binary(BinaryOp),
    /// `alpha * a * b + beta * c` of matrices; `c` is always there and is repeated to fit.
    Gemm {
        /// The factor of the product.
        alpha: f32,
        /// The factor of `c`.
        beta: f32,
        /// Whether `a` is turned first.
        transpose_a: bool,
        /// Whether `b` is turned first.
        transpose_b: bool,
    },
    /// The product of matrices, or of stacks of them, as NumPy's `matmul`.
    MatMul,
    /// The mean over height and width.
    GlobalAveragePool,
    /// The mean of each window.
    AveragePool {
        /// The window.
        size: [usize; 2],
        /// Steps between windows.
        stride: [usize; 2],
        /// Zeros around the picture.
        padding: [usize; 4],
        /// Whether the padding counts as elements of a window; if not, the mean is over what lies in the picture.
        count_padding: bool,
    },
    /// The largest element of each window; padding never wins.
    MaxPool {
        /// The window.
        size: [usize; 2],
        /// Steps between windows.
        stride: [usize; 2],
        /// How far windows reach over the picture's edges.
        padding: [usize; 4],
        /// Steps between the elements of a window.
        dilation: [usize; 2],
    },
    /// The same elements in another shape.
    Reshape,
    /// Axes in another order.
    Transpose {
        /// For each axis of the output, the axis of the input.
        perm: Vec<usize>,
    },
    /// Values one after the other.
    Concat {
        /// Along which axis.
        axis: usize,
    },
    /// Every so many elements, from a start; one entry for each axis.
    Slice {
        /// The first element.
        starts: Vec<usize>,
        /// From one element to the next, at least 1.
        steps: Vec<usize>,
    },
    /// Those slices of `x` that the indices, the second input, name. Constant indices are not negative.
    Gather {
        /// The axis they count along; the axes of the indices take its place.
        axis: usize,
    },
    /// `exp(x) / sum(exp(x))`.
    Softmax {
        /// The first of the axes.
        axis: usize,
        /// The axes over which the sum goes: one, or in old files all from `axis` on.
        axes: Vec<usize>,
    },
    /// The mean over some axes; the output's shape says whether they are kept with size one.
    ReduceMean {
        /// The axes, in order.
        axes: Vec<usize>,
    },
    /// A picture in another size.
    Resize {
        /// How values between pixels are made.
        mode: ResizeMode,
        /// Which place in the input a pixel of the output lies at.
        coordinates: Coordinates,
        /// Which pixel is the nearest; matters for [`ResizeMode::Nearest`] only.
        rounding: Rounding,
        /// Output size over input size, as the file says it: may differ a little from the quotient of the sizes.
        scale: [f32; 2],
    },
    /// More elements around the value; one entry for each axis.
    Pad {
        /// How many before the first.
        before: Vec<usize>,
        /// How many after the last.
        after: Vec<usize>,
        /// What they are.
        mode: PadMode,
    },
    /// The same numbers as elements of the output's type.
    Cast,
}

impl Op {
    /// The name, as ONNX has it, or as near as it gets.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Conv { .. } => "Conv",
            Op::BatchNorm { .. } => "BatchNormalization",
            Op::Relu => "Relu",
            Op::Clip { .. } => "Clip",
            Op::Sigmoid => "Sigmoid",
            Op::HardSwish => "HardSwish",
            Op::HardSigmoid { .. } => "HardSigmoid",
            Op::Tanh => "Tanh",
            Op::LeakyRelu { .. } => "LeakyRelu",
            Op::Exp => "Exp",
            Op::Sqrt => "Sqrt",
            Op::Binary(BinaryOp::Add) => "Add",
            Op::Binary(BinaryOp::Sub) => "Sub",
            Op::Binary(BinaryOp::Mul) => "Mul",
            Op::Binary(BinaryOp::Div) => "Div",
            Op::Gemm { .. } => "Gemm",
            Op::MatMul => "MatMul",
            Op::GlobalAveragePool => "GlobalAveragePool",
            Op::AveragePool { .. } => "AveragePool",
            Op::MaxPool { .. } => "MaxPool",
            Op::Reshape => "Reshape",
            Op::Transpose { .. } => "Transpose",
            Op::Concat { .. } => "Concat",
            Op::Slice { .. } => "Slice",
            Op::Gather { .. } => "Gather",
            Op::Softmax { .. } => "Softmax",
            Op::ReduceMean { .. } => "ReduceMean",
            Op::Resize { .. } => "Resize",
            Op::Pad { .. } => "Pad",
            Op::Cast => "Cast",
        }
    }
}

/// Arithmetic on two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryOp {
    /// `a + b`.
    Add,
    /// `a - b`.
    Sub,
    /// `a * b`.
    Mul,
    /// `a / b`; of integers, towards zero.
    Div,
}

/// How a resized picture gets its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResizeMode {
    /// The nearest pixel.
    Nearest,
    /// Between the four pixels around, by distance.
    Linear,
}

/// Where pixel `i` of the output lies in the input, for `scale = output size / input size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coordinates {
    /// `(i + 0.5) / scale - 0.5`.
    HalfPixel,
    /// As half pixel, but 0 if the output has size 1.
    PytorchHalfPixel,
    /// `i / scale`.
    Asymmetric,
    /// `i * (input size - 1) / (output size - 1)`, and 0 if the output has size 1.
    AlignCorners,
}

/// Which pixel is the nearest one to a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// The nearest, and the one before if two are as near.
    RoundPreferFloor,
    /// The nearest, and the one after if two are as near.
    RoundPreferCeil,
    /// The one before.
    Floor,
    /// The one after.
    Ceil,
}

/// What the elements around a padded value are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PadMode {
    /// A number.
    Constant(f32),
    /// The elements mirrored at the outermost one, which is not repeated.
    Reflect,
    /// The outermost element.
    Edge,
}
