//! Branches, loops and lists: they decide what is walked, and how often. A loop is its body, as often as it runs.

use std::sync::Arc;

use dala_spec::{Data, Shape};

use super::walk::{Held, Use, Walk};
use crate::ModelError;
use crate::attribute::Attribute;
use crate::error::shown;
use crate::graph::{Graph, Node};
use crate::limits::MAX_LAYERS;
use crate::ops::{self, Control};

/// The version of ONNX's operators that are used here by themselves.
const OPSET: i64 = 13;

impl<'a> Walk<'a> {
    /// What a node gives that decides which nodes run, or is about lists.
    pub(super) fn control(
        &mut self,
        control: Control,
        node: &'a Node,
        inputs: Vec<Option<Held>>,
    ) -> Result<Vec<Held>, ModelError> {
        let at = At { node };
        match control {
            Control::If => {
                let condition = self.truth(at, at.tensor(&inputs, 0)?, "the condition")?;
                let branch = at.graph(if condition { "then_branch" } else { "else_branch" })?;
                self.inline(branch, Vec::new())
            }
            Control::Loop => self.repeat(at, &inputs),
            Control::Scan => self.scan(at, &inputs),
            Control::List => {
                let numbers = (0..inputs.len()).map(|place| at.tensor(&inputs, place));
                self.list(at, numbers.collect::<Result<_, _>>()?)
            }
            Control::Insert => {
                let (mut list, new) = (at.list(&inputs, 0)?.to_vec(), at.tensor(&inputs, 1)?);
                let place = match inputs.get(2) {
                    Some(Some(_)) => self.place(at, at.tensor(&inputs, 2)?, list.len(), list.len() + 1)?,
                    _ => list.len(),
                };
                list.insert(place, new);
                self.list(at, list)
            }
            Control::Erase => {
                let mut list = at.list(&inputs, 0)?.to_vec();
                let place = match inputs.get(1) {
                    Some(Some(_)) => self.place(at, at.tensor(&inputs, 1)?, list.len(), list.len())?,
                    _ => list
                        .len()
                        .checked_sub(1)
                        .ok_or_else(|| at.bad("the list", "one that is not empty", "an empty one"))?,
                };
                list.remove(place);
                self.list(at, list)
            }
            Control::At => {
                let list = at.list(&inputs, 0)?;
                let place = self.place(at, at.tensor(&inputs, 1)?, list.len(), list.len())?;
                Ok(vec![Held::Tensor(list[place])])
            }
            Control::Length => {
                let length = at.list(&inputs, 0)?.len() as i64;
                Ok(vec![Held::Tensor(self.constant(String::new(), Shape::default(), Data::S64(vec![length])))])
            }
            Control::Join => {
                let (list, axis) = (at.list(&inputs, 0)?.to_vec(), at.int("axis", 0)?);
                let joined = self.joined(at, &list, axis, at.int("new_axis", 0)? == 1)?;
                Ok(vec![Held::Tensor(joined)])
            }
            Control::Cut => self.cut(at, &inputs),
            Control::QuantizedLstm => self.quantized_lstm(at, &inputs),
        }
    }

