//! Where a pipeline and its pictures come from, and what becomes of them on a device.

use std::fs;
use std::path::Path;

use anyhow::{Context, Error, Result, anyhow, bail};
use dala_compute::{Buffer, Device, Plan, Shape, SpecError, TensorType};
use dala_image::RawLayout;
use dala_plan::PipelineText;

use crate::args::{Given, INPUT, SourceArgs};
use crate::output::count;
use crate::picture::{self, HostPicture};

/// What a pipeline calls its result.
pub(crate) const OUTPUT: &str = "output";

/// The size of the picture that is made up where none is given.
const DEFAULT_SIZE: [usize; 3] = [480, 640, 3];

/// A pipeline, with pictures for all that it reads.
pub(crate) struct Source {
    text: PipelineText,
    /// The file that it is from.
    file: Option<String>,
    pictures: Vec<(String, HostPicture)>,
}

/// A pipeline on a device.
pub(crate) struct Ready {
    pub(crate) plan: Plan,
    /// What it is given.
    pub(crate) inputs: Vec<(String, Buffer)>,
    /// The buffers that were asked for, in that order.
    pub(crate) results: Vec<Buffer>,
}

impl Source {
    /// A pipeline file.
    pub(crate) fn file(path: &Path) -> Result<Source> {
        let name = path.display().to_string();
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
        let text = PipelineText::from_toml(&text).with_context(|| name.clone())?;
        Ok(Source { text, file: Some(name), pictures: Vec::new() })
    }

    /// A chain of kernels.
    pub(crate) fn chain(chain: &str) -> Result<Source> {
        Ok(Source { text: PipelineText::from_chain(chain)?, file: None, pictures: Vec::new() })
    }

    /// What the options of several commands say; a picture is made up if none is given.
    pub(crate) fn from_args(args: &SourceArgs) -> Result<Source> {
        let source = match (&args.file, &args.filter) {
            (Some(file), _) => Source::file(file)?,
            (None, Some(chain)) => Source::chain(chain)?,
            (None, None) => bail!("there is no pipeline: give a file, or a chain by --filter"),
        };
        let mut source = source.with_pictures(&args.inputs, args.raw)?;
        let has_input = source.pictures.iter().any(|(name, _)| name == INPUT);
        match &args.size {
            Some(_) if has_input => bail!("`{INPUT}` has the size of its file: leave out --size or --input"),
            _ if has_input => {}
            size => source.make_up(size.clone()),
        }
        source.complete()
    }

    /// The same with pictures from files. `raw` says how those lie that do not say it.
    pub(crate) fn with_pictures(mut self, given: &[Given], raw: Option<RawLayout>) -> Result<Source> {
        if given.iter().filter(|given| picture::is_standard(&given.file)).count() > 1 {
            bail!("standard input is one picture: `-` can be given once");
        }
        for Given { name, file } in given {
            if self.pictures.iter().any(|(own, _)| own == name) {
                bail!("`{name}` is given twice");
            }
            let picture = picture::read(file, raw)?;
            self.check_declared(name, file, &picture)?;
            self.pictures.push((name.clone(), picture));
        }
        Ok(self)
    }

    /// A file may be written for pictures of one size.
    pub(crate) fn check_declared(&self, name: &str, file: &Path, picture: &HostPicture) -> Result<()> {
        let cells = self.text.spec(&[]).cells;
        let Some(cell) = cells.into_iter().find(|cell| cell.name == name) else { return Ok(()) };
        let actual = picture.ty();
        let dtype = cell.dtype.unwrap_or(actual.dtype);
        let declared = TensorType { dtype, shape: cell.shape.unwrap_or_else(|| actual.shape.clone()) };
        if declared != actual {
            let owner = self.file.as_deref().unwrap_or("the pipeline");
            bail!("{owner} declares `{name}` as {declared}, and {} is {actual}", file.display());
        }
        Ok(())
    }

