//! A bar for each row: how ours compares with the base.

use std::fmt::Write;

use dala_plan::draw::escape;

use super::report::Report;

const WIDTH: f64 = 760.0;
const MARGIN: f64 = 28.0;
/// Where bars begin, below the title.
const TOP: f64 = 80.0;
const ROW: f64 = 54.0;
const BAR: f64 = 18.0;
/// What a bar's label needs beside it.
const LABEL: f64 = 60.0;

/// As plans are drawn, for light and for dark pages.
const STYLE: &str = "
.dala-bench text { font: 12px system-ui, sans-serif; fill: #5d6a80 }
.dala-bench .title { font-size: 17px; font-weight: 600; fill: #1e293b }
.dala-bench .name { font-size: 13px; font-weight: 600; fill: #334155 }
.dala-bench .times { text-anchor: end }
.dala-bench .ratio { font-weight: 600; fill: #334155 }
.dala-bench .ground { fill: #f5f7fa; stroke: #dce2eb }
.dala-bench .track { fill: #e6eaf1 }
.dala-bench .faster { fill: #4fae8b } .dala-bench .slower { fill: #e09a4e }
.dala-bench .base { stroke: #5d6a80; stroke-width: 1.5; stroke-dasharray: 4 3 }
@media (prefers-color-scheme: dark) {
.dala-bench text { fill: #94a3b8 } .dala-bench .title { fill: #e5eaf2 }
.dala-bench .name, .dala-bench .ratio { fill: #cbd5e1 }
.dala-bench .ground { fill: #111827; stroke: #273449 } .dala-bench .track { fill: #222d40 }
.dala-bench .faster { fill: #3d9274 } .dala-bench .slower { fill: #bd7a35 }
.dala-bench .base { stroke: #94a3b8 }
}
";

/// The report as an SVG picture that needs nothing else.
pub(super) fn svg(report: &Report) -> String {
    let longest = report.rows.iter().map(|row| row.ratio).filter(|ratio| ratio.is_finite()).fold(1.0, f64::max);
    let room = WIDTH - 2.0 * MARGIN - LABEL;
    let scale = room / longest;
    let base = MARGIN + scale;
    let height = TOP + ROW * report.rows.len() as f64 + MARGIN;
    let mut shapes = String::new();
    for (number, row) in report.rows.iter().enumerate() {
        let top = TOP + ROW * number as f64;
        let ratio = if row.ratio.is_finite() { row.ratio.max(0.0) } else { 0.0 };
        let (long, class) = ((ratio * scale).max(1.0), if ratio <= 1.0 { "faster" } else { "slower" });
        let (text, bar) = (top + 14.0, top + 22.0);
        let times = format!("{} ms, {} {} ms", number_text(row.ours_ms), row.base, number_text(row.base_ms));
        // Formatting into a string does not fail.
        let _ = writeln!(
            shapes,
            "<text class=\"name\" x=\"{MARGIN}\" y=\"{text:.1}\">{}</text>\
             <text class=\"times\" x=\"{:.1}\" y=\"{text:.1}\">{}</text>\
             <rect class=\"track\" x=\"{MARGIN}\" y=\"{bar:.1}\" width=\"{room:.1}\" height=\"{BAR}\" rx=\"4\"/>\
             <rect class=\"{class}\" x=\"{MARGIN}\" y=\"{bar:.1}\" width=\"{long:.1}\" height=\"{BAR}\" rx=\"4\"/>\
             <line class=\"base\" x1=\"{base:.1}\" x2=\"{base:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>\
             <text class=\"ratio\" x=\"{:.1}\" y=\"{:.1}\">{:.2}</text>",
            escape(&row.name),
            WIDTH - MARGIN,
            escape(&times),
            bar - 4.0,
            bar + BAR + 4.0,
            MARGIN + room + 10.0,
            bar + 13.5,
            row.ratio,
        );
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"dala-bench\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\">\n<style>{STYLE}</style>\n\
         <rect class=\"ground\" x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"12\"/>\n\
         <text class=\"title\" x=\"{MARGIN}\" y=\"40\">{} on {}</text>\n\
         <text x=\"{MARGIN}\" y=\"60\">our time as a part of the base's, which is the dashed line: shorter is better</text>\n{shapes}\
         </svg>\n",
        WIDTH - 1.0,
        height - 1.0,
        escape(report.suite),
        escape(&report.device),
    )
}

/// As many digits as matter.
fn number_text(milliseconds: f64) -> String {
    match milliseconds {
        large if large >= 100.0 => format!("{large:.0}"),
        medium if medium >= 1.0 => format!("{medium:.1}"),
        small => format!("{small:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::Row;
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_ratios() {
        let rows = vec![Row::new("a<b", "base", (1.0, 2.0)), Row::new("slow", "base", (400.0, 100.0))];
        let report = Report { suite: "image", device: "cpu".to_owned(), rows, details: None };
        let svg = svg(&report);
        let room = WIDTH - 2.0 * MARGIN - LABEL;
        assert!(svg.contains("a&lt;b") && !svg.contains("a<b"), "{svg}");
        let bar = |class: &str| {
            let start = svg.find(&format!("<rect class=\"{class}\"")).unwrap();
            let width = svg[start..].split("width=\"").nth(1).unwrap().split('"').next().unwrap();
            width.parse::<f64>().unwrap()
        };
        assert!((bar("slower") - room).abs() < 0.1 && (bar("faster") - room / 8.0).abs() < 0.1, "{svg}");
        // The base is at 1, a quarter of the longest bar.
        assert!(svg.contains(&format!("<line class=\"base\" x1=\"{:.1}\"", MARGIN + room / 4.0)), "{svg}");
        assert!(svg.contains("image on cpu") && svg.trim_end().ends_with("</svg>"));
    }
}
