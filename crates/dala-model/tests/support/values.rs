//! Models on tensors as files hold them, and results beside what they must be.

use std::sync::Arc;

use dala_compute::{Buffer, Device};
use dala_model::proto::{GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, ValueInfoProto};
use dala_model::{LoadError, Model, ModelError, Session};
use dala_spec::{Data, Scalar, TensorType};
use prost::Message;

/// A tensor's type and elements.
pub(crate) type Values = (TensorType, Arc<Data>);

/// The elements of a tensor, as a model would read them.
pub(crate) fn elements(tensor: TensorProto) -> Result<Values, ModelError> {
    let output = ValueInfoProto { name: "y".to_owned(), r#type: None };
    let node = NodeProto {
        input: vec!["x".to_owned()],
        output: vec!["y".to_owned()],
        op_type: "Identity".to_owned(),
        ..NodeProto::default()
    };
    let initializer = vec![TensorProto { name: "x".to_owned(), ..tensor }];
    let graph = GraphProto { node: vec![node], initializer, output: vec![output], ..GraphProto::default() };
    let set = OperatorSetIdProto { version: 23, ..OperatorSetIdProto::default() };
    let model = ModelProto { ir_version: 8, graph: Some(graph), opset_import: vec![set], ..ModelProto::default() };
    let model = Model::read(model.encode_to_vec())?;
    let network = model.resolve(model.smallest_batch())?;
    let value = &network.values[network.outputs[0]];
    let data = value.constant.clone().unwrap_or_else(|| unreachable!("a weight is a constant"));
    Ok((value.ty.clone(), data))
}

/// What the outputs of a model are on the device.
pub(crate) fn run(device: &Device, file: &ModelProto, inputs: &[TensorProto]) -> Result<Vec<Values>, LoadError> {
    let model = Model::read(file.encode_to_vec())?;
    let mut buffers = Vec::new();
    for port in model.inputs() {
        let tensor = inputs.iter().find(|tensor| tensor.name == port.name).cloned().unwrap_or_default();
        let (ty, data) = elements(tensor)?;
        buffers.push(Buffer::from_bytes(device, &data.to_bytes(), ty.dtype, ty.shape)?);
    }
    let outputs = Session::new(device, &model).run(&buffers.iter().collect::<Vec<_>>())?;
    let mut found = Vec::new();
    for output in outputs {
        let ty = TensorType::new(output.dtype(), output.shape().clone());
        found.push((ty, Arc::new(output.read_data()?)));
    }
    Ok(found)
}

/// How a result differs from what it must be, if an element is further away than `allowed` says for what is expected of it.
/// What allows nothing must be the same.
pub(crate) fn difference(found: &Values, expected: &Values, allowed: impl Fn(f64) -> f64) -> Option<String> {
    if found.0 != expected.0 {
        return Some(format!("{} instead of {}", found.0, expected.0));
    }
    let is_float = expected.0.dtype.is_float();
    let pairs = || found.1.iter().zip(expected.1.iter()).enumerate();
    let differs = |a: &Scalar, b: &Scalar| {
        let [x, y] = [a, b].map(|scalar| scalar.as_f64());
        let exactly = if is_float { x == y || (x.is_nan() && y.is_nan()) } else { a.as_i64() == b.as_i64() };
        let away = (x - y).abs();
        // What is no number is away from everything.
        !exactly && (away == 0.0 || away.is_nan() || away > allowed(y))
    };
    let (at, (a, b)) = pairs().find(|(_, (a, b))| differs(a, b))?;
    let count = pairs().filter(|(_, (a, b))| differs(a, b)).count();
    let away = || pairs().map(|(_, (a, b))| (a.as_f64() - b.as_f64()).abs());
    let (largest, mean) = (away().fold(0.0, f64::max), away().sum::<f64>() / expected.1.len() as f64);
    let shown = |scalar: Scalar| if is_float { scalar.as_f64().to_string() } else { scalar.as_i64().to_string() };
    Some(format!(
        "element {at} is {} instead of {}, {count} of {} differ, by {mean:.2e} in the mean, at most by {largest:.2e}",
        shown(a),
        shown(b),
        expected.1.len()
    ))
}
