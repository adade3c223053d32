//! What a task says about itself.

use dala_spec::{DType, Program, Unsupported};

use super::Fragment;
use crate::{DeviceFacts, Support};

/// Whether a store program may read buffers that its kernel does not read yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadsMore {
    /// It may.
    Yes,
    /// It has nothing but the kernel's results.
    No,
}

/// What a task says about itself: planner, printer and launchers ask this and nothing else.
pub trait TaskKind {
    /// What it does, in a few words.
    fn describe(&self) -> String;

    /// The programs at its edges, in order.
    fn fragments(&self) -> Vec<&Fragment> {
        Vec::new()
    }

    /// The same, to be changed.
    fn fragments_mut(&mut self) -> Vec<&mut Fragment> {
        Vec::new()
    }

    /// All programs it runs, in order.
    fn programs(&self) -> Vec<&Program> {
        self.fragments().into_iter().map(|fragment| &fragment.program).collect()
    }

    /// The same, to be changed.
    fn programs_mut(&mut self) -> Vec<&mut Program> {
        self.fragments_mut().into_iter().map(|fragment| &mut fragment.program).collect()
    }

    /// The element type that it computes in beside its programs.
    fn dtype(&self) -> Option<DType> {
        None
    }

    /// How a device with these facts would run it.
    ///
    /// # Errors
    ///
    /// The first thing the device does not support.
    fn support(&self, facts: &DeviceFacts) -> Result<Support, Unsupported> {
        let mut support = Support::Native;
        for program in self.programs() {
            if facts.computes(program)? == Support::Packed {
                support = Support::Packed;
            }
        }
        match self.dtype() {
            Some(dtype) if facts.support(dtype) == Support::Refused => {
                Err(Unsupported::DType { dtype, supported: facts.dtypes() })
            }
            _ => Ok(support),
        }
    }

    /// Whether its launcher can run it as it is, beyond what its programs compute.
    fn launches(&self, _facts: &DeviceFacts) -> bool {
        true
    }

    /// The most elements among which it looks for one, where its call has buffers of `longest`.
    fn indexed(&self, longest: usize) -> usize {
        longest
    }

    /// The first read that it leaves to its fragments; none if it has no fragment that reads.
    fn first_fragment_read(&self) -> Option<usize> {
        None
    }

    /// How often it loads each element.
    fn loads(&self) -> usize {
        1
    }

    /// The fragment through which it stores its results, if any.
    fn store_fragment(&mut self) -> Option<(&mut Fragment, ReadsMore)> {
        None
    }

    /// The size of the last axis of what it stores, where its store program may read by the place along that axis.
    fn columns(&self) -> Option<usize> {
        None
    }

    /// Where whole pixels can be looked at before they are stored: how many elements they have, and what is made of them by now.
    fn pixel_fragment(&mut self) -> Option<(usize, &mut Option<Fragment>)> {
        None
    }

    /// How many of the buffers that it writes hold results; others are for itself.
    fn results(&self) -> usize {
        1
    }
}

/// The fragments of a task, by its fields.
macro_rules! fragments {
    ($($field:ident),+) => {
        fn fragments(&self) -> Vec<&Fragment> {
            vec![$(&self.$field),+]
        }

        fn fragments_mut(&mut self) -> Vec<&mut Fragment> {
            vec![$(&mut self.$field),+]
        }
    };
}
pub(super) use fragments;
