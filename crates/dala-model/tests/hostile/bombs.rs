//! Small files that ask for much: enormous results, endless loops, deep nests, and parts that multiply.

use super::super::Random;
use super::super::builder::{Net, everything, float, floats, int, integers, ints, list, scalar, single, text, value};
use dala_model::proto::{
    AttributeProto, DimensionProto, FunctionProto, ModelProto, NodeProto, OperatorSetIdProto, StringStringEntryProto,
    TensorProto, attribute_type, element_type,
};

/// Makes a file of a kind.
type Maker = fn(&mut Random) -> Net;

/// The kinds, by name.
const KINDS: [(&str, Maker); 24] = [
    ("sizes", sizes),
    ("results", results),
    ("factors", factors),
    ("chain of tiles", tiles),
    ("constants that grow", growing),
    ("equation", equation),
    ("sounds", sounds),
    ("trees", trees),
    ("boxes", boxes),
    ("endless loop", endless),
    ("loops in loops", loops),
    ("list that grows", growing_list),
    ("lists of lists", many_lists),
    ("long scan", long_scan),
    ("deep graphs", deep),
    ("functions of functions", exponential),
    ("function with much inside", heavy_function),
    ("names", names),
    ("long names", long_names),
    ("crowd", crowd),
    ("many ports", ports),
    ("long chain", chain),
    ("wide node", wide),
    ("many batches", batches),
];

/// One of the kinds, and a file of it.
pub(crate) fn bomb(random: &mut Random) -> (&'static str, ModelProto) {
    let (kind, make) = random.pick(&KINDS);
    (kind, make(random).model)
}

fn some(random: &mut Random, len: usize) -> Vec<i64> {
    (0..len)
        .map(|_| random.pick(&[0, 1, -1, 3, 255, 65_537, 1 << 20, 1 << 31, 1 << 40, 1 << 62, i64::MAX, i64::MIN]))
        .collect()
}

/// A constant without dimensions.
fn whole(value: i64) -> TensorProto {
    integers(&[], &[value])
}

fn truth() -> TensorProto {
    TensorProto { data_type: element_type::BOOL, int32_data: vec![1], ..TensorProto::default() }
}

/// Sizes of inputs and weights that cannot be, or whose product cannot.
fn sizes(random: &mut Random) -> Net {
    let mut net = everything();
    let rank = random.below(12);
    let sizes = some(random, rank);
    let graph = net.graph();
    let place = random.below(graph.initializer.len());
    if random.chance(50) {
        graph.initializer[place].dims = sizes;
    } else {
        let ty = graph.input[0].r#type.get_or_insert_default().tensor_type.get_or_insert_default();
        let dims = sizes.iter().map(|&size| DimensionProto { dim_value: Some(size), dim_param: None });
        ty.shape.get_or_insert_default().dim = dims.collect();
    }
    net
}

