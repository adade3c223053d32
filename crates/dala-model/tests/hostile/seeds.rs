//! Files that can be read: every operator, and every way to put operators together.

use dala_model::proto::{FunctionProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, element_type};
use prost::Message;

use self::cases::Cases;
use super::super::builder::{Net, everything, float, floats, int, ints, list, scalar, single, text};

#[path = "../support/cases.rs"]
#[allow(clippy::unwrap_used, reason = "tests open the file, which is part of the program here")]
mod cases;

/// One operator in each, all operators.
const CASES: &[u8] = include_bytes!("../data/operators.cases");

/// How many of the files are made here: they have graphs in graphs, functions and lists.
pub(crate) const OWN: usize = 19;

/// Small files: those made here first, then one for each case of the operators.
pub(crate) fn seeds() -> Vec<ModelProto> {
    let x = [-1, 2, 6, 6];
    let window = || vec![ints("kernel_shape", &[3, 3]), ints("strides", &[2, 1]), ints("pads", &[1, 0, 1, 0])];
    // A kernel has one output.
    let mut one = everything();
    one.graph().output.truncate(1);
    let nets = vec![
        everything(),
        one,
        branches(),
        rounds(),
        scanned(),
        lists(),
        decided(),
        functions(),
        several(),
        single(13, "Conv", &x, vec![floats(&[2, 2, 3, 3], vec![0.5; 36])], window()),
        single(13, "MaxPool", &x, vec![], window()),
        single(13, "Reshape", &x, vec![list(&[0, -1])], vec![]),
        single(13, "Pad", &x, vec![list(&[0, 0, 1, 1, 0, 0, 1, 1]), scalar(1.0)], vec![text("mode", "reflect")]),
        single(13, "Slice", &x, vec![list(&[0, 1]), list(&[9, -1]), list(&[2, 3]), list(&[1, 2])], vec![]),
        single(18, "ReduceMean", &x, vec![list(&[2, 3])], vec![int("keepdims", 0)]),
        single(13, "Gather", &x, vec![list(&[1, 0, -1])], vec![int("axis", 2)]),
        single(13, "Transpose", &x, vec![], vec![ints("perm", &[0, 3, 1, 2])]),
        single(13, "MatMul", &[-1, 6], vec![floats(&[6, 4], vec![0.5; 24])], vec![]),
        single(13, "Cast", &x, vec![], vec![int("to", 7)]),
    ];
    let cases = Cases::decode(CASES).map(|cases| cases.cases).unwrap_or_default();
    // Real sizes add nothing that is damaged but time.
    let small = cases.into_iter().filter_map(|case| case.model).filter(|model| model.encoded_len() < 20_000);
    nets.into_iter().map(|net| net.model).chain(small).collect()
}

/// `x` and three truths, which are constants.
fn with_truth(dims: &[i64]) -> Net {
    let truth = TensorProto { data_type: element_type::BOOL, int32_data: vec![1], ..TensorProto::default() };
    Net::new(13).x(dims).tensor("true", truth).tensor("three", super::super::builder::integers(&[], &[3]))
}

/// A branch in a branch; the inner one reads what is around both.
fn branches() -> Net {
    let inner = |op: &str| Net::new(13).node(op, &["x"], "inner", vec![]).output("inner");
    let then = Net::new(13)
        .node("If", &["true"], "chosen", vec![inner("Relu").inside("then_branch"), inner("Neg").inside("else_branch")])
        .node("Add", &["chosen", "x"], "taken", vec![])
        .output("taken");
    let other = Net::new(13).node("Identity", &["x"], "left", vec![]).output("left");
    with_truth(&[-1, 4])
        .node("If", &["true"], "y", vec![then.inside("then_branch"), other.inside("else_branch")])
        .typed_output("y", element_type::FLOAT)
}

/// A loop of three rounds that carries one value and collects another.
fn rounds() -> Net {
    let body = Net::new(13)
        .input("round", element_type::INT64, &[])
        .input("on", element_type::BOOL, &[])
        .input("sum", element_type::FLOAT, &[-1, 4])
        .node("Add", &["sum", "x"], "more", vec![])
        .node("Mul", &["more", "half"], "less", vec![])
        .node("Identity", &["on"], "still", vec![])
        .tensor("half", scalar(0.5))
        .output("still")
        .output("more")
        .output("less");
    with_truth(&[-1, 4])
        .node_of("Loop", &["three", "true", "x"], &["last", "all"], vec![body.inside("body")])
        .typed_output("last", element_type::FLOAT)
        .typed_output("all", element_type::FLOAT)
}

/// A scan over the rows of `x` that also reads what is around it.
fn scanned() -> Net {
    let body = Net::new(13)
        .input("state", element_type::FLOAT, &[4])
        .input("row", element_type::FLOAT, &[4])
        .node("Add", &["state", "row"], "sum", vec![])
        .node("Mul", &["sum", "start"], "out", vec![])
        .output("sum")
        .output("out");
    Net::new(13)
        .x(&[5, 4])
        .floats("start", &[4], vec![0.5; 4])
        .node_of("Scan", &["start", "x"], &["last", "all"], vec![body.inside("body"), int("num_scan_inputs", 1)])
        .typed_output("last", element_type::FLOAT)
        .typed_output("all", element_type::FLOAT)
}

