//! Requests for models as the server reads them: JSON with binary data behind it, protocol buffers, and what is compressed.

use std::sync::Arc;

use bytes::Bytes;
use dala_serve::double::Identity;
use dala_serve::wire::compression::Encoding;
use dala_serve::wire::draft::Draft;
use dala_serve::wire::infer_json::{self, Manner};
use dala_serve::wire::infer_proto;
use dala_serve::wire::messages::{InferInputTensor, InferTensorContents, ModelInferRequest};
use dala_serve::{Answer, Ask, Backend, Caller, Lane, ModelInfo, Refusal, Tensor, Terms, Times, byte_elements};
use prost::Message;

use crate::{Progress, Random, Target};

/// What a body may come to.
const LIMIT: usize = 4 << 20;

/// A model with an input of every type.
fn model() -> Option<Arc<ModelInfo>> {
    Identity::default().model("every_type", None).ok()
}

fn terms() -> Terms {
    Terms { lane: Lane::Default, deadline: None, caller: Caller(0) }
}

fn refused(refusal: &Refusal, input: &[u8], progress: &mut Progress) {
    assert!(refusal.to_string().len() <= 2 * input.len() + 1000, "a long message");
    progress.note(refusal.said().code);
    progress.note_message(&refusal.to_string());
}

/// What was checked is what models rely on.
fn holds(ask: &Ask) {
    let mut ports = ask.model.inputs.iter();
    for input in &ask.inputs {
        // In the model's order, without those that are missing.
        let port = ports.find(|port| port.name == input.name);
        assert!(port.is_some_and(|port| port.datatype == input.datatype && port.accepts(&input.shape)), "{input:?}");
        let elements = Tensor::elements(&input.shape);
        match input.datatype.size_bytes() {
            Some(size) => assert_eq!(elements.map(|elements| elements * size), Some(input.data.len())),
            None => assert_eq!(elements, Some(byte_elements(&input.data).flatten().count())),
        }
    }
    assert!(ask.outputs.iter().all(|place| *place < ask.model.outputs.len()));
}

/// Requests leave inputs out that are not there, so that most of them come far.
fn check(draft: Draft<'_>, model: &Arc<ModelInfo>) -> Result<Ask, Refusal> {
    let mut model = ModelInfo::clone(model);
    model.inputs.iter_mut().for_each(|port| port.optional = true);
    draft.check(model.into(), terms())
}

fn same(ask: &Ask) -> Answer {
    let output = |place: &usize| {
        let port = ask.model.outputs.get(*place)?;
        let wanted = ask.model.inputs.get(*place)?;
        let input = ask.inputs.iter().find(|input| input.name == wanted.name)?;
        Some(Tensor { name: port.name.clone(), ..input.clone() })
    };
    let outputs = ask.outputs.iter().filter_map(output).collect();
    Answer { outputs, version: "1".into(), times: Times::default() }
}

/// JSON; what follows a zero byte is binary data.
#[derive(Default)]
pub(super) struct InferJson(Option<Arc<ModelInfo>>);

