//! A list of stages over buffers, some of which live only inside it, and what is wrong with it.

use dala_spec::{
    DType, KernelSpec, OutputDType, OutputShape, Params, ResolvedParams, Shape, ShapeCall, ShapeProblem, Signature,
    SpecError, TensorType, further_types, validate, validate_further, validate_outputs,
};

/// A buffer of a pipeline.
#[derive(Clone, Debug, PartialEq)]
pub struct CellSpec {
    /// What the user calls it, for messages.
    pub name: String,
    /// Whether it lives only as long as the pipeline runs.
    pub transient: bool,
    /// Its element type; of a transient it may follow from the stage that writes it first.
    pub dtype: Option<DType>,
    /// Its shape; of a transient it may follow from the stage that writes it first.
    pub shape: Option<Shape>,
}

impl CellSpec {
    /// A user's buffer.
    pub fn external(name: impl Into<String>, ty: TensorType) -> CellSpec {
        CellSpec { name: name.into(), transient: false, dtype: Some(ty.dtype), shape: Some(ty.shape) }
    }

    /// A buffer that lives only inside the pipeline.
    pub fn transient(name: impl Into<String>) -> CellSpec {
        CellSpec { name: name.into(), transient: true, dtype: None, shape: None }
    }
}

/// One stage, over buffers by number.
#[derive(Clone, Debug, PartialEq)]
pub enum StageSpec {
    /// Runs a kernel.
    Run {
        /// Its name.
        kernel: String,
        /// What it reads.
        inputs: Vec<usize>,
        /// What it writes: mostly one buffer.
        outputs: Vec<usize>,
        /// Its params.
        params: Params,
    },
    /// Copies the bytes of a buffer.
    Copy {
        /// From where.
        from: usize,
        /// Where to.
        to: usize,
    },
    /// Orders everything before it before everything after it.
    Barrier,
}

impl StageSpec {
    /// What a stage is called.
    pub fn label(&self) -> &str {
        match self {
            StageSpec::Run { kernel, .. } => kernel,
            StageSpec::Copy { .. } => "copy",
            StageSpec::Barrier => "barrier",
        }
    }
}

/// A list of stages over buffers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PipelineSpec {
    /// The buffers.
    pub cells: Vec<CellSpec>,
    /// The stages.
    pub stages: Vec<StageSpec>,
}

/// Something that is wrong with a stage.
#[derive(Clone, Debug, PartialEq)]
pub struct StageProblem {
    /// Which stage, counted from 0.
    pub stage: usize,
    /// What is wrong with it.
    pub error: SpecError,
}

/// A pipeline whose every stage fits.
#[derive(Clone, Debug)]
pub struct CheckedPipeline {
    /// The types of the buffers; none for transients that no stage uses.
    pub types: Vec<Option<TensorType>>,
    /// The types and params of each stage that runs a kernel.
    pub signatures: Vec<Option<Signature>>,
}

impl PipelineSpec {
    /// Checks every stage against its kernel, and finds the types of transients on the way. `spec` finds kernels by name.
    ///
    /// # Errors
    ///
    /// Every problem found, never an empty list. What follows from one that was reported is not reported again.
    pub fn check<'a>(
        &self,
        spec: impl Fn(&str) -> Result<&'a KernelSpec, SpecError>,
    ) -> Result<CheckedPipeline, Vec<StageProblem>> {
        let mut checker = Checker {
            pipeline: self,
            types: self
                .cells
                .iter()
                .map(|cell| Some(TensorType { dtype: cell.dtype?, shape: cell.shape.clone()? }))
                .collect(),
            written: self.cells.iter().map(|cell| !cell.transient).collect(),
            spoiled: vec![false; self.cells.len()],
            problems: Vec::new(),
        };
        let mut signatures = Vec::with_capacity(self.stages.len());
        for (stage, what) in self.stages.iter().enumerate() {
            signatures.push(match what {
                StageSpec::Run { kernel, inputs, outputs, params } => match spec(kernel) {
                    Ok(spec) => checker.run(stage, spec, inputs, outputs, params),
                    Err(error) => checker.fail(stage, outputs, vec![error]),
                },
                StageSpec::Copy { from, to } => {
                    checker.copy(stage, *from, *to);
                    None
                }
                StageSpec::Barrier => None,
            });
        }
        let Checker { types, problems, .. } = checker;
        if problems.is_empty() { Ok(CheckedPipeline { types, signatures }) } else { Err(problems) }
    }
}

