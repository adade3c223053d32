//! Programs inside other kernels.

use dala_spec::{DType, Expr, ExprError, Program, ResolvedParams, Signature, TensorType};

/// Where a fragment's input comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// The value of that number, which the kernel around it computed.
    Value(usize),
    /// The step's read of that number, at the element's own place.
    Own(usize),
    /// The step's read of that number, at the place along the last axis.
    Column(usize),
}

/// One input of a fragment, while it is built.
#[derive(Clone, Copy, Debug)]
pub struct Argument<'a> {
    /// Its name in the expression.
    pub name: &'a str,
    /// Its element type.
    pub dtype: DType,
    /// Where it comes from.
    pub source: Source,
    /// Whether it is one element that counts everywhere.
    pub single: bool,
}

impl<'a> Argument<'a> {
    /// A value that the kernel around the fragment computed.
    pub fn value(name: &'a str, number: usize, dtype: DType) -> Argument<'a> {
        Argument { name, dtype, source: Source::Value(number), single: false }
    }

    /// The step's read of that number, at the element's own place.
    pub fn own(name: &'a str, read: usize, dtype: DType) -> Argument<'a> {
        Argument { name, dtype, source: Source::Own(read), single: false }
    }

    /// The step's read of that number, at the place along the last axis; `ty` says if it is one element for all.
    pub fn column(name: &'a str, read: usize, ty: &TensorType) -> Argument<'a> {
        Argument { name, dtype: ty.dtype, source: Source::Column(read), single: ty.shape.len() == 1 }
    }
}

/// A program that runs inside another kernel: at its loads, or before its stores.
#[derive(Clone, Debug)]
pub struct Fragment {
    /// The program. It has one output: stored, or handed to the kernel around it.
    pub program: Program,
    /// Where each of its inputs comes from.
    pub sources: Vec<Source>,
}

impl Fragment {
    /// Type-checks an expression over these inputs, whose result has type `output`.
    ///
    /// # Errors
    ///
    /// The types do not fit.
    pub fn build(
        expr: &Expr,
        arguments: &[Argument],
        output: DType,
        params: &ResolvedParams,
    ) -> Result<Fragment, ExprError> {
        let names: Vec<&str> = arguments.iter().map(|argument| argument.name).collect();
        // Shapes say no more than what counts everywhere.
        let ty = |argument: &Argument| TensorType::new(argument.dtype, [if argument.single { 1 } else { 2 }]);
        let signature = Signature {
            inputs: arguments.iter().map(ty).collect(),
            output: TensorType::new(output, [2]),
            params: params.clone(),
        };
        let program = Program::build(expr, &names, &signature)?;
        if program.uses_position() || program.reads_neighbours() {
            let message = "a part of a kernel knows no positions".to_owned();
            return Err(ExprError { message, source: None, span: None });
        }
        Ok(Fragment { program, sources: arguments.iter().map(|argument| argument.source).collect() })
    }
}
