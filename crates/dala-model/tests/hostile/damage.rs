//! Changes to files that can be read, after which most cannot.

use dala_model::proto::{
    AttributeProto, DimensionProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, attribute_type,
    element_type,
};
use prost::Message;

use super::super::Random;
use super::super::builder::{int, ints};

/// Names of attributes, and texts that mean something in one.
const ATTRIBUTES: [&str; 24] = [
    "axis",
    "axes",
    "pads",
    "strides",
    "kernel_shape",
    "dilations",
    "group",
    "perm",
    "keepdims",
    "alpha",
    "to",
    "ceil_mode",
    "auto_pad",
    "mode",
    "transB",
    "epsilon",
    "allowzero",
    "hidden_size",
    "num_scan_inputs",
    "blocksize",
    "equation",
    "direction",
    "value",
    "body",
];
const TEXTS: [&str; 12] = [
    "",
    "SAME_UPPER",
    "linear",
    "cubic",
    "reflect",
    "wrap",
    "bidirectional",
    "ij,jk->ik",
    "a…z->",
    "...",
    "MIN",
    "é\0",
];

/// Bytes changed, put in, left out and cut off.
pub(crate) fn scramble(bytes: &mut Vec<u8>, random: &mut Random) {
    if random.chance(15) {
        bytes.truncate(random.below(bytes.len()));
    }
    for _ in 0..=random.below(12) {
        // Most of a file may be weights; the graph comes first.
        let reach = random.pick(&[bytes.len(), bytes.len() / 3, 200]).min(bytes.len());
        if reach == 0 {
            return;
        }
        let place = random.below(reach);
        match random.below(5) {
            0 => bytes[place] ^= 1 << random.below(8),
            1 => bytes[place] = random.bits() as u8,
            2 => bytes[place] = random.pick(&[0, 0x7f, 0x80, 0xff]),
            3 => bytes.insert(place, random.bits() as u8),
            _ => {
                bytes.remove(place);
            }
        }
    }
}

/// Changes one thing about a file; nodes, names and attributes come from `others` too.
pub(crate) fn damage(model: &mut ModelProto, others: &[ModelProto], random: &mut Random) {
    match random.below(40) {
        0 => model.opset_import.iter_mut().for_each(|set| set.version = 5 + random.below(20) as i64),
        1 => model.opset_import.iter_mut().for_each(|set| set.version = random.number()),
        2..=11 if !model.functions.is_empty() => {
            let place = random.below(model.functions.len());
            let names: Vec<FunctionProto> = model.functions.clone();
            function(&mut model.functions[place], &names, others, random);
        }
        _ => {
            if let Some(own) = &mut model.graph {
                graph(own, others, random, 0);
            }
        }
    }
}

/// Mostly a small number, at times a strange one.
fn number(random: &mut Random) -> i64 {
    if random.chance(70) { random.below(9) as i64 - 2 } else { random.number() }
}

fn function(own: &mut FunctionProto, all: &[FunctionProto], others: &[ModelProto], random: &mut Random) {
    match random.below(8) {
        // One that uses itself, or one that uses it.
        0 | 1 if !own.node.is_empty() => {
            let (place, other) = (random.below(own.node.len()), random.pick(all));
            (own.node[place].op_type, own.node[place].domain) = (other.name, other.domain);
        }
        2 => own.input.push(random.pick(&["a", "b", ""]).to_owned()),
        3 => own.output.clear(),
        4 => own.name = random.pick(all).name,
        5 => {
            let mut attributes = own.attribute_proto.clone();
            own.attribute_proto.append(&mut attributes);
        }
        _ => {
            let mut inner = GraphProto { node: std::mem::take(&mut own.node), ..GraphProto::default() };
            graph(&mut inner, others, random, 1);
            own.node = inner.node;
        }
    }
}