struct Checker<'a> {
    pipeline: &'a PipelineSpec,
    types: Vec<Option<TensorType>>,
    /// Whether each buffer holds something by now.
    written: Vec<bool>,
    /// Whether what is to be in a buffer is unknown because of a problem that was reported.
    spoiled: Vec<bool>,
    problems: Vec<StageProblem>,
}

impl Checker<'_> {
    /// Reports the problems of a stage that was to write `outputs`.
    fn fail(&mut self, stage: usize, outputs: &[usize], problems: Vec<SpecError>) -> Option<Signature> {
        self.problems.extend(problems.into_iter().map(|error| StageProblem { stage, error }));
        outputs.iter().for_each(|output| self.spoil(*output));
        None
    }

    fn spoil(&mut self, output: usize) {
        self.written[output] = true;
        if self.types[output].is_none() {
            self.spoiled[output] = true;
        }
    }

    /// The types of what a stage reads; none if they are not all known.
    fn sources(&mut self, stage: usize, inputs: &[(usize, String)]) -> Option<Vec<TensorType>> {
        let mut types = Vec::with_capacity(inputs.len());
        let mut complete = true;
        for (cell, argument) in inputs {
            if !self.written[*cell] {
                let name = self.pipeline.cells[*cell].name.clone();
                let error = SpecError::UnwrittenTransient { argument: argument.clone(), name };
                self.problems.push(StageProblem { stage, error });
                complete = false;
            } else if let (Some(ty), false) = (&self.types[*cell], self.spoiled[*cell]) {
                types.push(ty.clone());
            } else {
                complete = false;
            }
        }
        complete.then_some(types)
    }

    fn run(
        &mut self,
        stage: usize,
        spec: &KernelSpec,
        inputs: &[usize],
        outputs: &[usize],
        params: &Params,
    ) -> Option<Signature> {
        if let Err(error) = validate_outputs(spec, outputs) {
            return self.fail(stage, outputs, vec![error]);
        }
        // Every kernel has one.
        let [output, further @ ..] = outputs else { return None };
        let argument = |index: usize| format!("{} of kernel `{}`", spec.input_name(index), spec.name);
        let named: Vec<(usize, String)> =
            inputs.iter().enumerate().map(|(index, input)| (*input, argument(index))).collect();
        let Some(sources) = self.sources(stage, &named) else {
            // What can be said without the types is said: the params.
            let mut problems = Vec::new();
            ResolvedParams::resolve(&spec.name, &spec.params, params, &mut problems);
            return self.fail(stage, outputs, problems);
        };
        let signature = self.target(spec, &sources, *output, params).and_then(|target| {
            let signature = validate(spec, &sources, &target, params)?;
            Ok((signature, self.further(spec, &sources, further).map_err(|error| vec![error])?))
        });
        match signature {
            Ok((signature, further)) => {
                for (output, target) in outputs.iter().zip([signature.output.clone()].into_iter().chain(further)) {
                    self.written[*output] = true;
                    self.types[*output] = Some(target);
                }
                Some(signature)
            }
            Err(problems) => self.fail(stage, outputs, problems),
        }
    }

    /// The types of what a stage writes after its first output: given, or what the kernel says.
    fn further(
        &self,
        spec: &KernelSpec,
        sources: &[TensorType],
        outputs: &[usize],
    ) -> Result<Vec<TensorType>, SpecError> {
        let mut types = further_types(spec, sources)?;
        for (ty, output) in types.iter_mut().zip(outputs) {
            let cell = &self.pipeline.cells[*output];
            if let Some(known) = &self.types[*output] {
                ty.clone_from(known);
            }
            ty.dtype = cell.dtype.unwrap_or(ty.dtype);
            ty.shape = cell.shape.clone().unwrap_or_else(|| ty.shape.clone());
        }
        validate_further(spec, sources, &types)?;
        Ok(types)
    }

    /// The type of what a stage writes: given, or what follows from the rest of the call.
    fn target(
        &self,
        spec: &KernelSpec,
        sources: &[TensorType],
        output: usize,
        params: &Params,
    ) -> Result<TensorType, Vec<SpecError>> {
        if let Some(ty) = &self.types[output] {
            return Ok(ty.clone());
        }
        let cell = &self.pipeline.cells[output];
        let mut problems = Vec::new();
        let dtype = cell.dtype.or_else(|| implied_type(spec, sources));
        if dtype.is_none() {
            problems.push(SpecError::AmbiguousType {
                kernel: spec.name.clone(),
                name: cell.name.clone(),
                possible: match spec.output.dtype {
                    OutputDType::OneOf(dtypes) => dtypes.to_vec(),
                    OutputDType::Inputs | OutputDType::First | OutputDType::Rest => Vec::new(),
                },
            });
        }
        let shape = match &cell.shape {
            Some(shape) => Some(shape.clone()),
            None => match implied_shape(spec, sources, params) {
                Ok(shape) => Some(shape),
                Err(Implied::Unknown(expected)) => {
                    let (kernel, name) = (spec.name.clone(), cell.name.clone());
                    problems.push(SpecError::AmbiguousShape { kernel, name, expected });
                    None
                }
                // Whatever is wrong shows when the call is validated against any output.
                Err(Implied::Wrong) => {
                    let any = sources.first().map_or(Shape::from([]), |source| source.shape.clone());
                    let output = TensorType::new(dtype.unwrap_or(DType::F32), any);
                    let about_output = |error: &SpecError| matches!(error, SpecError::ShapeMismatch { argument, .. } | SpecError::DTypeMismatch { argument, .. } if argument == "the output");
                    let found = validate(spec, sources, &output, params).err().unwrap_or_default();
                    problems.extend(found.into_iter().filter(|error| !about_output(error)));
                    None
                }
            },
        };
        match (dtype, shape) {
            (Some(dtype), Some(shape)) if problems.is_empty() => Ok(TensorType { dtype, shape }),
            _ => {
                if problems.is_empty() {
                    let (kernel, name) = (spec.name.clone(), cell.name.clone());
                    problems.push(SpecError::AmbiguousShape { kernel, name, expected: None });
                }
                Err(problems)
            }
        }
    }

    fn copy(&mut self, stage: usize, from: usize, to: usize) {
        let sources = self.sources(stage, &[(from, "the source of a copy".to_owned())]);
        let Some(source) = sources.and_then(|mut sources| sources.pop()) else {
            self.spoil(to);
            return;
        };
        self.written[to] = true;
        let bytes = |ty: &TensorType| ty.shape.len().saturating_mul(ty.dtype.size());
        match &self.types[to] {
            Some(target) if bytes(target) != bytes(&source) => {
                let error = SpecError::CopySize { from: bytes(&source), to: bytes(target) };
                self.problems.push(StageProblem { stage, error });
            }
            Some(_) => {}
            None => self.types[to] = Some(source),
        }
    }
}

