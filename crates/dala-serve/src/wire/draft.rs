//! A request as it was read, before it is known whether it fits the model: the same for both protocols.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::{Ask, Datatype, Lane, ModelInfo, Port, Refusal, Tensor, Terms, byte_elements};

/// What a request says.
#[derive(Debug, Default)]
pub struct Draft<'a> {
    /// What the client calls it; answers repeat it.
    pub id: Cow<'a, str>,
    /// Its lane, if it names one.
    pub lane: Option<Lane>,
    /// How long its answer is wanted, if it says so.
    pub timeout: Option<Duration>,
    /// What it brings.
    pub inputs: Vec<DraftInput<'a>>,
    /// What it asks for; nothing for everything.
    pub outputs: Vec<DraftOutput<'a>>,
    /// Whether outputs are wanted as binary data where they do not say themselves.
    pub binary_output: bool,
}

/// An input that a request brings.
#[derive(Debug)]
pub struct DraftInput<'a> {
    /// Which it is meant to be.
    pub name: Cow<'a, str>,
    /// What the request says its elements are.
    pub datatype: Datatype,
    /// What the request says its shape is.
    pub shape: Vec<usize>,
    /// The elements; as many as the client sent.
    pub data: Bytes,
}

/// An output that a request asks for.
#[derive(Debug)]
pub struct DraftOutput<'a> {
    /// Which is meant.
    pub name: Cow<'a, str>,
    /// Whether it is wanted as binary data, if the request says so.
    pub is_binary: Option<bool>,
}

fn bad(message: String) -> Refusal {
    Refusal::BadInput(message)
}

fn duplicate(what: &str, name: &str) -> Refusal {
    bad(format!("{what} `{name}` is there twice"))
}

impl Draft<'_> {
    /// The request, if it fits the model. Nothing behind this looks at names, types, shapes and lengths again.
    ///
    /// # Errors
    ///
    /// `BadInput`.
    pub fn check(self, model: Arc<ModelInfo>, terms: Terms) -> Result<Ask, Refusal> {
        let given = self.inputs.len();
        let mut found: Vec<Option<DraftInput<'_>>> = Vec::new();
        found.resize_with(model.inputs.len(), || None);
        for input in self.inputs {
            let place = model.inputs.iter().position(|port| *port.name == *input.name);
            let Some(slot) = place.and_then(|place| found.get_mut(place)) else {
                let known: Vec<&str> = model.inputs.iter().map(|port| &*port.name).collect();
                return Err(bad(format!(
                    "model `{}` has no input `{}`: it takes {}",
                    model.name,
                    input.name,
                    known.join(", ")
                )));
            };
            if slot.is_some() {
                return Err(duplicate("input", &input.name));
            }
            *slot = Some(input);
        }
        let mut inputs = Vec::with_capacity(given);
        for (port, input) in model.inputs.iter().zip(found) {
            match input {
                Some(input) => inputs.push(tensor(port, input)?),
                None if port.optional => {}
                None => return Err(bad(format!("input `{}` of model `{}` is missing", port.name, model.name))),
            }
        }
        check_items(&model, &inputs)?;
        let outputs = places(&model, &self.outputs)?;
        Ok(Ask { model, inputs, outputs, terms })
    }
}

