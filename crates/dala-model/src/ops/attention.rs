//! `Attention`: values weighed by how well keys fit queries, `softmax(scale * q · kᵀ + mask) · v`, in several heads; with keys and
//! values of before, and with fewer heads of keys than of queries.

use std::sync::Arc;

use dala_spec::{DType, Params, Shape, SpecError, TensorType};

use super::call::{NodeCall, broadcast};
use super::declared::refused;
use super::operator::{Given, Kind, Operator, Outcome};
use crate::ModelError;
use crate::lower::Lowerer;
use crate::op::Compute;

pub(super) const ATTENTION: Operator =
    Operator::new("Attention", Kind::Matrices, infer).inputs(3, 7).outputs(4).refuses(|node| {
        let window = ["left_window_size", "right_window_size"]
            .into_iter()
            .any(|name| node.int(name).is_some_and(|size| size >= 0));
        let lengths = node.node.input.get(6).is_some_and(|name| !name.is_empty());
        refused([(window, "windows"), (lengths, "nonpad_kv_seqlen")])
    });

/// What is masked is this low, which is as good as minus infinity and can be subtracted from itself.
const LOW: &str = "-3e38";

/// Places of the inputs.
const MASK: usize = 3;
const PAST_KEY: usize = 4;
const PAST_VALUE: usize = 5;

/// Heads of a query, key or value: `{batch, heads, length, size}`, or `{batch, length, heads * size}` with as many heads.
fn heads(call: &NodeCall<'_>, place: usize, count: Option<usize>) -> Result<[usize; 4], ModelError> {
    let dims = call.dims(place)?;
    let mismatch = || call.shape_mismatch("{batch, heads, length, size}, or {batch, length, heads * size}", dims);
    match (dims, count) {
        (&[batch, heads, length, size], _) => Ok([batch, heads, length, size]),
        (&[batch, length, all], Some(heads)) if heads > 0 && all % heads == 0 => {
            Ok([batch, heads, length, all / heads])
        }
        _ => Err(mismatch()),
    }
}

fn infer(call: &NodeCall<'_>) -> Result<Outcome, ModelError> {
    let dtype = call.float()?;
    let count = |name: &str| -> Result<Option<usize>, ModelError> {
        Ok(usize::try_from(call.int(name, 0)?).ok().filter(|&count| count > 0))
    };
    let (q_heads, kv_heads) = (count("q_num_heads")?, count("kv_num_heads")?);
    let [query, key, value] = [heads(call, 0, q_heads)?, heads(call, 1, kv_heads)?, heads(call, 2, kv_heads)?];
    let ([batch, q_heads, length, size], [_, kv_heads, own, _]) = (query, key);
    let rank = call.dims(0)?.len();
    let fits = key == [batch, kv_heads, own, size]
        && value == [batch, kv_heads, own, value[3]]
        && [call.dims(1)?.len(), call.dims(2)?.len()] == [rank; 2];
    if !fits || kv_heads == 0 || q_heads % kv_heads != 0 {
        return Err(call.shape_mismatch(format!("keys and values for queries of {query:?}"), call.dims(1)?));
    }
    let past = match (call.has(PAST_KEY), call.has(PAST_VALUE)) {
        (false, false) => 0,
        _ => {
            let (keys, values) = (call.dims(PAST_KEY)?, call.dims(PAST_VALUE)?);
            let past = keys.get(2).copied().unwrap_or_default();
            if *keys != [batch, kv_heads, past, size] || *values != [batch, kv_heads, past, value[3]] {
                return Err(call.shape_mismatch(format!("keys and values of before, as those of {key:?}"), keys));
            }
            past
        }
    };
    let total = past.saturating_add(own);
    let scores = vec![batch, q_heads, length, total];
    if call.has(MASK) {
        let mask = call.dims(MASK)?;
        let mut wide = mask.to_vec();
        // A mask that ends early is one that lets nothing of the rest through.
        wide.last_mut().into_iter().filter(|last| **last < total && **last > 1).for_each(|last| *last = total);
        if broadcast(&scores, &wide).as_deref() != Some(&scores) {
            return Err(call.shape_mismatch(format!("a mask that can be repeated to fit {scores:?}"), mask));
        }
    }
    for place in [1, 2, PAST_KEY, PAST_VALUE].into_iter().filter(|&place| call.has(place)) {
        call.same_dtype(place)?;
    }
    let mode = call.int("qk_matmul_output_mode", 0)?;
    if !(0..=3).contains(&mode) {
        return Err(call.bad_attribute("qk_matmul_output_mode", "from 0 to 3", mode));
    }
    let compute = Attention {
        query,
        key: [batch, kv_heads, own, size],
        value,
        past,
        causal: call.flag("is_causal", false)?,
        scale: call.float_attribute("scale", 1.0 / (size as f32).sqrt())?,
        cap: call.float_attribute("softcap", 0.0)?,
        mode,
        places: (0..6).map(|place| call.has(place)).collect(),
    };
    let made = match rank {
        3 => vec![batch, length, q_heads.saturating_mul(value[3])],
        _ => vec![batch, q_heads, length, value[3]],
    };
    let shapes = [made, vec![batch, kv_heads, total, size], vec![batch, kv_heads, total, value[3]], scores];
    let types = shapes.into_iter().take(call.outputs.max(1)).map(|dims| call.output(dtype, dims));
    let inputs = (0..6).filter_map(|place| Some(("", Given::Value(call.number(place)?))));
    Ok(Outcome::Layer { compute: Arc::new(compute), inputs: inputs.collect(), types: types.collect::<Result<_, _>>()? })
}

