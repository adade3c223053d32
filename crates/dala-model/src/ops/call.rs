//! A node with its inputs: what an operator asks when it finds out what becomes of one.

use dala_spec::{DType, Data, Scalar, Shape, TensorType};

use crate::attribute::Attribute;
use crate::budget::Budget;
use crate::error::{UnsupportedOperator, shown};
use crate::limits::{MAX_ELEMENTS, MAX_RANK};
use crate::{ModelError, Value};

/// Elements of `dtype` in `dims`, if no limit is against it.
pub(crate) fn tensor_type(dtype: DType, dims: Vec<usize>, what: impl Fn() -> String) -> Result<TensorType, ModelError> {
    if dims.len() > MAX_RANK {
        return Err(ModelError::TooLarge { what: what(), limit: format!("{MAX_RANK} dimensions") });
    }
    let sizes_fit = dims.iter().all(|&dim| dim <= MAX_ELEMENTS);
    let shape = Shape::from(dims);
    match shape.checked_len() {
        Some(len) if sizes_fit && len <= MAX_ELEMENTS => Ok(TensorType { dtype, shape }),
        _ => Err(ModelError::TooLarge { what: what(), limit: format!("{MAX_ELEMENTS} elements") }),
    }
}

/// A node with its inputs. Their sizes are numbers: what a file leaves open is bound before, and everything is asked again
/// for other sizes.
pub(crate) struct NodeCall<'a> {
    /// The node's name.
    pub(crate) node: &'a str,
    pub(crate) operator: &'static str,
    pub(crate) attributes: &'a [(String, Attribute)],
    pub(crate) opset: i64,
    /// The numbers of the inputs; `None` for one that is left out.
    pub(crate) inputs: &'a [Option<usize>],
    /// How many outputs the file names.
    pub(crate) outputs: usize,
    pub(crate) values: &'a [Value],
    pub(crate) budget: &'a Budget,
}

impl<'a> NodeCall<'a> {
    pub(super) fn name(&self) -> String {
        shown(self.node)
    }

    pub(super) fn has(&self, place: usize) -> bool {
        self.number(place).is_some()
    }

    pub(super) fn number(&self, place: usize) -> Option<usize> {
        self.inputs.get(place).copied().flatten()
    }

    /// The number of an input that must be there.
    pub(super) fn input(&self, place: usize) -> Result<usize, ModelError> {
        self.number(place).ok_or_else(|| ModelError::Inputs {
            node: self.name(),
            expected: format!("at least {}", place + 1),
            found: self.inputs.iter().flatten().count(),
        })
    }

