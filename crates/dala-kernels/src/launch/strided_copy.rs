//! The launcher of moves: words in another order, row by row. Rows that stay rows move in vectors; where these begin at any
//! element, the last one of a row may overlap the one before and write the same.
//!
//! Where columns become rows, a CPU moves a piece of every row before the next pieces: what lies side by side in the input is then
//! read while it is in the cache.

use cubecl::ir::UIntKind;
use cubecl::prelude::*;
use dala_plan::DeviceFacts;
use dala_plan::work::StridedCopy;
use dala_plan::work::width::{dividing_width, fitting_width};

use super::{Bound, Geometry, LaunchRefused, Launcher, check_elements};
use crate::device::args::Buffers;
use crate::device::emit::Layout;
use crate::device::fragment::{CompileCount, count_compilation, load, store};

/// Rows of at most so many vectors are moved without a loop.
const FEW: usize = 2;

/// How many words are written at a time.
fn width(task: &StridedCopy, facts: &DeviceFacts) -> usize {
    if facts.cpu {
        // Words that are found one by one take as long in narrow vectors, less of which is moved twice.
        return fitting_width(task.columns, if task.column_stride == 1 { 64 / task.word } else { 16 });
    }
    let common = |width: usize, sizes: &[usize]| sizes.iter().fold(width, |width, size| dividing_width(*size, width));
    let written = common(4, &[task.columns, task.to, task.row_stride]);
    if task.column_stride != 1 {
        return written;
    }
    let [a, b, c] = task.strides.map(|stride| stride.unsigned_abs() as usize);
    common(written, &[task.from, a, b, c])
}

/// Whether pieces are moved before rows.
fn across(task: &StridedCopy, facts: &DeviceFacts) -> bool {
    facts.cpu && task.column_stride != 1
}

/// How many vectors of a row one unit moves.
fn chunk(task: &StridedCopy, vectors: usize, facts: &DeviceFacts) -> usize {
    match (facts.cpu, across(task, facts)) {
        (true, false) => vectors.max(1),
        (true, true) => vectors.clamp(1, 4),
        (false, _) => vectors.clamp(1, 8),
    }
}

/// Width, vectors of a row, and pieces that a row is cut into.
fn sizes(task: &StridedCopy, facts: &DeviceFacts) -> (usize, usize, usize) {
    let width = width(task, facts);
    let vectors = task.columns.div_ceil(width);
    (width, vectors, vectors.div_ceil(chunk(task, vectors, facts)))
}

impl Launcher for StridedCopy {
    fn geometry(&self, facts: &DeviceFacts) -> Geometry {
        let (width, _, pieces) = sizes(self, facts);
        Geometry::spread(self.rows() * pieces, width, facts)
    }

    fn launch(&self, bound: &Bound) -> Result<(), LaunchRefused> {
        let geometry = bound.launch.geometry;
        if !self.is_inside() {
            return Err(LaunchRefused("words are moved from or to outside".to_owned()));
        }
        check_elements(self.sizes.0.max(self.sizes.1))?;
        let facts = bound.launch.facts;
        let (width, vectors, pieces) = sizes(self, facts);
        let items = self.rows() * pieces;
        geometry.check(items)?;
        let elem = match self.word {
            1 => UIntKind::U8.into(),
            2 => UIntKind::U16.into(),
            _ => UIntKind::U32.into(),
        };
        let layout = bound.layout_of_lines(width);
        let reads = if self.column_stride == 1 { layout } else { Layout { width: 1, ..layout } };
        let from = vec![bound.read(0, elem, reads.unit(), reads.positions(self.sizes.0))?];
        let to = vec![bound.output(0, elem, layout.unit(), layout.positions(self.sizes.1))?];
        // Negative distances wrap around, and back when they are added.
        let [a, b, c] = self.strides.map(|words| words as i32 as u32);
        let [_, size_b, size_c] = self.axes.map(|size| size as u32);
        let (cubes, dim, chunk) =
            (geometry.count(), CubeDim::new_1d(geometry.units), chunk(self, vectors, facts) as u32);
        macro_rules! launch_with {
            ($type:ty) => {
                // SAFETY: every word is found and goes inside, as was just checked, and the buffers hold as many as the task says.
                unsafe {
                    move_rows::launch_unchecked::<$type>(
                        bound.client,
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
                        self.column_stride as i32 as u32,
                        self.from as u32,
                        self.to as u32,
                        self.row_stride as u32,
                        self.columns as u32,
                        vectors as u32,
                        chunk,
                        pieces as u32,
                        self.rows() as u32,
                        geometry.steps,
                        self.column_stride == 1,
                        across(self, facts),
                        (pieces == 1 && vectors <= FEW).then_some(vectors as u32),
                        layout,
                        bound.compiled.clone(),
                    )
                }
            };
        }
        match self.word {
            1 => launch_with!(u8),
            2 => launch_with!(u16),
            _ => launch_with!(u32),
        }
        Ok(())
    }
}

