//! Matrix products: the second operand is packed, then multiplied.

use dala_plan::work::{Argument, Fragment, Matmul, Pack, Tile, Windows};
use dala_plan::{DeviceFacts, Lowering, Place, Step, Task};
use dala_spec::{Expr, Signature, SpecError, TensorType};

use super::map;

/// The sizes of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Product {
    pub(crate) batch: usize,
    pub(crate) m: usize,
    pub(crate) k: usize,
    pub(crate) n: usize,
    pub(crate) a_batched: bool,
    pub(crate) b_batched: bool,
    pub(crate) a_transposed: bool,
    pub(crate) b_transposed: bool,
    /// The windows that are the rows of the first operand, where it is pictures. The second operand is then taken for weights,
    /// which are packed by a launch of their own, so that a plan can do so once and for all.
    pub(crate) windows: Option<Windows>,
}

/// What is made of each sum.
pub(crate) struct Epilogue {
    /// The expression, of `sum` and of the columns' names.
    pub(crate) expr: Expr,
    /// Inputs with one element for each column of the result: name and number.
    pub(crate) columns: Vec<(&'static str, usize)>,
}

impl Product {
    /// The product of inputs 0 and 1 of a call, stored to its output by the epilogue.
    pub(crate) fn lower(
        self,
        call: &Signature,
        facts: &DeviceFacts,
        epilogue: &Epilogue,
    ) -> Result<Lowering, SpecError> {
        self.lower_with(call, facts, epilogue, Lowering::new(), Place::Input(1))
    }

    /// As [`lower`](Product::lower), after other launches, with another second operand.
    pub(crate) fn lower_with(
        self,
        call: &Signature,
        facts: &DeviceFacts,
        epilogue: &Epilogue,
        lowering: Lowering,
        b: Place,
    ) -> Result<Lowering, SpecError> {
        let (mut lowering, dtype) = (lowering, call.inputs[0].dtype);
        let tile = Tile::choose(facts, dtype, self.m, self.n);
        let b_batch = if self.b_batched { self.batch } else { 1 };
        let packs = !self.b_transposed
            && self.windows.is_none()
            && Matmul::packs_itself(facts, tile, self.batch, self.m, self.n);
        let pack = Pack { batch: b_batch, k: self.k, n: self.n, transposed: self.b_transposed, dtype, tile };
        let size = pack.elements();
        let second = match packs {
            true => b,
            false => lowering.transient(TensorType::new(dtype, [size])),
        };
        if size > 0 && !packs {
            lowering.step(Task::Pack(pack), [b], second);
        }
        // Whole vectors are stored: rows that end elsewhere are cut to their length by a launch of their own, unless panels overlap.
        let padded = if tile.overlaps { self.n } else { self.n.next_multiple_of(tile.stored) };
        let whole = padded == self.n;
        let mut arguments = vec![Argument::value("sum", 0, dtype)];
        let mut reads = vec![Place::Input(0), second];
        if whole {
            for (name, input) in &epilogue.columns {
                arguments.push(Argument::column(name, reads.len(), &call.inputs[*input]));
                reads.push(Place::Input(*input));
            }
        }
        let sum = Expr::input("sum");
        let matmul = Matmul {
            batch: self.batch,
            m: self.m,
            k: self.k,
            n: padded,
            a_batched: self.a_batched,
            b_batched: self.b_batched,
            a_transposed: self.a_transposed,
            windows: self.windows.filter(|windows| !windows.are_pixels()),
            dtype,
            tile,
            packs,
            store: Fragment::build(if whole { &epilogue.expr } else { &sum }, &arguments, dtype, &call.params)?,
        };
        if packs {
            let panel = self.k * tile.columns();
            let scratch = lowering.transient(TensorType::new(dtype, [facts.units_per_cube as usize, panel]));
            lowering.steps.push(Step {
                task: Task::Matmul(matmul),
                reads,
                writes: vec![Place::Output, scratch],
                parts: Vec::new(),
            });
            return Ok(lowering);
        }
        if whole {
            lowering.step(Task::Matmul(matmul), reads, Place::Output);
            return Ok(lowering);
        }
        let rows = self.batch * self.m;
        let sums = lowering.transient(TensorType::new(dtype, [rows, padded]));
        lowering.step(Task::Matmul(matmul), reads, sums);
        let mut named = vec![("sums", TensorType::new(dtype, [rows, padded]))];
        let mut reads = vec![sums];
        let at = Expr::coord(0) * Expr::size(padded) + Expr::coord(1);
        let mut values = vec![("sum", Expr::input("sums").gather(at))];
        for (name, input) in &epilogue.columns {
            named.push((name, call.inputs[*input].clone()));
            reads.push(Place::Input(*input));
            values.push((name, Expr::input(*name).gather(Expr::coord(1))));
        }
        let expr = epilogue.expr.with_inputs(&values);
        let output = TensorType::new(dtype, [rows, self.n]);
        lowering.step(map(&expr, &named, output, call)?, reads, Place::Output);
        Ok(lowering)
    }
}
