//! A recording as a picture: how likely speech is over time, with the spans in which somebody speaks.

use std::fmt::Write;

use dala_plan::draw::escape;
use dala_recipes::{Heard, SPEECH, WINDOW_SECONDS};

use crate::output::count;

const WIDTH: f64 = 980.0;
const MARGIN: f64 = 28.0;
/// Left of the diagram, where the probabilities are written.
const SCALE: f64 = 40.0;
/// Where the diagram begins, below the title and the names of spans.
const TOP: f64 = 96.0;
const AREA_HEIGHT: f64 = 140.0;
/// Points of the curve at most: about one for each pixel.
const POINTS: usize = 900;
/// A span that is narrower has no room for its length.
const LEAST_LABEL: f64 = 46.0;
/// Marks of the time axis at most, and how many seconds may be between them.
const MOST_MARKS: f64 = 12.0;
const STEPS: [f64; 17] =
    [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0];

/// As plans are drawn, for light and for dark pages.
const STYLE: &str = "
.dala-speech text { font: 11px system-ui, sans-serif; fill: #5d6a80 }
.dala-speech .title { font-size: 17px; font-weight: 600; fill: #1e293b }
.dala-speech .said { font-size: 12px }
.dala-speech .end { text-anchor: end } .dala-speech .middle { text-anchor: middle }
.dala-speech .long { text-anchor: middle; font-weight: 600; fill: #2f8a68 }
.dala-speech .ground { fill: #f5f7fa; stroke: #dce2eb } .dala-speech .area { fill: #e9edf3 }
.dala-speech .span { fill: #4fae8b; fill-opacity: 0.22 } .dala-speech .tab { fill: #4fae8b }
.dala-speech .axis { stroke: #c3ccd9 } .dala-speech .limit { stroke: #5d6a80; stroke-dasharray: 4 3; stroke-opacity: 0.6 }
.dala-speech .below { fill: #3d7dd8; fill-opacity: 0.14 }
.dala-speech .curve { fill: none; stroke: #3d7dd8; stroke-width: 1.5; stroke-linejoin: round }
@media (prefers-color-scheme: dark) {
.dala-speech text { fill: #94a3b8 } .dala-speech .title { fill: #e5eaf2 } .dala-speech .long { fill: #5fc49c }
.dala-speech .ground { fill: #111827; stroke: #273449 } .dala-speech .area { fill: #1b2536 } .dala-speech .axis { stroke: #33415a }
.dala-speech .limit { stroke: #94a3b8 }
.dala-speech .curve { stroke: #6ba1ee } .dala-speech .below { fill: #6ba1ee }
}
";

/// The picture, as SVG that needs nothing else.
pub(crate) fn svg(heard: &Heard, name: &str) -> String {
    let (left, right, bottom) = (MARGIN + SCALE, WIDTH - MARGIN, TOP + AREA_HEIGHT);
    let height = bottom + 46.0;
    // The last window may go on after the end.
    let seconds = heard.seconds.max(heard.probabilities.len() as f64 * WINDOW_SECONDS).max(WINDOW_SECONDS);
    let x = |moment: f64| left + (right - left) * (moment / seconds).clamp(0.0, 1.0);
    let y = |probability: f64| bottom - AREA_HEIGHT * probability.clamp(0.0, 1.0);
    let mut shapes = String::new();
    // Formatting into a string does not fail.
    for span in &heard.spans {
        let (start, end) = (x(span.start_seconds), x(span.end_seconds));
        let wide = (end - start).max(1.0);
        let _ = write!(
            shapes,
            "<rect class=\"span\" x=\"{start:.1}\" y=\"{TOP}\" width=\"{wide:.1}\" height=\"{AREA_HEIGHT}\"/>\
             <rect class=\"tab\" x=\"{start:.1}\" y=\"{:.1}\" width=\"{wide:.1}\" height=\"4\" rx=\"2\"/>",
            TOP - 4.0,
        );
        if wide >= LEAST_LABEL {
            let long = clock(span.end_seconds - span.start_seconds);
            let _ = write!(
                shapes,
                "<text class=\"long\" x=\"{:.1}\" y=\"{:.1}\">{long}</text>",
                start + wide / 2.0,
                TOP - 10.0
            );
        }
        shapes.push('\n');
    }
    for probability in [0.0, 0.5, 1.0] {
        let _ = write!(
            shapes,
            "<text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">{:.0} %</text>",
            left - 8.0,
            y(probability) + 4.0,
            probability * 100.0
        );
    }
    let limit = y(f64::from(SPEECH));
    let _ =
        writeln!(shapes, "<line class=\"limit\" x1=\"{left}\" x2=\"{right}\" y1=\"{limit:.1}\" y2=\"{limit:.1}\"/>");
    shapes.push_str(&marks(seconds, x, bottom));
    shapes.push_str(&curve(&heard.probabilities, |moment| x(moment * seconds), y, bottom));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"dala-speech\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\">\n<style>{STYLE}</style>\n\
         <rect class=\"ground\" x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"12\"/>\n\
         <text class=\"title\" x=\"{MARGIN}\" y=\"38\">{}</text>\n\
         <text class=\"said\" x=\"{MARGIN}\" y=\"58\">how likely it is that somebody speaks: {} of {}</text>\n\
         <rect class=\"area\" x=\"{left}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{AREA_HEIGHT}\" rx=\"4\"/>\n{shapes}</svg>\n",
        WIDTH - 1.0,
        height - 1.0,
        escape(name),
        summary(heard),
        clock(heard.seconds),
        right - left,
    )
}

/// The time axis.
fn marks(seconds: f64, x: impl Fn(f64) -> f64, bottom: f64) -> String {
    let step = STEPS.into_iter().find(|step| seconds / step <= MOST_MARKS);
    let step = step.unwrap_or((seconds / MOST_MARKS / 3600.0).ceil() * 3600.0);
    let mut shapes = String::new();
    for number in 0..=(seconds / step + 1e-9) as u32 {
        let moment = f64::from(number) * step;
        let (at, label) = (x(moment), axis_label(moment, step));
        let _ = writeln!(
            shapes,
            "<line class=\"axis\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{bottom}\" y2=\"{:.1}\"/>\
             <text class=\"middle\" x=\"{at:.1}\" y=\"{:.1}\">{label}</text>",
            bottom + 5.0,
            bottom + 20.0,
        );
    }
    shapes
}

/// With as many digits as marks differ in.
fn axis_label(moment: f64, step: f64) -> String {
    match moment {
        _ if step < 1.0 => format!("{moment:.1} s"),
        short if short < 60.0 && step < 60.0 => format!("{short:.0} s"),
        long => {
            let whole = long.round() as u64;
            match whole / 3600 {
                0 => format!("{}:{:02}", whole / 60, whole % 60),
                hours => format!("{hours}:{:02}:{:02}", whole / 60 % 60, whole % 60),
            }
        }
    }
}

/// The curve and what is below it. `x` takes a part of the whole time.
fn curve(probabilities: &[f32], x: impl Fn(f64) -> f64, y: impl Fn(f64) -> f64, bottom: f64) -> String {
    let columns = columns(probabilities, POINTS);
    let count = columns.len() as f64;
    // A probability is drawn in the middle of its time, and the first and the last go on to the edges.
    let point = |(place, probability): (usize, &f32)| (x((place as f64 + 0.5) / count), y(f64::from(*probability)));
    let mut points: Vec<(f64, f64)> = columns.iter().enumerate().map(point).collect();
    let (Some(first), Some(last)) = (points.first().copied(), points.last().copied()) else { return String::new() };
    points.insert(0, (x(0.0), first.1));
    points.push((x(1.0), last.1));
    let line: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let line = line.join(" ");
    format!(
        "<polygon class=\"below\" points=\"{:.1},{bottom} {line} {:.1},{bottom}\"/>\n<polyline class=\"curve\" points=\"{line}\"/>\n",
        x(0.0),
        x(1.0),
    )
}

/// At most so many values for all of them: the highest of each part.
pub(crate) fn columns(values: &[f32], most: usize) -> Vec<f32> {
    let count = values.len().min(most);
    let part = |place: usize| {
        let (start, end) = (place * values.len() / count, (place + 1) * values.len() / count);
        values.get(start..end).unwrap_or_default().iter().copied().fold(0.0, f32::max)
    };
    (0..count).map(part).collect()
}

/// How much is spoken: `2 spans of speech, 3.4 s`.
pub(crate) fn summary(heard: &Heard) -> String {
    if heard.spans.is_empty() {
        return "no speech".to_owned();
    }
    let spoken: f64 = heard.spans.iter().map(|span| span.end_seconds - span.start_seconds).sum();
    format!("{}, {}", count(heard.spans.len(), "span of speech", "spans of speech"), clock(spoken))
}

/// A time as people say it: `3.20 s`, `2:03.20`, `1:02:03`.
pub(crate) fn clock(seconds: f64) -> String {
    let hundredths = (seconds * 100.0).round() as u64;
    let (whole, rest) = (hundredths / 100, hundredths % 100);
    match whole {
        ..60 => format!("{whole}.{rest:02} s"),
        60..3600 => format!("{}:{:02}.{rest:02}", whole / 60, whole % 60),
        _ => format!("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60),
    }
}

#[cfg(test)]
mod tests {
    use dala_recipes::Span;

    use super::*;

    fn heard(count: usize) -> Heard {
        let probabilities = (0..count).map(|place| (place % 100) as f32 / 100.0).collect();
        let spans = vec![Span { start_seconds: 0.5, end_seconds: 1.5 }, Span { start_seconds: 2.0, end_seconds: 2.01 }];
        Heard { probabilities, spans, seconds: count as f64 * WINDOW_SECONDS }
    }

    #[test]
    fn spans_and_curve_are_drawn() {
        let svg = svg(&heard(125), "a<b.wav");
        assert!(svg.contains("a&lt;b.wav") && !svg.contains("a<b"), "{svg}");
        assert_eq!(svg.matches("class=\"span\"").count(), 2);
        // A quarter of the four seconds, and the other is too short for a label.
        let quarter = (WIDTH - 2.0 * MARGIN - SCALE) / 4.0;
        assert!(svg.contains(&format!("width=\"{quarter:.1}\" height=\"{AREA_HEIGHT}\"")), "{svg}");
        assert_eq!(svg.matches("class=\"long\"").count(), 1);
        assert!(svg.contains(">1.00 s</text>") && svg.contains(">4.0 s</text>"), "{svg}");
        assert!(svg.trim_end().ends_with("</svg>"));
    }

    #[test]
    fn long_recordings_are_small_pictures() {
        let day = svg(&heard(24 * 3600 * 125 / 4), "day");
        assert!(day.len() < 40_000, "{} bytes", day.len());
        assert!(day.contains(">22:00:00</text>"), "{day}");
        let nothing = svg(&Heard { probabilities: Vec::new(), spans: Vec::new(), seconds: 0.0 }, "nothing");
        assert!(nothing.contains("no speech") && !nothing.contains("NaN"), "{nothing}");
    }

    #[test]
    fn times_are_as_people_say_them() {
        let all = [0.0, 3.2, 59.994, 60.0, 123.2, 3723.0].map(clock);
        assert_eq!(all, ["0.00 s", "3.20 s", "59.99 s", "1:00.00", "2:03.20", "1:02:03"]);
    }

    #[test]
    fn columns_have_the_highest_of_their_part() {
        assert_eq!(columns(&[0.1, 0.9, 0.2, 0.3], 2), [0.9, 0.3]);
        assert_eq!(columns(&[0.1, 0.9], 5), [0.1, 0.9]);
        assert!(columns(&[], 5).is_empty());
    }
}