/// The element type that an output has if nobody says otherwise.
fn implied_type(spec: &KernelSpec, sources: &[TensorType]) -> Option<DType> {
    let first = sources.first().map(|source| source.dtype);
    match spec.output.dtype {
        OutputDType::Inputs | OutputDType::First => first,
        OutputDType::Rest => sources.get(1).map(|source| source.dtype),
        OutputDType::OneOf([only]) => Some(*only),
        OutputDType::OneOf(dtypes) => first.filter(|first| dtypes.contains(first)),
    }
}

/// Why a shape does not follow.
enum Implied {
    /// The caller has to choose, among what is said here.
    Unknown(Option<String>),
    /// The call is wrong.
    Wrong,
}

/// The shape that an output has if nobody says otherwise.
fn implied_shape(spec: &KernelSpec, sources: &[TensorType], params: &Params) -> Result<Shape, Implied> {
    match &spec.output.shape {
        OutputShape::Inputs => {
            let sources = sources.iter().enumerate();
            let mut shapes = sources
                .filter(|(index, _)| spec.input_at(*index).is_none_or(|input| !input.side))
                .map(|(_, source)| &source.shape);
            let first = shapes.clone().next();
            shapes.find(|shape| shape.len() != 1).or(first).cloned().ok_or(Implied::Unknown(None))
        }
        OutputShape::Broadcast => sources
            .iter()
            .try_fold(Shape::default(), |shape, source| shape.broadcast(&source.shape))
            .ok_or(Implied::Wrong),
        OutputShape::Any | OutputShape::Image => Err(Implied::Unknown(None)),
        OutputShape::Computed(rule) => {
            let mut problems = Vec::new();
            let params = ResolvedParams::resolve(&spec.name, &spec.params, params, &mut problems);
            if !problems.is_empty() || sources.len() < spec.inputs.len() {
                return Err(Implied::Wrong);
            }
            (rule.shape)(&ShapeCall { inputs: sources, output: None, params: &params }).map_err(|problem| match problem
            {
                ShapeProblem::Output(expected) => Implied::Unknown((expected != "given").then_some(expected)),
                ShapeProblem::Input(..) | ShapeProblem::Param(..) => Implied::Wrong,
            })
        }
    }
}
