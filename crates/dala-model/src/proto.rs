//! The messages of the ONNX file format that are read, with the format's own names and field numbers.
//!
//! Written by hand, so that building needs no protocol compiler. Fields that are never read are left out; the format
//! skips what it does not know.

use bytes::Bytes;

/// A whole file.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ModelProto {
    /// The version of the file format.
    #[prost(int64, tag = "1")]
    pub ir_version: i64,
    /// The computation.
    #[prost(message, optional, tag = "7")]
    pub graph: Option<GraphProto>,
    /// The versions of the operator sets that the nodes use.
    #[prost(message, repeated, tag = "8")]
    pub opset_import: Vec<OperatorSetIdProto>,
    /// Texts by name that whoever wrote the file put beside the graph: pairs, left undecoded, because a model runs without them.
    #[prost(bytes = "bytes", repeated, tag = "14")]
    pub metadata_props: Vec<Bytes>,
    /// Operators that the file defines by nodes.
    #[prost(message, repeated, tag = "25")]
    pub functions: Vec<FunctionProto>,
}

/// An operator that a file defines by nodes.
#[derive(Clone, PartialEq, prost::Message)]
pub struct FunctionProto {
    /// The operator's name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// What its nodes call the inputs.
    #[prost(string, repeated, tag = "4")]
    pub input: Vec<String>,
    /// What its nodes call the outputs.
    #[prost(string, repeated, tag = "5")]
    pub output: Vec<String>,
    /// The nodes.
    #[prost(message, repeated, tag = "7")]
    pub node: Vec<NodeProto>,
    /// Whose operator it is.
    #[prost(string, tag = "10")]
    pub domain: String,
    /// Attributes with the values that they have if a use does not give them.
    #[prost(message, repeated, tag = "11")]
    pub attribute_proto: Vec<AttributeProto>,
    /// Which of several functions of one name.
    #[prost(string, tag = "13")]
    pub overload: String,
}

/// The version of one set of operators.
#[derive(Clone, PartialEq, prost::Message)]
pub struct OperatorSetIdProto {
    /// Whose operators; empty for those of ONNX.
    #[prost(string, tag = "1")]
    pub domain: String,
    /// The version.
    #[prost(int64, tag = "2")]
    pub version: i64,
}

/// Nodes, weights, inputs and outputs.
#[derive(Clone, PartialEq, prost::Message)]
pub struct GraphProto {
    /// The nodes.
    #[prost(message, repeated, tag = "1")]
    pub node: Vec<NodeProto>,
    /// The name of the graph.
    #[prost(string, tag = "2")]
    pub name: String,
    /// The weights.
    #[prost(message, repeated, tag = "5")]
    pub initializer: Vec<TensorProto>,
    /// The inputs; old files list the weights here as well.
    #[prost(message, repeated, tag = "11")]
    pub input: Vec<ValueInfoProto>,
    /// The outputs.
    #[prost(message, repeated, tag = "12")]
    pub output: Vec<ValueInfoProto>,
}

/// One use of an operator.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodeProto {
    /// The names of the values it reads; empty for one that is left out.
    #[prost(string, repeated, tag = "1")]
    pub input: Vec<String>,
    /// The names of the values it makes.
    #[prost(string, repeated, tag = "2")]
    pub output: Vec<String>,
    /// Its own name; may be empty.
    #[prost(string, tag = "3")]
    pub name: String,
    /// The operator.
    #[prost(string, tag = "4")]
    pub op_type: String,
    /// The attributes.
    #[prost(message, repeated, tag = "5")]
    pub attribute: Vec<AttributeProto>,
    /// Whose operator it is; empty for those of ONNX.
    #[prost(string, tag = "7")]
    pub domain: String,
    /// Which of several functions of one name.
    #[prost(string, tag = "8")]
    pub overload: String,
}

/// A named constant of a node.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AttributeProto {
    /// The name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// A number with a fraction.
    #[prost(float, optional, tag = "2")]
    pub f: Option<f32>,
    /// A whole number.
    #[prost(int64, optional, tag = "3")]
    pub i: Option<i64>,
    /// A text.
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub s: Option<Bytes>,
    /// A tensor.
    #[prost(message, optional, boxed, tag = "5")]
    pub t: Option<Box<TensorProto>>,
    /// A graph inside the node, left undecoded: each is decoded by itself, so that no file nests deeper than is looked at.
    #[prost(bytes = "bytes", optional, tag = "6")]
    pub g: Option<Bytes>,
    /// Numbers with a fraction.
    #[prost(float, repeated, tag = "7")]
    pub floats: Vec<f32>,
    /// Whole numbers.
    #[prost(int64, repeated, tag = "8")]
    pub ints: Vec<i64>,
    /// Texts.
    #[prost(bytes = "bytes", repeated, tag = "9")]
    pub strings: Vec<Bytes>,
    /// Which of the fields holds the value: an [`attribute_type`].
    #[prost(int32, tag = "20")]
    pub r#type: i32,
    /// In a function: the attribute of its use that this one takes its value from.
    #[prost(string, tag = "21")]
    pub ref_attr_name: String,
}

