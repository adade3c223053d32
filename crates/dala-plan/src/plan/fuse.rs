//! Fusion: a node takes over the work of one that makes what it reads.
//!
//! Three forms, one after the other for each node, from the first to the last:
//!
//! - two programs become one, which stores everything that is still needed of both;
//! - a program becomes part of what another kernel does to elements as it loads them;
//! - a program becomes part of what another kernel does to results before it stores them.
//!
//! The earlier node moves to the place of the later one. That is allowed where nobody between the two reads what it makes,
//! nobody overwrites what it reads, and no barrier stands there.

use std::sync::Arc;

use dala_spec::expr::{Feed, InputSlot, Op, Part};
use dala_spec::{DType, Program, Shape};

use super::Rules;
use super::Verdict;
use super::elide::works_in_place;
use super::graph::{Graph, Node, NodeId, Origin, ValueId};
use crate::work::{Fragment, Map, ReadsMore, Source, Task};

/// The most operations of a fused program: compiling takes longer the more there are.
const MAX_OPS: usize = 160;
/// The most stages, and the most parts of a kernel, that a launch does: programs that cancel out stay short however many they were.
const MAX_MERGED: usize = 256;
/// How much work may be repeated, in operations per element, to save a round trip through memory.
const MAX_REPEATED: u64 = 32;
/// How many earlier readers of a value are looked at for work on the same input.
const MAX_SIBLINGS: usize = 4;

/// Why two nodes are not fused. Nothing where there is nothing to explain.
type Apart = Option<&'static str>;

impl Graph {
    /// Fuses what can be fused.
    pub(super) fn fuse(&mut self, rules: &Rules) {
        for id in 0..self.nodes.len() {
            let mut apart = self.absorb_producers(id, rules);
            if self.join_siblings(id, rules) {
                // What was joined has producers of its own.
                apart = self.absorb_producers(id, rules);
            }
            self.verdicts.extend(apart);
        }
    }

    /// Takes over the work of all nodes whose results a node reads, as far as that goes; says of the rest why not.
    fn absorb_producers(&mut self, id: NodeId, rules: &Rules) -> Vec<Verdict> {
        loop {
            let Some(node) = &self.nodes[id] else { return Vec::new() };
            let (reads, to) = (node.reads.clone(), node.stages.last().copied().unwrap_or(0));
            let mut apart = Vec::new();
            let mut absorbed = false;
            for read in reads {
                let writer = self.values[read].writers.last();
                let from = writer.and_then(|from| self.nodes[*from].as_ref()?.stages.last().copied());
                match self.absorb(read, id, rules) {
                    Ok(how) => {
                        let from = from.unwrap_or(0);
                        if from != to {
                            self.verdicts.push(Verdict::Fused { from, to, how });
                        }
                        absorbed = true;
                        break;
                    }
                    Err(Some(why)) => {
                        let verdict = Verdict::Apart { from: from.unwrap_or(0), to, why };
                        if from.is_some_and(|from| from != to) && !apart.contains(&verdict) {
                            apart.push(verdict);
                        }
                    }
                    Err(None) => {}
                }
            }
            if !absorbed {
                return apart;
            }
        }
    }

    /// The only node that writes a value.
    fn producer(&self, value: ValueId) -> Option<NodeId> {
        match self.values[value].writers[..] {
            [writer] => Some(writer),
            _ => None,
        }
    }

