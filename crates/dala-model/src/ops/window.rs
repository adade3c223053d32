//! Where windows lie: shared by convolution and pooling along one, two or three axes behind the channels.

use dala_spec::{Data, Params, Scalar, SpecError, TensorType};

use super::call::NodeCall;
use super::declared::Declared;
use crate::ModelError;
use crate::limits::MAX_ELEMENTS;
use crate::lower::{Lowerer, ints};

/// Where windows lie along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Axis {
    /// Elements of a window.
    pub(super) size: usize,
    /// From one window to the next.
    pub(super) stride: usize,
    /// From one element of a window to the next.
    pub(super) dilation: usize,
    /// What is added on either side, so that the last window ends inside.
    pub(super) before: usize,
    pub(super) after: usize,
    /// The size with what the file asks to be added: a last window may hang over.
    pub(super) padded: usize,
    /// How many windows there are.
    pub(super) count: usize,
}

impl Axis {
    /// One window for each element.
    const EACH: Axis = Axis { size: 1, stride: 1, dilation: 1, before: 0, after: 0, padded: 0, count: 0 };

    /// From the first to the last element of a window.
    fn reach(&self) -> usize {
        self.size.saturating_sub(1).saturating_mul(self.dilation).saturating_add(1)
    }

    /// How many elements of each window count: those that are there, or those of the padding as well.
    fn counts(&self, size: usize, padding: bool) -> Vec<usize> {
        let inside = if padding { 0..self.padded } else { self.before..self.before + size };
        let counted = |window: usize| {
            let places = (0..self.size).map(|at| window * self.stride + at * self.dilation);
            places.filter(|place| inside.contains(place)).count()
        };
        (0..self.count).map(counted).collect()
    }

    /// Whether no window hangs over what the file asks to be added.
    fn is_inside(&self, size: usize) -> bool {
        self.before + size + self.after <= self.padded
    }
}

/// Why a node is refused whose windows have too many axes; `weight` is what its weights say about that.
pub(super) fn refused_rank(node: &Declared<'_>, weight: Option<usize>) -> Option<String> {
    let window = node.ints("kernel_shape").len();
    let rank = if window > 0 { window } else { weight.unwrap_or(2) };
    (!(1..=3).contains(&rank)).then(|| too_many(rank))
}

fn too_many(rank: usize) -> String {
    format!("works along {rank} axes, 1 to 3 are supported")
}

/// The sizes behind batch and channels.
fn behind<'a>(call: &NodeCall<'a>) -> Result<&'a [usize], ModelError> {
    match call.dims(0)? {
        [_, _, behind @ ..] if (1..=3).contains(&behind.len()) => Ok(behind),
        [_, _, _, behind @ ..] => Err(call.unsupported(too_many(behind.len() + 1))),
        dims => Err(call.shape_mismatch("a first input of batch, channels and sizes behind them", dims)),
    }
}

/// A pooling: where its windows lie, and the sizes of its result.
pub(super) fn pool(call: &NodeCall<'_>) -> Result<(Vec<Axis>, Vec<usize>), ModelError> {
    let size = size(call)?.ok_or_else(|| call.bad_attribute("kernel_shape", "there", "nothing"))?;
    let axes = axes(call, &size, call.flag("ceil_mode", false)?)?;
    // A window that lies in the padding altogether has no mean and no largest element.
    if axes.iter().any(|axis| axis.before.max(axis.after) >= axis.reach()) {
        let pads: Vec<_> = axes.iter().map(|axis| (axis.before, axis.after)).collect();
        return Err(call.bad_attribute("pads", "smaller than the window", format!("{pads:?}")));
    }
    let outer = call.dims(0)?.iter().take(2).copied();
    let dims = outer.chain(axes.iter().map(|axis| axis.count)).collect();
    Ok((axes, dims))
}

/// The size of windows, if the node gives it.
pub(super) fn size(call: &NodeCall<'_>) -> Result<Option<Vec<usize>>, ModelError> {
    match call.ints("kernel_shape")? {
        None => Ok(None),
        Some(_) => each(call, "kernel_shape", behind(call)?.len()).map(Some),
    }
}

/// A number of at least one for each axis.
fn each(call: &NodeCall<'_>, name: &str, rank: usize) -> Result<Vec<usize>, ModelError> {
    let Some(given) = call.ints(name)? else { return Ok(vec![1; rank]) };
    let size = |&value: &i64| usize::try_from(value).ok().filter(|size| (1..=MAX_ELEMENTS).contains(size));
    let sizes: Option<Vec<usize>> = given.iter().map(size).collect();
    let sizes = sizes.filter(|sizes| sizes.len() == rank);
    sizes.ok_or_else(|| call.bad_attribute(name, format!("{rank} numbers of at least 1"), format!("{given:?}")))
}