/// Constants that say how large a result is.
fn results(random: &mut Random) -> Net {
    let x = [-1, 2, 6, 6];
    let (two, four, eight) = (some(random, 2), some(random, 4), some(random, 8));
    let rank = random.below(9);
    let any = some(random, rank);
    let one = some(random, 1)[0];
    let pool = vec![ints("kernel_shape", &two), ints("strides", &some(random, 2)), ints("pads", &four)];
    let weights = floats(&[2, 2, 3, 3], vec![0.5; 36]);
    match random.below(20) {
        0 => single(13, "Expand", &x, vec![list(&any)], vec![]),
        1 => single(13, "Tile", &x, vec![list(&four)], vec![]),
        2 => Net::new(13)
            .x(&x)
            .tensor("a", whole(0))
            .tensor("b", whole(one))
            .tensor("c", whole(random.pick(&[1, 0, -1, i64::MIN])))
            .node("Range", &["a", "b", "c"], "y", vec![])
            .output("y"),
        3 => Net::new(13).x(&x).ints("s", &any).node("ConstantOfShape", &["s"], "y", vec![]).output("y"),
        4 => {
            let mode = random.pick(&["constant", "reflect", "edge", "wrap"]);
            single(19, "Pad", &x, vec![list(&eight), scalar(1.0)], vec![text("mode", mode)])
        }
        5 => Net::new(13)
            .input("x", element_type::INT64, &[-1, 3])
            .tensor("depth", whole(one))
            .floats("ends", &[2], vec![0.0, 1.0])
            .node("OneHot", &["x", "depth", "ends"], "y", vec![int("axis", one)])
            .output("y"),
        6 => single(13, "TopK", &x, vec![list(&[one])], vec![int("axis", -1)]),
        7 => single(13, "Conv", &x, vec![weights], vec![ints("pads", &four), ints("strides", &two)]),
        8 => single(13, "Conv", &x, vec![weights], vec![ints("dilations", &two), int("group", one)]),
        9 => single(13, "ConvTranspose", &x, vec![weights], vec![ints("strides", &two), ints("output_padding", &two)]),
        10 => single(13, "AveragePool", &x, vec![], pool),
        11 => single(13, "MaxPool", &x, vec![], [pool, vec![int("ceil_mode", 1), ints("dilations", &two)]].concat()),
        12 => single(13, "Reshape", &x, vec![list(&any)], vec![int("allowzero", one)]),
        13 => single(13, "Slice", &x, vec![list(&four), list(&any), list(&two), list(&some(random, 2))], vec![]),
        14 => single(18, "ReduceMean", &x, vec![list(&any)], vec![int("keepdims", one)]),
        15 => single(13, "Unsqueeze", &x, vec![list(&any)], vec![]),
        16 => single(13, "Gather", &x, vec![list(&any)], vec![int("axis", one)]),
        17 => single(18, "CenterCropPad", &x, vec![list(&four)], vec![]),
        18 => single(13, "DepthToSpace", &x, vec![], vec![int("blocksize", one)]),
        _ => single(18, "Split", &x, vec![], vec![int("num_outputs", one), int("axis", random.below(4) as i64)]),
    }
}

/// Factors and sizes of `Resize` and `Upsample`.
fn factors(random: &mut Random) -> Net {
    let strange = [0.0, -1.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e9, 1e-30, 60_000.0, 1e30, 1.5];
    let factors = [1.0, random.pick(&[1.0, 2.0]), random.pick(&strange), random.pick(&strange)];
    let mode = || text("mode", "cubic");
    let net = Net::new(13).x(&[-1, 2, 6, 6]).floats("s", &[4], factors.to_vec());
    match random.below(4) {
        0 => net.node("Resize", &["x", "", "s"], "y", vec![]).output("y"),
        1 => net
            .node("Resize", &["x", "", "s"], "y", vec![mode(), float("cubic_coeff_a", random.float() as f32)])
            .output("y"),
        2 => {
            let sizes = some(random, 4);
            net.ints("t", &sizes).node("Resize", &["x", "", "", "t"], "y", vec![mode()]).output("y")
        }
        _ => {
            let mut net = net.node("Upsample", &["x", "s"], "y", vec![text("mode", "linear")]).output("y");
            net.model.opset_import[0].version = 9;
            net
        }
    }
}

/// Each makes the last larger.
fn tiles(random: &mut Random) -> Net {
    let constant = random.chance(50);
    let mut net =
        Net::new(13).x(&[-1, 2]).ints("twice", &[1, random.pick(&[2, 7, 1000])]).floats("one", &[1, 2], vec![1.0; 2]);
    let mut last = if constant { "one".to_owned() } else { "x".to_owned() };
    for number in 0..random.pick(&[3, 10, 40]) {
        let next = format!("t{number}");
        net = net.node("Tile", &[&last, "twice"], &next, vec![]);
        last = next;
    }
    net.node("Add", &[&last, "x"], "y", vec![]).output("y")
}

/// Constants that grow with each node.
fn growing(random: &mut Random) -> Net {
    let shape = [1 + random.below(60) as i64, 60];
    let mut net = Net::new(13).x(&[-1, 2]).ints("shape", &shape);
    net = net.node("ConstantOfShape", &["shape"], "v0", vec![value("value", integers(&[1], &[1]))]);
    for number in 0..20 {
        let (from, to) = (format!("v{number}"), format!("v{}", number + 1));
        net = net.node(random.pick(&["Concat", "Mul", "MatMul", "Add"]), &[&from, &from], &to, vec![int("axis", 0)]);
    }
    net.output("v20")
}

