//! Random graphs of programs: what a plan computes, on the host, is what its stages compute one by one.

use dala_spec::expr::interpret;
use dala_spec::{DType, Data, Expr, Program, ResolvedParams, Scalar, Scope, Shape, Signature, TensorType};

use super::*;
use crate::work::{Argument, Finish, Fold, FoldOp, Fragment, Map, Phase, StridedCopy};
use crate::{Lowering, Place, Task};

/// A small deterministic random number generator.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }
}

pub(super) fn facts(max_bindings: usize) -> DeviceFacts {
    DeviceFacts { name: "test".to_owned(), max_bindings, vectors_per_unit: 8, ..DeviceFacts::of_a_cpu() }
}

/// One launch of an expression.
pub(super) fn call(text: &str, inputs: &[&TensorType], output: &TensorType) -> Lowering {
    let names = &["x", "y"][..inputs.len()];
    let expr = Expr::parse(text, &Scope::new(names.to_vec(), [""; 0])).unwrap();
    let signature = Signature {
        inputs: inputs.iter().map(|ty| (*ty).clone()).collect(),
        output: output.clone(),
        params: ResolvedParams::default(),
    };
    let program = Program::build(&expr, names, &signature).unwrap();
    let mut lowering = Lowering::new();
    let lens = inputs.iter().map(|ty| ty.shape.len()).collect();
    let reads: Vec<Place> = (0..inputs.len()).map(Place::Input).collect();
    lowering.step(Task::Map(Map { program, shape: output.shape.clone(), lens }), reads, Place::Output);
    lowering
}

/// The sums of so many rows, or what every element is above them, as one launch.
fn row_sums(ty: &TensorType, rows: usize, each: bool) -> Lowering {
    let length = ty.shape.len() / rows;
    let params = ResolvedParams::default();
    let own = || Expr::input("x").cast(DType::F32);
    let arguments = [Argument::own("x", 0, ty.dtype), Argument::value("r", 0, DType::F32)];
    let build = |expr: &Expr, known: &[Argument]| Fragment::build(expr, known, DType::F32, &params).unwrap();
    let phases = vec![Phase { how: FoldOp::Sum, of: build(&own(), &arguments[..1]) }];
    let finish = match each {
        true => Finish::Each(build(&(own() - Expr::input("r") * 0.25), &arguments)),
        false => Finish::Once(build(&Expr::input("r"), &arguments[1..])),
    };
    let fold = Fold { outer: rows, length, inner: 1, piece: length, phases, finish };
    let mut lowering = Lowering::new();
    lowering.step(Task::Fold(fold), [Place::Input(0)], Place::Output);
    lowering
}

/// The first half of one more than `x` and the second half of `y`, as three launches: two of them write a part each.
fn halves(ty: &TensorType) -> Lowering {
    let (mut lowering, len) = (Lowering::new(), ty.shape.len());
    let more = lowering.transient(ty.clone());
    let part = |from: usize, columns: usize| {
        let (axes, strides, sizes) = ([1; 3], [0; 3], (len, len));
        Task::StridedCopy(StridedCopy {
            word: 4,
            axes,
            strides,
            columns,
            column_stride: 1,
            from,
            to: from,
            row_stride: columns,
            sizes,
        })
    };
    lowering.step(call("x + 1", &[ty], ty).steps.remove(0).task, [Place::Input(0)], more);
    lowering.step(part(0, len / 2), [more], Place::Output);
    lowering.step(part(len / 2, len - len / 2), [Place::Input(1)], Place::Output);
    lowering
}

/// The value of a fragment at an element, given what the kernel around it computed.
fn fragment_at(fragment: &Fragment, reads: &[Data], (element, columns): (usize, usize), values: &[Scalar]) -> Scalar {
    use crate::work::Source;
    let inputs: Vec<Data> = fragment
        .sources
        .iter()
        .zip(fragment.program.inputs())
        .map(|(source, input)| {
            let value = match source {
                Source::Value(number) => values[*number],
                Source::Own(read) => reads[*read].get(if input.broadcast { 0 } else { element }).unwrap(),
                Source::Column(read) => reads[*read].get(element % columns).unwrap(),
            };
            Data::collect(input.dtype, [value])
        })
        .collect();
    let params: Vec<Scalar> = fixed(&fragment.program);
    let out = interpret(&fragment.program, &inputs, &params, &Shape::from([1]));
    out[0].get(0).unwrap()
}

fn fixed(program: &Program) -> Vec<Scalar> {
    let value = |slot: &dala_spec::expr::ParamSlot| match &slot.source {
        dala_spec::expr::ParamSource::Fixed(value) => *value,
        dala_spec::expr::ParamSource::Param { name, .. } => panic!("{name} is not settled"),
    };
    program.params().iter().map(value).collect()
}