    /// An `LSTM` whose weights are bytes, a scale and a zero for each direction or row, with what they are multiplied with first:
    /// the bytes become floats, once, and the rest is an `LSTM`.
    fn quantized_lstm(&mut self, at: At<'a>, inputs: &[Option<Held>]) -> Result<Vec<Held>, ModelError> {
        let mut numbers = (0..inputs.len().min(8))
            .map(|place| inputs[place].is_some().then(|| at.tensor(inputs, place)).transpose())
            .collect::<Result<Vec<_>, _>>()?;
        for (place, scale) in [(1, 8), (2, 10)] {
            let weights = at.tensor(inputs, place)?;
            let shape = self.dims(weights);
            let [directions, _, rows] = shape[..] else {
                return Err(at.bad("the weights", "of three axes", Shape::from(shape)));
            };
            let float = [("to".to_owned(), Attribute::Int(1))];
            // One for each direction, or for each of its rows.
            let spread = |walk: &mut Self, place: usize| {
                let own = at.tensor(inputs, place)?;
                let each = if walk.dims(own).iter().product::<usize>() == directions { 1 } else { rows };
                let dims = [directions, 1, each].map(|size| size as i64).to_vec();
                let dims = walk.constant(String::new(), Shape::from([3]), Data::S64(dims));
                let own = walk.one(at, "Reshape", &[], &[own, dims])?;
                walk.one(at, "Cast", &float, &[own])
            };
            let (scale, zero) = (spread(self, scale)?, spread(self, scale + 1)?);
            let bytes = self.one(at, "Cast", &float, &[weights])?;
            let away = self.one(at, "Sub", &[], &[bytes, zero])?;
            let floats = self.one(at, "Mul", &[], &[away, scale])?;
            let turned = [("perm".to_owned(), Attribute::Ints(vec![0, 2, 1]))];
            numbers[place] = Some(self.one(at, "Transpose", &turned, &[floats])?);
        }
        let operator = ops::find("", "LSTM").ok_or_else(|| at.missing())?;
        let outputs = vec![String::new(); at.node.outputs.len()];
        let used = Use { name: &at.node.name, operator, attributes: &at.node.attributes, opset: OPSET, outputs };
        Ok(self.apply(&used, &numbers)?.into_iter().map(Held::Tensor).collect())
    }

    /// A list that a node makes.
    fn list(&mut self, at: At<'_>, list: Vec<usize>) -> Result<Vec<Held>, ModelError> {
        self.budget.list(list.len(), &at.node.name)?;
        Ok(vec![Held::List(Arc::new(list))])
    }

    /// Holds on to what a loop made so far, of which `settled` are known, and to what it carries on.
    fn keep(&mut self, settled: &mut usize, new: &[usize], carried: &[Held]) {
        let kept = &mut self.frame().kept;
        kept.truncate(*settled);
        kept.extend(new);
        *settled = kept.len();
        for held in carried {
            match held {
                Held::Tensor(number) => kept.push(*number),
                Held::List(numbers) => kept.extend(&**numbers),
            }
        }
    }

    /// A loop: its body once for each round, until it or a number of rounds says stop.
    fn repeat(&mut self, at: At<'a>, inputs: &[Option<Held>]) -> Result<Vec<Held>, ModelError> {
        let body = at.graph("body")?;
        let most = match inputs.first() {
            Some(Some(_)) => Some(self.integer(at, at.tensor(inputs, 0)?, "the number of rounds")?),
            _ => None,
        };
        let mut condition = match inputs.get(1) {
            Some(Some(_)) => Some(at.tensor(inputs, 1)?),
            _ => None,
        };
        let mut carried = inputs.iter().skip(2).map(|held| held.clone().ok_or_else(|| at.missing()));
        let mut carried = carried.by_ref().collect::<Result<Vec<Held>, _>>()?;
        let collected = body.outputs.len().checked_sub(1 + carried.len());
        let collected = collected.filter(|_| body.inputs.len() == 2 + carried.len()).ok_or_else(|| at.missing())?;
        let mut rounds: Vec<Vec<usize>> = vec![Vec::new(); collected];
        let (mut round, mut settled, mut new): (i64, usize, Vec<usize>) = (0, 0, Vec::new());
        self.frame().kept.clear();
        while most.is_none_or(|most| round < most) {
            self.budget.step(1, &at.node.name)?;
            self.keep(&mut settled, &new, &carried);
            if let Some(condition) = condition {
                self.frame().kept.push(condition);
                if !self.truth(at, condition, "the condition")? {
                    break;
                }
            }
            if round as usize > MAX_LAYERS {
                return Err(at.too_long());
            }
            let number = self.constant(String::new(), Shape::default(), Data::S64(vec![round]));
            let goes_on = self.constant(String::new(), Shape::default(), Data::U8(vec![1]));
            let mut given = vec![Held::Tensor(number), Held::Tensor(goes_on)];
            given.append(&mut carried);
            let mut made = self.inline(body, given)?.into_iter();
            condition = match made.next() {
                Some(Held::Tensor(number)) => Some(number),
                _ => return Err(at.missing()),
            };
            let mut made: Vec<Held> = made.collect();
            let scanned = made.split_off(made.len() - collected);
            carried = made;
            new = at.gather(&mut rounds, scanned)?;
            round += 1;
        }
        self.collect(at, body, carried, &rounds, &vec![0; collected])
    }

