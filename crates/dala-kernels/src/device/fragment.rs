//! Programs at the edges of other kernels.

use std::cell::RefCell;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cubecl::ir::dialect::memory::StoreOp;
use cubecl::ir::pliron::value::Value;
use cubecl::ir::{self, UIntKind};
use cubecl::prelude::*;
use dala_plan::work::{Fragment, Source};
use dala_spec::Program;

use super::args::{Buffers, BuffersExpand, Scalars, ScalarsExpand, expand_type, vector_type};
use super::arithmetic::Generator;
use super::emit::{Context, InputPlace, Layout, emit, emit_value, vector_pointer};

thread_local! {
    /// Where the kernel was counted whose code was generated last.
    static GENERATED: RefCell<Option<CompileCount>> = const { RefCell::new(None) };
    /// Where kernels are counted that do not count themselves: those of others.
    static OTHERS: RefCell<Option<CompileCount>> = const { RefCell::new(None) };
}

/// Counts the kernels that were built, for each of which the code generator runs once, and those that were found instead.
#[derive(Clone, Default)]
pub struct CompileCount(Arc<Counts>);

#[derive(Default)]
struct Counts {
    built: AtomicU64,
    found: AtomicU64,
}

impl CompileCount {
    /// How many kernels were built so far.
    pub fn built(&self) -> u64 {
        self.0.built.load(Ordering::Relaxed)
    }

    /// How many were found so far, and not built.
    pub fn found(&self) -> u64 {
        self.0.found.load(Ordering::Relaxed)
    }

    /// Counts what is built from now on, on this thread, of kernels that do not count themselves.
    pub(crate) fn count_others(&self) {
        OTHERS.set(Some(self.clone()));
    }

    /// Says that a kernel was built that does not count itself.
    pub fn built_other() {
        OTHERS.with_borrow(|count| {
            if let Some(count) = count {
                count.0.built.fetch_add(1, Ordering::Relaxed);
            }
        });
    }

    /// Says that the kernel whose code was generated last on this thread was found, and not built.
    pub fn not_built() {
        if let Some(count) = GENERATED.take() {
            count.0.built.fetch_sub(1, Ordering::Relaxed);
            count.0.found.fetch_add(1, Ordering::Relaxed);
        }
    }
}

// A count is no part of what makes a kernel.
impl Hash for CompileCount {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl PartialEq for CompileCount {
    fn eq(&self, _: &CompileCount) -> bool {
        true
    }
}

impl Eq for CompileCount {}

// What is printed of a kernel is what compiled ones are found under.
impl std::fmt::Debug for CompileCount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CompileCount")
    }
}

/// Counts the kernel that is being built.
#[cube]
pub(crate) fn count_compilation(#[comptime] count: CompileCount) {
    intrinsic!(|_scope| {
        count.0.built.fetch_add(1, Ordering::Relaxed);
        GENERATED.set(Some(count));
    })
}

/// A program as a compile-time argument of a kernel: its code is the key, nothing else.
#[derive(Clone)]
pub(crate) struct Code(pub(crate) Program);

impl Hash for Code {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u128(self.0.fingerprint());
    }
}

impl PartialEq for Code {
    fn eq(&self, other: &Self) -> bool {
        self.0.same_code(&other.0)
    }
}

impl Eq for Code {}

impl std::fmt::Debug for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Part of the key under which the engine stores compiled kernels on disk.
        write!(f, "Program({:032x})", self.0.fingerprint())
    }
}

/// A fragment as a compile-time argument of a kernel.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub(crate) struct FragmentCode {
    pub(crate) code: Code,
    sources: Vec<Source>,
    /// Where its run-time values start among all of the kernel's.
    first_param: usize,
}

impl FragmentCode {
    pub(crate) fn program(&self) -> &Program {
        &self.code.0
    }

    /// Makes parts of fragments, which share one list of run-time values and one list of buffers: the step's reads from
    /// `first_read` on.
    fn maker(first_read: usize) -> impl FnMut(&Fragment) -> FragmentCode {
        let mut first_param = 0;
        move |fragment| {
            let own = first_param;
            first_param += fragment.program.params().len();
            let source = |source: &Source| match *source {
                Source::Own(read) => Source::Own(read - first_read),
                Source::Column(read) => Source::Column(read - first_read),
                value => value,
            };
            let sources = fragment.sources.iter().map(source).collect();
            FragmentCode { code: Code(fragment.program.clone()), sources, first_param: own }
        }
    }

    /// These fragments as parts of one kernel, whose reads they count from `first_read` on.
    pub(crate) fn each<const N: usize>(fragments: [&Fragment; N], first_read: usize) -> [FragmentCode; N] {
        fragments.map(FragmentCode::maker(first_read))
    }