/// The values of [`AttributeProto::type`](AttributeProto#structfield.type).
pub mod attribute_type {
    /// `f`.
    pub const FLOAT: i32 = 1;
    /// `i`.
    pub const INT: i32 = 2;
    /// `s`.
    pub const STRING: i32 = 3;
    /// `t`.
    pub const TENSOR: i32 = 4;
    /// `g`.
    pub const GRAPH: i32 = 5;
    /// `floats`.
    pub const FLOATS: i32 = 6;
    /// `ints`.
    pub const INTS: i32 = 7;
    /// `strings`.
    pub const STRINGS: i32 = 8;
}

/// Numbers and their shape.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TensorProto {
    /// The shape.
    #[prost(int64, repeated, tag = "1")]
    pub dims: Vec<i64>,
    /// The element type: an [`element_type`].
    #[prost(int32, tag = "2")]
    pub data_type: i32,
    /// 32-bit floats, if they are not in `raw_data`.
    #[prost(float, repeated, tag = "4")]
    pub float_data: Vec<f32>,
    /// 32-bit and smaller integers, if they are not in `raw_data`.
    #[prost(int32, repeated, tag = "5")]
    pub int32_data: Vec<i32>,
    /// 64-bit integers, if they are not in `raw_data`.
    #[prost(int64, repeated, tag = "7")]
    pub int64_data: Vec<i64>,
    /// The name.
    #[prost(string, tag = "8")]
    pub name: String,
    /// The elements as little-endian bytes.
    #[prost(bytes = "bytes", optional, tag = "9")]
    pub raw_data: Option<Bytes>,
    /// 64-bit floats, if they are not in `raw_data`.
    #[prost(double, repeated, tag = "10")]
    pub double_data: Vec<f64>,
    /// Unsigned 32-bit and 64-bit integers, if they are not in `raw_data`.
    #[prost(uint64, repeated, tag = "11")]
    pub uint64_data: Vec<u64>,
    /// Where the elements are, if they are in another file.
    #[prost(message, repeated, tag = "13")]
    pub external_data: Vec<StringStringEntryProto>,
    /// 1 if the elements are in another file.
    #[prost(int32, tag = "14")]
    pub data_location: i32,
}

/// The values of [`TensorProto::data_type`] and of [`TensorTypeProto::elem_type`].
pub mod element_type {
    use dala_spec::DType;

    /// 32-bit floats.
    pub const FLOAT: i32 = 1;
    /// 8-bit unsigned integers.
    pub const UINT8: i32 = 2;
    /// 8-bit signed integers.
    pub const INT8: i32 = 3;
    /// 32-bit signed integers.
    pub const INT32: i32 = 6;
    /// 64-bit signed integers.
    pub const INT64: i32 = 7;
    /// Truth values, a byte each.
    pub const BOOL: i32 = 9;
    /// 16-bit floats.
    pub const FLOAT16: i32 = 10;
    /// 64-bit floats.
    pub const DOUBLE: i32 = 11;
    /// 32-bit unsigned integers.
    pub const UINT32: i32 = 12;

    /// The element type for a number in a file.
    pub(crate) fn dtype(number: i32) -> Result<DType, &'static str> {
        Ok(match number {
            FLOAT => DType::F32,
            DOUBLE => DType::F64,
            INT32 => DType::S32,
            INT64 => DType::S64,
            UINT32 => DType::U32,
            UINT8 | BOOL => DType::U8,
            INT8 => DType::S8,
            4 => DType::U16,
            5 => DType::S16,
            13 => DType::U64,
            FLOAT16 => DType::F16,
            16 => DType::BF16,
            0 => return Err("unknown"),
            8 => return Err("string"),
            14 => return Err("complex64"),
            15 => return Err("complex128"),
            17..=20 => return Err("float8"),
            _ => return Err("a kind that is not known"),
        })
    }
}

/// A pair of texts.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StringStringEntryProto {
    /// The name.
    #[prost(string, tag = "1")]
    pub key: String,
    /// What goes with it.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// An input or output: its name and what it holds.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ValueInfoProto {
    /// The name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// What it holds.
    #[prost(message, optional, tag = "2")]
    pub r#type: Option<TypeProto>,
}

/// What a value holds; only tensors are read.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TypeProto {
    /// A tensor.
    #[prost(message, optional, tag = "1")]
    pub tensor_type: Option<TensorTypeProto>,
}

/// The element type and shape of a tensor.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TensorTypeProto {
    /// The element type: an [`element_type`].
    #[prost(int32, tag = "1")]
    pub elem_type: i32,
    /// The shape, if it is known.
    #[prost(message, optional, tag = "2")]
    pub shape: Option<TensorShapeProto>,
}

/// The dimensions of a tensor.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TensorShapeProto {
    /// The dimensions, outermost first.
    #[prost(message, repeated, tag = "1")]
    pub dim: Vec<DimensionProto>,
}

/// A dimension: a number, a name for an unknown number, or neither.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DimensionProto {
    /// The number.
    #[prost(int64, optional, tag = "1")]
    pub dim_value: Option<i64>,
    /// The name.
    #[prost(string, optional, tag = "2")]
    pub dim_param: Option<String>,
}
