//! When somebody speaks in a recording, by Silero's voice activity detector.

mod resample;
mod spans;
mod wav;

use std::io::{Read, Seek};
use std::path::Path;

use dala_compute::{Buffer, DType, Device};
use dala_model::{Model, Session};

use crate::{ModelFile, RecipeError};

pub use resample::{Resampler, resample};
pub use spans::{SILENCE, SPEECH, Span};
pub use wav::{Wav, WavError};

/// The model that [`Ears`] listen with.
pub const SPEECH_MODEL: ModelFile = ModelFile { name: "speech", recipe: "speech" };

/// How long a window is that gets one probability.
pub const WINDOW_SECONDS: f64 = WINDOW_MS as f64 / 1000.0;
const WINDOW_MS: usize = 32;
/// The rates that the model was trained for. The lower one is that of telephones.
const RATES: [u32; 2] = [16_000, 8_000];
/// Rates that recordings may have.
const LEAST_RATE: u32 = 1_000;
const MOST_RATE: u32 = 1_000_000;
/// Samples that are worked on at a time.
const BLOCK: usize = 1 << 14;
/// What the model remembers between windows.
const STATE: [usize; 3] = [2, 1, 128];

/// What was heard in a recording.
#[derive(Clone, Debug, PartialEq)]
pub struct Heard {
    /// How likely it is that somebody speaks, for each [`WINDOW_SECONDS`].
    pub probabilities: Vec<f32>,
    /// When somebody speaks, in order; no two overlap.
    pub spans: Vec<Span>,
    /// How long the recording is.
    pub seconds: f64,
}

/// Listens to recordings.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::fs::File;
///
/// use dala_recipes::{Ears, SPEECH_MODEL, Wav, find};
/// let device = dala_compute::Device::open("auto")?;
/// let ears = Ears::open(&device, &find(SPEECH_MODEL, None)?)?;
/// for span in ears.listen_to(Wav::open(File::open("talk.wav")?)?)?.spans {
///     println!("from {:.2} to {:.2} seconds", span.start_seconds, span.end_seconds);
/// }
/// # Ok(())
/// # }
/// ```
pub struct Ears {
    session: Session,
}

impl Ears {
    /// Reads the model.
    ///
    /// # Errors
    /// A file that is no model, or that does not take a window, a state and a rate.
    pub fn open(device: &Device, model: &Path) -> Result<Ears, RecipeError> {
        let network = Model::open(model)?;
        let inputs: Vec<(&str, DType)> = network.inputs().iter().map(|port| (port.name.as_str(), port.dtype)).collect();
        let outputs: Vec<DType> = network.outputs().iter().map(|port| port.dtype).collect();
        let fits = inputs == [("input", DType::F32), ("state", DType::F32), ("sr", DType::S64)]
            && outputs == [DType::F32, DType::F32];
        if !fits {
            let names: Vec<&str> = inputs.iter().map(|(name, _)| *name).collect();
            let why = format!(
                "it takes {}, and Silero's detector takes input, state and sr and gives a probability and a state",
                if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
            );
            return Err(RecipeError::Unfit { path: model.display().to_string(), why });
        }
        Ok(Ears { session: Session::new(device, &network) })
    }

    /// When somebody speaks in these samples, which are between -1 and 1, `rate` of them in a second.
    ///
    /// # Errors
    /// No samples at all, one that is not finite, a rate that no recording has, and whatever the device says.
    pub fn listen(&self, samples: &[f32], rate: u32) -> Result<Heard, RecipeError> {
        let mut listener = self.begin(rate)?;
        listener.hear(samples)?;
        listener.end()
    }

    /// The same for a file, which is read as it is needed.
    ///
    /// # Errors
    /// As [`Ears::listen`], and what is wrong with the file.
    pub fn listen_to<R: Read + Seek>(&self, mut recording: Wav<R>) -> Result<Heard, RecipeError> {
        let mut listener = self.begin(recording.rate())?;
        while let Some(samples) = recording.next_block()? {
            listener.hear(&samples)?;
        }
        listener.end()
    }

