//! From layers to calls of kernels.
//!
//! Files have pictures with their channels first; kernels want them last, as pictures are and as vectors like it. A value is held in
//! either order, or both, and turned only where a layer needs the other one: in most networks once, at the start.

mod layout;
mod resize;

use std::sync::Arc;

use dala_kernels::Composite;
use dala_spec::{DType, Data, Params, Scalar, Shape, SpecError, TensorType};

use crate::{BinaryOp, Layer, Network, Op, PadMode};
use layout::{axes_last, dims_last, turned};

/// The calls that compute a network's first output.
pub(crate) fn lower(network: &Network) -> Result<Composite, SpecError> {
    let ty = |number: &usize| network.values[*number].ty.clone();
    let types: Vec<TensorType> = network.inputs.iter().map(ty).collect();
    let mut lowering =
        Lowerer { calls: Composite::new(&types), values: vec![Held::default(); network.values.len()], network };
    for (cell, number) in network.inputs.iter().enumerate() {
        lowering.values[*number].first = Some(cell);
    }
    for layer in &network.layers {
        lowering.layer(layer)?;
    }
    let output = network.outputs.first().copied().unwrap_or_default();
    let cell = lowering.first(output)?;
    lowering.calls.result(cell)
}

/// The cells of a value: channels first, as in the file, and channels last.
#[derive(Clone, Copy, Default)]
struct Held {
    first: Option<usize>,
    last: Option<usize>,
}

struct Lowerer<'a> {
    network: &'a Network,
    calls: Composite,
    values: Vec<Held>,
}

