//! The launcher of whole functions: whoever wrote one launches it, over memory that was checked.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use cubecl::client::Client;
use cubecl::prelude::*;
use dala_plan::work::Opaque;
use dala_plan::{DeviceFacts, Task};
use dala_spec::{DType, Signature, TensorType};

use super::{Bound, Geometry, LaunchRefused, Launcher, grid};

/// A whole CubeCL function, as a kernel ([`Kernel::cube`](crate::Kernel::cube)) or as one step of a lowering ([`cube_task`]).
///
/// The spec and the reference are those of its kernel. What is compiled of it is found again by the engine: by the function and
/// the values of its comptime arguments, which is why these are to be few. On the CPU device the units of a cube are threads:
/// they share no memory and do not wait for one another there, and a function that asks for it is refused as one that does not
/// compile.
pub trait CubeFunction: Send + Sync + 'static {
    /// How a call is spread over the device.
    fn grid(&self, call: &Signature, facts: &DeviceFacts) -> Grid;

    /// Launches the function, exactly once, with the count, the dim and the buffers of `launch`. It is not called where the grid
    /// is empty.
    ///
    /// # Errors
    ///
    /// The call is not one that the function computes. A panic counts as an error too.
    fn launch(&self, launch: &CubeLaunch) -> Result<(), LaunchRefused>;

    /// The element types that the device must compute on: by default those of the inputs and the output. On devices that have no
    /// bytes of their own, calls on `u8` are refused then; a function that takes words apart itself says `u32` here.
    fn dtypes(&self, call: &Signature) -> Vec<DType> {
        call.inputs.iter().chain([&call.output]).map(|ty| ty.dtype).collect()
    }
}

/// How a function is spread over a device: cubes, and units in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Cubes along each axis.
    pub cubes: (u32, u32, u32),
    /// Units of a cube along each axis.
    pub units: (u32, u32, u32),
}

impl Grid {
    /// At least one unit for each of `items`, numbered by `ABSOLUTE_POS`: the last ones may have nothing to do.
    pub fn one_each(items: usize, facts: &DeviceFacts) -> Grid {
        let units = facts.units_per_cube.max(1);
        Grid { cubes: grid(items, units, 1, facts), units: (units, 1, 1) }
    }
}

/// One launch of a [`CubeFunction`].
pub struct CubeLaunch<'a> {
    bound: &'a Bound<'a>,
    task: &'a Opaque,
}

impl CubeLaunch<'_> {
    /// Where it is queued.
    pub fn client(&self) -> &Client {
        self.bound.client
    }

    /// The cubes of its grid.
    pub fn count(&self) -> CubeCount {
        let (x, y, z) = self.task.cubes;
        CubeCount::Static(x, y, z)
    }

    /// The units of each cube.
    pub fn dim(&self) -> CubeDim {
        let (x, y, z) = self.task.units;
        CubeDim::new_3d(x, y, z)
    }

    /// The types of its inputs and its output, and the params.
    pub fn call(&self) -> &Signature {
        &self.task.call
    }

    /// What the device is like.
    pub fn facts(&self) -> &DeviceFacts {
        self.bound.launch.facts
    }

    /// An input, element by element. In the kernel its `len()` counts all of its memory, which is a multiple of 512 bytes: where
    /// the input ends, the function is told by an argument.
    ///
    /// # Errors
    ///
    /// The call has no such input.
    pub fn input(&self, number: usize) -> Result<BufferArg, LaunchRefused> {
        self.input_vectors(number, 1)
    }

    /// An input in vectors of `width` elements.
    ///
    /// # Errors
    ///
    /// The call has no such input, or vectors of this width do not fit its memory.
    pub fn input_vectors(&self, number: usize, width: usize) -> Result<BufferArg, LaunchRefused> {
        let ty = self.call().inputs.get(number);
        let ty = ty.ok_or_else(|| LaunchRefused(format!("the call has no input {number}")))?;
        let (bytes, vectors) = vectors(ty, width)?;
        self.bound.slice(number, bytes, vectors)
    }

    /// The output, element by element.
    ///
    /// # Errors
    ///
    /// Its memory is too small.
    pub fn output(&self) -> Result<BufferArg, LaunchRefused> {
        self.output_vectors(1)
    }

    /// The output in vectors of `width` elements.
    ///
    /// # Errors
    ///
    /// Vectors of this width do not fit its memory.
    pub fn output_vectors(&self, width: usize) -> Result<BufferArg, LaunchRefused> {
        let (bytes, vectors) = vectors(&self.call().output, width)?;
        self.bound.slice_mut(0, bytes, vectors)
    }
}

/// The bytes of a vector, and how many vectors there are.
fn vectors(ty: &TensorType, width: usize) -> Result<(usize, usize), LaunchRefused> {
    match width.checked_mul(ty.dtype.size()) {
        Some(bytes @ 1..) => Ok((bytes, ty.shape.len().div_ceil(width))),
        _ => Err(LaunchRefused(format!("there are no vectors of {width} elements"))),
    }
}

/// What a task holds of a function.
struct Held(Arc<dyn CubeFunction>);

/// One launch of a function, for a lowering of several steps: `call` has the types of what the step reads and writes. `name` is
/// what errors call it.
pub fn cube_task(
    name: impl Into<Arc<str>>,
    function: &Arc<dyn CubeFunction>,
    call: Signature,
    facts: &DeviceFacts,
) -> Task {
    let Grid { cubes, units } = function.grid(&call, facts);
    Task::Opaque(Opaque {
        name: name.into(),
        dtypes: function.dtypes(&call),
        call: Arc::new(call),
        cubes,
        units,
        function: Arc::new(Held(function.clone())),
    })
}

impl Launcher for Opaque {
    fn geometry(&self, _: &DeviceFacts) -> Geometry {
        let (x, y, z) = self.cubes;
        let empty = x == 0 || y == 0 || z == 0 || self.units_of_a_cube() == 0;
        let cubes = if empty { (0, 0, 0) } else { self.cubes };
        Geometry { width: 1, units: self.units_of_a_cube(), steps: 1, interleaved: false, cubes }
    }

    fn launch(&self, bound: &Bound) -> Result<(), LaunchRefused> {
        let held = self.function.downcast_ref::<Held>();
        let Held(function) = held.ok_or_else(|| LaunchRefused("a function of another engine".to_owned()))?;
        bound.compiled.count_others();
        let launch = CubeLaunch { bound, task: self };
        catch_unwind(AssertUnwindSafe(|| function.launch(&launch)))
            .unwrap_or_else(|panic| Err(LaunchRefused(panic_message(&*panic))))
    }
}

/// What a panic said.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    format!("it panicked: {}", text.unwrap_or("no message"))
}
