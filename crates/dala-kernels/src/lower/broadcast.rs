//! Buffers of different shapes, element by element: axes are compared from the last one on, and what has size 1, or is not there,
//! is repeated.

use dala_spec::{Expr, Signature};

use super::position;

/// The inputs `a` and `b` at each element of the output.
pub(crate) fn pair(call: &Signature) -> (Expr, Expr) {
    (operand(call, 0, "a"), operand(call, 1, "b"))
}

/// An input at each element of the output.
pub(crate) fn operand(call: &Signature, index: usize, name: &str) -> Expr {
    let (own, output) = (&call.inputs[index].shape, &call.output.shape);
    if own.len() == 1 || own.len() == output.len() {
        return Expr::input(name);
    }
    Expr::input(name).gather(place(&groups(own.dims(), output.dims())))
}

/// Neighbouring axes of the output that are all repeated or all not, as one: its size, and whether it is repeated.
fn groups(own: &[usize], output: &[usize]) -> Vec<(usize, bool)> {
    let missing = output.len().saturating_sub(own.len());
    let mut groups: Vec<(usize, bool)> = Vec::new();
    for (axis, size) in output.iter().enumerate().filter(|(_, size)| **size != 1) {
        let repeated = axis < missing || own[axis - missing] != *size;
        match groups.last_mut() {
            Some(last) if last.1 == repeated => last.0 *= size,
            _ => groups.push((*size, repeated)),
        }
    }
    groups
}

/// Where an element of the output finds its own: of its place, what is not repeated.
fn place(groups: &[(usize, bool)]) -> Expr {
    let sizes: Vec<usize> = groups.iter().map(|(size, _)| *size).collect();
    let kept = position::coordinates(&sizes).into_iter().zip(groups).filter(|(_, (_, repeated))| !repeated);
    let mut steps: Vec<(Expr, usize)> = Vec::new();
    let mut stride = 1;
    for (at, (size, _)) in kept.rev() {
        steps.push((at, stride));
        stride *= size;
    }
    position::place(steps)
}

#[cfg(test)]
mod tests {
    use dala_spec::{DType, Data, Params, TensorType, validate};

    use super::*;
    use crate::Reference;

    #[test]
    fn axes_that_are_repeated_together_are_one() {
        assert_eq!(groups(&[7], &[2, 3, 5, 7]), [(30, true), (7, false)]);
        assert_eq!(groups(&[2, 1, 1, 7], &[2, 3, 5, 7]), [(2, false), (15, true), (7, false)]);
        assert_eq!(groups(&[3, 1], &[1, 3, 5]), [(3, false), (5, true)]);
    }

    #[test]
    fn rows_are_known_to_be_repeated() {
        let kernel = crate::math::elementwise_sub::kernel();
        for (rows, period) in [(4, 5), (4, 1024), (1 << 20, 7)] {
            let types = [&[rows, period][..], &[period]].map(|dims| TensorType::new(DType::F32, dims));
            let signature = validate(&kernel.spec, &types, &types[0], &Params::new()).unwrap();
            assert_eq!(kernel.program(&signature).unwrap().unwrap().period(1), Some(period));
        }
    }

    #[test]
    fn programs_find_what_the_reference_finds() {
        let shapes: [[&[usize]; 3]; 8] = [
            [&[4, 5], &[5], &[4, 5]],
            [&[4, 1], &[4, 5], &[4, 5]],
            [&[4, 1], &[5], &[4, 5]],
            [&[2, 3, 5, 7], &[2, 1, 1, 7], &[2, 3, 5, 7]],
            [&[2, 1, 5, 1], &[3, 1, 7], &[2, 3, 5, 7]],
            [&[3, 1], &[2, 1, 5], &[2, 3, 5]],
            [&[1, 4], &[1, 1, 1], &[1, 1, 4]],
            [&[1, 4], &[1, 1, 1], &[1, 4]],
        ];
        let kernel = crate::math::elementwise_sub::kernel();
        for [a, b, output] in shapes {
            let types = [a, b].map(|dims| TensorType::new(DType::S32, dims));
            let data = types.each_ref().map(|ty| Data::S32((0..ty.shape.len() as i32).map(|at| at * at).collect()));
            let signature =
                validate(&kernel.spec, &types, &TensorType::new(DType::S32, output), &Params::new()).unwrap();
            let program = kernel.program(&signature).unwrap().unwrap();
            let values = program.param_values("elementwise_sub", &signature).unwrap();
            let found = dala_spec::expr::interpret(&program, &data, &values, &signature.output.shape);
            let expected = kernel.reference.as_ref().unwrap()(&Reference { inputs: &data, signature: &signature });
            assert_eq!(found, [expected], "{a:?} {b:?}");
        }
    }
}
