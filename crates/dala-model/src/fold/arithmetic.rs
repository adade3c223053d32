//! Arithmetic on constants.

use dala_spec::{Data, Shape};

use super::Constant;
use super::moves::{strided, strides};
use crate::{BinaryOp, Op};

/// Steps through `dims` that stay in place along axes where it is repeated to fit `shape`.
fn repeated(dims: &[usize], shape: &[usize]) -> Option<Vec<i64>> {
    let missing = shape.len().checked_sub(dims.len())?;
    let mut steps = vec![0; missing];
    steps.extend(strides(dims).into_iter().zip(dims).map(|(stride, &dim)| if dim == 1 { 0 } else { stride }));
    Some(steps)
}

pub(super) fn binary(op: BinaryOp, a: Constant<'_>, b: Constant<'_>, shape: &Shape) -> Option<Data> {
    let (steps_a, steps_b) = (repeated(a.0.dims(), shape.dims())?, repeated(b.0.dims(), shape.dims())?);
    macro_rules! zip {
        ($variant:ident, $a:ident, $b:ident, $add:expr, $sub:expr, $mul:expr, $div:expr) => {{
            let a = strided($a, shape.dims(), &steps_a, 0)?;
            let b = strided($b, shape.dims(), &steps_b, 0)?;
            let pairs = a.into_iter().zip(b);
            Data::$variant(match op {
                BinaryOp::Add => pairs.map($add).collect(),
                BinaryOp::Sub => pairs.map($sub).collect(),
                BinaryOp::Mul => pairs.map($mul).collect(),
                BinaryOp::Div => pairs.map($div).collect(),
            })
        }};
    }
    macro_rules! floats {
        ($variant:ident, $a:ident, $b:ident) => {
            zip!($variant, $a, $b, |(a, b)| a + b, |(a, b)| a - b, |(a, b)| a * b, |(a, b)| a / b)
        };
    }
    // Division by zero is refused before.
    macro_rules! integers {
        ($variant:ident, $rust:ident, $a:ident, $b:ident) => {
            zip!(
                $variant,
                $a,
                $b,
                |(a, b)| $rust::wrapping_add(a, b),
                |(a, b)| $rust::wrapping_sub(a, b),
                |(a, b)| $rust::wrapping_mul(a, b),
                |(a, b)| if b == 0 { 0 } else { $rust::wrapping_div(a, b) }
            )
        };
    }
    Some(match (&**a.1, &**b.1) {
        (Data::F32(a), Data::F32(b)) => floats!(F32, a, b),
        (Data::F64(a), Data::F64(b)) => floats!(F64, a, b),
        (Data::S32(a), Data::S32(b)) => integers!(S32, i32, a, b),
        (Data::S64(a), Data::S64(b)) => integers!(S64, i64, a, b),
        (Data::U32(a), Data::U32(b)) => integers!(U32, u32, a, b),
        (Data::U8(a), Data::U8(b)) => integers!(U8, u8, a, b),
        _ => return None,
    })
}

pub(super) fn unary(op: &Op, data: &Data) -> Option<Data> {
    match data {
        Data::F32(values) => {
            let function = float_function(op)?;
            Some(Data::F32(values.iter().map(|&value| function(value.into()) as f32).collect()))
        }
        Data::F64(values) => {
            let function = float_function(op)?;
            Some(Data::F64(values.iter().map(|&value| function(value)).collect()))
        }
        Data::S32(values) if *op == Op::Relu => Some(Data::S32(values.iter().map(|&value| value.max(0)).collect())),
        Data::S64(values) if *op == Op::Relu => Some(Data::S64(values.iter().map(|&value| value.max(0)).collect())),
        _ => None,
    }
}

/// The function of an activation; NaN stays NaN.
fn float_function(op: &Op) -> Option<Box<dyn Fn(f64) -> f64>> {
    let limit = |x: f64, min: f64, max: f64| {
        if x < min {
            min
        } else if x > max {
            max
        } else {
            x
        }
    };
    Some(match *op {
        Op::Relu => Box::new(move |x| if x < 0.0 { 0.0 } else { x }),
        // Where the ends are the wrong way round, the upper one holds.
        Op::Clip { min, max } => Box::new(move |x| {
            let x = if x < f64::from(min) { f64::from(min) } else { x };
            if x > f64::from(max) { f64::from(max) } else { x }
        }),
        Op::Sigmoid => Box::new(|x| 1.0 / (1.0 + (-x).exp())),
        Op::HardSwish => Box::new(move |x| x * limit(x / 6.0 + 0.5, 0.0, 1.0)),
        Op::HardSigmoid { alpha, beta } => Box::new(move |x| limit(f64::from(alpha) * x + f64::from(beta), 0.0, 1.0)),
        Op::Tanh => Box::new(f64::tanh),
        Op::LeakyRelu { alpha } => Box::new(move |x| if x < 0.0 { f64::from(alpha) * x } else { x }),
        Op::Exp => Box::new(f64::exp),
        Op::Sqrt => Box::new(f64::sqrt),
        _ => return None,
    })
}