impl Target for InferJson {
    fn name(&self) -> &'static str {
        "infer_json"
    }

    fn stages(&self) -> &'static [&'static str] {
        &["read", "checked", "answered"]
    }

    fn short(&self) -> usize {
        400_000
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        let texts: [&[u8]; 5] = [
            br#"{"id":"1","parameters":{"priority":1,"timeout":1000,"binary_data_output":true},"inputs":[{"name":"INPUT_FP32","shape":[2,4],"datatype":"FP32","data":[[1,2.5,-3e-7,0],[1,2,3,4]]}]}"#,
            br#"{"inputs":[{"data":["a","b","\u00e9\n","\ud83d\ude00"],"name":"INPUT_BYTES","shape":[1,4],"datatype":"BYTES"},{"name":"INPUT_BOOL","shape":[1,4],"datatype":"BOOL","data":[true,false,0,1]}],"outputs":[{"name":"OUTPUT_BYTES"},{"name":"OUTPUT_BOOL","parameters":{"binary_data":true}}]}"#,
            b"{\"inputs\":[{\"name\":\"INPUT_UINT16\",\"shape\":[1,4],\"datatype\":\"UINT16\",\"parameters\":{\"binary_data_size\":8}}]}\0abcdefgh",
            br#"{"inputs":[{"name":"INPUT_INT64","shape":[1,4],"datatype":"INT64","data":[-9223372036854775808,9223372036854775807,0,-1]},{"name":"INPUT_FP64","shape":[1,4],"datatype":"FP64","data":["NaN","Infinity",1e-308,0.1]}]}"#,
            b"{\"inputs\":[[[[[[[[",
        ];
        texts.map(<[u8]>::to_vec).to_vec()
    }

    fn words(&self) -> Vec<&'static str> {
        vec![
            "\"inputs\":[",
            "\"outputs\":[",
            "\"name\":",
            "\"shape\":[",
            "\"datatype\":",
            "\"data\":[",
            "\"parameters\":{",
            "\"binary_data_size\":",
            "\"INPUT_FP32\"",
            "\"INPUT_BYTES\"",
            "\"FP32\"",
            "\"BYTES\"",
            "\"FP16\"",
            "null",
            "true",
            "1e400",
            "-0",
            "18446744073709551616",
            "\\ud800",
            "\\u0000",
            "[[",
            "]]",
            "\"NaN\"",
            "\0",
        ]
    }

    fn generate(&self, random: &mut Random) -> Option<Vec<u8>> {
        let types = ["FP32", "FP64", "INT8", "UINT64", "BOOL", "BYTES"];
        let input = |random: &mut Random| {
            let (datatype, rows) = (random.pick(&types), random.below(3));
            let element = |random: &mut Random| match datatype {
                "BOOL" => random.pick(&["true", "false", "1", "2"]).to_owned(),
                "BYTES" => random.pick(&["\"\"", "\"text\"", "\"\\n\"", "1"]).to_owned(),
                "FP32" | "FP64" => format!("{:?}", random.float()).to_lowercase(),
                _ => random.number().to_string(),
            };
            let data: Vec<String> = (0..rows * 4).map(|_| element(random)).collect();
            let data = data.join(",");
            let shape = if random.chance(90) { format!("[{rows},4]") } else { format!("[{}]", random.number()) };
            format!(r#"{{"name":"INPUT_{datatype}","shape":{shape},"datatype":"{datatype}","data":[{data}]}}"#)
        };
        let inputs: Vec<String> = (0..random.pick(&[1, 1, 2, 5])).map(|_| input(random)).collect();
        // Not all types have numbers in JSON, so a request says which outputs it wants, or that they are binary.
        let outputs = match random.chance(50) {
            true => r#""parameters":{"binary_data_output":true}"#.to_owned(),
            false => format!(r#""outputs":[{{"name":"OUTPUT_{}"}}]"#, random.pick(&types)),
        };
        Some(format!(r#"{{"inputs":[{}],{outputs}}}"#, inputs.join(",")).into_bytes())
    }

    fn run(&mut self, input: &[u8], progress: &mut Progress) {
        if self.0.is_none() {
            self.0 = model();
        }
        let Some(model) = &self.0 else { return };
        let body = Bytes::copy_from_slice(input);
        let zero = input.iter().position(|byte| *byte == 0);
        let body = match zero {
            Some(zero) => [&body[..zero], &body[zero + 1..]].concat().into(),
            None => body,
        };
        let draft = match infer_json::read(&body, zero, LIMIT) {
            Ok(draft) => draft,
            Err(refusal) => return refused(&refusal, input, progress),
        };
        progress.past("read");
        // Whoever else reads it finds JSON too, unless a number is beyond what they hold.
        let text = &body[..zero.unwrap_or(body.len())];
        if let Err(error) = serde_json::from_slice::<serde_json::Value>(text) {
            assert!(error.to_string().contains("out of range"), "{error}");
        }
        let manner = Manner::of(&draft, model);
        match check(draft, model).and_then(|ask| manner.check(&ask).map(|()| ask)) {
            Err(refusal) => refused(&refusal, input, progress),
            Ok(ask) => {
                progress.past("checked");
                holds(&ask);
                match infer_json::write("every_type", &same(&ask), &manner) {
                    Err(refusal) => refused(&refusal, input, progress),
                    Ok(written) => {
                        progress.past("answered");
                        let bytes = written.parts.concat();
                        let text = bytes.get(..written.header_bytes.unwrap_or(bytes.len())).unwrap_or_default();
                        assert!(serde_json::from_slice::<serde_json::Value>(text).is_ok(), "no JSON");
                        progress.note((ask.inputs.len(), ask.outputs.len().min(3)));
                    }
                }
            }
        }
    }
}

/// A message of gRPC.
#[derive(Default)]
pub(super) struct InferProto(Option<Arc<ModelInfo>>);

impl Target for InferProto {
    fn name(&self) -> &'static str {
        "infer_proto"
    }

    fn stages(&self) -> &'static [&'static str] {
        &["decoded", "read", "checked"]
    }

    fn short(&self) -> usize {
        400_000
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        let input = |datatype: &str| InferInputTensor {
            name: format!("INPUT_{datatype}"),
            datatype: datatype.to_owned(),
            shape: vec![1, 4],
            ..InferInputTensor::default()
        };
        let request = |inputs, raw_input_contents| ModelInferRequest {
            model_name: "every_type".to_owned(),
            id: "1".to_owned(),
            inputs,
            raw_input_contents,
            ..ModelInferRequest::default()
        };
        let contents = InferTensorContents { int_contents: vec![-1, 2, 3, 4], ..InferTensorContents::default() };
        let typed = InferInputTensor { contents: Some(contents), ..input("INT16") };
        let raw = vec![Bytes::from_static(b"0123456789abcdef"), Bytes::from_static(&[0; 16])];
        let requests = [request(vec![input("FP32"), input("BYTES")], raw), request(vec![typed], Vec::new())];
        requests.map(|request| request.encode_to_vec()).to_vec()
    }

    fn words(&self) -> Vec<&'static str> {
        vec!["\u{2a}", "\u{3a}", "\u{22}\u{2}", "priority", "timeout", "INPUT_FP32", "FP32", "BYTES", "\u{7f}", "\u{8}"]
    }

    fn run(&mut self, input: &[u8], progress: &mut Progress) {
        if self.0.is_none() {
            self.0 = model();
        }
        let Some(model) = &self.0 else { return };
        let mut request: ModelInferRequest = match infer_proto::decode(Bytes::copy_from_slice(input)) {
            Ok(request) => request,
            Err(refusal) => return refused(&refusal, input, progress),
        };
        progress.past("decoded");
        let draft = match infer_proto::read(&mut request) {
            Ok(draft) => draft,
            Err(refusal) => return refused(&refusal, input, progress),
        };
        progress.past("read");
        match check(draft, model) {
            Err(refusal) => refused(&refusal, input, progress),
            Ok(ask) => {
                progress.past("checked");
                holds(&ask);
                let written = infer_proto::write("every_type", &same(&ask), String::new()).concat();
                assert!(infer_proto::decode::<dala_serve::wire::messages::ModelInferResponse>(&written[..]).is_ok());
                progress.note(ask.inputs.len());
            }
        }
    }
}

