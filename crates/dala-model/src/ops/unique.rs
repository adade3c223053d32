//! `Unique`: the different elements, or slices, of a constant, with their first places, where each element went, and how often each is
//! there. How many there are decides shapes, so values are refused.

use std::cmp::Ordering;

use dala_spec::{Data, Scalar, Shape};

use super::operator::{Given, Kind, Operator, Outcome};

pub(super) const UNIQUE: Operator = Operator::new("Unique", Kind::Others, |call| {
    let (dims, dtype) = (call.dims(0)?, call.dtype(0)?);
    call.constant(0, "the first input")?;
    let Some(data) = call.looked_at(0)? else { return Ok(Outcome::same(call.input(0)?)) };
    let axis = match call.attribute("axis") {
        Some(_) => Some(call.axis(call.int("axis", 0)?, dims.len(), "axis")?),
        None => None,
    };
    let (outer, size, inner) = match axis.and_then(|axis| dims.split_at_checked(axis)) {
        Some((outer, rest)) => {
            let (size, inner) = rest.split_first().map_or((1, rest), |(size, inner)| (*size, inner));
            (outer.iter().product::<usize>(), size, inner.iter().product::<usize>())
        }
        None => (1, data.len(), 1),
    };
    let element = |block: usize, at: usize, side: usize| {
        data.get((block * size + at) * inner + side).unwrap_or(Scalar::from_i64(dtype, 0))
    };
    let slice = |at: usize| (0..outer * inner).map(move |number| element(number / inner, at, number % inner));
    // By value, and both zeros are one.
    let compared = |a: usize, b: usize| {
        let mut pairs = slice(a).zip(slice(b)).map(|(a, b)| match dtype.is_float() {
            true => (a.as_f64() + 0.0).total_cmp(&(b.as_f64() + 0.0)),
            false => a.as_integer().cmp(&b.as_integer()),
        });
        pairs.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    };
    // Equal ones stay in the order of their places, so that the first is found first.
    let mut order: Vec<usize> = (0..size).collect();
    order.sort_by(|a, b| compared(*a, *b));
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for at in order {
        match groups.last_mut().filter(|group| group.first().is_some_and(|first| compared(*first, at).is_eq())) {
            Some(group) => group.push(at),
            None => groups.push(vec![at]),
        }
    }
    if !call.flag("sorted", true)? {
        groups.sort_by_key(|group| group.first().copied());
    }
    let firsts: Vec<usize> = groups.iter().filter_map(|group| group.first().copied()).collect();
    let mut kept = dims.to_vec();
    match axis.and_then(|axis| kept.get_mut(axis)) {
        Some(dim) => *dim = firsts.len(),
        None => kept = vec![firsts.len()],
    }
    let mut values = Vec::with_capacity(outer * firsts.len() * inner);
    for block in 0..outer {
        for &first in &firsts {
            values.extend((0..inner).map(|side| element(block, first, side)));
        }
    }
    let mut went = vec![0i64; size];
    for (number, group) in groups.iter().enumerate() {
        for place in group {
            went.get_mut(*place).into_iter().for_each(|went| *went = number as i64);
        }
    }
    let list = |values: Vec<i64>| Given::Constant(Shape::from(vec![values.len()]), Data::S64(values));
    let values = Given::Constant(call.output(dtype, kept)?.shape, Data::collect(dtype, values));
    let places = list(firsts.iter().map(|first| *first as i64).collect());
    let counts = list(groups.iter().map(|group| group.len() as i64).collect());
    Ok(Outcome::Given(vec![values, places, list(went), counts]))
})
.outputs(4);

#[cfg(test)]
mod tests {
    use dala_spec::Data;

    use crate::builder::{Net, constants, floats, int, list, single};

    #[test]
    fn different_elements_are_found_once() {
        let mut net = Net::new(13).x(&[-1]).tensor("c", list(&[2, 1, 1, 3, 4, 3]));
        net = net.node("Unique", &["c"], "y", vec![int("sorted", 0)]);
        net.graph().node[0].output.extend(["places", "went", "counts"].map(str::to_owned));
        let network =
            ["y", "places", "went", "counts"].iter().fold(net, |net, name| net.output(name)).resolve(1).unwrap();
        let constant = |place: usize| network.values[network.outputs[place]].constant.as_deref().cloned();
        assert_eq!(constant(0), Some(Data::S64(vec![2, 1, 3, 4])));
        assert_eq!(constant(1), Some(Data::S64(vec![0, 1, 3, 4])));
        assert_eq!(constant(2), Some(Data::S64(vec![0, 1, 1, 2, 3, 2])));
        assert_eq!(constant(3), Some(Data::S64(vec![1, 2, 2, 1])));
        let rows = floats(&[3, 2], vec![2.0, 3.0, 1.0, 0.0, 2.0, 3.0]);
        let rows = constants(13, "Unique", vec![rows], vec![int("axis", 0)]);
        assert_eq!(rows, (vec![2, 2], Data::F32(vec![1.0, 0.0, 2.0, 3.0])));
        let zeros = constants(13, "Unique", vec![floats(&[4], vec![0.0, 1.0, -0.0, -1.0])], vec![]);
        assert_eq!(zeros, (vec![3], Data::F32(vec![-1.0, 0.0, 1.0])));
        assert_eq!(single(13, "Unique", &[2], vec![], vec![]).code(), "not_constant");
    }
}
