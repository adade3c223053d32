//! `RotaryEmbedding`: pairs of numbers of each head turned by an angle that follows from their place in the sequence.

use dala_spec::{Params, SpecError, TensorType};

use super::call::NodeCall;
use super::operator::{Kind, Operator, Outcome};
use crate::ModelError;
use crate::lower::Lowerer;
use crate::op::Compute;

pub(super) const ROTARY_EMBEDDING: Operator = Operator::new("RotaryEmbedding", Kind::Axes, infer).inputs(3, 4);

fn infer(call: &NodeCall<'_>) -> Result<Outcome, ModelError> {
    call.float()?;
    let dims = call.dims(0)?;
    let heads = usize::try_from(call.int("num_heads", 0)?).unwrap_or_default();
    // Heads are an axis before the sequence's, or part of the last one.
    let (batch, length, seen, size) = match *dims {
        [batch, heads, length, size] => (batch, length, [batch, heads, length, size], size),
        [batch, length, all] if heads > 0 && all % heads == 0 => {
            (batch, length, [batch, length, heads, all / heads], all / heads)
        }
        _ => return Err(call.shape_mismatch("{batch, heads, length, size}, or with heads in the last axis", dims)),
    };
    let turned = match call.int("rotary_embedding_dim", 0)? {
        0 => size,
        given => usize::try_from(given)
            .ok()
            .filter(|&turned| turned <= size)
            .ok_or_else(|| call.bad_attribute("rotary_embedding_dim", format!("at most {size}"), given))?,
    };
    if turned % 2 != 0 {
        return Err(call.bad_attribute("rotary_embedding_dim", "an even number", turned));
    }
    let half = turned / 2;
    let placed = call.has(3);
    for place in 1..3 {
        call.same_dtype(place)?;
        let own = call.dims(place)?;
        let fits = if placed { matches!(own, [_, last] if *last == half) } else { own == [batch, length, half] };
        if !fits {
            let expected =
                if placed { format!("{{places, {half}}}") } else { format!("{{{batch}, {length}, {half}}}") };
            return Err(call.shape_mismatch(expected, own));
        }
    }
    if placed && (call.dims(3)? != [batch, length] || call.dtype(3)?.is_float()) {
        return Err(call.shape_mismatch(format!("a place for each of {{{batch}, {length}}}"), call.dims(3)?));
    }
    let compute = Rotary { seen, half, interleaved: call.flag("interleaved", false)?, placed };
    let inputs = (0..4).filter_map(|place| call.number(place));
    Ok(Outcome::layer(compute, inputs, call.value(0)?.ty.clone()))
}

/// Over `x`, cosines, sines and perhaps the places of both.
#[derive(Debug)]
struct Rotary {
    /// The value's axes, with heads as one of them.
    seen: [usize; 4],
    /// How many pairs are turned.
    half: usize,
    /// Whether the two of a pair are neighbours.
    interleaved: bool,
    placed: bool,
}

impl Compute for Rotary {
    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let (x, output) = (to.first(0)?, to.output().clone());
        let seen = TensorType::new(output.dtype, self.seen);
        let mut inputs = vec![("x", to.calls.view(x, seen.clone())), ("cosine", to.first(1)?), ("sine", to.first(2)?)];
        let sequence = if to.dims(0).len() == 4 { 2 } else { 1 };
        let mut row = format!("(coord(0) * length + coord({sequence}))");
        if self.placed {
            inputs.push(("places", to.first(3)?));
            row = format!("s32(gather(places, {row}))");
        }
        let (pair, first, step) = match self.interleaved {
            true => ("coord(3) / 2", "coord(3) % 2 == 0", "1"),
            false => ("coord(3) % half", "coord(3) < half", "half"),
        };
        let text = format!(
            "let at = {row} * half + {pair}; let c = gather(cosine, at); let s = gather(sine, at);
            let other = gather(x, index + select({first}, {step}, -{step}));
            select(coord(3) < 2 * half, select({first}, x * c - other * s, x * c + other * s), x)"
        );
        let params = Params::new().with("length", self.seen[sequence] as i64).with("half", self.half.max(1) as i64);
        let made = to.map(&text, &inputs, seen, &params)?;
        to.give_first(0, made);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use dala_spec::Data;

    use crate::builder::{constants, floats, int, integers, single, some_floats};

    #[test]
    fn pairs_are_turned() {
        let inputs = || {
            let (cosine, sine) = (floats(&[2, 1], vec![9.0, 0.0]), floats(&[2, 1], vec![9.0, 1.0]));
            vec![floats(&[1, 1, 3], vec![1.0, 2.0, 5.0]), cosine, sine, integers(&[1, 1], &[1])]
        };
        for interleaved in [0, 1] {
            let attributes = vec![int("num_heads", 1), int("rotary_embedding_dim", 2), int("interleaved", interleaved)];
            let turned = constants(23, "RotaryEmbedding", inputs(), attributes);
            assert_eq!(turned, (vec![1, 1, 3], Data::F32(vec![-2.0, 1.0, 5.0])));
        }
        let code = |cosine: &[i64]| {
            let angles = vec![some_floats(cosine), some_floats(cosine)];
            single(23, "RotaryEmbedding", &[2, 3, 5, 8], angles, vec![]).code()
        };
        assert_eq!(code(&[2, 5, 4]), "read");
        assert_eq!(code(&[2, 5, 3]), "shape_mismatch");
    }
}
