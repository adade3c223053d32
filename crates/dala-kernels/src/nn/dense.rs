//! A fully connected layer: `activation(x · weight + bias)`. `weight` is `{in, out}`, or `{out, in}` with `transpose_weight`.

use dala_plan::{DeviceFacts, Lowering};
use dala_spec::expr::UnaryOp;
use dala_spec::{
    Class, Data, Expr, FLOATS, KernelSpec, OutputDType, ParamKind, Shape, ShapeCall, ShapeProblem, Signature,
    SpecError, Tolerance, param,
};

use crate::keys::{ACTIVATION, TRANSPOSE_WEIGHT};
use crate::lower::halves::in_f32;
use crate::lower::product::{Epilogue, Product};
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::new("dense", Class::Contraction)
        .summary("Fully connected layer: `activation(x · weight + bias)`")
        .input("x", FLOATS)
        .input("weight", FLOATS)
        .input("bias", FLOATS)
        .computed("the input's with the last axis of the weight's other size", OutputDType::Inputs, shape)
        .param(
            param(ACTIVATION, ParamKind::words(&["none", "relu", "sigmoid", "tanh", "gelu"]))
                .default("none")
                .summary("what is applied to each result"),
        )
        .param(param(TRANSPOSE_WEIGHT, ParamKind::Bool).default(false).summary("whether the weight is {out, in}"))
        .tolerance(Tolerance::close(512.0, 512.0));
    Kernel::lowered(spec, in_f32(lower)).example(&[&[3, 8], &[8, 4], &[4]], &[3, 4]).reference(reference)
}

/// The weight's sizes: in, out.
fn sizes(weight: &Shape, transposed: bool) -> Option<(usize, usize)> {
    match (weight.dims(), transposed) {
        ([inside, outside], false) | ([outside, inside], true) => Some((*inside, *outside)),
        _ => None,
    }
}

fn shape(call: &ShapeCall) -> Result<Shape, ShapeProblem> {
    let transposed = call.params.flag(TRANSPOSE_WEIGHT);
    let wanted = if transposed { "{out, in}" } else { "{in, out}" };
    let (inside, outside) =
        sizes(&call.inputs[1].shape, transposed).ok_or(ShapeProblem::Input(1, wanted.to_owned()))?;
    let Some((last, rest)) = call.inputs[0].shape.dims().split_last() else {
        return Err(ShapeProblem::Input(0, "of at least one dimension".to_owned()));
    };
    if *last != inside {
        return Err(ShapeProblem::Input(0, format!("with a last axis of {inside}, as the weight has it")));
    }
    if call.inputs[2].shape.dims() != [outside] {
        return Err(ShapeProblem::Input(2, format!("{{{outside}}}")));
    }
    Ok(Shape::new([rest, &[outside]].concat()))
}

fn product(call: &Signature) -> Product {
    let transposed = call.params.flag(TRANSPOSE_WEIGHT);
    let (k, n) = sizes(&call.inputs[1].shape, transposed).unwrap_or_default();
    Product {
        batch: 1,
        m: call.output.shape.len() / n.max(1),
        k,
        n,
        a_batched: false,
        b_batched: false,
        a_transposed: false,
        b_transposed: transposed,
        windows: None,
    }
}

fn lower(call: &Signature, facts: &DeviceFacts) -> Result<Lowering, SpecError> {
    let sum = Expr::input("sum") + Expr::input("bias");
    let expr = match call.params.word(ACTIVATION) {
        "relu" => sum.relu(None),
        "sigmoid" => sum.sigmoid(),
        "tanh" => sum.unary(UnaryOp::Tanh),
        "gelu" => sum.gelu(),
        _ => sum,
    };
    product(call).lower(call, facts, &Epilogue { expr, columns: vec![("bias", 2)] })
}

fn reference(call: &Reference) -> Data {
    let Product { k, n, b_transposed, .. } = product(call.signature);
    call.numbers(|index| {
        let (row, column) = (index / n, index % n);
        let weight = |at: usize| call.float(1, if b_transposed { column * k + at } else { at * n + column });
        let sum: f64 = (0..k).map(|at| call.float(0, row * k + at) * weight(at)).sum();
        let x = sum + call.float(2, column);
        match call.params().word(ACTIVATION) {
            "relu" => x.max(0.0),
            "sigmoid" => 1.0 / (1.0 + (-x).exp()),
            "tanh" => x.tanh(),
            "gelu" => x / 2.0 * (1.0 + libm::erf(x / std::f64::consts::SQRT_2)),
            _ => x,
        }
    })
}