/// Products of many axes.
fn equation(random: &mut Random) -> Net {
    let texts = [
        "ij,kl,mn,op->ijklmnop",
        "ij,kl->",
        "ii->i",
        "...,...",
        "ij,jk,kl,lm->im",
        "ab,cd,ef,gh,ij->",
        "i,i,i,i,i,i->i",
        "->",
    ];
    let side = random.pick(&[2, 50, 60, 2000]);
    let mut net = Net::new(13).x(&[-1, 2]).weights("w", &[side, side.min(60)]);
    let equation = random.pick(&texts);
    let inputs = vec!["w"; equation.split("->").next().unwrap_or_default().split(',').count()];
    net = net.node("Einsum", &inputs, "y", vec![text("equation", equation)]);
    net.output("y")
}

/// Transforms and windows of enormous sizes.
fn sounds(random: &mut Random) -> Net {
    let sizes = some(random, 3);
    let net = Net::new(17).x(&[1, 16, 1]);
    match random.below(4) {
        0 => net.tensor("n", whole(sizes[0])).node("DFT", &["x", "n"], "y", vec![int("axis", 1)]).output("y"),
        1 => net
            .tensor("step", whole(sizes[0]))
            .tensor("length", whole(sizes[1]))
            .node("STFT", &["x", "step", "", "length"], "y", vec![])
            .output("y"),
        2 => net
            .tensor("a", whole(sizes[0]))
            .tensor("b", whole(sizes[1]))
            .tensor("c", whole(random.pick(&[0, 8000, i64::MAX])))
            .tensor("low", scalar(0.0))
            .tensor("high", scalar(f32::from_bits(random.bits() as u32)))
            .node("MelWeightMatrix", &["a", "b", "c", "low", "high"], "y", vec![])
            .output("y"),
        _ => net
            .tensor("n", whole(sizes[0]))
            .node(random.pick(&["HannWindow", "HammingWindow", "BlackmanWindow"]), &["n"], "y", vec![])
            .output("y"),
    }
}

/// Trees whose nodes lead in circles, to nowhere, or very far down.
fn trees(random: &mut Random) -> Net {
    let count = random.pick(&[3usize, 3, 50, 2000]) as i64;
    let numbers: Vec<i64> = (0..count).collect();
    let next: Vec<i64> = numbers
        .iter()
        .map(|own| if random.chance(90) { (own + 1).min(count - 1) } else { random.below(count as usize + 1) as i64 })
        .collect();
    let modes = AttributeProto {
        name: "nodes_modes".to_owned(),
        strings: numbers
            .iter()
            .map(|own| if *own + 1 == count { "LEAF".into() } else { "BRANCH_LEQ".into() })
            .collect(),
        r#type: attribute_type::STRINGS,
        ..AttributeProto::default()
    };
    let values = |name: &str, len: i64| AttributeProto {
        name: name.to_owned(),
        floats: vec![0.5; len as usize],
        r#type: attribute_type::FLOATS,
        ..AttributeProto::default()
    };
    let zeros = vec![0; count as usize];
    let attributes = vec![
        ints("nodes_treeids", &zeros),
        ints("nodes_nodeids", &numbers),
        ints("nodes_featureids", &zeros),
        ints("nodes_truenodeids", &next),
        ints("nodes_falsenodeids", &numbers.iter().map(|_| count - 1).collect::<Vec<_>>()),
        modes,
        values("nodes_values", count),
        ints("target_treeids", &[0]),
        ints("target_nodeids", &[count - 1]),
        ints("target_ids", &[random.pick(&[0, 0, 0, 1 << 40])]),
        values("target_weights", 1),
        int("n_targets", random.pick(&[1, 1, 1, 1 << 20, 1 << 40])),
    ];
    let mut net = single(13, "TreeEnsembleRegressor", &[-1, 2], vec![], attributes);
    net.graph().node[0].domain = "ai.onnx.ml".to_owned();
    net.model.opset_import.push(OperatorSetIdProto { domain: "ai.onnx.ml".to_owned(), version: 3 });
    net
}