/// Runs a task on the host. What it writes a part of is `before` beside that.
fn run(task: &Task, reads: &[Vec<u8>], before: &[u8]) -> Vec<Vec<u8>> {
    let results = match task {
        Task::StridedCopy(moved) => {
            assert!(moved.is_inside() && moved.rows() == 1 && moved.column_stride == 1, "{moved:?}");
            let mut whole = before.to_vec();
            let bytes = |at: usize| 4 * at..4 * (at + moved.columns);
            whole[bytes(moved.to)].copy_from_slice(&reads[0][bytes(moved.from)]);
            return vec![whole];
        }
        Task::Map(map) => {
            let load = |(bytes, (input, len)): (&Vec<u8>, (&dala_spec::expr::InputSlot, &usize))| {
                Data::from_bytes(input.dtype, &bytes[..len * input.dtype.size()])
            };
            let slots = map.program.inputs().iter().zip(&map.lens);
            let inputs: Vec<Data> = reads.iter().zip(slots).map(load).collect();
            interpret(&map.program, &inputs, &fixed(&map.program), &map.shape)
        }
        Task::Fold(fold) => {
            let dtype = |read: usize| {
                let fragments = [&fold.phases[0].of, finish_of(fold)];
                let uses = fragments.iter().flat_map(|fragment| fragment.sources.iter().zip(fragment.program.inputs()));
                uses.clone()
                    .find(|(source, _)| matches!(source, crate::work::Source::Own(own) | crate::work::Source::Column(own) if *own == read))
                    .map(|(_, input)| input.dtype)
                    .unwrap()
            };
            let reads: Vec<Data> =
                reads.iter().enumerate().map(|(read, bytes)| Data::from_bytes(dtype(read), bytes)).collect();
            let sum = |row: usize| {
                Scalar::F32((0..fold.length).fold(0.0f32, |sum, at| {
                    let place = (row * fold.length + at, fold.length);
                    sum + fragment_at(&fold.phases[0].of, &reads, place, &[]).as_f64() as f32
                }))
            };
            let sums: Vec<Scalar> = (0..fold.outer).map(sum).collect();
            let results = match &fold.finish {
                Finish::Each(_) => fold.outer * fold.length,
                Finish::Once(_) => fold.outer,
            };
            let result =
                |at: usize| fragment_at(finish_of(fold), &reads, (at, fold.length), &[sums[at * fold.outer / results]]);
            let dtype = finish_of(fold).program.outputs()[0];
            vec![Data::collect(dtype, (0..results).map(result).collect::<Vec<_>>())]
        }
        other => panic!("{other:?} is not run here"),
    };
    results.iter().map(Data::to_bytes).collect()
}

fn finish_of(fold: &Fold) -> &Fragment {
    let (Finish::Each(finish) | Finish::Once(finish)) = &fold.finish;
    finish
}

/// The memory of a place.
fn at<'a>(place: Place, inputs: &'a mut [Vec<u8>], scratch: &'a mut [Vec<u8>]) -> &'a mut Vec<u8> {
    match place {
        Place::Input(number) => &mut inputs[number],
        Place::Transient(number) => &mut scratch[number],
        other => panic!("{other:?}"),
    }
}

/// Runs a plan on host memory: users' buffers, scratch memory and all.
fn execute(blueprint: &Blueprint, externals: &mut [Vec<u8>]) {
    let mut prepared: Vec<Vec<u8>> = Vec::new();
    if let Some(preparation) = &blueprint.preparation {
        prepared = preparation.externals.iter().map(|buffer| vec![0xA5; explain::size_of(&buffer.ty)]).collect();
        execute(preparation, &mut prepared);
    }
    let constant = |place: &Place| match place {
        Place::Constant(number) => Some(match &blueprint.constants[*number] {
            Constant::Given(data) => data.to_bytes(),
            Constant::Prepared { buffer, .. } => prepared[*buffer].clone(),
        }),
        _ => None,
    };
    // Rubbish, as real memory holds it.
    let mut scratch: Vec<Vec<u8>> = blueprint.scratch.iter().map(|bytes| vec![0xA5; *bytes]).collect();
    for step in &blueprint.steps {
        let mut read = |place: &Place| constant(place).unwrap_or_else(|| at(*place, externals, &mut scratch).clone());
        let reads: Vec<Vec<u8>> = step.reads.iter().map(&mut read).collect();
        // Elements are read and written one by one: what is written must not be read any more, and has one binding.
        for (slot, read) in step.reads.iter().enumerate() {
            if let Some(output) = step.writes.iter().position(|write| write == read) {
                let Task::Map(map) = &step.task else { panic!("a kernel in place: {step:?}") };
                let (input, output) = (map.program.inputs()[slot], map.program.outputs()[output]);
                let each_for_itself = !input.broadcast && !map.program.reads_neighbours();
                assert!(each_for_itself && input.dtype == output, "in place: {step:?}");
            }
        }
        let before = at(step.writes[0], externals, &mut scratch).clone();
        for (bytes, place) in run(&step.task, &reads, &before).into_iter().zip(&step.writes) {
            at(*place, externals, &mut scratch)[..bytes.len()].copy_from_slice(&bytes);
        }
    }
}