    /// A body once for each slice of its inputs.
    fn scan(&mut self, at: At<'a>, inputs: &[Option<Held>]) -> Result<Vec<Held>, ModelError> {
        let body = at.graph("body")?;
        let slices = usize::try_from(at.int("num_scan_inputs", 0)?).unwrap_or_default();
        let states = inputs.len().checked_sub(slices).filter(|_| slices > 0).ok_or_else(|| at.missing())?;
        let collected = body.outputs.len().checked_sub(states).ok_or_else(|| at.missing())?;
        let (axes, backwards) = (at.ints("scan_input_axes", slices)?, at.ints("scan_input_directions", slices)?);
        let made_axes = at.ints("scan_output_axes", collected)?;
        let made_backwards = at.ints("scan_output_directions", collected)?;
        let mut carried = inputs.iter().take(states).map(|held| held.clone().ok_or_else(|| at.missing()));
        let mut carried = carried.by_ref().collect::<Result<Vec<Held>, _>>()?;
        let scanned = (states..inputs.len()).map(|place| at.tensor(inputs, place));
        let scanned = scanned.collect::<Result<Vec<usize>, _>>()?;
        let mut length = None;
        for (number, axis) in scanned.iter().zip(&axes) {
            let dims = self.values.get(*number).map(|value| value.ty.shape.dims().to_vec()).unwrap_or_default();
            let axis = if *axis < 0 { axis + dims.len() as i64 } else { *axis };
            let size =
                usize::try_from(axis).ok().and_then(|axis| dims.get(axis).copied()).ok_or_else(|| at.missing())?;
            if length.replace(size).is_some_and(|other| other != size) {
                return Err(at.bad("the inputs", "of one length", size));
            }
        }
        let length = length.unwrap_or_default();
        if length > MAX_LAYERS {
            return Err(at.too_long());
        }
        let mut rounds: Vec<Vec<usize>> = vec![Vec::new(); collected];
        let (mut settled, mut new) = (0, Vec::new());
        self.frame().kept.clear();
        for round in 0..length {
            self.budget.step(1, &at.node.name)?;
            self.keep(&mut settled, &new, &carried);
            let mut given = std::mem::take(&mut carried);
            for (place, number) in scanned.iter().enumerate() {
                let here = if backwards.get(place) == Some(&1) { length - 1 - round } else { round };
                let index = self.constant(String::new(), Shape::default(), Data::S64(vec![here as i64]));
                let axis = ("axis".to_owned(), Attribute::Int(axes.get(place).copied().unwrap_or_default()));
                given.push(Held::Tensor(self.one(at, "Gather", &[axis], &[*number, index])?));
            }
            let mut made = self.inline(body, given)?;
            let own = made.split_off(states);
            carried = made;
            new = at.gather(&mut rounds, own)?;
        }
        for (list, backwards) in rounds.iter_mut().zip(&made_backwards) {
            if *backwards == 1 {
                list.reverse();
            }
        }
        self.collect(at, body, carried, &rounds, &made_axes)
    }

    /// What a loop gives: the last of what it carried, and what it made in each round, one after the other.
    fn collect(
        &mut self,
        at: At<'a>,
        body: &Graph,
        carried: Vec<Held>,
        rounds: &[Vec<usize>],
        axes: &[i64],
    ) -> Result<Vec<Held>, ModelError> {
        self.frame().kept.clear();
        self.keep(&mut 0, &rounds.concat(), &carried);
        let mut outputs = carried;
        let first = body.outputs.len() - rounds.len();
        for (place, (list, axis)) in rounds.iter().zip(axes).enumerate() {
            let output = at.node.outputs.get(outputs.len()).copied().flatten();
            outputs.push(Held::Tensor(match (output, list.is_empty()) {
                // Nobody reads it.
                (None, _) => self.constant(String::new(), Shape::from([0]), Data::F32(Vec::new())),
                (Some(_), false) => self.joined(at, list, *axis, true)?,
                (Some(_), true) => {
                    let declared = body.outputs.get(first + place).and_then(|output| body.declared.get(output));
                    let Some(ty) = declared else {
                        return Err(at.bad(
                            "the loop",
                            "one that runs at least once, as it says no shape",
                            "no rounds",
                        ));
                    };
                    let dims: Vec<usize> = [0].into_iter().chain(ty.shape.dims().iter().copied()).collect();
                    self.constant(String::new(), Shape::from(dims), Data::collect(ty.dtype, []))
                }
            }));
        }
        self.frame().kept.clear();
        Ok(outputs)
    }

