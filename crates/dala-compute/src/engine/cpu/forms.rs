//! Launches of one step, found again: they differ in where their memory is, and at times in more.

use std::sync::{Arc, Mutex};

use dala_spec::Scalar;
use smallvec::SmallVec;

use super::super::error::EngineError;
use super::super::launch::Launch;
use super::code::NotReady;
use super::memory::{CpuBlock, Name, lock, piece};
use super::ready::{Length, Ready};
use super::server::Taken;

/// How many forms of a step are kept: more would be looked through in vain where every launch has other values.
const FORMS: usize = 8;

/// Which of the reads and outputs each buffer of a kernel is.
type Roles = SmallVec<[u8; 6]>;

/// The roles of a launch as it was described.
pub(super) fn roles(launch: &Launch, taken: Option<&Taken>) -> Result<Roles, EngineError> {
    let names = launch.reads.iter().chain(&launch.outputs).map(|memory| piece(memory).map(CpuBlock::name));
    let names = names.collect::<Result<SmallVec<[Name; 6]>, _>>()?;
    let role = |buffer: &Name| {
        let role = names.iter().position(|name| name == buffer);
        role.map(|role| role as u8).ok_or_else(|| EngineError::internal("a launch over unknown memory"))
    };
    taken.iter().flat_map(|taken| &taken.buffers).map(role).collect()
}

/// What is kept of the launches of one step.
#[derive(Default)]
pub(super) struct Forms(Mutex<Vec<Form>>);

/// Launches of a step that differ in nothing but where their memory is.
struct Form {
    sizes: Sizes,
    /// None if there is nothing to do.
    taken: Option<Taken>,
    roles: Roles,
    length: Arc<Length>,
    /// The last one, and where its memory was.
    ready: Option<(SmallVec<[usize; 6]>, Arc<Ready>)>,
}

#[derive(PartialEq)]
struct Sizes {
    /// For each read and output, the bytes it has.
    capacities: SmallVec<[u64; 6]>,
    /// For each read and output, the first that is the same memory.
    same: SmallVec<[u8; 6]>,
    /// The bits of its run-time values.
    params: SmallVec<[u64; 4]>,
}

/// What makes up a launch beside its step.
pub(super) struct Shape {
    /// Where its reads and outputs are.
    places: SmallVec<[usize; 6]>,
    sizes: Sizes,
}

impl Shape {
    pub(super) fn of(launch: &Launch) -> Result<Shape, EngineError> {
        let memories = || launch.reads.iter().chain(&launch.outputs);
        let place = |memory| piece(memory).map(|piece| piece.at.expose_provenance());
        let places = memories().map(place).collect::<Result<SmallVec<[usize; 6]>, _>>()?;
        let same = places.iter().map(|at| places.iter().position(|other| other == at).unwrap_or_default() as u8);
        let sizes = Sizes {
            capacities: memories().map(|memory| memory.capacity).collect(),
            same: same.collect(),
            params: launch.params.iter().copied().map(Scalar::bits).collect(),
        };
        Ok(Shape { places, sizes })
    }
}

impl Forms {
    /// The launch of that shape, ready to run, or none if there is nothing to do. One that is new is described first.
    pub(super) fn ready(
        &self,
        Shape { places, sizes }: Shape,
        flushes: bool,
        describe: impl FnOnce() -> Result<(Option<Taken>, Roles, Arc<Length>), NotReady>,
    ) -> Result<Option<Arc<Ready>>, NotReady> {
        let mut forms = lock(&self.0);
        let place = match forms.iter().position(|form| form.sizes == sizes) {
            Some(place) => place,
            None => {
                let (taken, roles, length) = describe()?;
                if forms.len() == FORMS {
                    forms.remove(0);
                }
                forms.push(Form { sizes, taken, roles, length, ready: None });
                forms.len() - 1
            }
        };
        let Form { taken, roles, length, ready, .. } = &mut forms[place];
        let Some(taken) = taken else { return Ok(None) };
        if let Some((known, ready)) = ready
            && *known == places
        {
            return Ok(Some(ready.clone()));
        }
        let buffers = roles.iter().map(|role| std::ptr::with_exposed_provenance_mut(places[usize::from(*role)]));
        let new = Arc::new(Ready::new(taken, buffers, length.clone(), flushes));
        *ready = Some((places, new.clone()));
        Ok(Some(new))
    }
}
