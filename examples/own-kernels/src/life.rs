//! A whole CubeCL function: one generation of Conway's game of life on a torus. A cell is 1 if it lives, else 0. It lives on
//! with two or three neighbours; `born` neighbours make a new one.

use dala_compute::kernel::{
    Class, CubeFunction, CubeLaunch, DTypes, DeviceFacts, Grid, Kernel, LaunchRefused, OutputDType, ParamKey,
    Reference, ShapeCall, Signature,
};
use dala_compute::{DType, Data, KernelSpec, ParamKind, Shape, ShapeProblem, cubecl, param};

use cubecl::prelude::*;

const CELLS: DTypes = &[DType::U32];
const BORN: ParamKey = ParamKey::new("born");

/// The kernel.
pub(crate) fn kernel() -> Kernel {
    let spec = KernelSpec::new("life", Class::Opaque)
        .summary("One generation of the game of life, on a torus")
        .input("cells", CELLS)
        .computed("the input's", OutputDType::Inputs, shape)
        .param(param(BORN, ParamKind::Int).default(3).range(1.0, 8.0).summary("neighbours that make a new cell"));
    Kernel::cube(spec, Life).example(&[&[6, 8]], &[6, 8]).reference(reference)
}

fn shape(call: &ShapeCall) -> Result<Shape, ShapeProblem> {
    match call.inputs[0].shape.dims() {
        [_, _] => Ok(call.inputs[0].shape.clone()),
        _ => Err(ShapeProblem::Input(0, "{height, width}".to_owned())),
    }
}

/// One unit computes one cell. Where buffers end, it is told: their memory is a little longer.
#[cube(launch)]
fn next_generation(cells: &[u32], next: &mut [u32], height: u32, width: u32, born: u32) {
    let at = ABSOLUTE_POS as u32;
    if at < height * width {
        let (y, x) = (at / width, at % width);
        let above = (y + height - 1) % height * width;
        let own = y * width;
        let below = (y + 1) % height * width;
        let left = (x + width - 1) % width;
        let right = (x + 1) % width;
        let mut around = cells[(above + left) as usize] + cells[(above + x) as usize] + cells[(above + right) as usize];
        around += cells[(own + left) as usize] + cells[(own + right) as usize];
        around += cells[(below + left) as usize] + cells[(below + x) as usize] + cells[(below + right) as usize];
        let alive = cells[at as usize] == 1;
        let lives = alive && (around == 2 || around == 3) || !alive && around == born;
        next[at as usize] = u32::cast_from(lives);
    }
}

struct Life;

impl CubeFunction for Life {
    fn grid(&self, call: &Signature, facts: &DeviceFacts) -> Grid {
        Grid::one_each(call.output.shape.len(), facts)
    }

    fn launch(&self, launch: &CubeLaunch) -> Result<(), LaunchRefused> {
        let [height, width] = *launch.call().output.shape.dims() else { return Ok(()) };
        let (cells, next) = (launch.input(0)?, launch.output()?);
        let (height, width, born) = (height as u32, width as u32, launch.call().params.int(BORN) as u32);
        next_generation::launch(launch.client(), launch.count(), launch.dim(), cells, next, height, width, born);
        Ok(())
    }
}

/// The same in plain Rust.
fn reference(call: &Reference) -> Data {
    let (dims, born) = (call.signature.output.shape.dims(), call.params().int(BORN));
    let (height, width) = (dims[0], dims[1]);
    call.numbers(|index| {
        let (y, x) = (index / width, index % width);
        let mut around = 0.0;
        for (down, right) in [(0, 0), (0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1), (2, 2)] {
            let place = (y + height + down - 1) % height * width + (x + width + right - 1) % width;
            around += call.float(0, place);
        }
        let alive = call.float(0, index) == 1.0;
        let lives = if alive { around == 2.0 || around == 3.0 } else { around == born as f64 };
        f64::from(u8::from(lives))
    })
}
