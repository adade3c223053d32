//! What a device computes on, and how.

use dala_spec::{DType, Program, Unsupported};

/// Every buffer's size in bytes is a multiple of this, so that whole vectors can be read and written at its end.
pub const CAPACITY_STEP: usize = 512;

/// How a device computes on an element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Support {
    /// With instructions of its own for the type.
    Native,
    /// Stored as it is, converted when loaded and stored, computed in `f32`.
    Storage,
    /// Several elements in one 32-bit word, taken apart and put together by the kernel; computed in `s32` or `f32`.
    Packed,
    /// Not at all: such a call is refused before launch.
    Refused,
}

impl Support {
    /// The name used in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Support::Native => "native",
            Support::Storage => "storage",
            Support::Packed => "packed",
            Support::Refused => "refused",
        }
    }
}

/// What planning needs to know of a device. Plain data, so that plans can be made and tested without one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFacts {
    /// The device's name, for messages.
    pub name: String,
    /// Whether it computes on `f64`.
    pub f64: bool,
    /// Whether it computes on `s64` and `u64`.
    pub s64: bool,
    /// How elements of 8 and 16 bits lie in its memory: native or packed, or refused.
    pub narrow: Support,
    /// Whether it converts between `f16` and `f32` itself, where elements of 16 bits are native: the kernel does elsewhere.
    pub converts_f16: bool,
    /// Whether the driver's compiler reorders float arithmetic, as graphics drivers do: kernels then hide sums and products
    /// from it, so that each is rounded by itself.
    pub reorders_floats: bool,
    /// How many buffers one launch may bind.
    pub max_bindings: usize,
    /// Whether the units are CPU cores, which like blocks of their own and wide vectors.
    pub cpu: bool,
    /// How many units a cube has: on a CPU, one for each core.
    pub units_per_cube: u32,
    /// How many vectors of elements one unit of a GPU computes in large launches, as measured. A core has a block.
    pub vectors_per_unit: usize,
}

impl DeviceFacts {
    /// A CPU of two cores that computes everything: for plans that are made without a device.
    pub fn of_a_cpu() -> DeviceFacts {
        DeviceFacts {
            name: "cpu".to_owned(),
            f64: true,
            s64: true,
            narrow: Support::Native,
            converts_f16: true,
            reorders_floats: false,
            max_bindings: 1024,
            cpu: true,
            units_per_cube: 2,
            vectors_per_unit: 512,
        }
    }

    /// A GPU behind a graphics driver that has 32-bit types only, for the same.
    pub fn of_a_gpu() -> DeviceFacts {
        DeviceFacts {
            name: "gpu".to_owned(),
            f64: false,
            s64: false,
            narrow: Support::Packed,
            converts_f16: false,
            reorders_floats: true,
            max_bindings: 30,
            cpu: false,
            units_per_cube: 256,
            vectors_per_unit: 8,
        }
    }

    /// How the device computes on `dtype`.
    pub fn support(&self, dtype: DType) -> Support {
        let native = |yes| if yes { Support::Native } else { Support::Refused };
        match dtype {
            DType::F32 | DType::S32 | DType::U32 => Support::Native,
            DType::F64 => native(self.f64),
            DType::S64 | DType::U64 => native(self.s64),
            DType::F16 | DType::BF16 if self.narrow == Support::Native => Support::Storage,
            DType::U8 | DType::S8 | DType::U16 | DType::S16 | DType::F16 | DType::BF16 => self.narrow,
        }
    }

    /// How many elements of a type travel in one word, where the kernel takes them apart; 1 elsewhere.
    pub fn per_word(&self, dtype: DType) -> usize {
        if self.narrow == Support::Packed { per_word(dtype) } else { 1 }
    }

    /// The element types the device computes on.
    pub fn dtypes(&self) -> Vec<DType> {
        DType::ALL.into_iter().filter(|dtype| self.support(*dtype) != Support::Refused).collect()
    }

    /// How the device would run a program.
    ///
    /// # Errors
    ///
    /// The first thing the device does not support, with what it does support instead.
    pub fn runs(&self, program: &Program) -> Result<Support, Unsupported> {
        let needed = program.inputs().len() + program.outputs().len();
        if needed > self.max_bindings {
            return Err(Unsupported::Bindings { needed, max: self.max_bindings });
        }
        // A copy moves words, so that every type can be copied everywhere.
        if program.is_copy() {
            return Ok(Support::Native);
        }
        self.computes(program)
    }

    /// As [`runs`](DeviceFacts::runs), for a program whose values pass through registers of their own type.
    pub(crate) fn computes(&self, program: &Program) -> Result<Support, Unsupported> {
        let mut support = Support::Native;
        let stored = program.inputs().iter().map(|input| input.dtype).chain(program.outputs().iter().copied());
        let computed = program.types().iter().filter_map(|ty| ty.dtype());
        for dtype in stored.chain(computed) {
            match self.support(dtype) {
                Support::Native => {}
                Support::Storage | Support::Packed => support = self.support(dtype),
                Support::Refused => return Err(Unsupported::DType { dtype, supported: self.dtypes() }),
            }
        }
        Ok(support)
    }
}

/// How many elements of a type fit into a word of 32 bits; 1 for those that do not.
pub const fn per_word(dtype: DType) -> usize {
    if dtype.size() < 4 { 4 / dtype.size() } else { 1 }
}
