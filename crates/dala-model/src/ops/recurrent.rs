//! `RNN`, `GRU` and `LSTM`: layers that go along a sequence and carry a state from step to step, in one direction or in both.
//!
//! The inputs of all steps are multiplied at once; each step then multiplies the state of the one before, and an expression or two
//! make the next state of both products.

use std::sync::Arc;

use dala_spec::expr::{CompareOp, UnaryOp};
use dala_spec::{DType, Data, Expr, Params, Scalar, Shape, SpecError, TensorType};

use super::call::NodeCall;
use super::operator::{Given, Kind, Operator, Outcome};
use crate::ModelError;
use crate::attribute::Attribute;
use crate::lower::{Lowerer, ints};
use crate::op::Compute;

pub(super) const GRU: Operator = Operator::new("GRU", Kind::Others, |call| {
    let kind = if call.flag("linear_before_reset", false)? { Cell::GruAfter } else { Cell::GruBefore };
    infer(call, kind)
})
.inputs(3, 6)
.outputs(2);

pub(super) const LSTM: Operator = Operator::new("LSTM", Kind::Others, |call| {
    let coupled = call.flag("input_forget", false)?;
    infer(call, Cell::Lstm { coupled })
})
.inputs(3, 8)
.outputs(3);

pub(super) const RNN: Operator =
    Operator::new("RNN", Kind::Others, |call| infer(call, Cell::Rnn)).inputs(3, 6).outputs(2);

/// The longest sequence: each step is calls of its own.
const MAX_STEPS: usize = 1 << 14;

/// What a step computes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Cell {
    Rnn,
    /// The state is reset before it is multiplied.
    GruBefore,
    /// The state is reset after it is multiplied.
    GruAfter,
    /// Coupled: what is not taken in is forgotten.
    Lstm {
        coupled: bool,
    },
}

impl Cell {
    /// How many times the hidden size the products have.
    fn gates(self) -> usize {
        match self {
            Cell::Rnn => 1,
            Cell::GruBefore | Cell::GruAfter => 3,
            Cell::Lstm { .. } => 4,
        }
    }

    /// The functions of a direction, unless the node says others.
    fn functions(self) -> &'static [&'static str] {
        match self {
            Cell::Rnn => &["Tanh"],
            Cell::GruBefore | Cell::GruAfter => &["Sigmoid", "Tanh"],
            Cell::Lstm { .. } => &["Sigmoid", "Tanh", "Tanh"],
        }
    }

    /// How many states it carries.
    fn states(self) -> usize {
        if matches!(self, Cell::Lstm { .. }) { 2 } else { 1 }
    }
}

/// A function of a gate.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Function {
    name: &'static str,
    alpha: f32,
    beta: f32,
}

/// All functions, with their own alpha and beta; `None` for those that have none.
const FUNCTIONS: [(&str, Option<f32>, Option<f32>); 11] = [
    ("Affine", Some(1.0), Some(0.0)),
    ("Elu", Some(1.0), None),
    ("HardSigmoid", Some(0.2), Some(0.5)),
    ("LeakyRelu", Some(0.01), None),
    ("Relu", None, None),
    ("ScaledTanh", Some(1.0), Some(1.0)),
    ("Sigmoid", None, None),
    ("Softplus", None, None),
    ("Softsign", None, None),
    ("Tanh", None, None),
    ("ThresholdedRelu", Some(1.0), None),
];

