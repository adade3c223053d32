//! What a kernel is to its callers: names, inputs, output, params.

use std::fmt;
use std::sync::Arc;

use crate::{DType, ParamSpec, ResolvedParams, Shape, ShapeProblem, TensorType, Tolerance};

/// The kind of access pattern a kernel has: what may be fused with it, and how it is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Each output element depends on the input elements at its own place.
    Pointwise,
    /// Each output pixel depends on the input pixel at its own place.
    Pixel,
    /// Each output element depends on a neighbourhood.
    Stencil,
    /// Many elements become one.
    Reduction,
    /// Sums of products, such as a matrix product.
    Contraction,
    /// The same elements under another shape or order.
    View,
    /// Several kernels under one name.
    Composite,
    /// Nothing is known about its accesses.
    Opaque,
}

impl Class {
    /// The name used in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Class::Pointwise => "pointwise",
            Class::Pixel => "pixel",
            Class::Stencil => "stencil",
            Class::Reduction => "reduction",
            Class::Contraction => "contraction",
            Class::View => "view",
            Class::Composite => "composite",
            Class::Opaque => "opaque",
        }
    }
}

/// Element types that an argument may have.
pub type DTypes = &'static [DType];
/// All twelve element types.
pub const NUMBERS: DTypes = &DType::ALL;
/// The floats.
pub const FLOATS: DTypes = &[DType::F32, DType::F64, DType::F16, DType::BF16];
/// What matrices that are multiplied hold: floats, and the integers that sums of products of smaller ones are.
pub const FACTORS: DTypes = &[DType::F32, DType::F64, DType::S32, DType::F16, DType::BF16];
/// The integers.
pub const INTEGERS: DTypes =
    &[DType::S32, DType::S64, DType::U32, DType::U8, DType::S8, DType::S16, DType::U16, DType::U64];
/// The element types of pictures: 0 to 255 as `u8`, 0 to 1 as `f32`.
pub const PIXELS: DTypes = &[DType::U8, DType::F32];

/// What a kernel says about one input.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct InputSpec {
    /// The name: used in messages and in expressions.
    pub name: String,
    /// The element types it may have.
    pub dtypes: DTypes,
    /// Whether it stands beside the data, as a table does: its shape has nothing to do with the output's.
    pub side: bool,
}

/// A call of which everything is known but perhaps the output's shape.
pub struct ShapeCall<'a> {
    /// The inputs.
    pub inputs: &'a [TensorType],
    /// The output's shape, where the caller has chosen one.
    pub output: Option<&'a Shape>,
    /// The params, complete.
    pub params: &'a ResolvedParams,
}

/// The only shape that fits a call; where the caller chooses, the chosen one if it fits.
pub type ShapeFn = dyn Fn(&ShapeCall) -> Result<Shape, ShapeProblem> + Send + Sync;

/// How an output's shape follows from inputs and params, as a function.
#[derive(Clone)]
pub struct ShapeRule {
    /// The rule in words.
    pub text: Arc<str>,
    /// The rule.
    pub shape: Arc<ShapeFn>,
}

impl PartialEq for ShapeRule {
    fn eq(&self, other: &ShapeRule) -> bool {
        self.text == other.text
    }
}

impl Eq for ShapeRule {}

impl fmt::Debug for ShapeRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl serde::Serialize for ShapeRule {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

/// How the output's shape follows from the inputs.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputShape {
    /// The inputs' common shape; an input of one element counts for any shape.
    Inputs,
    /// What the inputs' shapes broadcast to, as NumPy does it ([`Shape::broadcast`]); an input of one element counts for any
    /// shape.
    Broadcast,
    /// Whatever the caller gives.
    Any,
    /// An image: `{height, width}` or `{height, width, channels}` with 1 to 4 channels.
    Image,
    /// What a function of inputs and params says.
    Computed(ShapeRule),
}

/// How the output's element type follows from the inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputDType {
    /// The same as that of every input.
    Inputs,
    /// The same as that of the first input; the others have types of their own.
    First,
    /// The same as that of every input but the first, which has a type of its own.
    Rest,
    /// One of these, as the caller chooses.
    OneOf(DTypes),
}

/// What a kernel says about its output.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct OutputRule {
    /// The rule for the shape.
    pub shape: OutputShape,
    /// The rule for the element type.
    pub dtype: OutputDType,
}

/// The types of a call's outputs after the first, from those of its inputs.
pub type FurtherFn = dyn Fn(&[TensorType]) -> Result<Vec<TensorType>, ShapeProblem> + Send + Sync;

/// The outputs after the first, of kernels that have several: networks.
#[derive(Clone)]
pub struct FurtherOutputs {
    /// What they are called.
    pub names: Vec<String>,
    /// Their types.
    pub types: Arc<FurtherFn>,
}

impl PartialEq for FurtherOutputs {
    fn eq(&self, other: &FurtherOutputs) -> bool {
        self.names == other.names
    }
}