    /// Begins to listen to something that comes bit by bit. Only its probabilities are kept.
    ///
    /// # Errors
    /// A rate that no recording has, and whatever the device says.
    pub fn begin(&self, rate: u32) -> Result<Listener<'_>, RecipeError> {
        if !(LEAST_RATE..=MOST_RATE).contains(&rate) {
            let range = format!("between {LEAST_RATE} and {MOST_RATE}");
            return Err(RecipeError::Input(format!(
                "{rate} samples in a second are none that are listened to: {range}"
            )));
        }
        let device = self.session.device();
        let [high, low] = RATES;
        let own = if rate == low { low } else { high };
        let window = own as usize * WINDOW_MS / 1000;
        // The model sees the end of the window before as well.
        let before = window / 8;
        Ok(Listener {
            session: &self.session,
            resampler: Resampler::new(rate, own),
            input: Buffer::zeros(device, DType::F32, [1, before + window])?,
            state: Buffer::zeros(device, DType::F32, STATE)?,
            rate_input: Buffer::from_slice(device, &[i64::from(own)], Vec::<usize>::new())?,
            waiting: vec![0.0; before],
            window,
            rate: own,
            samples: 0,
            probabilities: Vec::new(),
        })
    }
}

/// Listens to one recording, bit by bit.
pub struct Listener<'e> {
    session: &'e Session,
    resampler: Resampler,
    input: Buffer,
    state: Buffer,
    rate_input: Buffer,
    /// The end of the window before, and samples that are not enough for the next one.
    waiting: Vec<f32>,
    /// New samples of a window.
    window: usize,
    /// Samples of a second, as the model has them, and how many there were so far.
    rate: u32,
    samples: u64,
    probabilities: Vec<f32>,
}

impl Listener<'_> {
    /// Listens to the next samples; gives the probabilities of the windows that are now complete.
    ///
    /// # Errors
    /// A sample that is not finite, and whatever the device says.
    pub fn hear(&mut self, samples: &[f32]) -> Result<&[f32], RecipeError> {
        if let Some(bad) = samples.iter().find(|sample| !sample.is_finite()) {
            return Err(RecipeError::Input(format!("a sample of the recording is {bad}")));
        }
        let known = self.probabilities.len();
        for block in samples.chunks(BLOCK) {
            let held = self.waiting.len();
            self.resampler.push(block, &mut self.waiting);
            self.samples += (self.waiting.len() - held) as u64;
            self.run()?;
        }
        Ok(self.probabilities.get(known..).unwrap_or_default())
    }

    /// Listens to the rest, as if silence followed; gives all that was heard.
    ///
    /// # Errors
    /// If there were no samples at all, and whatever the device says.
    pub fn end(mut self) -> Result<Heard, RecipeError> {
        let held = self.waiting.len();
        self.resampler.finish(&mut self.waiting);
        self.samples += (self.waiting.len() - held) as u64;
        if self.samples == 0 {
            return Err(RecipeError::Input("the recording is empty".to_owned()));
        }
        self.run()?;
        let before = self.window / 8;
        if self.waiting.len() > before {
            self.waiting.resize(before + self.window, 0.0);
            self.run()?;
        }
        let seconds = self.samples as f64 / f64::from(self.rate);
        let spans = spans::spans(&self.probabilities, WINDOW_SECONDS, seconds);
        Ok(Heard { probabilities: self.probabilities, spans, seconds })
    }

    /// Runs the model on every window that is complete.
    fn run(&mut self) -> Result<(), RecipeError> {
        let mut done = 0;
        while let Some(window) = self.waiting.get(done..done + self.input.len()) {
            self.input.write(window)?;
            let mut outputs = self.session.run(&[&self.input, &self.state, &self.rate_input])?.into_iter();
            let (Some(probability), Some(state)) = (outputs.next(), outputs.next()) else {
                return Err(RecipeError::Input("the model gave no probability".to_owned()));
            };
            self.probabilities.extend(probability.read::<f32>()?.first());
            self.state = state;
            done += self.window;
        }
        self.waiting.drain(..done);
        Ok(())
    }
}
