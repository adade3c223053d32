//! What both ways of small filters share: the shape of their code, their weights, and how elements are loaded.

use cubecl::prelude::*;
use dala_plan::work::{Border, Stencil};
use dala_spec::DType;
use dala_spec::expr::Ty;

use crate::device::args::{Buffers, Scalars};
use crate::device::arithmetic::elem;
use crate::device::emit::Layout;
use crate::device::fragment::{FragmentCode, Values, Whereabouts, fragment_value};

/// What shapes the code.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub(super) struct StencilCode {
    load: FragmentCode,
    pub(super) store: FragmentCode,
    /// What is made of whole pixels before they are stored.
    pub(super) pixels: Option<FragmentCode>,
    /// Whether results are bytes.
    pub(super) bytes: bool,
    pub(super) radius: usize,
    pub(super) filters: usize,
    pub(super) channels: usize,
    pub(super) border: Border,
    /// Whether rows as far above as below have the same weights, so that they are added first.
    pub(super) paired: bool,
    /// Whether elements are loaded as integers, and become floats after that.
    integers: bool,
    /// Whether a unit computes whole rows.
    pub(super) whole_rows: bool,
    /// Whether each tap has code of its own.
    pub(super) unrolled: bool,
}

impl StencilCode {
    pub(super) fn new(stencil: &Stencil, whole_rows: bool, unrolled: bool) -> StencilCode {
        let [load, store] = FragmentCode::each([&stencil.load, &stencil.store], 0);
        let pixels = stencil.pixels.as_ref();
        StencilCode {
            load,
            store,
            pixels: pixels.and_then(|pixels| FragmentCode::list([&stencil.load, &stencil.store, pixels]).pop()),
            bytes: stencil.store.program.outputs()[0] == DType::U8,
            radius: stencil.radius,
            filters: stencil.filters.len(),
            channels: stencil.channels,
            border: stencil.border,
            // Beyond the picture zeros count for one of a pair alone.
            paired: stencil.border != Border::Zero && stencil.filters.iter().all(|filter| is_symmetric(&filter.down)),
            integers: stencil.load.program.outputs()[0] == DType::S32,
            whole_rows,
            unrolled,
        }
    }
}

/// The weights as arguments of a kernel: of each filter those down, then those across.
pub(super) fn weights(stencil: &Stencil) -> Vec<InputScalar> {
    let weights = stencil.filters.iter().flat_map(|filter| filter.down.iter().chain(&filter.across));
    weights.map(|weight| InputScalar::new(*weight, elem(Ty::F32))).collect()
}

/// A row that lies outside and counts as zeros.
pub(super) const OUTSIDE: usize = u32::MAX as usize;

fn is_symmetric(weights: &[f32]) -> bool {
    weights.iter().eq(weights.iter().rev())
}

/// A run-time value by its number.
#[cube]
pub(super) fn weight(weights: &Scalars, #[comptime] number: usize) -> f32 {
    intrinsic!(|_scope| weights.0[number].into())
}

/// A vector of elements as floats; of two rows, added, if `other` is another row.
#[cube]
#[expect(clippy::too_many_arguments, reason = "the arguments of a kernel")]
pub(super) fn load<N: Size>(
    reads: &Buffers,
    params: &Scalars,
    row: usize,
    other: usize,
    q: usize,
    some: u32,
    #[comptime] pair: bool,
    #[comptime] code: StencilCode,
    #[comptime] layout: Layout,
) -> Vector<f32, N> {
    let nothing = Values::new();
    let at = Whereabouts { position: row + q, column: q, some };
    let second = Whereabouts { position: other + q, column: q, some };
    let part = comptime!(code.load.clone());
    if comptime!(code.integers) {
        let mut value = fragment_value::<Vector<i32, N>>(reads, params, &nothing, at, comptime!(part.clone()), layout);
        if comptime!(pair) {
            value += fragment_value::<Vector<i32, N>>(reads, params, &nothing, second, comptime!(part.clone()), layout);
        }
        Vector::<f32, N>::cast_from(value)
    } else {
        let mut value = fragment_value::<Vector<f32, N>>(reads, params, &nothing, at, comptime!(part.clone()), layout);
        if comptime!(pair) {
            value += fragment_value::<Vector<f32, N>>(reads, params, &nothing, second, comptime!(part.clone()), layout);
        }
        value
    }
}