impl fmt::Debug for FurtherOutputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.names).finish()
    }
}

impl serde::Serialize for FurtherOutputs {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.names.serialize(serializer)
    }
}

/// A kernel as its callers see it. Built with [`KernelSpec::new`] and the methods after it.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct KernelSpec {
    /// The name, in snake case.
    pub name: String,
    /// Other names for the same kernel.
    pub aliases: Vec<String>,
    /// What it computes, in one line.
    pub summary: String,
    /// How it accesses its data.
    pub class: Class,
    /// The inputs, in order.
    pub inputs: Vec<InputSpec>,
    /// How many inputs there may be at most; the last one may be given several times to get there.
    pub max_inputs: usize,
    /// The rule for the output.
    pub output: OutputRule,
    /// The outputs after the first; none for most kernels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub further: Option<FurtherOutputs>,
    /// The params.
    pub params: Vec<ParamSpec>,
    /// How close a result is to the reference.
    pub tolerance: Tolerance,
}

impl KernelSpec {
    /// A kernel of `class` without inputs and params, whose output is like its inputs.
    pub fn new(name: impl Into<String>, class: Class) -> KernelSpec {
        KernelSpec {
            name: name.into(),
            aliases: Vec::new(),
            summary: String::new(),
            class,
            inputs: Vec::new(),
            max_inputs: 0,
            output: OutputRule { shape: OutputShape::Inputs, dtype: OutputDType::Inputs },
            further: None,
            params: Vec::new(),
            tolerance: Tolerance::EXACT,
        }
    }

    /// A pointwise kernel.
    pub fn pointwise(name: impl Into<String>) -> KernelSpec {
        KernelSpec::new(name, Class::Pointwise)
    }

    /// What it computes, in one line.
    pub fn summary(mut self, text: impl Into<String>) -> KernelSpec {
        self.summary = text.into();
        self
    }

    /// Another name for the kernel.
    pub fn alias(mut self, name: impl Into<String>) -> KernelSpec {
        self.aliases.push(name.into());
        self
    }

    /// One more input.
    pub fn input(mut self, name: impl Into<String>, dtypes: DTypes) -> KernelSpec {
        self.inputs.push(InputSpec { name: name.into(), dtypes, side: false });
        self.max_inputs = self.inputs.len();
        self
    }

    /// One more input that stands beside the data, such as a table.
    pub fn side_input(self, name: impl Into<String>, dtypes: DTypes) -> KernelSpec {
        let mut spec = self.input(name, dtypes);
        if let Some(input) = spec.inputs.last_mut() {
            input.side = true;
        }
        spec
    }

    /// Lets the last input be given several times, until there are `max` inputs.
    pub fn repeat_last(mut self, max: usize) -> KernelSpec {
        self.max_inputs = max;
        self
    }

    /// What is said about input `index` of a call, which may be one more of the last.
    pub fn input_at(&self, index: usize) -> Option<&InputSpec> {
        self.inputs.get(index.min(self.inputs.len().saturating_sub(1)))
    }

    /// How messages call input `index`.
    pub fn input_name(&self, index: usize) -> String {
        match self.input_at(index) {
            Some(input) if index < self.inputs.len() => format!("input `{}`", input.name),
            _ => format!("input {index}"),
        }
    }

    /// An output whose shape follows from inputs and params by a function.
    pub fn computed(
        self,
        text: impl Into<Arc<str>>,
        dtype: OutputDType,
        shape: impl Fn(&ShapeCall) -> Result<Shape, ShapeProblem> + Send + Sync + 'static,
    ) -> KernelSpec {
        self.output(OutputShape::Computed(ShapeRule { text: text.into(), shape: Arc::new(shape) }), dtype)
    }

    /// The rule for the output.
    pub fn output(mut self, shape: OutputShape, dtype: OutputDType) -> KernelSpec {
        self.output = OutputRule { shape, dtype };
        self
    }

    /// Outputs after the first: what they are called, and their types.
    pub fn further(
        mut self,
        names: Vec<String>,
        types: impl Fn(&[TensorType]) -> Result<Vec<TensorType>, ShapeProblem> + Send + Sync + 'static,
    ) -> KernelSpec {
        self.further = Some(FurtherOutputs { names, types: Arc::new(types) });
        self
    }

    /// How many outputs it has.
    pub fn outputs(&self) -> usize {
        1 + self.further.as_ref().map_or(0, |further| further.names.len())
    }

    /// One more param.
    pub fn param(mut self, spec: ParamSpec) -> KernelSpec {
        self.params.push(spec);
        self
    }

    /// How close a result is to the reference.
    pub fn tolerance(mut self, tolerance: Tolerance) -> KernelSpec {
        self.tolerance = tolerance;
        self
    }

    /// The name and the aliases.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.name.as_str()).chain(self.aliases.iter().map(String::as_str))
    }
}
