//! Requests for models, and their answers, as HTTP carries them: JSON, with or without binary tensors behind it.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;

use super::draft::{Draft, DraftInput, DraftOutput, lane_of_priority, refused_parameter};
use super::json::Reader;
use super::numbers;
use crate::{Answer, Ask, Datatype, ModelInfo, Refusal, Tensor};

/// More inputs or outputs than any model has; more are not read.
const MOST_TENSORS: usize = 4096;

fn bad(message: impl Into<String>) -> Refusal {
    Refusal::BadInput(message.into())
}

/// Reads a request. `header_bytes` is how much of the body is JSON, where the client says so; what follows is the data of its
/// binary inputs, which is not copied. Nothing that is made of the body takes more than `limit_bytes`.
///
/// # Errors
///
/// `BadInput`, `TooLarge`, `Unsupported`.
pub fn read(body: &Bytes, header_bytes: Option<usize>, limit_bytes: usize) -> Result<Draft<'_>, Refusal> {
    let header_bytes = header_bytes.unwrap_or(body.len());
    let text = body.get(..header_bytes).ok_or_else(|| bad("the header is said to be longer than the body"))?;
    let mut binary = Binary { body, at: header_bytes };
    let mut left = limit_bytes;
    let mut draft = Draft::default();
    let mut seen = Seen::default();
    let mut reader = Reader::new(text);
    let mut drafts = Vec::new();
    reader.object(|reader, member| match member {
        "id" => {
            seen.once(reader, member)?;
            draft.id = if reader.null() { Cow::default() } else { reader.string()? };
            Ok(())
        }
        "parameters" => {
            seen.once(reader, member)?;
            request_parameters(reader, &mut draft)
        }
        "inputs" => {
            seen.once(reader, member)?;
            reader.array(|reader| {
                few(reader, drafts.len())?;
                let input = Pieces::read(reader, &mut left).map_err(|refusal| match refusal {
                    Refusal::TooLarge { .. } => Refusal::TooLarge { limit_bytes },
                    other => other,
                })?;
                drafts.push(input);
                Ok(())
            })
        }
        "outputs" => {
            seen.once(reader, member)?;
            if reader.null() {
                return Ok(());
            }
            reader.array(|reader| {
                few(reader, draft.outputs.len())?;
                let output = wanted(reader)?;
                draft.outputs.push(output);
                Ok(())
            })
        }
        _ => reader.skip(),
    })?;
    reader.end()?;
    for pieces in drafts {
        draft.inputs.push(pieces.finish(&mut binary)?);
    }
    if binary.at != body.len() {
        return Err(bad(format!("{} bytes behind the data of the last input", body.len() - binary.at)));
    }
    Ok(draft)
}

/// A request that is nothing but the data of the one input of a model, as the binary extension allows: what is open in its
/// shape follows from the length.
///
/// # Errors
///
/// `BadInput`.
pub fn read_raw(body: &Bytes, model: &ModelInfo) -> Result<Draft<'static>, Refusal> {
    let [port] = &model.inputs[..] else {
        return Err(bad(format!("model `{}` has {} inputs: say which is meant", model.name, model.inputs.len())));
    };
    let mut shape = port.shape.clone();
    if let (Some(_), Some(items)) = (model.max_batch, shape.first_mut()) {
        *items = Some(1);
    }
    let mut data = body.clone();
    if port.datatype == Datatype::Bytes {
        // The whole body is one element.
        let length = u32::try_from(body.len()).map_err(|_| bad("an element of 4 GiB"))?;
        data = [&length.to_le_bytes(), &body[..]].concat().into();
    }
    let known = Tensor::elements(&shape.iter().flatten().copied().collect::<Vec<_>>());
    let step = known.and_then(|known| known.checked_mul(port.datatype.size_bytes().unwrap_or(data.len())));
    let open = match step {
        Some(step) if step > 0 && data.len().is_multiple_of(step) => data.len() / step,
        _ => return Err(bad(format!("{} bytes are no whole input `{}`", body.len(), port.name))),
    };
    match shape.iter().filter(|size| size.is_none()).count() {
        0 if open == 1 => {}
        1 => {}
        _ => return Err(bad(format!("the shape of input `{}` does not follow from a length", port.name))),
    }
    let shape = shape.into_iter().map(|size| size.unwrap_or(open)).collect();
    let input = DraftInput { name: Cow::Owned(port.name.to_string()), datatype: port.datatype, shape, data };
    Ok(Draft { inputs: vec![input], binary_output: true, ..Draft::default() })
}