    fn absorb(&mut self, value: ValueId, to: NodeId, rules: &Rules) -> Result<&'static str, Apart> {
        if self.values[value].origin != Origin::Written {
            return Err(None);
        }
        let from = self.producer(value).ok_or(Some("it is written in parts"))?;
        let (Some(producer), Some(consumer)) = (&self.nodes[from], &self.nodes[to]) else { return Err(None) };
        self.may_move(producer, from, to)?;
        let (fused, how) = match (&producer.task, &consumer.task) {
            (Task::Opaque(_), _) | (_, Task::Opaque(_)) => {
                return Err(Some("one of them is a function of its own, into which nothing is fused"));
            }
            (Task::Map(first), Task::Map(second)) => {
                (self.fuse_maps((producer, first), (consumer, second), value, to)?, "one program")
            }
            (Task::Map(map), _) => (self.prologue((producer, map), consumer, value, to)?, "as it loads"),
            (_, Task::Map(map)) => (self.epilogue(producer, (consumer, map), value, to)?, "before it stores"),
            _ => return Err(Some("neither is pointwise")),
        };
        self.put(fused, from, to, rules)?;
        Ok(how)
    }

    /// Whether a node may do its work in the place of a later one.
    fn may_move(&self, node: &Node, from: NodeId, to: NodeId) -> Result<(), Apart> {
        let Some(later) = self.nodes[to].as_ref().filter(|later| later.barrier_epoch == node.barrier_epoch) else {
            return Err(Some("a barrier lies between them"));
        };
        if (node.stages.len() + later.stages.len()).max(node.parts.len() + later.parts.len()) > MAX_MERGED {
            return Err(Some("together they are too many for one launch"));
        }
        let between = |id: &NodeId| from < *id && *id < to;
        if node.writes.iter().any(|value| self.values[*value].readers.iter().any(between)) {
            return Err(Some("another stage between them reads it"));
        }
        if node.reads.iter().any(|value| self.gone_from(*value).is_some_and(|gone| between(&gone))) {
            return Err(Some("what the first reads is overwritten between them"));
        }
        Ok(())
    }

    /// Puts a fused node in the place of the later of two, if the device can run it.
    fn put(&mut self, fused: Node, from: NodeId, to: NodeId, rules: &Rules) -> Result<(), Apart> {
        if fused.reads.len() + fused.writes.len() > rules.facts.max_bindings {
            return Err(Some("together they bind more buffers than the device does"));
        }
        if !fused.task.fits(rules.facts) {
            return Err(Some("the device has no kernel for both"));
        }
        for write in &fused.writes {
            let initial = self.values[*write].home.and_then(|home| self.initial(home));
            if let Some(initial) = initial.filter(|initial| fused.reads.contains(initial))
                && !works_in_place(self, &fused, initial, *write)
            {
                return Err(Some("it would overwrite what it still reads"));
            }
        }
        self.remove(from);
        self.remove(to);
        self.insert(to, fused);
        Ok(())
    }

    /// Whether anybody but `by` needs a value.
    fn is_needed(&self, value: ValueId, by: NodeId) -> bool {
        let value = &self.values[value];
        value.home.is_some() || value.readers.iter().any(|reader| *reader != by)
    }

    /// Whether a program reads a value for what it is: all of it, in its own type.
    fn reads_plainly(&self, map: &Map, slot: usize, value: ValueId) -> bool {
        let (input, ty) = (map.program.inputs()[slot], &self.values[value].ty);
        input.dtype == ty.dtype && map.lens[slot] == ty.shape.len()
    }

    /// Two programs as one.
    fn fuse_maps(
        &self,
        (producer, first): (&Node, &Map),
        (consumer, second): (&Node, &Map),
        value: ValueId,
        to: NodeId,
    ) -> Result<Node, Apart> {
        // It may read several of the producer's results.
        let fed = |slot: usize| producer.writes.iter().position(|write| *write == consumer.reads[slot]);
        let slots: Vec<usize> = (0..consumer.reads.len()).filter(|slot| fed(*slot).is_some()).collect();
        let plain =
            |slot: &usize| self.reads_plainly(second, *slot, consumer.reads[*slot]) && !second.program.gathers(*slot);
        if !slots.iter().all(plain) {
            return Err(Some("it is read at other places than its own"));
        }
        let all_plain =
            |(slot, read): (usize, &ValueId)| first.program.gathers(slot) || self.reads_plainly(first, slot, *read);
        let elements = self.values[value].ty.shape.len();
        let whole = |(output, write): (usize, &ValueId)| {
            let ty = &self.values[*write].ty;
            first.program.outputs()[output] == ty.dtype && first.shape.len() == ty.shape.len()
        };
        if !producer.writes.iter().enumerate().all(whole) || !producer.reads.iter().enumerate().all(all_plain) {
            return Err(Some("it is read as another type"));
        }
        let views: Vec<InputSlot> = slots.iter().map(|slot| second.program.inputs()[*slot]).collect();
        let single = views.iter().any(|view| view.broadcast);
        if single {
            let small = !first.program.uses_position() && first.program.pixel().is_none() && elements == 1;
            let same = views.iter().all(|view| view.broadcast);
            if !(small && same && !first.program.reads_neighbours()) || self.is_needed(value, to) {
                return Err(Some("one element of it counts everywhere"));
            }
        }
        let space = Space::of(first, second, &views, single)?;
        let mut inputs = Inputs::default();
        let own_feeds = inputs.feeds(producer, first, space.first, single)?;
        let mut feeds = Vec::new();
        for (slot, read) in consumer.reads.iter().enumerate() {
            feeds.push(match fed(slot) {
                Some(output) => Feed::Part(0, output),
                None => inputs.feed(*read, second, slot, space.second, false)?,
            });
        }
        let parts = [
            Part { program: &first.program, feeds: own_feeds, shape: &first.shape, channels: space.first },
            Part { program: &second.program, feeds, shape: &second.shape, channels: space.second },
        ];
        let mut outputs: Vec<(usize, usize)> = (0..consumer.writes.len()).map(|output| (1, output)).collect();
        let mut writes = consumer.writes.clone();
        for (output, write) in producer.writes.iter().enumerate().filter(|(_, write)| self.is_needed(**write, to)) {
            if space.first != space.second || single {
                return Err(Some("it is needed elsewhere as well, with other channels"));
            }
            outputs.push((0, output));
            writes.push(*write);
        }
        let shape = shape_of(first, second, &space)?;
        self.composed(inputs, space.pixel, &parts, &outputs, shape, (producer, consumer), writes)
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of a node")]
    fn composed(
        &self,
        inputs: Inputs,
        pixel: Option<usize>,
        parts: &[Part],
        outputs: &[(usize, usize)],
        shape: Shape,
        (first, second): (&Node, &Node),
        writes: Vec<ValueId>,
    ) -> Result<Node, Apart> {
        let Inputs { slots, values, lens } = inputs;
        let program = Program::compose(slots, pixel, parts, outputs).ok_or(Some("their positions differ"))?;
        if program.ops().len() > MAX_OPS {
            return Err(Some("together they are too long to compile"));
        }
        let task = Task::Map(Map { program, shape, lens });
        Ok(together(first, second, task, values, writes))
    }

    /// Joins a program with an earlier one that reads the same: one pass over the input for both.
    fn join_siblings(&mut self, id: NodeId, rules: &Rules) -> bool {
        let Some(node) = &self.nodes[id] else { return false };
        let Task::Map(_) = &node.task else { return false };
        let mut candidates: Vec<NodeId> = Vec::new();
        for read in &node.reads {
            let readers = &self.values[*read].readers;
            let before = readers.partition_point(|reader| *reader < id);
            for reader in readers[..before].iter().rev().take(MAX_SIBLINGS) {
                // A single element that counts everywhere is no pass over memory.
                if self.values[*read].ty.shape.len() > 1 && !candidates.contains(reader) {
                    candidates.push(*reader);
                }
            }
        }
        candidates.into_iter().any(|sibling| {
            let (from, to) = (self.last_stage(sibling), self.last_stage(id));
            let joined = self.join(sibling, id, rules).is_ok();
            if joined && from != to {
                self.verdicts.push(Verdict::Fused { from, to, how: "one pass over their input" });
            }
            joined
        })
    }

    fn last_stage(&self, id: NodeId) -> usize {
        self.nodes[id].as_ref().and_then(|node| node.stages.last().copied()).unwrap_or(0)
    }

    fn join(&mut self, from: NodeId, to: NodeId, rules: &Rules) -> Result<(), Apart> {
        let (Some(first), Some(second)) = (&self.nodes[from], &self.nodes[to]) else { return Err(None) };
        let (Task::Map(one), Task::Map(two)) = (&first.task, &second.task) else { return Err(None) };
        self.may_move(first, from, to)?;
        if first.writes.iter().any(|write| second.reads.contains(write)) {
            return Err(None);
        }
        let channels = one.program.pixel().unwrap_or(1);
        let same = one.program.pixel() == two.program.pixel() && one.shape.len() == two.shape.len();
        let plain = |node: &Node, map: &Map| {
            node.reads
                .iter()
                .enumerate()
                .all(|(slot, read)| map.program.gathers(slot) || self.reads_plainly(map, slot, *read))
        };
        if !same || !plain(first, one) || !plain(second, two) {
            return Err(None);
        }
        let space = Space { pixel: one.program.pixel(), first: channels, second: channels };
        let mut inputs = Inputs::default();
        let feeds = [inputs.feeds(first, one, channels, false)?, inputs.feeds(second, two, channels, false)?];
        let [own, others] = feeds;
        let parts = [
            Part { program: &one.program, feeds: own, shape: &one.shape, channels },
            Part { program: &two.program, feeds: others, shape: &two.shape, channels },
        ];
        let outputs: Vec<(usize, usize)> = (0..second.writes.len())
            .map(|output| (1, output))
            .chain((0..first.writes.len()).map(|output| (0, output)))
            .collect();
        let writes = second.writes.iter().chain(&first.writes).copied().collect();
        let shape = shape_of(one, two, &space)?;
        let fused = self.composed(inputs, space.pixel, &parts, &outputs, shape, (first, second), writes)?;
        self.put(fused, from, to, rules)
    }

    /// Whether a program can run at the edge of another kernel: it looks at nothing but its own element, `but` for some reads that
    /// are seen to.
    fn fits_an_edge(&self, node: &Node, map: &Map, but: &[usize]) -> Result<(), Apart> {
        let program = &map.program;
        if program.pixel().is_some() || program.reads_neighbours() || program.uses_position() {
            return Err(Some("it looks at more than its own element"));
        }
        if program.outputs().len() != 1 {
            return Err(Some("it has several results"));
        }
        let elements = map.shape.len();
        let fits = |(slot, read): (usize, &ValueId)| {
            let len = self.values[*read].ty.shape.len();
            let everywhere = program.inputs()[slot].broadcast || but.contains(&slot);
            self.reads_plainly(map, slot, *read) && (everywhere || len == elements)
        };
        match node.reads.iter().enumerate().all(fits) {
            true => Ok(()),
            false => Err(Some("it is read as another type")),
        }
    }

    /// A program as part of what another kernel does to elements as it loads them.
    fn prologue(
        &self,
        (producer, map): (&Node, &Map),
        consumer: &Node,
        value: ValueId,
        to: NodeId,
    ) -> Result<Node, Apart> {
        self.fits_an_edge(producer, map, &[])?;
        if self.is_needed(value, to) {
            return Err(Some("it is needed elsewhere as well"));
        }
        let first_read =
            consumer.task.kind().first_fragment_read().ok_or(Some("that kernel loads elements as they are"))?;
        let fixed = consumer.reads.iter().take(first_read).any(|read| *read == value);
        let times = consumer.task.kind().loads() as u64;
        if fixed
            || map.program.outputs()[0] != self.values[value].ty.dtype
            || map.shape.len() != self.values[value].ty.shape.len()
        {
            return Err(Some("that kernel loads elements as they are"));
        }
        if map.program.weight().saturating_mul(times) > MAX_REPEATED {
            return Err(Some("it would be computed again for every neighbour"));
        }
        let mut edge = Edge::without(consumer, value, first_read);
        let mut task = consumer.task.clone();
        let mut failed = None;
        for fragment in task.kind_mut().fragments_mut() {
            match edge.feed(fragment, (producer, map), value, consumer) {
                Ok(fused) => *fragment = fused,
                Err(why) => failed = Some(why),
            }
        }
        match failed {
            Some(why) => Err(why),
            None => Ok(together(producer, consumer, task, edge.reads, consumer.writes.clone())),
        }
    }

    /// A program as part of what another kernel does to results before it stores them.
    fn epilogue(
        &self,
        producer: &Node,
        (consumer, map): (&Node, &Map),
        value: ValueId,
        to: NodeId,
    ) -> Result<Node, Apart> {
        if self.is_needed(value, to) {
            return Err(Some("it is needed elsewhere as well"));
        }
        if producer.writes.first() != Some(&value) {
            return Err(None);
        }
        let mut task = producer.task.clone();
        let writes = consumer.writes.iter().chain(&producer.writes[1..]).copied().collect();
        if let Some((channels, pixels)) = task.kind_mut().pixel_fragment()
            && (pixels.is_some() || map.program.pixel().is_some())
        {
            *pixels = Some(self.pixel_epilogue(channels, pixels.as_ref(), (consumer, map), value)?);
            return Ok(together(producer, consumer, task, producer.reads.clone(), writes));
        }
        let slots = slots_of(consumer, value);
        let broadcast = |slot: &usize| map.program.inputs()[*slot].broadcast;
        if slots.iter().any(broadcast) || map.shape.len() != self.values[value].ty.shape.len() {
            return Err(Some("one element of it counts everywhere"));
        }
        // What is repeated along the last axis is read by the place there.
        let columns = task.kind().columns();
        let repeated = |slot: &usize| {
            let len = self.values[consumer.reads[*slot]].ty.shape.len();
            columns == Some(len) && map.program.period(*slot) == columns
        };
        let by_column: Vec<usize> = (0..consumer.reads.len()).filter(repeated).collect();
        let plain = Map { program: map.program.read_plainly(&by_column), ..map.clone() };
        let map = &plain;
        self.fits_an_edge(consumer, map, &by_column)?;
        let (store, reads_more) =
            task.kind_mut().store_fragment().ok_or(Some("that kernel stores elements as they are"))?;
        let mut inputs: Vec<InputSlot> = store.program.inputs().to_vec();
        let mut sources = store.sources.clone();
        let mut reads = producer.reads.clone();
        let own: Vec<Feed> = (0..inputs.len()).map(Feed::Input).collect();
        let mut feeds = Vec::new();
        for (slot, read) in consumer.reads.iter().enumerate() {
            if *read == value {
                feeds.push(Feed::Part(0, 0));
                continue;
            }
            if reads_more == ReadsMore::No {
                return Err(Some("that kernel loads nothing when it stores"));
            }
            let input = map.program.inputs()[slot];
            let column = by_column.contains(&slot);
            let known = sources.iter().zip(&inputs).position(|(source, own)| {
                *own == input
                    && match source {
                        Source::Own(number) => !column && reads[*number] == *read,
                        Source::Column(number) => column && reads[*number] == *read,
                        Source::Value(_) => false,
                    }
            });
            feeds.push(Feed::Input(known.unwrap_or_else(|| {
                // A value that the kernel loads in another way is bound once more.
                reads.push(*read);
                inputs.push(input);
                let number = reads.len() - 1;
                sources.push(if column { Source::Column(number) } else { Source::Own(number) });
                inputs.len() - 1
            })));
        }
        let shape = Shape::from([2]);
        let parts = [
            Part { program: &store.program, feeds: own, shape: &shape, channels: 1 },
            Part { program: &map.program, feeds, shape: &shape, channels: 1 },
        ];
        let program = Program::compose(inputs, None, &parts, &[(1, 0)]).ok_or(Some("their positions differ"))?;
        if program.ops().len() > MAX_OPS {
            return Err(Some("together they are too long to compile"));
        }
        *store = Fragment { program, sources };
        Ok(together(producer, consumer, task, reads, writes))
    }
}