    /// A tensor cut into a list, of pieces of given sizes along an axis.
    fn cut(&mut self, at: At<'a>, inputs: &[Option<Held>]) -> Result<Vec<Held>, ModelError> {
        let (whole, axis) = (at.tensor(inputs, 0)?, at.int("axis", 0)?);
        let dims = self.values.get(whole).map(|value| value.ty.shape.dims().to_vec()).unwrap_or_default();
        let from_start = if axis < 0 { axis + dims.len() as i64 } else { axis };
        let size = usize::try_from(from_start).ok().and_then(|axis| dims.get(axis).copied());
        let size = size.ok_or_else(|| at.bad("axis", format!("an axis of {}", dims.len()), axis))?;
        // A tensor may have far more slices than a list has room for.
        let few = |count: usize| match count <= MAX_LAYERS {
            true => Ok(count),
            false => Err(at.too_long()),
        };
        let (sizes, keep) = match inputs.get(1) {
            Some(Some(_)) => {
                let number = at.tensor(inputs, 1)?;
                let data = self.elements(number, at.unknown("the sizes"))?;
                let single = self.values.get(number).is_some_and(|value| value.ty.shape.rank() == 0);
                let sizes: Vec<usize> =
                    data.iter().map(|size| usize::try_from(size.as_i64()).unwrap_or_default()).collect();
                match (single, sizes.first()) {
                    (true, Some(&each)) if each > 0 => {
                        ((0..few(size.div_ceil(each))?).map(|place| each.min(size - place * each)).collect(), true)
                    }
                    _ => (sizes, true),
                }
            }
            _ => (vec![1; few(size)?], at.int("keepdims", 1)? == 1),
        };
        if sizes.iter().fold(0usize, |sum, size| sum.saturating_add(*size)) != size || sizes.len() > MAX_LAYERS {
            return Err(at.bad("the sizes", format!("some that come to {size}"), format!("{} of them", sizes.len())));
        }
        let (mut list, mut start) = (Vec::with_capacity(sizes.len()), 0);
        for size in sizes {
            let mut numbers = vec![whole];
            for end in [start as i64, (start + size) as i64, axis] {
                numbers.push(self.constant(String::new(), Shape::from([1]), Data::S64(vec![end])));
            }
            let mut piece = self.one(at, "Slice", &[], &numbers)?;
            if !keep {
                let axes = self.constant(String::new(), Shape::from([1]), Data::S64(vec![axis]));
                piece = self.one(at, "Squeeze", &[], &[piece, axes])?;
            }
            list.push(piece);
            start += size;
        }
        self.list(at, list)
    }

    /// Tensors one after the other along an axis, which may be a new one.
    fn joined(&mut self, at: At<'a>, list: &[usize], axis: i64, new: bool) -> Result<usize, ModelError> {
        if list.is_empty() {
            return Err(at.bad("the list", "one that is not empty", "an empty one"));
        }
        let mut numbers = list.to_vec();
        if new {
            for number in &mut numbers {
                let axes = self.constant(String::new(), Shape::from([1]), Data::S64(vec![axis]));
                *number = self.one(at, "Unsqueeze", &[], &[*number, axes])?;
            }
        }
        self.one(at, "Concat", &[("axis".to_owned(), Attribute::Int(axis))], &numbers)
    }