/// Runs calls one by one, every buffer in memory of its own.
fn one_by_one(calls: &[LoweredStage], cells: &[Cell], memory: &mut [Vec<u8>]) {
    for call in calls {
        match call {
            LoweredStage::Run { lowering, inputs, outputs } => {
                let mut sources: Vec<Vec<u8>> = inputs.iter().map(|input| memory[*input].clone()).collect();
                let mut scratch = vec![Vec::new(); lowering.transients.len()];
                for step in &lowering.steps {
                    let reads: Vec<Vec<u8>> =
                        step.reads.iter().map(|place| at(*place, &mut sources, &mut scratch).clone()).collect();
                    let target = match step.writes[0] {
                        Place::Transient(number) => &mut scratch[number],
                        _ => &mut memory[outputs[0]],
                    };
                    *target = run(&step.task, &reads, target).remove(0);
                }
            }
            LoweredStage::Copy { from, to } => memory[*to] = memory[*from].clone(),
            _ => {}
        }
    }
    assert!(cells.len() == memory.len());
}

const RGBA: [usize; 3] = [2, 4, 4];
const FLAT: [usize; 1] = [32];
const GRAY: [usize; 2] = [2, 4];
/// Half of a buffer: what is repeated for its rows.
const ROW: [usize; 1] = [16];