impl Graph {
    /// A program over pixels, or over what is made of pixels, as part of what a filter does before it stores.
    fn pixel_epilogue(
        &self,
        channels: usize,
        own: Option<&Fragment>,
        (consumer, map): (&Node, &Map),
        value: ValueId,
    ) -> Result<Fragment, Apart> {
        let (program, ty) = (&map.program, &self.values[value].ty);
        if !matches!(ty.dtype, DType::U8 | DType::F32) {
            return Err(Some("pixels are bytes or floats"));
        }
        // Which channel it is, a program over pixels knows for each of them.
        let is_channel = |axis: usize| program.pixel().is_some() && axis == 2 && map.shape.rank() == 3;
        let is_placed = program.ops().iter().any(|op| match op {
            Op::Coord(axis) => !is_channel(*axis),
            Op::Index | Op::Dim(_) => true,
            _ => false,
        });
        if is_placed || consumer.reads.iter().any(|read| *read != value) {
            return Err(Some("it looks at more than its own pixel"));
        }
        if program.outputs().len() != 1 || program.inputs().iter().any(|input| input.broadcast) {
            return Err(Some("it has several results"));
        }
        if !(0..consumer.reads.len()).all(|slot| self.reads_plainly(map, slot, value) && !program.gathers(slot)) {
            return Err(Some("it is read at other places than its own"));
        }
        let Some(own) = own else {
            if !program.inputs().iter().all(|input| input.channels == channels) {
                return Err(Some("its pixels have another number of channels"));
            }
            // One input, however often the program reads it.
            let input = InputSlot { channels, ..InputSlot::elements(ty.dtype) };
            let feeds = vec![Feed::Input(0); consumer.reads.len()];
            let part = Part { program, feeds, shape: &map.shape, channels: program.pixel().unwrap_or(1) };
            let program = Program::compose(vec![input], program.pixel(), &[part], &[(0, 0)]);
            let program = program.ok_or(Some("their positions differ"))?;
            if program.ops().len() > MAX_OPS {
                return Err(Some("together they are too long to compile"));
            }
            return Ok(Fragment { program, sources: vec![Source::Value(0)] });
        };
        if program.pixel().is_some() || map.shape.len() != ty.shape.len() {
            return Err(Some("its pixels have another number of channels"));
        }
        let pixel = own.program.pixel();
        let channels = pixel.unwrap_or(1);
        let parts = [
            Part { program: &own.program, feeds: vec![Feed::Input(0)], shape: &map.shape, channels },
            Part { program, feeds: vec![Feed::Part(0, 0); consumer.reads.len()], shape: &map.shape, channels },
        ];
        let program = Program::compose(own.program.inputs().to_vec(), pixel, &parts, &[(1, 0)]);
        let program = program.ok_or(Some("their positions differ"))?;
        match program.ops().len() > MAX_OPS {
            true => Err(Some("together they are too long to compile")),
            false => Ok(Fragment { program, sources: own.sources.clone() }),
        }
    }
}