impl Function {
    fn of(self, x: Expr) -> Expr {
        let number = |value: f32| Expr::number(f64::from(value));
        let (alpha, beta, one) = (number(self.alpha), number(self.beta), || Expr::number(1.0));
        let zero = || Expr::number(0.0);
        match self.name {
            "Affine" => x * alpha + beta,
            "Elu" => {
                let below = x.clone().min(zero()).unary(UnaryOp::Expm1) * alpha;
                Expr::select(x.clone().compare(CompareOp::Lt, zero()), below, x)
            }
            "HardSigmoid" => (x * alpha + beta).clamp(zero(), one()),
            "LeakyRelu" => x.relu(Some(alpha)),
            "Relu" => x.relu(None),
            "ScaledTanh" => (x * beta).unary(UnaryOp::Tanh) * alpha,
            "Sigmoid" => x.sigmoid(),
            // Of what is large nothing but itself is left, and nothing overflows.
            "Softplus" => x.clone().max(zero()) + (-x.unary(UnaryOp::Abs)).unary(UnaryOp::Exp).unary(UnaryOp::Log1p),
            "Softsign" => x.clone() / (x.unary(UnaryOp::Abs) + one()),
            "ThresholdedRelu" => Expr::select(x.clone().compare(CompareOp::Gt, alpha), x, zero()),
            _ => x.unary(UnaryOp::Tanh),
        }
    }
}

/// The functions of all directions.
fn functions(call: &NodeCall<'_>, cell: Cell, directions: usize) -> Result<Vec<Function>, ModelError> {
    let names: Vec<&str> = match call.attribute("activations") {
        None => cell.functions().repeat(directions),
        Some(Attribute::Texts(names)) => names.iter().map(String::as_str).collect(),
        Some(other) => return Err(call.bad_attribute("activations", "a list of texts", other.kind())),
    };
    let wanted = cell.functions().len() * directions;
    if names.len() != wanted {
        return Err(call.bad_attribute("activations", format!("{wanted} names"), names.len()));
    }
    let numbers = |name: &str| match call.attribute(name) {
        None => Ok([].iter()),
        Some(Attribute::Floats(list)) => Ok(list.iter()),
        Some(other) => Err(call.bad_attribute(name, "a list of floats", other.kind())),
    };
    let (mut alphas, mut betas) = (numbers("activation_alpha")?, numbers("activation_beta")?);
    let mut functions = Vec::with_capacity(names.len());
    for given in names {
        let known = FUNCTIONS.iter().find(|(name, ..)| name.eq_ignore_ascii_case(given));
        let &(name, alpha, beta) = known.ok_or_else(|| {
            let known: Vec<&str> = FUNCTIONS.iter().map(|(name, ..)| *name).collect();
            call.bad_attribute("activations", known.join(", "), given)
        })?;
        // Each number goes to the next function that has one.
        let next = |own: Option<f32>, list: &mut std::slice::Iter<'_, f32>| match own {
            None => 0.0,
            Some(own) => list.next().copied().unwrap_or(own),
        };
        functions.push(Function { name, alpha: next(alpha, &mut alphas), beta: next(beta, &mut betas) });
    }
    Ok(functions)
}