/// Calls over cells of a few types, some of which lie in the way of others.
fn random_calls(random: &mut Random) -> (Vec<Cell>, Vec<LoweredStage>) {
    let types = [
        TensorType::new(DType::U8, RGBA),
        TensorType::new(DType::F32, RGBA),
        TensorType::new(DType::F32, FLAT),
        TensorType::new(DType::S32, FLAT),
        TensorType::new(DType::U8, GRAY),
        TensorType::new(DType::F32, [2]),
        TensorType::new(DType::F32, [1]),
        TensorType::new(DType::F32, ROW),
    ];
    let cells: Vec<Cell> = (0..16)
        .map(|number| Cell {
            ty: types[number % types.len()].clone(),
            name: format!("c{number}"),
            transient: random.below(3) > 0,
        })
        .collect();
    let mut written: Vec<bool> = cells.iter().map(|cell| !cell.transient).collect();
    let mut calls = Vec::new();
    for _ in 0..1 + random.below(24) {
        let ready: Vec<usize> = (0..cells.len()).filter(|cell| written[*cell]).collect();
        if ready.is_empty() {
            break;
        }
        let from = random.pick(&ready);
        let (source, to) = (&cells[from].ty, random.below(cells.len()));
        let target = &cells[to].ty;
        let call = match (source.shape.len() == target.shape.len(), random.below(12)) {
            (_, 0) => LoweredStage::Barrier,
            (true, 1 | 2) if source.dtype.size() == target.dtype.size() => LoweredStage::Copy { from, to },
            (true, _) => {
                let alike: Vec<usize> = ready.iter().copied().filter(|other| cells[*other].ty == *source).collect();
                let other = random.pick(&alike);
                let one = [
                    "x * 0.5",
                    "x + 1",
                    "255 - x",
                    "abs(x) * 1.5",
                    "x * x",
                    "f32(index) + x * 0.25",
                    "clamp(x, 1, 9)",
                    "x + f32(coord(0))",
                ];
                match random.below(4) {
                    0 => {
                        let text = random.pick(&["x + y", "x - y * 0.5", "max(x, y)"]);
                        let lowering = self::call(text, &[source, &cells[other].ty], target);
                        LoweredStage::Run { lowering, inputs: vec![from, other], outputs: vec![to] }
                    }
                    1 if source.shape.rank() == 3 && target.shape.rank() == 3 => {
                        let text =
                            random.pick(&["select(channel == 3, x, 200 - x)", "x.r + x * 0.5", "x - x.g", "x.g - x.b"]);
                        LoweredStage::Run {
                            lowering: self::call(text, &[source], target),
                            inputs: vec![from],
                            outputs: vec![to],
                        }
                    }
                    2 if source.shape == target.shape && random.below(3) == 0 => {
                        let text = "gather(y, s32(index / 2)) + x";
                        let lowering = self::call(text, &[source, &cells[other].ty], target);
                        LoweredStage::Run { lowering, inputs: vec![from, other], outputs: vec![to] }
                    }
                    2 if random.below(2) == 0 && target.dtype == DType::F32 && source.shape.len() == 32 => {
                        let rows: Vec<usize> =
                            ready.iter().copied().filter(|row| cells[*row].ty.shape == Shape::from(ROW)).collect();
                        if rows.is_empty() {
                            continue;
                        }
                        let row = random.pick(&rows);
                        let text = random.pick(&[
                            "x + gather(y, index - index / 16 * 16)",
                            "gather(y, index - index / 16 * 16) * x",
                            "x + gather(y, index - index / 8 * 8)",
                        ]);
                        // Behind a kernel that has rows as long as that.
                        let above = row_sums(source, 2, true);
                        calls.push(LoweredStage::Run { lowering: above, inputs: vec![from], outputs: vec![to] });
                        let lowering = self::call(text, &[target, &cells[row].ty], target);
                        LoweredStage::Run { lowering, inputs: vec![to, row], outputs: vec![to] }
                    }
                    3 if target.dtype == DType::F32 && source.shape.len() > 1 && random.below(3) == 0 => {
                        LoweredStage::Run { lowering: row_sums(source, 2, true), inputs: vec![from], outputs: vec![to] }
                    }
                    2 if source == target && source.dtype.size() == 4 && random.below(3) == 0 => {
                        LoweredStage::Run { lowering: halves(source), inputs: vec![from, other], outputs: vec![to] }
                    }
                    _ => LoweredStage::Run {
                        lowering: self::call(random.pick(&one), &[source], target),
                        inputs: vec![from],
                        outputs: vec![to],
                    },
                }
            }
            (false, _) if source.shape == Shape::from(RGBA) && target.shape == Shape::from(GRAY) => {
                let text = random.pick(&["x.r * 0.5 + x.g * 0.25 + x.b * 0.25", "x.a"]);
                LoweredStage::Run {
                    lowering: self::call(text, &[source], target),
                    inputs: vec![from],
                    outputs: vec![to],
                }
            }
            // One element that counts everywhere.
            (false, _) if source.shape.len() == 1 => {
                let fits = |other: &usize| {
                    let ty = &cells[*other].ty;
                    ty.dtype == source.dtype && ty.shape.len() == target.shape.len()
                };
                let others: Vec<usize> = ready.iter().copied().filter(fits).collect();
                if others.is_empty() {
                    continue;
                }
                let other = random.pick(&others);
                let lowering = self::call(random.pick(&["x + y", "y * 0.5 - x"]), &[source, &cells[other].ty], target);
                LoweredStage::Run { lowering, inputs: vec![from, other], outputs: vec![to] }
            }
            (false, _) if target.shape.len() <= 2 => LoweredStage::Run {
                lowering: row_sums(source, target.shape.len(), false),
                inputs: vec![from],
                outputs: vec![to],
            },
            _ => continue,
        };
        if matches!(call, LoweredStage::Copy { from, to } if from == to) {
            continue;
        }
        written_by(&call).iter().for_each(|output| written[*output] = true);
        calls.push(call);
    }
    (cells, calls)
}

fn written_by(call: &LoweredStage) -> &[usize] {
    match call {
        LoweredStage::Run { outputs, .. } => outputs,
        LoweredStage::Copy { to, .. } => std::slice::from_ref(to),
        _ => &[],
    }
}

fn listed(calls: &[LoweredStage]) -> String {
    let line = |call: &LoweredStage| match call {
        LoweredStage::Run { lowering, inputs, outputs } => {
            let programs = lowering.steps.iter().flat_map(|step| step.task.kind().programs());
            let code = programs.map(|program| program.to_string()).collect::<Vec<_>>();
            format!("{inputs:?} -> {outputs:?}\n{}\n", code.join("--\n"))
        }
        LoweredStage::Copy { from, to } => format!("copy {from} -> {to}\n"),
        other => format!("{other:?}\n"),
    };
    calls.iter().map(line).collect()
}