    /// A use of an operator in the name of a node; gives its only output.
    fn one(
        &mut self,
        at: At<'a>,
        operator: &str,
        attributes: &[(String, Attribute)],
        inputs: &[usize],
    ) -> Result<usize, ModelError> {
        self.budget.step(1 + inputs.len() / 16, &at.node.name)?;
        let operator = ops::find("", operator).ok_or_else(|| at.missing())?;
        let used = Use { name: &at.node.name, operator, attributes, opset: OPSET, outputs: vec![String::new()] };
        let inputs: Vec<Option<usize>> = inputs.iter().copied().map(Some).collect();
        self.apply(&used, &inputs)?.first().copied().ok_or_else(|| at.missing())
    }

    fn dims(&self, number: usize) -> Vec<usize> {
        self.values.get(number).map(|value| value.ty.shape.dims().to_vec()).unwrap_or_default()
    }

    /// One of `count` places in a list, counted from its end if it is negative.
    fn place(&mut self, at: At<'_>, number: usize, len: usize, count: usize) -> Result<usize, ModelError> {
        let place = self.integer(at, number, "the place in the list")?;
        let from_start = if place < 0 { place.checked_add(len as i64) } else { Some(place) };
        let found = from_start.and_then(|place| usize::try_from(place).ok()).filter(|place| *place < count);
        found.ok_or_else(|| at.bad("the place in the list", format!("one of {count}"), place))
    }

    fn integer(&mut self, at: At<'_>, number: usize, what: &str) -> Result<i64, ModelError> {
        let data: Arc<Data> = self.elements(number, at.unknown(what))?;
        match (data.len(), data.get(0)) {
            (1, Some(scalar)) => Ok(scalar.as_i64()),
            (len, _) => Err(at.bad(what, "one element", len)),
        }
    }

    fn truth(&mut self, at: At<'_>, number: usize, what: &str) -> Result<bool, ModelError> {
        Ok(self.integer(at, number, what)? != 0)
    }
}

/// The node that is walked, and what is said about it.
#[derive(Clone, Copy)]
struct At<'a> {
    node: &'a Node,
}

