//! What kernels' plain Rust references work with.

use dala_spec::expr::{store, widen};
use dala_spec::{DType, Data, ParamKey, ResolvedParams, Scalar, Signature};

/// A call on the host: typed data in, and what the output must be.
pub struct Reference<'a> {
    /// The inputs' elements.
    pub inputs: &'a [Data],
    /// The call's types and params.
    pub signature: &'a Signature,
}

impl Reference<'_> {
    /// The output's element type.
    pub fn dtype(&self) -> DType {
        self.signature.output.dtype
    }

    /// How many elements the output has.
    pub fn len(&self) -> usize {
        self.signature.output.shape.len()
    }

    /// Whether the output has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A numeric param.
    pub fn number(&self, key: ParamKey) -> f64 {
        self.signature.params.float(key)
    }

    /// An input's element that belongs to output element `index`: what is smaller than the output is repeated.
    pub fn at(&self, input: usize, index: usize) -> Scalar {
        let (own, output) = (&self.signature.inputs[input].shape, &self.signature.output.shape);
        let index = match own.len() {
            1 => 0,
            len if len == output.len() => index,
            _ => repeated(own.dims(), output.dims(), index),
        };
        self.inputs[input].get(index).unwrap_or(Scalar::U8(0))
    }

    /// An input's element as a number.
    pub fn float(&self, input: usize, index: usize) -> f64 {
        self.inputs[input].get(index).map_or(0.0, Scalar::as_f64)
    }

    /// The params.
    pub fn params(&self) -> &ResolvedParams {
        &self.signature.params
    }

    /// The output, element by element, from numbers: rounded half to even and saturated where it holds integers.
    pub fn numbers(&self, f: impl Fn(usize) -> f64) -> Data {
        let dtype = self.dtype();
        let stored = |value: f64| if dtype.is_float() { value } else { value.round_ties_even() };
        Data::collect(dtype, (0..self.len()).map(|index| Scalar::from_f64(dtype, stored(f(index)))))
    }

    /// The sum of products of elements of the first two inputs, at these pairs of positions, and of one more element, an input's
    /// number and a position in it. Integers wrap.
    pub fn products(&self, pairs: impl Iterator<Item = (usize, usize)>, plus: Option<(usize, usize)>) -> f64 {
        if self.dtype().is_float() {
            let sum: f64 = pairs.map(|(a, b)| self.float(0, a) * self.float(1, b)).sum();
            return sum + plus.map_or(0.0, |(input, at)| self.float(input, at));
        }
        let whole = |input: usize, at: usize| self.float(input, at) as i64;
        let first = plus.map_or(0, |(input, at)| whole(input, at));
        let sum = pairs.fold(first, |sum, (a, b)| sum.wrapping_add(whole(0, a).wrapping_mul(whole(1, b))));
        (sum as i32).into()
    }

    /// The output, element by element, from elements of inputs: an input's number and a position in it.
    pub fn moved(&self, f: impl Fn(usize) -> (usize, usize)) -> Data {
        let element = |index: usize| {
            let (input, at) = f(index);
            self.inputs[input].get(at).unwrap_or(Scalar::U8(0))
        };
        Data::collect(self.dtype(), (0..self.len()).map(element))
    }

    /// For each output element, the positions in the first input that are folded into it when `axes` are reduced.
    pub fn lines(&self, axes: &[usize]) -> Vec<Vec<usize>> {
        let dims = self.signature.inputs[0].shape.dims();
        let mut lines = vec![Vec::new(); self.len()];
        for index in 0..self.inputs[0].len() {
            let (mut rest, mut line, mut size) = (index, 0, 1);
            for axis in (0..dims.len()).rev() {
                let at = rest % dims[axis];
                rest /= dims[axis];
                if !axes.contains(&axis) {
                    line += at * size;
                    size *= dims[axis];
                }
            }
            lines[line].push(index);
        }
        lines
    }

    /// One output element per element of the first input. Integers of 8 and 16 bits are handed over as `s32`, 16-bit floats as
    /// `f32`; what `f` gives is stored as the output's type.
    pub fn map(&self, f: impl Fn(Scalar) -> Scalar) -> Data {
        let element = |index| store(f(widen(self.at(0, index))), self.dtype());
        Data::collect(self.dtype(), (0..self.len()).map(element))
    }

    /// One output element per pair of elements, as [`map`](Reference::map) does.
    pub fn zip(&self, f: impl Fn(Scalar, Scalar) -> Scalar) -> Data {
        let element = |index| store(f(widen(self.at(0, index)), widen(self.at(1, index))), self.dtype());
        Data::collect(self.dtype(), (0..self.len()).map(element))
    }
}