/// The input as a tensor, if it is what the port takes.
fn tensor(port: &Port, input: DraftInput<'_>) -> Result<Tensor, Refusal> {
    let DraftInput { datatype, shape, data, .. } = input;
    let name = &port.name;
    if datatype != port.datatype {
        return Err(bad(format!("input `{name}` is {}, not {datatype}", port.datatype)));
    }
    if !port.accepts(&shape) {
        let wanted: Vec<String> =
            port.shape.iter().map(|size| size.map_or_else(|| "?".to_owned(), |size| size.to_string())).collect();
        return Err(bad(format!("input `{name}` has the shape [{}], not {shape:?}", wanted.join(", "))));
    }
    let elements = Tensor::elements(&shape).ok_or_else(|| bad(format!("the shape of input `{name}` is too large")))?;
    match datatype.size_bytes() {
        Some(size) => {
            let expected = elements.checked_mul(size);
            if expected != Some(data.len()) {
                let expected = expected.map_or_else(|| "more".to_owned(), |bytes| bytes.to_string());
                return Err(bad(format!("input `{name}` has {} bytes, its shape {expected}", data.len())));
            }
        }
        None => {
            let mut count = 0;
            for element in byte_elements(&data) {
                if element.is_none() {
                    return Err(bad(format!("input `{name}` ends within an element")));
                }
                count += 1;
            }
            if count != elements {
                return Err(bad(format!("input `{name}` has {count} elements, its shape {elements}")));
            }
        }
    }
    if datatype == Datatype::Bool && data.iter().any(|&byte| byte > 1) {
        return Err(bad(format!("input `{name}` has bytes other than 0 and 1")));
    }
    Ok(Tensor { name: name.clone(), datatype, shape, data })
}

/// Where the first axis counts items: all inputs have as many, and no more than one run takes.
fn check_items(model: &ModelInfo, inputs: &[Tensor]) -> Result<(), Refusal> {
    let (Some(most), Some(first)) = (model.max_batch, inputs.first()) else { return Ok(()) };
    let items = |input: &Tensor| input.shape.first().copied().unwrap_or(0);
    let count = items(first);
    if count == 0 || count > most {
        return Err(bad(format!("model `{}` takes 1 to {most} items at a time, not {count}", model.name)));
    }
    match inputs.iter().find(|input| items(input) != count) {
        Some(other) => Err(bad(format!(
            "inputs `{}` and `{}` differ in their first axis, which counts items: {count} and {}",
            first.name,
            other.name,
            items(other)
        ))),
        None => Ok(()),
    }
}

