//! Batch normalisation right after a convolution becomes part of the convolution's weights.

use std::collections::HashMap;
use std::sync::Arc;

use dala_spec::Data;

use crate::limits::MIN_FOLDED;
use crate::ops::batch_normalization::BatchNorm;
use crate::ops::conv::Conv;
use crate::{Layer, Network, Value};

/// Weights that were made before, so that a model for another batch size shares them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    made: HashMap<Key, Made>,
}

/// Where the constants lie that went in, but for the convolution's bias, and the bits of epsilon.
type Key = ([usize; 5], u32);

/// New weights, and what they were made of: kept, so that no other constant comes to lie there.
#[derive(Clone, Debug)]
struct Made {
    from: [Arc<Data>; 5],
    bias: Arc<Data>,
    new_weights: Arc<Data>,
    new_bias: Arc<Data>,
}

/// Folds each batch normalisation whose input only it reads and a convolution with constant weights makes. `weights` is
/// the number of elements in the file: new weights are made in proportion to it, so sharing them cannot multiply memory.
pub(crate) fn fold(network: &mut Network, weights: usize, known: &mut Known) {
    let mut left = weights.saturating_mul(2).max(MIN_FOLDED);
    let mut readers = vec![0usize; network.values.len()];
    let reads = network.layers.iter().flat_map(|layer| &layer.inputs).chain(&network.outputs);
    for &number in reads {
        readers.get_mut(number).into_iter().for_each(|count| *count += 1);
    }
    let mut makers: Vec<Option<usize>> = vec![None; network.values.len()];
    let mut folded = vec![false; network.layers.len()];
    for number in 0..network.layers.len() {
        let Some(layer) = network.layers.get(number) else { continue };
        let (output, input) = (layer.outputs.first().copied(), layer.inputs.first().copied());
        let Some(output) = output else { continue };
        if let (Some(BatchNorm { epsilon }), Some(input)) = (layer.op.downcast(), input)
            && readers.get(input) == Some(&1)
            && let Some(conv) = makers.get(input).copied().flatten()
            && let Some((weight, bias)) = new_weights(network, conv, layer, *epsilon, &mut left, known)
        {
            let numbers = [weight, bias].map(|value| {
                network.values.push(value);
                network.values.len() - 1
            });
            if let Some(conv) = network.layers.get_mut(conv)
                && let [_, weight, bias] = conv.inputs.as_mut_slice()
            {
                [*weight, *bias] = numbers;
                conv.outputs = vec![output];
                folded.get_mut(number).into_iter().for_each(|folded| *folded = true);
            }
        } else if layer.op.downcast::<Conv>().is_some() {
            makers.get_mut(output).into_iter().for_each(|maker| *maker = Some(number));
        }
    }
    let mut folded = folded.iter();
    network.layers.retain(|_| folded.next() == Some(&false));
}

/// The weights and bias of the convolution with the normalisation in them.
fn new_weights(
    network: &Network,
    conv: usize,
    norm: &Layer,
    epsilon: f32,
    left: &mut usize,
    known: &mut Known,
) -> Option<(Value, Value)> {
    let value = |number: &usize| network.values.get(*number);
    let constant = |number: &usize| value(number)?.constant.as_ref();
    let [_, weight, bias] = network.layers.get(conv)?.inputs.as_slice() else { return None };
    let [_, scale, shift, mean, variance] = norm.inputs.as_slice() else { return None };
    let from = [constant(weight)?, constant(scale)?, constant(shift)?, constant(mean)?, constant(variance)?];
    let old_bias = constant(bias)?;

    let key = (from.map(|data| Arc::as_ptr(data).addr()), epsilon.to_bits());
    let same =
        |made: &&Made| made.bias == *old_bias && made.from.iter().zip(from).all(|(made, now)| Arc::ptr_eq(made, now));
    let made = match known.made.get(&key).filter(same) {
        Some(made) => made.clone(),
        None => {
            *left = left.checked_sub(from[0].len().checked_add(old_bias.len())?)?;
            let (new_weights, new_bias) = fold_weights(from.map(Arc::as_ref), old_bias, epsilon)?;
            let (new_weights, new_bias) = (Arc::new(Data::F32(new_weights)), Arc::new(Data::F32(new_bias)));
            Made { from: from.map(Arc::clone), bias: Arc::clone(old_bias), new_weights, new_bias }
        }
    };
    let named = |of: &usize, data: &Arc<Data>| {
        let Value { name, ty, .. } = value(of)?;
        let fits = ty.shape.len() == data.len();
        fits.then(|| Value { name: format!("{name}.folded"), ty: ty.clone(), constant: Some(Arc::clone(data)) })
    };
    let values = (named(weight, &made.new_weights)?, named(bias, &made.new_bias)?);
    known.made.insert(key, made);
    Some(values)
}