    /// Uses a picture that is made up as the input, if the pipeline has one.
    fn make_up(&mut self, size: Option<Shape>) {
        if self.text.inputs().contains(&INPUT) {
            let declared = self.text.spec(&[]).cells.into_iter().find(|cell| cell.name == INPUT);
            let size = size.or_else(|| declared?.shape).unwrap_or_else(|| Shape::from(DEFAULT_SIZE));
            self.pictures.push((INPUT.to_owned(), picture::generate(&size)));
        }
    }

    /// Refuses a pipeline that reads what nobody gave.
    pub(crate) fn complete(self) -> Result<Source> {
        self.complete_with(&[])
    }

    /// The same, where these are given later.
    pub(crate) fn complete_with(self, later: &[&str]) -> Result<Source> {
        let given = |name: &str| later.contains(&name) || self.pictures.iter().any(|(own, _)| own == name);
        match self.text.inputs().into_iter().find(|name| !given(name)) {
            None => Ok(self),
            Some(INPUT) => bail!("the pipeline reads `{INPUT}`: give a picture by --input FILE"),
            Some(name) => bail!("the pipeline reads `{name}`, which no stage writes: give it by --input {name}=FILE"),
        }
    }

    /// Every buffer that the pipeline leaves behind.
    pub(crate) fn outputs(&self) -> Vec<&str> {
        self.text.outputs()
    }

    /// The picture that the pipeline calls `input`, if it was given.
    pub(crate) fn input(&self) -> Option<&HostPicture> {
        self.pictures.iter().find(|(name, _)| name == INPUT).map(|(_, picture)| picture)
    }

    /// Whether the pipeline reads a picture that it calls `input`.
    pub(crate) fn reads_input(&self) -> bool {
        self.text.inputs().contains(&INPUT)
    }

    /// The pictures on a device.
    pub(crate) fn upload(&self, device: &Device) -> Result<Vec<(String, Buffer)>> {
        let upload = |(name, picture): &(String, HostPicture)| Ok((name.clone(), picture.upload(device)?));
        self.pictures.iter().map(upload).collect()
    }

    /// The pipeline on a device, compiled. `results` are the buffers whose contents are wanted.
    pub(crate) fn prepare(&self, device: &Device, results: &[&str]) -> Result<Ready> {
        self.compile(device, self.upload(device)?, results)
    }

    /// The same on these buffers.
    pub(crate) fn compile(&self, device: &Device, inputs: Vec<(String, Buffer)>, results: &[&str]) -> Result<Ready> {
        let given: Vec<(&str, &Buffer)> = inputs.iter().map(|(name, buffer)| (name.as_str(), buffer)).collect();
        let compiled = device.read_pipeline(&self.text, &given, results).and_then(|(pipeline, results)| {
            let plan = device.compile(&pipeline)?;
            Ok((plan, results))
        });
        match (compiled, &self.file) {
            (Ok((plan, results)), _) => Ok(Ready { plan, inputs, results }),
            (Err(error), Some(file)) => Err(explained(error).context(file.clone())),
            (Err(error), None) => Err(explained(error)),
        }
    }
}

/// An error of the library, with what it comes to in a pipeline file.
fn explained(error: dala_compute::Error) -> Error {
    match missing_type(&error) {
        Some((name, line)) => anyhow!("{error}\n  in a file: [buffers.{name}] with {line}, or as it should be"),
        None => error.into(),
    }
}

/// A buffer whose type has to be said, and how.
fn missing_type(error: &dala_compute::Error) -> Option<(&str, String)> {
    use dala_compute::Error::{InStage, Pipeline, Spec};
    match error {
        Pipeline { problems } => problems.iter().find_map(missing_type),
        InStage { cause, .. } => missing_type(cause),
        Spec(SpecError::AmbiguousShape { name, .. }) => Some((name, "shape = [480, 640, 3]".to_owned())),
        Spec(SpecError::AmbiguousType { name, possible, .. }) => {
            Some((name, format!("dtype = \"{}\"", possible.first()?)))
        }
        _ => None,
    }
}

/// `3 stages in 2 launches on cpu`.
pub(crate) fn summary(plan: &Plan) -> String {
    let (stages, launches) =
        (count(plan.stage_count(), "stage", "stages"), count(plan.launches(), "launch", "launches"));
    format!("{stages} in {launches} on {}", plan.device().info().backend)
}
