//! `dala detect --watch`: the faces in the photos of a folder, as they come.
//!
//! One thread looks into the folder, reads what is new, and pushes it into a stream of the device; the stream's frames come back to
//! the thread that prints. A photo holds its place in the stream until it is done, so only a few are in memory.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, anyhow};
use dala_compute::{Device, Error, FramePolicy, Stage, Stream, StreamOptions};
use dala_recipes::{Faces, PendingFaces};
use serde::Serialize;

use crate::args::DetectArgs;
use crate::batch::{caught, in_folder};
use crate::found::Found;
use crate::output::{self, Outcome};
use crate::picture;

/// How long it sleeps between two looks into the folder. A file that did not change meanwhile is whole.
const PAUSE: Duration = Duration::from_millis(250);

/// A photo on its way through the stream.
struct Frame {
    photo: PathBuf,
    found: Instant,
    stages: Vec<Stage>,
    faces: PendingFaces,
}

/// A photo, and what became of it after how long.
type Ended = (PathBuf, Became, Duration);

enum Became {
    Done(PendingFaces),
    /// Its turn did not come in time.
    Dropped,
    Failed(anyhow::Error),
}

/// A line of `--json`.
#[derive(Serialize)]
struct Line {
    photo: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    faces: Option<Vec<Found>>,
    /// Since the photo was found.
    milliseconds: f64,
    late: bool,
    dropped: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

pub(crate) fn run(
    args: &DetectArgs,
    folder: &Path,
    device: &Device,
    faces: &Faces,
    out: &mut dyn Write,
) -> Result<Outcome> {
    let (send, ended) = channel();
    // Dropped when nobody prints any more.
    let (printing, stop) = channel::<()>();
    thread::scope(|scope| {
        let looking = scope.spawn(move || look_and_push(args, folder, device, faces, &send, &stop));
        let told = tell(args, ended, out);
        drop(printing);
        let looked = looking.join().map_err(|_| anyhow!("this is a bug of dala: watching a folder panicked"));
        let outcome = told?;
        looked??;
        Ok(outcome)
    })
}

/// Prints what became of each photo, until no more come.
fn tell(args: &DetectArgs, ended: Receiver<Ended>, out: &mut dyn Write) -> Result<Outcome> {
    let (mut all, mut failed) = (0, 0);
    for (photo, became, after) in ended {
        let (faces, dropped, error) = match became {
            Became::Done(faces) => match faces.take() {
                Ok(faces) => (Some(faces.iter().map(Found::from).collect()), false, None),
                Err(error) => (None, false, Some(error.to_string())),
            },
            Became::Dropped => (None, true, None),
            Became::Failed(error) => (None, false, Some(format!("{error:#}"))),
        };
        (all, failed) = (all + 1, failed + usize::from(error.is_some()));
        let late = faces.is_some() && args.deadline.is_some_and(|deadline| after > deadline);
        let milliseconds = after.as_secs_f64() * 1e3;
        let line = Line { photo: photo.display().to_string(), faces, milliseconds, late, dropped, error };
        match args.json {
            true => writeln!(out, "{}", serde_json::to_string(&line)?)?,
            false => writeln!(out, "{}", line.in_words())?,
        }
        // The next photo may take a while.
        out.flush()?;
    }
    Ok(match failed {
        0 => Outcome::Success,
        _ => Outcome::Negative(format!("{failed} of {} could not be looked at", output::count(all, "photo", "photos"))),
    })
}

impl Line {
    fn in_words(&self) -> String {
        let (photo, after) = (&self.photo, format!("{:.1} ms", self.milliseconds));
        match (&self.faces, &self.error) {
            (Some(faces), _) => {
                let late = if self.late { ", late" } else { "" };
                format!("{photo}: {}, {after}{late}", output::count(faces.len(), "face", "faces"))
            }
            (None, Some(error)) => format!("{photo}: failed: {error}"),
            (None, None) => format!("{photo}: dropped after {after}"),
        }
    }
}

/// Pushes the photos of a folder into a stream, as they come, until nobody wants to know, or each was looked at once.
fn look_and_push(
    args: &DetectArgs,
    folder: &Path,
    device: &Device,
    faces: &Faces,
    send: &Sender<Ended>,
    stop: &Receiver<()>,
) -> Result<()> {
    let frames = send.clone();
    let on_frame = move |frame: Frame, result: Result<(), Error>| {
        let became = match result {
            Ok(()) => Became::Done(frame.faces),
            Err(Error::DeadlineExceeded { .. }) => Became::Dropped,
            Err(error) => Became::Failed(error.into()),
        };
        // If nobody prints any more, it does not matter.
        let _ = frames.send((frame.photo, became, frame.found.elapsed()));
    };
    let mut options = StreamOptions::new(FramePolicy::Block);
    options.deadline = args.deadline;
    let stream = Stream::with_callback(device, |frame: &Frame| frame.stages.clone(), options, on_frame);
    let mut known = Known::default();
    loop {
        let photos = in_folder(folder).with_context(|| format!("cannot read {}", folder.display()))?;
        let (whole, found) = (known.look(&photos, &version), Instant::now());
        for photo in whole {
            if stop.try_recv() == Err(TryRecvError::Disconnected) {
                return Ok(());
            }
            let end = |became| drop(send.send((photo.clone(), became, found.elapsed())));
            if args.deadline.is_some_and(|deadline| found.elapsed() > deadline) {
                end(Became::Dropped);
            } else if let Err(error) = caught(|| push(&stream, faces, args.threshold, &photo, found)) {
                end(Became::Failed(error));
            }
        }
        if args.once && known.are_all_done() {
            return Ok(stream.wait_idle(None)?);
        }
        if stop.recv_timeout(PAUSE) == Err(RecvTimeoutError::Disconnected) {
            return Ok(());
        }
    }
}

/// Waits for a place in the stream.
fn push(stream: &Stream<Frame>, faces: &Faces, threshold: f32, photo: &Path, found: Instant) -> Result<()> {
    let picture = picture::read(photo, None)?.into_picture()?;
    let (stages, faces) = faces.stages(&picture, threshold)?;
    stream.push(Frame { photo: photo.to_owned(), found, stages, faces })?;
    Ok(())
}

/// What a file is like now: while it is written this changes.
type Version = (u64, Option<SystemTime>);

/// None if it is gone.
fn version(photo: &Path) -> Option<Version> {
    let found = fs::metadata(photo).ok()?;
    Some((found.len(), found.modified().ok()))
}

/// The photos that the folder had at the last look: how each was, and whether it was looked at since.
#[derive(Default)]
struct Known(HashMap<PathBuf, (Version, bool)>);

impl Known {
    /// The photos that are whole, each once; one that changes later is another.
    fn look(&mut self, photos: &[PathBuf], version: &dyn Fn(&Path) -> Option<Version>) -> Vec<PathBuf> {
        let mut before = std::mem::take(&mut self.0);
        let mut whole = Vec::new();
        for photo in photos {
            let Some(now) = version(photo) else { continue };
            let same = before.remove(photo).filter(|(own, _)| *own == now);
            if let Some((_, false)) = same {
                whole.push(photo.clone());
            }
            self.0.insert(photo.clone(), (now, same.is_some()));
        }
        whole
    }

    fn are_all_done(&self) -> bool {
        self.0.values().all(|(_, done)| *done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn photos_are_whole_when_they_stay_as_they_are() {
        let mut known = Known::default();
        let photos = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        let sized = |bytes: u64| move |_: &Path| Some((bytes, None));
        let both = photos(&["a.png", "b.png"]);
        assert!(known.are_all_done());
        assert!(known.look(&both[..1], &sized(7)).is_empty() && !known.are_all_done());
        // One is new, and one has not changed.
        assert_eq!(known.look(&both, &sized(7)), both[..1]);
        assert_eq!(known.look(&both, &sized(7)), both[1..]);
        assert!(known.are_all_done() && known.look(&both, &sized(7)).is_empty());
        // Both grow.
        assert!(known.look(&both, &sized(8)).is_empty() && !known.are_all_done());
        assert!(known.look(&both, &sized(9)).is_empty());
        assert_eq!(known.look(&both, &sized(9)), both);
        // What is gone is forgotten.
        assert!(known.look(&both, &|_| None).is_empty() && known.0.is_empty());
    }
}
