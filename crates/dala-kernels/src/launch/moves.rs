//! The launcher of moves: words in another order, row by row. Rows that stay rows move in vectors.

use cubecl::client::Client;
use cubecl::prelude::*;
use dala_spec::DeviceFacts;
use dala_spec::work::Move;

use super::{Bound, Geometry, LaunchRefused, dividing_width};
use crate::device::fragment::{CompileCount, count_compilation};

/// Bytes of a word.
const WORD: usize = 4;

/// How many words are written at a time, and how many are read.
fn widths(task: &Move, facts: &DeviceFacts) -> (usize, usize) {
    let most = if facts.cpu { 16 } else { 4 };
    let common = |sizes: &[usize]| sizes.iter().fold(most, |width, size| dividing_width(*size, width));
    let written = common(&[task.columns, task.to, task.row_stride]);
    if task.column_stride != 1 {
        return (written, 1);
    }
    let strides = task.strides.map(|stride| stride.unsigned_abs() as usize);
    let both = common(&[written, task.from, strides[0], strides[1], strides[2]]);
    (both, both)
}

/// How many vectors of a row one unit moves.
fn chunk(vectors: usize, facts: &DeviceFacts) -> usize {
    if facts.cpu { vectors.max(1) } else { vectors.clamp(1, 8) }
}

/// Width, vectors of a row, and pieces that a row is cut into.
fn sizes(task: &Move, facts: &DeviceFacts) -> (usize, usize, usize) {
    let (width, _) = widths(task, facts);
    let vectors = task.columns / width;
    (width, vectors, vectors.div_ceil(chunk(vectors, facts)))
}

pub(super) fn geometry(task: &Move, facts: &DeviceFacts) -> Geometry {
    let (width, _, pieces) = sizes(task, facts);
    Geometry::spread(task.rows() * pieces, width, facts)
}

pub(super) fn launch(
    client: &Client,
    compiled: &CompileCount,
    task: &Move,
    geometry: Geometry,
    bound: &Bound,
) -> Result<(), LaunchRefused> {
    if !task.is_inside() {
        return Err(LaunchRefused("words are moved from or to outside".to_owned()));
    }
    let facts = bound.launch.facts;
    let ((written, read), (width, vectors, pieces)) = (widths(task, facts), sizes(task, facts));
    let items = task.rows() * pieces;
    geometry.check(items)?;
    let from = bound.slice(0, WORD * read, task.sizes.0 / read)?;
    let to = bound.slice_mut(0, WORD * written, task.sizes.1 / written)?;
    // Distances in units of what is read: negative ones wrap around, and back when they are added.
    let distance = |words: i64| (words / read as i64) as i32 as u32;
    let [a, b, c] = task.strides.map(distance);
    let [_, size_b, size_c] = task.axes.map(|size| size as u32);
    let (cubes, dim) = (geometry.count(), CubeDim::new_1d(geometry.units));
    let (start, column) = (distance(task.from as i64), distance(task.column_stride));
    let (to_start, row_stride) = ((task.to / width) as u32, (task.row_stride / width) as u32);
    let (vectors, chunk, pieces) = (vectors as u32, chunk(vectors, facts) as u32, pieces as u32);
    let (items, steps, count) = (items as u32, geometry.steps, compiled.clone());
    // SAFETY: every word is found and goes inside, as was just checked, and the buffers hold as many as the task says.
    unsafe {
        match task.column_stride {
            1 => move_vectors::launch_unchecked(
                client, cubes, dim, width, from, to, size_b, size_c, a, b, c, start, to_start, row_stride, vectors,
                chunk, pieces, items, steps, count,
            ),
            _ => move_words::launch_unchecked(
                client,
                cubes,
                dim,
                width,
                from,
                to,
                size_b,
                size_c,
                a,
                b,
                c,
                column,
                start,
                to_start,
                row_stride,
                vectors,
                chunk,
                pieces,
                items,
                steps,
                width as u32,
                count,
            ),
        }
    }
    Ok(())
}

/// Where a row is found.
#[cube]
fn row_start(row: u32, size_b: u32, size_c: u32, a: u32, b: u32, c: u32, start: u32) -> u32 {
    let at_c = row % size_c;
    let at_b = (row / size_c) % size_b;
    let at_a = row / size_c / size_b;
    start + at_a * a + at_b * b + at_c * c
}

#[cube(launch_unchecked)]
#[expect(clippy::too_many_arguments, reason = "the arguments of a kernel")]
fn move_vectors<N: Size>(
    from: &[Vector<u32, N>],
    to: &mut [Vector<u32, N>],
    size_b: u32,
    size_c: u32,
    a: u32,
    b: u32,
    c: u32,
    start: u32,
    to_start: u32,
    row_stride: u32,
    vectors: u32,
    chunk: u32,
    pieces: u32,
    items: u32,
    steps: u32,
    #[comptime] compiled: CompileCount,
) {
    count_compilation(compiled);
    let first = ABSOLUTE_POS as u32 * steps;
    let end = min(first + steps, items);
    for item in first..end {
        let row = item / pieces;
        let begin = (item % pieces) * chunk;
        let stop = min(begin + chunk, vectors);
        let read = row_start(row, size_b, size_c, a, b, c, start) as usize;
        let write = (to_start + row * row_stride) as usize;
        #[expect(clippy::manual_memcpy, reason = "device code has no such call")]
        for vector in begin as usize..stop as usize {
            to[write + vector] = from[read + vector];
        }
    }
}

#[cube(launch_unchecked)]
#[expect(clippy::too_many_arguments, reason = "the arguments of a kernel")]
fn move_words<N: Size>(
    from: &[u32],
    to: &mut [Vector<u32, N>],
    size_b: u32,
    size_c: u32,
    a: u32,
    b: u32,
    c: u32,
    column: u32,
    start: u32,
    to_start: u32,
    row_stride: u32,
    vectors: u32,
    chunk: u32,
    pieces: u32,
    items: u32,
    steps: u32,
    #[comptime] width: u32,
    #[comptime] compiled: CompileCount,
) {
    count_compilation(compiled);
    let first = ABSOLUTE_POS as u32 * steps;
    let end = min(first + steps, items);
    for item in first..end {
        let row = item / pieces;
        let begin = (item % pieces) * chunk;
        let stop = min(begin + chunk, vectors);
        let mut read = row_start(row, size_b, size_c, a, b, c, start) + begin * width * column;
        let write = (to_start + row * row_stride) as usize;
        for vector in begin as usize..stop as usize {
            let mut words = Vector::<u32, N>::new(0u32);
            #[unroll]
            for lane in 0..width {
                words.insert(comptime!(lane as usize), from[read as usize]);
                read += column;
            }
            to[write + vector] = words;
        }
    }
}
