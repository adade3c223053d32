//! A thousand files that are not as they should be: each is read or refused with a typed error, soon and in little
//! memory, and none stops the program.

mod builder;

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use builder::{Net, everything, float, floats, int, integers, ints, list, scalar, single, text, value};
use dala_model::Model;
use dala_model::proto::{AttributeProto, DimensionProto, NodeProto, TensorProto, attribute_type, element_type};

/// Counts the bytes in use, and remembers the most there were.
struct Counting;

static USED: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes on to the system's allocator as it came; only numbers are kept beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let used = USED.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(used, Ordering::Relaxed);
        // SAFETY: the caller keeps the rules of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        USED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the rules of `dealloc`, and `pointer` came from `alloc` above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const FILES: usize = 1000;
const TIME: Duration = Duration::from_secs(2);
const MEMORY: usize = 64 << 20;

/// The same numbers in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    /// A size that a file may claim.
    fn size(&mut self) -> i64 {
        let wild = self.next() as i64;
        self.one(&[
            0,
            -1,
            1,
            2,
            7,
            -2,
            255,
            65_537,
            1 << 20,
            1 << 24,
            1 << 31,
            1 << 32,
            1 << 40,
            i64::MAX,
            i64::MIN,
            wild,
        ])
    }

    fn sizes(&mut self, len: usize) -> Vec<i64> {
        (0..len).map(|_| self.size()).collect()
    }
}

/// Makes a file that is not as it should be.
type Maker = fn(&mut Random) -> Vec<u8>;

/// Cut off somewhere.
fn truncated(random: &mut Random) -> Vec<u8> {
    let mut bytes = everything().bytes();
    bytes.truncate(random.below(bytes.len()));
    bytes
}

/// Some bytes changed, put in or left out.
fn mutated(random: &mut Random) -> Vec<u8> {
    let mut bytes = everything().bytes();
    // Most of the file is weights; the graph comes first.
    for _ in 0..=random.below(12) {
        let reach = random.one(&[bytes.len(), bytes.len() / 3, 200]);
        let place = random.below(reach.min(bytes.len()));
        match random.below(5) {
            0 => bytes[place] ^= 1 << random.below(8),
            1 => bytes[place] = random.next() as u8,
            2 => bytes[place] = random.one(&[0, 0x7f, 0x80, 0xff]),
            3 => bytes.insert(place, random.next() as u8),
            _ => {
                bytes.remove(place);
            }
        }
    }
    bytes
}

/// Weights and inputs of sizes that cannot be, or that the file does not have.
fn hostile_shapes(random: &mut Random) -> Vec<u8> {
    let mut net = everything();
    let rank = random.below(12);
    let sizes = random.sizes(rank);
    let graph = net.graph();
    let number = random.below(graph.initializer.len());
    let tensor = &mut graph.initializer[number];
    match random.below(6) {
        0 => tensor.dims = sizes,
        1 => tensor.raw_data = Some(vec![0; random.below(100)].into()),
        2 => tensor.float_data.truncate(random.below(4)),
        3 => tensor.data_type = random.below(30) as i32 - 2,
        4 => {
            let ty = graph.input[0].r#type.get_or_insert_default().tensor_type.get_or_insert_default();
            let dims = sizes.iter().map(|&size| DimensionProto { dim_value: Some(size), dim_param: None });
            ty.shape.get_or_insert_default().dim = dims.collect();
        }
        _ => {
            let dims = tensor.dims.clone();
            tensor.dims = dims.iter().map(|&dim| if random.below(2) == 0 { dim } else { random.size() }).collect();
        }
    }
    net.bytes()
}

