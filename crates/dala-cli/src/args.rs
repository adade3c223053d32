//! The one definition of the command line: parsing and help come from it.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use dala_compute::DType;

/// GPU compute from a shell: devices, kernels and expressions.
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
    /// The device: auto, vulkan, gl, metal, cuda, rocm or cpu. DALA_DEVICE overrides auto
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
    fn named_values_need_both_parts() {
        let named = Named::parse("y=1,-2").unwrap();
        assert_eq!((named.name.as_str(), named.text.as_str()), ("y", "1,-2"));
        for bad in ["y", "=1", "y=", ""] {
            assert!(Named::parse(bad).is_err(), "{bad}");
        }
    }
}
