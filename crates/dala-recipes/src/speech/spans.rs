//! From probabilities to the spans of time in which somebody speaks.

/// A span of time in which somebody speaks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// Seconds from the beginning of the recording.
    pub start_seconds: f64,
    /// The same for where it ends.
    pub end_seconds: f64,
}

/// Speech begins at this probability…
pub const SPEECH: f32 = 0.5;
/// … and ends below this one: what is between both goes on as it is.
pub const SILENCE: f32 = 0.35;
/// How long it has to be silent until speech has ended.
const LEAST_SILENCE: f64 = 0.1;
/// What is not longer than this is no speech.
const LEAST_SPEECH: f64 = 0.25;
/// What is added at both ends, so that nothing of a word is lost.
const MARGIN: f64 = 0.03;

/// The spans of a recording that lasts `seconds`, with a probability for each window of it.
pub(super) fn spans(probabilities: &[f32], window_seconds: f64, seconds: f64) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut add = |start: f64, end: f64| {
        if end - start > LEAST_SPEECH {
            spans.push(Span { start_seconds: start, end_seconds: end });
        }
    };
    let (mut speech, mut silence) = (None, None);
    for (number, &probability) in probabilities.iter().enumerate() {
        let now = number as f64 * window_seconds;
        if probability >= SPEECH {
            silence = None;
            speech.get_or_insert(now);
        } else if let (Some(start), true) = (speech, probability < SILENCE) {
            let end = *silence.get_or_insert(now);
            if now - end >= LEAST_SILENCE {
                add(start, end);
                (speech, silence) = (None, None);
            }
        }
    }
    if let Some(start) = speech {
        add(start, seconds);
    }
    widened(spans, seconds)
}

/// Spans with a margin at both ends; two that are close share what is between them.
fn widened(mut spans: Vec<Span>, seconds: f64) -> Vec<Span> {
    let mut before = 0.0;
    let mut rest = &mut spans[..];
    while let [span, after @ ..] = rest {
        let end = span.end_seconds;
        span.start_seconds = (span.start_seconds - MARGIN).max(before);
        let next = after.first().map_or(seconds, |next| (end + next.start_seconds) / 2.0);
        span.end_seconds = (end + MARGIN).min(next);
        before = span.end_seconds;
        rest = after;
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Spans in windows of 0.01 s, as hundredths of seconds.
    fn found(probabilities: &[(f32, usize)]) -> Vec<(i64, i64)> {
        let all: Vec<f32> = probabilities.iter().flat_map(|(own, times)| vec![*own; *times]).collect();
        let hundredths = |seconds: f64| (seconds * 100.0).round() as i64;
        let found = spans(&all, 0.01, all.len() as f64 * 0.01);
        found.iter().map(|span| (hundredths(span.start_seconds), hundredths(span.end_seconds))).collect()
    }

    #[test]
    fn speech_begins_and_ends_at_its_own_thresholds() {
        assert_eq!(found(&[(0.1, 50), (0.9, 40), (0.1, 50)]), [(47, 93)]);
        // Not yet speech, and no longer silence.
        assert_eq!(found(&[(0.49, 50), (0.5, 40), (0.4, 50)]), [(47, 140)]);
        assert!(found(&[(0.49, 200)]).is_empty());
        assert!(found(&[]).is_empty());
        assert!(found(&[(f32::NAN, 50)]).is_empty());
    }

    #[test]
    fn short_silence_and_short_speech_do_not_count() {
        assert_eq!(found(&[(0.9, 40), (0.1, 9), (0.9, 40), (0.1, 30)]), [(0, 92)]);
        assert_eq!(found(&[(0.9, 40), (0.1, 12), (0.9, 40), (0.1, 30)]), [(0, 43), (49, 95)]);
        assert!(found(&[(0.1, 20), (0.9, 24), (0.1, 30)]).is_empty());
        assert!(found(&[(0.1, 20), (0.9, 24)]).is_empty());
    }

    #[test]
    fn spans_stay_in_the_recording_and_apart() {
        assert_eq!(found(&[(0.9, 40)]), [(0, 40)]);
        let span = |start_seconds, end_seconds| Span { start_seconds, end_seconds };
        let close = widened(vec![span(0.02, 1.0), span(1.04, 1.99)], 2.0);
        assert_eq!((close[0].start_seconds, close[1].end_seconds), (0.0, 2.0));
        assert!((close[0].end_seconds - 1.02).abs() < 1e-9 && (close[1].start_seconds - 1.02).abs() < 1e-9);
    }
}