#[derive(Debug)]
struct Attention {
    /// Batch, heads, length and size.
    query: [usize; 4],
    key: [usize; 4],
    value: [usize; 4],
    /// How many keys and values there are of before.
    past: usize,
    /// Whether a query sees no keys after its own.
    causal: bool,
    scale: f32,
    /// What scores stay below, if it is not zero.
    cap: f32,
    /// Which scores the fourth output is: before the mask, with it, or after the softmax.
    mode: i64,
    /// Which inputs the node has.
    places: Vec<bool>,
}

impl Compute for Attention {
    fn cost(&self, _: &[&Shape], _: &[TensorType]) -> Option<usize> {
        None
    }

    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let dtype = to.output().dtype;
        let query = self.heads(to, 0, self.query)?;
        let keys = self.heads(to, 1, self.key)?;
        let keys = self.after_past(to, PAST_KEY, keys)?;
        let values = self.heads(to, 2, self.value)?;
        let values = self.after_past(to, PAST_VALUE, values)?;
        for (place, cell) in (1..to.outputs()).zip([keys, values]) {
            to.give_first(place, cell);
        }
        // Scores need more digits than halves have.
        let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
        let (query, keys, values) = (widened(to, query, wide)?, widened(to, keys, wide)?, widened(to, values, wide)?);
        let ([batch, heads, length, size], [_, kv_heads, own, _]) = (self.query, self.key);
        let total = self.past + own;
        // Queries that share keys are more rows of one matrix.
        let rows = heads / kv_heads * length;
        let query = to.calls.view(query, TensorType::new(wide, [batch, kv_heads, rows, size]));
        let turned = Params::new().with("transpose_b", true);
        let scores =
            to.call("matmul", &[query, keys], TensorType::new(wide, [batch, kv_heads, rows, total]), &turned)?;
        let all = TensorType::new(wide, [batch, heads, length, total]);
        let scores = to.calls.view(scores, all.clone());
        let plain = self.scaled(to, scores, all.clone())?;
        let masked = self.masked(to, plain, all.clone())?;
        let shares = to.call("softmax", &[masked], all.clone(), &Params::new())?;
        let shares =
            to.map("select(s <= -1e37, 0, p)", &[("s", masked), ("p", shares)], all.clone(), &Params::new())?;
        if to.outputs() > 3 {
            let shown = match self.mode {
                2 => to.map("select(s <= -1e37, s * 1e10, s)", &[("s", masked)], all, &Params::new())?,
                3 => shares,
                _ => plain,
            };
            let shown = widened(to, shown, dtype)?;
            to.give_first(3, shown);
        }
        let shares = to.calls.view(shares, TensorType::new(wide, [batch, kv_heads, rows, total]));
        let size = self.value[3];
        let made = TensorType::new(wide, [batch, kv_heads, rows, size]);
        let made = to.call("matmul", &[shares, values], made, &Params::new())?;
        let mut made = to.calls.view(made, TensorType::new(wide, [batch, heads, length, size]));
        if to.output().shape.rank() == 3 {
            made = to.turned(made, &[0, 2, 1, 3])?;
        }
        let made = widened(to, made, dtype)?;
        let seen = to.calls.view(made, to.output().clone());
        to.give_first(0, seen);
        Ok(())
    }
}