fn infer(call: &NodeCall<'_>, cell: Cell) -> Result<Outcome, ModelError> {
    let dtype = call.float()?;
    let by_batch = call.flag("layout", false)?;
    let backwards: &[bool] = match call.text("direction", "forward")? {
        "forward" => &[false],
        "reverse" => &[true],
        "bidirectional" => &[false, true],
        other => return Err(call.bad_attribute("direction", "forward, reverse or bidirectional", other)),
    };
    let directions = backwards.len();
    let (steps, batch, size) = match (call.dims(0)?, by_batch) {
        (&[steps, batch, size], false) | (&[batch, steps, size], true) => (steps, batch, size),
        (dims, _) => return Err(call.shape_mismatch("a first input of shape {steps, batch, size}", dims)),
    };
    if steps == 0 || batch == 0 || size == 0 {
        return Err(call.shape_mismatch("at least one step, of at least one element", call.dims(0)?));
    }
    if steps > MAX_STEPS {
        return Err(call.unsupported(format!("has {steps} steps, at most {MAX_STEPS} are supported")));
    }
    let hidden = call.dims(2)?.last().copied().unwrap_or_default();
    let given = call.int("hidden_size", hidden as i64)?;
    if hidden == 0 || given != hidden as i64 {
        return Err(call.bad_attribute("hidden_size", format!("{hidden}, as in the weights"), given));
    }
    let rows = cell.gates().saturating_mul(hidden);
    let state = if by_batch { [batch, directions, hidden] } else { [directions, batch, hidden] };
    let fits = |place: usize, what: &str, dims: &[usize]| {
        call.same_dtype(place)?;
        let found = call.dims(place)?;
        if found == dims { Ok(()) } else { Err(call.shape_mismatch(format!("{what} {}", Shape::from(dims)), found)) }
    };
    fits(1, "weights", &[directions, rows, size])?;
    fits(2, "weights of the state", &[directions, rows, hidden])?;

    let mut inputs: Vec<(&'static str, Given)> = Vec::new();
    let mut add = |what: &'static str, given: Given| {
        inputs.push((what, given));
        inputs.len() - 1
    };
    add("x", Given::Value(call.input(0)?));
    add("weight", Given::Value(call.input(1)?));
    add("state_weight", Given::Value(call.input(2)?));
    let both = vec![directions, 2 * rows];
    match call.number(3) {
        Some(number) => {
            fits(3, "a bias of shape", &both)?;
            add("bias", Given::Value(number));
        }
        None => {
            add("bias", Given::Filled(call.output(dtype, both)?.shape, Scalar::from_i64(dtype, 0)));
        }
    }
    let mut lengths = None;
    if let Some(number) = call.number(4) {
        if call.dtype(4)? != DType::S32 || call.dims(4)? != [batch] {
            return Err(call.type_mismatch(format!("lengths of type s32 and shape {{{batch}}}"), &call.value(4)?.ty));
        }
        let whole = call.looked_at(4)?.is_some_and(|data| data.iter().all(|own| own.as_i64() >= steps as i64));
        lengths = (!whole).then(|| add("lengths", Given::Value(number)));
    }
    let mut first = [None; 2];
    for (place, first) in first.iter_mut().enumerate().take(cell.states()) {
        if let Some(number) = call.number(5 + place) {
            fits(5 + place, "a state of shape", &state)?;
            *first = Some(add("first", Given::Value(number)));
        }
    }
    let mut peepholes = None;
    if let Some(number) = call.number(7) {
        fits(7, "peepholes of shape", &[directions, 3 * hidden])?;
        peepholes = Some(add("peepholes", Given::Value(number)));
    }
    let clip = match call.float_attribute("clip", 0.0)? {
        clip if clip > 0.0 => Some(clip),
        0.0 => None,
        clip => return Err(call.bad_attribute("clip", "above 0", clip)),
    };
    let functions = functions(call, cell, directions)?;
    let all = match by_batch {
        true => vec![batch, steps, directions, hidden],
        false => vec![steps, directions, batch, hidden],
    };
    let mut types = vec![call.output(dtype, all)?];
    call.output(dtype, vec![steps, batch, rows])?;
    for _ in 1..call.outputs.clamp(1, 1 + cell.states()) {
        types.push(call.output(dtype, state.to_vec())?);
    }
    let sizes = Sizes { steps, batch, size, hidden };
    let layer =
        Recurrent { cell, sizes, backwards: backwards.to_vec(), by_batch, functions, clip, lengths, first, peepholes };
    Ok(Outcome::Layer { compute: Arc::new(layer), inputs, types })
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Sizes {
    steps: usize,
    batch: usize,
    size: usize,
    hidden: usize,
}

/// Over `x`, weights, weights of the state, a bias, which is always there, and inputs whose places it knows.
#[derive(Debug, PartialEq)]
struct Recurrent {
    cell: Cell,
    sizes: Sizes,
    /// For each direction, whether it goes from the last step to the first.
    backwards: Vec<bool>,
    /// Whether sequences are one after the other, and not steps.
    by_batch: bool,
    functions: Vec<Function>,
    clip: Option<f32>,
    lengths: Option<usize>,
    first: [Option<usize>; 2],
    peepholes: Option<usize>,
}

impl Compute for Recurrent {
    fn cost(&self, _: &[&Shape], _: &[TensorType]) -> Option<usize> {
        None
    }

    fn lower(&self, to: &mut Lowerer<'_>) -> Result<(), SpecError> {
        let Sizes { steps, batch, size, hidden } = self.sizes;
        let dtype = to.output().dtype;
        let mut x = to.first(0)?;
        if self.by_batch {
            x = to.turn_named(&to.value(0).name, x, &[1, 0, 2])?;
        }
        let x = to.calls.view(x, TensorType::new(dtype, [steps * batch, size]));
        let directions = self.backwards.len();
        // For each direction, what each step gives, and the last states.
        let mut outputs = Vec::with_capacity(directions);
        let mut last: [Vec<usize>; 2] = [Vec::new(), Vec::new()];
        for (direction, &backwards) in self.backwards.iter().enumerate() {
            let (made, states) = self.along(to, x, direction, backwards)?;
            outputs.push(made);
            for (list, state) in last.iter_mut().zip(states) {
                list.push(state);
            }
        }
        let in_order = (0..steps).flat_map(|step| outputs.iter().map(move |made| made[step])).collect();
        let all = joined(to, in_order, hidden)?;
        let all = to.calls.view(all, TensorType::new(dtype, [steps, directions, batch, hidden]));
        let all = if self.by_batch { to.turn_named(to.layer(), all, &[2, 0, 1, 3])? } else { all };
        to.give_first(0, all);
        for (place, list) in (1..to.outputs()).zip(last) {
            let state = joined(to, list, hidden)?;
            let state = to.calls.view(state, TensorType::new(dtype, [directions, batch, hidden]));
            let state = if self.by_batch { to.turn_named(to.layer(), state, &[1, 0, 2])? } else { state };
            to.give_first(place, state);
        }
        Ok(())
    }
}

impl Recurrent {
    /// The rows from `start` on of an input that has a part for each direction.
    fn rows(
        &self,
        to: &mut Lowerer<'_>,
        place: usize,
        (start, count): (usize, usize),
        columns: usize,
    ) -> Result<usize, SpecError> {
        let (cell, len, dtype) = (to.first(place)?, to.value(place).ty.shape.len(), to.output().dtype);
        let rows = to.calls.view(cell, TensorType::new(dtype, [len / columns.max(1), columns]));
        let ty = TensorType::new(dtype, [count, columns]);
        if *to.calls.ty(rows) == ty {
            return Ok(rows);
        }
        to.call("slice", &[rows], ty, &Params::new().with("start", ints(&[start, 0])))
    }

    /// A product with rows of weights, and their bias.
    fn product(
        &self,
        to: &mut Lowerer<'_>,
        x: usize,
        (weight, bias): (usize, usize),
        rows: usize,
    ) -> Result<usize, SpecError> {
        let count = to.calls.ty(x).shape.dims()[0];
        let bias = to.calls.view(bias, TensorType::new(to.output().dtype, [rows]));
        let ty = TensorType::new(to.output().dtype, [count, rows]);
        to.call("dense", &[x, weight, bias], ty, &Params::new().with("transpose_weight", true))
    }

    /// What each step of a direction gives, and its last states.
    fn along(
        &self,
        to: &mut Lowerer<'_>,
        x: usize,
        direction: usize,
        backwards: bool,
    ) -> Result<(Vec<usize>, Vec<usize>), SpecError> {
        let Sizes { steps, batch, size, hidden } = self.sizes;
        let gates = self.cell.gates();
        let state_type = TensorType::new(to.output().dtype, [batch, hidden]);
        let weight = self.rows(to, 1, (direction * gates * hidden, gates * hidden), size)?;
        let bias = self.rows(to, 3, (direction * 2 * gates, gates), hidden)?;
        let inputs = self.product(to, x, (weight, bias), gates * hidden)?;
        // The rows of the state's weights that are multiplied by the state as it is, and by what is left of it after a reset.
        let (plain, reset) = if self.cell == Cell::GruBefore { (2, 1) } else { (gates, 0) };
        let mut products = Vec::new();
        for (start, count) in [(0, plain), (plain, reset)] {
            if count > 0 {
                let weight = self.rows(to, 2, ((direction * gates + start) * hidden, count * hidden), hidden)?;
                let bias = self.rows(to, 3, ((direction * 2 + 1) * gates + start, count), hidden)?;
                products.push(((weight, bias), count * hidden));
            }
        }
        let mut states = Vec::new();
        for first in self.first.iter().take(self.cell.states()) {
            states.push(match first {
                Some(place) => {
                    let mut first = to.first(*place)?;
                    if self.by_batch {
                        first = to.turn_named(&to.value(*place).name, first, &[1, 0, 2])?;
                    }
                    let dtype = state_type.dtype;
                    let ty = TensorType::new(dtype, [self.backwards.len() * batch, hidden]);
                    let all = to.calls.view(first, ty);
                    match self.backwards.len() {
                        1 => all,
                        _ => {
                            let params = Params::new().with("start", ints(&[direction * batch, 0]));
                            to.call("slice", &[all], state_type.clone(), &params)?
                        }
                    }
                }
                None => {
                    let zeros = std::iter::repeat_n(Scalar::from_i64(state_type.dtype, 0), batch * hidden);
                    to.constant(Data::collect(state_type.dtype, zeros), &[batch, hidden])
                }
            });
        }
        let lengths = self.lengths.map(|place| to.first(place)).transpose()?;
        let peepholes = self.peepholes.map(|place| to.first(place)).transpose()?;
        let functions = &self.functions[direction * self.cell.functions().len()..];
        let mut outputs = vec![0; steps];
        for number in 0..steps {
            let step = if backwards { steps - 1 - number } else { number };
            let expressions = Step { of: self, functions, step, direction };
            let state = states[0];
            let hs = self.product(to, state, products[0].0, products[0].1)?;
            let mut named = vec![("x", inputs), ("h", hs), ("state", state)];
            named.extend(lengths.map(|cell| ("lengths", cell)));
            let next = match self.cell {
                Cell::Rnn => vec![to.expression(&expressions.rnn(), &named, state_type.clone())?],
                Cell::GruAfter => vec![to.expression(&expressions.gru_after(), &named, state_type.clone())?],
                Cell::GruBefore => {
                    let reset = to.expression(&expressions.reset(), &named[..3], state_type.clone())?;
                    let rs = self.product(to, reset, products[1].0, products[1].1)?;
                    named.push(("r", rs));
                    vec![to.expression(&expressions.gru_before(), &named, state_type.clone())?]
                }
                Cell::Lstm { coupled } => {
                    named.extend(peepholes.map(|cell| ("peepholes", cell)));
                    named[2] = ("cell", states[1]);
                    let kept = to.expression(&expressions.lstm_cell(coupled), &named, state_type.clone())?;
                    named[2] = ("cell", kept);
                    if lengths.is_some() {
                        named.push(("state", state));
                    }
                    vec![to.expression(&expressions.lstm_state(), &named, state_type.clone())?, kept]
                }
            };
            outputs[step] = match lengths {
                None => next[0],
                // After the end of a sequence there is nothing.
                Some(lengths) => {
                    let kept = expressions.until_the_end(Expr::input("y"), Expr::number(0.0));
                    to.expression(&kept, &[("y", next[0]), ("lengths", lengths)], state_type.clone())?
                }
            };
            states = next;
        }
        Ok((outputs, states))
    }
}

/// States one after the other.
fn joined(to: &mut Lowerer<'_>, cells: Vec<usize>, columns: usize) -> Result<usize, SpecError> {
    /// As many as a call joins.
    const MOST: usize = 8;
    let mut cells = cells;
    while cells.len() > 1 {
        let mut groups = Vec::with_capacity(cells.len().div_ceil(MOST));
        for group in cells.chunks(MOST) {
            let rows = group.iter().map(|cell| to.calls.ty(*cell).shape.dims()[0]).sum();
            groups.push(match group {
                [only] => *only,
                _ => {
                    let ty = TensorType::new(to.output().dtype, [rows, columns]);
                    to.call("concat", group, ty, &Params::new().with("axis", 0))?
                }
            });
        }
        cells = groups;
    }
    cells.first().copied().ok_or_else(|| SpecError::internal("a sequence without steps".to_owned()))
}

/// The expressions of a step: of `x` and `h`, the products of inputs and state, at each element of the state.
struct Step<'a> {
    of: &'a Recurrent,
    /// Those of the direction.
    functions: &'a [Function],
    step: usize,
    direction: usize,
}

