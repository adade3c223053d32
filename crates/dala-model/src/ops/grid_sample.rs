//! `GridSample`: a picture, line or volume sampled at the places that a grid says.

use dala_spec::{Params, Shape, SpecError, TensorType};

use super::operator::{Kind, Operator, Outcome};
use crate::lower::Lowerer;
use crate::op::Compute;

pub(super) const GRID_SAMPLE: Operator = Operator::new("GridSample", Kind::Windows, |call| {
    let dtype = call.float()?;
    let (dims, grid) = (call.dims(0)?, call.dims(1)?);
    call.same_dtype(1)?;
    // Version 20 has other names.
    let mode = match call.text("mode", if call.opset < 20 { "bilinear" } else { "linear" })? {
        "bilinear" | "linear" => "linear",
        "bicubic" | "cubic" => "cubic",
        "nearest" => "nearest",
        other => return Err(call.bad_attribute("mode", "linear, nearest or cubic", other)),
    };
    let outside = match call.text("padding_mode", "zeros")? {
        known @ ("zeros" | "border" | "reflection") => known,
        other => return Err(call.bad_attribute("padding_mode", "zeros, border or reflection", other)),
    };
    let aligned = call.flag("align_corners", false)?;
    let bad =
        || call.shape_mismatch("a value {batch, channels, …} and a grid with a place in it for each result", grid);
    let (&[batch, channels, ref sizes @ ..], &[own, ref places @ ..]) = (dims, grid) else { return Err(bad()) };
    let (&axes, places) = places.split_last().ok_or_else(bad)?;
    if own != batch || places.len() != sizes.len() || axes != sizes.len() || sizes.is_empty() || sizes.contains(&0) {
        return Err(bad());
    }
    let most = if mode == "cubic" { 2 } else { 3 };
    if sizes.len() > most {
        return Err(call.unsupported(format!("not supported: mode {mode} along {} axes", sizes.len())));
    }
    let ty = call.output(dtype, [&[batch, channels], places].concat())?;
    let params = Params::new().with("mode", mode).with("outside", outside).with("align_corners", aligned);
    Ok(Outcome::layer(Sampled { params }, [call.input(0)?, call.input(1)?], ty))
})
.inputs(2, 2);

#[derive(Debug)]
struct Sampled {
    params: Params,
}

impl Compute for Sampled {
    fn cost(&self, _: &[&Shape], _: &[TensorType]) -> Option<usize> {
        None
    }

    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let inputs = [to.first(0)?, to.first(1)?];
        to.call_first("grid_sample", &inputs, &self.params)
    }
}

#[cfg(test)]
mod tests {
    use crate::builder::{Net, text};
    use crate::proto::AttributeProto;

    fn net(x: &[i64], grid: &[i64], attributes: Vec<AttributeProto>) -> Net {
        Net::new(16).x(x).input("grid", 1, grid).node("GridSample", &["x", "grid"], "y", attributes).output("y")
    }

    #[test]
    fn a_result_for_each_place() {
        assert_eq!(net(&[2, 3, 4, 5], &[2, 6, 7, 2], vec![]).dims().unwrap(), [2, 3, 6, 7]);
        assert_eq!(net(&[2, 3, 4, 5, 6], &[2, 6, 7, 8, 3], vec![]).dims().unwrap(), [2, 3, 6, 7, 8]);
        let cubic = || vec![text("mode", "bicubic")];
        assert_eq!(net(&[2, 3, 4, 5, 6], &[2, 6, 7, 8, 3], cubic()).code(), "unsupported_operator");
        assert_eq!(net(&[2, 3, 4, 5], &[2, 6, 7, 3], vec![]).code(), "shape_mismatch");
        assert_eq!(net(&[2, 3, 4, 5], &[1, 6, 7, 2], vec![]).code(), "shape_mismatch");
        assert_eq!(net(&[2, 3, 4, 5], &[2, 6, 7, 2], vec![text("padding_mode", "wrap")]).code(), "bad_attribute");
    }
}
