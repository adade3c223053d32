//! `DepthToSpace` and `SpaceToDepth`: channels become blocks of pixels, and blocks of pixels channels.

use dala_spec::{SpecError, TensorType};

use super::call::NodeCall;
use super::operator::{Kind, Operator, Outcome};
use crate::ModelError;
use crate::lower::Lowerer;
use crate::op::Compute;

pub(super) const DEPTH_TO_SPACE: Operator = Operator::new("DepthToSpace", Kind::Layout, |call| {
    let ([batch, channels, height, width], block) = (call.picture()?, block(call)?);
    let each = block.saturating_mul(block);
    if channels % each != 0 {
        return Err(call.shape_mismatch(format!("channels in blocks of {each}"), call.dims(0)?));
    }
    // Which of the axes of the channels count the rows and columns of a block.
    let (split, turn) = match call.text("mode", "DCR")? {
        "DCR" => ([batch, block, block, channels / each, height, width], [0, 3, 4, 1, 5, 2]),
        "CRD" => ([batch, channels / each, block, block, height, width], [0, 1, 4, 2, 5, 3]),
        other => return Err(call.bad_attribute("mode", "DCR or CRD", other)),
    };
    let dims = vec![batch, channels / each, height.saturating_mul(block), width.saturating_mul(block)];
    let ty = call.output(call.dtype(0)?, dims)?;
    Ok(Outcome::layer(Blocks { split, turn }, [call.input(0)?], ty))
});

pub(super) const SPACE_TO_DEPTH: Operator = Operator::new("SpaceToDepth", Kind::Layout, |call| {
    let ([batch, channels, height, width], block) = (call.picture()?, block(call)?);
    if height % block != 0 || width % block != 0 {
        return Err(call.shape_mismatch(format!("height and width in blocks of {block}"), call.dims(0)?));
    }
    let (rows, columns) = (height / block, width / block);
    let split = [batch, channels, rows, block, columns, block];
    let turn = match call.text("mode", "DCR")? {
        "DCR" => [0, 3, 5, 1, 2, 4],
        "CRD" => [0, 1, 3, 5, 2, 4],
        other => return Err(call.bad_attribute("mode", "DCR or CRD", other)),
    };
    let dims = vec![batch, channels.saturating_mul(block).saturating_mul(block), rows, columns];
    let ty = call.output(call.dtype(0)?, dims)?;
    Ok(Outcome::layer(Blocks { split, turn }, [call.input(0)?], ty))
});

fn block(call: &NodeCall<'_>) -> Result<usize, ModelError> {
    let block = call.int("blocksize", 0)?;
    let size = usize::try_from(block).ok().filter(|&size| size > 0);
    size.ok_or_else(|| call.bad_attribute("blocksize", "at least 1", block))
}

/// The value seen in other axes, which are then turned.
#[derive(Debug)]
struct Blocks {
    split: [usize; 6],
    turn: [usize; 6],
}

impl Compute for Blocks {
    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let (x, output) = (to.first(0)?, to.output().clone());
        let seen = to.calls.view(x, TensorType::new(output.dtype, self.split));
        let turned = to.turned(seen, &self.turn)?;
        let made = to.calls.view(turned, output);
        to.give_first(0, made);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use dala_spec::Data;

    use crate::builder::{constants, floats, int, single, text};

    #[test]
    fn channels_become_pixels_and_back() {
        let x = || vec![floats(&[1, 8, 1, 1], (0..8u8).map(f32::from).collect())];
        let wide = |mode| constants(13, "DepthToSpace", x(), vec![int("blocksize", 2), text("mode", mode)]);
        assert_eq!(wide("DCR"), (vec![1, 2, 2, 2], Data::F32(vec![0.0, 2.0, 4.0, 6.0, 1.0, 3.0, 5.0, 7.0])));
        assert_eq!(wide("CRD").1, Data::F32((0..8u8).map(f32::from).collect()));
        let back = vec![floats(&[1, 2, 2, 2], vec![0.0, 2.0, 4.0, 6.0, 1.0, 3.0, 5.0, 7.0])];
        let deep = constants(13, "SpaceToDepth", back, vec![int("blocksize", 2)]);
        assert_eq!(deep, (vec![1, 8, 1, 1], Data::F32((0..8u8).map(f32::from).collect())));
        let code = |op: &str, block| single(13, op, &[1, 6, 4, 4], vec![], vec![int("blocksize", block)]).code();
        assert_eq!(code("DepthToSpace", 2), "shape_mismatch");
        assert_eq!(code("SpaceToDepth", 3), "shape_mismatch");
        assert_eq!(code("SpaceToDepth", 0), "bad_attribute");
    }
}
