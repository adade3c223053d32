//! `dala listen`: when somebody speaks in a recording.

use std::fs::{self, File};
use std::io::{BufReader, Write};
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use dala_recipes::{Ears, SPEECH_MODEL, Span, WINDOW_SECONDS, Wav, find};
use serde::Serialize;

use crate::args::ListenArgs;
use crate::device;
use crate::output::{self, Outcome};
use crate::terminal::is_utf8;
use crate::timeline::{self, clock, summary};

/// How wide the bar of the timeline is.
const BAR_WIDTH: usize = 72;

/// What `--json` prints.
#[derive(Serialize)]
struct Answer<'h> {
    recording: String,
    model: String,
    device: &'static str,
    seconds: f64,
    milliseconds: f64,
    spans: Vec<Spoken>,
    window_seconds: f64,
    probabilities: &'h [f32],
}

#[derive(Serialize)]
struct Spoken {
    start_seconds: f64,
    end_seconds: f64,
}

pub(crate) fn run(args: &ListenArgs, out: &mut dyn Write) -> Result<Outcome> {
    let name = args.recording.display().to_string();
    let svg = args.output.as_deref();
    // What cannot be written or read is found before anything is computed.
    if let Some(path) = svg.filter(|path| !is_svg(path)) {
        bail!("cannot write {}: name it .svg", path.display());
    }
    let file = File::open(&args.recording).with_context(|| format!("cannot read {name}"))?;
    let recording = Wav::open(BufReader::new(file)).with_context(|| format!("cannot read {name}"))?;
    let model = find(SPEECH_MODEL, args.model.clone())?;
    let device = device::open(&args.device)?;
    let ears = Ears::open(&device, &model)?;
    let start = Instant::now();
    let heard = ears.listen_to(recording).with_context(|| name.clone())?;
    let milliseconds = start.elapsed().as_secs_f64() * 1e3;
    if let Some(path) = svg {
        fs::write(path, timeline::svg(&heard, &name)).with_context(|| format!("cannot write {}", path.display()))?;
    }
    if args.json {
        let spoken = |span: &Span| Spoken { start_seconds: span.start_seconds, end_seconds: span.end_seconds };
        let answer = Answer {
            recording: name,
            model: model.display().to_string(),
            device: device.info().backend.name(),
            seconds: heard.seconds,
            milliseconds,
            spans: heard.spans.iter().map(spoken).collect(),
            window_seconds: WINDOW_SECONDS,
            probabilities: &heard.probabilities,
        };
        output::json(out, &answer)?;
        return Ok(Outcome::Success);
    }
    writeln!(out, "{name}: {}, {}, {milliseconds:.0} ms", clock(heard.seconds), summary(&heard))?;
    let row = |span: &Span| {
        let long = format!("{:.2} s", span.end_seconds - span.start_seconds);
        [format!("{:>10}", clock(span.start_seconds)), format!("{:>10}", clock(span.end_seconds)), format!("{long:>9}")]
    };
    output::columns(out, "", &heard.spans.iter().map(row).collect::<Vec<_>>())?;
    writeln!(out, "  {}", bar(&heard.probabilities, is_utf8()))?;
    Ok(Outcome::Success)
}

fn is_svg(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("svg"))
}

/// The timeline in a line: the most likely moment of each part of it.
fn bar(probabilities: &[f32], unicode: bool) -> String {
    let levels: Vec<char> = if unicode { "▁▂▃▄▅▆▇█" } else { "..:-=+*#" }.chars().collect();
    let level = |most: f32| levels[((most.clamp(0.0, 1.0) * 7.0).round() as usize).min(7)];
    timeline::columns(probabilities, BAR_WIDTH).into_iter().map(level).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_show_the_highest_of_each_part() {
        assert_eq!(bar(&[0.0, 0.5, 1.0], true), "▁▅█");
        assert_eq!(bar(&[0.0, 0.5, 1.0], false), ".=#");
        let many: Vec<f32> = (0..BAR_WIDTH * 3).map(|place| f32::from(u8::from(place % 3 == 1))).collect();
        assert_eq!(bar(&many, true), "█".repeat(BAR_WIDTH));
        assert_eq!(bar(&[], true), "");
    }
}