/// Lists: cut, grown in a loop, joined.
fn lists() -> Net {
    let body = Net::new(13)
        .input("round", element_type::INT64, &[])
        .input("on", element_type::BOOL, &[])
        .input("some", element_type::FLOAT, &[])
        .node("SequenceInsert", &["some", "x"], "more", vec![])
        .node("Identity", &["on"], "still", vec![])
        .output("still")
        .output("more");
    with_truth(&[4, 3])
        .node("SplitToSequence", &["x"], "pieces", vec![int("axis", 0)])
        .node("SequenceErase", &["pieces"], "fewer", vec![])
        .node("Loop", &["three", "true", "fewer"], "grown", vec![body.inside("body")])
        .node("SequenceLength", &["grown"], "length", vec![])
        .node("ConcatFromSequence", &["grown"], "y", vec![int("axis", 0)])
        .typed_output("y", element_type::FLOAT)
        .typed_output("length", element_type::INT64)
}

/// Values decide: how often a loop runs, a branch, and a shape.
fn decided() -> Net {
    let body = Net::new(13)
        .input("round", element_type::INT64, &[])
        .input("on", element_type::BOOL, &[])
        .input("sum", element_type::FLOAT, &[4])
        .node("Add", &["sum", "x"], "more", vec![])
        .node("ReduceSum", &["more"], "total", vec![int("keepdims", 0)])
        .node("Less", &["total", "limit"], "still", vec![])
        .tensor("limit", scalar(30.0))
        .output("still")
        .output("more");
    with_truth(&[4])
        .node("Loop", &["", "true", "x"], "last", vec![body.inside("body")])
        .node("NonZero", &["last"], "places", vec![])
        .typed_output("last", element_type::FLOAT)
        .typed_output("places", element_type::INT64)
}

/// Functions of the file: one uses another, in a branch as well, with attributes of the use.
fn functions() -> Net {
    let node = |op: &str, domain: &str, inputs: &[&str], output: &str, attribute| NodeProto {
        input: inputs.iter().map(|name| (*name).to_owned()).collect(),
        output: vec![output.to_owned()],
        op_type: op.to_owned(),
        domain: domain.to_owned(),
        attribute,
        ..NodeProto::default()
    };
    let given = dala_model::proto::AttributeProto { ref_attr_name: "slope".to_owned(), ..float("alpha", 0.0) };
    let function = |name: &str, nodes: Vec<NodeProto>| FunctionProto {
        name: name.to_owned(),
        domain: "own".to_owned(),
        input: vec!["a".to_owned()],
        output: vec!["b".to_owned()],
        node: nodes,
        attribute_proto: vec![float("slope", 0.1)],
        ..FunctionProto::default()
    };
    let branch = Net::new(13).node("Neg", &["m"], "inner", vec![]).output("inner");
    let inner =
        function("Inner", vec![node("LeakyRelu", "", &["a"], "m", vec![given]), node("Neg", "", &["m"], "b", vec![])]);
    let outer = function(
        "Outer",
        vec![
            node("Inner", "own", &["a"], "m", vec![float("slope", 0.5)]),
            node("Constant", "", &[], "c", vec![ints("value_ints", &[1])]),
            node("Cast", "", &["c"], "d", vec![int("to", 9)]),
            node("If", "", &["d"], "b", vec![branch.clone().inside("then_branch"), branch.inside("else_branch")]),
        ],
    );
    let mut net = Net::new(13).x(&[-1, 4]);
    net.graph().node = vec![
        node("Outer", "own", &["x"], "first", vec![]),
        node("Outer", "own", &["first"], "y", vec![float("slope", 0.2)]),
    ];
    net.model.functions = vec![inner, outer];
    net.model.opset_import.push(OperatorSetIdProto { domain: "own".to_owned(), version: 1 });
    net.output("y")
}

/// Several inputs and outputs with sizes of several names.
fn several() -> Net {
    let mut net = Net::new(13)
        .x(&[-1, -1, 4])
        .input("z", element_type::FLOAT, &[-1, 4, -1])
        .node("MatMul", &["x", "z"], "y", vec![])
        .node_of("Split", &["x"], &["a", "b"], vec![int("axis", 2)])
        .node("Shape", &["y"], "shape", vec![])
        .node("Reshape", &["y", "shape"], "again", vec![])
        .output("again")
        .typed_output("a", element_type::FLOAT)
        .typed_output("b", element_type::FLOAT);
    let names = [("x", 1, "rows"), ("z", 2, "columns")];
    for (port, axis, name) in names {
        let input = net.graph().input.iter_mut().find(|input| input.name == port);
        let tensor = input.and_then(|input| input.r#type.as_mut()).and_then(|ty| ty.tensor_type.as_mut());
        let dim = tensor.and_then(|tensor| tensor.shape.as_mut()).and_then(|shape| shape.dim.get_mut(axis));
        dim.into_iter().for_each(|dim| dim.dim_param = Some(name.to_owned()));
    }
    net
}