    /// As [`each`](Part::each), of all reads, for as many as there are.
    pub(crate) fn list<'a>(fragments: impl IntoIterator<Item = &'a Fragment>) -> Vec<FragmentCode> {
        fragments.into_iter().map(FragmentCode::maker(0)).collect()
    }
}

/// Values that a kernel hands to a fragment.
pub(crate) struct Values;

/// The values inside a kernel.
#[derive(Clone)]
pub(crate) struct ValuesExpand(pub(crate) Vec<Value>);

expand_type!(Values, ValuesExpand);

impl Values {
    /// None.
    pub(crate) fn new() -> Values {
        Values
    }

    /// Adds a value.
    pub(crate) fn push<T: CubePrimitive>(&mut self, _: T) {}

    pub(crate) fn __expand_new(_: &Scope) -> ValuesExpand {
        ValuesExpand(Vec::new())
    }
}

impl ValuesExpand {
    pub(crate) fn __expand_push_method<T: CubePrimitive>(&mut self, scope: &Scope, value: NativeExpand<T>) {
        self.0.push(value.read_value(scope));
    }
}

/// Where in its buffers a fragment is.
#[expect(dead_code, reason = "read by the in-kernel form of this type")]
#[derive(CubeType, Clone, Copy)]
pub(crate) struct Whereabouts {
    /// Which vector of elements.
    pub(crate) position: usize,
    /// Which vector along the last axis.
    pub(crate) column: usize,
    /// Some count that is at least one, but known only at run time.
    pub(crate) some: u32,
}

fn with_context<R>(
    scope: &Scope,
    part: &FragmentCode,
    (reads, params, values): (&BuffersExpand, &ScalarsExpand, &ValuesExpand),
    at: &WhereaboutsExpand,
    use_context: impl FnOnce(&Context) -> R,
) -> R {
    let (position, column) = (at.position.read_value(scope), at.column.read_value(scope));
    let slot = |source: &Source| match *source {
        Source::Value(number) => InputPlace::Lanes(values.0[number]),
        Source::Own(read) => InputPlace::Buffer { buffer: reads.0[read], position },
        Source::Column(read) => InputPlace::Buffer { buffer: reads.0[read], position: column },
    };
    let inputs: Vec<InputPlace> = part.sources.iter().map(slot).collect();
    use_context(&Context {
        inputs: &inputs,
        params: &params.0[part.first_param..],
        dims: &[],
        lens: &[],
        len: at.some.read_value(scope),
        position,
    })
}

/// The value of a fragment, as `T`: lanes of its output's register type.
#[cube]
pub(crate) fn fragment_value<T: CubePrimitive>(
    reads: &Buffers,
    params: &Scalars,
    values: &Values,
    at: Whereabouts,
    #[comptime] part: FragmentCode,
    #[comptime] layout: Layout,
) -> T {
    intrinsic!(|scope| {
        let value = with_context(scope, &part, (reads, params, values), &at, |context| {
            emit_value(scope, part.program(), layout, context)
        });
        value.into()
    })
}

/// Runs a program over pixels whose elements lie side by side in a vector, and stores what it gives.
#[cube]
pub(crate) fn pixels_store<T: CubePrimitive>(
    value: T,
    outputs: &mut Buffers,
    params: &Scalars,
    at: Whereabouts,
    #[comptime] part: FragmentCode,
    #[comptime] bytes: bool,
    #[comptime] layout: Layout,
) {
    intrinsic!(|scope| {
        let channels = PixelSplit { bytes, layout }.split(scope, value.read_value(scope));
        let layout = Layout { width: layout.width / channels.len(), ..layout };
        store_pixels(scope, channels, (outputs, params), &at, &part, layout);
    })
}

/// Runs a program over pixels whose channels are apart, and stores what it gives.
fn store_pixels(
    scope: &Scope,
    channels: [Value; 4],
    (outputs, params): (&BuffersExpand, &ScalarsExpand),
    at: &WhereaboutsExpand,
    part: &FragmentCode,
    layout: Layout,
) {
    let context = Context {
        inputs: &[InputPlace::Pixels(channels)],
        params: &params.0[part.first_param..],
        dims: &[],
        lens: &[],
        len: at.some.read_value(scope),
        position: at.position.read_value(scope),
    };
    emit(scope, part.program(), layout, &context, &outputs.0);
}

/// Pixels, each in lanes of its own of which the first `channels` count, as vectors of elements that lie side by side.
#[cube]
pub(crate) fn side_by_side(pixels: &Values, #[comptime] channels: usize) -> Values {
    intrinsic!(|scope| {
        let (count, lanes) = (pixels.0.len(), channels.next_power_of_two());
        let make = Generator { scope, width: count };
        let element = |index: usize| make.extract(pixels.0[index / channels], index % channels, lanes);
        let vector = |first: usize| make.construct(&(first..first + count).map(element).collect::<Vec<_>>());
        ValuesExpand((0..channels).map(|part| vector(part * count)).collect())
    })
}

