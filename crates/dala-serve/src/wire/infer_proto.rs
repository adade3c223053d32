//! Requests for models, and their answers, as gRPC carries them.

use std::borrow::Cow;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};

use super::draft::{Draft, DraftInput, DraftOutput, lane_of_priority, refused_parameter};
use super::messages::{
    InferInputTensor, InferParameter, InferTensorContents, ModelInferRequest, ModelInferResponse, Parameter,
    TensorMetadata,
};
use crate::{Answer, Datatype, Refusal};

fn bad(message: impl Into<String>) -> Refusal {
    Refusal::BadInput(message.into())
}

/// Reads any message.
///
/// # Errors
///
/// `BadInput`.
pub fn decode<M: Message + Default>(body: impl Buf) -> Result<M, Refusal> {
    M::decode(body).map_err(|error| bad(format!("not the message of this call: {error}")))
}

/// What a request says. The data of its inputs is that of the body, not a copy, where it came as raw contents.
///
/// # Errors
///
/// `BadInput`, `Unsupported`.
pub fn read(request: &mut ModelInferRequest) -> Result<Draft<'_>, Refusal> {
    let mut draft = Draft { id: Cow::Borrowed(&request.id), ..Draft::default() };
    for (name, value) in &request.parameters {
        if let Some(refusal) = refused_parameter(name) {
            return Err(refusal);
        }
        let whole = match value.choice {
            Some(Parameter::Uint64(value)) => Some(value),
            Some(Parameter::Int64(value)) => u64::try_from(value).ok(),
            _ => None,
        };
        let wrong = || bad(format!("parameter `{name}` is a whole number"));
        match &**name {
            "priority" => draft.lane = Some(lane_of_priority(whole.ok_or_else(wrong)?)),
            "timeout" => {
                let wait = Duration::from_micros(whole.ok_or_else(wrong)?);
                draft.timeout = Some(wait).filter(|wait| !wait.is_zero());
            }
            _ => {}
        }
    }
    for output in &request.outputs {
        if let Some(refusal) = output.parameters.keys().find_map(|name| refused_parameter(name)) {
            return Err(refusal);
        }
        draft.outputs.push(DraftOutput { name: Cow::Borrowed(&output.name), is_binary: None });
    }
    let raw = std::mem::take(&mut request.raw_input_contents);
    if !raw.is_empty() && raw.len() != request.inputs.len() {
        let (inputs, contents) = (request.inputs.len(), raw.len());
        return Err(bad(format!("{inputs} inputs, and raw contents for {contents}")));
    }
    let mut raw = raw.into_iter();
    for input in &mut request.inputs {
        draft.inputs.push(read_input(input, raw.next())?);
    }
    Ok(draft)
}

fn read_input(input: &mut InferInputTensor, raw: Option<Bytes>) -> Result<DraftInput<'_>, Refusal> {
    if let Some(refusal) = input.parameters.keys().find_map(|name| refused_parameter(name)) {
        return Err(refusal);
    }
    let name = &input.name;
    let datatype = Datatype::by_name(&input.datatype)
        .ok_or_else(|| bad(format!("input `{name}`: there is no type `{}`", input.datatype)))?;
    let size = |&size: &i64| usize::try_from(size).map_err(|_| bad(format!("input `{name}` has a negative size")));
    let shape = input.shape.iter().map(size).collect::<Result<Vec<_>, _>>()?;
    let data = match (raw, input.contents.take()) {
        (Some(data), None) => data,
        (None, Some(contents)) => typed(name, datatype, contents)?,
        (None, None) => return Err(bad(format!("input `{name}` has no contents"))),
        (Some(_), Some(_)) => return Err(bad(format!("input `{name}` has contents of both kinds"))),
    };
    Ok(DraftInput { name: Cow::Borrowed(name), datatype, shape, data })
}

/// Contents as lists of numbers, as the bytes that they lie in memory as.
fn typed(name: &str, datatype: Datatype, contents: InferTensorContents) -> Result<Bytes, Refusal> {
    let InferTensorContents {
        bool_contents,
        int_contents,
        int64_contents,
        uint_contents,
        uint64_contents,
        fp32_contents,
        fp64_contents,
        bytes_contents,
    } = contents;
    let lists = [
        bool_contents.len(),
        int_contents.len(),
        int64_contents.len(),
        uint_contents.len(),
        uint64_contents.len(),
        fp32_contents.len(),
        fp64_contents.len(),
        bytes_contents.len(),
    ];
    let expected = match datatype {
        Datatype::Bool => 0,
        Datatype::Int8 | Datatype::Int16 | Datatype::Int32 => 1,
        Datatype::Int64 => 2,
        Datatype::Uint8 | Datatype::Uint16 | Datatype::Uint32 => 3,
        Datatype::Uint64 => 4,
        Datatype::Fp32 => 5,
        Datatype::Fp64 => 6,
        Datatype::Bytes => 7,
        Datatype::Fp16 | Datatype::Bf16 => {
            return Err(bad(format!("input `{name}`: {datatype} has raw contents only")));
        }
    };
    if lists.iter().enumerate().any(|(index, &length)| index != expected && length > 0) {
        return Err(bad(format!("input `{name}` is {datatype}, and its contents are of another type")));
    }
    let mut data = Vec::new();
    macro_rules! narrow {
        ($values:ident as $type:ty) => {
            for value in $values {
                let value = <$type>::try_from(value);
                let value = value.map_err(|_| bad(format!("input `{name}` has values that are no {datatype}")))?;
                data.extend_from_slice(&value.to_le_bytes());
            }
        };
    }
    macro_rules! plain {
        ($values:ident) => {
            for value in $values {
                data.extend_from_slice(&value.to_le_bytes());
            }
        };
    }
    match datatype {
        Datatype::Bool => data.extend(bool_contents.into_iter().map(u8::from)),
        Datatype::Int8 => narrow!(int_contents as i8),
        Datatype::Int16 => narrow!(int_contents as i16),
        Datatype::Int32 => plain!(int_contents),
        Datatype::Int64 => plain!(int64_contents),
        Datatype::Uint8 => narrow!(uint_contents as u8),
        Datatype::Uint16 => narrow!(uint_contents as u16),
        Datatype::Uint32 => plain!(uint_contents),
        Datatype::Uint64 => plain!(uint64_contents),
        Datatype::Fp32 => plain!(fp32_contents),
        Datatype::Fp64 => plain!(fp64_contents),
        Datatype::Bytes => {
            for element in bytes_contents {
                let length = u32::try_from(element.len()).map_err(|_| bad("an element of 4 GiB"))?;
                data.extend_from_slice(&length.to_le_bytes());
                data.extend_from_slice(&element);
            }
        }
        Datatype::Fp16 | Datatype::Bf16 => {}
    }
    Ok(data.into())
}