/// The places of the outputs that are asked for; all, if none is.
fn places(model: &ModelInfo, wanted: &[DraftOutput<'_>]) -> Result<Vec<usize>, Refusal> {
    if wanted.is_empty() {
        return Ok((0..model.outputs.len()).collect());
    }
    let mut places = Vec::with_capacity(wanted.len().min(model.outputs.len()));
    for output in wanted {
        let Some(place) = model.outputs.iter().position(|port| *port.name == *output.name) else {
            return Err(bad(format!("model `{}` has no output `{}`", model.name, output.name)));
        };
        if places.contains(&place) {
            return Err(duplicate("output", &output.name));
        }
        places.push(place);
    }
    Ok(places)
}

/// What `priority` of a request means: 1 is the highest, 0 is what the server takes for ordinary.
pub(crate) fn lane_of_priority(priority: u64) -> Lane {
    match priority {
        1 => Lane::Interactive,
        0 | 2 => Lane::Default,
        _ => Lane::Background,
    }
}

/// Whether a parameter is one that would change the answer, and that is not offered: it is refused rather than ignored.
pub(crate) fn refused_parameter(name: &str) -> Option<Refusal> {
    match name {
        "sequence_id" | "sequence_start" | "sequence_end" => {
            Some(Refusal::Unsupported("sequences of requests are not offered".to_owned()))
        }
        "classification" => Some(Refusal::BadInput("the classification extension is not offered".to_owned())),
        _ if name.starts_with("shared_memory_") => {
            Some(Refusal::BadInput("shared memory is not offered: send the data".to_owned()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Caller;
    use crate::double::Identity;

    fn port(name: &str, datatype: Datatype, shape: &[Option<usize>]) -> Port {
        Port { name: name.into(), datatype, shape: shape.to_vec(), optional: false }
    }

    fn model() -> ModelInfo {
        let inputs = vec![port("x", Datatype::Fp32, &[None, Some(2)]), port("names", Datatype::Bytes, &[None])];
        let outputs = vec![port("y", Datatype::Fp32, &[None, Some(2)]), port("z", Datatype::Bool, &[None])];
        ModelInfo { max_batch: Some(4), ..Identity::model("m", inputs, outputs) }
    }

    fn input(name: &'static str, datatype: Datatype, shape: &[usize], data: &[u8]) -> DraftInput<'static> {
        DraftInput { name: name.into(), datatype, shape: shape.to_vec(), data: Bytes::copy_from_slice(data) }
    }

    fn x(items: usize) -> DraftInput<'static> {
        input("x", Datatype::Fp32, &[items, 2], &vec![0; items * 8])
    }

    fn names(items: usize) -> DraftInput<'static> {
        input("names", Datatype::Bytes, &[items], &[1, 0, 0, 0, b'a'].repeat(items))
    }

    fn checked(inputs: Vec<DraftInput<'_>>, outputs: &[&'static str]) -> Result<Ask, Refusal> {
        let outputs = outputs.iter().map(|&name| DraftOutput { name: name.into(), is_binary: None }).collect();
        let terms = Terms { lane: Lane::Default, deadline: None, caller: Caller(0) };
        Draft { inputs, outputs, ..Draft::default() }.check(model().into(), terms)
    }

    #[test]
    fn inputs_come_in_the_order_of_the_model() {
        let ask = checked(vec![names(3), x(3)], &[]).unwrap();
        assert_eq!(ask.inputs.iter().map(|input| &*input.name).collect::<Vec<_>>(), ["x", "names"]);
        assert_eq!((ask.model.items(&ask.inputs), ask.outputs, ask.inputs[0].data.len()), (3, vec![0, 1], 24));
        assert_eq!(checked(vec![x(1), names(1)], &["z"]).unwrap().outputs, [1]);
    }

    #[test]
    fn what_does_not_fit_is_refused_by_name() {
        let one = || vec![x(1), names(1)];
        let with = |other| vec![x(1), other];
        for (inputs, outputs, says) in [
            (vec![], &[][..], "input `x` of model `m` is missing"),
            (vec![x(1)], &[], "input `names` of model `m` is missing"),
            (vec![x(1), x(1)], &[], "input `x` is there twice"),
            (with(input("w", Datatype::Fp32, &[1], &[])), &[], "no input `w`: it takes x, names"),
            (vec![input("x", Datatype::Fp64, &[1, 2], &[0; 16])], &[], "one missing"),
            (vec![input("x", Datatype::Fp32, &[1, 3], &[0; 12]), names(1)], &[], "[?, 2], not [1, 3]"),
            (vec![input("x", Datatype::Fp32, &[2], &[0; 8]), names(1)], &[], "[?, 2], not [2]"),
            (vec![input("x", Datatype::Fp32, &[1, 2], &[0; 7]), names(1)], &[], "7 bytes, its shape 8"),
            (vec![input("x", Datatype::Fp32, &[usize::MAX, 2], &[0; 8]), names(1)], &[], "too large"),
            (with(input("names", Datatype::Bytes, &[1], &[9, 0, 0, 0, b'a'])), &[], "ends within an element"),
            (with(input("names", Datatype::Bytes, &[2], &[1, 0, 0, 0, b'a'])), &[], "has 1 elements, its shape 2"),
            (vec![x(5), names(5)], &[], "takes 1 to 4 items at a time, not 5"),
            (vec![x(0), names(0)], &[], "takes 1 to 4 items at a time, not 0"),
            (vec![x(2), names(1)], &[], "which counts items: 2 and 1"),
            (one(), &["w"], "no output `w`"),
            (one(), &["y", "y"], "output `y` is there twice"),
        ] {
            let refusal = checked(inputs, outputs).unwrap_err().to_string();
            assert!(
                refusal.contains(says) || says == "one missing" && refusal.contains("is FP32, not FP64"),
                "{refusal}"
            );
        }
    }
}