/// Changes one thing about a graph, or about one inside it.
fn graph(own: &mut GraphProto, others: &[ModelProto], random: &mut Random, depth: usize) {
    let inner = own.node.iter().flat_map(|node| &node.attribute).filter(|attribute| attribute.g.is_some()).count();
    if inner > 0 && depth < 4 && random.chance(50) {
        let chosen = random.below(inner);
        let mut attributes = own.node.iter_mut().flat_map(|node| &mut node.attribute).filter(|own| own.g.is_some());
        if let Some(attribute) = attributes.nth(chosen)
            && let Some(mut inside) = attribute.g.take().and_then(|bytes| GraphProto::decode(bytes).ok())
        {
            graph(&mut inside, others, random, depth + 1);
            attribute.g = Some(inside.encode_to_vec().into());
        }
        return;
    }
    let mut names: Vec<String> =
        own.node.iter().flat_map(|node| node.output.iter().chain(&node.input).cloned()).collect();
    names.extend(own.input.iter().map(|input| input.name.clone()));
    names.extend(["nowhere".to_owned(), String::new(), "x\0".to_owned()]);
    let any = |random: &mut Random| -> Option<NodeProto> {
        let other = random.pick(others).graph?;
        (!other.node.is_empty()).then(|| random.pick(&other.node))
    };
    match random.below(16) {
        0 | 1 if !own.initializer.is_empty() => {
            let place = random.below(own.initializer.len());
            tensor(&mut own.initializer[place], random);
        }
        2 if !own.initializer.is_empty() => {
            let place = random.below(own.initializer.len());
            match random.below(3) {
                0 => own.initializer[place].name = random.pick(&names),
                1 => own.initializer.push(own.initializer[place].clone()),
                _ => {
                    own.initializer.remove(place);
                }
            }
        }
        3 if !own.input.is_empty() => {
            let place = random.below(own.input.len());
            port(&mut own.input[place], random);
        }
        4 if !own.output.is_empty() => {
            let place = random.below(own.output.len());
            match random.below(3) {
                // Another end: whatever is not needed for it is left out.
                0 => own.output[place].name = random.pick(&names),
                1 => port(&mut own.output[place], random),
                _ => {
                    own.output.remove(place);
                }
            }
        }
        _ if own.node.is_empty() => {}
        // An operator from elsewhere between two of these.
        5 => {
            if let Some(node) = any(random) {
                let place = random.below(own.node.len());
                own.node[place].op_type = node.op_type;
                own.node[place].domain = node.domain;
                if random.chance(70) {
                    own.node[place].attribute = node.attribute;
                }
            }
        }
        6 => own.node.reverse(),
        7 => {
            let place = random.below(own.node.len());
            own.node.push(own.node[place].clone());
        }
        8..=10 => {
            let place = random.below(own.node.len());
            wires(&mut own.node[place], &names, random);
        }
        _ => {
            let place = random.below(own.node.len());
            attributes(&mut own.node[place].attribute, random);
        }
    }
}

/// Inputs and outputs dropped, swapped, added, of the node itself, and of no node.
fn wires(node: &mut NodeProto, names: &[String], random: &mut Random) {
    match random.below(10) {
        0 => node.input.push(random.pick(names)),
        1 => node.input.truncate(random.below(3)),
        2 => node.output.push("more".to_owned()),
        3 => node.input.reverse(),
        4 => node.output = vec![random.pick(names)],
        5 => node.output.clear(),
        6 => node.input.clone_from(&node.output),
        7 => node.input.iter_mut().take(1).for_each(|input| *input = "long".repeat(1000)),
        8 => node.output.iter_mut().for_each(String::clear),
        _ => node.input.iter_mut().take(2).for_each(|input| *input = random.pick(names)),
    }
}

fn port(own: &mut dala_model::proto::ValueInfoProto, random: &mut Random) {
    let tensor = own.r#type.get_or_insert_default().tensor_type.get_or_insert_default();
    let dims = &mut tensor.shape.get_or_insert_default().dim;
    match (random.below(6), dims.len()) {
        (0, _) => tensor.elem_type = random.below(22) as i32 - 1,
        (1, _) => dims.truncate(random.below(4)),
        (2, _) => dims.push(DimensionProto { dim_value: Some(number(random)), dim_param: None }),
        (3, _) => own.r#type = None,
        (_, 0) => {}
        (4, len) => {
            dims[random.below(len)] = DimensionProto { dim_value: None, dim_param: Some("n".repeat(random.below(3))) }
        }
        (_, len) => dims[random.below(len)].dim_value = Some(number(random)),
    }
}

