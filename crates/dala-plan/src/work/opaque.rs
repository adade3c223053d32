//! Work that nobody here can look into.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use dala_spec::{DType, Signature, Unsupported};

use super::TaskKind;
use crate::words::count;
use crate::{DeviceFacts, Support};

/// A whole function for a device: what it computes is known to nobody but itself, so nothing is fused with it.
#[derive(Clone)]
pub struct Opaque {
    /// What people call it.
    pub name: Arc<str>,
    /// The types of what it reads and writes, and its params.
    pub call: Arc<Signature>,
    /// The element types that the device must compute on.
    pub dtypes: Vec<DType>,
    /// Cubes along each axis.
    pub cubes: (u32, u32, u32),
    /// Units of a cube along each axis.
    pub units: (u32, u32, u32),
    /// The function, as its launcher knows it.
    pub function: Arc<dyn Any + Send + Sync>,
}

impl Opaque {
    /// How many units a cube has; more than any device takes if that is no number.
    pub fn units_of_a_cube(&self) -> u32 {
        let (x, y, z) = self.units;
        x.saturating_mul(y).saturating_mul(z)
    }
}

impl fmt::Debug for Opaque {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opaque")
            .field("name", &self.name)
            .field("cubes", &self.cubes)
            .field("units", &self.units)
            .finish_non_exhaustive()
    }
}

impl TaskKind for Opaque {
    fn describe(&self) -> String {
        let (x, y, z) = self.cubes;
        let cubes = [x, y, z].iter().fold(1usize, |all, axis| all.saturating_mul(*axis as usize));
        format!("a function of its own, {} of {}", count(cubes, "cube"), count(self.units_of_a_cube() as usize, "unit"))
    }

    fn support(&self, facts: &DeviceFacts) -> Result<Support, Unsupported> {
        // Nobody packs elements for it.
        let native = |dtype: &DType| matches!(facts.support(*dtype), Support::Native | Support::Storage);
        match self.dtypes.iter().find(|dtype| !native(dtype)) {
            Some(dtype) => {
                Err(Unsupported::DType { dtype: *dtype, supported: DType::ALL.into_iter().filter(native).collect() })
            }
            None => Ok(Support::Native),
        }
    }
}