impl Lowerer<'_> {
    fn dims(&self, value: usize) -> &[usize] {
        self.network.values[value].ty.shape.dims()
    }

    fn dtype(&self, value: usize) -> DType {
        self.network.values[value].ty.dtype
    }

    /// The type of a value with its channels last.
    fn type_last(&self, value: usize) -> TensorType {
        TensorType::new(self.dtype(value), dims_last(self.dims(value)))
    }

    /// A value as it is in the file.
    fn first(&mut self, value: usize) -> Result<usize, SpecError> {
        if let Some(cell) = self.values[value].first {
            return Ok(cell);
        }
        let own = &self.network.values[value];
        let cell = match (&own.constant, self.values[value].last) {
            (Some(data), _) => self.calls.constant(own.ty.clone(), data.clone()),
            (None, Some(last)) => self.turn(&own.name, last, &[0, 3, 1, 2])?,
            // Every value is an input, a constant, or made by a layer before.
            (None, None) => return Err(SpecError::internal(format!("`{}` is not made by any layer", own.name))),
        };
        self.values[value].first = Some(cell);
        Ok(cell)
    }

    /// A value with its channels last; of fewer than four axes, as if it had them.
    fn last(&mut self, value: usize) -> Result<usize, SpecError> {
        if let Some(cell) = self.values[value].last {
            return Ok(cell);
        }
        let (ty, own) = (self.type_last(value), &self.network.values[value]);
        let cell = match &own.constant {
            Some(data) => {
                let data = turned(data, &layout::four(own.ty.shape.dims()), [0, 2, 3, 1]);
                self.calls.constant(ty, data)
            }
            None => {
                let first = self.first(value)?;
                let four = TensorType::new(own.ty.dtype, layout::four(own.ty.shape.dims()));
                let seen = self.calls.view(first, four);
                self.turn(&own.name, seen, &[0, 2, 3, 1])?
            }
        };
        self.values[value].last = Some(cell);
        Ok(cell)
    }

    /// The axes of a cell in another order: nothing to do where only axes of size one change places.
    fn turn(&mut self, name: &str, cell: usize, axes: &[i64]) -> Result<usize, SpecError> {
        let from = self.calls.ty(cell);
        let size = |axis: &i64| from.shape.dims()[*axis as usize];
        let ty = TensorType::new(from.dtype, axes.iter().map(size).collect::<Vec<usize>>());
        if axes.iter().filter(|axis| size(axis) != 1).is_sorted() {
            return Ok(self.calls.view(cell, ty));
        }
        let name = format!("{name}, turned");
        self.calls.call(&name, "transpose", &[cell], ty, &Params::new().with("axes", axes.to_vec()))
    }

    /// Whether a value is at hand with its channels last, and not as it is in the file.
    fn is_last(&self, value: usize) -> bool {
        self.values[value].last.is_some() && self.values[value].first.is_none()
    }

    /// A call that makes a layer's output with channels last.
    fn call_last(&mut self, layer: &Layer, kernel: &str, inputs: &[usize], params: &Params) -> Result<(), SpecError> {
        let ty = self.type_last(layer.output);
        self.values[layer.output].last = Some(self.calls.call(&layer.name, kernel, inputs, ty, params)?);
        Ok(())
    }

    /// A call that makes a layer's output as it is in the file.
    fn call_first(&mut self, layer: &Layer, kernel: &str, inputs: &[usize], params: &Params) -> Result<(), SpecError> {
        let ty = self.network.values[layer.output].ty.clone();
        self.values[layer.output].first = Some(self.calls.call(&layer.name, kernel, inputs, ty, params)?);
        Ok(())
    }

    /// A call on each element: in whatever order its input is.
    fn each(&mut self, layer: &Layer, kernel: &str, params: &Params) -> Result<(), SpecError> {
        let x = layer.inputs[0];
        match self.is_last(x) {
            true => {
                let x = self.last(x)?;
                self.call_last(layer, kernel, &[x], params)
            }
            false => {
                let x = self.first(x)?;
                self.call_first(layer, kernel, &[x], params)
            }
        }
    }

    fn layer(&mut self, layer: &Layer) -> Result<(), SpecError> {
        let none = Params::new();
        let x = layer.inputs.first().copied().unwrap_or_default();
        let ints = |list: &[usize]| list.iter().map(|n| *n as i64).collect::<Vec<i64>>();
        match &layer.op {
            Op::Conv { stride, padding, dilation, groups } => {
                let params = Params::new()
                    .with("stride", ints(stride))
                    .with("padding", ints(padding))
                    .with("dilation", ints(dilation))
                    .with("groups", *groups as i64);
                // Convolutions read either order; where each channel is by itself, only the one with channels last.
                let turned = self.is_last(x) || *groups > 1 || self.network.values[x].constant.is_some();
                let layout = if turned { "nhwc" } else { "nchw" };
                let x = if turned { self.last(x)? } else { self.first(x)? };
                let inputs = [x, self.weight(layer.inputs[1])?, self.first(layer.inputs[2])?];
                self.call_last(layer, "conv2d", &inputs, &params.with("layout", layout))
            }
            Op::BatchNorm { epsilon } => {
                let params = Params::new().with("epsilon", f64::from(*epsilon));
                let rest = layer.inputs[1..].iter().map(|value| self.first(*value)).collect::<Result<Vec<_>, _>>()?;
                match self.dims(x).len() {
                    4 => {
                        let inputs = [&[self.last(x)?], &rest[..]].concat();
                        self.call_last(layer, "batch_norm", &inputs, &params)
                    }
                    rank => {
                        // The kernel wants channels last; the file has them second.
                        let axes = (2..rank).chain([1]).map(|axis| axis as i64);
                        let order: Vec<i64> = [0].into_iter().chain(axes).collect();
                        let x = self.first(x)?;
                        let turned = self.turn(&layer.name, x, &order)?;
                        let inputs = [&[turned], &rest[..]].concat();
                        let ty = self.calls.ty(turned).clone();
                        let made = self.calls.call(&layer.name, "batch_norm", &inputs, ty, &params)?;
                        let back = (1..rank - 1).map(|axis| axis as i64);
                        let order: Vec<i64> = [0, rank as i64 - 1].into_iter().chain(back).collect();
                        self.values[layer.output].first = Some(self.turn(&layer.name, made, &order)?);
                        Ok(())
                    }
                }
            }
            Op::Relu => self.each(layer, "relu", &none),
            Op::LeakyRelu { alpha } => self.each(layer, "relu", &none.with("slope", f64::from(*alpha))),
            Op::Clip { min, max } => {
                self.each(layer, "clamp", &none.with("min", f64::from(*min)).with("max", f64::from(*max)))
            }
            Op::Sigmoid => self.each(layer, "sigmoid", &none),
            Op::HardSwish => self.each(layer, "hard_swish", &none),
            Op::HardSigmoid { alpha, beta } => {
                let params = none.with("alpha", f64::from(*alpha)).with("beta", f64::from(*beta));
                self.each(layer, "hard_sigmoid", &params)
            }
            Op::Tanh => self.each(layer, "tanh", &none),
            Op::Exp => self.each(layer, "exp", &none),
            Op::Sqrt => self.each(layer, "sqrt", &none),
            Op::Cast => self.each(layer, "cast", &none),
            Op::Binary(op) => {
                let kernel = match op {
                    BinaryOp::Add => "elementwise_add",
                    BinaryOp::Sub => "elementwise_sub",
                    BinaryOp::Mul => "elementwise_mul",
                    BinaryOp::Div => "elementwise_div",
                };
                let pictures = self.dims(layer.output).len() == 4;
                if pictures && layer.inputs.iter().any(|input| self.is_last(*input)) {
                    let inputs = [self.last(x)?, self.last(layer.inputs[1])?];
                    self.call_last(layer, kernel, &inputs, &none)
                } else {
                    let inputs = [self.first(x)?, self.first(layer.inputs[1])?];
                    self.call_first(layer, kernel, &inputs, &none)
                }
            }
            Op::Gemm { alpha, beta, transpose_a, transpose_b } => {
                self.gemm(layer, [*alpha, *beta], *transpose_a, *transpose_b)
            }
            Op::MatMul => self.matmul(layer),
            Op::GlobalAveragePool => {
                let x = self.last(x)?;
                self.call_last(layer, "global_avg_pool", &[x], &none)
            }
            Op::AveragePool { size, stride, padding, count_padding } => {
                let params = none
                    .with("size", ints(size))
                    .with("stride", ints(stride))
                    .with("padding", ints(padding))
                    .with("count_padding", *count_padding);
                let x = self.last(x)?;
                self.call_last(layer, "avg_pool2d", &[x], &params)
            }
            Op::MaxPool { size, stride, padding, dilation } => {
                let params = none
                    .with("size", ints(size))
                    .with("stride", ints(stride))
                    .with("padding", ints(padding))
                    .with("dilation", ints(dilation));
                let x = self.last(x)?;
                self.call_last(layer, "max_pool2d", &[x], &params)
            }
            Op::Reshape => {
                let cell = self.first(x)?;
                let seen = self.calls.view(cell, self.network.values[layer.output].ty.clone());
                self.values[layer.output].first = Some(seen);
                Ok(())
            }
            Op::Transpose { perm } => {
                match (&perm[..], self.is_last(x)) {
                    // What it asks for is there already.
                    ([0, 2, 3, 1], true) => self.values[layer.output].first = self.values[x].last,
                    ([0, 3, 1, 2], false) => self.values[layer.output].last = Some(self.first(x)?),
                    _ => {
                        let x = self.first(x)?;
                        return self.call_first(layer, "transpose", &[x], &none.with("axes", ints(perm)));
                    }
                }
                Ok(())
            }
            Op::Concat { axis } => self.concat(layer, *axis),
            Op::Slice { starts, steps } => match self.is_last(x) {
                true => {
                    let params = none.with("start", ints(&axes_last(starts))).with("step", ints(&axes_last(steps)));
                    let x = self.last(x)?;
                    self.call_last(layer, "slice", &[x], &params)
                }
                false => {
                    let x = self.first(x)?;
                    self.call_first(layer, "slice", &[x], &none.with("start", ints(starts)).with("step", ints(steps)))
                }
            },
            Op::Gather { axis } => {
                let inputs = [self.first(x)?, self.first(layer.inputs[1])?];
                self.call_first(layer, "gather", &inputs, &none.with("axis", *axis as i64))
            }
            Op::Softmax { axes, .. } => self.softmax(layer, axes),
            Op::ReduceMean { axes } => self.mean(layer, axes),
            Op::Resize { mode, coordinates, rounding, scale } => {
                self.resize(layer, *mode, *coordinates, *rounding, *scale)
            }
            Op::Pad { before, after, mode } => {
                let params = match mode {
                    PadMode::Constant(value) => none.with("mode", "constant").with("value", f64::from(*value)),
                    PadMode::Reflect => none.with("mode", "reflect"),
                    PadMode::Edge => none.with("mode", "edge"),
                };
                match self.is_last(x) {
                    true => {
                        let sides = params.with("before", ints(&axes_last(before)));
                        let x = self.last(x)?;
                        self.call_last(layer, "pad", &[x], &sides.with("after", ints(&axes_last(after))))
                    }
                    false => {
                        let x = self.first(x)?;
                        let sides = params.with("before", ints(before)).with("after", ints(after));
                        self.call_first(layer, "pad", &[x], &sides)
                    }
                }
            }
        }
    }

    /// The weights of a convolution: from `{out, in, rows, columns}` to `{rows, columns, in, out}`.
    fn weight(&mut self, value: usize) -> Result<usize, SpecError> {
        let own = &self.network.values[value];
        let &[out, inside, rows, columns] = own.ty.shape.dims() else { return self.first(value) };
        let ty = TensorType::new(own.ty.dtype, [rows, columns, inside, out]);
        match &own.constant {
            Some(data) => {
                let data = turned(data, &[out, inside, rows, columns], [2, 3, 1, 0]);
                Ok(self.calls.constant(ty, data))
            }
            None => {
                let cell = self.first(value)?;
                self.turn(&own.name, cell, &[2, 3, 1, 0])
            }
        }
    }

    fn gemm(
        &mut self,
        layer: &Layer,
        [alpha, beta]: [f32; 2],
        transpose_a: bool,
        transpose_b: bool,
    ) -> Result<(), SpecError> {
        let (a, b, c) = (self.first(layer.inputs[0])?, self.first(layer.inputs[1])?, self.first(layer.inputs[2])?);
        let ty = self.network.values[layer.output].ty.clone();
        let columns = ty.shape.dims().last().copied().unwrap_or_default();
        let is_bias = self.calls.ty(c).shape.len() == columns && matches!(self.calls.ty(c).shape.dims(), [_] | [1, _]);
        if alpha == 1.0 && beta == 1.0 && !transpose_a && is_bias {
            let bias = self.calls.view(c, TensorType::new(ty.dtype, [columns]));
            return self.call_first(
                layer,
                "dense",
                &[a, b, bias],
                &Params::new().with("transpose_weight", transpose_b),
            );
        }
        let params = Params::new().with("transpose_a", transpose_a).with("transpose_b", transpose_b);
        let mut product = self.calls.call(&layer.name, "matmul", &[a, b], ty.clone(), &params)?;
        let mut c = c;
        let scaled = |calls: &mut Composite, cell: usize, factor: f32| match factor == 1.0 {
            true => Ok(cell),
            false => {
                let params = Params::new().with("scalar", f64::from(factor));
                let ty = calls.ty(cell).clone();
                calls.call(&layer.name, "scalar_mul", &[cell], ty, &params)
            }
        };
        product = scaled(&mut self.calls, product, alpha)?;
        c = scaled(&mut self.calls, c, beta)?;
        self.call_first(layer, "elementwise_add", &[product, c], &Params::new())
    }

    fn matmul(&mut self, layer: &Layer) -> Result<(), SpecError> {
        let (mut a, mut b) = (self.first(layer.inputs[0])?, self.first(layer.inputs[1])?);
        let mut ty = self.network.values[layer.output].ty.clone();
        let dtype = ty.dtype;
        // Vectors count as matrices of one row, or of one column.
        let (left, right) = (self.calls.ty(a).shape.dims().to_vec(), self.calls.ty(b).shape.dims().to_vec());
        let mut dims = ty.shape.dims().to_vec();
        if let [size] = left[..] {
            a = self.calls.view(a, TensorType::new(dtype, [1, size]));
            dims.insert(dims.len() - usize::from(right.len() > 1), 1);
        }
        if let [size] = right[..] {
            b = self.calls.view(b, TensorType::new(dtype, [size, 1]));
            dims.push(1);
        }
        let stack = dims[..dims.len() - 2].to_vec();
        ty.shape = Shape::new(dims);
        a = self.stacked(layer, a, &stack)?;
        b = self.stacked(layer, b, &stack)?;
        let made = self.calls.call(&layer.name, "matmul", &[a, b], ty, &Params::new())?;
        let seen = self.calls.view(made, self.network.values[layer.output].ty.clone());
        self.values[layer.output].first = Some(seen);
        Ok(())
    }

    /// Matrices, as many as the product has: repeated where there are fewer, unless there is one for all.
    fn stacked(&mut self, layer: &Layer, cell: usize, stack: &[usize]) -> Result<usize, SpecError> {
        let ty = self.calls.ty(cell).clone();
        let [own @ .., rows, columns] = ty.shape.dims() else { return Ok(cell) };
        if own == stack {
            return Ok(cell);
        }
        if own.iter().all(|size| *size == 1) {
            return Ok(self.calls.view(cell, TensorType::new(ty.dtype, [*rows, *columns])));
        }
        // The sum with nothing has the larger shape of the two.
        let zeros =
            Data::collect(ty.dtype, std::iter::repeat_n(Scalar::from_f64(ty.dtype, 0.0), stack.iter().product()));
        let zeros = self.constant(zeros, &[stack, &[1, 1]].concat());
        let full = TensorType::new(ty.dtype, [stack, &[*rows, *columns]].concat());
        let name = format!("{}, repeated", layer.name);
        self.calls.call(&name, "elementwise_add", &[cell, zeros], full, &Params::new())
    }

    fn concat(&mut self, layer: &Layer, axis: usize) -> Result<(), SpecError> {
        /// As many as a launch binds on every device, with the result.
        const MOST: usize = 4;
        let last = self.dims(layer.output).len() == 4 && layer.inputs.iter().any(|input| self.is_last(*input));
        let axis = if last { layout::axis_last(axis) } else { axis };
        let mut cells = Vec::new();
        for input in &layer.inputs {
            let cell = if last { self.last(*input)? } else { self.first(*input)? };
            if !self.calls.ty(cell).shape.is_empty() {
                cells.push(cell);
            }
        }
        let params = Params::new().with("axis", axis as i64);
        // Many are put together in groups.
        while cells.len() > MOST {
            let mut grouped = Vec::new();
            for group in cells.chunks(MOST) {
                grouped.push(match group {
                    [only] => *only,
                    _ => {
                        let mut dims = self.calls.ty(group[0]).shape.dims().to_vec();
                        dims[axis] = group.iter().map(|cell| self.calls.ty(*cell).shape.dims()[axis]).sum();
                        let ty = TensorType::new(self.dtype(layer.output), dims);
                        self.calls.call(&layer.name, "concat", group, ty, &params)?
                    }
                });
            }
            cells = grouped;
        }
        match last {
            true => self.call_last(layer, "concat", &cells, &params),
            false => self.call_first(layer, "concat", &cells, &params),
        }
    }

    fn softmax(&mut self, layer: &Layer, axes: &[usize]) -> Result<(), SpecError> {
        let x = self.first(layer.inputs[0])?;
        if let [axis] = axes {
            return self.call_first(layer, "softmax", &[x], &Params::new().with("axis", *axis as i64));
        }
        // Old files mean everything from an axis on.
        let dims = self.dims(layer.output).to_vec();
        let from = axes.first().copied().unwrap_or(dims.len());
        let flat = |dims: &[usize]| dims.iter().product::<usize>();
        let ty = TensorType::new(self.dtype(layer.output), [flat(&dims[..from]), flat(&dims[from..])]);
        let seen = self.calls.view(x, ty.clone());
        let made = self.calls.call(&layer.name, "softmax", &[seen], ty, &Params::new())?;
        let seen = self.calls.view(made, self.network.values[layer.output].ty.clone());
        self.values[layer.output].first = Some(seen);
        Ok(())
    }

    fn mean(&mut self, layer: &Layer, axes: &[usize]) -> Result<(), SpecError> {
        let x = layer.inputs[0];
        let kept = self.dims(x).len() == self.dims(layer.output).len();
        let list = |axes: &[usize]| axes.iter().map(|axis| *axis as i64).collect::<Vec<i64>>();
        if self.is_last(x) && (kept || axes == [2, 3]) {
            let mut own: Vec<usize> = axes.iter().map(|axis| layout::axis_last(*axis)).collect();
            own.sort_unstable();
            let params = Params::new().with("axes", list(&own)).with("keep_dims", kept);
            let x = self.last(x)?;
            return match kept {
                true => self.call_last(layer, "reduce_mean", &[x], &params),
                false => self.call_first(layer, "reduce_mean", &[x], &params),
            };
        }
        let params = Params::new().with("axes", list(axes)).with("keep_dims", kept);
        let x = self.first(x)?;
        self.call_first(layer, "reduce_mean", &[x], &params)
    }

    fn constant(&mut self, data: Data, dims: &[usize]) -> usize {
        self.calls.constant(TensorType::new(data.dtype(), dims), Arc::new(data))
    }
}
