//! A plan as text: what a person reads, and what snapshot tests compare.

use dala_spec::TensorType;

use super::{Blueprint, BlueprintStep, Verdict};
use crate::StageSpec;
use crate::words::{count, format_bytes};
use crate::work::Place;

impl Blueprint {
    /// The plan as text: its buffers, its launches in order, and what was fused, what was not, and why. Stages count from 0.
    pub fn explain(&self) -> String {
        let mut lines = vec![format!("plan: {}", self.totals().join(", "))];
        section(
            &mut lines,
            "buffers",
            table(self.externals.iter().enumerate().map(|(number, external)| {
                let used = match (external.read, external.written) {
                    (true, true) => "read, written",
                    (true, false) => "read",
                    (false, true) => "written",
                    (false, false) => "not used",
                };
                let name = clean(&external.name);
                [
                    format!("b{number}"),
                    name,
                    external.ty.to_string(),
                    format_bytes(size_of(&external.ty)),
                    used.to_owned(),
                ]
            })),
        );
        let scratch = self.scratch.iter().enumerate();
        section(&mut lines, "scratch memory", table(scratch.map(|(n, bytes)| [format!("t{n}"), format_bytes(*bytes)])));
        section(
            &mut lines,
            "constants",
            table(
                self.constant_types
                    .iter()
                    .enumerate()
                    .map(|(number, ty)| [format!("c{number}"), ty.to_string(), format_bytes(size_of(ty))]),
            ),
        );
        if let Some(preparation) = &self.preparation {
            let steps = preparation.steps.iter();
            let rows = steps.map(|step| [step.task.kind().describe(), preparation.stage_labels(step).join(" + ")]);
            section(&mut lines, "computed once, from constants alone", table(rows));
        }
        section(&mut lines, "launches", self.launch_lines());
        let (mut fused, mut apart, mut elided, mut dropped) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut explained = Vec::new();
        for verdict in &self.verdicts {
            let (list, line) = match *verdict {
                Verdict::Fused { from, to, how } if self.together(from, to) => {
                    (&mut fused, format!("{} + {}: {how}", self.named(from), self.named(to)))
                }
                // Reasons that were overtaken, or are about work that is gone, explain nothing.
                Verdict::Apart { from, to, why } if self.runs(from) && self.runs(to) && !self.together(from, to) => {
                    // Stages of the same two launches need one reason, not one for each pair.
                    let reason = (self.launches(from), self.launches(to), why);
                    if explained.contains(&reason) {
                        continue;
                    }
                    explained.push(reason);
                    (&mut apart, format!("{} and {}: {why}", self.named(from), self.named(to)))
                }
                Verdict::Elided { stage } if !self.runs(stage) => (&mut elided, self.named(stage)),
                Verdict::Dropped { stage } if !self.runs(stage) => (&mut dropped, self.named(stage)),
                _ => continue,
            };
            let line = format!("  {line}");
            if !list.contains(&line) {
                list.push(line);
            }
        }
        dropped.retain(|line| !elided.contains(line));
        section(&mut lines, "fused", fused);
        section(&mut lines, "apart", apart);
        section(&mut lines, "not copied, the original is used", elided);
        section(&mut lines, "dropped, nobody needs the result", dropped);
        lines.push(String::new());
        lines.join("\n")
    }

    /// What the plan comes to: stages and launches, bytes moved, scratch memory.
    pub(crate) fn totals(&self) -> Vec<String> {
        // A barrier is a stage without work.
        let stages = self.labels.iter().filter(|label| *label != StageSpec::Barrier.label()).count();
        let mut totals = vec![
            format!("{} in {}", count(stages, "stage"), count(self.steps.len(), "launch")),
            format!("{} moved", format_bytes(self.bytes_moved())),
        ];
        let (peak, unshared) = (self.peak_bytes(), self.scratch_unshared);
        if peak > 0 {
            let apart = format!(" ({} if nothing shared)", format_bytes(unshared));
            let apart = if unshared > peak { &apart } else { "" };
            totals.push(format!("{} of scratch memory{apart}", format_bytes(peak)));
        }
        totals
    }