/// One of several values, and no other.
#[cube]
pub(crate) fn only(values: &Values, #[comptime] number: usize) -> Values {
    intrinsic!(|_scope| ValuesExpand(vec![values.0[number]]))
}

/// Runs a program over pixels whose elements lie side by side in as many values as they have channels, and stores what it gives.
#[cube]
pub(crate) fn pixels_store_apart(
    values: &Values,
    outputs: &mut Buffers,
    params: &Scalars,
    at: Whereabouts,
    #[comptime] part: FragmentCode,
    #[comptime] layout: Layout,
) {
    intrinsic!(|scope| {
        let channels = Generator { scope, width: layout.width }.apart(&values.0);
        // A pixel has at most four; those that it does not have are asked for by nobody.
        let channel = |number: usize| channels[number.min(channels.len() - 1)];
        store_pixels(scope, [0, 1, 2, 3].map(channel), (outputs, params), &at, &part, layout);
    })
}

/// What lies at a position of a buffer.
#[cube]
pub(crate) fn load<T: CubePrimitive>(buffers: &Buffers, position: usize, #[comptime] layout: Layout) -> T {
    intrinsic!(|scope| {
        let pointer = layout.pointer(scope, buffers.0[0], position.read_value(scope));
        ir::read_value(scope, pointer).into()
    })
}

/// Puts a vector to a position of a buffer.
#[cube]
pub(crate) fn store<T: CubePrimitive>(buffers: &mut Buffers, position: usize, value: T, #[comptime] layout: Layout) {
    intrinsic!(|scope| {
        let pointer = layout.pointer(scope, buffers.0[0], position.read_value(scope));
        scope.register(&StoreOp::new(scope.ctx_mut(), pointer, value.read_value(scope)));
    })
}

/// The vector that begins at an element of a list.
#[cube]
pub(crate) fn read_at<E: Scalar, N: Size>(from: &[E], element: usize) -> Vector<E, N> {
    intrinsic!(|scope| {
        let (list, element) = (from.__extract_list(scope), element.read_value(scope));
        let mut at: NativeExpand<Vector<E, N>> = vector_pointer(scope, list, element, N::__expand_value(scope)).into();
        at.__expand_deref_method(scope)
    })
}

/// Writes a vector so that it begins at an element of a list.
#[cube]
pub(crate) fn write_at<E: Scalar, N: Size>(to: &mut [E], element: usize, value: Vector<E, N>) {
    intrinsic!(|scope| {
        let (list, element) = (to.__extract_list(scope), element.read_value(scope));
        let mut at: NativeExpand<Vector<E, N>> = vector_pointer(scope, list, element, N::__expand_value(scope)).into();
        at.__expand_assign_method(scope, value);
    })
}

/// How pixels are taken apart.
struct PixelSplit {
    /// Whether elements are numbers from 0 to 255.
    bytes: bool,
    layout: Layout,
}

impl PixelSplit {
    /// The four channels of pixels that lie side by side.
    fn split(&self, scope: &Scope, value: Value) -> [Value; 4] {
        let (width, pixels) = (self.layout.width, self.layout.width / 4);
        let (whole, make) = (Generator { scope, width }, Generator { scope, width: pixels });
        if self.bytes {
            // As words, whose bytes shifts take apart: shuffles of so many lanes cost more.
            let words = match self.layout.packed {
                true => whole.pack(value, dala_spec::DType::U8),
                false => {
                    let narrow = vector_type(scope, UIntKind::U8.into(), width);
                    let narrow = cast_value(scope, value, narrow);
                    reinterpret_value(scope, narrow, vector_type(scope, UIntKind::U32.into(), pixels))
                }
            };
            return [0, 1, 2, 3].map(|channel| make.byte_lane(words, channel));
        }
        [0, 1, 2, 3].map(|channel| {
            let lanes: Vec<Value> = (0..pixels).map(|pixel| whole.extract(value, 4 * pixel + channel, width)).collect();
            make.construct(&lanes)
        })
    }
}

/// Runs a fragment and stores what it gives.
#[cube]
pub(crate) fn fragment_store(
    reads: &Buffers,
    outputs: &mut Buffers,
    params: &Scalars,
    values: &Values,
    at: Whereabouts,
    #[comptime] part: FragmentCode,
    #[comptime] layout: Layout,
) {
    intrinsic!(|scope| {
        with_context(scope, &part, (reads, params, values), &at, |context| {
            emit(scope, part.program(), layout, context, &outputs.0);
        });
    })
}
