//! The list of all tasks: one line each.

/// Hands the list to another macro: the name of each task's file, and its type. What it is, is said in `work/`, and how it runs in
/// `launch/` of `dala-kernels`.
#[macro_export]
macro_rules! with_tasks {
    ($macro:ident) => {
        $macro! {
            /// A program at every element.
            map: Map,
            /// Lines of elements folded to one, and what is made of that.
            fold: Fold,
            /// Small separable filters of a picture.
            stencil: Stencil,
            /// Weighted sums along one axis, as tables say.
            axis_sum: AxisSum,
            /// A picture of another size, in one pass.
            resample: Resample,
            /// Words in another order.
            strided_copy: StridedCopy,
            /// A matrix laid out in panels, as [`Task::Matmul`] reads its second operand.
            pack: Pack,
            /// A matrix product.
            matmul: Matmul,
            /// Windows of pictures made to one pixel each.
            pool: Pool,
            /// How often each bin occurs.
            histogram: Histogram,
            /// A whole function that somebody else wrote.
            opaque: Opaque,
        }
    };
}