fn listed_plan(blueprint: &Blueprint) -> String {
    let line = |step: &BlueprintStep| {
        let code = step.task.kind().programs().iter().map(|program| program.to_string()).collect::<Vec<_>>();
        format!("{:?}: {:?} -> {:?}\n{}\n", step.stages, step.reads, step.writes, code.join("--\n"))
    };
    format!("PLAN\n{}{}", blueprint.steps.iter().map(line).collect::<String>(), blueprint.explain())
}

/// The same calls, where some of the users' buffers that nobody writes are constants instead.
fn with_constants(
    random: &mut Random,
    calls: &[LoweredStage],
    cells: &[Cell],
    memory: &[Vec<u8>],
) -> Vec<LoweredStage> {
    let written = |cell: usize| calls.iter().any(|call| written_by(call).contains(&cell));
    let fixed = |cell: usize| !cells[cell].transient && !written(cell);
    let constants: Vec<bool> = (0..cells.len()).map(|cell| fixed(cell) && random.below(2) == 0).collect();
    let turned = |call: &LoweredStage| match call.clone() {
        LoweredStage::Run { mut lowering, inputs, outputs } => {
            let mut steps = std::mem::take(&mut lowering.steps);
            for place in steps.iter_mut().flat_map(|step| &mut step.reads) {
                if let Place::Input(index) = *place
                    && let cell = inputs[index]
                    && constants[cell]
                {
                    *place = lowering.constant(Data::from_bytes(cells[cell].ty.dtype, &memory[cell]));
                }
            }
            lowering.steps = steps;
            LoweredStage::Run { lowering, inputs, outputs }
        }
        other => other,
    };
    calls.iter().map(turned).collect()
}

#[test]
fn plans_compute_what_their_stages_do() {
    let (mut stages, mut launches, mut prepared, mut by_column) = (0, 0, 0, 0);
    for seed in 0..6000 {
        let mut random = Random(seed);
        let (cells, calls) = random_calls(&mut random);
        let bytes = |cell: &Cell| -> Vec<u8> {
            let value = |index: usize| Scalar::from_i64(cell.ty.dtype, ((index * 37 + 11) % 90) as i64);
            Data::collect(cell.ty.dtype, (0..cell.ty.shape.len()).map(value).collect::<Vec<_>>()).to_bytes()
        };
        let mut memory: Vec<Vec<u8>> = cells.iter().map(bytes).collect();
        let mut externals: Vec<Vec<u8>> = cells.iter().filter(|cell| !cell.transient).map(bytes).collect();
        let planned = with_constants(&mut random, &calls, &cells, &memory);
        one_by_one(&calls, &cells, &mut memory);
        let facts = facts(random.pick(&[4, 8, 64]));
        let labels = calls.iter().map(|_| "call".to_owned()).collect();
        let fuse = random.below(4) > 0;
        let rules = Rules { facts: &facts, fuse };
        let blueprint = plan(Graph::build(&cells, planned, labels).unwrap(), &rules).unwrap();
        execute(&blueprint, &mut externals);
        prepared += blueprint.preparation.iter().map(|preparation| preparation.steps.len()).sum::<usize>();
        stages += calls.len();
        launches += blueprint.steps.len();
        let sources = blueprint.steps.iter().flat_map(|step| step.task.kind().fragments()).flat_map(|own| &own.sources);
        by_column += sources.filter(|source| matches!(source, crate::work::Source::Column(_))).count();
        for step in &blueprint.steps {
            assert!(step.reads.len() + step.writes.len() <= facts.max_bindings, "seed {seed}");
        }
        let expected = memory.iter().zip(&cells).filter(|(_, cell)| !cell.transient).map(|(bytes, _)| bytes);
        for (number, (expected, actual)) in expected.zip(&externals).enumerate() {
            assert!(
                expected == actual,
                "seed {seed}, buffer {number}, fuse {fuse}\n{}{}",
                listed(&calls),
                listed_plan(&blueprint)
            );
        }
    }
    assert!(launches * 2 < stages, "{launches} launches of {stages} stages: little was fused");
    assert!(by_column > 20, "{by_column} rows were read by the kernel before");
    assert!(prepared > 100, "{prepared} launches over constants alone");
}

fn cell(name: &str, transient: bool) -> Cell {
    Cell { ty: TensorType::new(DType::F32, [1024]), name: name.to_owned(), transient }
}

type Stages<'a> = [(&'a str, &'a [usize], usize)];

fn planned(cells: &[Cell], stages: &Stages, max_bindings: usize) -> Blueprint {
    planned_on(cells, stages, &facts(max_bindings))
}