impl Step<'_> {
    /// A gate's product of the inputs.
    fn x(&self, gate: usize) -> Expr {
        let Sizes { batch, hidden, .. } = self.of.sizes;
        let gates = self.of.cell.gates();
        let start = Expr::size(self.step * batch * gates * hidden + gate * hidden);
        Expr::input("x").gather(start + Expr::coord(0) * Expr::size(gates * hidden) + Expr::coord(1))
    }

    /// A gate's product of the state, of `count` that are beside each other.
    fn h(&self, gate: usize, count: usize) -> Expr {
        let hidden = self.of.sizes.hidden;
        let start = Expr::size(gate * hidden);
        Expr::input("h").gather(start + Expr::coord(0) * Expr::size(count * hidden) + Expr::coord(1))
    }

    /// What peephole `number` makes of a cell.
    fn peephole(&self, number: usize, cell: Expr) -> Option<Expr> {
        self.of.peepholes?;
        let start = Expr::size((self.direction * 3 + number) * self.of.sizes.hidden);
        Some(Expr::input("peepholes").gather(start + Expr::coord(1)) * cell)
    }

    fn function(&self, number: usize, x: Expr) -> Expr {
        let x = match self.of.clip {
            Some(clip) => x.clamp(Expr::number(-f64::from(clip)), Expr::number(f64::from(clip))),
            None => x,
        };
        self.functions.get(number).map_or(x.clone(), |function| function.of(x))
    }

    /// A value up to the end of each sequence, another one after.
    fn until_the_end(&self, value: Expr, after: Expr) -> Expr {
        if self.of.lengths.is_none() {
            return value;
        }
        let length = Expr::input("lengths").gather(Expr::coord(0));
        Expr::select(length.compare(CompareOp::Gt, Expr::size(self.step)), value, after)
    }

    fn rnn(&self) -> Expr {
        self.until_the_end(self.function(0, self.x(0) + self.h(0, 1)), Expr::input("state"))
    }

    /// The next state, of the gate that keeps some of it and of a new one.
    fn mixed(&self, kept: Expr, new: Expr) -> Expr {
        let state = Expr::input("state");
        let mixed = (Expr::number(1.0) - kept.clone()) * new + kept * state.clone();
        self.until_the_end(mixed, state)
    }

    fn gru_after(&self) -> Expr {
        let gate = |number: usize| self.function(0, self.x(number) + self.h(number, 3));
        self.mixed(gate(0), self.function(1, self.x(2) + gate(1) * self.h(2, 3)))
    }

    /// What is left of the state.
    fn reset(&self) -> Expr {
        self.function(0, self.x(1) + self.h(1, 2)) * Expr::input("state")
    }

    fn gru_before(&self) -> Expr {
        self.mixed(self.function(0, self.x(0) + self.h(0, 2)), self.function(1, self.x(2) + Expr::input("r")))
    }

    fn lstm_gate(&self, gate: usize, peephole: Option<Expr>) -> Expr {
        let sum = self.x(gate) + self.h(gate, 4);
        peephole.into_iter().fold(sum, |sum, more| sum + more)
    }

    fn lstm_cell(&self, coupled: bool) -> Expr {
        let cell = || Expr::input("cell");
        let taken = self.function(0, self.lstm_gate(0, self.peephole(0, cell())));
        let kept = match coupled {
            true => Expr::number(1.0) - taken.clone(),
            false => self.function(0, self.lstm_gate(2, self.peephole(2, cell()))),
        };
        let new = self.function(1, self.lstm_gate(3, None));
        self.until_the_end(kept * cell() + taken * new, cell())
    }

    fn lstm_state(&self) -> Expr {
        let cell = || Expr::input("cell");
        let given = self.function(0, self.lstm_gate(1, self.peephole(1, cell())));
        let function = self.functions.get(2);
        let shown = function.map_or(cell(), |function| function.of(cell()));
        self.until_the_end(given * shown, Expr::input("state"))
    }
}