/// How the elements of two programs lie in the pixels of one.
struct Space {
    pixel: Option<usize>,
    /// Elements of the first one's pixels.
    first: usize,
    /// Elements of the second one's pixels.
    second: usize,
}

impl Space {
    fn of(first: &Map, second: &Map, views: &[InputSlot], single: bool) -> Result<Space, Apart> {
        let (one, two) = (first.program.pixel(), second.program.pixel());
        if single {
            return Ok(Space { pixel: two, first: 1, second: two.unwrap_or(1) });
        }
        let seen = views.first().map_or(1, |view| view.channels);
        let space = match (one, two) {
            (None, None) => Space { pixel: None, first: 1, second: 1 },
            (None, Some(second)) => Space { pixel: Some(second), first: seen, second },
            (Some(first), None) => Space { pixel: Some(first), first, second: first },
            (Some(first), Some(second)) if first == seen => Space { pixel: Some(second), first, second },
            _ => return Err(Some("their pixels differ")),
        };
        match first.shape.len() * space.second == second.shape.len() * space.first {
            true => Ok(space),
            false => Err(Some("their sizes differ")),
        }
    }
}

/// The inputs of a program that is being made.
#[derive(Default)]
struct Inputs {
    slots: Vec<InputSlot>,
    values: Vec<ValueId>,
    lens: Vec<usize>,
}