/// Exact up to one rounding; only for 32-bit floats, and not where the variance makes no sense.
fn fold_weights(from: [&Data; 5], bias: &Data, epsilon: f32) -> Option<(Vec<f32>, Vec<f32>)> {
    fn floats(data: &Data) -> Option<&[f32]> {
        match data {
            Data::F32(values) => Some(values),
            _ => None,
        }
    }
    let [weights, scale, shift, mean, variance] = from;
    let (weights, scale, shift) = (floats(weights)?, floats(scale)?, floats(shift)?);
    let (mean, variance, bias) = (floats(mean)?, floats(variance)?, floats(bias)?);

    let factors = scale.iter().zip(variance).map(|(&scale, &variance)| {
        let factor = f64::from(scale) / (f64::from(variance) + f64::from(epsilon)).sqrt();
        factor.is_finite().then_some(factor)
    });
    let factors = factors.collect::<Option<Vec<f64>>>()?;
    let size = weights.len().checked_div(factors.len()).filter(|&size| size > 0)?;
    let mut new_weights = Vec::with_capacity(weights.len());
    for (channel, factor) in weights.chunks_exact(size).zip(&factors) {
        new_weights.extend(channel.iter().map(|&weight| (f64::from(weight) * factor) as f32));
    }
    let channels = bias.iter().zip(&factors).zip(mean.iter().zip(shift));
    let new_bias = channels.map(|((&bias, factor), (&mean, &shift))| {
        ((f64::from(bias) - f64::from(mean)) * factor + f64::from(shift)) as f32
    });
    Some((new_weights, new_bias.collect()))
}

#[cfg(test)]
mod tests {
    use dala_spec::Data;

    use crate::builder::Net;

    fn net() -> Net {
        Net::new(13)
            .x(&[-1, 1, 4, 4])
            .floats("w", &[2, 1, 1, 1], vec![2.0, -3.0])
            .floats("b", &[2], vec![1.0, 0.5])
            .floats("scale", &[2], vec![4.0, 1.0])
            .floats("shift", &[2], vec![0.25, -1.0])
            .floats("mean", &[2], vec![3.0, 0.0])
            .floats("variance", &[2], vec![3.75, 0.75])
            .node("Conv", &["x", "w", "b"], "conv", vec![])
    }

    fn norm(net: Net, input: &str, output: &str) -> Net {
        let inputs = [input, "scale", "shift", "mean", "variance"];
        net.node("BatchNormalization", &inputs, output, vec![crate::builder::float("epsilon", 0.25)])
    }

    #[test]
    fn a_normalisation_becomes_part_of_the_weights() {
        let network = norm(net(), "conv", "y").output("y").resolve(2).unwrap();
        assert_eq!(network.layers.len(), 1);
        let layer = &network.layers[0];
        assert_eq!(layer.name, "the_conv");
        assert_eq!(network.values[layer.outputs[0]].name, "y");
        let constant = |place: usize| network.values[layer.inputs[place]].constant.as_deref().cloned();
        // Factors 4 / sqrt(4) and 1 / sqrt(1).
        assert_eq!(constant(1), Some(Data::F32(vec![4.0, -3.0])));
        assert_eq!(constant(2), Some(Data::F32(vec![-3.75, -0.5])));
    }

    #[test]
    fn other_batch_sizes_share_the_new_weights() {
        let model = crate::Model::read(norm(net(), "conv", "y").output("y").bytes()).unwrap();
        let weights = |batch: usize| {
            let network = model.resolve(batch).unwrap();
            network.values[network.layers[0].inputs[1]].constant.clone().unwrap()
        };
        assert!(std::sync::Arc::ptr_eq(&weights(2), &weights(3)));
    }

    #[test]
    fn a_result_that_others_read_stays() {
        let norms = |net: Net| {
            let network = net.resolve(1).unwrap();
            network.layers.iter().filter(|layer| layer.op.name() == "BatchNormalization").count()
        };
        assert_eq!(norms(norm(net(), "conv", "y").output("y").output("conv")), 1);
        assert_eq!(norms(norm(net(), "conv", "y").node("Relu", &["conv"], "z", vec![]).output("y").output("z")), 1);
        // The second follows no convolution.
        assert_eq!(norms(norm(norm(net(), "conv", "y"), "y", "z").output("z")), 1);
        assert_eq!(norms(norm(net(), "conv", "y").node("Relu", &["y"], "z", vec![]).output("z")), 0);
    }
}