/// A cell as elements of another type.
fn widened(to: &mut Lowerer<'_>, cell: usize, dtype: DType) -> Result<usize, SpecError> {
    let ty = TensorType { dtype, shape: to.calls.ty(cell).shape.clone() };
    if *to.calls.ty(cell) == ty { Ok(cell) } else { to.call("cast", &[cell], ty, &Params::new()) }
}

impl Attention {
    /// The place of an input among those that are there, if it is.
    fn place(&self, place: usize) -> Option<usize> {
        let there = self.places.get(..place)?.iter().filter(|there| **there).count();
        self.places.get(place)?.then_some(there)
    }

    /// An input with its heads as the second axis.
    fn heads(
        &self,
        to: &mut Lowerer<'_>,
        place: usize,
        [batch, heads, length, size]: [usize; 4],
    ) -> Result<usize, SpecError> {
        let cell = to.first(place)?;
        if to.dims(place).len() == 4 {
            return Ok(cell);
        }
        let seen = TensorType::new(to.calls.ty(cell).dtype, [batch, length, heads, size]);
        let seen = to.calls.view(cell, seen);
        to.turned(seen, &[0, 2, 1, 3])
    }

    /// Keys or values behind those of before.
    fn after_past(&self, to: &mut Lowerer<'_>, place: usize, cell: usize) -> Result<usize, SpecError> {
        let Some(place) = self.place(place).filter(|_| self.past > 0) else { return Ok(cell) };
        let before = to.first(place)?;
        let ty = to.calls.ty(cell).clone();
        let mut dims = ty.shape.dims().to_vec();
        dims[2] += self.past;
        to.call("concat", &[before, cell], TensorType::new(ty.dtype, dims), &Params::new().with("axis", 2))
    }

    /// Scores by the scale, below the cap.
    fn scaled(&self, to: &mut Lowerer<'_>, scores: usize, ty: TensorType) -> Result<usize, SpecError> {
        let scale = Params::new().with("scale", f64::from(self.scale));
        match self.cap > 0.0 {
            true => {
                let params = scale.with("cap", f64::from(self.cap));
                to.map("cap * tanh(s * scale / cap)", &[("s", scores)], ty, &params)
            }
            false => to.map("s * scale", &[("s", scores)], ty, &scale),
        }
    }

    /// Scores with the mask, and without what comes after a query.
    fn masked(&self, to: &mut Lowerer<'_>, scores: usize, ty: TensorType) -> Result<usize, SpecError> {
        let (mut text, mut inputs) = ("s".to_owned(), vec![("s", scores)]);
        if let Some(place) = self.place(MASK) {
            let mask = self.whole_mask(to, place, ty.shape.dims()[3])?;
            inputs.push(("m", mask));
            text = match to.calls.ty(mask).dtype.is_float() {
                true => format!("max(s + m, {LOW})"),
                false => format!("select(m != 0, s, {LOW})"),
            };
        }
        let mut params = Params::new();
        if self.causal {
            text = format!("select(coord(3) <= coord(2) + past, {text}, {LOW})");
            params = params.with("past", self.past as i64);
        }
        if text == "s" { Ok(scores) } else { to.map(&text, &inputs, ty, &params) }
    }

