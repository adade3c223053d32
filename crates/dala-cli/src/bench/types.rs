//! Arithmetic on each element type beside a copy of the same bytes: what is bound by memory must not be bound by anything else.

use anyhow::Result;
use dala_compute::{DType, Device, Params, Plan, Support, TensorType};

use super::report::Row;
use super::{compare, plan_of};

/// Bytes of each buffer: beyond every cache.
const BYTES: usize = 64 << 20;

fn plan(device: &Device, kernel: &str, dtype: DType, inputs: usize, params: Params) -> Result<Plan> {
    let ty = TensorType::new(dtype, [BYTES / dtype.size()]);
    plan_of(device, kernel, vec![ty.clone(); inputs], ty, params)
}

pub(super) fn measure(device: &Device) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (dtype, support) in &device.info().dtypes {
        if *support == Support::Refused {
            continue;
        }
        let copy = plan(device, "copy", *dtype, 1, Params::new())?;
        let scaled = plan(device, "scalar_mul", *dtype, 1, Params::new().with("scalar", 3))?;
        let times = compare(21, || Ok(scaled.run()?), || Ok(copy.run()?))?;
        rows.push(Row::new(format!("{dtype} times 3"), "copy of as many bytes", times));
        // Three buffers are moved, where a copy moves two.
        let summed = plan(device, "elementwise_add", *dtype, 2, Params::new())?;
        let (ours, base) = compare(21, || Ok(summed.run()?), || Ok(copy.run()?))?;
        rows.push(Row::new(format!("{dtype} plus {dtype}"), "copy of as many bytes", (ours, 1.5 * base)));
    }
    Ok(rows)
}
