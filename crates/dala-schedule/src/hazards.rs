//! Who touches what, in the order of submission.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use crate::CommandId;

/// Something that commands read and write: a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResourceId(pub u64);

/// The commands that touch one resource, each list in the order of submission.
#[derive(Debug, Default)]
struct Touched {
    /// Not launched to their last stage.
    writers: VecDeque<CommandId>,
    /// Not launched to their last stage.
    readers: VecDeque<CommandId>,
    /// The last writer, as long as nobody knows how it ends.
    source: Option<CommandId>,
}

/// A command may be launched once nothing before it conflicts with it: the device executes in the order of launches, so
/// that is all it takes.
#[derive(Debug, Default)]
pub(crate) struct Hazards(FxHashMap<ResourceId, Touched>);

impl Hazards {
    /// With room for so many resources from the beginning.
    pub(crate) fn with_room(resources: usize) -> Hazards {
        Hazards(FxHashMap::with_capacity_and_hasher(resources, Default::default()))
    }

    /// A command that touches these resources was submitted, after all others.
    pub(crate) fn enter(&mut self, id: CommandId, reads: &[ResourceId], writes: &[ResourceId]) {
        for read in reads {
            self.0.entry(*read).or_default().readers.push_back(id);
        }
        for write in writes {
            let touched = self.0.entry(*write).or_default();
            touched.writers.push_back(id);
            touched.source = Some(id);
        }
    }

    /// Whether a command before this one must be launched first.
    pub(crate) fn blocks(&self, id: CommandId, reads: &[ResourceId], writes: &[ResourceId]) -> bool {
        let before = |queue: &VecDeque<CommandId>| queue.front().is_some_and(|first| *first < id);
        let touched = |resource| self.0.get(resource);
        reads.iter().filter_map(touched).any(|touched| before(&touched.writers))
            || writes.iter().filter_map(touched).any(|touched| before(&touched.writers) || before(&touched.readers))
    }

    /// The commands that must be launched before this one, but for those that must be launched before one of these.
    pub(crate) fn nearest_before(
        &self,
        id: CommandId,
        reads: &[ResourceId],
        writes: &[ResourceId],
        found: &mut Vec<CommandId>,
    ) {
        let last_before = |queue: &VecDeque<CommandId>| {
            let end = queue.partition_point(|other| *other < id);
            end.checked_sub(1).map(|last| queue[last])
        };
        for touched in reads.iter().filter_map(|read| self.0.get(read)) {
            found.extend(last_before(&touched.writers));
        }
        for touched in writes.iter().filter_map(|write| self.0.get(write)) {
            let writer = last_before(&touched.writers);
            let since = writer.map_or(0, |writer| touched.readers.partition_point(|reader| *reader <= writer));
            let end = touched.readers.partition_point(|reader| *reader < id);
            found.extend(touched.readers.range(since.min(end)..end));
            found.extend(writer);
        }
    }

    /// The command whose result a read would see, if nobody knows yet how it ends.
    pub(crate) fn source(&self, resource: ResourceId) -> Option<CommandId> {
        self.0.get(&resource)?.source
    }

    /// Every stage of the command is launched, or none of the rest will be.
    pub(crate) fn launched(&mut self, id: CommandId, reads: &[ResourceId], writes: &[ResourceId]) {
        let remove = |queue: &mut VecDeque<CommandId>| {
            if let Ok(place) = queue.binary_search(&id) {
                queue.remove(place);
            }
        };
        for read in reads {
            self.update(*read, |touched| remove(&mut touched.readers));
        }
        for write in writes {
            self.update(*write, |touched| remove(&mut touched.writers));
        }
    }

    /// The end of the command is known.
    pub(crate) fn settled(&mut self, id: CommandId, writes: &[ResourceId]) {
        for write in writes {
            self.update(*write, |touched| {
                touched.source.take_if(|source| *source == id);
            });
        }
    }

    fn update(&mut self, resource: ResourceId, change: impl FnOnce(&mut Touched)) {
        if let Some(touched) = self.0.get_mut(&resource) {
            change(touched);
            if touched.source.is_none() && touched.writers.is_empty() && touched.readers.is_empty() {
                self.0.remove(&resource);
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