/// Boxes to choose from: many, and more to keep than there are.
fn boxes(random: &mut Random) -> Net {
    let count = random.pick(&[4, 1000, 1 << 20, 1 << 40]);
    Net::new(13)
        .input("x", element_type::FLOAT, &[1, count, 4])
        .input("scores", element_type::FLOAT, &[1, random.pick(&[1, 80, 1 << 20]), count])
        .tensor("most", integers(&[1], &some(random, 1)))
        .tensor("overlap", floats(&[1], vec![random.float() as f32]))
        .node("NonMaxSuppression", &["x", "scores", "most", "overlap"], "y", vec![])
        .typed_output("y", element_type::INT64)
}

/// The body of a loop that carries some values on.
fn body(carried: &[&str]) -> Net {
    let net = Net::new(13).input("i", element_type::INT64, &[]).input("on", element_type::BOOL, &[]);
    carried.iter().fold(net, |net, name| net.input(name, element_type::FLOAT, &[-1, 4]))
}

/// More rounds than anyone waits for.
fn endless(random: &mut Random) -> Net {
    let rounds = random.pick(&[1 << 62, i64::MAX, 1 << 20, 200_000, 1000]);
    let body = body(&["c"]);
    let body = match random.below(4) {
        // Nothing to compute.
        0 => body.output("on").output("c"),
        1 => body.node("Add", &["c", "x"], "d", vec![]).output("on").output("d"),
        2 => body.node("Add", &["i", "i"], "d", vec![]).output("on").output("c").output("d"),
        // It doubles.
        _ => body.node("Concat", &["c", "c"], "d", vec![int("axis", 0)]).output("on").output("d"),
    };
    let outputs: &[&str] = if random.chance(50) { &["y", "all"] } else { &["y"] };
    let net = Net::new(13).x(&[-1, 4]).tensor("most", whole(rounds)).tensor("true", truth());
    let most = if random.chance(80) { "most" } else { "" };
    let net = net.node_of("Loop", &[most, "true", "x"], outputs, vec![body.inside("body")]);
    net.typed_output("y", element_type::FLOAT)
}

/// Loops of loops of loops that compute next to nothing.
fn loops(random: &mut Random) -> Net {
    let depth = 1 + random.below(18);
    let rounds = random.pick(&[2, 10, 1000, 1 << 40]);
    let mut inner = body(&["c"]);
    inner = match random.below(3) {
        0 => inner.output("on").output("c"),
        1 => {
            inner.node("Neg", &["i"], "d", vec![]).node("Abs", &["d"], "e", vec![]).output("on").output("c").output("e")
        }
        _ => inner.node("Neg", &["c"], "d", vec![]).output("on").output("d"),
    };
    for _ in 0..depth {
        let own = body(&["c"]).node("Loop", &["most", "true", "c"], "d", vec![inner.inside("body")]);
        inner = own.output("on").output("d");
    }
    Net::new(13)
        .x(&[-1, 4])
        .tensor("most", whole(rounds))
        .tensor("true", truth())
        .node("Loop", &["most", "true", "x"], "y", vec![inner.inside("body")])
        .typed_output("y", element_type::FLOAT)
}

/// A list that has one more in each round.
fn growing_list(random: &mut Random) -> Net {
    let body = body(&["c"]).node("SequenceInsert", &["c", "x"], "d", vec![]).output("on").output("d");
    let net = Net::new(13).x(&[-1, 4]).tensor("most", whole(random.pick(&[10, 3000, 1 << 62]))).tensor("true", truth());
    let net = net.node("SequenceEmpty", &[], "none", vec![]);
    let net = net.node("Loop", &["most", "true", "none"], "all", vec![body.inside("body")]);
    match random.below(2) {
        0 => net.node("SequenceLength", &["all"], "y", vec![]).typed_output("y", element_type::INT64),
        _ => net.node("ConcatFromSequence", &["all"], "y", vec![int("axis", 0)]).typed_output("y", element_type::FLOAT),
    }
}

/// A long list, copied by many nodes.
fn many_lists(random: &mut Random) -> Net {
    let len = random.pick(&[100, 20_000, 90_000, 1 << 30]);
    let mut net = Net::new(13).x(&[len, 1]).node("SplitToSequence", &["x"], "l0", vec![int("keepdims", 0)]);
    let count = random.pick(&[10, 2000]);
    for number in 0..count {
        let (from, to) = (format!("l{number}"), format!("l{}", number + 1));
        net = net.node(random.pick(&["SequenceErase", "Identity"]), &[&from], &to, vec![]);
    }
    net.node("SequenceLength", &[&format!("l{count}")], "y", vec![]).typed_output("y", element_type::INT64)
}

