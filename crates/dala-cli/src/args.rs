//! The one definition of the command line: parsing and help come from it.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use dala_compute::{DType, Params, Shape};
use dala_image::{Format, RawLayout};
use dala_recipes::FACE_THRESHOLD;

use crate::parsers::{positive, time};
use crate::serve_args::ServeArgs;

/// What a pipeline calls the picture that it is given.
pub(crate) const INPUT: &str = "input";

/// GPU compute from a shell: devices, kernels, expressions, pipelines and models.
#[derive(Debug, Parser)]
#[command(name = "dala", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the devices of this machine, best first
    Info(InfoArgs),
    /// List the built-in kernels, or describe one
    Kernels(KernelsArgs),
    /// Compute an expression over numbers
    Eval(EvalArgs),
    /// Run a chain of kernels on a picture
    Filter(FilterArgs),
    /// Run a pipeline file on pictures
    Run(RunArgs),
    /// Draw or explain what a pipeline compiles to
    Graph(GraphArgs),
    /// Compare a pipeline on every device with plain Rust
    Verify(VerifyArgs),
    /// Record what a device does when a pipeline runs
    Trace(TraceArgs),
    /// Say what is in photos
    Classify(ClassifyArgs),
    /// Serve models and pipelines over the network: the Open Inference Protocol by HTTP and gRPC
    Serve(Box<ServeArgs>),
    /// Find the faces in photos
    Detect(DetectArgs),
    /// Read the text in photos
    Read(ReadArgs),
    /// Make a photo larger
    Upscale(UpscaleArgs),
    /// Say when somebody speaks in a recording
    Listen(ListenArgs),
    /// Say what kinds of files these are, by their bytes
    DescribeType(DescribeTypeArgs),
    /// Look at a model
    Model {
        #[command(subcommand)]
        command: ModelCommand,
    },
    /// Measure this library beside the bare engine, or a peer
    Bench(BenchArgs),
    /// Compare every kernel on every device with plain Rust, for bug reports
    SelfTest(SelfTestArgs),
    /// Build every kernel that pipelines and models need, for the next process
    Warm(WarmArgs),
    /// Show or remove the compiled kernels that are kept for the next process
    Cache(CacheArgs),
    /// Print a script that completes `dala` in a shell
    #[command(after_help = "\
Examples:
  dala completions bash > ~/.local/share/bash-completion/completions/dala
  dala completions fish > ~/.config/fish/completions/dala.fish")]
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write one for every command
    #[command(after_help = "\