impl Inputs {
    fn feeds(&mut self, node: &Node, map: &Map, channels: usize, single: bool) -> Result<Vec<Feed>, Apart> {
        let reads = node.reads.iter().enumerate();
        reads.map(|(slot, read)| self.feed(*read, map, slot, channels, single)).collect()
    }

    /// The input that a program's `slot` becomes, where the program runs over pixels of `channels` elements.
    fn feed(&mut self, read: ValueId, map: &Map, slot: usize, channels: usize, single: bool) -> Result<Feed, Apart> {
        let mut input = map.program.inputs()[slot];
        input.broadcast |= single;
        let own = |op: &Op| matches!(op, Op::Input { slot: own } if *own == slot);
        // What is only gathered from has no pixels.
        if map.program.pixel().is_none() && !input.broadcast && map.program.ops().iter().any(own) {
            input.channels = channels;
        }
        match self.values.iter().position(|value| *value == read) {
            Some(own) if self.slots[own] == input => Ok(Feed::Input(own)),
            Some(_) => Err(Some("both read a buffer, in different ways")),
            None => {
                self.slots.push(input);
                self.values.push(read);
                self.lens.push(map.lens[slot]);
                Ok(Feed::Input(self.slots.len() - 1))
            }
        }
    }
}

/// The shape that a program of both runs over.
fn shape_of(first: &Map, second: &Map, space: &Space) -> Result<Shape, Apart> {
    // Positions are counted in pixels where there are any: then the channels must be an axis of their own.
    let has_pixels = |map: &Map, channels: usize| match map.shape.dims() {
        [_, _] => channels == 1,
        [_, _, .., last] => *last == channels,
        _ => false,
    };
    let counts = |map: &Map| map.program.rank_used() > 0;
    if space.pixel.is_some()
        && ((counts(first) && !has_pixels(first, space.first)) || (counts(second) && !has_pixels(second, space.second)))
    {
        return Err(Some("both use positions, in different shapes"));
    }
    let channel = |axis: usize| axis >= 2 && axis + 1 == first.shape.rank();
    let uses = |op: &Op| match op {
        // Asked for one channel, a program need not know where it is.
        Op::Coord(axis) if channel(*axis) => space.first == space.second,
        Op::Coord(_) | Op::Dim(_) => true,
        Op::Index => space.first != space.second,
        _ => false,
    };
    if first.shape == second.shape || !first.program.ops().iter().any(uses) {
        return Ok(second.shape.clone());
    }
    match second.program.uses_position() || space.first != space.second {
        true => Err(Some("both use positions, in different shapes")),
        false => Ok(first.shape.clone()),
    }
}