#[cfg(test)]
mod tests {
    use crate::builder::{Net, float, int, some_floats, text};
    use crate::proto::AttributeProto;

    /// A layer of 4 inputs and 3 hidden elements over 5 steps of a batch of 2.
    fn net(op: &str, attributes: Vec<AttributeProto>, directions: i64, outputs: &[&str]) -> Net {
        let gates = match op {
            "RNN" => 1,
            "GRU" => 3,
            _ => 4,
        };
        let mut net = Net::new(14)
            .x(&[5, 2, 4])
            .tensor("w", some_floats(&[directions, gates * 3, 4]))
            .tensor("r", some_floats(&[directions, gates * 3, 3]));
        net = net.node(op, &["x", "w", "r"], outputs[0], attributes);
        let more = outputs[1..].iter().map(|&name| name.to_owned());
        net.graph().node[0].output.extend(more);
        outputs.iter().fold(net, |net, output| net.output(output))
    }

    #[test]
    fn outputs_are_all_steps_and_the_last_states() {
        for op in ["RNN", "GRU", "LSTM"] {
            let names = &["y", "h", "c"][..if op == "LSTM" { 3 } else { 2 }];
            for (direction, directions) in [("forward", 1), ("reverse", 1), ("bidirectional", 2)] {
                for layout in [0, 1] {
                    let attributes = vec![text("direction", direction), int("layout", layout)];
                    let network = net(op, attributes, directions as i64, names).resolve(5).unwrap();
                    let dims = |place: usize| network.values[network.outputs[place]].ty.shape.dims().to_vec();
                    match layout {
                        0 => assert_eq!(dims(0), [5, directions, 2, 3]),
                        _ => assert_eq!(dims(0), [5, 2, directions, 3]),
                    }
                    let state = if layout == 0 { [directions, 2, 3] } else { [5, directions, 3] };
                    (1..names.len()).for_each(|place| assert_eq!(dims(place), state, "{op}"));
                    crate::lower::lower(&network).unwrap();
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let code = |attributes: Vec<AttributeProto>, directions| net("LSTM", attributes, directions, &["y"]).code();
        assert_eq!(code(vec![], 1), "read");
        assert_eq!(code(vec![float("clip", 3.0), int("input_forget", 1)], 1), "read");
        assert_eq!(code(vec![text("direction", "bidirectional")], 1), "shape_mismatch");
        assert_eq!(code(vec![text("direction", "sideways")], 1), "bad_attribute");
        assert_eq!(code(vec![int("hidden_size", 4)], 1), "bad_attribute");
        assert_eq!(code(vec![float("clip", -1.0)], 1), "bad_attribute");
        assert_eq!(code(vec![text("activations", "Tanh")], 1), "bad_attribute");
    }
}