/// A body for each row of very many.
fn long_scan(random: &mut Random) -> Net {
    let length = random.pick(&[3, 5000, 99_999, 1 << 20, 1 << 31]);
    let body = Net::new(13)
        .input("s", element_type::FLOAT, &[2])
        .input("r", element_type::FLOAT, &[2])
        .node("Add", &["s", "r"], "t", vec![])
        .output("t")
        .output("r");
    Net::new(13)
        .x(&[length, 2])
        .floats("start", &[2], vec![0.5; 2])
        .node_of("Scan", &["start", "x"], &["y", "all"], vec![body.inside("body"), int("num_scan_inputs", 1)])
        .typed_output("y", element_type::FLOAT)
        .typed_output("all", element_type::FLOAT)
}

/// Graphs inside graphs, many thousand deep.
fn deep(random: &mut Random) -> Net {
    let length = |mut len: usize, bytes: &mut Vec<u8>| {
        while len >= 0x80 {
            bytes.push(len as u8 | 0x80);
            len >>= 7;
        }
        bytes.push(len as u8);
    };
    // From the inside: an attribute's graph, a graph's node, a node's attribute. The lengths are worked out first.
    let most = random.pick(&[20, 3000, 10_000]);
    let depth = 1 + random.below(most);
    let mut sizes = vec![0usize];
    for level in 0..3 * depth {
        let inner = sizes[level];
        let mut prefix = Vec::new();
        length(inner, &mut prefix);
        sizes.push(inner + prefix.len() + 1);
    }
    let mut bytes = Vec::new();
    for level in (0..3 * depth).rev() {
        bytes.push([0x32, 0x0a, 0x2a][level % 3]);
        length(sizes[level], &mut bytes);
    }
    let mut net = everything();
    let attribute = AttributeProto {
        name: "body".to_owned(),
        g: Some(bytes.into()),
        r#type: attribute_type::GRAPH,
        ..Default::default()
    };
    let place = random.below(net.graph().node.len());
    net.graph().node[place].attribute.push(attribute);
    if random.chance(50) {
        net.graph().node[place].op_type = random.pick(&["Loop", "If", "Scan"]).to_owned();
    }
    // Functions are looked for on all levels.
    if random.chance(50) {
        net.model.functions.push(FunctionProto { name: "F".to_owned(), ..FunctionProto::default() });
    }
    net
}

fn use_of(function: &str, input: &str, output: &str) -> NodeProto {
    NodeProto {
        input: vec![input.to_owned()],
        output: vec![output.to_owned()],
        op_type: function.to_owned(),
        domain: "own".to_owned(),
        ..NodeProto::default()
    }
}

fn function(name: &str, node: Vec<NodeProto>) -> FunctionProto {
    FunctionProto {
        name: name.to_owned(),
        domain: "own".to_owned(),
        input: vec!["a".to_owned()],
        output: vec!["b".to_owned()],
        node,
        ..FunctionProto::default()
    }
}

/// `y` from `x` by uses of a function, as the net's only nodes.
fn using(functions: Vec<FunctionProto>, uses: usize) -> Net {
    let mut net = Net::new(13).x(&[-1, 4]);
    let name = |number: usize| if number == uses { "y".to_owned() } else { format!("v{number}") };
    let first = functions.first().map(|own| own.name.clone()).unwrap_or_default();
    let input = |number: usize| if number == 1 { "x".to_owned() } else { name(number - 1) };
    net.graph().node = (1..=uses).map(|number| use_of(&first, &input(number), &name(number))).collect();
    net.model.functions = functions;
    net.model.opset_import.push(OperatorSetIdProto { domain: "own".to_owned(), version: 1 });
    net.output("y")
}