    pub(super) fn value(&self, place: usize) -> Result<&'a Value, ModelError> {
        let number = self.input(place)?;
        self.values.get(number).ok_or_else(|| ModelError::Inputs {
            node: self.name(),
            expected: format!("at least {}", place + 1),
            found: self.values.len(),
        })
    }

    pub(super) fn dims(&self, place: usize) -> Result<&'a [usize], ModelError> {
        Ok(self.value(place)?.ty.shape.dims())
    }

    pub(super) fn dtype(&self, place: usize) -> Result<DType, ModelError> {
        Ok(self.value(place)?.ty.dtype)
    }

    /// The element type of the first input, which must be a float.
    pub(super) fn float(&self) -> Result<DType, ModelError> {
        match self.dtype(0)? {
            dtype if dtype.is_float() => Ok(dtype),
            dtype => Err(self.type_mismatch("elements of type f32 or f64", dtype)),
        }
    }

    /// The element type of the first input, which must be an integer.
    pub(super) fn integer(&self) -> Result<DType, ModelError> {
        match self.dtype(0)? {
            dtype if dtype.is_float() => Err(self.type_mismatch("integers", dtype)),
            dtype => Ok(dtype),
        }
    }

    /// The sizes of a picture: batch, channels, height, width.
    pub(super) fn picture(&self) -> Result<[usize; 4], ModelError> {
        let dims = self.dims(0)?;
        match *dims {
            [batch, channels, height, width] => Ok([batch, channels, height, width]),
            _ if dims.len() >= 3 => {
                let why = format!("works along {} axes, only height and width are supported", dims.len() - 2);
                Err(self.unsupported(why))
            }
            _ => Err(self.shape_mismatch("a first input of shape {batch, channels, height, width}", &dims)),
        }
    }

    /// The result of the node.
    pub(super) fn output(&self, dtype: DType, dims: Vec<usize>) -> Result<TensorType, ModelError> {
        tensor_type(dtype, dims, || format!("the result of node `{}`", self.name()))
    }

    pub(super) fn constant(&self, place: usize, what: &str) -> Result<&'a Data, ModelError> {
        let data = self.value(place)?.constant.as_deref();
        data.ok_or_else(|| ModelError::NotConstant { node: self.name(), input: what.to_owned() })
    }

    /// The elements of an input that is constant, to be looked at one by one.
    pub(super) fn looked_at(&self, place: usize) -> Result<Option<&'a Data>, ModelError> {
        let Some(data) = self.value(place)?.constant.as_deref() else { return Ok(None) };
        self.budget.need(data.len(), self.node)?;
        Ok(Some(data))
    }

    /// A constant list of integers, of at most as many as a node can need.
    pub(super) fn integers(&self, place: usize, what: &str) -> Result<Vec<i64>, ModelError> {
        let data = self.constant(place, what)?;
        if self.dims(place)?.len() > 1 || data.len() > 2 * MAX_RANK || data.dtype().is_float() {
            let ty = &self.value(place)?.ty;
            return Err(self.bad_value(what, "a short list of integers", ty));
        }
        Ok(data.iter().map(|scalar| scalar.as_i64()).collect())
    }

    /// A constant list of floats, of at most as many as a node can need.
    pub(super) fn floats(&self, place: usize, what: &str) -> Result<Vec<f64>, ModelError> {
        let data = self.constant(place, what)?;
        if self.dims(place)?.len() > 1 || data.len() > 2 * MAX_RANK || !data.dtype().is_float() {
            let ty = &self.value(place)?.ty;
            return Err(self.bad_value(what, "a short list of floats", ty));
        }
        Ok(data.iter().map(|scalar| scalar.as_f64()).collect())
    }

    /// A constant of one element, if the input is there.
    pub(super) fn scalar(&self, place: usize, what: &str) -> Result<Option<Scalar>, ModelError> {
        if !self.has(place) {
            return Ok(None);
        }
        let data = self.constant(place, what)?;
        match (data.len(), data.get(0)) {
            (1, Some(scalar)) => Ok(Some(scalar)),
            (len, _) => Err(self.bad_value(what, "one element", format!("{len}"))),
        }
    }

    /// Integers that old versions have as an attribute and newer ones as an input.
    pub(super) fn integers_from(
        &self,
        name: &'static str,
        place: usize,
        input_since: i64,
    ) -> Result<Option<Vec<i64>>, ModelError> {
        if self.opset < input_since {
            return Ok(self.ints(name)?.map(<[i64]>::to_vec));
        }
        if self.has(place) { self.integers(place, name).map(Some) } else { Ok(None) }
    }

    /// An axis counted from the start or, if negative, from the end, of `rank`.
    pub(super) fn axis(&self, axis: i64, rank: usize, what: &str) -> Result<usize, ModelError> {
        let from_start = if axis < 0 { axis.checked_add(rank as i64) } else { Some(axis) };
        from_start.and_then(|axis| usize::try_from(axis).ok()).filter(|&axis| axis < rank).ok_or_else(|| {
            ModelError::BadValue {
                node: self.name(),
                input: what.to_owned(),
                expected: format!("an axis of {rank}"),
                found: axis.to_string(),
            }
        })
    }

    /// Axes, each once, in the order given.
    pub(super) fn axes(&self, axes: &[i64], rank: usize) -> Result<Vec<usize>, ModelError> {
        let mut found = Vec::new();
        for &axis in axes {
            let axis = self.axis(axis, rank, "axes")?;
            if found.contains(&axis) {
                return Err(self.bad_value("axes", "different axes", format!("{axis} twice")));
            }
            found.push(axis);
        }
        Ok(found)
    }

    pub(super) fn attribute(&self, name: &str) -> Option<&'a Attribute> {
        self.attributes.iter().find(|attribute| attribute.0 == name).map(|attribute| &attribute.1)
    }

    pub(super) fn int(&self, name: &str, default: i64) -> Result<i64, ModelError> {
        match self.attribute(name) {
            None => Ok(default),
            Some(Attribute::Int(value)) => Ok(*value),
            Some(other) => Err(self.bad_attribute(name, "an integer", other.kind())),
        }
    }

    /// An integer that means yes or no.
    pub(super) fn flag(&self, name: &str, default: bool) -> Result<bool, ModelError> {
        match self.int(name, i64::from(default))? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(self.bad_attribute(name, "0 or 1", other)),
        }
    }

    pub(super) fn float_attribute(&self, name: &str, default: f32) -> Result<f32, ModelError> {
        match self.attribute(name) {
            None => Ok(default),
            Some(Attribute::Float(value)) => Ok(*value),
            Some(other) => Err(self.bad_attribute(name, "a float", other.kind())),
        }
    }

    pub(super) fn ints(&self, name: &str) -> Result<Option<&'a [i64]>, ModelError> {
        match self.attribute(name) {
            None => Ok(None),
            Some(Attribute::Ints(values)) if values.len() <= 2 * MAX_RANK => Ok(Some(values)),
            Some(Attribute::Ints(values)) => {
                Err(self.bad_attribute(name, "a short list of integers", format!("{} of them", values.len())))
            }
            Some(other) => Err(self.bad_attribute(name, "a list of integers", other.kind())),
        }
    }

    pub(super) fn text(&self, name: &str, default: &'a str) -> Result<&'a str, ModelError> {
        match self.attribute(name) {
            None => Ok(default),
            Some(Attribute::Text(text)) => Ok(text),
            Some(other) => Err(self.bad_attribute(name, "a text", other.kind())),
        }
    }

    pub(super) fn bad_attribute(&self, name: &str, expected: impl ToString, found: impl ToString) -> ModelError {
        let (expected, found) = (expected.to_string(), shown(&found.to_string()));
        ModelError::BadAttribute { node: self.name(), attribute: name.to_owned(), expected, found }
    }

    pub(super) fn bad_value(&self, input: &str, expected: impl ToString, found: impl ToString) -> ModelError {
        let (expected, found) = (expected.to_string(), shown(&found.to_string()));
        ModelError::BadValue { node: self.name(), input: input.to_owned(), expected, found }
    }

    pub(super) fn shape_mismatch(&self, expected: impl ToString, dims: &(impl AsRef<[usize]> + ?Sized)) -> ModelError {
        let found = Shape::from(dims.as_ref()).to_string();
        ModelError::ShapeMismatch { node: self.name(), expected: expected.to_string(), found }
    }

    pub(super) fn type_mismatch(&self, expected: impl ToString, found: impl ToString) -> ModelError {
        ModelError::TypeMismatch { node: self.name(), expected: expected.to_string(), found: found.to_string() }
    }

    pub(super) fn unsupported(&self, why: impl Into<String>) -> ModelError {
        let operator = self.operator.to_owned();
        ModelError::Unsupported {
            operators: vec![UnsupportedOperator { node: self.name(), operator, why: why.into() }],
        }
    }

    /// An error unless input `place` has the element type of the first.
    pub(super) fn same_dtype(&self, place: usize) -> Result<(), ModelError> {
        let (expected, found) = (self.dtype(0)?, self.dtype(place)?);
        if expected == found {
            return Ok(());
        }
        Err(self.type_mismatch(format!("inputs of one element type, here {expected}"), found))
    }
}

/// The shape that both are repeated to, as NumPy does it.
pub(super) fn broadcast(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    let rank = a.len().max(b.len());
    let size = |dims: &[usize], axis: usize| {
        let missing = rank - dims.len();
        if axis < missing { Some(1) } else { dims.get(axis - missing).copied() }
    };
    (0..rank)
        .map(|axis| match (size(a, axis)?, size(b, axis)?) {
            (a, b) if a == b => Some(a),
            (1, size) | (size, 1) => Some(size),
            _ => None,
        })
        .collect()
}