/// Where output element `index` is found in a buffer whose axes of size 1, or that are not there, are repeated.
fn repeated(own: &[usize], output: &[usize], index: usize) -> usize {
    let (mut rest, mut place, mut stride) = (index, 0, 1);
    for (own, output) in own.iter().rev().zip(output.iter().rev()) {
        place += rest % output % own * stride;
        rest /= output;
        stride *= own;
    }
    place
}

/// A function on two values of one type: one formula for floats and one for integers.
macro_rules! on_pairs {
    ($x:ident, $y:ident; float $float:expr; int $int:expr) => {
        |a: dala_spec::Scalar, b: dala_spec::Scalar| match (a, b) {
            (dala_spec::Scalar::F32($x), dala_spec::Scalar::F32($y)) => dala_spec::Scalar::F32($float),
            (dala_spec::Scalar::F64($x), dala_spec::Scalar::F64($y)) => dala_spec::Scalar::F64($float),
            (dala_spec::Scalar::S32($x), dala_spec::Scalar::S32($y)) => dala_spec::Scalar::S32($int),
            (dala_spec::Scalar::S64($x), dala_spec::Scalar::S64($y)) => dala_spec::Scalar::S64($int),
            (dala_spec::Scalar::U32($x), dala_spec::Scalar::U32($y)) => dala_spec::Scalar::U32($int),
            (dala_spec::Scalar::U64($x), dala_spec::Scalar::U64($y)) => dala_spec::Scalar::U64($int),
            (a, b) => unreachable!("{a:?} and {b:?} in one call"),
        }
    };
}

/// A function on one value: one formula for floats and one for integers.
macro_rules! on_numbers {
    ($x:ident; float $float:expr; int $int:expr) => {
        |value: dala_spec::Scalar| match value {
            dala_spec::Scalar::F32($x) => dala_spec::Scalar::F32($float),
            dala_spec::Scalar::F64($x) => dala_spec::Scalar::F64($float),
            dala_spec::Scalar::S32($x) => dala_spec::Scalar::S32($int),
            dala_spec::Scalar::S64($x) => dala_spec::Scalar::S64($int),
            dala_spec::Scalar::U32($x) => dala_spec::Scalar::U32($int),
            dala_spec::Scalar::U64($x) => dala_spec::Scalar::U64($int),
            other => unreachable!("{other:?} is widened"),
        }
    };
}

/// A function on one float, computed in f64 and rounded once.
macro_rules! on_floats {
    ($x:ident => $formula:expr) => {
        |value: dala_spec::Scalar| {
            let $x = value.as_f64();
            dala_spec::Scalar::from_f64(value.dtype(), $formula)
        }
    };
}

/// Hand-computed cases: inputs, params and the output of a kernel's reference.
macro_rules! kernel_cases {
    ($($name:ident: $inputs:expr, $params:expr => $output:expr;)+) => {
        #[cfg(test)]
        mod tests {
            use super::*;
            #[allow(unused_imports, reason = "not every kernel has cases of halves")]
            use dala_spec::{Data::*, Params, TensorType, bf16, f16, validate};
            $(
                #[test]
                fn $name() {
                    let kernel = kernel();
                    let (inputs, output): (Vec<dala_spec::Data>, dala_spec::Data) = ($inputs.into(), $output);
                    let ty = |data: &dala_spec::Data| TensorType::new(data.dtype(), [data.len()]);
                    let types: Vec<TensorType> = inputs.iter().map(ty).collect();
                    let params: Params = $params;
                    let signature = validate(&kernel.spec, &types, &ty(&output), &params).unwrap();
                    let reference = kernel.reference.as_ref().unwrap();
                    assert_eq!(reference(&crate::Reference { inputs: &inputs, signature: &signature }), output);
                    // What devices are given to do computes the same.
                    let program = kernel.program(&signature).unwrap().unwrap();
                    let values = program.param_values(&kernel.spec.name, &signature).unwrap();
                    let shape = &signature.output.shape;
                    assert_eq!(dala_spec::expr::interpret(&program, &inputs, &values, shape), [output]);
                }
            )+
        }
    };
}

pub(crate) use {kernel_cases, on_floats, on_numbers, on_pairs};
