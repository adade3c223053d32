//! A plan as a picture: launches as cards from top to bottom, users' buffers at the sides, scratch memory in between.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::Write;

use crate::Place;
use crate::plan::explain::{clean, place_name, size_of};
use crate::plan::{Blueprint, BlueprintStep, External};
use crate::words::{count, format_bytes};

/// Plans of more launches than this are cut short.
const MOST_CARDS: usize = 60;
/// How many launches of such a plan are drawn.
const FIRST_CARDS: usize = 50;
/// How many rows of stages a card has at most.
const MOST_ROWS: usize = 3;

const MARGIN: f64 = 28.0;
/// Where cards begin, below the title.
const TOP: f64 = 78.0;
/// Between buffers and cards, where edges run.
const GUTTER: f64 = 68.0;
/// Between edges that go past cards.
const LANE: f64 = 14.0;
/// The text of a card begins here; before it is the launch's number.
const INDENT: f64 = 40.0;
/// The height of a stage or of a piece of scratch memory, and of a user's buffer.
const CHIP: f64 = 24.0;
const PILL: f64 = 42.0;

/// Selectors name the picture, as a page may have others in it.
const STYLE: &str = "
.dala-plan text { font: 12px system-ui, sans-serif; fill: #5d6a80 }
.dala-plan .title { font-size: 17px; font-weight: 600; fill: #1e293b }
.dala-plan .name { font-size: 13px; font-weight: 600 }
.dala-plan .task { font-size: 13px; fill: #334155 }
.dala-plan .number { font-weight: 600; fill: #94a1b5 }
.dala-plan .ground { fill: #f5f7fa; stroke: #dce2eb }
.dala-plan .card { fill: #ffffff; stroke: #d3dbe7 }
.dala-plan .chip { fill: #e3ebfb } .dala-plan .chip-text { font-weight: 600; text-anchor: middle; fill: #2b4a9b }
.dala-plan .input { fill: #e2f3ec; stroke: #abd8c5 } .dala-plan .input-text { fill: #1d654a }
.dala-plan .output { fill: #fcefe0; stroke: #efcda4 } .dala-plan .output-text { fill: #86480f }
.dala-plan .slot { fill: #ebeef4; stroke: #cbd3e0 } .dala-plan .slot-text { text-anchor: middle }
.dala-plan .edge { fill: none; stroke: #9fadc4; stroke-width: 1.5 } .dala-plan .head { fill: #9fadc4 }
.dala-plan .barrier { stroke: #b9a5cf; stroke-width: 1.5; stroke-dasharray: 6 5 } .dala-plan .barrier-text { fill: #8a72a6 }
@media (prefers-color-scheme: dark) {
.dala-plan text { fill: #94a3b8 } .dala-plan .title { fill: #e5eaf2 }
.dala-plan .task { fill: #cbd5e1 } .dala-plan .number { fill: #6b7a92 }
.dala-plan .ground { fill: #111827; stroke: #273449 } .dala-plan .card { fill: #1b2536; stroke: #33425a }
.dala-plan .chip { fill: #27385f } .dala-plan .chip-text { fill: #b8cbfa }
.dala-plan .input { fill: #153329; stroke: #2b6650 } .dala-plan .input-text { fill: #93dcbd }
.dala-plan .output { fill: #3a2815; stroke: #77532a } .dala-plan .output-text { fill: #f1c48d }
.dala-plan .slot { fill: #222d40; stroke: #3a4960 }
.dala-plan .edge { stroke: #566783 } .dala-plan .head { fill: #566783 }
.dala-plan .barrier { stroke: #6d5b88 } .dala-plan .barrier-text { fill: #a893c7 }
}
";

impl Blueprint {
    /// The plan as an SVG picture that needs nothing else, with a background of its own for light and for dark pages.
    pub fn to_svg(&self) -> String {
        let shown = if self.steps.len() > MOST_CARDS { FIRST_CARDS } else { self.steps.len() };
        let mut picture = Drawing { cards: self.cards(shown), flows: self.flows(shown), shapes: String::new() };
        picture.draw(&self.totals())
    }

    fn cards(&self, shown: usize) -> Vec<Card> {
        let card = |(index, step): (usize, &BlueprintStep)| {
            let constants = step.reads.iter().filter(|place| matches!(place, Place::Constant(_))).count();
            let more = if constants > 0 { format!(", {}", count(constants, "constant")) } else { String::new() };
            Card {
                number: (index + 1).to_string(),
                stages: self.stage_labels(step).iter().map(|label| fit(label, 12.0, 200.0)).collect(),
                task: fit(&step.task.kind().describe(), 13.0, 460.0),
                detail: format!("{} moved{more}", format_bytes(step.bytes)),
                barrier: index > 0 && self.steps[index - 1].barrier_epoch != step.barrier_epoch,
                spot: Spot::default(),
            }
        };
        let mut cards: Vec<Card> = self.steps.iter().enumerate().take(shown).map(card).collect();
        let rest = &self.steps[shown..];
        if !rest.is_empty() {
            let detail = format!("{} moved", format_bytes(rest.iter().map(|step| step.bytes).sum()));
            let task = format!("and {} more launches", rest.len());
            cards.push(Card { task, detail, ..Card::default() });
        }
        cards
    }

    /// What every place holds from one write to the next. Launches that are not shown count as one.
    fn flows(&self, shown: usize) -> Vec<Flow> {
        let mut flows: Vec<Flow> = Vec::new();
        let mut current: HashMap<Place, usize> = HashMap::new();
        let start = |flows: &mut Vec<Flow>, place: Place, class: &'static str| {
            flows.push(self.flow(place, class));
            flows.len() - 1
        };
        for (index, step) in self.steps.iter().enumerate() {
            let card = index.min(shown);
            for place in step.reads.iter().filter(|place| !matches!(place, Place::Constant(_))) {
                let flow = *current.entry(*place).or_insert_with(|| start(&mut flows, *place, "input"));
                push(&mut flows[flow].readers, card);
            }
            for place in step.writes.iter().take(step.task.kind().results()) {
                // What nobody has read by now is written in parts.
                let part = current.get(place).copied().filter(|flow| flows[*flow].readers.is_empty());
                let flow = part.unwrap_or_else(|| start(&mut flows, *place, "output"));
                current.insert(*place, flow);
                push(&mut flows[flow].writers, card);
            }
        }
        flows.retain(|flow| flow.class != "slot" || flow.row().is_some());
        flows
    }

    fn flow(&self, place: Place, class: &'static str) -> Flow {
        let (class, lines) = match place {
            Place::Transient(slot) => {
                let bytes = self.scratch.get(slot).copied().unwrap_or(0);
                ("slot", vec![format!("{} · {}", place_name(place), format_bytes(bytes))])
            }
            Place::Input(number) if number < self.externals.len() => {
                let External { name, ty, .. } = &self.externals[number];
                let (name, bytes) = (format!("{} {}", place_name(place), clean(name)), format_bytes(size_of(ty)));
                (class, vec![fit(name.trim_end(), 13.0, 200.0), fit(&format!("{ty} · {bytes}"), 12.0, 240.0)])
            }
            _ => (class, vec![place_name(place), String::new()]),
        };
        Flow { class, lines, ..Flow::default() }
    }
}

fn push<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if !list.contains(&item) {
        list.push(item);
    }
}

/// A launch.
#[derive(Default)]
struct Card {
    number: String,
    stages: Vec<String>,
    task: String,
    detail: String,
    /// Whether a barrier comes before it.
    barrier: bool,
    spot: Spot,
}

impl Card {
    /// The stages in rows that fit; the last row says how many did not.
    fn rows(&self, width: f64) -> Vec<Vec<String>> {
        let mut rows: Vec<Vec<String>> = Vec::new();
        let mut room = 0.0;
        for (index, stage) in self.stages.iter().enumerate() {
            let left = self.stages.len() - index;
            let last = rows.len() == MOST_ROWS;
            if chip_width(stage) + if last && left > 1 { 90.0 } else { 10.0 } > room {
                if last {
                    rows[MOST_ROWS - 1].push(format!("{left} more"));
                    break;
                }
                rows.push(Vec::new());
                room = width - INDENT;
            }
            room -= chip_width(stage);
            rows.last_mut().into_iter().for_each(|row| row.push(stage.clone()));
        }
        rows
    }
}

/// What a place holds from one write to the next, drawn as a pill.
#[derive(Default)]
struct Flow {
    /// An `input` was there before, an `output` is written, and a `slot` is scratch memory.
    class: &'static str,
    lines: Vec<String>,
    /// The cards that write it: several, where each writes a part.
    writers: Vec<usize>,
    readers: Vec<usize>,
    spot: Spot,
    /// Its way past cards, where it needs one, counted from the cards.
    lane: Option<usize>,
    /// Whether other scratch memory is drawn to the right of it.
    covered: bool,
}

impl Flow {
    /// The card under which scratch memory is drawn: the last that writes it before somebody reads it.
    fn row(&self) -> Option<usize> {
        let first = self.readers.first().filter(|_| self.class == "slot")?;
        self.writers.iter().rev().find(|writer| *writer < first).copied()
    }

    /// The card beside which a user's buffer is drawn.
    fn anchor(&self) -> usize {
        self.writers.last().or(self.readers.first()).copied().unwrap_or(0)
    }

    /// The cards that it meets at their sides, and whether they read it.
    fn beside(&self) -> impl Iterator<Item = (usize, bool)> {
        let ends = self.writers.iter().map(|card| (*card, false)).chain(self.readers.iter().map(|card| (*card, true)));
        let row = self.row();
        ends.filter(move |(card, _)| row.is_none_or(|row| *card != row && *card != row + 1))
    }

    fn width(&self) -> f64 {
        let padding = if self.class == "slot" { 24.0 } else { 32.0 };
        self.lines.iter().map(|line| text_width(line, 13.0)).fold(0.0, f64::max) + padding
    }
}

#[derive(Clone, Copy, Default)]
struct Spot {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
}

impl Spot {
    fn right(&self) -> f64 {
        self.x + self.width
    }

    fn bottom(&self) -> f64 {
        self.y + self.height
    }

    fn middle(&self) -> (f64, f64) {
        (self.x + self.width / 2.0, self.y + self.height / 2.0)
    }
}

struct Drawing {
    cards: Vec<Card>,
    flows: Vec<Flow>,
    shapes: String,
}

impl Drawing {
    fn draw(&mut self, totals: &[String]) -> String {
        let (title, more) = (totals[..1].join(""), totals[1..].join(" · "));
        let column = |flows: &[Flow], class: &str| {
            flows.iter().filter(|flow| flow.class == class).map(Flow::width).fold(0.0, f64::max)
        };
        let (inputs, outputs) = (column(&self.flows, "input"), column(&self.flows, "output"));
        let left = if inputs > 0.0 { MARGIN + inputs + GUTTER } else { MARGIN };
        self.place_cards(left);
        let lanes = self.place_lanes() as f64 * LANE;
        let edge = self.cards.first().map_or(left, |card| card.spot.right());
        let right = edge + lanes + if outputs > 0.0 { GUTTER } else { 0.0 };
        let cards = self.cards.last().map_or(TOP, |card| card.spot.bottom());
        let lowest =
            cards.max(self.place_pills("input", MARGIN, inputs)).max(self.place_pills("output", right, outputs));
        let titles = text_width(&title, 17.0).max(text_width(&more, 12.0)) + MARGIN;
        let (width, height) = (titles.max(right + outputs) + MARGIN, lowest + MARGIN);
        let ground = Spot { x: 0.5, y: 0.5, width: width - 1.0, height: height - 1.0 };
        self.rect("ground", ground, 14.0);
        self.text("title", (MARGIN, 36.0), &title);
        self.text("more", (MARGIN, 56.0), &more);
        self.draw_edges(edge);
        self.draw_cards(width - MARGIN);
        self.draw_pills();
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" class=\"dala-plan\" role=\"img\" \
             width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\">\n\
             <title>plan: {}</title>\n<style>{STYLE}</style>\n\
             <marker id=\"dala-plan-head\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" \
             markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path class=\"head\" d=\"M0 0.5 L8 4 L0 7.5 Z\"/></marker>\n\
             {}</svg>\n",
            escape(&totals.join(", ")),
            self.shapes
        )
    }

    /// Puts the cards below one another, and under each the scratch memory that it writes.
    fn place_cards(&mut self, left: f64) {
        let row = |flows: &[Flow], card: usize| {
            flows.iter().filter(|flow| flow.row() == Some(card)).map(|flow| flow.width() + 16.0).sum::<f64>()
        };
        let content = |(index, card): (usize, &Card)| {
            let stages = card.stages.iter().map(|stage| chip_width(stage)).sum::<f64>().min(340.0);
            let widest = stages.max(text_width(&card.task, 13.0)).max(text_width(&card.detail, 12.0));
            (widest + INDENT + 16.0).max(row(&self.flows, index))
        };
        let width = self.cards.iter().enumerate().map(content).fold(280.0, f64::max);
        let mut y = TOP;
        for (index, card) in self.cards.iter_mut().enumerate() {
            y += if card.barrier { 30.0 } else { 0.0 };
            let height = 66.0 + card.rows(width).len() as f64 * (CHIP + 6.0);
            card.spot = Spot { x: left, y, width, height };
            y += height + 22.0;
            let slots = row(&self.flows, index);
            let mut x = left + (width - slots) / 2.0 + 8.0;
            for flow in self.flows.iter_mut().filter(|flow| flow.row() == Some(index)) {
                flow.spot = Spot { x, y, width: flow.width(), height: CHIP };
                x += flow.width() + 16.0;
                flow.covered = x < left + (width + slots) / 2.0;
            }
            y += if slots > 0.0 { CHIP + 26.0 } else { 0.0 };
        }
    }

    /// Finds ways beside the cards for scratch memory that is used further down; says how much room they take.
    fn place_lanes(&mut self) -> usize {
        // How far up each way is taken, in cards and gaps: those that begin last are next to the cards, so that fewer cross.
        let mut taken: Vec<usize> = Vec::new();
        let mut order: Vec<&mut Flow> = self.flows.iter_mut().filter(|flow| flow.class == "slot").collect();
        order.sort_by_key(|flow| Reverse(flow.row()));
        for flow in order {
            let cards: Vec<usize> = flow.beside().map(|(card, _)| 2 * card).collect();
            let (Some(first), Some(last), Some(row)) = (cards.first(), cards.last(), flow.row()) else { continue };
            let pill = 2 * row + 1;
            let lane = taken.iter().position(|taken| pill.max(*last) < *taken).unwrap_or(taken.len());
            taken.resize(taken.len().max(lane + 1), 0);
            taken[lane] = pill.min(*first);
            flow.lane = Some(lane);
        }
        if taken.is_empty() { 0 } else { taken.len() + 1 }
    }

    /// Puts users' buffers beside the cards that they meet, below one another; says how far down they reach.
    fn place_pills(&mut self, class: &str, x: f64, width: f64) -> f64 {
        let mut order: Vec<usize> = (0..self.flows.len()).filter(|flow| self.flows[*flow].class == class).collect();
        order.sort_by_key(|flow| self.flows[*flow].anchor());
        let (mut y, mut last) = (TOP, None);
        for flow in &order {
            let anchor = self.flows[*flow].anchor();
            if last.replace(anchor) != Some(anchor) {
                let group = order.iter().filter(|other| self.flows[**other].anchor() == anchor).count() as f64;
                y = y.max(self.cards[anchor].spot.middle().1 - (group * (PILL + 10.0) - 10.0) / 2.0);
            }
            self.flows[*flow].spot = Spot { x, y, width, height: PILL };
            y += PILL + 10.0;
        }
        y - 10.0
    }

    fn draw_edges(&mut self, edge: f64) {
        let mut paths = Vec::new();
        for flow in self.flows.iter().filter(|flow| flow.row().is_some()) {
            let (row, x) = (flow.row().unwrap_or(0), flow.spot.middle().0);
            paths.push(format!("M{x:.1} {:.1} V{:.1}", self.cards[row].spot.bottom(), flow.spot.y));
            if flow.readers.contains(&(row + 1)) {
                paths.push(format!("M{x:.1} {:.1} V{:.1}", flow.spot.bottom(), self.cards[row + 1].spot.y));
            }
        }
        for (index, card) in self.cards.iter().enumerate() {
            for left in [true, false] {
                let mut links: Vec<(&Flow, bool)> = Vec::new();
                for flow in self.flows.iter().filter(|flow| (flow.class == "input") == left) {
                    links.extend(flow.beside().filter(|(card, _)| *card == index).map(|(_, reads)| (flow, reads)));
                }
                // In the order in which edges arrive, so that few cross.
                links.sort_by(|one, other| arrival(one.0, card).total_cmp(&arrival(other.0, card)));
                let all = links.len() as f64 + 1.0;
                for (rank, (flow, reads)) in links.into_iter().enumerate() {
                    let y = card.spot.y + card.spot.height * (rank as f64 + 1.0) / all;
                    let own = (if left { card.spot.x } else { edge }, y);
                    paths.push(path(flow, own, edge, reads));
                }
            }
        }
        for path in paths {
            let _ = writeln!(self.shapes, "<path class=\"edge\" d=\"{path}\" marker-end=\"url(#dala-plan-head)\"/>");
        }
    }

    fn draw_cards(&mut self, right: f64) {
        for card in std::mem::take(&mut self.cards) {
            let Spot { x, y, width, .. } = card.spot;
            if card.barrier {
                let y = y - 20.0;
                let _ = writeln!(self.shapes, "<path class=\"barrier\" d=\"M{MARGIN:.1} {y:.1} H{right:.1}\"/>");
                self.text("barrier-text", (x + 4.0, y - 6.0), "barrier");
            }
            self.rect("card", card.spot, 10.0);
            self.text("number", (x + 16.0, y + 30.5), &card.number);
            let mut line = y + 14.0;
            for row in card.rows(width) {
                let mut left = x + INDENT;
                for stage in row {
                    let width = chip_width(&stage) - 6.0;
                    self.rect("chip", Spot { x: left, y: line, width, height: CHIP }, CHIP / 2.0);
                    self.text("chip-text", (left + width / 2.0, line + 16.5), &stage);
                    left += width + 6.0;
                }
                line += CHIP + 6.0;
            }
            self.text("task", (x + INDENT, line + 17.0), &card.task);
            self.text("detail", (x + INDENT, line + 36.0), &card.detail);
        }
    }

    fn draw_pills(&mut self) {
        for Flow { class, lines, spot, .. } in std::mem::take(&mut self.flows) {
            self.rect(class, spot, 12.0);
            match &lines[..] {
                [name, ty] => {
                    self.text(&format!("name {class}-text"), (spot.x + 16.0, spot.y + 18.0), name);
                    self.text(&format!("{class}-text"), (spot.x + 16.0, spot.y + 34.0), ty);
                }
                lines => self.text("slot-text", (spot.middle().0, spot.y + 16.0), &lines.concat()),
            }
        }
    }

    fn rect(&mut self, class: &str, spot: Spot, round: f64) {
        let Spot { x, y, width, height } = spot;
        let size = format!("x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"");
        let _ = writeln!(self.shapes, "<rect class=\"{class}\" {size} rx=\"{round:.0}\"/>");
    }

    fn text(&mut self, class: &str, (x, y): (f64, f64), text: &str) {
        if !text.is_empty() {
            let _ = writeln!(self.shapes, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escape(text));
        }
    }
}

/// Edges that come down past a card's upper neighbours meet it first, and those that go down meet it last.
fn arrival(flow: &Flow, card: &Card) -> f64 {
    let far = if flow.spot.y < card.spot.y { -1e9 } else { 1e9 };
    if flow.lane.is_some() { far - flow.spot.y } else { flow.spot.y }
}

/// The way between a pill and a point at the side of a card: a curve, or past cards whose right side is at `edge`.
fn path(flow: &Flow, (x, y): (f64, f64), edge: f64, reads: bool) -> String {
    let (spot, (middle, height)) = (flow.spot, flow.spot.middle());
    let Some(lane) = flow.lane.map(|lane| lane as f64) else {
        let own = if flow.class == "input" { spot.right() } else { spot.x };
        let (x0, y0, x1, y1) = if reads { (own, height, x, y) } else { (x, y, own, height) };
        let half = (x0 + x1) / 2.0;
        return format!("M{x0:.1} {y0:.1} C{half:.1} {y0:.1} {half:.1} {y1:.1} {x1:.1} {y1:.1}");
    };
    // What others are to the right of is met from below, at a height of its own.
    let below = spot.bottom() + 16.0 - 5.0 * lane.min(2.0);
    let (own, height) = if flow.covered { (middle, below) } else { (spot.right(), height) };
    let (x0, y0, x1, y1) = if reads { (own, height, x, y) } else { (x, y, own, height) };
    let (far, bend) = (edge + (lane + 1.0) * LANE, if y1 > y0 { 8.0 } else { -8.0 });
    let (turn, after, before) = (far - 8.0, y0 + bend, y1 - bend);
    let way = format!(
        "{x0:.1} {y0:.1} H{turn:.1} Q{far:.1} {y0:.1} {far:.1} {after:.1} \
         V{before:.1} Q{far:.1} {y1:.1} {turn:.1} {y1:.1} H{x1:.1}"
    );
    match (flow.covered, reads) {
        (false, _) => format!("M{way}"),
        (true, true) => format!("M{own:.1} {:.1} L{way}", spot.bottom()),
        (true, false) => format!("M{way} V{:.1}", spot.bottom()),
    }
}

/// The width of a stage, and of the room after it.
fn chip_width(stage: &str) -> f64 {
    text_width(stage, 12.0) + 28.0
}

/// About how wide a text is; fonts differ.
fn text_width(text: &str, size: f64) -> f64 {
    text.chars().map(letter_width).sum::<f64>() * size
}

/// At a size of one.
fn letter_width(letter: char) -> f64 {
    match letter {
        'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | '\'' | '|' | '!' => 0.3,
        ' ' | 'f' | 't' | 'r' | '(' | ')' | '{' | '}' | '·' => 0.4,
        'm' | 'w' | 'M' | 'W' | '@' | '%' => 0.9,
        'A'..='Z' | '&' | '+' | '<' | '>' => 0.68,
        letter if letter.is_ascii() => 0.58,
        _ => 1.0,
    }
}

/// A text, cut where it is wider than that.
fn fit(text: &str, size: f64, most: f64) -> String {
    if text_width(text, size) <= most {
        return text.to_owned();
    }
    let mut width = size;
    let fits = |letter: &char| {
        width += letter_width(*letter) * size;
        width <= most
    };
    let short: String = text.chars().take_while(fits).collect();
    format!("{}…", short.trim_end())
}

/// A text as it stands in SVG, between tags or quotes.
pub fn escape(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;").replace('\'', "&#39;")
}

#[cfg(test)]
mod tests {
    use dala_spec::DType;

    use super::*;
    use crate::plan::LoweredStage;
    use crate::plan::explain::tests::{cell, map, photo, planned, run, stencil, ty};

    /// A picture with an outline on top: values that wait, an input that is read twice, and one that is overwritten.
    fn poster() -> Blueprint {
        let (dims, picture) = ([1080, 1920, 4], ty(DType::U8, &[1080, 1920, 4]));
        let gray = ty(DType::U8, &[1080, 1920]);
        let cells = [
            cell("photo", picture.clone()),
            cell("frame", picture.clone()),
            cell("poster", picture.clone()),
            cell("mask", gray.clone()),
            cell("", picture.clone()),
            cell("", picture.clone()),
            cell("", picture.clone()),
        ];
        let two = [picture.clone(), picture.clone()];
        let calls = vec![
            run(stencil(3, dims), &[0], 4),
            run(stencil(1, dims), &[4], 5),
            run(map("x * 0.8 + 10", &two[..1], picture.clone()), &[5], 5),
            run(map("(x.r + x.g + x.b) / 3", &two[..1], gray), &[5], 3),
            LoweredStage::Barrier,
            run(stencil(1, dims), &[5], 6),
            run(map("max(x, y)", &two, picture.clone()), &[4, 6], 6),
            run(map("min(x, 200)", &two[..1], picture.clone()), &[6], 6),
            run(map("min(x, y)", &two, picture.clone()), &[6, 1], 2),
            run(map("x * 0.5 + y * 0.5", &two, picture), &[2, 1], 1),
        ];
        let labels = [
            "blur",
            "sharpen",
            "brightness_contrast",
            "grayscale",
            "barrier",
            "sobel",
            "elementwise_max",
            "clamp",
            "elementwise_min",
            "blend",
        ];
        planned(&cells, calls, &labels, true)
    }

    fn chain(launches: usize) -> Blueprint {
        let picture = ty(DType::U8, &[64, 64, 4]);
        let mut cells = vec![cell("in", picture.clone()), cell("out", picture.clone())];
        cells.extend((0..launches).map(|_| cell("", picture.clone())));
        let calls = (0..launches).map(|at| {
            let (from, to) = (if at == 0 { 0 } else { at + 1 }, if at + 1 == launches { 1 } else { at + 2 });
            run(stencil(1, [64, 64, 4]), &[from], to)
        });
        planned(&cells, calls.collect(), &vec!["blur"; launches], true)
    }

    /// Whether every tag is closed, in order, and text is escaped.
    fn is_well_formed(svg: &str) -> bool {
        let mut open: Vec<&str> = Vec::new();
        for part in svg.split('<').skip(1) {
            let Some((tag, text)) = part.split_once('>') else { return false };
            let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap_or_default();
            match (tag.starts_with('/'), tag.ends_with('/')) {
                (true, _) if open.pop() != Some(name) => return false,
                (false, false) => open.push(name),
                _ => {}
            }
            let entities = ["amp;", "lt;", "gt;", "quot;", "#39;"];
            let escaped = |rest: &str| entities.iter().any(|entity| rest.starts_with(entity));
            if text.contains('>') || tag.matches('"').count() % 2 == 1 || !text.split('&').skip(1).all(escaped) {
                return false;
            }
        }
        open.is_empty()
    }

    #[test]
    fn pictures_are_well_formed() {
        for plan in [photo(false), photo(true), poster(), chain(64), planned(&[], Vec::new(), &[], true)] {
            let svg = plan.to_svg();
            assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n") && is_well_formed(&svg), "{svg}");
            assert_eq!(svg, plan.to_svg());
        }
    }

    #[test]
    fn names_are_escaped() {
        let mut plan = poster();
        plan.externals[0].name = "a<b>&\"c\"\u{1}".to_owned();
        plan.labels[0] = "it's <i>".to_owned();
        let svg = plan.to_svg();
        assert!(is_well_formed(&svg), "{svg}");
        assert!(svg.contains(">b0 a&lt;b&gt;&amp;&quot;c&quot;</text>"), "{svg}");
        assert!(svg.contains(">it&#39;s &lt;i&gt;</text>"), "{svg}");
    }

    #[test]
    fn long_names_are_cut_at_once() {
        let start = std::time::Instant::now();
        assert_eq!(fit(&"wide ".repeat(100_000), 10.0, 81.0), "wide wide wi…");
        assert_eq!(fit("wide", 10.0, 81.0), "wide");
        assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
    }

    #[test]
    fn edges_follow_values_where_memory_is_used_again() {
        let mut plan = chain(4);
        let (a, b) = (Place::Transient(0), Place::Transient(1));
        for (step, (from, to)) in
            plan.steps.iter_mut().zip([(Place::Input(0), a), (a, b), (b, a), (a, Place::Input(1))])
        {
            (step.reads, step.writes) = (vec![from], vec![to]);
        }
        let ends = |flow: &Flow| (flow.lines[0].clone(), flow.writers.clone(), flow.readers.clone());
        let found: Vec<_> = plan.flows(4).iter().map(ends).collect();
        let pill =
            |name: &str, writers: &[usize], readers: &[usize]| (name.to_owned(), writers.to_vec(), readers.to_vec());
        let slot = |n: usize| format!("t{n} · {}", format_bytes(plan.scratch[n]));
        assert_eq!(
            found,
            [
                pill("b0 in", &[], &[0]),
                pill(&slot(0), &[0], &[1]),
                pill(&slot(1), &[1], &[2]),
                pill(&slot(0), &[2], &[3]),
                pill("b1 out", &[3], &[]),
            ]
        );
        // In place, and in parts.
        plan.steps[1].writes = vec![a];
        plan.steps[2].reads = vec![Place::Input(0)];
        let found: Vec<_> = plan.flows(4).iter().map(ends).collect();
        assert_eq!(found[1..3], [pill(&slot(0), &[0], &[1]), pill(&slot(0), &[1, 2], &[3])]);
        assert!(plan.to_svg().contains(" Q"), "the first part goes past the second launch");
    }

    #[test]
    fn what_a_kernel_writes_for_itself_is_no_value() {
        let mut plan = chain(3);
        plan.scratch.push(512);
        plan.steps[0].writes.push(Place::Transient(2));
        assert!(!plan.to_svg().contains(">t2"));
    }

    #[test]
    fn long_plans_are_cut_short() {
        let cards = |plan: &Blueprint| plan.to_svg().matches("class=\"card\"").count();
        assert_eq!(cards(&chain(60)), 60);
        let plan = chain(61);
        assert_eq!(cards(&plan), 51);
        let svg = plan.to_svg();
        assert!(svg.contains(">and 11 more launches</text>"), "{svg}");
        // The result of the rest is shown, what happens inside is not.
        assert!(svg.contains(">b1 out</text>"), "{svg}");
        assert_eq!(svg.matches("class=\"slot\"").count(), 50);
    }

    #[test]
    fn barriers_and_stages_are_shown() {
        let svg = poster().to_svg();
        assert_eq!(svg.matches("class=\"barrier\"").count(), 1);
        for label in ["blur", "grayscale", "blend"] {
            assert!(svg.contains(&format!(">{label}</text>")), "{label}");
        }
        let mut plan = poster();
        plan.steps[0].stages = (0..10).collect();
        assert!(plan.to_svg().contains(" more</text>"));
    }
}