/// Functions that use the next one several times, or themselves.
fn exponential(random: &mut Random) -> Net {
    let (depth, width) = (random.pick(&[1, 3, 15, 30, 200]), random.pick(&[1, 2, 10]));
    let closes = random.chance(30);
    let own = |level: usize| {
        let next = match level + 1 == depth {
            true if closes => "F0".to_owned(),
            true => "none".to_owned(),
            false => format!("F{}", level + 1),
        };
        let name = |number: usize| if number == width { "b".to_owned() } else { format!("m{number}") };
        let input = |number: usize| if number == 1 { "a".to_owned() } else { name(number - 1) };
        let mut nodes: Vec<NodeProto> =
            (1..=width).map(|number| use_of(&next, &input(number), &name(number))).collect();
        if next == "none" {
            nodes.iter_mut().for_each(|node| (node.op_type, node.domain) = ("Neg".to_owned(), String::new()));
        }
        function(&format!("F{level}"), nodes)
    };
    using((0..depth).map(own).collect(), 2)
}

/// A function that is copied often and has much to copy.
fn heavy_function(random: &mut Random) -> Net {
    let mut node = use_of("Neg", "a", "b");
    node.domain = String::new();
    let size = random.pick(&[10, 20_000]);
    let long = "n".repeat(size);
    let mut own = function("F", Vec::new());
    match random.below(8) {
        0 => node.attribute.push(AttributeProto { floats: vec![0.5; size], ..float("f", 1.0) }),
        1 => node.attribute = vec![AttributeProto::default(); size],
        2 => node.name.clone_from(&long),
        3 => node.attribute.push(Net::new(13).weights("w", &[size as i64]).inside("g")),
        4 => node.attribute = vec![AttributeProto { ref_attr_name: "big".to_owned(), ..int("x", 1) }; 100],
        5 => own.input = (0..size).map(|number| format!("a{number}")).chain(["a".to_owned()]).collect(),
        6 => own.attribute_proto = vec![AttributeProto::default(); size],
        _ => own.name.clone_from(&long),
    }
    own.attribute_proto.push(AttributeProto { floats: vec![0.5; size], ..float("big", 1.0) });
    own.node = vec![node];
    let mut net = using(vec![own], random.pick(&[3, 2000, 5000]));
    if random.chance(20) {
        net.graph().node[0].output = vec![long.clone()];
        net.graph().node[1].input = vec![long];
    }
    net
}

/// Inner graphs that use names of outer ones again, and read names that nobody has.
fn names(random: &mut Random) -> Net {
    let any = |random: &mut Random| random.pick(&["x", "y", "c", "i", "on", "nowhere", "d", "", "true"]);
    let mut inner = body(&[any(random)]);
    for _ in 0..3 {
        let (from, to) = (any(random), any(random));
        inner = inner.node(random.pick(&["Neg", "Identity", "Add"]), &[from], to, vec![]);
    }
    inner = inner.output(any(random)).output(any(random));
    let net = Net::new(13).x(&[-1, 4]).tensor("most", whole(3)).tensor("true", truth());
    let net = net.node("Identity", &["x"], any(random), vec![]);
    net.node("Loop", &["most", "true", "x"], "y", vec![inner.inside("body")]).typed_output("y", element_type::FLOAT)
}

/// Long names in a body that is repeated.
fn long_names(random: &mut Random) -> Net {
    let long = random.pick(&["long ", "длинный ", "\u{301}"]).repeat(random.pick(&[100, 20_000]));
    let mut inner = body(&["c"]).node("Add", &["c", "x"], &long, vec![]).output("on").output(&long);
    inner.graph().node[0].name.clone_from(&long);
    Net::new(13)
        .x(&[-1, 4])
        .tensor("most", whole(random.pick(&[10, 3000, 1 << 40])))
        .tensor("true", truth())
        .node("Loop", &["most", "true", "x"], "y", vec![inner.inside("body")])
        .typed_output("y", element_type::FLOAT)
}