/// The reads of a kernel while one of its inputs is replaced.
struct Edge {
    reads: Vec<ValueId>,
    /// Where each read of before is now.
    moved: Vec<Option<usize>>,
    /// The reads from here on belong to fragments.
    first: usize,
    /// How each read is used by fragments that were added.
    uses: Vec<(usize, InputSlot)>,
}

impl Edge {
    fn without(consumer: &Node, value: ValueId, first: usize) -> Edge {
        let mut reads = Vec::new();
        let moved = consumer
            .reads
            .iter()
            .map(|read| {
                (*read != value).then(|| {
                    reads.push(*read);
                    reads.len() - 1
                })
            })
            .collect();
        Edge { reads, moved, first, uses: Vec::new() }
    }

    /// A fragment that computes what it loaded before.
    fn feed(
        &mut self,
        fragment: &Fragment,
        (producer, map): (&Node, &Map),
        value: ValueId,
        consumer: &Node,
    ) -> Result<Fragment, Apart> {
        let (mut inputs, mut sources, mut feeds) = (Vec::new(), Vec::new(), Vec::new());
        let mut used = false;
        for (source, input) in fragment.sources.iter().zip(fragment.program.inputs()) {
            let source = match *source {
                Source::Value(number) => Source::Value(number),
                Source::Own(read) if consumer.reads[read] == value => {
                    if input.broadcast {
                        return Err(Some("one element of it counts everywhere"));
                    }
                    if input.dtype != map.program.outputs()[0] {
                        return Err(Some("it is read as another type"));
                    }
                    feeds.push(Feed::Part(0, 0));
                    used = true;
                    continue;
                }
                Source::Own(read) => Source::Own(self.moved[read].ok_or(None)?),
                Source::Column(read) => match self.moved[read] {
                    Some(read) => Source::Column(read),
                    None => return Err(Some("it is read along one axis")),
                },
            };
            inputs.push(*input);
            sources.push(source);
            feeds.push(Feed::Input(inputs.len() - 1));
        }
        let mut own = Vec::new();
        if used {
            for (slot, read) in producer.reads.iter().enumerate() {
                let input = map.program.inputs()[slot];
                let source = Source::Own(self.read(*read, input));
                let known =
                    sources.iter().zip(&inputs).position(|(own, as_input)| *own == source && *as_input == input);
                own.push(Feed::Input(known.unwrap_or_else(|| {
                    inputs.push(input);
                    sources.push(source);
                    inputs.len() - 1
                })));
            }
        }
        let shape = Shape::from([2]);
        if !used {
            return Ok(Fragment { program: fragment.program.clone(), sources });
        }
        let parts = [
            Part { program: &map.program, feeds: own, shape: &shape, channels: 1 },
            Part { program: &fragment.program, feeds, shape: &shape, channels: 1 },
        ];
        let program = Program::compose(inputs, None, &parts, &[(1, 0)]).ok_or(Some("their positions differ"))?;
        match program.ops().len() > MAX_OPS {
            true => Err(Some("together they are too long to compile")),
            false => Ok(Fragment { program, sources }),
        }
    }

