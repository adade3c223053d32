//! The calls of kernels in the making, seen from one layer.

use std::sync::Arc;

use dala_kernels::Composite;
use dala_spec::{Data, Expr, Params, SpecError, TensorType};

use super::layout::{Order, channels_last, padded};
use crate::Value;

/// Calls of kernels over a network's values, as the layer sees them whose turn it is: it names its inputs and outputs by
/// their places, and gets and gives cells of [`calls`](Lowerer::calls).
#[derive(Clone)]
pub(crate) struct Lowerer<'a> {
    pub(crate) calls: Composite,
    values: &'a [Value],
    held: Vec<Orders>,
    layer: &'a str,
    reads: &'a [usize],
    makes: &'a [usize],
}

/// The cells of a value: channels first, as in the file, and channels last.
#[derive(Clone, Copy, Default)]
struct Orders {
    first: Option<usize>,
    last: Option<usize>,
}

impl<'a> Lowerer<'a> {
    /// No calls yet; `inputs` are those of the network.
    pub(crate) fn new(values: &'a [Value], inputs: &[usize]) -> Lowerer<'a> {
        let types: Vec<TensorType> = inputs.iter().map(|number| values[*number].ty.clone()).collect();
        let mut held = vec![Orders::default(); values.len()];
        for (cell, number) in inputs.iter().enumerate() {
            held[*number].first = Some(cell);
        }
        Lowerer { calls: Composite::new(&types), values, held, layer: "", reads: &[], makes: &[] }
    }

    /// Goes to another layer: its name and the values that it reads and makes.
    pub(crate) fn at(&mut self, layer: &'a str, reads: &'a [usize], makes: &'a [usize]) {
        (self.layer, self.reads, self.makes) = (layer, reads, makes);
    }

    /// The calls, with values for results.
    pub(crate) fn results(mut self, numbers: &[usize]) -> Result<Composite, SpecError> {
        let cells = numbers.iter().map(|number| self.number_first(*number)).collect::<Result<Vec<_>, _>>()?;
        self.calls.results(&cells)
    }

    /// The layer's name.
    pub(crate) fn layer(&self) -> &'a str {
        self.layer
    }

    /// How many inputs the layer has.
    pub(crate) fn inputs(&self) -> usize {
        self.reads.len()
    }

