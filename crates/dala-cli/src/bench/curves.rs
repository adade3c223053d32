//! A small diagram for each row: what a pixel costs against how long a side is.

use std::fmt::Write;

use dala_plan::draw::escape;

use super::report::{Curve, Report, Row};

const WIDTH: f64 = 980.0;
const MARGIN: f64 = 28.0;
const TOP: f64 = 104.0;
const ACROSS: usize = 4;
/// A diagram with its title, and the part of it where curves are.
const CELL: (f64, f64) = (231.0, 122.0);
const AREA: (f64, f64) = (211.0, 78.0);
/// Lengths from here on are in the right half.
const LONG: usize = 100;
/// What costs more than this times the median is drawn at the upper edge: small pictures do.
const MOST: f64 = 4.0;

/// As plans are drawn, for light and for dark pages.
const STYLE: &str = "
.dala-sizes text { font: 11px system-ui, sans-serif; fill: #5d6a80 }
.dala-sizes .title { font-size: 17px; font-weight: 600; fill: #1e293b }
.dala-sizes .name { font-size: 12px; font-weight: 600; fill: #334155 }
.dala-sizes .ratio { text-anchor: end; font-weight: 600; fill: #2f8a68 } .dala-sizes .high { fill: #b4651d }
.dala-sizes .ground { fill: #f5f7fa; stroke: #dce2eb } .dala-sizes .area { fill: #e9edf3 }
.dala-sizes .axis { stroke: #c3ccd9 }
.dala-sizes polyline { fill: none; stroke-width: 1.4 }
.dala-sizes .width { stroke: #3d7dd8 } .dala-sizes .height { stroke: #e09a4e }
@media (prefers-color-scheme: dark) {
.dala-sizes text { fill: #94a3b8 } .dala-sizes .title { fill: #e5eaf2 } .dala-sizes .name { fill: #cbd5e1 }
.dala-sizes .ratio { fill: #5fc49c } .dala-sizes .high { fill: #e0a061 }
.dala-sizes .ground { fill: #111827; stroke: #273449 } .dala-sizes .area { fill: #1b2536 } .dala-sizes .axis { stroke: #33415a }
}
";

/// The report as an SVG picture that needs nothing else.
pub(super) fn svg(report: &Report) -> String {
    let rows = report.rows.len().div_ceil(ACROSS);
    let height = TOP + CELL.1 * rows as f64 + MARGIN / 2.0;
    let cells = report.rows.iter().enumerate();
    let cells: String = cells.map(|(number, row)| cell(row, number % ACROSS, number / ACROSS)).collect();
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"dala-sizes\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\">\n<style>{STYLE}</style>\n\
         <rect class=\"ground\" x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"12\"/>\n\
         <text class=\"title\" x=\"{MARGIN}\" y=\"38\">What a pixel costs, by size, on {}</text>\n\
         <text x=\"{MARGIN}\" y=\"58\">blue: by width, orange: by height, from 0 up; left half 1 to 67, right half 1,900 to 1,940 (products: 1,000 \
         to 1,030)</text>\n\
         <text x=\"{MARGIN}\" y=\"74\">the number: the worst cost above 64, as a multiple of the best within 5 % of its size</text>\n{cells}</svg>\n",
        WIDTH - 1.0,
        height - 1.0,
        escape(&report.device),
    )
}

fn cell(row: &Row, column: usize, line: usize) -> String {
    let (left, top) = (MARGIN + column as f64 * CELL.0, TOP + line as f64 * CELL.1);
    let area = top + 8.0;
    let mut costs: Vec<f64> = row.curves.iter().flat_map(|curve| &curve.points).map(|(_, cost)| *cost).collect();
    costs.sort_by(f64::total_cmp);
    let most = costs.get(costs.len() / 2).copied().unwrap_or(1.0) * MOST;
    let class = if row.ratio > 1.3 { "ratio high" } else { "ratio" };
    let middle = left + AREA.0 / 2.0;
    let mut shapes = format!(
        "<text class=\"name\" x=\"{left:.1}\" y=\"{top:.1}\">{}</text>\
         <text class=\"{class}\" x=\"{:.1}\" y=\"{top:.1}\">{:.2}</text>\
         <rect class=\"area\" x=\"{left:.1}\" y=\"{area:.1}\" width=\"{}\" height=\"{}\" rx=\"4\"/>\
         <line class=\"axis\" x1=\"{middle:.1}\" x2=\"{middle:.1}\" y1=\"{area:.1}\" y2=\"{:.1}\"/>\n",
        // There is little room beside the number.
        escape(&row.name.replace("channel", "ch.").replace("ch.s", "ch.")),
        left + AREA.0,
        row.ratio,
        AREA.0,
        AREA.1,
        area + AREA.1,
    );
    for curve in &row.curves {
        for half in halves(curve) {
            let (Some(first), Some(last)) = (half.first(), half.last()) else { continue };
            let span = (last.0 - first.0).max(1) as f64;
            let start = if first.0 < LONG { left } else { middle };
            let point = |(length, cost): &(usize, f64)| {
                let x = start + 4.0 + (length - first.0) as f64 / span * (AREA.0 / 2.0 - 8.0);
                let y = area + AREA.1 - 3.0 - (cost / most).min(1.0) * (AREA.1 - 6.0);
                format!("{x:.1},{y:.1}")
            };
            let points: Vec<String> = half.iter().map(point).collect();
            // Formatting into a string does not fail.
            let _ = writeln!(shapes, "<polyline class=\"{}\" points=\"{}\"/>", curve.side, points.join(" "));
        }
    }
    shapes
}

/// Short sides and long ones.
fn halves(curve: &Curve) -> [&[(usize, f64)]; 2] {
    let long = curve.points.partition_point(|(length, _)| *length < LONG);
    let (short, long) = curve.points.split_at(long);
    [short, long]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_its_curves() {
        let curve = |side| Curve { side, other: 96, points: vec![(1, 9.0), (2, 2.0), (1900, 1.0), (1940, 1.0)] };
        let row = |name: &str, ratio| Row {
            curves: vec![curve("width"), curve("height")],
            ..Row::new(name, "width 2 beside 1", (ratio, 1.0))
        };
        let rows = vec![row("a<b", 1.0), row("c", 2.0)];
        let svg = svg(&Report { suite: "sizes", device: "cpu".to_owned(), rows, details: None });
        assert_eq!(svg.matches("<polyline").count(), 8, "{svg}");
        assert!(svg.contains("a&lt;b") && svg.contains("class=\"ratio high\""), "{svg}");
        // What costs the same is drawn at the same height, and what costs too much at the edge.
        assert!(svg.contains(&format!(",{:.1} ", TOP + 8.0 + 3.0)), "{svg}");
    }
}