/// Where windows of these sizes lie; with `ceil`, a last one that hangs over the edge counts.
pub(super) fn axes(call: &NodeCall<'_>, sizes: &[usize], ceil: bool) -> Result<Vec<Axis>, ModelError> {
    let picture = behind(call)?;
    let rank = picture.len();
    let (strides, dilations) = (each(call, "strides", rank)?, each(call, "dilations", rank)?);
    let auto = call.text("auto_pad", "NOTSET")?;
    let mut pads = vec![0; 2 * rank];
    if let ("NOTSET" | "", Some(given)) = (auto, call.ints("pads")?) {
        let size = |&value: &i64| usize::try_from(value).ok().filter(|&size| size <= MAX_ELEMENTS);
        let sizes: Option<Vec<usize>> = given.iter().map(size).collect();
        let bad = || call.bad_attribute("pads", format!("{} numbers of at least 0", 2 * rank), format!("{given:?}"));
        pads = sizes.filter(|sizes| sizes.len() == 2 * rank).ok_or_else(bad)?;
    }
    let (before, after) = pads.split_at(rank);
    let sides = before.iter().zip(after);
    let given = picture.iter().zip(sizes).zip(strides.iter().zip(&dilations)).zip(sides);
    let mut axes = Vec::with_capacity(rank);
    for (number, (((&input, &size), (&stride, &dilation)), (&before, &after))) in given.enumerate() {
        let mut axis = Axis { size, stride, dilation, before, after, padded: 0, count: 0 };
        let reach = axis.reach();
        if reach > 2 * MAX_ELEMENTS || size == 0 {
            return Err(call.bad_attribute("dilations", "windows of a size that can be", format!("{dilations:?}")));
        }
        match auto {
            "NOTSET" | "" | "VALID" => {}
            "SAME_UPPER" | "SAME_LOWER" => {
                let windows = input.div_ceil(stride);
                let needed = (windows.saturating_sub(1) * stride).saturating_add(reach);
                let total = needed.saturating_sub(input);
                let (less, more) = (total / 2, total - total / 2);
                (axis.before, axis.after) = if auto == "SAME_UPPER" { (less, more) } else { (more, less) };
            }
            other => {
                return Err(call.bad_attribute("auto_pad", "NOTSET, SAME_UPPER, SAME_LOWER or VALID", other));
            }
        }
        axis.padded = input + axis.before + axis.after;
        let Some(room) = axis.padded.checked_sub(reach) else {
            let expected = format!("a padded picture of at least {reach} along axis {}", number + 2);
            return Err(call.shape_mismatch(expected, &call.dims(0)?));
        };
        axis.count = room / stride + 1;
        if ceil {
            // A last window that hangs over the edge counts if it starts inside; the padding says so from here on.
            axis.count = room.div_ceil(stride) + 1;
            if (axis.count - 1) * stride >= input + axis.before {
                axis.count -= 1;
            }
            let end = (axis.count.saturating_sub(1) * stride).saturating_add(reach);
            axis.after = end.saturating_sub(input + axis.before);
        }
        axes.push(axis);
    }
    Ok(axes)
}

/// The last two axes, or the only one as the columns of a picture of one row.
fn rows_and_columns(axes: &[Axis]) -> [Axis; 2] {
    match *axes {
        [.., rows, columns] => [rows, columns],
        [columns] => [Axis::EACH, columns],
        [] => [Axis::EACH; 2],
    }
}

/// The params of kernels for pictures that say where windows are along the last two axes.
pub(super) fn params(axes: &[Axis]) -> Params {
    let [rows, columns] = rows_and_columns(axes);
    Params::new()
        .with("stride", ints(&[rows.stride, columns.stride]))
        .with("padding", ints(&[rows.before, columns.before, rows.after, columns.after]))
        .with("dilation", ints(&[rows.dilation, columns.dilation]))
}

/// The params of a pooling, of which one kind has no `dilation`.
fn pool_params(axes: &[Axis], kernel: &str, more: &Params) -> Params {
    let [rows, columns] = rows_and_columns(axes);
    let own = params(axes).with("size", ints(&[rows.size, columns.size]));
    let dilated = kernel != "avg_pool2d";
    let all = own.iter().filter(|(name, _)| dilated || *name != "dilation").chain(more.iter());
    all.fold(Params::new(), |params, (name, value)| params.with(name, value.clone()))
}