/// The answer without its tensors' data.
fn response(model: &str, answer: &Answer, id: String) -> ModelInferResponse {
    let number = |value: u128| Some(Parameter::Int64(i64::try_from(value).unwrap_or(i64::MAX)));
    let times = answer.times;
    let parameters =
        [("queue_us", times.queued.as_micros()), ("run_us", times.ran.as_micros()), ("batch", times.batch as u128)];
    ModelInferResponse {
        model_name: model.to_owned(),
        model_version: answer.version.to_string(),
        id,
        parameters: parameters.map(|(name, value)| (name.to_owned(), InferParameter { choice: number(value) })).into(),
        outputs: answer
            .outputs
            .iter()
            .map(|output| TensorMetadata {
                name: output.name.to_string(),
                datatype: output.datatype.name().to_owned(),
                shape: output.shape.iter().map(|&size| i64::try_from(size).unwrap_or(i64::MAX)).collect(),
            })
            .collect(),
        raw_output_contents: Vec::new(),
    }
}

/// Outputs up to this size are copied behind the rest, which is cheaper than to send them as a part of their own.
const COPIED: usize = 16 << 10;

/// Writes an answer as parts that are sent one after the other. Large tensors are those of the answer itself, not copies.
pub fn write(model: &str, answer: &Answer, id: String) -> Vec<Bytes> {
    let mut out = response(model, answer, id).encode_to_vec();
    let mut parts = Vec::new();
    // The last field of the message: what follows the others may be written apart from them.
    for output in &answer.outputs {
        encode_key(6, WireType::LengthDelimited, &mut out);
        encode_varint(output.data.len() as u64, &mut out);
        if output.data.len() <= COPIED {
            out.put_slice(&output.data);
        } else {
            parts.push(std::mem::take(&mut out).into());
            parts.push(output.data.clone());
        }
    }
    if !out.is_empty() {
        parts.push(out.into());
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_contents_of_every_type() {
        type Contents = InferTensorContents;
        let empty = Contents::default;
        let texts = [&b"a"[..], b"", b"\xff"].map(Bytes::from_static).to_vec();
        for (datatype, contents, expected) in [
            (Datatype::Bool, Contents { bool_contents: vec![true, false], ..empty() }, vec![1, 0]),
            (Datatype::Int8, Contents { int_contents: vec![-128, 127], ..empty() }, vec![128, 127]),
            (Datatype::Int16, Contents { int_contents: vec![-2, 1], ..empty() }, vec![254, 255, 1, 0]),
            (Datatype::Int32, Contents { int_contents: vec![-2], ..empty() }, vec![254, 255, 255, 255]),
            (Datatype::Int64, Contents { int64_contents: vec![i64::MIN], ..empty() }, vec![0, 0, 0, 0, 0, 0, 0, 128]),
            (Datatype::Uint8, Contents { uint_contents: vec![0, 255], ..empty() }, vec![0, 255]),
            (Datatype::Uint16, Contents { uint_contents: vec![258], ..empty() }, vec![2, 1]),
            (Datatype::Uint32, Contents { uint_contents: vec![258], ..empty() }, vec![2, 1, 0, 0]),
            (Datatype::Uint64, Contents { uint64_contents: vec![u64::MAX], ..empty() }, vec![255; 8]),
            (Datatype::Fp32, Contents { fp32_contents: vec![1.0], ..empty() }, vec![0, 0, 128, 63]),
            (Datatype::Fp64, Contents { fp64_contents: vec![1.0], ..empty() }, vec![0, 0, 0, 0, 0, 0, 240, 63]),
            (
                Datatype::Bytes,
                Contents { bytes_contents: texts, ..empty() },
                vec![1, 0, 0, 0, b'a', 0, 0, 0, 0, 1, 0, 0, 0, 255],
            ),
        ] {
            assert_eq!(typed("x", datatype, contents.clone()).unwrap(), expected, "{datatype}");
            let other = if datatype == Datatype::Bool { Datatype::Fp32 } else { Datatype::Bool };
            assert!(typed("x", other, contents).is_err(), "{datatype} as {other}");
        }
        for datatype in [Datatype::Fp16, Datatype::Bf16] {
            assert!(typed("x", datatype, empty()).is_err());
        }
        for (datatype, value) in [(Datatype::Int8, 128), (Datatype::Int8, -129), (Datatype::Int16, 32768)] {
            assert!(typed("x", datatype, Contents { int_contents: vec![value], ..empty() }).is_err());
        }
    }
}