    /// The mask, with what it does not say about the last keys.
    fn whole_mask(&self, to: &mut Lowerer<'_>, place: usize, total: usize) -> Result<usize, SpecError> {
        let mask = to.first(place)?;
        let ty = to.calls.ty(mask).clone();
        let mut dims = ty.shape.dims().to_vec();
        let last = dims.len().saturating_sub(1);
        let missing = total - dims.get(last).copied().unwrap_or(total).min(total);
        if missing == 0 || dims[last] == 1 {
            return Ok(mask);
        }
        let mut after = vec![0i64; dims.len()];
        (after[last], dims[last]) = (missing as i64, total);
        let nothing = if ty.dtype.is_float() { -3e38 } else { 0.0 };
        let params = Params::new().with("after", after).with("value", nothing);
        to.call("pad", &[mask], TensorType::new(ty.dtype, dims), &params)
    }
}

#[cfg(test)]
mod tests {
    use crate::builder::{Net, int, some_floats};
    use crate::proto::element_type;

    fn net(query: &[i64], key: &[i64], value: &[i64]) -> Net {
        let float = element_type::FLOAT;
        Net::new(23).input("q", float, query).input("k", float, key).input("v", float, value)
    }

    #[test]
    fn heads_are_an_axis_or_part_of_one() {
        let four = net(&[2, 6, 4, 8], &[2, 3, 5, 8], &[2, 3, 5, 7]);
        let four = four.node("Attention", &["q", "k", "v"], "y", vec![int("is_causal", 1)]).output("y");
        let network = four.resolve(2).unwrap();
        assert_eq!(network.values[network.outputs[0]].ty.shape.dims(), [2, 6, 4, 7]);
        crate::lower::lower(&network).unwrap();
        let three = net(&[2, 4, 48], &[2, 5, 24], &[2, 5, 21]);
        let counts = vec![int("q_num_heads", 6), int("kv_num_heads", 3)];
        let three = three.node("Attention", &["q", "k", "v"], "y", counts).output("y");
        let network = three.resolve(2).unwrap();
        assert_eq!(network.values[network.outputs[0]].ty.shape.dims(), [2, 4, 42]);
        crate::lower::lower(&network).unwrap();
    }

    #[test]
    fn masks_fit_the_scores() {
        let mask = |dims: &[i64]| {
            let four = net(&[2, 3, 4, 8], &[2, 3, 5, 8], &[2, 3, 5, 8]).tensor("m", some_floats(dims));
            four.node("Attention", &["q", "k", "v", "m"], "y", vec![]).output("y").code()
        };
        assert_eq!(mask(&[4, 5]), "read");
        assert_eq!(mask(&[4, 3]), "read");
        assert_eq!(mask(&[2, 1, 4, 5]), "read");
        assert_eq!(mask(&[3, 5]), "shape_mismatch");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let code = |query: &[i64], key: &[i64], attributes| {
            net(query, key, key).node("Attention", &["q", "k", "v"], "y", attributes).output("y").code()
        };
        assert_eq!(code(&[1, 4, 3, 8], &[1, 3, 3, 8], vec![]), "shape_mismatch");
        assert_eq!(code(&[1, 3, 3, 8], &[1, 3, 3, 7], vec![]), "shape_mismatch");
        assert_eq!(code(&[1, 3, 8], &[1, 3, 8], vec![]), "shape_mismatch");
        assert_eq!(code(&[1, 3, 3, 8], &[1, 3, 3, 8], vec![int("left_window_size", 1)]), "unsupported_operator");
    }
}