/// Moves a vector of a row that is found at `read` and goes to `write`.
#[cube]
#[expect(clippy::too_many_arguments, reason = "one step of a kernel")]
fn move_vector<E: Numeric, N: Size>(
    from: &Buffers,
    to: &mut Buffers,
    read: u32,
    write: u32,
    vector: u32,
    column: u32,
    columns: u32,
    #[comptime] along: bool,
    #[comptime] layout: Layout,
) {
    let (width, unit) = comptime!((layout.width as u32, layout.unit() as u32));
    let mut at = vector * width;
    if comptime!(layout.free) {
        at = min(at, columns - width);
    }
    let mut words = Vector::<E, N>::new(E::from_int(0));
    if comptime!(along) {
        words = load::<Vector<E, N>>(from, ((read + at) / unit) as usize, layout);
    } else {
        #[unroll]
        for lane in 0..width {
            let word =
                load::<E>(from, (read + (at + lane) * column) as usize, comptime!(Layout { width: 1, ..layout }));
            words.insert(comptime!(lane as usize), word);
        }
    }
    store::<Vector<E, N>>(to, ((write + at) / unit) as usize, words, layout);
}

#[cube(launch_unchecked)]
#[expect(clippy::too_many_arguments, reason = "the arguments of a kernel")]
fn move_rows<E: Numeric, N: Size>(
    from: &Buffers,
    to: &mut Buffers,
    size_b: u32,
    size_c: u32,
    a: u32,
    b: u32,
    c: u32,
    column: u32,
    start: u32,
    to_start: u32,
    row_stride: u32,
    columns: u32,
    vectors: u32,
    chunk: u32,
    pieces: u32,
    rows: u32,
    steps: u32,
    #[comptime] along: bool,
    #[comptime] across: bool,
    #[comptime] few: Option<u32>,
    #[comptime] layout: Layout,
    #[comptime] compiled: CompileCount,
) {
    count_compilation(compiled);
    let first = ABSOLUTE_POS as u32 * steps;
    let end = min(first + steps, rows * pieces);
    let mut piece = first % pieces;
    let mut row = first / pieces;
    if comptime!(across) {
        piece = first / rows;
        row = first % rows;
    }
    // Where the row is along the axes: counted, because rows may be short and divisions take long.
    let mut at_c = row % size_c;
    let mut at_b = (row / size_c) % size_b;
    let mut at_a = row / size_c / size_b;
    for _ in first..end {
        let read = start + at_a * a + at_b * b + at_c * c;
        let write = to_start + row * row_stride;
        if comptime!(few.is_some()) {
            #[unroll]
            for vector in 0..comptime!(few.unwrap_or(0)) {
                move_vector::<E, N>(from, to, read, write, vector, column, columns, along, layout);
            }
        } else {
            let begin = piece * chunk;
            for vector in begin..min(begin + chunk, vectors) {
                move_vector::<E, N>(from, to, read, write, vector, column, columns, along, layout);
            }
        }
        let mut next_row = true.runtime();
        if !comptime!(across) {
            piece += 1u32;
            next_row = piece == pieces;
        }
        if next_row {
            row += 1u32;
            at_c += 1u32;
            if at_c == size_c {
                at_c = 0u32;
                at_b += 1u32;
                if at_b == size_b {
                    at_b = 0u32;
                    at_a += 1u32;
                }
            }
            if comptime!(across) {
                if row == rows {
                    row = 0u32;
                    at_a = 0u32;
                    piece += 1u32;
                }
            } else {
                piece = 0u32;
            }
        }
    }
}