fn attributes(own: &mut Vec<AttributeProto>, random: &mut Random) {
    let name = random.pick(&ATTRIBUTES);
    match own.len() {
        0 if random.chance(50) => own.push(int(name, number(random))),
        0 => {
            let values: Vec<i64> = (0..random.below(5)).map(|_| number(random)).collect();
            own.push(ints(name, &values));
        }
        len => {
            let place = random.below(len);
            match random.below(12) {
                0 => own.push(own[place].clone()),
                1 => {
                    own.remove(place);
                }
                _ => attribute(&mut own[place], random),
            }
        }
    }
}

fn attribute(own: &mut AttributeProto, random: &mut Random) {
    match random.below(12) {
        0 => own.r#type = random.below(16) as i32,
        1 => own.name = random.pick(&ATTRIBUTES).to_owned(),
        2 => own.ints.push(number(random)),
        3 => own.ints.truncate(random.below(4)),
        4 => {
            (own.s, own.r#type) = (Some(random.pick(&TEXTS).as_bytes().into()), attribute_type::STRING);
        }
        5 => *own = int(&own.name, random.number()),
        6 => {
            let len = random.pick(&[0, 1, 2, 40, 5000]);
            let values: Vec<i64> = (0..len).map(|_| number(random)).collect();
            *own = ints(&own.name, &values);
        }
        7 => own.g = None,
        8 => own.ref_attr_name = "slope".to_owned(),
        _ => {
            own.ints.iter_mut().for_each(|value| {
                if random.chance(40) {
                    *value = number(random);
                }
            });
            own.floats.iter_mut().for_each(|value| {
                if random.chance(40) {
                    *value = random.float() as f32;
                }
            });
            own.strings.truncate(random.below(9));
            own.i = own.i.map(|_| number(random));
            own.f = own.f.map(|_| random.float() as f32);
            own.s =
                own.s.take().map(|text| if random.chance(50) { text } else { random.pick(&TEXTS).as_bytes().into() });
            if let Some(inner) = &mut own.t {
                tensor(inner, random);
            }
        }
    }
}

/// Other dimensions, and mostly as much data as they say; other elements and types.
fn tensor(own: &mut TensorProto, random: &mut Random) {
    match random.below(9) {
        0 => own.data_type = random.below(22) as i32 - 1,
        1 => own.raw_data = Some(vec![0; random.below(100)].into()),
        2 => own.float_data.truncate(random.below(4)),
        3 => {
            own.data_location = 1;
            let entry = |key: &str, value: &str| dala_model::proto::StringStringEntryProto {
                key: key.to_owned(),
                value: value.to_owned(),
            };
            let place = random.pick(&["weights", "../weights", "/etc/passwd", "", "/dev/zero", "a\0b"]);
            own.external_data = vec![entry("location", place), entry("offset", &random.number().to_string())];
        }
        // Lists of integers are shapes, axes and pads.
        4..=6 if own.data_type == element_type::INT64 => {
            let len = own.dims.iter().fold(1i64, |len, dim| len.saturating_mul(*dim)).clamp(0, 64);
            let bytes: Vec<u8> = (0..len).flat_map(|_| number(random).to_le_bytes()).collect();
            (own.raw_data, own.int64_data) = (Some(bytes.into()), Vec::new());
        }
        4 if own.data_type == element_type::FLOAT => {
            let len = own.dims.iter().fold(1i64, |len, dim| len.saturating_mul(*dim)).clamp(0, 4096);
            (own.raw_data, own.float_data) = (None, (0..len).map(|_| random.float() as f32).collect());
        }
        _ => {
            let sizes = [0, 1, 2, 3, 4, 6, 8, -1, 1 << 20, 1 << 31, 1 << 40, i64::MAX];
            match own.dims.len() {
                len if len > 0 && random.chance(70) => own.dims[random.below(len)] = random.pick(&sizes),
                _ if random.chance(50) => own.dims.push(random.pick(&sizes)),
                _ => {
                    own.dims.pop();
                }
            }
            let len = own.dims.iter().try_fold(1i64, |len, dim| len.checked_mul(*dim)).unwrap_or(-1);
            if (0..10_000).contains(&len) {
                let len = len as usize;
                match own.data_type {
                    element_type::FLOAT if random.chance(80) => {
                        (own.raw_data, own.float_data) = (None, vec![0.5; len]);
                    }
                    element_type::INT64 if random.chance(80) => {
                        (own.raw_data, own.int64_data) = (None, vec![1; len]);
                    }
                    _ => {}
                }
            }
        }
    }
}
