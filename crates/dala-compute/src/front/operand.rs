//! What a stage works on: a buffer, or something that exists only while a pipeline runs.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dala_spec::{DType, Shape};

use crate::buffer::Buffer;

/// A buffer that exists only while its pipeline runs: the plan may put several of them in one place, or never write one to
/// memory at all. Clones are the same buffer.
///
/// Type and shape may be left out where they follow from the stage that writes it first.
///
/// ```
/// # use dala_compute::{DType, Transient};
/// let soft = Transient::new().named("soft");
/// let sums = Transient::new().dtype(DType::F32).shape([480]);
/// # let _ = (soft, sums);
/// ```
#[derive(Clone)]
pub struct Transient(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    id: u64,
    name: Option<String>,
    dtype: Option<DType>,
    shape: Option<Shape>,
}

impl Transient {
    /// One of whatever type and shape its stages make of it.
    #[expect(clippy::new_without_default, reason = "each is another buffer: no two are alike")]
    pub fn new() -> Transient {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Transient(Arc::new(Inner { id, name: None, dtype: None, shape: None }))
    }

    fn with(self, change: impl FnOnce(&mut Inner)) -> Transient {
        let mut inner = (*self.0).clone();
        change(&mut inner);
        Transient(Arc::new(inner))
    }

    /// The same with a name, for messages and drawings.
    pub fn named(self, name: impl Into<String>) -> Transient {
        self.with(|inner| inner.name = Some(name.into()))
    }

    /// The same of this element type.
    pub fn dtype(self, dtype: DType) -> Transient {
        self.with(|inner| inner.dtype = Some(dtype))
    }

    /// The same of this shape.
    pub fn shape(self, shape: impl Into<Shape>) -> Transient {
        self.with(|inner| inner.shape = Some(shape.into()))
    }

    pub(crate) fn id(&self) -> u64 {
        self.0.id
    }

    /// What it is called, if it has a name.
    pub fn name(&self) -> Option<&str> {
        self.0.name.as_deref()
    }

    pub(crate) fn given(&self) -> (Option<DType>, Option<Shape>) {
        (self.0.dtype, self.0.shape.clone())
    }
}

impl fmt::Debug for Transient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.name {
            Some(name) => write!(f, "Transient {name}"),
            None => write!(f, "Transient t{}", self.0.id),
        }
    }
}

/// What a stage reads or writes.
#[derive(Clone, Debug)]
pub enum Operand {
    /// A buffer.
    Buffer(Buffer),
    /// A buffer that exists only while its pipeline runs.
    Transient(Transient),
}

macro_rules! operands {
    ($($type:ident),+) => {$(
        impl From<$type> for Operand {
            fn from(value: $type) -> Operand {
                Operand::$type(value)
            }
        }

        impl From<&$type> for Operand {
            fn from(value: &$type) -> Operand {
                Operand::$type(value.clone())
            }
        }

        // Lists of references are lists of operands: `&[&x, &y]`.
        impl From<&&$type> for Operand {
            fn from(value: &&$type) -> Operand {
                Operand::$type((*value).clone())
            }
        }
    )+};
}
operands!(Buffer, Transient);

impl From<&Operand> for Operand {
    fn from(value: &Operand) -> Operand {
        value.clone()
    }
}

/// What a kernel writes: a buffer, or a list of them where it has several outputs.
#[derive(Clone, Debug)]
pub struct Outputs(pub(crate) Vec<Operand>);

macro_rules! one_output {
    ($($type:ty),+) => {$(
        impl From<$type> for Outputs {
            fn from(value: $type) -> Outputs {
                Outputs(vec![value.into()])
            }
        }
    )+};
}
one_output!(Buffer, &Buffer, &&Buffer, Transient, &Transient, &&Transient, Operand, &Operand);

impl<T: Into<Operand>, const N: usize> From<[T; N]> for Outputs {
    fn from(list: [T; N]) -> Outputs {
        Outputs(list.into_iter().map(Into::into).collect())
    }
}

impl<T: Into<Operand>> From<Vec<T>> for Outputs {
    fn from(list: Vec<T>) -> Outputs {
        Outputs(list.into_iter().map(Into::into).collect())
    }
}
