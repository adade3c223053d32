//! Convolution and pooling: windows over height and width.

use super::{Call, Input, Outcome};
use crate::limits::MAX_ELEMENTS;
use crate::{ModelError, Op};

/// Where windows lie.
struct Windows {
    stride: [usize; 2],
    padding: [usize; 4],
    dilation: [usize; 2],
    /// How many there are.
    count: [usize; 2],
}

pub(super) fn conv(call: &Call<'_>) -> Result<Outcome, ModelError> {
    let dtype = call.float()?;
    let [batch, channels, height, width] = call.picture()?;
    let weight = call.dims(1)?;
    call.same_dtype(1)?;
    let &[out, per_group, window_height, window_width] = weight else {
        return Err(call.shape_mismatch("weights of shape {out, in, height, width}", &weight));
    };
    let size = [window_height, window_width];
    if let Some(given) = window_attribute(call)?.filter(|&given| given != size) {
        return Err(call.bad_attribute("kernel_shape", format!("{size:?}, as in the weights"), format!("{given:?}")));
    }
    let group = call.int("group", 1)?;
    let groups = usize::try_from(group).ok().filter(|groups| (1..=MAX_ELEMENTS).contains(groups));
    let groups = groups.ok_or_else(|| call.bad_attribute("group", "at least 1", group))?;
    if per_group.checked_mul(groups) != Some(channels) || out % groups != 0 || channels == 0 || out == 0 {
        let expected = format!("weights for {channels} channels in {groups} groups");
        return Err(call.shape_mismatch(expected, &weight));
    }
    let windows = windows(call, [height, width], size, false)?;
    let Windows { stride, padding, dilation, count } = windows;
    let bias = match call.number(2) {
        Some(number) => {
            call.same_dtype(2)?;
            let dims = call.dims(2)?;
            if dims != [out] {
                return Err(call.shape_mismatch(format!("a bias of shape {{{out}}}"), &dims));
            }
            Input::Value(number)
        }
        None => Input::Zeros("bias", call.output(dtype, vec![out])?),
    };
    let inputs = vec![Input::Value(call.input(0)?), Input::Value(call.input(1)?), bias];
    let ty = call.output(dtype, vec![batch, out, count[0], count[1]])?;
    Ok(Outcome::Layer { op: Op::Conv { stride, padding, dilation, groups }, inputs, ty })
}

pub(super) fn average_pool(call: &Call<'_>) -> Result<Outcome, ModelError> {
    let dtype = call.float()?;
    let (batch, channels, size, windows) = pool(call)?;
    let Windows { stride, padding, dilation, count } = windows;
    if dilation != [1, 1] {
        return Err(call.unsupported("not supported: dilations"));
    }
    let count_padding = call.flag("count_include_pad", false)?;
    let ty = call.output(dtype, vec![batch, channels, count[0], count[1]])?;
    Ok(Outcome::layer(Op::AveragePool { size, stride, padding, count_padding }, [call.input(0)?], ty))
}

pub(super) fn max_pool(call: &Call<'_>) -> Result<Outcome, ModelError> {
    let (batch, channels, size, windows) = pool(call)?;
    let Windows { stride, padding, dilation, count } = windows;
    let ty = call.output(call.dtype(0)?, vec![batch, channels, count[0], count[1]])?;
    Ok(Outcome::layer(Op::MaxPool { size, stride, padding, dilation }, [call.input(0)?], ty))
}

pub(super) fn global_average_pool(call: &Call<'_>) -> Result<Outcome, ModelError> {
    let dtype = call.float()?;
    let [batch, channels, height, width] = call.picture()?;
    if height == 0 || width == 0 {
        return Err(call.shape_mismatch("at least one pixel", &call.dims(0)?));
    }
    let ty = call.output(dtype, vec![batch, channels, 1, 1])?;
    Ok(Outcome::layer(Op::GlobalAveragePool, [call.input(0)?], ty))
}

