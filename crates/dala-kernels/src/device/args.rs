//! Launch arguments whose number and types are known only at launch: the engine's macros have none.

use cubecl::ir::pliron::r#type::TypeHandle;
use cubecl::ir::pliron::value::Value;
use cubecl::ir::types::VectorType;
use cubecl::prelude::*;

/// A list of buffers of any number, element types and vector widths.
pub(crate) struct Buffers;

/// One of them, at launch.
pub(crate) struct BufferAt {
    pub(crate) arg: BufferArg,
    pub(crate) elem: ElemType,
    pub(crate) width: usize,
}

/// One of them, as far as it shapes the code.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct BufferKey {
    /// The position of the buffer it is the same as.
    pub(crate) alias: Option<usize>,
    pub(crate) elem: ElemType,
    pub(crate) width: usize,
}

/// The buffers inside a kernel.
#[derive(Clone)]
pub(crate) struct BuffersExpand(pub(crate) Vec<Value>);

/// A list of run-time scalars of any number and types. Values do not shape the code.
pub(crate) struct Scalars;

/// The scalars inside a kernel.
#[derive(Clone)]
pub(crate) struct ScalarsExpand(pub(crate) Vec<Value>);

/// What the engine's macros ask of every argument's in-kernel form.
macro_rules! expand_type {
    ($type:ty, $expand:ty) => {
        impl CubeType for $type {
            type ExpandType = $expand;
        }
        impl ExpandTypeClone for $expand {
            fn clone_unchecked(&self) -> Self {
                self.clone()
            }
        }
        impl IntoExpand for $expand {
            type Expand = Self;
            fn into_expand(self, _: &Scope) -> Self {
                self
            }
        }
        impl IntoMut for $expand {
            fn into_mut(self, _: &Scope) -> Self {
                self
            }
        }
        impl CubeDebug for $expand {}
        impl AsRefExpand for $expand {
            fn __expand_ref_method(&self, _: &Scope) -> &Self {
                self
            }
        }
        impl AsMutExpand for $expand {
            fn __expand_ref_mut_method(&mut self, _: &Scope) -> &mut Self {
                self
            }
        }
    };
}
pub(crate) use expand_type;

expand_type!(Buffers, BuffersExpand);
expand_type!(Scalars, ScalarsExpand);

impl LaunchArg for Buffers {
    type RuntimeArg = Vec<BufferAt>;
    type CompilationArg = Vec<BufferKey>;

    fn register(buffers: Vec<BufferAt>, launcher: &mut KernelLauncher) -> Vec<BufferKey> {
        let register = |buffer: BufferAt| {
            let alias = match &buffer.arg {
                BufferArg::Alias { input_pos, .. } => Some(*input_pos),
                BufferArg::Handle { .. } => None,
            };
            launcher.register_buffer(buffer.arg, buffer.elem.size() * buffer.width);
            BufferKey { alias, elem: buffer.elem, width: buffer.width }
        };
        buffers.into_iter().map(register).collect()
    }

    fn expand(keys: &Vec<BufferKey>, builder: &mut KernelBuilder) -> BuffersExpand {
        let expand = |key: &BufferKey| match key.alias {
            Some(position) => builder.inplace(position),
            None => {
                let ty = vector_type(&builder.scope, key.elem, key.width);
                builder.buffer(ty)
            }
        };
        BuffersExpand(keys.iter().map(expand).collect())
    }
}

impl LaunchArg for Scalars {
    type RuntimeArg = Vec<InputScalar>;
    type CompilationArg = Vec<InputScalarCompilationArg>;

    fn register(scalars: Vec<InputScalar>, launcher: &mut KernelLauncher) -> Self::CompilationArg {
        scalars.into_iter().map(|scalar| InputScalar::register(scalar, launcher)).collect()
    }

    fn expand(keys: &Self::CompilationArg, builder: &mut KernelBuilder) -> ScalarsExpand {
        ScalarsExpand(keys.iter().map(|key| InputScalar::expand(key, builder).expand).collect())
    }
}

/// The type of `width` elements, which is the element itself for one.
pub(crate) fn vector_type(scope: &Scope, elem: ElemType, width: usize) -> TypeHandle {
    let ty = elem.to_type(scope.ctx());
    if width > 1 { VectorType::get(scope.ctx(), ty, width).into() } else { ty }
}