/// Numbers that ask for enormous results.
fn hostile_numbers(random: &mut Random) -> Vec<u8> {
    let x = [-1, 2, 6, 6];
    let weights = floats(&[2, 2, 3, 3], vec![0.5; 36]);
    let (two, four, eight) = (random.sizes(2), random.sizes(4), random.sizes(8));
    let pool = vec![ints("kernel_shape", &two), ints("strides", &random.sizes(2)), ints("pads", &four)];
    let count = random.below(9);
    let some = random.sizes(count);
    let net = match random.below(14) {
        0 => single(13, "Conv", &x, vec![weights], vec![ints("pads", &four), ints("strides", &two)]),
        1 => single(13, "Conv", &x, vec![weights], vec![ints("dilations", &two), int("group", random.size())]),
        2 => single(13, "AveragePool", &x, vec![], pool),
        3 => single(13, "MaxPool", &x, vec![], [pool, vec![int("ceil_mode", 1), ints("dilations", &two)]].concat()),
        4 => single(13, "Reshape", &x, vec![list(&some)], vec![int("allowzero", random.size())]),
        5 => single(
            13,
            "Pad",
            &x,
            vec![list(&eight), scalar(1.0)],
            vec![text("mode", random.one(&["constant", "reflect", "edge"]))],
        ),
        6 => single(13, "Slice", &x, vec![list(&four), list(&some), list(&two), list(&random.sizes(2))], vec![]),
        7 => single(18, "ReduceMean", &x, vec![list(&some)], vec![int("keepdims", random.size())]),
        8 => single(13, "Unsqueeze", &x, vec![list(&some)], vec![]),
        9 => single(13, "Gather", &x, vec![integers(&[count as i64], &some)], vec![int("axis", random.size())]),
        10 => {
            let factor = random.one(&[0.0, -1.0, f32::NAN, f32::INFINITY, 1e9, 1e-30, 60_000.0, 1e30]);
            let net = Net::new(13).x(&x).floats("s", &[4], vec![1.0, 1.0, factor, 2.0]);
            net.node("Resize", &["x", "", "s"], "y", vec![]).output("y")
        }
        11 => {
            let net = Net::new(13).x(&x).ints("s", &four);
            net.node("Resize", &["x", "", "", "s"], "y", vec![]).output("y")
        }
        12 => {
            // Constants that grow with each node.
            let mut net = Net::new(13).x(&x).ints("shape", &some).ints("twice", &[0, 0, 1 << 20, 1 << 10]);
            net = net.node("ConstantOfShape", &["shape"], "v0", vec![value("value", integers(&[1], &[1]))]);
            for number in 0..20 {
                let (from, to) = (format!("v{number}"), format!("v{}", number + 1));
                net = net.node(random.one(&["Concat", "Mul", "MatMul"]), &[&from, &from], &to, vec![int("axis", 0)]);
            }
            net.output("v20")
        }
        _ => {
            let net = Net::new(13).x(&x).weights("column", &[4096, 1]).weights("row", &[1, 4096]);
            let op = random.one(&["Add", "MatMul", "Mul"]);
            net.node(op, &["column", "row"], "a", vec![]).node(op, &["a", "a"], "y", vec![]).output("y")
        }
    };
    net.bytes()
}

/// Nodes that wait for each other, names that are there twice or not at all.
fn tangled(random: &mut Random) -> Vec<u8> {
    let mut net = everything();
    let graph = net.graph();
    let names: Vec<String> = graph.node.iter().flat_map(|node| node.output.clone()).collect();
    for _ in 0..=random.below(3) {
        let number = random.below(graph.node.len());
        let node = &mut graph.node[number];
        let other = random.one(&names);
        match random.below(9) {
            0 => node.input.iter_mut().for_each(|input| *input = other.clone()),
            1 => node.output = vec![other],
            2 => node.input.clear(),
            3 => node.input.push(other),
            4 => node.output.clear(),
            5 => node.input.iter_mut().take(1).for_each(|input| *input = "nowhere".repeat(1000)),
            6 => node.output.iter_mut().for_each(String::clear),
            7 => node.input.iter_mut().take(1).for_each(|input| *input = other.clone()),
            _ => graph.node.reverse(),
        }
    }
    net.bytes()
}