/// The elements as 64-bit floats.
fn widened(data: &Data) -> Vec<f64> {
    data.iter().map(|value| value.as_f64()).collect()
}

/// 64-bit floats rounded to the element type of `like`.
fn narrowed(like: &Data, values: Vec<f64>) -> Data {
    match like {
        Data::F32(_) => Data::F32(values.into_iter().map(|value| value as f32).collect()),
        _ => Data::F64(values),
    }
}

/// The mean over `axes`.
pub(super) fn mean(x: Constant<'_>, axes: &[usize], len: usize) -> Option<Data> {
    let dims = x.0.dims();
    let mut count = 1usize;
    // Steps through the result: none along the axes that go.
    let kept: Vec<usize> =
        dims.iter().enumerate().map(|(axis, &dim)| if axes.contains(&axis) { 1 } else { dim }).collect();
    for &axis in axes {
        count = count.checked_mul(*dims.get(axis)?)?;
    }
    let places: Vec<usize> = (0..len).collect();
    let places = strided(&places, dims, &repeated(&kept, dims)?, 0)?;
    let mut sums = vec![0f64; len];
    for (place, value) in places.into_iter().zip(x.1.iter()) {
        *sums.get_mut(place)? += value.as_f64();
    }
    Some(narrowed(x.1, sums.into_iter().map(|sum| sum / count as f64).collect()))
}

/// One product of matrices whose elements lie `steps` apart.
struct Product<'a> {
    a: &'a [f64],
    b: &'a [f64],
    rows: usize,
    inner: usize,
    columns: usize,
    steps_a: [usize; 2],
    steps_b: [usize; 2],
}

impl Product<'_> {
    fn add_to(&self, result: &mut Vec<f64>) -> Option<()> {
        for row in 0..self.rows {
            for column in 0..self.columns {
                let mut sum = 0.0;
                for step in 0..self.inner {
                    let a = self.a.get(row * self.steps_a[0] + step * self.steps_a[1])?;
                    let b = self.b.get(step * self.steps_b[0] + column * self.steps_b[1])?;
                    sum += a * b;
                }
                result.push(sum);
            }
        }
        Some(())
    }
}

pub(super) fn gemm(inputs: [Constant<'_>; 3], factors: [f32; 2], turned: [bool; 2], shape: &Shape) -> Option<Data> {
    let [a, b, c] = inputs;
    let (&[rows, columns], &[rows_a, columns_a], &[_, columns_b]) = (shape.dims(), a.0.dims(), b.0.dims()) else {
        return None;
    };
    let product = Product {
        a: &widened(a.1),
        b: &widened(b.1),
        rows,
        columns,
        inner: if turned[0] { rows_a } else { columns_a },
        steps_a: if turned[0] { [1, columns_a] } else { [columns_a, 1] },
        steps_b: if turned[1] { [1, columns_b] } else { [columns_b, 1] },
    };
    let mut result = Vec::with_capacity(shape.len());
    product.add_to(&mut result)?;
    let c = strided(&widened(c.1), shape.dims(), &repeated(c.0.dims(), shape.dims())?, 0)?;
    let [alpha, beta] = factors.map(f64::from);
    Some(narrowed(a.1, result.into_iter().zip(c).map(|(product, c)| alpha * product + beta * c).collect()))
}

pub(super) fn mat_mul(a: Constant<'_>, b: Constant<'_>, shape: &Shape) -> Option<Data> {
    // A list is a row on the left and a column on the right.
    let dims = |dims: &[usize], left: bool| match *dims {
        [inner] if left => (Vec::new(), 1, inner),
        [inner] => (Vec::new(), inner, 1),
        [ref stack @ .., rows, columns] => (stack.to_vec(), rows, columns),
        [] => (Vec::new(), 0, 0),
    };
    let (stack_a, rows, inner) = dims(a.0.dims(), true);
    let (stack_b, _, columns) = dims(b.0.dims(), false);
    if shape.is_empty() {
        return Some(narrowed(a.1, Vec::new()));
    }
    let stack = crate::infer::broadcast(&stack_a, &stack_b)?;
    let matrices = |stack_dims: &[usize]| {
        let numbers: Vec<usize> = (0..stack_dims.iter().product()).collect();
        strided(&numbers, &stack, &repeated(stack_dims, &stack)?, 0)
    };
    let (a_values, b_values) = (widened(a.1), widened(b.1));
    let mut result = Vec::with_capacity(shape.len());
    for (number_a, number_b) in matrices(&stack_a)?.into_iter().zip(matrices(&stack_b)?) {
        let product = Product {
            a: a_values.get(number_a * rows * inner..)?,
            b: b_values.get(number_b * inner * columns..)?,
            rows,
            inner,
            columns,
            steps_a: [inner, 1],
            steps_b: [columns, 1],
        };
        product.add_to(&mut result)?;
    }
    Some(narrowed(a.1, result))
}
