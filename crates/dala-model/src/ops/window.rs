//! Where windows over height and width lie: shared by convolution and pooling.

use super::call::{NodeCall, two_axes_only};
use super::declared::Declared;
use crate::ModelError;
use crate::limits::MAX_ELEMENTS;

/// Where windows lie.
pub(super) struct Windows {
    pub(super) stride: [usize; 2],
    pub(super) padding: [usize; 4],
    pub(super) dilation: [usize; 2],
    /// How many there are.
    pub(super) count: [usize; 2],
}

/// Why a node is refused whose windows are not over height and width; `weight` is what its weights say about that.
pub(super) fn refused_rank(node: &Declared<'_>, weight: Option<usize>) -> Option<String> {
    let window = node.ints("kernel_shape").len();
    let rank = if window > 0 { window } else { weight.unwrap_or(2) };
    (rank != 2).then(|| two_axes_only(rank))
}

/// A pooling: batch, channels, the size of its windows and where they lie.
pub(super) fn pool(call: &NodeCall<'_>) -> Result<(usize, usize, [usize; 2], Windows), ModelError> {
    let [batch, channels, height, width] = call.picture()?;
    let size = size(call)?.ok_or_else(|| call.bad_attribute("kernel_shape", "there", "nothing"))?;
    let ceil = call.flag("ceil_mode", false)?;
    let windows = windows(call, [height, width], size, ceil)?;
    // A window that lies in the padding altogether has no mean and no largest element.
    let [reach_height, reach_width] = [0, 1].map(|axis| window_reach(size[axis], windows.dilation[axis]));
    let reach = [reach_height, reach_width, reach_height, reach_width];
    if windows.padding.iter().zip(reach).any(|(&padding, reach)| padding >= reach) {
        return Err(call.bad_attribute("pads", "smaller than the window", format!("{:?}", windows.padding)));
    }
    Ok((batch, channels, size, windows))
}

/// The size of windows, if the node gives it.
pub(super) fn size(call: &NodeCall<'_>) -> Result<Option<[usize; 2]>, ModelError> {
    match call.ints("kernel_shape")? {
        None => Ok(None),
        Some(_) => pair(call, "kernel_shape", 1).map(Some),
    }
}

/// Two numbers of at least one.
fn pair(call: &NodeCall<'_>, name: &str, default: usize) -> Result<[usize; 2], ModelError> {
    let Some(given) = call.ints(name)? else { return Ok([default; 2]) };
    let bad = || call.bad_attribute(name, "two numbers of at least 1", format!("{given:?}"));
    let size = |value: i64| usize::try_from(value).ok().filter(|size| (1..=MAX_ELEMENTS).contains(size));
    match *given {
        [height, width] => Ok([size(height).ok_or_else(bad)?, size(width).ok_or_else(bad)?]),
        _ => Err(bad()),
    }
}

/// From the first to the last element of a window.
fn window_reach(size: usize, dilation: usize) -> usize {
    size.saturating_sub(1).saturating_mul(dilation).saturating_add(1)
}

pub(super) fn windows(
    call: &NodeCall<'_>,
    picture: [usize; 2],
    size: [usize; 2],
    ceil: bool,
) -> Result<Windows, ModelError> {
    let stride = pair(call, "strides", 1)?;
    let dilation = pair(call, "dilations", 1)?;
    let auto = call.text("auto_pad", "NOTSET")?;
    let mut padding = [0; 4];
    if let ("NOTSET" | "", Some(given)) = (auto, call.ints("pads")?) {
        let bad = || call.bad_attribute("pads", "four numbers of at least 0", format!("{given:?}"));
        let &[top, left, bottom, right] = given else { return Err(bad()) };
        for (padding, given) in padding.iter_mut().zip([top, left, bottom, right]) {
            *padding = usize::try_from(given).ok().filter(|&size| size <= MAX_ELEMENTS).ok_or_else(bad)?;
        }
    }
    let mut count = [0; 2];
    for axis in 0..2 {
        let (input, stride, reach) = (picture[axis], stride[axis], window_reach(size[axis], dilation[axis]));
        if reach > 2 * MAX_ELEMENTS || size[axis] == 0 {
            return Err(call.bad_attribute("dilations", "windows of a size that can be", format!("{dilation:?}")));
        }
        match auto {
            "NOTSET" | "" | "VALID" => {}
            "SAME_UPPER" | "SAME_LOWER" => {
                let windows = input.div_ceil(stride);
                let needed = (windows.saturating_sub(1) * stride).saturating_add(reach);
                let total = needed.saturating_sub(input);
                let (less, more) = (total / 2, total - total / 2);
                let (before, after) = if auto == "SAME_UPPER" { (less, more) } else { (more, less) };
                (padding[axis], padding[axis + 2]) = (before, after);
            }
            other => {
                return Err(call.bad_attribute("auto_pad", "NOTSET, SAME_UPPER, SAME_LOWER or VALID", other));
            }
        }
        let before = padding[axis];
        let padded = input + before + padding[axis + 2];
        let Some(room) = padded.checked_sub(reach) else {
            let expected = format!("a padded picture of at least {reach} along axis {}", axis + 2);
            return Err(call.shape_mismatch(expected, &call.dims(0)?));
        };
        count[axis] = room / stride + 1;
        if ceil {
            // A last window that hangs over the edge counts if it starts inside; the padding says so from here on.
            count[axis] = room.div_ceil(stride) + 1;
            if (count[axis] - 1) * stride >= input + before {
                count[axis] -= 1;
            }
            let end = (count[axis].saturating_sub(1) * stride).saturating_add(reach);
            padding[axis + 2] = end.saturating_sub(input + before);
        }
    }
    Ok(Windows { stride, padding, dilation, count })
}