    /// The number of a read that fragments which were added use in one way.
    fn read(&mut self, value: ValueId, input: InputSlot) -> usize {
        let known = self.uses.iter().find(|(read, own)| self.reads[*read] == value && *own == input);
        if let Some((read, _)) = known {
            return *read;
        }
        self.reads.push(value);
        let read = self.reads.len() - 1;
        debug_assert!(read >= self.first, "fragments read after the kernel's own reads");
        self.uses.push((read, input));
        read
    }
}

fn slots_of(node: &Node, value: ValueId) -> Vec<usize> {
    (0..node.reads.len()).filter(|slot| node.reads[*slot] == value).collect()
}

/// A node that does the work of two, in the place of the second.
fn together(first: &Node, second: &Node, task: Task, reads: Vec<ValueId>, writes: Vec<ValueId>) -> Node {
    Node {
        task,
        reads,
        writes,
        stages: merged(first, second),
        barrier_epoch: second.barrier_epoch,
        parts: joined_parts(first, second),
    }
}

/// The stages of two nodes, in order.
fn merged(first: &Node, second: &Node) -> Vec<usize> {
    let mut stages: Vec<usize> = first.stages.iter().chain(&second.stages).copied().collect();
    stages.sort_unstable();
    stages.dedup();
    stages
}

/// The parts of two nodes, in order.
fn joined_parts(first: &Node, second: &Node) -> Vec<Arc<str>> {
    let mut parts = first.parts.clone();
    parts.extend(second.parts.iter().filter(|part| !first.parts.contains(part)).cloned());
    parts
}
