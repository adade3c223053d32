//! Matrix product `{m, k} · {k, n}`, also of batches: leading axes are equal, or one operand has none and counts for all.
//! `transpose_a` and `transpose_b` swap the last two axes of an operand first. Integers wrap.

use dala_plan::{DeviceFacts, Lowering};
use dala_spec::{
    Class, Data, Expr, FACTORS, KernelSpec, OutputDType, ParamKind, ResolvedParams, Shape, ShapeProblem, Signature,
    SpecError, TensorType, Tolerance, param,
};

use crate::keys::{TRANSPOSE_A, TRANSPOSE_B};
use crate::lower::halves::in_f32;
use crate::lower::product::{Epilogue, Product};
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::new("matmul", Class::Contraction)
        .summary("Matrix product, also of batches")
        .input("a", FACTORS)
        .input("b", FACTORS)
        .computed("{..., m, n}", OutputDType::Inputs, |call| Ok(product(call.inputs, call.params)?.1))
        .param(param(TRANSPOSE_A, ParamKind::Bool).default(false).summary("whether `a` is {..., k, m}"))
        .param(param(TRANSPOSE_B, ParamKind::Bool).default(false).summary("whether `b` is {..., n, k}"))
        .tolerance(Tolerance::close(512.0, 512.0));
    Kernel::lowered(spec, in_f32(lower)).example(&[&[3, 8], &[8, 5]], &[3, 5]).reference(reference)
}

/// The sizes of a product, and the shape of its result.
fn product(inputs: &[TensorType], params: &ResolvedParams) -> Result<(Product, Shape), ShapeProblem> {
    let (a_transposed, b_transposed) = (params.flag(TRANSPOSE_A), params.flag(TRANSPOSE_B));
    let matrix = |index: usize, transposed: bool| match inputs[index].shape.dims() {
        [batch @ .., rows, columns] => {
            let (rows, columns) = if transposed { (*columns, *rows) } else { (*rows, *columns) };
            Ok((batch, rows, columns))
        }
        _ => Err(ShapeProblem::Input(index, "of at least two dimensions".to_owned())),
    };
    let (a_batch, m, k) = matrix(0, a_transposed)?;
    let (b_batch, b_rows, n) = matrix(1, b_transposed)?;
    if b_rows != k {
        let sizes = if b_transposed { format!("{{..., {n}, {k}}}") } else { format!("{{..., {k}, {n}}}") };
        return Err(ShapeProblem::Input(1, sizes));
    }
    if a_batch != b_batch && !a_batch.is_empty() && !b_batch.is_empty() {
        let wanted = format!("with the leading axes of `a`, {}, or none", Shape::from(a_batch));
        return Err(ShapeProblem::Input(1, wanted));
    }
    let batch = if a_batch.is_empty() { b_batch } else { a_batch };
    let product = Product {
        batch: Shape::from(batch).len(),
        m,
        k,
        n,
        a_batched: !a_batch.is_empty(),
        b_batched: !b_batch.is_empty(),
        a_transposed,
        b_transposed,
        windows: None,
    };
    Ok((product, Shape::new([batch, &[m, n]].concat())))
}

fn lower(call: &Signature, facts: &DeviceFacts) -> Result<Lowering, SpecError> {
    let (product, _) = product(&call.inputs, &call.params)?;
    product.lower(call, facts, &Epilogue { expr: Expr::input("sum"), columns: Vec::new() })
}

fn reference(call: &Reference) -> Data {
    let Ok((product, _)) = product(&call.signature.inputs, call.params()) else { return Data::F32(Vec::new()) };
    let Product { m, k, n, a_batched, b_batched, a_transposed, b_transposed, .. } = product;
    call.numbers(|index| {
        let (block, row, column) = (index / (m * n), index / n % m, index % n);
        let (a_block, b_block) = (if a_batched { block * m * k } else { 0 }, if b_batched { block * k * n } else { 0 });
        let a = |at: usize| a_block + if a_transposed { at * m + row } else { row * k + at };
        let b = |at: usize| b_block + if b_transposed { column * k + at } else { at * n + column };
        call.products((0..k).map(|at| (a(at), b(at))), None)
    })
}
