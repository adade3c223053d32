//! Kernels made of kernels: calls over cells, some of which are constants. Networks are such kernels.

use std::sync::Arc;

use dala_plan::{DeviceFacts, Lowering, Place};
use dala_spec::{Data, Params, Signature, SpecError, TensorType, validate};

use crate::{Kernel, Parts, Registry, expression, supported};

/// Calls of kernels, one after the other, over the inputs of a call, constants and what earlier calls gave. Cells have numbers; the
/// first ones are the inputs.
#[derive(Clone, Debug)]
pub struct Composite {
    /// What its calls are of.
    kernels: Registry,
    cells: Vec<Cell>,
    calls: Vec<KernelPart>,
    output: usize,
}

#[derive(Clone, Debug)]
struct Cell {
    ty: TensorType,
    from: From,
}

#[derive(Clone, Debug)]
enum From {
    Input(usize),
    Constant(Arc<Data>),
    Call,
    /// The elements of another cell, under another shape.
    View(usize),
}

#[derive(Clone, Debug)]
struct KernelPart {
    name: Arc<str>,
    kernel: Arc<Kernel>,
    inputs: Vec<usize>,
    output: usize,
    signature: Signature,
}

impl Composite {
    /// No calls yet, over inputs of these types.
    pub fn new(inputs: &[TensorType]) -> Composite {
        let input = |(number, ty): (usize, &TensorType)| Cell { ty: ty.clone(), from: From::Input(number) };
        let cells = inputs.iter().enumerate().map(input).collect();
        Composite { kernels: Registry::built_in(), cells, calls: Vec::new(), output: 0 }
    }

    /// The type of a cell.
    pub fn ty(&self, cell: usize) -> &TensorType {
        &self.cells[cell].ty
    }

    fn push(&mut self, ty: TensorType, from: From) -> usize {
        self.cells.push(Cell { ty, from });
        self.cells.len() - 1
    }

    /// A cell that holds data which is known.
    pub fn constant(&mut self, ty: TensorType, data: impl Into<Arc<Data>>) -> usize {
        self.push(ty, From::Constant(data.into()))
    }

    /// The same elements under another shape of as many: no work.
    pub fn view(&mut self, cell: usize, ty: TensorType) -> usize {
        match *self.ty(cell) == ty {
            true => cell,
            false => self.push(ty, From::View(self.root(cell))),
        }
    }

    /// Calls a kernel; gives the cell of what it makes, whose type is `output`. `name` is what people call this part.
    ///
    /// # Errors
    ///
    /// There is no such kernel, or the call does not fit it: the first problem with it.
    pub fn call(
        &mut self,
        name: &str,
        kernel: &str,
        inputs: &[usize],
        output: TensorType,
        params: &Params,
    ) -> Result<usize, SpecError> {
        let kernel = self.kernels.get(kernel)?.clone();
        self.add(name, kernel, inputs, output, params)
    }

    /// Computes the text of an expression at every element; gives the cell of what it makes, whose type is `output`. The inputs go
    /// by their names and broadcast to the output, except those that the expression only gathers from.
    ///
    /// # Errors
    ///
    /// The text is no expression, or an input does not broadcast to the output.
    pub fn map(
        &mut self,
        name: &str,
        text: &str,
        inputs: &[(&str, usize)],
        output: TensorType,
        params: &Params,
    ) -> Result<usize, SpecError> {
        let (names, cells): (Vec<&str>, Vec<usize>) = inputs.iter().copied().unzip();
        let kernel = expression::kernel(text, &names, params)?;
        self.add(name, Arc::new(kernel), &cells, output, params)
    }

    fn add(
        &mut self,
        name: &str,
        kernel: Arc<Kernel>,
        inputs: &[usize],
        output: TensorType,
        params: &Params,
    ) -> Result<usize, SpecError> {
        let types: Vec<TensorType> = inputs.iter().map(|cell| self.ty(*cell).clone()).collect();
        let first = |mut problems: Vec<SpecError>| problems.swap_remove(0);
        let signature = validate(&kernel.spec, &types, &output, params).map_err(first)?;
        let output = self.push(output, From::Call);
        self.calls.push(KernelPart { name: name.into(), kernel, inputs: inputs.to_vec(), output, signature });
        Ok(output)
    }

    /// Says which cell is the result.
    ///
    /// # Errors
    ///
    /// None that callers could cause.
    pub fn result(mut self, cell: usize) -> Result<Composite, SpecError> {
        let root = self.root(cell);
        let read = self.calls.iter().any(|call| call.inputs.iter().any(|input| self.root(*input) == root));
        self.output = match (&self.cells[root].from, read) {
            (From::Call, false) => root,
            // What is read elsewhere as well, or nobody computes, is copied to where the caller wants it.
            _ => self.call("result", "reshape", &[cell], self.ty(cell).clone(), &Params::new())?,
        };
        Ok(self)
    }

    /// The cell whose memory a cell is found in.
    fn root(&self, cell: usize) -> usize {
        match self.cells[cell].from {
            From::View(of) => of,
            _ => cell,
        }
    }
}

impl Parts for Composite {
    fn lower(&self, facts: &DeviceFacts) -> Result<Lowering, SpecError> {
        let mut lowering = Lowering::new();
        let mut places: Vec<Option<Place>> = vec![None; self.cells.len()];
        for (number, cell) in self.cells.iter().enumerate() {
            places[number] = match &cell.from {
                From::Input(input) => Some(Place::Input(*input)),
                From::Constant(data) => Some(lowering.constant(data.clone())),
                From::Call if number == self.output => Some(Place::Output),
                From::Call => Some(lowering.transient(cell.ty.clone())),
                From::View(of) => places[*of],
            };
        }
        // What makes no elements has nothing to do.
        for call in self.calls.iter().filter(|call| !call.signature.output.shape.is_empty()) {
            let own =
                supported(&call.kernel, &call.signature, facts)?.bound(&call.kernel.spec.name, &call.signature)?;
            let place = |cell: &usize| {
                let missing = || SpecError::internal(format!("cell {cell} of a part has no place"));
                places[*cell].ok_or_else(missing)
            };
            let inputs = call.inputs.iter().map(place).collect::<Result<Vec<Place>, _>>()?;
            let output = place(&call.output)?;
            lowering.append(own, &inputs, output, &call.name);
        }
        Ok(lowering)
    }

    fn on_host(&self, inputs: &[Data]) -> Result<Option<Data>, SpecError> {
        let mut made: Vec<Option<Data>> = vec![None; self.cells.len()];
        for call in &self.calls {
            let data = |cell: &usize| match &self.cells[self.root(*cell)].from {
                From::Input(number) => inputs.get(*number).cloned(),
                From::Constant(data) => Some((**data).clone()),
                _ => made[self.root(*cell)].clone(),
            };
            let Some(own) = call.inputs.iter().map(data).collect::<Option<Vec<Data>>>() else { return Ok(None) };
            made[call.output] = call.kernel.on_host(&call.signature, &own)?;
        }
        Ok(made[self.output].take())
    }
}