/// Attributes of the wrong type, missing or with strange values; other operators; other versions.
fn wrong_attributes(random: &mut Random) -> Vec<u8> {
    let mut net = everything();
    net.model.opset_import[0].version = 5 + random.below(20) as i64;
    let graph = net.graph();
    let operators: Vec<String> = graph.node.iter().map(|node| node.op_type.clone()).collect();
    for _ in 0..=random.below(3) {
        let number = random.below(graph.node.len());
        let node = &mut graph.node[number];
        if random.below(6) == 0 {
            node.op_type = random.one(&operators);
        }
        let Some(name) = node.attribute.first().map(|attribute| attribute.name.clone()) else { continue };
        let size = random.size();
        node.attribute[0] = match random.below(9) {
            0 => int(&name, size),
            1 => float(&name, f32::from_bits(random.next() as u32)),
            2 => text(&name, "SOMEHOW"),
            3 => value(&name, floats(&[size], vec![1.0])),
            4 => {
                let len = random.below(40);
                ints(&name, &random.sizes(len))
            }
            5 => AttributeProto { r#type: random.below(20) as i32, ..node.attribute[0].clone() },
            6 => AttributeProto { s: Some(vec![0xff, 0xfe].into()), r#type: attribute_type::STRING, ..int(&name, 1) },
            7 => AttributeProto { name: "x".repeat(10_000), ..int(&name, 1) },
            _ => AttributeProto::default(),
        };
    }
    net.bytes()
}

/// Graphs inside graphs, many thousand deep.
fn nested(random: &mut Random) -> Vec<u8> {
    let length = |mut len: usize, bytes: &mut Vec<u8>| {
        while len >= 0x80 {
            bytes.push(len as u8 | 0x80);
            len >>= 7;
        }
        bytes.push(len as u8);
    };
    // From the inside: an attribute's graph, a graph's node, a node's attribute. The lengths are worked out first.
    let depth = 1 + random.below(3000);
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
    let number = random.below(net.graph().node.len());
    net.graph().node[number].attribute.push(attribute);
    if random.below(2) == 0 {
        net.graph().node[number].op_type = "Loop".to_owned();
    }
    net.bytes()
}

/// Many small parts, each of which takes more memory than bytes.
fn crowded(random: &mut Random) -> Vec<u8> {
    let mut net = everything();
    let count = 1000 + random.below(40_000);
    let graph = net.graph();
    match random.below(5) {
        0 => graph.node.extend(vec![NodeProto::default(); count]),
        1 => graph.node[0].attribute.extend(vec![AttributeProto::default(); count]),
        2 => graph.node[0].input.extend(vec![String::new(); count]),
        3 => {
            graph.initializer.extend(vec![TensorProto { data_type: element_type::FLOAT, ..Default::default() }; count])
        }
        _ => {
            let ty = graph.input[0].r#type.get_or_insert_default().tensor_type.get_or_insert_default();
            ty.shape.get_or_insert_default().dim = vec![DimensionProto::default(); count];
        }
    }
    net.bytes()
}

#[test]
fn a_thousand_malformed_files() {
    let kinds: [(&str, Maker); 8] = [
        ("truncated", truncated),
        ("mutated", mutated),
        ("hostile shapes", hostile_shapes),
        ("hostile numbers", hostile_numbers),
        ("tangled", tangled),
        ("wrong attributes", wrong_attributes),
        ("nested", nested),
        ("crowded", crowded),
    ];
    assert!(Model::read(everything().bytes()).is_ok());
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut codes: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut longest, mut largest) = (Duration::ZERO, 0);
    for number in 0..FILES {
        // Every other file is of the three kinds with the most to find.
        let (kind, make) = if number % 2 == 0 { kinds[1 + number / 2 % 3] } else { kinds[number / 2 % kinds.len()] };
        let bytes = make(&mut random);
        let size = bytes.len();
        let before = USED.load(Ordering::Relaxed);
        PEAK.store(before, Ordering::Relaxed);
        let start = Instant::now();
        let code = match Model::read(bytes) {
            Ok(model) => {
                let _ = model.resolve(7);
                "read"
            }
            Err(error) => {
                let message = error.to_string();
                assert!(message.len() < 4000, "{kind} {number}: a message of {} bytes", message.len());
                error.code()
            }
        };
        let (time, memory) = (start.elapsed(), PEAK.load(Ordering::Relaxed) - before);
        assert!(time < TIME, "{kind} {number}: {time:?}");
        assert!(memory < size + MEMORY, "{kind} {number}: {memory} bytes for a file of {size}");
        longest = longest.max(time);
        largest = largest.max(memory);
        *codes.entry(code).or_default() += 1;
    }
    println!("{FILES} files, the slowest {longest:?}, the largest {} KiB", largest >> 10);
    for (code, count) in &codes {
        println!("{count:5} {code}");
    }
    // The kinds of trouble that the files were made for were all found.
    for code in ["truncated", "malformed", "cyclic", "undefined_value", "duplicate_value", "bad_attribute", "too_large"]
    {
        assert!(codes.contains_key(code), "no file gave {code}");
    }
}
