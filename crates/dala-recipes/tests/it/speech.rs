//! Speech in recordings, beside Silero's own steps with ONNX Runtime.

use std::fs::File;
use std::io::Cursor;

use dala_recipes::{Ears, FILE_TYPE_MODEL, Heard, RecipeError, SPEECH_MODEL, Wav, resample};
use serde_json::Value;

use super::{data, device, json, model};

fn ears() -> Option<Ears> {
    Some(Ears::open(&device(), &model(SPEECH_MODEL)?).unwrap())
}

/// The samples of the recording, which has 16,000 in a second.
fn samples() -> Vec<f32> {
    let mut wav = Wav::open(File::open(data("speech.wav")).unwrap()).unwrap();
    assert_eq!((wav.rate(), wav.channels()), (16_000, 1));
    let mut samples = Vec::new();
    while let Some(block) = wav.next_block().unwrap() {
        samples.extend(block);
    }
    samples
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

/// The largest difference from the probabilities that are expected; spans are the same.
fn compare(heard: &Heard, probabilities: &Value, spans: &Value) -> f64 {
    let expected = numbers(probabilities);
    assert_eq!(heard.probabilities.len(), expected.len());
    let spans: Vec<Vec<f64>> = spans.as_array().unwrap().iter().map(numbers).collect();
    assert_eq!(heard.spans.len(), spans.len(), "{:?}", heard.spans);
    for (own, expected) in heard.spans.iter().zip(&spans) {
        let far = (own.start_seconds - expected[0]).abs().max((own.end_seconds - expected[1]).abs());
        assert!(far < 1e-3, "{own:?} and {expected:?}");
    }
    let pairs = heard.probabilities.iter().zip(&expected);
    pairs.map(|(own, expected)| (f64::from(*own) - expected).abs()).fold(0.0, f64::max)
}

#[test]
fn probabilities_and_spans_are_those_of_the_package() {
    let Some(ears) = ears() else { return };
    let expected = json("speech.json");
    let samples = samples();
    let heard = ears.listen(&samples, 16_000).unwrap();
    let far = compare(&heard, &expected["probabilities"], &expected["spans"]);
    assert!(far < 1e-4, "{far}");
    assert_eq!(heard.seconds, samples.len() as f64 / 16_000.0);

    let telephone: Vec<f32> = samples.iter().copied().step_by(2).collect();
    let low = ears.listen(&telephone, 8_000).unwrap();
    let far_low = compare(&low, &expected["probabilities_of_every_second"], &expected["spans_of_every_second"]);
    assert!(far_low < 1e-4, "{far_low}");
    println!("probabilities differ by at most {far:.1e} at 16 kHz and {far_low:.1e} at 8 kHz");
}

#[test]
fn files_and_pieces_are_heard_as_the_whole() {
    let Some(ears) = ears() else { return };
    let whole = ears.listen(&samples(), 16_000).unwrap();
    let file = ears.listen_to(Wav::open(File::open(data("speech.wav")).unwrap()).unwrap()).unwrap();
    assert_eq!(file, whole);
    let mut listener = ears.begin(16_000).unwrap();
    let mut now = Vec::new();
    for piece in samples().chunks(333) {
        now.extend_from_slice(listener.hear(piece).unwrap());
    }
    // The last window is not complete.
    assert_eq!(now, whole.probabilities[..now.len()]);
    assert_eq!(now.len(), whole.probabilities.len() - 1);
    assert_eq!(listener.end().unwrap(), whole);
}

#[test]
fn other_rates_have_the_same_spans() {
    let Some(ears) = ears() else { return };
    let samples = samples();
    let expected = ears.listen(&samples, 16_000).unwrap();
    for rate in [11_025, 22_050, 44_100, 48_000] {
        let heard = ears.listen(&resample(&samples, 16_000, rate), rate).unwrap();
        assert_eq!(heard.spans.len(), expected.spans.len(), "{rate}: {:?}", heard.spans);
        for (own, expected) in heard.spans.iter().zip(&expected.spans) {
            let far = (own.start_seconds - expected.start_seconds).abs();
            let far = far.max((own.end_seconds - expected.end_seconds).abs());
            // One window more or less, where a probability is close to the threshold.
            assert!(far < 0.04, "{rate}: {own:?} and {expected:?}");
        }
    }
}

#[test]
fn what_cannot_be_heard_is_an_error() {
    let Some(ears) = ears() else { return };
    let code = |heard: Result<Heard, RecipeError>| heard.unwrap_err().code();
    assert_eq!(code(ears.listen(&[], 16_000)), "bad_input");
    assert_eq!(code(ears.listen(&[0.0, f32::NAN], 16_000)), "bad_input");
    assert_eq!(code(ears.listen(&[f32::INFINITY], 44_100)), "bad_input");
    for rate in [0, 999, 1_000_001, u32::MAX] {
        assert_eq!(code(ears.listen(&[0.0; 10], rate)), "bad_input");
    }
    let one = ears.listen(&[0.5], 16_000).unwrap();
    assert_eq!((one.probabilities.len(), one.spans.len()), (1, 0));
    let loud = ears.listen(&[f32::MAX; 600], 16_000).unwrap();
    assert_eq!(loud.probabilities.len(), 2);
    let bytes = std::fs::read(data("speech.wav")).unwrap();
    assert_eq!(Wav::open(Cursor::new(&bytes[..1000])).unwrap_err().code(), "wav_cut_off");
}

#[test]
fn another_model_is_refused() {
    let Some(file) = model(FILE_TYPE_MODEL) else { return };
    let error = Ears::open(&device(), &file).err().unwrap();
    assert_eq!(error.code(), "unfit_model");
    assert!(error.to_string().contains("it takes bytes, and Silero's detector takes input, state and sr"), "{error}");
}