impl<'a> At<'a> {
    fn attribute(self, name: &str) -> Option<&'a Attribute> {
        self.node.attributes.iter().find(|attribute| attribute.0 == name).map(|attribute| &attribute.1)
    }

    fn graph(self, name: &str) -> Result<&'a Graph, ModelError> {
        let found = self.node.graphs.iter().find(|graph| graph.0 == name);
        found.map(|graph| &*graph.1).ok_or_else(|| ModelError::BadAttribute {
            node: shown(&self.node.name),
            attribute: name.to_owned(),
            expected: "a graph".to_owned(),
            found: self.attribute(name).map_or("nothing", Attribute::kind).to_owned(),
        })
    }

    fn int(self, name: &str, default: i64) -> Result<i64, ModelError> {
        match self.attribute(name) {
            None => Ok(default),
            Some(Attribute::Int(value)) => Ok(*value),
            Some(other) => Err(self.bad(name, "an integer", other.kind())),
        }
    }

    /// Numbers for each of `len`, zeros if there are none.
    fn ints(self, name: &str, len: usize) -> Result<Vec<i64>, ModelError> {
        match self.attribute(name) {
            None => Ok(vec![0; len]),
            Some(Attribute::Ints(values)) if values.len() == len => Ok(values.clone()),
            Some(other) => Err(self.bad(name, format!("{len} integers"), other.kind())),
        }
    }

    fn tensor(self, inputs: &[Option<Held>], place: usize) -> Result<usize, ModelError> {
        match inputs.get(place) {
            Some(Some(Held::Tensor(number))) => Ok(*number),
            Some(Some(Held::List(_))) => Err(ModelError::TypeMismatch {
                node: shown(&self.node.name),
                expected: "a tensor".to_owned(),
                found: "a list of tensors".to_owned(),
            }),
            _ => Err(self.missing()),
        }
    }

    fn list(self, inputs: &[Option<Held>], place: usize) -> Result<&[usize], ModelError> {
        match inputs.get(place) {
            Some(Some(Held::List(list))) => Ok(list),
            Some(Some(Held::Tensor(_))) => Err(ModelError::TypeMismatch {
                node: shown(&self.node.name),
                expected: "a list of tensors".to_owned(),
                found: "a tensor".to_owned(),
            }),
            _ => Err(self.missing()),
        }
    }

    /// Adds what a round made to what those before it did; gives the numbers.
    fn gather(self, rounds: &mut [Vec<usize>], made: Vec<Held>) -> Result<Vec<usize>, ModelError> {
        let mut new = Vec::with_capacity(made.len());
        for (list, held) in rounds.iter_mut().zip(made) {
            let Held::Tensor(number) = held else { return Err(self.missing()) };
            list.push(number);
            new.push(number);
        }
        Ok(new)
    }

    fn missing(self) -> ModelError {
        let found = self.node.inputs.iter().flatten().count();
        let expected = "as many as the graph inside it has, and outputs too:".to_owned();
        ModelError::Inputs { node: shown(&self.node.name), expected, found }
    }

    fn unknown(self, what: &str) -> ModelError {
        ModelError::NotConstant { node: shown(&self.node.name), input: what.to_owned() }
    }

    fn bad(self, input: &str, expected: impl ToString, found: impl ToString) -> ModelError {
        let (expected, found) = (expected.to_string(), found.to_string());
        ModelError::BadValue { node: shown(&self.node.name), input: input.to_owned(), expected, found }
    }

    fn too_long(self) -> ModelError {
        let what = format!("the number of rounds or pieces of node `{}`", shown(&self.node.name));
        ModelError::TooLarge { what, limit: MAX_LAYERS.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use crate::builder::{Net, int, integers};
    use crate::proto::{TensorProto, element_type};

    fn body() -> Net {
        Net::new(13).input("i", element_type::INT64, &[]).input("on", element_type::BOOL, &[]).input(
            "c",
            element_type::FLOAT,
            &[],
        )
    }

    /// A loop of that body for so many rounds; what it carries starts with `first`.
    fn looped(body: Net, rounds: i64, net: Net, first: &str) -> Net {
        let truth = TensorProto { data_type: element_type::BOOL, int32_data: vec![1], ..TensorProto::default() };
        net.tensor("most", integers(&[], &[rounds])).tensor("true", truth).node(
            "Loop",
            &["most", "true", first],
            "y",
            vec![body.inside("body")],
        )
    }

    /// The error of reading, in words.
    fn refusal(net: &Net) -> String {
        net.resolve(1).map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn loops_end() {
        let x = || Net::new(13).x(&[-1, 4]);
        let nothing = body().output("on").output("c");
        let long = looped(nothing.clone(), 1 << 62, x(), "x").output("y");
        assert!(refusal(&long).contains("rounds or pieces of node `the_y`"), "{}", refusal(&long));
        // A loop in a loop that computes nothing has no layers to count.
        let inner = body().node("Loop", &["most", "true", "c"], "d", vec![nothing.inside("body")]);
        let nested = looped(inner.output("on").output("d"), 50_000, x(), "x").output("y");
        assert!(refusal(&nested).contains("as often as they run, at node `the_d`"), "{}", refusal(&nested));
    }

    #[test]
    fn lists_have_an_end() {
        let grows = body().node("SequenceInsert", &["c", "x"], "d", vec![]).output("on").output("d");
        let net = Net::new(13).x(&[-1, 4]).node("SequenceEmpty", &[], "none", vec![]);
        let length = |rounds| {
            let net = looped(grows.clone(), rounds, net.clone(), "none");
            net.node("SequenceLength", &["y"], "length", vec![]).output("length")
        };
        assert!(length(100).resolve(1).is_ok());
        assert!(refusal(&length(90_000)).contains("tensors in all lists at node `the_d`"));
        // Before memory is taken for the pieces.
        let cut = Net::new(13).x(&[1 << 30, 1]).node("SplitToSequence", &["x"], "l", vec![int("axis", 0)]);
        let cut = cut.node("SequenceLength", &["l"], "length", vec![]).output("length");
        assert_eq!(cut.code(), "too_large");
    }
}