/// A compressed body: how, in the first byte.
pub(super) struct Compressed;

impl Target for Compressed {
    fn name(&self) -> &'static str {
        "compressed"
    }

    fn stages(&self) -> &'static [&'static str] {
        &["decompressed"]
    }

    fn short(&self) -> usize {
        100_000
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        let bodies = [Bytes::from_static(b"{\"inputs\":[]}"), vec![0; 1 << 20].into(), Bytes::new()];
        let seed = |kind: u8, encoding: Encoding, body: &Bytes| {
            encoding.compress(std::slice::from_ref(body)).map(|compressed| [&[kind], &compressed[..]].concat())
        };
        let kinds = [(0, Encoding::Gzip), (1, Encoding::Deflate)];
        bodies.iter().flat_map(|body| kinds.map(|(kind, encoding)| seed(kind, encoding, body))).flatten().collect()
    }

    fn words(&self) -> Vec<&'static str> {
        Vec::new()
    }

    fn run(&mut self, input: &[u8], progress: &mut Progress) {
        let Some((kind, body)) = input.split_first() else { return };
        let encoding = if kind % 2 == 0 { Encoding::Gzip } else { Encoding::Deflate };
        match encoding.decompress(body, LIMIT) {
            Err(refusal) => refused(&refusal, input, progress),
            Ok(bytes) => {
                progress.past("decompressed");
                assert!(bytes.len() <= LIMIT);
                progress.note(bytes.len().checked_ilog2());
            }
        }
    }
}