fn planned_on(cells: &[Cell], stages: &Stages, facts: &DeviceFacts) -> Blueprint {
    let calls = stages.iter().map(|(text, inputs, output)| match *text {
        "barrier" => LoweredStage::Barrier,
        "copy" => LoweredStage::Copy { from: inputs[0], to: *output },
        "above the sums" | "halves" => {
            let ty = &cells[inputs[0]].ty;
            let lowering = if *text == "halves" { halves(ty) } else { row_sums(ty, 2, true) };
            LoweredStage::Run { lowering, inputs: inputs.to_vec(), outputs: vec![*output] }
        }
        text => {
            let types: Vec<&TensorType> = inputs.iter().map(|input| &cells[*input].ty).collect();
            let lowering = call(text, &types, &cells[*output].ty);
            LoweredStage::Run { lowering, inputs: inputs.to_vec(), outputs: vec![*output] }
        }
    });
    let labels = stages.iter().map(|(text, ..)| (*text).to_owned()).collect();
    let rules = Rules { facts, fuse: true };
    plan(Graph::build(cells, calls.collect(), labels).unwrap(), &rules).unwrap()
}

#[test]
fn chains_are_one_launch_and_need_no_memory() {
    let cells = [cell("x", false), cell("a", true), cell("b", true), cell("y", false)];
    let plan = planned(&cells, &[("x + 1", &[0], 1), ("x * 2", &[1], 2), ("x - 3", &[2], 3)], 16);
    assert_eq!((plan.steps.len(), plan.peak_bytes()), (1, 0));
    assert_eq!(plan.bytes_moved(), 2 * 4096);
}

#[test]
fn barriers_stop_fusion() {
    let cells = [cell("x", false), cell("a", true), cell("y", false)];
    let plan = planned(&cells, &[("x + 1", &[0], 1), ("barrier", &[], 0), ("x * 2", &[1], 2)], 16);
    assert_eq!((plan.steps.len(), plan.peak_bytes()), (2, 4096));
    assert!(plan.verdicts.contains(&Verdict::Apart { from: 0, to: 2, why: "a barrier lies between them" }));
}

#[test]
fn users_buffers_are_written_whatever_is_fused() {
    let cells = [cell("x", false), cell("kept", false), cell("y", false)];
    let plan = planned(&cells, &[("x + 1", &[0], 1), ("x * 2", &[1], 2)], 16);
    assert_eq!(plan.steps.len(), 1);
    assert_eq!(plan.steps[0].writes.len(), 2, "one pass writes both");
}

/// Why two stages are not one.
fn why_apart(plan: &Blueprint, one: usize, other: usize) -> &'static str {
    let why = |verdict: &Verdict| match *verdict {
        Verdict::Apart { from, to, why } if (from, to) == (one, other) => Some(why),
        _ => None,
    };
    plan.verdicts.iter().find_map(why).unwrap_or_default()
}

const MIRROR: &str = "gather(x, 1023 - index)";

#[test]
fn overwritten_values_are_not_read() {
    // y = f(x); x = g(x); z = h(y): y's only reader comes after x has changed.
    let cells = [cell("x", false), cell("y", true), cell("z", false)];
    let plan = planned(&cells, &[("x + 1", &[0], 1), ("barrier", &[], 0), ("x * 2", &[0], 0), ("x - 3", &[1], 2)], 16);
    assert!(plan.steps.len() >= 2);
    // The same without a barrier, where x is made of something else: nothing has to be copied.
    let cells = [cell("x", false), cell("y", true), cell("z", false), cell("other", false)];
    let stages: [(&str, &[usize], usize); 3] = [("x + 1", &[0], 1), (MIRROR, &[3], 0), ("x - 3", &[1], 2)];
    let plan = planned(&cells, &stages, 16);
    assert_eq!(why_apart(&plan, 0, 2), "what the first reads is overwritten between them");
    assert_eq!(plan.steps.iter().map(|step| &step.stages[..]).collect::<Vec<_>>(), [[0], [1], [2]]);
}

#[test]
fn programs_that_look_around_write_elsewhere() {
    // x = g(f(x)), where f reads other elements than its own: together they would overwrite what is still to be read.
    let cells = [cell("x", false), cell("t", true)];
    let plan = planned(&cells, &[(MIRROR, &[0], 1), ("x + 1", &[1], 0)], 16);
    assert_eq!(why_apart(&plan, 0, 1), "it would overwrite what it still reads");
    assert_eq!(plan.steps.len(), 2);
}

#[test]
fn gathered_values_are_computed_first() {
    let cells = [cell("x", false), cell("t", true), cell("y", false)];
    let plan = planned(&cells, &[("x + 1", &[0], 1), (MIRROR, &[1], 2)], 16);
    assert_eq!(why_apart(&plan, 0, 1), "it is read at other places than its own");
    assert_eq!(plan.steps.len(), 2);
}

