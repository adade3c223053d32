//! Convolution of pictures: `activation(sum over windows of x · weight + bias)`. Pictures are `{batch, height, width, channels}`,
//! `weight` is `{rows, columns, channels / groups, out}`. With as many groups as channels, each is convolved by itself. Integers wrap.

use dala_plan::work::{Argument, Fragment, Pool, PoolOp, Windows};
use dala_plan::{DeviceFacts, Lowering, Place, Task};
use dala_spec::expr::CompareOp;
use dala_spec::{
    Class, DType, Data, Expr, FACTORS, KernelSpec, OutputDType, ParamKind, ResolvedParams, Shape, ShapeCall,
    ShapeProblem, Signature, SpecError, TensorType, Tolerance, param,
};

use crate::keys::{ACTIVATION, GROUPS, LAYOUT};
use crate::lower::halves::in_f32;
use crate::lower::product::{Epilogue, Product};
use crate::lower::{map, windows};
use crate::{Kernel, Reference};

/// The kernel.
pub fn kernel() -> Kernel {
    let spec = KernelSpec::new("conv2d", Class::Contraction)
        .summary("Convolution of pictures: `activation(windows of x · weight + bias)`")
        .input("x", FACTORS)
        .input("weight", FACTORS)
        .input("bias", FACTORS)
        .computed("{batch, rows, columns, out}: a pixel for each window", OutputDType::Inputs, shape);
    let spec =
        windows::with_params(spec, false, true)
            .param(
                param(GROUPS, ParamKind::Int)
                    .default(1)
                    .range(1.0, 65536.0)
                    .summary("how many parts the channels are in, each convolved by itself"),
            )
            .param(param(LAYOUT, ParamKind::words(&["nhwc", "nchw"])).default("nhwc").summary(
                "whether the channels of `x` are its last axis or its second; those of the result are its last",
            ))
            .param(
                param(ACTIVATION, ParamKind::words(&["none", "relu", "relu6", "sigmoid", "hard_swish"]))
                    .default("none")
                    .summary("what is applied to each result"),
            )
            .tolerance(Tolerance::close(512.0, 512.0));
    Kernel::lowered(spec, in_f32(lower))
        .example(&[&[1, 5, 5, 4], &[3, 3, 4, 8], &[8]], &[1, 3, 3, 8])
        .reference(reference)
}

/// A convolution's sizes.
struct Conv {
    windows: Windows,
    groups: usize,
    out: usize,
}

impl Conv {
    fn of(x: &Shape, weight: &Shape, params: &ResolvedParams) -> Result<Conv, ShapeProblem> {
        let groups = params.int(GROUPS).max(1) as usize;
        let axis = if params.word(LAYOUT) == "nchw" { 1 } else { 3 };
        let channels = x.dims().get(axis).copied().unwrap_or(0);
        let wanted = format!("{{rows, columns, {}, out}}", channels / groups);
        let &[rows, columns, inside, out] = weight.dims() else { return Err(ShapeProblem::Input(1, wanted)) };
        let windows = windows::windows(params, x, [rows, columns])?;
        if !channels.is_multiple_of(groups) {
            return Err(ShapeProblem::Input(0, format!("with channels that make {groups} groups")));
        }
        if inside * groups != channels {
            return Err(ShapeProblem::Input(1, wanted));
        }
        if !out.is_multiple_of(groups) {
            return Err(ShapeProblem::Input(1, format!("with results that make {groups} groups")));
        }
        Ok(Conv { windows, groups, out })
    }

    /// Where a channel of the pixel is that starts at `pixel`.
    fn element(&self, pixel: usize, channel: usize) -> usize {
        let Windows { planar, channels, from: [height, width], .. } = self.windows;
        match planar {
            false => pixel + channel,
            true => {
                let (picture, at) = (pixel / channels / (height * width), pixel / channels % (height * width));
                (picture * channels + channel) * height * width + at
            }
        }
    }

    /// Whether each channel is convolved by itself, once.
    fn is_by_channel(&self) -> bool {
        self.groups == self.windows.channels && self.out == self.groups && !self.windows.planar
    }
}

fn shape(call: &ShapeCall) -> Result<Shape, ShapeProblem> {
    let conv = Conv::of(&call.inputs[0].shape, &call.inputs[1].shape, call.params)?;
    if call.inputs[2].shape.dims() != [conv.out] {
        return Err(ShapeProblem::Input(2, format!("{{{}}}", conv.out)));
    }
    let [rows, columns] = conv.windows.to;
    Ok(Shape::new([call.inputs[0].shape.dims()[0], rows, columns, conv.out]))
}