/// What follows the JSON.
struct Binary<'a> {
    body: &'a Bytes,
    at: usize,
}

impl Binary<'_> {
    fn take(&mut self, size: u64) -> Option<Bytes> {
        let end = usize::try_from(size).ok().and_then(|size| self.at.checked_add(size));
        let end = end.filter(|&end| end <= self.body.len())?;
        let taken = self.body.slice(self.at..end);
        self.at = end;
        Some(taken)
    }
}

/// Members that were read; each may be there once, since nobody can tell which of two is meant.
#[derive(Default)]
struct Seen(Vec<&'static str>);

impl Seen {
    fn once(&mut self, reader: &Reader<'_>, member: &str) -> Result<(), Refusal> {
        const MEMBERS: [&str; 8] = ["id", "parameters", "inputs", "outputs", "name", "shape", "datatype", "data"];
        let known = MEMBERS.into_iter().find(|known| *known == member).unwrap_or_default();
        if self.0.contains(&known) {
            return Err(reader.fail(format_args!("`{known}` is there twice")));
        }
        self.0.push(known);
        Ok(())
    }
}

fn few(reader: &Reader<'_>, count: usize) -> Result<(), Refusal> {
    if count < MOST_TENSORS { Ok(()) } else { Err(reader.fail(format_args!("more than {MOST_TENSORS} tensors"))) }
}

/// Reads the parameters of a request.
fn request_parameters(reader: &mut Reader<'_>, draft: &mut Draft<'_>) -> Result<(), Refusal> {
    parameters(reader, |reader, name| {
        match name {
            "priority" => draft.lane = Some(lane_of_priority(reader.unsigned()?)),
            "timeout" => draft.timeout = Some(Duration::from_micros(reader.unsigned()?)).filter(|wait| !wait.is_zero()),
            "binary_data_output" => draft.binary_output = reader.boolean()?,
            _ if name.starts_with("triton_") => return Err(reader.fail("parameters `triton_…` are reserved")),
            _ => return Ok(false),
        }
        Ok(true)
    })
}

/// Reads parameters, each by `known` if it answers true; others are passed over, unless ignoring them would change the answer.
fn parameters(
    reader: &mut Reader<'_>,
    mut known: impl FnMut(&mut Reader<'_>, &str) -> Result<bool, Refusal>,
) -> Result<(), Refusal> {
    if reader.null() {
        return Ok(());
    }
    reader.object(|reader, name| match refused_parameter(name) {
        Some(refusal) => Err(refusal),
        None if known(reader, name)? => Ok(()),
        None => reader.skip(),
    })
}

/// Reads an output that is asked for.
fn wanted<'a>(reader: &mut Reader<'a>) -> Result<DraftOutput<'a>, Refusal> {
    let (mut name, mut is_binary) = (None, None);
    let mut seen = Seen::default();
    reader.object(|reader, member| match member {
        "name" => {
            seen.once(reader, member)?;
            name = Some(reader.string()?);
            Ok(())
        }
        "parameters" => {
            seen.once(reader, member)?;
            parameters(reader, |reader, name| {
                if name == "binary_data" {
                    is_binary = Some(reader.boolean()?);
                }
                Ok(name == "binary_data")
            })
        }
        _ => reader.skip(),
    })?;
    let name = name.ok_or_else(|| reader.fail("an output without `name`"))?;
    Ok(DraftOutput { name, is_binary })
}