#[test]
fn what_is_written_in_parts_is_complete_before_it_is_read() {
    let cells = [cell("x", false), cell("t", true), cell("y", false)];
    let plan = planned(&cells, &[("halves", &[0, 0], 1), ("x * 2", &[1], 2)], 16);
    assert_eq!(why_apart(&plan, 0, 1), "it is written in parts");
    assert_eq!(plan.steps.len(), 4);
}

#[test]
fn a_launch_does_not_grow_without_end() {
    // However many there are, their program is short: two of them cancel out.
    let (ty, count) = (TensorType::new(DType::F32, [8]), 1000);
    let mut lowering = Lowering::new();
    for number in 0..count {
        let read = if number == 0 { Place::Input(0) } else { Place::Transient(number - 1) };
        let write = if number + 1 == count { Place::Output } else { lowering.transient(ty.clone()) };
        lowering.append(call("-x", &[&ty], &ty), &[read], write, &format!("n{number}").into());
    }
    let cells = ["x", "y"].map(|name| Cell { ty: ty.clone(), ..cell(name, false) });
    let run = LoweredStage::Run { lowering, inputs: vec![0], outputs: vec![1] };
    let rules = Rules { facts: &facts(16), fuse: true };
    let plan = plan(Graph::build(&cells, vec![run], vec!["net".to_owned()]).unwrap(), &rules).unwrap();
    assert_eq!(plan.steps.iter().map(|step| step.parts.len()).collect::<Vec<_>>(), [256, 256, 256, 232]);
}

#[test]
fn launchers_are_asked() {
    // Where bytes travel four to a word, folds write them four at a time: not in rows of three.
    let plan = |elements: usize| {
        let cell = |name: &str, dtype| Cell { ty: TensorType::new(dtype, [elements]), ..cell(name, name == "t") };
        let cells = [cell("x", DType::F32), cell("t", DType::F32), cell("y", DType::U8)];
        planned_on(&cells, &[("above the sums", &[0], 1), ("x", &[1], 2)], &DeviceFacts::of_a_gpu())
    };
    assert_eq!(why_apart(&plan(6), 0, 1), "the device has no kernel for both");
    assert_eq!(plan(6).steps.len(), 2);
    assert_eq!(plan(8).steps.len(), 1);
}

#[test]
fn repeated_rows_are_read_by_the_kernel_before() {
    let plan = |row: usize, text: &str| {
        let cells = [cell("x", false), cell("row", false), cell("t", true), cell("y", false)];
        let row = Cell { ty: TensorType::new(DType::F32, [row]), ..cells[1].clone() };
        let cells = [cells[0].clone(), row, cells[2].clone(), cells[3].clone()];
        planned(&cells, &[("above the sums", &[0], 2), (text, &[2, 1], 3)], 64)
    };
    assert_eq!(plan(512, "x * gather(y, index - index / 512 * 512)").steps.len(), 1);
    // A row of another length than the kernel's own, or that is read at other places.
    for (row, text) in [(256, "x * gather(y, index - index / 256 * 256)"), (512, "x * gather(y, index / 2)")] {
        let plan = plan(row, text);
        assert_eq!(why_apart(&plan, 0, 1), "it looks at more than its own element", "{text}");
        assert_eq!(plan.steps.len(), 2);
    }
}

#[test]
fn little_work_is_repeated_and_much_is_not() {
    let cells = [cell("x", false), cell("t", true), cell("y", false)];
    let plan = planned(&cells, &[("x * 2", &[0], 1), ("above the sums", &[1], 2)], 16);
    assert_eq!(plan.steps.len(), 1);
    let plan = planned(&cells, &[("exp(exp(exp(x)))", &[0], 1), ("above the sums", &[1], 2)], 16);
    assert_eq!(why_apart(&plan, 0, 1), "it would be computed again for every neighbour");
    assert_eq!(plan.steps.len(), 2);
}