fn lower(call: &Signature, facts: &DeviceFacts) -> Result<Lowering, SpecError> {
    let conv = Conv::of(&call.inputs[0].shape, &call.inputs[1].shape, &call.params)?;
    let sum = Expr::input("sum") + Expr::input("bias");
    let expr = match call.params.word(ACTIVATION) {
        "relu" => sum.relu(None),
        "relu6" => sum.clamp(Expr::number(0.0), Expr::number(6.0)),
        "sigmoid" => sum.sigmoid(),
        "hard_swish" => {
            sum.clone()
                * (sum * Expr::number(1.0 / 6.0) + Expr::number(0.5)).clamp(Expr::number(0.0), Expr::number(1.0))
        }
        _ => sum,
    };
    let (dtype, batch) = (call.inputs[0].dtype, call.output.shape.dims()[0]);
    // What integers pass by channels is little, and as exact in floats.
    if conv.is_by_channel() && dtype != DType::S32 {
        let arguments = [Argument::value("sum", 0, dtype), Argument::column("bias", 2, &call.inputs[2])];
        let store = Fragment::build(&expr, &arguments, dtype, &call.params)?;
        let pool = Pool { batch, windows: conv.windows, op: PoolOp::Weighted, dtype, store };
        let mut lowering = Lowering::new();
        lowering.step(Task::Pool(pool), [Place::Input(0), Place::Input(1), Place::Input(2)], Place::Output);
        return Ok(lowering);
    }
    let [rows, columns] = conv.windows.to;
    let product = Product {
        batch: 1,
        m: batch * rows * columns,
        k: conv.windows.len(),
        n: conv.out,
        a_batched: false,
        b_batched: false,
        a_transposed: false,
        b_transposed: false,
        windows: Some(conv.windows),
    };
    let (mut lowering, mut weight) = (Lowering::new(), Place::Input(1));
    if conv.groups > 1 {
        let ty = TensorType::new(dtype, [product.k, conv.out]);
        weight = lowering.transient(ty.clone());
        lowering.step(spread_groups(&conv, call, ty)?, [Place::Input(1)], weight);
    }
    product.lower_with(call, facts, &Epilogue { expr, columns: vec![("bias", 2)] }, lowering, weight)
}

/// The weights of groups as weights of all channels: zero between groups.
fn spread_groups(conv: &Conv, call: &Signature, ty: TensorType) -> Result<Task, SpecError> {
    let (inside, outside) = (conv.windows.channels / conv.groups, conv.out / conv.groups);
    let size = Expr::size;
    let (row, out) = (Expr::coord(0), Expr::coord(1));
    let channel = row.clone() % size(conv.windows.channels);
    let tap = row / size(conv.windows.channels);
    let own = (tap * size(inside) + channel.clone() % size(inside)) * size(conv.out) + out.clone();
    let same = (channel / size(inside)).compare(CompareOp::Eq, out / size(outside));
    let weight = Expr::input("weight").gather(own);
    map(&Expr::select(same, weight, Expr::number(0.0)), &[("weight", call.inputs[1].clone())], ty, call)
}

fn reference(call: &Reference) -> Data {
    let signature = call.signature;
    let Ok(conv) = Conv::of(&signature.inputs[0].shape, &signature.inputs[1].shape, &signature.params) else {
        return call.numbers(|_| f64::NAN);
    };
    let (conv, inside, outside) = (&conv, conv.windows.channels / conv.groups, conv.out / conv.groups);
    call.numbers(|index| {
        let out = index % conv.out;
        let first = out / outside * inside;
        let products = windows::elements(&conv.windows, index, conv.out).flat_map(|(tap, pixel)| {
            (0..inside).map(move |at| (conv.element(pixel, first + at), (tap * inside + at) * conv.out + out))
        });
        let x = call.products(products, Some((2, out)));
        match call.params().word(ACTIVATION) {
            "relu" => x.max(0.0),
            "relu6" => x.clamp(0.0, 6.0),
            "sigmoid" => 1.0 / (1.0 + (-x).exp()),
            "hard_swish" => x * (x / 6.0 + 0.5).clamp(0.0, 1.0),
            _ => x,
        }
    })
}