/// An input as its JSON says, in whichever order its members come.
struct Pieces<'a> {
    name: Cow<'a, str>,
    datatype: Datatype,
    shape: Vec<usize>,
    data: Data,
}

enum Data {
    Here(Bytes),
    Behind(u64),
}

impl<'a> Pieces<'a> {
    fn read(reader: &mut Reader<'a>, left: &mut usize) -> Result<Pieces<'a>, Refusal> {
        let (mut name, mut datatype, mut shape, mut size) = (None, None, None, None);
        // Elements are read when their type and shape are known. Where they come first, they are read a second time.
        let (mut data, mut later) = (None, None);
        let mut seen = Seen::default();
        reader.object(|reader, member| match member {
            "name" => {
                seen.once(reader, member)?;
                name = Some(reader.string()?);
                Ok(())
            }
            "datatype" => {
                seen.once(reader, member)?;
                let word = reader.string()?;
                let known = Datatype::by_name(&word);
                datatype = Some(known.ok_or_else(|| reader.fail(format_args!("there is no type `{word}`")))?);
                Ok(())
            }
            "shape" => {
                seen.once(reader, member)?;
                let mut sizes = Vec::new();
                reader.array(|reader| {
                    let size = reader.unsigned()?;
                    sizes.push(usize::try_from(size).map_err(|_| reader.fail("too large"))?);
                    Ok(())
                })?;
                shape = Some(sizes);
                Ok(())
            }
            "data" => {
                seen.once(reader, member)?;
                match (datatype, &shape) {
                    (Some(datatype), Some(shape)) => data = Some(numbers::read(reader, datatype, shape, *left)?),
                    _ => {
                        later = Some(reader.clone());
                        reader.skip()?;
                    }
                }
                Ok(())
            }
            "parameters" => {
                seen.once(reader, member)?;
                parameters(reader, |reader, name| {
                    if name == "binary_data_size" {
                        size = Some(reader.unsigned()?);
                    }
                    Ok(name == "binary_data_size")
                })
            }
            _ => reader.skip(),
        })?;
        let missing = |what| reader.fail(format_args!("an input without `{what}`"));
        let name = name.ok_or_else(|| missing("name"))?;
        let datatype = datatype.ok_or_else(|| missing("datatype"))?;
        let shape = shape.ok_or_else(|| missing("shape"))?;
        if let Some(mut later) = later {
            data = Some(numbers::read(&mut later, datatype, &shape, *left)?);
        }
        let data = match (data, size) {
            (Some(data), None) => {
                *left = left.saturating_sub(data.len());
                Data::Here(data)
            }
            (None, Some(size)) => Data::Behind(size),
            (None, None) => return Err(bad(format!("input `{name}` has neither `data` nor `binary_data_size`"))),
            (Some(_), Some(_)) => return Err(bad(format!("input `{name}` has both `data` and `binary_data_size`"))),
        };
        Ok(Pieces { name, datatype, shape, data })
    }

    fn finish(self, binary: &mut Binary<'_>) -> Result<DraftInput<'a>, Refusal> {
        let Pieces { name, datatype, shape, data } = self;
        let data = match data {
            Data::Here(data) => data,
            Data::Behind(size) => binary.take(size).ok_or_else(|| {
                bad(format!(
                    "input `{name}` is said to have {size} bytes; the body has {}",
                    binary.body.len() - binary.at
                ))
            })?,
        };
        Ok(DraftInput { name, datatype, shape, data })
    }
}

/// How an answer is to be written.
#[derive(Debug)]
pub struct Manner {
    id: String,
    /// For each output that was asked for, whether as binary data.
    is_binary: Vec<bool>,
}

impl Manner {
    /// As the request asks.
    pub fn of(draft: &Draft<'_>, model: &ModelInfo) -> Manner {
        let is_binary: Vec<bool> = if draft.outputs.is_empty() {
            vec![draft.binary_output; model.outputs.len()]
        } else {
            draft.outputs.iter().map(|output| output.is_binary.unwrap_or(draft.binary_output)).collect()
        };
        Manner { id: draft.id.clone().into_owned(), is_binary }
    }

    /// Whether any output is written as JSON, which takes a while where it is large.
    pub fn has_text(&self) -> bool {
        self.is_binary.contains(&false)
    }

    /// Whether every output can be written as it is wanted: known before the model runs.
    ///
    /// # Errors
    ///
    /// `BadInput` if an output is wanted as JSON that the protocol has no JSON for.
    pub fn check(&self, ask: &Ask) -> Result<(), Refusal> {
        for (&place, &is_binary) in ask.outputs.iter().zip(&self.is_binary) {
            match ask.model.outputs.get(place).map(|port| port.datatype) {
                Some(datatype @ (Datatype::Fp16 | Datatype::Bf16)) if !is_binary => {
                    return Err(numbers::binary_only(datatype));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// An answer, ready to be sent.
#[derive(Debug)]
pub struct Written {
    /// How much of it is JSON, if anything follows.
    pub header_bytes: Option<usize>,
    /// What is sent, one after the other. Large tensors are those of the answer itself, not copies.
    pub parts: Vec<Bytes>,
}

/// Outputs up to this size are copied behind the JSON, which is cheaper than to send them as a part of their own.
const COPIED: usize = 16 << 10;

/// Writes an answer.
///
/// # Errors
///
/// `BadInput` if an output is wanted as JSON, and is not text.
pub fn write(model: &str, answer: &Answer, manner: &Manner) -> Result<Written, Refusal> {
    let mut out = Vec::with_capacity(512);
    out.extend_from_slice(b"{\"model_name\":");
    numbers::string(model, &mut out);
    out.extend_from_slice(b",\"model_version\":");
    numbers::string(&answer.version, &mut out);
    if !manner.id.is_empty() {
        out.extend_from_slice(b",\"id\":");
        numbers::string(&manner.id, &mut out);
    }
    let mut integer = itoa::Buffer::new();
    let mut field = |name: &[u8], value: u128, out: &mut Vec<u8>| {
        out.extend_from_slice(name);
        out.extend_from_slice(integer.format(value).as_bytes());
    };
    let times = answer.times;
    field(b",\"parameters\":{\"queue_us\":", times.queued.as_micros(), &mut out);
    field(b",\"run_us\":", times.ran.as_micros(), &mut out);
    field(b",\"batch\":", times.batch as u128, &mut out);
    out.extend_from_slice(b"},\"outputs\":[");
    let mut has_binary = false;
    for (index, (tensor, &is_binary)) in answer.outputs.iter().zip(&manner.is_binary).enumerate() {
        out.extend_from_slice(if index > 0 { b",{\"name\":" } else { b"{\"name\":" });
        numbers::string(&tensor.name, &mut out);
        out.extend_from_slice(b",\"datatype\":\"");
        out.extend_from_slice(tensor.datatype.name().as_bytes());
        out.extend_from_slice(b"\",\"shape\":");
        numbers::list(&mut out, &tensor.shape, |out, &size| field(b"", size as u128, out));
        if is_binary {
            has_binary = true;
            field(b",\"parameters\":{\"binary_data_size\":", tensor.data.len() as u128, &mut out);
            out.push(b'}');
        } else {
            out.extend_from_slice(b",\"data\":");
            numbers::write(tensor, &mut out)?;
        }
        out.push(b'}');
    }
    out.extend_from_slice(b"]}");
    let header_bytes = has_binary.then_some(out.len());
    let mut parts = Vec::new();
    for (tensor, _) in answer.outputs.iter().zip(&manner.is_binary).filter(|(_, is_binary)| **is_binary) {
        if tensor.data.len() <= COPIED {
            out.extend_from_slice(&tensor.data);
        } else {
            parts.push(std::mem::take(&mut out).into());
            parts.push(tensor.data.clone());
        }
    }
    parts.push(out.into());
    parts.retain(|part| !part.is_empty());
    Ok(Written { header_bytes, parts })
}