fn pool(call: &Call<'_>) -> Result<(usize, usize, [usize; 2], Windows), ModelError> {
    let [batch, channels, height, width] = call.picture()?;
    let size = window_attribute(call)?.ok_or_else(|| call.bad_attribute("kernel_shape", "there", "nothing"))?;
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

fn window_attribute(call: &Call<'_>) -> Result<Option<[usize; 2]>, ModelError> {
    match call.ints("kernel_shape")? {
        None => Ok(None),
        Some(_) => pair(call, "kernel_shape", 1).map(Some),
    }
}

/// Two numbers of at least one.
fn pair(call: &Call<'_>, name: &str, default: usize) -> Result<[usize; 2], ModelError> {
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

fn windows(call: &Call<'_>, picture: [usize; 2], size: [usize; 2], ceil: bool) -> Result<Windows, ModelError> {
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

#[cfg(test)]
mod tests {
    use crate::builder::{Net, floats, int, ints, single, text};
    use crate::{ModelError, Op};

    fn weights(dims: &[i64]) -> crate::proto::TensorProto {
        floats(dims, vec![0.5; dims.iter().product::<i64>() as usize])
    }

    /// The layer and its output's dimensions.
    fn layer(net: Net) -> Result<(Op, Vec<usize>), ModelError> {
        let network = net.resolve(2)?;
        Ok((network.layers[0].op.clone(), network.values[network.outputs[0]].ty.shape.dims().to_vec()))
    }

    #[test]
    fn a_convolution_gets_a_bias_and_a_size() {
        let attributes = vec![ints("strides", &[2, 1]), ints("pads", &[1, 0, 2, 1]), ints("dilations", &[1, 2])];
        let net = single(
            13,
            "Conv",
            &[-1, 4, 9, 8],
            vec![weights(&[6, 2, 3, 3])],
            [attributes, vec![int("group", 2)]].concat(),
        );
        let network = net.resolve(2).unwrap();
        let bias = &network.values[network.layers[0].inputs[2]];
        assert_eq!(bias.constant.as_deref(), Some(&dala_spec::Data::F32(vec![0.0; 6])));
        let (op, dims) = layer(net).unwrap();
        assert_eq!(op, Op::Conv { stride: [2, 1], padding: [1, 0, 2, 1], dilation: [1, 2], groups: 2 });
        assert_eq!(dims, [2, 6, 5, 5]);
    }

    #[test]
    fn automatic_padding_becomes_explicit() {
        for (mode, size, stride, padding, dims) in [
            ("SAME_UPPER", 3, 2, [0, 1, 1, 1], [2, 1, 4, 4]),
            ("SAME_LOWER", 3, 2, [1, 1, 0, 1], [2, 1, 4, 4]),
            ("SAME_UPPER", 2, 3, [0, 0, 0, 1], [2, 1, 3, 3]),
            ("VALID", 3, 2, [0, 0, 0, 0], [2, 1, 3, 3]),
            ("NOTSET", 3, 1, [0, 0, 0, 0], [2, 1, 6, 5]),
        ] {
            let attributes = vec![text("auto_pad", mode), ints("strides", &[stride, stride])];
            let net = single(13, "Conv", &[-1, 1, 8, 7], vec![weights(&[1, 1, size, size])], attributes);
            let (op, found) = layer(net).unwrap();
            let stride = [stride as usize; 2];
            assert_eq!(op, Op::Conv { stride, padding, dilation: [1, 1], groups: 1 }, "{mode} {size}");
            assert_eq!(found, dims, "{mode} {size}");
        }
    }

    #[test]
    fn rounding_up_becomes_padding() {
        let pool = |op: &str, height: i64, stride: i64, pads: &[i64]| {
            let attributes = vec![int("ceil_mode", 1), ints("strides", &[stride, stride]), ints("pads", pads)];
            let attributes = [attributes, vec![ints("kernel_shape", &[2, 2])]].concat();
            layer(single(13, op, &[-1, 1, height, 6], vec![], attributes)).unwrap()
        };
        let (op, dims) = pool("MaxPool", 7, 2, &[0; 4]);
        assert_eq!(op, Op::MaxPool { size: [2, 2], stride: [2, 2], padding: [0, 0, 1, 0], dilation: [1, 1] });
        assert_eq!(dims, [2, 1, 4, 3]);
        // The last window would start in the padding, and is left out.
        let (op, dims) = pool("AveragePool", 5, 3, &[1, 0, 1, 0]);
        assert_eq!(dims, [2, 1, 2, 2]);
        assert_eq!(op, Op::AveragePool { size: [2, 2], stride: [3, 3], padding: [1, 0, 0, 0], count_padding: false });
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let conv = |x: &[i64], w: &[i64], attributes| single(13, "Conv", x, vec![weights(w)], attributes).code();
        assert_eq!(conv(&[1, 3, 8], &[4, 3, 3], vec![]), "unsupported_operator");
        assert_eq!(conv(&[1, 3, 8, 8, 8], &[4, 3, 3, 3, 3], vec![]), "unsupported_operator");
        assert_eq!(conv(&[1, 3, 8, 8], &[4, 2, 3, 3], vec![]), "shape_mismatch");
        assert_eq!(conv(&[1, 3, 2, 2], &[4, 3, 3, 3], vec![]), "shape_mismatch");
        for bad in [
            ints("strides", &[0, 1]),
            ints("strides", &[1]),
            ints("pads", &[-1, 0, 0, 0]),
            ints("pads", &[i64::MAX; 4]),
            ints("dilations", &[i64::MAX; 2]),
            ints("kernel_shape", &[2, 2]),
            int("group", 0),
            int("strides", 1),
            text("auto_pad", "SOMEHOW"),
        ] {
            assert_eq!(conv(&[1, 3, 8, 8], &[4, 3, 3, 3], vec![bad.clone()]), "bad_attribute", "{bad:?}");
        }
        let pool = |attributes| single(13, "AveragePool", &[1, 1, 8, 8], vec![], attributes).code();
        assert_eq!(pool(vec![]), "bad_attribute");
        assert_eq!(pool(vec![ints("kernel_shape", &[2, 2]), ints("pads", &[2, 0, 0, 0])]), "bad_attribute");
        let both = vec![ints("kernel_shape", &[2, 2]), int("ceil_mode", 1), int("count_include_pad", 1)];
        assert_eq!(pool(both), "unsupported_operator");
    }
}