#[test]
fn binding_limits_are_kept() {
    let cells: Vec<Cell> =
        (0..6).map(|number| cell(&format!("x{number}"), false)).chain((0..5).map(|_| cell("t", true))).collect();
    let stages: [(&str, &[usize], usize); 5] = [
        ("x + y", &[0, 1], 6),
        ("x + y", &[6, 2], 7),
        ("x + y", &[7, 3], 8),
        ("x + y", &[8, 4], 9),
        ("x * 2", &[9], 5),
    ];
    assert_eq!(planned(&cells, &stages, 64).steps.len(), 1);
    let plan = planned(&cells, &stages, 4);
    assert!(plan.steps.len() > 1);
    assert!(plan.steps.iter().all(|step| step.reads.len() + step.writes.len() <= 4));
    // What a kernel of another kind reads when it stores counts as well.
    let stages: [(&str, &[usize], usize); 3] =
        [("above the sums", &[0], 6), ("x + y", &[6, 1], 7), ("x + y", &[7, 2], 5)];
    assert_eq!(planned(&cells, &stages, 4).steps.len(), 1);
    let plan = planned(&cells, &stages, 3);
    assert_eq!(plan.steps.len(), 2);
    assert_eq!(why_apart(&plan, 1, 2), "together they bind more buffers than the device does");
}

#[test]
fn copies_that_nobody_can_tell_are_not_made() {
    let cells = [cell("x", false), cell("a", true), cell("b", true), cell("y", false)];
    let plan = planned(&cells, &[("copy", &[0], 1), ("gather(x, 1023 - index)", &[1], 2), ("copy", &[2], 3)], 16);
    assert_eq!((plan.steps.len(), plan.peak_bytes()), (1, 0));
    // A copy of what is overwritten later is made.
    let cells = [cell("x", false), cell("a", true), cell("y", false)];
    let stages: [(&str, &[usize], usize); 4] = [
        ("copy", &[0], 1),
        ("gather(x, 1023 - index) * 2", &[0], 0),
        ("barrier", &[], 0),
        ("gather(x, 1023 - index)", &[1], 2),
    ];
    let plan = planned(&cells, &stages, 16);
    assert!(plan.steps.len() >= 3, "{}", plan.explain());
    assert!(!plan.verdicts.contains(&Verdict::Elided { stage: 0 }), "{}", plan.explain());
    // Nor is a value made where something else is still to be read: the copy waits until that is done.
    let cells = [cell("x", false), cell("t", true), cell("y", false), cell("z", false)];
    let plan = planned(&cells, &[("x + 1", &[0], 1), (MIRROR, &[2], 3), ("copy", &[1], 2)], 16);
    assert_eq!((plan.steps.len(), plan.peak_bytes()), (2, 0), "{}", plan.explain());
}

#[test]
fn transients_share_memory_one_after_the_other() {
    let gather = MIRROR;
    let cells: Vec<Cell> = (0..7).map(|number| cell("t", number != 0 && number != 6)).collect();
    let stages: Vec<(&str, &[usize], usize)> = vec![
        (gather, &[0], 1),
        (gather, &[1], 2),
        (gather, &[2], 3),
        (gather, &[3], 4),
        (gather, &[4], 5),
        (gather, &[5], 6),
    ];
    let plan = planned(&cells, &stages, 16);
    assert_eq!(plan.steps.len(), 6);
    assert_eq!((plan.scratch.len(), plan.peak_bytes(), plan.scratch_unshared), (2, 2 * 4096, 5 * 4096));
}

#[test]
fn shared_memory_is_as_large_as_what_needs_most() {
    let sized = |len: usize, transient| Cell { ty: TensorType::new(DType::F32, [len]), ..cell("t", transient) };
    let cells = [sized(256, false), sized(256, true), sized(512, true), sized(2048, true), sized(2048, false)];
    let wider = "gather(x, s32(index) / 2)";
    let stages: [(&str, &[usize], usize); 4] =
        [(wider, &[0], 1), (wider, &[1], 2), (wider, &[2], 3), ("gather(x, 2047 - index)", &[3], 4)];
    let plan = planned(&cells, &stages, 16);
    assert_eq!(plan.steps.len(), 4);
    // The first piece is used again for what is eight times as large.
    assert_eq!(plan.scratch, [4 * 2048, 4 * 512]);
    assert_eq!(plan.scratch_unshared, 4 * (256 + 512 + 2048));
}

#[test]
fn unread_results_are_not_computed() {
    let cells = [cell("x", false), cell("a", true), cell("y", false)];
    let plan = planned(&cells, &[("x + 1", &[0], 1), ("x * 2", &[0], 2)], 16);
    assert_eq!(plan.steps.len(), 1);
    assert_eq!(plan.verdicts[0], Verdict::Dropped { stage: 0 });
}

#[test]
fn copies_of_nothing_are_faults() {
    let cell = |transient| Cell { ty: TensorType::new(DType::F32, [8]), name: "c".to_owned(), transient };
    let copy = LoweredStage::Copy { from: 0, to: 1 };
    let error = Graph::build(&[cell(true), cell(false)], vec![copy], vec!["copy".to_owned()]).err().unwrap();
    assert_eq!(error.code(), "internal");
}