Examples:
  dala man | man -l -
  dala man ~/.local/share/man/man1")]
    Man {
        /// The folder that gets a page for every command
        #[arg(value_name = "DIR")]
        folder: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "\
Kernels are kept in the folder that `dala cache` shows. Unpacked on another machine of the same kind, or for another user, with mode 700, nothing is built there.

Examples:
  dala warm edges.toml --size 1080x1920x3 --size 480x640x3
  dala warm mobilenet_v2.onnx --device cpu
  dala warm 'blur(radius=2) | grayscale'")]
pub(crate) struct WarmArgs {
    /// Models (.onnx), pipeline files (.toml) and chains of kernels
    #[arg(value_name = "MODEL|PIPELINE|CHAIN", required = true)]
    pub(crate) what: Vec<String>,
    /// The size of the pictures that pipelines are for; may be given several times [default: 480x640x3]
    #[arg(long, value_name = "HxWxC", value_parser = size)]
    pub(crate) size: Vec<Shape>,
    /// The batch that models are for; may be given several times [default: the smallest]
    #[arg(long, value_name = "N")]
    pub(crate) batch: Vec<usize>,
    /// Show how long each kernel took
    #[arg(long)]
    pub(crate) explain: bool,
    /// The device: auto, vulkan, gl, metal, cuda, rocm, cpu, or one that `dala info` names, such as vulkan:1. DALA_DEVICE overrides auto
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub(crate) device: String,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Machine code of the CPU device and shaders for Vulkan are kept in a folder that only you can write to. DALA_CACHE names another one, or says `off`. Graphics drivers have caches of their own.

Examples:
  dala cache
  dala cache --clear")]
pub(crate) struct CacheArgs {
    /// Remove all of them
    #[arg(long)]
    pub(crate) clear: bool,
    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Runs every kernel once for each element type on a small input. Takes about a minute. Exits with 1 if something is wrong.

Examples:
  dala self-test
  dala self-test --device vulkan --device cpu --json > report.json")]
pub(crate) struct SelfTestArgs {
    /// A device: auto, vulkan, gl, metal, cuda, rocm or cpu [default: every device of this machine]
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Vec<String>,
    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Photos are files of any format that `dala filter` reads, or `-`. Their middle becomes as large as the model wants it, with ImageNet's mean and deviation.

Examples:
  dala classify photo.jpg
  dala classify *.jpg --top 3 --device vulkan
  dala classify leaf.jpg --model plants.onnx --labels plants.txt --json")]
pub(crate) struct ClassifyArgs {
    /// The photos
    #[arg(value_name = "PHOTO", required = true)]
    pub(crate) photos: Vec<PathBuf>,
    /// The model, as ONNX [default: mobilenet_v2.onnx, which scripts/get-models fetches]
    #[arg(long, value_name = "FILE")]
    pub(crate) model: Option<PathBuf>,
    /// The names of the classes, one on each line [default: ImageNet's, if there are 1000]
    #[arg(long, value_name = "FILE")]
    pub(crate) labels: Option<PathBuf>,
    /// The device: auto, vulkan, gl, metal, cuda, rocm, cpu, or one that `dala info` names, such as vulkan:1. DALA_DEVICE overrides auto
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub(crate) device: String,
    /// How many classes are shown, the best first
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = positive)]
    pub(crate) top: usize,
    /// Show the model's outputs as they are; otherwise they become probabilities, unless they are
    #[arg(long)]
    pub(crate) raw: bool,
    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Photos are files of any format that `dala filter` reads, or `-`. Boxes are in a photo's pixels, from its upper left corner.

Examples:
  dala detect friends.jpg --output found.png
  dala detect *.jpg --threshold 0.7 --json
  dala detect --watch camera --deadline 200ms")]
pub(crate) struct DetectArgs {
    /// The photos
    #[arg(value_name = "PHOTO", required_unless_present = "watch", conflicts_with = "watch")]
    pub(crate) photos: Vec<PathBuf>,
    /// Where the photo is written with boxes around the faces; for one photo
    #[arg(long, short, value_name = "FILE", conflicts_with = "watch")]
    pub(crate) output: Option<PathBuf>,
    /// Look at the photos of a folder, and at each that comes, until Ctrl-C. With --json each is a line
    #[arg(long, value_name = "FOLDER")]
    pub(crate) watch: Option<PathBuf>,
    /// End when all photos of the folder have been looked at
    #[arg(long, requires = "watch", conflicts_with = "photos")]
    pub(crate) once: bool,
    /// Drop photos whose turn does not come so soon after they were found: 200ms, 1.5s
    #[arg(long, value_name = "TIME", requires = "watch", conflicts_with = "photos", value_parser = time)]
    pub(crate) deadline: Option<Duration>,
    /// How sure the model is at least, from 0 to 1
    #[arg(long, value_name = "N", default_value_t = FACE_THRESHOLD)]
    pub(crate) threshold: f32,
    /// To how many pixels the longer side of a photo is shrunk at most: more find smaller faces
    #[arg(long, value_name = "PIXELS", default_value_t = 1024, value_parser = positive)]
    pub(crate) longer_side: usize,
    /// The model, as ONNX [default: faces.onnx, which `scripts/get-models faces` fetches]
    #[arg(long, value_name = "FILE")]
    pub(crate) model: Option<PathBuf>,
    /// The device: auto, vulkan, gl, metal, cuda, rocm, cpu, or one that `dala info` names, such as vulkan:1. DALA_DEVICE overrides auto
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub(crate) device: String,
    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The photo is a file of any format that `dala filter` reads, or `-`. It is done in tiles, so that its size does not matter to the memory of the device.

Examples:
  dala upscale small.jpg --output large.png")]
pub(crate) struct UpscaleArgs {
    /// The photo
    #[arg(value_name = "PHOTO")]
    pub(crate) photo: PathBuf,
    /// Where the larger photo is written
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// The model, as ONNX [default: upscale.onnx, which `scripts/get-models upscale` fetches]
    #[arg(long, value_name = "FILE")]
    pub(crate) model: Option<PathBuf>,
    /// The device: auto, vulkan, gl, metal, cuda, rocm, cpu, or one that `dala info` names, such as vulkan:1. DALA_DEVICE overrides auto
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub(crate) device: String,
    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Photos are files of any format that `dala filter` reads, or `-`. Lines are printed in reading order. Exits with 1 if there is no text.

Examples:
  dala read letter.jpg > letter.txt
  dala read street.jpg --output street-lines.png
  dala read *.jpg --json --device vulkan")]
pub(crate) struct ReadArgs {
    /// The photos
    #[arg(value_name = "PHOTO", required = true)]
    pub(crate) photos: Vec<PathBuf>,
    /// The model that finds lines, as ONNX [default: text_detector.onnx, which `scripts/get-models text` fetches]
    #[arg(long, value_name = "FILE")]
    pub(crate) detector: Option<PathBuf>,
    /// The model that reads lines, as ONNX [default: text_recogniser.onnx, which `scripts/get-models text` fetches]
    #[arg(long, value_name = "FILE")]
    pub(crate) recogniser: Option<PathBuf>,
    /// Where the photo is written with its lines framed; for one photo
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// The device: auto, vulkan, gl, metal, cuda, rocm, cpu, or one that `dala info` names, such as vulkan:1. DALA_DEVICE overrides auto
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub(crate) device: String,
    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
A recording is a WAV file: PCM of 8 to 32 bits or floats, of any rate, with any number of channels. It may be hours long.

Examples:
  dala listen talk.wav
  dala listen talk.wav --output talk.svg
  dala listen talk.wav --json --device cpu")]
pub(crate) struct ListenArgs {
    /// The recording
    #[arg(value_name = "FILE.wav")]
    pub(crate) recording: PathBuf,
    /// Draw probability and spans over time, as SVG
    #[arg(long, short, value_name = "FILE.svg")]
    pub(crate) output: Option<PathBuf>,
    /// The model, as ONNX [default: speech.onnx in the folder of models]
    #[arg(long, value_name = "FILE")]
    pub(crate) model: Option<PathBuf>,
    /// The device: auto, vulkan, gl, metal, cuda, rocm, cpu, or one that `dala info` names, such as vulkan:1. DALA_DEVICE overrides auto
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub(crate) device: String,
    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Names of files do not matter, and of long files only both ends are read.

Examples:
  dala describe-type download.bin
  dala describe-type * --json
  cat something | dala describe-type -")]
pub(crate) struct DescribeTypeArgs {
    /// The files; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// The model, as ONNX, with its labels beside it as FILE.json [default: file_type.onnx in the folder of models]
    #[arg(long, value_name = "FILE")]
    pub(crate) model: Option<PathBuf>,
    /// The device: auto, vulkan, gl, metal, cuda, rocm, cpu, or one that `dala info` names, such as vulkan:1. DALA_DEVICE overrides auto
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub(crate) device: String,
    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ModelCommand {
    /// Say what a model takes, gives and holds, and what it comes to on a device
    Info(ModelInfoArgs),
    /// Run a model on files, numbers or made-up data
    Run(ModelRunArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
An input is a picture, a .npy file, a number (for all of its elements), or shape:1x3x224x224 for made-up numbers of a shape. \
A picture becomes as large as the input says, or stays as large as it is where that is open. An output is written to a .npy file, or to \
standard output as numbers (-); of the others a summary is shown.

Examples:
  dala model run mobilenet_v2.onnx --input input=cat.jpg --pixels imagenet
  dala model run detector.onnx --input images=photo.jpg --size height=320 --size width=320 --output boxes=boxes.npy
  dala model run voice.onnx --input audio=second.npy --input sr=16000 --output output=-")]
pub(crate) struct ModelRunArgs {
    /// The model, as ONNX
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// What goes into an input; once for each
    #[arg(long, short, value_name = "NAME=WHAT", value_parser = Named::parse)]
    pub(crate) input: Vec<Named>,
    /// Where an output goes; may be given several times
    #[arg(long, short, value_name = "NAME=FILE.npy|-", value_parser = Named::parse)]
    pub(crate) output: Vec<Named>,
    /// A size that the model leaves open; may be given several times
    #[arg(long, value_name = "NAME=N", value_parser = named_size)]
    pub(crate) size: Vec<(String, usize)>,
    /// What the levels of pictures become
    #[arg(long, value_enum, default_value_t = Pixels::Unit)]
    pub(crate) pixels: Pixels,
    /// The device: auto, vulkan, gl, metal, cuda, rocm, cpu, or one that `dala info` names, such as vulkan:1. DALA_DEVICE overrides auto
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub(crate) device: String,
    /// Print a JSON list of the outputs
    #[arg(long)]
    pub(crate) json: bool,
}

/// What networks take for the levels of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Pixels {
    /// 0 to 1
    Unit,
    /// -1 to 1
    Signed,
    /// 0 to 255
    Levels,
    /// With ImageNet's mean and deviation
    Imagenet,
}

impl Pixels {
    /// What is subtracted from 0 to 1, and what that is divided by, as params of `preprocess`; ImageNet's are its own.
    pub(crate) fn params(self) -> Params {
        let (mean, deviation) = match self {
            Pixels::Unit => (0.0, 1.0),
            Pixels::Signed => (0.5, 0.5),
            Pixels::Levels => (0.0, 1.0 / 255.0),
            Pixels::Imagenet => return Params::new(),
        };
        Params::new().with("mean", vec![mean; 3]).with("std", vec![deviation; 3])
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
Exits with 1 if the file is fine but the model cannot be run.

Examples:
  dala model info mobilenet_v2.onnx
  dala model info mobilenet_v2.onnx --batch 8 --device vulkan --explain")]
pub(crate) struct ModelInfoArgs {
    /// The model, as ONNX
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The device: auto, vulkan, gl, metal, cuda, rocm, cpu, or one that `dala info` names, such as vulkan:1. DALA_DEVICE overrides auto
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub(crate) device: String,
    /// How many at a time [default: 1, or what the model fixes]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) batch: Option<usize>,
    /// A size that the model leaves open; may be given several times
    #[arg(long, value_name = "NAME=N", value_parser = named_size)]
    pub(crate) size: Vec<(String, usize)>,
    /// Print the plan too
    #[arg(long, conflicts_with = "json")]
    pub(crate) explain: bool,
    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  dala bench fusion --device vulkan
  dala bench overhead --explain
  dala bench image --device cpu --json
  dala bench model --device cpu
  dala bench zoo --device cpu --memory
  dala bench batch --device cpu --plot batch.svg")]
pub(crate) struct BenchArgs {
    /// What is measured
    #[arg(value_enum)]
    pub(crate) suite: Suite,
    /// The device: auto, vulkan, gl, metal, cuda, rocm, cpu, or one that `dala info` names, such as vulkan:1. DALA_DEVICE overrides auto
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub(crate) device: String,
    /// Show the plan that is measured, where there is one; for startup, how long each kernel took to build
    #[arg(long)]
    pub(crate) explain: bool,
    /// Of the zoo, these models alone
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Of the zoo, how much memory each model takes
    #[arg(long)]
    pub(crate) memory: bool,
    /// Draw the ratios, as SVG
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<PathBuf>,
    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Things to measure.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Suite {
    /// Eight pointwise stages as one launch, beside one bare copy
    Fusion,
    /// A hundred small stages, beside a hundred bare launches
    Overhead,
    /// Three filters of a full-HD picture, beside OpenCV (needs Python with OpenCV)
    Image,
    /// A network, beside ONNX Runtime (needs Python with ONNX Runtime, and scripts/get-models)
    Model,
    /// 200 JPEG photos in full HD through three filters, beside OpenCV (needs Python with OpenCV)
    Batch,
    /// What is in 200 JPEG photos, beside OpenCV and ONNX Runtime (needs Python with both, and scripts/get-models)
    Photos,
    /// How long compiling takes, and the first result of a process
    Startup,
    /// What a million pixels cost in pictures of all sizes, the worst beside the best of nearly the same size
    Sizes,
    /// Arithmetic on each element type, beside a copy of the same bytes
    Types,
    /// Real models, beside ONNX Runtime (needs Python with ONNX Runtime and safetensors, and scripts/zoo)
    Zoo,
    /// The first result of this process alone, in milliseconds
    #[value(hide = true)]
    Frame,
    /// The memory that a model takes in this process alone; its file and the folder of its inputs are lines of the input
    #[value(hide = true)]
    Peak,
}

#[derive(Debug, Args)]
pub(crate) struct InfoArgs {
    /// Print a JSON list
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct KernelsArgs {
    /// Describe this kernel, found by name or alias
    pub(crate) name: Option<String>,
    /// Print a JSON list
    #[arg(long)]
    pub(crate) json: bool,
}

/// Numbers stay text here: how they are read depends on the element type.
#[derive(Debug, Args)]
#[command(
    override_usage = "dala eval [OPTIONS] <EXPRESSION> [-- <NUMBERS>...]",
    after_help = "\
Examples:
  dala eval 'relu(x) * 2' -- -1 2 3
  dala eval 'x * gain + y' --param gain=0.5 --input y=10,20,30 -- 1 2 3
  dala eval 'x + 100' --dtype u8 -- 100 200
  dala eval 'gather(table, s32(x))' --input table=10,20,30 -- 2 0 1
  dala eval 'index * index' --count 5 --dtype s32"
)]
pub(crate) struct EvalArgs {
    /// The expression, over the input `x` and whatever --input and --param name
    #[arg(allow_hyphen_values = true, value_parser = expression)]
    pub(crate) expression: String,
    /// The elements of the input `x`; `--` before them lets them be negative
    #[arg(allow_negative_numbers = true)]
    pub(crate) numbers: Vec<String>,
    /// One more input; an input of one number counts for every element
    #[arg(long = "input", value_name = "NAME=N,N,...", value_parser = Named::parse)]
    pub(crate) inputs: Vec<Named>,
    /// A param: one number, which an integer type keeps whole if it is written without a point
    #[arg(long = "param", value_name = "NAME=N", value_parser = Named::parse)]
    pub(crate) params: Vec<Named>,
    /// Compute so many elements, where no input but tables says how many
    #[arg(long, value_name = "N", conflicts_with = "numbers")]
    pub(crate) count: Option<usize>,
    /// The device: auto, vulkan, gl, metal, cuda, rocm, cpu, or one that `dala info` names, such as vulkan:1. DALA_DEVICE overrides auto
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub(crate) device: String,
    /// The element type of the inputs
    #[arg(long, value_name = "TYPE", default_value = "f32", value_parser = dtype_parser())]
    pub(crate) dtype: DType,
    /// The element type of the output [default: that of the inputs]
    #[arg(long, value_name = "TYPE", value_parser = dtype_parser())]
    pub(crate) output_dtype: Option<DType>,
    /// Print a JSON object; NaN and infinities are strings in it, because JSON has no such numbers
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Pictures are JPEG, PNG, WebP, TIFF, BMP, PNM (.pgm, .ppm, .pam), .npy or .raw. What a file is, its content says; what is
written, its name. JPEG leaves transparency out; colour profiles stay where the format has a place, and a warning says
where not. `-` is standard input or output: it is written as --format says, else as the input is.

Of several pictures each is written to the folder OUTPUT under its own name; what is there already is replaced. Exits
with 1 if some failed.

Examples:
  dala filter 'blur(radius=3) | sharpen(amount=0.5) | grayscale' photo.jpg out.png
  dala filter 'blur(radius=3)' photos/ 'more/*.png' blurred/ --format jpg
  dala filter 'sobel(direction=x, border=reflect)' photo.jpg edges.png --device cpu --explain
  curl -s https://example.org/photo.jpg | dala filter 'blur(radius=3)' - - --format webp > blurred.webp
  dala filter grayscale frame.raw gray.npy --raw 1080x1920x3")]
pub(crate) struct FilterArgs {
    /// Kernels with their params, from the picture to the result: 'blur(radius=3) | grayscale'
    pub(crate) chain: String,
    /// The picture, or several: files, folders, patterns such as '*.jpg'; `-` is standard input
    #[arg(value_name = "INPUT", required = true)]
    pub(crate) inputs: Vec<PathBuf>,
    /// Where the result is written: a file, or a folder if there are several; `-` is standard output
    #[arg(required = true)]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) batch: BatchArgs,
    /// The device: auto, vulkan, gl, metal, cuda, rocm, cpu, or one that `dala info` names, such as vulkan:1. DALA_DEVICE overrides auto
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub(crate) device: String,
    /// Print the plan too
    #[arg(long)]
    pub(crate) explain: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Pictures are those of `dala filter`, and `-` is standard input or output. A result is u8, or f32 from 0 to 1; .npy and .raw
hold floats as they are, the others levels from 0 to 255. Of several pictures each is written to the folder that --output
names, under its own name; what is there already is replaced. Exits with 1 if some failed.

Examples:
  dala run edges.toml --input photo.jpg --output edges.png
  dala run edges.toml --input photos/ 'more/*.png' --output edges/ --format png
  dala run stamp.toml --input photo.jpg --input logo=logo.png --output out.jpg --also soft=soft.png

edges.toml:
  [[stage]]
  kernel = \"blur\"
  input = \"input\"
  output = \"soft\"
  params = { radius = 3 }

  [[stage]]
  kernel = \"sobel\"
  input = \"soft\"
  output = \"output\"")]
pub(crate) struct RunArgs {
    /// The pipeline, as TOML
    #[arg(value_name = "PIPELINE")]
    pub(crate) file: PathBuf,
    /// The picture that the pipeline calls `input`, or several: files, folders, patterns such as '*.jpg'. NAME=FILE is one
    /// that it calls otherwise
    #[arg(long = "input", value_name = "[NAME=]PATH", num_args = 1.., value_parser = Given::parse)]
    pub(crate) inputs: Vec<Given>,
    /// Where the buffer that the pipeline calls `output` is written: a file, or a folder if there are several pictures
    #[arg(long, value_name = "PATH", required_unless_present = "also")]
    pub(crate) output: Option<PathBuf>,
    /// Where another buffer is written: a file, or a folder if there are several pictures
    #[arg(long, value_name = "NAME=PATH", value_parser = Given::parse_named)]
    pub(crate) also: Vec<Given>,
    #[command(flatten)]
    pub(crate) batch: BatchArgs,
    /// The device: auto, vulkan, gl, metal, cuda, rocm, cpu, or one that `dala info` names, such as vulkan:1. DALA_DEVICE overrides auto
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub(crate) device: String,
}

/// How pictures are read and written.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct BatchArgs {
    /// The format of the results of several pictures, and of standard output [default: as each picture]
    #[arg(long, value_enum)]
    pub(crate) format: Option<PictureFormat>,
    /// How the elements of .raw files lie, and of `-` if it is one: 1080x1920x3 is u8, 1080x1920x3:f32 floats
    #[arg(long, value_name = "HxWxC[:TYPE]")]
    pub(crate) raw: Option<RawLayout>,
    /// Whether a bar shows on stderr how far it is; auto: if that is a terminal
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    pub(crate) progress: Progress,
}

/// What pictures are written as.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum PictureFormat {
    Png,
    Jpg,
    Webp,
    Tiff,
    Bmp,
    Pnm,
    Npy,
    Raw,
}

impl PictureFormat {
    pub(crate) fn format(self) -> Format {
        match self {
            PictureFormat::Png => Format::Png,
            PictureFormat::Jpg => Format::Jpeg,
            PictureFormat::Webp => Format::WebP,
            PictureFormat::Tiff => Format::Tiff,
            PictureFormat::Bmp => Format::Bmp,
            PictureFormat::Pnm => Format::Pnm,
            PictureFormat::Npy => Format::Npy,
            PictureFormat::Raw => Format::Raw,
        }
    }

    pub(crate) fn extension(self) -> &'static str {
        self.format().extensions().first().copied().unwrap_or_default()
    }
}

/// When a bar is shown.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Progress {
    Auto,
    Always,
    Never,
}

/// A pipeline that is looked at, on a picture of which the size matters most.
#[derive(Debug, Args)]
pub(crate) struct SourceArgs {
    /// The pipeline, as TOML
    #[arg(value_name = "PIPELINE", required_unless_present = "filter")]
    pub(crate) file: Option<PathBuf>,
    /// A chain of kernels instead of a file: 'blur(radius=3) | grayscale'
    #[arg(long, value_name = "CHAIN", conflicts_with = "file")]
    pub(crate) filter: Option<String>,
    /// The picture that the pipeline calls `input`, or another by its name
    #[arg(long = "input", value_name = "[NAME=]FILE", value_parser = Given::parse)]
    pub(crate) inputs: Vec<Given>,
    /// How the elements of .raw files lie, and of `-` if it is one: 1080x1920x3 is u8, 1080x1920x3:f32 floats
    #[arg(long, value_name = "HxWxC[:TYPE]")]
    pub(crate) raw: Option<RawLayout>,
    /// The size of a picture that is made up as `input` [default: 480x640x3]
    #[arg(long, value_name = "HxWxC", value_parser = size)]
    pub(crate) size: Option<Shape>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  dala graph edges.toml --input photo.jpg -o plan.svg
  dala graph --filter 'blur(radius=3) | grayscale' --size 1080x1920x4")]
pub(crate) struct GraphArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// Where the plan is drawn, as SVG; without it the plan is explained in words
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// The device: auto, vulkan, gl, metal, cuda, rocm, cpu, or one that `dala info` names, such as vulkan:1. DALA_DEVICE overrides auto
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub(crate) device: String,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Exits with 1 if a device computes something else than plain Rust does.

Examples:
  dala verify edges.toml --input photo.jpg
  dala verify --filter 'blur(radius=3) | grayscale' --size 480x640x4 --device vulkan")]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// The device: all, auto, vulkan, gl, metal, cuda, rocm, cpu, or one that `dala info` names, such as vulkan:1. DALA_DEVICE overrides auto
    #[arg(long, value_name = "DEVICE", default_value = "all")]
    pub(crate) device: String,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  dala trace edges.toml --input photo.jpg -o trace.json
  dala trace --filter 'blur(radius=3) | grayscale' --runs 100 -o trace.json

Open the file in ui.perfetto.dev or chrome://tracing.")]
pub(crate) struct TraceArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// How often the pipeline runs
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) runs: usize,
    /// Where the trace is written, as JSON
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// The device: auto, vulkan, gl, metal, cuda, rocm, cpu, or one that `dala info` names, such as vulkan:1. DALA_DEVICE overrides auto
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub(crate) device: String,
}

/// A buffer of a pipeline and its file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Given {
    pub(crate) name: String,
    pub(crate) file: PathBuf,
}

impl Given {
    /// `FILE` or `NAME=FILE`. What is before `=` and no name belongs to the file: `./a=b.png`.
    fn parse(argument: &str) -> Result<Given, String> {
        match argument.split_once('=') {
            Some((name, file)) if is_buffer(name) && !file.is_empty() => {
                Ok(Given { name: name.to_owned(), file: file.into() })
            }
            _ if argument.is_empty() => Err("write a file, or a name, `=` and a file".to_owned()),
            _ => Ok(Given { name: INPUT.to_owned(), file: argument.into() }),
        }
    }

    /// `NAME=FILE`.
    fn parse_named(argument: &str) -> Result<Given, String> {
        match argument.split_once('=') {
            Some((name, file)) if is_buffer(name) && !file.is_empty() => {
                Ok(Given { name: name.to_owned(), file: file.into() })
            }
            _ => Err("write the name of a buffer, `=` and a file".to_owned()),
        }
    }
}

/// As pipelines name their buffers.
fn is_buffer(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "_-".contains(c))
}

/// `480x640x3`, or `480x640` for a picture without channels.
fn size(text: &str) -> Result<Shape, String> {
    let sizes: Option<Vec<usize>> = text.split('x').map(|size| size.parse().ok().filter(|size| *size > 0)).collect();
    let shape = sizes.map(Shape::from).filter(|shape| shape.image().is_some() && shape.checked_len().is_some());
    shape.ok_or_else(|| "write height, width and 1 to 4 channels, such as 480x640x3".to_owned())
}

/// A name and a number: `height=320`.
fn named_size(text: &str) -> Result<(String, usize), String> {
    let (name, size) = text.rsplit_once('=').ok_or("say NAME=N, such as height=320")?;
    Ok((name.to_owned(), positive(size)?))
}

/// `name=text`, as given to `--input` and `--param`.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) text: String,
}

impl Named {
    fn parse(argument: &str) -> Result<Named, String> {
        match argument.split_once('=') {
            Some((name, text)) if !name.is_empty() && !text.is_empty() => {
                Ok(Named { name: name.to_owned(), text: text.to_owned() })
            }
            _ => Err("write a name, `=` and a value".to_owned()),
        }
    }
}

/// A minus may start an expression; two are far more often an option that does not exist.
fn expression(text: &str) -> Result<String, String> {
    if text.starts_with("--") {
        return Err("there is no such option, and an expression cannot start with two minus signs".to_owned());
    }
    Ok(text.to_owned())
}

fn dtype_parser() -> impl TypedValueParser<Value = DType> {
    let unknown = |name: String| format!("no element type is called `{name}`");
    PossibleValuesParser::new(DType::ALL.map(DType::name))
        .try_map(move |name| DType::from_name(&name).ok_or_else(|| unknown(name)))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn eval(arguments: &[&str]) -> EvalArgs {
        match Cli::try_parse_from(["dala", "eval"].iter().chain(arguments)).unwrap().command {
            Command::Eval(args) => args,
            other => panic!("parsed as {other:?}"),
        }
    }

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn expressions_and_numbers_may_start_with_a_minus() {
        let args = eval(&["-x * 2", "--device", "cpu", "--", "-1", "-inf"]);
        assert_eq!((args.expression.as_str(), args.device.as_str()), ("-x * 2", "cpu"));
        assert_eq!(args.numbers, ["-1", "-inf"]);
        assert_eq!(eval(&["x", "-1", "2", "--json"]).numbers, ["-1", "2"]);
    }

    #[test]
    fn pictures_are_the_input_unless_they_have_a_name() {
        let given = |name: &str, file: &str| Given { name: name.to_owned(), file: file.into() };
        for (argument, expected) in [
            ("photo.jpg", given("input", "photo.jpg")),
            ("logo=a/b=c.png", given("logo", "a/b=c.png")),
            ("./a=b.png", given("input", "./a=b.png")),
            ("=b.png", given("input", "=b.png")),
            ("logo=", given("input", "logo=")),
        ] {
            assert_eq!(Given::parse(argument), Ok(expected));
        }
        assert!(Given::parse("").is_err());
        assert_eq!(Given::parse_named("soft=a.png"), Ok(given("soft", "a.png")));
        for bad in ["a.png", "soft=", "./a=b.png", ""] {
            assert!(Given::parse_named(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_are_those_of_pictures() {
        assert_eq!(size("480x640x3"), Ok(Shape::from([480, 640, 3])));
        assert_eq!(size("2x3"), Ok(Shape::from([2, 3])));
        for bad in ["", "480", "480x640x5", "0x4x3", "-1x4x3", "4x4x3x1", "axb", "9999999999x9999999999x4"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn named_values_need_both_parts() {
        let named = Named::parse("y=1,-2").unwrap();
        assert_eq!((named.name.as_str(), named.text.as_str()), ("y", "1,-2"));
        for bad in ["y", "=1", "y=", ""] {
            assert!(Named::parse(bad).is_err(), "{bad}");
        }
    }
}
