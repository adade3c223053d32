//! Kernels made from the text of an expression, for the calls of a composite that no named kernel stands for.

use dala_spec::{
    Class, Expr, KernelSpec, NUMBERS, OutputDType, ParamKind, Params, Scope, Shape, ShapeCall, ShapeProblem, Signature,
    SpecError, param,
};

use crate::Kernel;
use crate::lower::broadcast::operand;
use crate::lower::shapes::chosen;

/// The kernel of an expression over inputs of these names, which broadcast to the output unless it only gathers from them. The
/// params that it uses are those of the call.
pub(crate) fn kernel(text: &str, names: &[&str], params: &Params) -> Result<Kernel, SpecError> {
    let expr = Expr::parse(text, &Scope::new(names.iter().copied(), params.iter().map(|(name, _)| name)))?;
    let repeated: Vec<usize> = (0..names.len()).filter(|place| !expr.only_gathers(names[*place])).collect();
    let shapes = repeated.clone();
    let mut spec = KernelSpec::new("expression", Class::Pointwise).summary(text).tolerance(expr.tolerance(|_| false));
    spec = names.iter().fold(spec, |spec, name| spec.input(*name, NUMBERS));
    spec = params.iter().fold(spec, |spec, (name, _)| spec.param(param(name, ParamKind::Number)));
    spec = spec.computed("any that the inputs broadcast to", OutputDType::OneOf(NUMBERS), move |call| {
        broadcast(call, &shapes)
    });
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    Ok(Kernel::pointwise(spec, move |call: &Signature| {
        let values: Vec<(&str, Expr)> =
            repeated.iter().map(|place| (names[*place].as_str(), repeat(call, *place, &names[*place]))).collect();
        expr.with_inputs(&values)
    }))
}

/// The output's shape, if the inputs at these places broadcast to it; one of one element always does.
fn broadcast(call: &ShapeCall, places: &[usize]) -> Result<Shape, ShapeProblem> {
    let output = chosen(call)?;
    for place in places {
        let own = &call.inputs[*place].shape;
        if own.len() != 1 && own.broadcast(output).as_ref() != Some(output) {
            return Err(ShapeProblem::Input(*place, format!("one that broadcasts to {output}")));
        }
    }
    Ok(output.clone())
}

/// An input at each element of the output; a single element is found at its only place.
fn repeat(call: &Signature, place: usize, name: &str) -> Expr {
    match call.inputs[place].shape.len() == 1 && call.output.shape.len() > 1 {
        true => Expr::input(name).gather(0),
        false => operand(call, place, name),
    }
}

#[cfg(test)]
mod tests {
    use dala_spec::{DType, Data, Params, TensorType};

    use crate::{Composite, Parts};

    #[test]
    fn inputs_are_repeated_and_tables_are_not() {
        let mut calls = Composite::new(&[]);
        let constant = |calls: &mut Composite, values: Vec<i32>, dims: &[usize]| {
            calls.constant(TensorType::new(DType::S32, dims), Data::S32(values))
        };
        let (a, b) = (constant(&mut calls, vec![1, 2], &[2, 1]), constant(&mut calls, vec![10, 20, 30], &[3]));
        let table = constant(&mut calls, vec![0, 100, 200, 300, 400], &[5]);
        let (output, params) = (TensorType::new(DType::S32, [2, 3]), Params::new().with("more", 1000));
        let inputs = [("a", a), ("b", b), ("table", table)];
        let made = calls.map("it", "b + gather(table, a) + more", &inputs, output, &params).unwrap();
        let found = calls.clone().result(made).unwrap().on_host(&[]).unwrap();
        assert_eq!(found, Some(Data::S32(vec![1110, 1120, 1130, 1210, 1220, 1230])));
        let narrow = TensorType::new(DType::S32, [2, 2]);
        assert_eq!(calls.map("it", "b", &[("b", b)], narrow, &Params::new()).unwrap_err().code(), "shape_mismatch");
    }
}