/// A cell with channels last, pooled along its axes by a kernel for pictures: along the last two at once, and along one before
/// them by itself.
pub(super) fn pooled(
    to: &mut Lowerer<'_>,
    x: usize,
    axes: &[Axis],
    kernel: &str,
    more: &Params,
) -> Result<usize, SpecError> {
    let ty = to.calls.ty(x).clone();
    let [batch, sizes @ .., channels] = ty.shape.dims() else { return Ok(x) };
    let (depth, plane) = axes.split_at(axes.len().saturating_sub(2));
    let (depths, from) = sizes.split_at(sizes.len().saturating_sub(2));
    let deep: usize = depths.iter().product();
    let [height, width] = if let [height, width] = *from { [height, width] } else { [1, from.iter().product()] };
    let seen = to.calls.view(x, TensorType::new(ty.dtype, [batch * deep, height, width, *channels]));
    let rows = if plane.len() == 2 { plane[0].count } else { 1 };
    let columns = plane.last().map_or(1, |axis| axis.count);
    let made = TensorType::new(ty.dtype, [batch * deep, rows, columns, *channels]);
    let mut made = to.call(kernel, &[seen], made, &pool_params(plane, kernel, more))?;
    let mut counts: Vec<usize> = plane.iter().map(|axis| axis.count).collect();
    if let [axis] = *depth {
        let rest = rows * columns * channels;
        // Planes as the rows of a picture one pixel wide.
        let seen = to.calls.view(made, TensorType::new(ty.dtype, [*batch, deep, 1, rest]));
        let ty = TensorType::new(ty.dtype, [*batch, axis.count, 1, rest]);
        made = to.call(kernel, &[seen], ty, &pool_params(&[axis, Axis::EACH], kernel, more))?;
        counts.insert(0, axis.count);
    }
    let dims = [&[*batch], &counts[..], &[*channels]].concat();
    Ok(to.calls.view(made, TensorType::new(ty.dtype, dims)))
}

/// The parts of a cell that come together in the windows along one of its axes: one for each element of a window.
pub(super) fn taps(to: &mut Lowerer<'_>, x: usize, number: usize, axis: &Axis) -> Result<Vec<usize>, SpecError> {
    let ty = to.calls.ty(x).clone();
    let mut dims = ty.shape.dims().to_vec();
    let side = |size: usize| {
        let mut sizes = vec![0i64; dims.len()];
        sizes[number] = size as i64;
        sizes
    };
    let mut x = x;
    if axis.before + axis.after > 0 {
        let params = Params::new().with("before", side(axis.before)).with("after", side(axis.after));
        let mut padded = dims.clone();
        padded[number] += axis.before + axis.after;
        x = to.call("pad", &[x], TensorType::new(ty.dtype, padded), &params)?;
    }
    let mut steps = vec![1i64; dims.len()];
    steps[number] = axis.stride as i64;
    let starts: Vec<Vec<i64>> = (0..axis.size).map(|at| side(at * axis.dilation)).collect();
    dims[number] = axis.count;
    let part = |start: Vec<i64>| {
        let params = Params::new().with("start", start).with("step", steps.clone());
        to.call("slice", &[x], TensorType::new(ty.dtype, dims.clone()), &params)
    };
    starts.into_iter().map(part).collect()
}

/// A cell with channels last, summed up in windows along each of its axes in turn.
pub(super) fn summed(to: &mut Lowerer<'_>, mut x: usize, axes: &[Axis]) -> Result<usize, SpecError> {
    for (number, axis) in axes.iter().enumerate() {
        let parts = taps(to, x, number + 1, axis)?;
        let mut parts = parts.into_iter();
        x = parts.next().unwrap_or(x);
        for part in parts {
            let ty = to.calls.ty(x).clone();
            x = to.call("elementwise_add", &[x, part], ty, &Params::new())?;
        }
    }
    Ok(x)
}

/// Means of windows over sizes `from`, of what is there or of the padding as well.
pub(super) fn averaged(
    to: &mut Lowerer<'_>,
    x: usize,
    axes: &[Axis],
    from: &[usize],
    padding: bool,
) -> Result<usize, SpecError> {
    let plain = axes.iter().zip(from).all(|(axis, &size)| axis.dilation == 1 && (!padding || axis.is_inside(size)));
    if plain {
        return pooled(to, x, axes, "avg_pool2d", &Params::new().with("count_padding", padding));
    }
    let mut made = summed(to, x, axes)?;
    let ty = to.calls.ty(made).clone();
    for (number, (axis, &size)) in axes.iter().zip(from).enumerate() {
        let counts =
            axis.counts(size, padding).into_iter().map(|count| Scalar::from_f64(ty.dtype, count.max(1) as f64));
        let mut dims = vec![1; ty.shape.rank()];
        dims[number + 1] = axis.count;
        let counts = to.constant(Data::collect(ty.dtype, counts), &dims);
        made = to.call("elementwise_div", &[made, counts], ty.clone(), &Params::new())?;
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::Axis;

    #[test]
    fn what_hangs_over_counts_only_where_it_is_asked_for() {
        let axis = Axis { size: 3, stride: 2, dilation: 1, before: 1, after: 2, padded: 6, count: 3 };
        assert_eq!(axis.counts(4, false), [2, 3, 1]);
        assert_eq!(axis.counts(4, true), [3, 3, 2]);
        assert!(!axis.is_inside(4));
    }
}