    fn launch_lines(&self) -> Vec<String> {
        let tasks: Vec<String> = self.steps.iter().map(|step| step.task.kind().describe()).collect();
        // One long line should not push what the others have to say far to the right.
        let width = tasks.iter().map(|task| task.chars().count()).filter(|width| *width <= 64).max().unwrap_or(0);
        let digits = self.steps.len().to_string().len();
        let mut lines = Vec::new();
        for (index, (step, task)) in self.steps.iter().zip(tasks).enumerate() {
            if index > 0 && self.steps[index - 1].barrier_epoch != step.barrier_epoch {
                lines.push("  -- barrier --".to_owned());
            }
            let stages = self.stage_labels(step).join(" + ");
            lines.push(format!("  {:digits$}  {task:width$}   {stages}", index + 1).trim_end().to_owned());
            let list = |verb: &str, places: &[Place]| match places {
                [] => String::new(),
                _ => format!("{verb} {}   ", names(places).join(", ")),
            };
            let (reads, writes) = (list("reads", &step.reads), list("writes", &step.writes));
            lines.push(format!("  {:digits$}  {reads}{writes}{}", "", format_bytes(step.bytes)));
        }
        lines
    }

    /// What the stages of a launch are called, in order; of composite kernels, with the parts that it does.
    pub fn stage_labels(&self, step: &BlueprintStep) -> Vec<String> {
        let mut labels: Vec<String> = step.stages.iter().map(|stage| self.label(*stage)).collect();
        if let (Some(last), [first, rest @ ..]) = (labels.last_mut(), &step.parts[..]) {
            let more = if rest.is_empty() { String::new() } else { format!(" + {} more", rest.len()) };
            *last = format!("{last}: {}{more}", clean(first));
        }
        labels
    }

    fn label(&self, stage: usize) -> String {
        self.labels.get(stage).map_or_else(|| format!("stage {stage}"), |label| clean(label))
    }

    fn named(&self, stage: usize) -> String {
        format!("{} ({stage})", self.label(stage))
    }

    /// The launches that do a stage's work, or a part of it.
    fn launches(&self, stage: usize) -> Vec<usize> {
        (0..self.steps.len()).filter(|step| self.steps[*step].stages.contains(&stage)).collect()
    }

    fn runs(&self, stage: usize) -> bool {
        self.together(stage, stage)
    }

    /// Whether a launch does work of both stages.
    fn together(&self, one: usize, other: usize) -> bool {
        self.steps.iter().any(|step| step.stages.contains(&one) && step.stages.contains(&other))
    }
}

/// The bytes of a buffer.
pub(crate) fn size_of(ty: &TensorType) -> usize {
    ty.shape.len().saturating_mul(ty.dtype.size())
}

/// What a place is called in the plan.
pub(crate) fn place_name(place: Place) -> String {
    match place {
        Place::Input(number) => format!("b{number}"),
        Place::Transient(number) => format!("t{number}"),
        Place::Constant(number) => format!("c{number}"),
        Place::Output | Place::Further(_) => "output".to_owned(),
    }
}

fn names(places: &[Place]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in places.iter().map(|place| place_name(*place)) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// A name on one line, without anything that a terminal or a picture cannot show.
pub(crate) fn clean(name: &str) -> String {
    let shown = |c: char| !c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}');
    name.chars().map(|c| if shown(c) { c } else { ' ' }).collect()
}

fn section(lines: &mut Vec<String>, title: &str, entries: Vec<String>) {
    if !entries.is_empty() {
        lines.push(title.to_owned());
        lines.extend(entries);
    }
}

