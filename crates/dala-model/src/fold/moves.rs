//! Elements put elsewhere.

use dala_spec::{Data, Shape};

use super::{Constant, map_data};
use crate::PadMode;

/// How far apart neighbours along each axis are.
pub(super) fn strides(dims: &[usize]) -> Vec<i64> {
    let mut strides = vec![0; dims.len()];
    let mut step = 1i64;
    for (stride, &dim) in strides.iter_mut().zip(dims).rev() {
        *stride = step;
        step = step.saturating_mul(dim as i64);
    }
    strides
}

/// The elements at `offset + index · strides` for every index of `dims`; `None` if one lies outside.
pub(super) fn strided<T: Copy>(source: &[T], dims: &[usize], strides: &[i64], offset: i64) -> Option<Vec<T>> {
    let len = Shape::from(dims).checked_len()?;
    let mut elements = Vec::with_capacity(len);
    if len == 0 {
        return Some(elements);
    }
    let Some(((&row, outer_dims), (&step, outer_strides))) = dims.split_last().zip(strides.split_last()) else {
        return Some(vec![*source.get(usize::try_from(offset).ok()?)?]);
    };
    let mut index = vec![0usize; outer_dims.len()];
    let mut start = offset;
    loop {
        let mut place = start;
        for _ in 0..row {
            elements.push(*source.get(usize::try_from(place).ok()?)?);
            place = place.saturating_add(step);
        }
        // The next row: the last axis that has one moves on, those after it go back.
        let mut axis = outer_dims.len();
        loop {
            let Some(previous) = axis.checked_sub(1) else { return Some(elements) };
            axis = previous;
            let (at, dim, stride) = (index.get_mut(axis)?, *outer_dims.get(axis)?, *outer_strides.get(axis)?);
            *at += 1;
            start = start.saturating_add(stride);
            if *at < dim {
                break;
            }
            start = start.saturating_sub(stride.saturating_mul(dim as i64));
            *at = 0;
        }
    }
}

/// Every so many elements from a start, along each axis; steps may be negative.
pub(crate) fn slice(data: &Data, dims: &[usize], shape: &Shape, starts: &[i64], steps: &[i64]) -> Option<Data> {
    let plain = strides(dims);
    let offset = plain.iter().zip(starts).fold(0i64, |sum, (a, b)| sum.saturating_add(a.saturating_mul(*b)));
    let steps: Vec<i64> = plain.iter().zip(steps).map(|(a, b)| a.saturating_mul(*b)).collect();
    Some(map_data!(data, values => strided(values, shape.dims(), &steps, offset)?))
}

pub(super) fn transpose(data: &Data, shape: &Shape, perm: &[usize]) -> Option<Data> {
    let plain = strides(shape.dims());
    let dims = perm.iter().map(|&axis| shape.dims().get(axis).copied()).collect::<Option<Vec<_>>>()?;
    let turned = perm.iter().map(|&axis| plain.get(axis).copied()).collect::<Option<Vec<_>>>()?;
    Some(map_data!(data, values => strided(values, &dims, &turned, 0)?))
}

pub(super) fn concat(inputs: &[Constant<'_>], axis: usize) -> Option<Data> {
    let (first_shape, first) = inputs.first()?;
    let outer: usize = first_shape.dims().get(..axis)?.iter().product();
    macro_rules! join {
        ($variant:ident) => {{
            let mut lists = Vec::with_capacity(inputs.len());
            for (shape, data) in inputs {
                let Data::$variant(values) = &***data else { return None };
                lists.push((values, shape.dims().get(axis..)?.iter().product::<usize>()));
            }
            let mut joined = Vec::with_capacity(lists.iter().map(|(values, _)| values.len()).sum());
            for number in 0..outer {
                for (values, size) in &lists {
                    joined.extend_from_slice(values.get(number * size..(number + 1) * size)?);
                }
            }
            Data::$variant(joined)
        }};
    }
    // No elements, whatever the other sizes say.
    Some(match &***first {
        _ if inputs.iter().all(|(_, data)| data.is_empty()) => Data::collect(first.dtype(), []),
        Data::F32(_) => join!(F32),
        Data::F64(_) => join!(F64),
        Data::S32(_) => join!(S32),
        Data::S64(_) => join!(S64),
        Data::U32(_) => join!(U32),
        Data::U8(_) => join!(U8),
    })
}

/// The indices count from the start.
pub(super) fn gather(data: &Data, shape: &Shape, indices: &Data, axis: usize) -> Option<Data> {
    let indices: Option<Vec<usize>> = indices.iter().map(|index| usize::try_from(index.as_i64()).ok()).collect();
    let indices = indices?;
    if shape.is_empty() || indices.is_empty() {
        return Some(Data::collect(data.dtype(), []));
    }
    let dims = shape.dims();
    let outer: usize = dims.get(..axis)?.iter().product();
    let inner: usize = dims.get(axis + 1..)?.iter().product();
    let size = *dims.get(axis)?;
    Some(map_data!(data, values => {
        let mut found = Vec::new();
        for number in 0..outer {
            for index in &indices {
                let start = (number * size + index) * inner;
                found.extend_from_slice(values.get(start..start + inner)?);
            }
        }
        found
    }))
}

pub(super) fn pad(data: &Data, from: &Shape, to: &Shape, before: &[usize], mode: PadMode) -> Option<Data> {
    if to.is_empty() {
        return Some(Data::collect(data.dtype(), []));
    }
    // For each axis, where each place of the result comes from; `None` is outside.
    let axes = from.dims().iter().zip(to.dims()).zip(before).map(|((&size, &padded), &before)| {
        let last = (size as i64 - 1).max(0);
        let source = |place: usize| {
            let place = place as i64 - before as i64;
            let inside = match mode {
                PadMode::Constant(_) => place,
                PadMode::Edge => place.clamp(0, last),
                PadMode::Reflect => last - (last - place.abs()).abs(),
            };
            usize::try_from(inside).ok().filter(|&inside| inside < size)
        };
        (0..padded).map(source).collect::<Vec<Option<usize>>>()
    });
    let axes: Vec<Vec<Option<usize>>> = axes.collect();
    let steps = strides(from.dims());
    let mut places: Vec<Option<usize>> = vec![Some(0)];
    for (axis, &step) in axes.iter().zip(&steps) {
        let mut next = Vec::with_capacity(places.len().checked_mul(axis.len())?);
        for &place in &places {
            next.extend(
                axis.iter().map(|source| place.zip(*source).map(|(place, source)| place + source * step as usize)),
            );
        }
        places = next;
    }
    let fill = match mode {
        PadMode::Constant(value) => value,
        PadMode::Reflect | PadMode::Edge => 0.0,
    };
    Some(map_data!(data, values => {
        places.iter().map(|place| place.and_then(|place| values.get(place).copied()).unwrap_or(fill as _)).collect()
    }))
}