    /// An input.
    pub(crate) fn value(&self, place: usize) -> &'a Value {
        &self.values[self.reads[place]]
    }

    /// The sizes of an input.
    pub(crate) fn dims(&self, place: usize) -> &'a [usize] {
        self.value(place).ty.shape.dims()
    }

    /// The type of the first output.
    pub(crate) fn output(&self) -> &'a TensorType {
        self.output_at(0)
    }

    /// How many outputs the layer has.
    pub(crate) fn outputs(&self) -> usize {
        self.makes.len()
    }

    /// The type of an output.
    pub(crate) fn output_at(&self, place: usize) -> &'a TensorType {
        &self.values[self.makes[place]].ty
    }

    /// An input as it is in the file.
    pub(crate) fn first(&mut self, place: usize) -> Result<usize, SpecError> {
        self.number_first(self.reads[place])
    }

    fn number_first(&mut self, number: usize) -> Result<usize, SpecError> {
        if let Some(cell) = self.held[number].first {
            return Ok(cell);
        }
        let value = &self.values[number];
        let cell = match (&value.constant, self.held[number].last) {
            (Some(data), _) => self.calls.constant(value.ty.clone(), data.clone()),
            (None, Some(last)) => {
                let rank = value.ty.shape.rank();
                let axes: Vec<i64> = (0..rank).map(|axis| Order::Last.axis(axis, rank) as i64).collect();
                self.turn_named(&value.name, last, &axes)?
            }
            // Every value is an input, a constant, or made by a layer before.
            (None, None) => return Err(SpecError::internal(format!("`{}` is not made by any layer", value.name))),
        };
        self.held[number].first = Some(cell);
        Ok(cell)
    }

    /// An input with its channels last; of fewer axes than the output, as if it had them.
    pub(crate) fn last(&mut self, place: usize) -> Result<usize, SpecError> {
        let number = self.reads[place];
        let value = &self.values[number];
        let rank = value.ty.shape.rank().max(self.output().shape.rank());
        let own = value.ty.shape.rank() == rank;
        if let (Some(cell), true) = (self.held[number].last, own) {
            return Ok(cell);
        }
        let first = self.first(place)?;
        let seen = self.calls.view(first, TensorType::new(value.ty.dtype, padded(value.ty.shape.dims(), rank)));
        let axes: Vec<i64> = Order::Last.axes(&(0..rank as i64).collect::<Vec<_>>());
        let cell = self.turn_named(&value.name, seen, &axes)?;
        if own {
            self.held[number].last = Some(cell);
        }
        Ok(cell)
    }

    /// The order that an input is at hand in; as it is in the file if in both.
    pub(crate) fn order(&self, place: usize) -> Order {
        let held = self.held[self.reads[place]];
        if held.last.is_some() && held.first.is_none() { Order::Last } else { Order::First }
    }

    /// The order for a layer that reads its inputs in one: channels last if one of them is so at hand, with all its axes.
    pub(crate) fn common_order(&self) -> Order {
        let rank = self.output().shape.rank();
        let last = |place: usize| self.dims(place).len() == rank && self.order(place) == Order::Last;
        if (0..self.inputs()).any(last) { Order::Last } else { Order::First }
    }

    /// An input in an order.
    pub(crate) fn read(&mut self, place: usize, order: Order) -> Result<usize, SpecError> {
        match order {
            Order::First => self.first(place),
            Order::Last => self.last(place),
        }
    }

    /// A constant that the layer needs.
    pub(crate) fn constant(&mut self, data: Data, dims: &[usize]) -> usize {
        self.calls.constant(TensorType::new(data.dtype(), dims), Arc::new(data))
    }

    /// The axes of a cell in another order: nothing to do where only axes of size one change places.
    pub(crate) fn turn_named(&mut self, name: &str, cell: usize, axes: &[i64]) -> Result<usize, SpecError> {
        let from = self.calls.ty(cell);
        let size = |axis: &i64| from.shape.dims()[*axis as usize];
        let ty = TensorType::new(from.dtype, axes.iter().map(size).collect::<Vec<usize>>());
        if axes.iter().filter(|axis| size(axis) != 1).is_sorted() {
            return Ok(self.calls.view(cell, ty));
        }
        let name = format!("{name}, turned");
        self.calls.call(&name, "transpose", &[cell], ty, &Params::new().with("axes", axes.to_vec()))
    }

    /// A call in the layer's name.
    pub(crate) fn call(
        &mut self,
        kernel: &str,
        inputs: &[usize],
        ty: TensorType,
        params: &Params,
    ) -> Result<usize, SpecError> {
        self.calls.call(self.layer, kernel, inputs, ty, params)
    }

    /// The text of an expression at each element, in the layer's name. Inputs go by their names and are repeated to fit.
    pub(crate) fn map(
        &mut self,
        text: &str,
        inputs: &[(&str, usize)],
        ty: TensorType,
        params: &Params,
    ) -> Result<usize, SpecError> {
        self.calls.map(self.layer, text, inputs, ty, params)
    }

    /// A cell repeated along axes where it has size one, and along those that it does not have.
    pub(crate) fn repeated(&mut self, cell: usize, dims: &[usize]) -> Result<usize, SpecError> {
        let ty = TensorType::new(self.calls.ty(cell).dtype, dims);
        if self.calls.ty(cell).shape.len() == ty.shape.len() {
            return Ok(self.calls.view(cell, ty));
        }
        self.map("x", &[("x", cell)], ty, &Params::new())
    }

    /// A cell with so many elements along an axis, picked by a formula of their place `i` there, which may use params.
    pub(crate) fn picked(
        &mut self,
        cell: usize,
        axis: usize,
        count: usize,
        formula: &str,
        params: &Params,
    ) -> Result<usize, SpecError> {
        let ty = self.calls.ty(cell).clone();
        let mut dims = ty.shape.dims().to_vec();
        let [outer, inner] = [&dims[..axis], &dims[axis + 1..]].map(|dims| dims.iter().product::<usize>());
        let text = format!("let i = coord(1); gather(x, (coord(0) * size + ({formula})) * inner + coord(2))");
        let params = params.clone().with("size", dims[axis] as i64).with("inner", inner as i64);
        let made = self.map(&text, &[("x", cell)], TensorType::new(ty.dtype, [outer, count, inner]), &params)?;
        dims[axis] = count;
        Ok(self.calls.view(made, TensorType::new(ty.dtype, dims)))
    }

    /// The axes of a cell in another order.
    pub(crate) fn turned(&mut self, cell: usize, axes: &[usize]) -> Result<usize, SpecError> {
        self.turn_named(self.layer, cell, &ints(axes))
    }

    /// The type of the first output in an order.
    pub(crate) fn output_in(&self, order: Order) -> TensorType {
        match order {
            Order::First => self.output().clone(),
            Order::Last => type_last(self.output()),
        }
    }

    /// An output is this cell, in an order.
    pub(crate) fn give(&mut self, place: usize, order: Order, cell: usize) {
        match order {
            Order::First => self.give_first(place, cell),
            Order::Last => self.give_last(place, cell),
        }
    }

    /// An expression in the layer's name, over cells that it calls by name.
    pub(crate) fn expression(
        &mut self,
        expr: &Expr,
        inputs: &[(&str, usize)],
        ty: TensorType,
    ) -> Result<usize, SpecError> {
        self.calls.expression(self.layer, expr, inputs, ty)
    }

    /// A call that makes the first output as it is in the file.
    pub(crate) fn call_first(&mut self, kernel: &str, inputs: &[usize], params: &Params) -> Result<(), SpecError> {
        self.make(0, Order::First, kernel, inputs, params)
    }

    /// A call that makes the first output with its channels last.
    pub(crate) fn call_last(&mut self, kernel: &str, inputs: &[usize], params: &Params) -> Result<(), SpecError> {
        self.make(0, Order::Last, kernel, inputs, params)
    }

    /// A call that makes the first output in an order.
    pub(crate) fn call_in(
        &mut self,
        order: Order,
        kernel: &str,
        inputs: &[usize],
        params: &Params,
    ) -> Result<(), SpecError> {
        match order {
            Order::First => self.call_first(kernel, inputs, params),
            Order::Last => self.call_last(kernel, inputs, params),
        }
    }

    /// A call that makes an output in an order.
    pub(crate) fn make(
        &mut self,
        place: usize,
        order: Order,
        kernel: &str,
        inputs: &[usize],
        params: &Params,
    ) -> Result<(), SpecError> {
        let output = self.output_at(place);
        match order {
            Order::First => {
                let cell = self.call(kernel, inputs, output.clone(), params)?;
                self.give_first(place, cell);
            }
            Order::Last => {
                let cell = self.call(kernel, inputs, type_last(output), params)?;
                self.give_last(place, cell);
            }
        }
        Ok(())
    }

    /// An output is this cell's elements, as they are in the file.
    pub(crate) fn give_first(&mut self, place: usize, cell: usize) {
        let seen = self.calls.view(cell, self.output_at(place).clone());
        self.held[self.makes[place]].first = Some(seen);
    }

    /// An output is this cell, with its channels last.
    pub(crate) fn give_last(&mut self, place: usize, cell: usize) {
        self.held[self.makes[place]].last = Some(cell);
    }
}

/// A type with its channels last.
fn type_last(ty: &TensorType) -> TensorType {
    TensorType::new(ty.dtype, channels_last(ty.shape.dims()))
}

/// Sizes as the value of a param.
pub(crate) fn ints(list: &[usize]) -> Vec<i64> {
    list.iter().map(|size| *size as i64).collect()
}