/// Rows whose columns are aligned.
fn table<const COLUMNS: usize>(rows: impl Iterator<Item = [String; COLUMNS]>) -> Vec<String> {
    let rows: Vec<[String; COLUMNS]> = rows.collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; COLUMNS] = std::array::from_fn(width);
    let line = |row: &[String; COLUMNS]| {
        // A column in which no row says anything takes no room.
        let cells = row.iter().zip(widths).filter(|(_, width)| *width > 0);
        let cells: Vec<String> = cells.map(|(cell, width)| format!("{cell:width$}")).collect();
        format!("  {}", cells.join("  ")).trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use dala_spec::{DType, Expr, Program, ResolvedParams, Scope, Signature};

    use super::*;
    use crate::plan::{Cell, Graph, LoweredStage, Rules, plan};
    use crate::work::{
        Argument, Border, Filter, Finish, Fold, FoldOp, Fragment, Histogram, Map, Matmul, Pack, Phase, Stencil,
        StridedCopy, Task, Tile,
    };
    use crate::{DeviceFacts, Lowering};

    pub(crate) fn ty(dtype: DType, dims: &[usize]) -> TensorType {
        TensorType::new(dtype, dims)
    }

    pub(crate) fn cell(name: &str, ty: TensorType) -> Cell {
        Cell { ty, name: name.to_owned(), transient: name.is_empty() }
    }

    /// A program of inputs `x` and `y` with these types.
    pub(crate) fn map(text: &str, inputs: &[TensorType], output: TensorType) -> Task {
        let names = &["x", "y"][..inputs.len()];
        let expr = Expr::parse(text, &Scope::new(names.iter().copied(), [""; 0])).unwrap();
        let (shape, lens) = (output.shape.clone(), inputs.iter().map(|input| input.shape.len()).collect());
        let signature = Signature { inputs: inputs.to_vec(), output, params: ResolvedParams::default() };
        Task::Map(Map { program: Program::build(&expr, names, &signature).unwrap(), shape, lens })
    }

    fn fragment(text: &str, arguments: &[Argument], output: DType) -> Fragment {
        let names: Vec<&str> = arguments.iter().map(|argument| argument.name).collect();
        let expr = Expr::parse(text, &Scope::new(names, [""; 0])).unwrap();
        Fragment::build(&expr, arguments, output, &ResolvedParams::default()).unwrap()
    }

    pub(crate) fn stencil(radius: usize, dims: [usize; 3]) -> Task {
        let weights = vec![1.0; 2 * radius + 1];
        Task::Stencil(Stencil {
            height: dims[0],
            width: dims[1],
            channels: dims[2],
            border: Border::Clamp,
            radius,
            filters: vec![Filter { down: weights.clone(), across: weights }],
            load: fragment("x", &[Argument::own("x", 0, DType::U8)], DType::S32),
            store: fragment("f", &[Argument::value("f", 0, DType::F32)], DType::U8),
            pixels: None,
        })
    }

    pub(crate) fn run(task: Task, inputs: &[usize], output: usize) -> LoweredStage {
        let mut lowering = Lowering::new();
        lowering.step(task, (0..inputs.len()).map(Place::Input).collect::<Vec<_>>(), Place::Output);
        LoweredStage::Run { lowering, inputs: inputs.to_vec(), outputs: vec![output] }
    }

    pub(crate) fn planned(cells: &[Cell], calls: Vec<LoweredStage>, labels: &[&str], fuse: bool) -> Blueprint {
        let facts = DeviceFacts {
            name: "test".to_owned(),
            max_bindings: 8,
            units_per_cube: 4,
            vectors_per_unit: 4,
            ..DeviceFacts::of_a_cpu()
        };
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        plan(Graph::build(cells, calls, labels).unwrap(), &Rules { facts: &facts, fuse }).unwrap()
    }

    /// A photo is blurred, sharpened, and inverted after a barrier.
    pub(crate) fn photo(fuse: bool) -> Blueprint {
        let picture = ty(DType::U8, &[1080, 1920, 4]);
        let cells = [
            cell("photo", picture.clone()),
            cell("", picture.clone()),
            cell("", picture.clone()),
            cell("out", picture.clone()),
        ];
        let dims = [1080, 1920, 4];
        let invert = map("255 - x", std::slice::from_ref(&picture), picture.clone());
        let calls = vec![
            run(stencil(3, dims), &[0], 1),
            run(stencil(1, dims), &[1], 2),
            LoweredStage::Barrier,
            run(invert, &[2], 3),
        ];
        planned(&cells, calls, &["blur", "sharpen", "barrier", "invert"], fuse)
    }

    #[test]
    fn a_plan_reads_well() {
        let mut plan = photo(false);
        plan.verdicts = vec![
            Verdict::Apart { from: 0, to: 1, why: "neither is pointwise" },
            Verdict::Apart { from: 1, to: 3, why: "a barrier lies between them" },
            Verdict::Apart { from: 0, to: 1, why: "neither is pointwise" },
        ];
        let expected = "\
plan: 3 stages in 3 launches, 49.8 MB moved, 16.6 MB of scratch memory
buffers
  b0  photo  u8 {1080, 1920, 4}  8.3 MB  read
  b1  out    u8 {1080, 1920, 4}  8.3 MB  written
scratch memory
  t0  8.3 MB
  t1  8.3 MB
launches
  1  stencil, radius 3, 1080 x 1920 x 4                 blur
     reads b0   writes t0   16.6 MB
  2  stencil, radius 1, 1080 x 1920 x 4                 sharpen
     reads t0   writes t1   16.6 MB
  -- barrier --
  3  program of 1 operation over 8294400 elements, u8   invert
     reads t1   writes b1   16.6 MB
apart
  blur (0) and sharpen (1): neither is pointwise
  sharpen (1) and invert (3): a barrier lies between them
";
        assert_eq!(plan.explain(), expected);
        assert_eq!(plan.explain(), plan.explain());
    }

    #[test]
    fn verdicts_that_were_overtaken_are_left_out() {
        let mut plan = photo(false);
        plan.steps.truncate(2);
        plan.steps[1].stages = vec![1, 3];
        plan.labels = ["blur", "sharpen", "copy", "invert", "noise"].map(str::to_owned).to_vec();
        plan.verdicts = vec![
            Verdict::Dropped { stage: 1 },
            Verdict::Dropped { stage: 4 },
            Verdict::Dropped { stage: 4 },
            Verdict::Elided { stage: 2 },
            Verdict::Apart { from: 1, to: 3, why: "for a while" },
            Verdict::Apart { from: 0, to: 1, why: "neither is pointwise" },
            Verdict::Apart { from: 0, to: 3, why: "neither is pointwise" },
            Verdict::Apart { from: 1, to: 4, why: "one is gone" },
            Verdict::Fused { from: 1, to: 3, how: "before it stores" },
            Verdict::Fused { from: 0, to: 4, how: "one is gone" },
        ];
        let text = plan.explain();
        let (_, verdicts) = text.split_once("fused\n").unwrap();
        let expected = "  \
  sharpen (1) + invert (3): before it stores
apart
  blur (0) and sharpen (1): neither is pointwise
not copied, the original is used
  copy (2)
dropped, nobody needs the result
  noise (4)
";
        assert_eq!(verdicts, expected);
        assert!(text.contains("   sharpen + invert\n"), "{text}");
    }

    #[test]
    fn plans_explain_their_launches() {
        let floats = ty(DType::F32, &[1000]);
        let cells = [cell("x", floats.clone()), cell("", floats.clone()), cell("y", floats.clone())];
        let half = || map("x * 0.5 + 1", std::slice::from_ref(&floats), floats.clone());
        let calls = vec![run(half(), &[0], 1), run(half(), &[1], 2)];
        let text = planned(&cells, calls.clone(), &["a", "b"], false).explain();
        assert!(text.starts_with("plan: 2 stages in 2 launches, 16.0 kB moved, 4.1 kB of scratch memory\n"), "{text}");
        let text = planned(&cells, calls, &["a", "b"], true).explain();
        assert!(text.starts_with("plan: 2 stages in 1 launch, 8.0 kB moved\nbuffers\n"), "{text}");
        assert!(text.contains("fused\n  a (0) + b (1): one program\n"), "{text}");
        assert!(planned(&[], Vec::new(), &[], true).explain() == "plan: 0 stages in 0 launches, 0 B moved\n");
    }

    #[test]
    fn names_stay_on_their_line() {
        let floats = ty(DType::F32, &[4]);
        let cells = [cell("a<b>&\"c\"", floats.clone()), cell("two\nlines", floats.clone())];
        let calls = vec![run(map("x + 1", std::slice::from_ref(&floats), floats.clone()), &[0], 1)];
        let text = planned(&cells, calls, &["tab\there"], true).explain();
        assert!(text.contains("  b0  a<b>&\"c\"   f32 {4}  16 B  read\n"), "{text}");
        assert!(text.contains("  b1  two lines  f32 {4}  16 B  written\n"), "{text}");
        assert!(text.contains("   tab here\n"), "{text}");
    }

    #[test]
    fn every_kind_of_launch_is_described() {
        let x = |dtype| fragment("x", &[Argument::own("x", 0, dtype)], dtype);
        let sum = |dtype| fragment("sum", &[Argument::value("sum", 0, dtype)], dtype);
        let tile = Tile { lanes: 16, rows: 4, vectors: 4, overlaps: true, stored: 16 };
        let phase = |how| Phase { how, of: x(DType::F32) };
        let fold = Fold {
            outer: 8,
            length: 512,
            inner: 2,
            piece: 128,
            phases: vec![phase(FoldOp::Max), phase(FoldOp::Sum)],
            finish: Finish::Once(sum(DType::F32)),
        };
        let weigh = crate::work::AxisSum {
            outer: 1,
            from: 100,
            to: 50,
            inner: 30,
            taps: 4,
            load: x(DType::F32),
            store: sum(DType::F32),
        };
        let resample = crate::work::Resample {
            from: (100, 80),
            to: (50, 40),
            taps: (4, 4),
            channels: 4,
            load: x(DType::F32),
            store: sum(DType::F32),
        };
        let moved = StridedCopy {
            word: 4,
            axes: [2, 3, 4],
            strides: [1, 1, 1],
            columns: 5,
            column_stride: 1,
            from: 0,
            to: 0,
            row_stride: 5,
            sizes: (120, 120),
        };
        let pack = Pack { batch: 1, k: 256, n: 512, transposed: false, dtype: DType::F32, tile };
        let matmul = Matmul {
            batch: 8,
            m: 128,
            k: 256,
            n: 512,
            a_batched: true,
            b_batched: true,
            a_transposed: false,
            windows: None,
            dtype: DType::F32,
            tile,
            packs: false,
            store: sum(DType::F32),
        };
        let bytes = ty(DType::U8, &[2, 3, 4]);
        let gray = map("x.r + x.a", std::slice::from_ref(&bytes), ty(DType::U8, &[2, 3]));
        let expected = [
            (Task::Map(Map::copy(&bytes)), "copy, 24 B"),
            (gray, "program of 3 operations over 6 pixels, u8"),
            (
                map("x", std::slice::from_ref(&bytes), ty(DType::F32, &[2, 3, 4])),
                "conversion over 24 elements, u8 to f32",
            ),
            (map("1", &[], ty(DType::F32, &[7])), "fill over 7 elements, f32"),
            (Task::Fold(fold), "fold by max, sum, 16 lines of 512 elements in 4 pieces"),
            (stencil(2, [4, 5, 1]), "stencil, radius 2, 4 x 5 x 1"),
            (Task::AxisSum(weigh), "weighted sums of 4, 1 x 100 x 30 to 1 x 50 x 30"),
            (Task::Resample(resample), "resample, 4 x 4 taps, 100 x 80 to 50 x 40"),
            (Task::StridedCopy(moved), "move, 24 rows of 5 words"),
            (Task::Pack(pack), "pack, 256 x 512, f32"),
            (Task::Matmul(matmul), "matmul, 8 of 128 x 256 x 512, f32"),
            (
                Task::Histogram(Histogram { len: 10, bins: 1, parts: 2, bin: x(DType::S32) }),
                "count, 10 elements in 1 bin",
            ),
        ];
        for (task, text) in expected {
            assert_eq!(task.kind().describe(), text);
        }
    }

    #[test]
    fn constants_are_listed() {
        let mut plan = photo(false);
        plan.constant_types = vec![TensorType::new(DType::F32, [14])];
        plan.steps[0].reads.push(Place::Constant(0));
        plan.steps[0].reads.push(Place::Input(0));
        let text = plan.explain();
        assert!(text.contains("constants\n  c0  f32 {14}  56 B\n"), "{text}");
        assert!(text.contains("reads b0, c0   writes t0"), "{text}");
    }
}