/// Many small parts, each of which takes more memory than bytes.
fn crowd(random: &mut Random) -> Net {
    let mut net = everything();
    let count = 1000 + random.below(40_000);
    let entries = vec![StringStringEntryProto::default(); count];
    let graph = net.graph();
    match random.below(8) {
        0 => graph.node.extend(vec![NodeProto::default(); count]),
        1 => graph.node[0].attribute.extend(vec![AttributeProto::default(); count]),
        2 => graph.node[0].input.extend(vec![String::new(); count]),
        3 => {
            graph.initializer.extend(vec![TensorProto { data_type: element_type::FLOAT, ..Default::default() }; count])
        }
        4 => graph.initializer[0].external_data = entries,
        5 => {
            let attributes = vec![AttributeProto::default(); count];
            net.model.functions = vec![FunctionProto { attribute_proto: attributes, ..FunctionProto::default() }];
        }
        6 => net.model.opset_import.extend(vec![OperatorSetIdProto::default(); count]),
        _ => {
            let ty = graph.input[0].r#type.get_or_insert_default().tensor_type.get_or_insert_default();
            ty.shape.get_or_insert_default().dim = vec![DimensionProto::default(); count];
        }
    }
    net
}

/// Many inputs with open sizes, or outputs of which the file says nothing.
fn ports(random: &mut Random) -> Net {
    let count = random.pick(&[10, 1000, 8000]);
    let mut net = Net::new(13).x(&[-1, 4]);
    let open = random.chance(50);
    for number in 0..count {
        net = net.input(&format!("p{number}"), element_type::FLOAT, if open { &[-1, -1] } else { &[-1, 4] });
        if open && let Some(input) = net.graph().input.last_mut() {
            let tensor = input.r#type.get_or_insert_default().tensor_type.get_or_insert_default();
            tensor.shape.get_or_insert_default().dim[1].dim_param = Some(format!("size{number}"));
        }
    }
    for number in 0..count {
        let (input, output) = (format!("p{number}"), format!("q{number}"));
        net = net.node("Neg", &[&input], &output, vec![]).output(&output);
    }
    net
}

/// One node after the other, very often.
fn chain(random: &mut Random) -> Net {
    let count = random.pick(&[100, 1000, 4000]);
    let op = random.pick(&["Relu", "Neg", "Identity", "Flatten", "Softmax", "Shape"]);
    let mut net = Net::new(13).x(&[-1, 4]);
    for number in 0..count {
        let from = if number == 0 { "x".to_owned() } else { format!("v{}", number - 1) };
        net = net.node(op, &[&from], &format!("v{number}"), vec![]);
    }
    if random.chance(50) {
        net.graph().node.reverse();
    }
    net.output(&format!("v{}", count - 1))
}

/// A node that reads very many others.
fn wide(random: &mut Random) -> Net {
    let count = random.pick(&[100, 500]);
    let mut net = Net::new(13).x(&[-1, 4]);
    let names: Vec<String> = (0..count).map(|number| format!("v{number}")).collect();
    let inputs: Vec<&str> = names.iter().map(String::as_str).collect();
    net = net.node(random.pick(&["Concat", "Sum", "Max", "Mean"]), &inputs, "y", vec![int("axis", 1)]);
    for name in &names {
        net = net.node("Neg", &["x"], name, vec![]);
    }
    net.output("y")
}

/// A shape that may be one for many batches, after much that is computed for each.
fn batches(random: &mut Random) -> Net {
    let inner = body(&["c"]).node("Neg", &["i"], "d", vec![]).output("on").output("c").output("d");
    Net::new(13)
        .x(&[-1, 4])
        .tensor("most", whole(random.pick(&[10, 20_000])))
        .tensor("true", truth())
        .node_of("Loop", &["most", "true", "x"], &["last", "all"], vec![inner.inside("body")])
        .node("Size", &["all"], "count", vec![])
        .node("Cast", &["count"], "number", vec![int("to", 1)])
        .node("Add", &["last", "number"], "sum", vec![])
        .ints("shape", &[720_720 * 4, random.pick(&[7, 1 << 40])])
        .node("Reshape", &["sum", "shape"], "y", vec![])
        .output("y")
}

/// A loop that values keep going for ever.
pub(crate) fn never_ends() -> Vec<u8> {
    let body = body(&["c"])
        .node("ReduceSum", &["c"], "total", vec![int("keepdims", 0)])
        .node("Greater", &["total", "limit"], "still", vec![])
        .tensor("limit", scalar(-1.0))
        .output("still")
        .output("c");
    Net::new(13)
        .x(&[1, 4])
        .tensor("true", truth())
        .node("Loop", &["", "true", "x"], "y", vec![body.inside("body")])
        .typed_output("y", element_type::FLOAT)
        .bytes()
}
