//! Kernels that users define from expressions.

use dala_kernels::Kernel;
use dala_spec::{Expr, KernelSpec, NUMBERS, OutputDType, OutputShape, ParamKind, ParamSpec, Scope, SpecError};

/// What a user says about a kernel besides its name and its expression.
///
/// The inputs may have any element types that the expression computes with, and one shape; the output has that shape
/// and any element type. An input that the expression only gathers from, as from a table, may have a shape of its own.
#[derive(Clone, Debug)]
pub struct Definition {
    inputs: Vec<String>,
    params: Vec<ParamSpec>,
    summary: Option<String>,
}

impl Definition {
    /// A kernel with inputs of these names, in this order.
    pub fn inputs(names: impl IntoIterator<Item: Into<String>>) -> Definition {
        Definition { inputs: names.into_iter().map(Into::into).collect(), params: Vec::new(), summary: None }
    }

    /// One more param, which the expression uses by name.
    pub fn param(mut self, spec: ParamSpec) -> Definition {
        self.params.push(spec);
        self
    }

    /// What the kernel does, in one line; its expression if nothing is said.
    pub fn summary(mut self, text: impl Into<String>) -> Definition {
        self.summary = Some(text.into());
        self
    }

    pub(crate) fn kernel(self, name: &str, text: &str) -> Result<Kernel, SpecError> {
        let scope = Scope::new(self.inputs.clone(), self.params.iter().map(|param| param.name.clone()));
        let expr = Expr::parse(text, &scope)?;
        // Without inputs, the caller's output is all there is to say how large it is.
        let shape = if self.inputs.is_empty() { OutputShape::Any } else { OutputShape::Inputs };
        let is_whole = |name: &str| self.params.iter().any(|own| own.name == name && own.kind == ParamKind::Int);
        let mut spec = KernelSpec::pointwise(name)
            .summary(self.summary.unwrap_or_else(|| format!("`{expr}`")))
            .output(shape, OutputDType::OneOf(NUMBERS))
            .tolerance(expr.tolerance(is_whole));
        spec = self.inputs.into_iter().fold(spec, |spec, input| match expr.only_gathers(&input) {
            true => spec.side_input(input, NUMBERS),
            false => spec.input(input, NUMBERS),
        });
        spec = self.params.into_iter().fold(spec, KernelSpec::param);
        Ok(Kernel::pointwise(spec, move |_| expr.clone()))
    }
}
