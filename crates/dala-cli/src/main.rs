//! The `dala` command: devices, kernels, expressions, pipelines and models from a shell.
//!
//! Exit codes: 0 success, 1 a negative answer such as a kernel that does not exist, 2 failure.

mod args;
mod batch;
mod bench;
mod built;
mod cache;
mod classify;
mod commands;
mod describe_type;
mod detect;
mod device;
mod eval;
mod filter;
mod found;
mod graph;
mod info;
mod kernels;
mod listen;
mod model;
mod model_run;
mod numbers;
mod onnx;
mod output;
mod parsers;
mod picture;
mod read;
mod run;
mod self_test;
mod serve;
mod serve_args;
mod source;
mod tensor_file;
mod terminal;
mod timeline;
mod trace;
mod upscale;
mod verify;
mod warm;
mod watch;

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command, ModelCommand};
use output::Outcome;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut out = BufWriter::new(io::stdout().lock());
    output::exit_code(run(&cli.command, &mut out))
}

fn run(command: &Command, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let outcome = match command {
        Command::Info(args) => info::run(args, out),
        Command::Kernels(args) => kernels::run(args, out),
        Command::Eval(args) => eval::run(args, out),
        Command::Filter(args) => filter::run(args, out),
        Command::Run(args) => run::run(args, out),
        Command::Graph(args) => graph::run(args, out),
        Command::Verify(args) => verify::run(args, out),
        Command::Trace(args) => trace::run(args, out),
        Command::Classify(args) => classify::run(args, out),
        Command::Serve(args) => serve::run(args, out),
        Command::Detect(args) => detect::run(args, out),
        Command::Read(args) => read::run(args, out),
        Command::Upscale(args) => upscale::run(args, out),
        Command::Listen(args) => listen::run(args, out),
        Command::DescribeType(args) => describe_type::run(args, out),
        Command::Model { command: ModelCommand::Info(args) } => model::info(args, out),
        Command::Model { command: ModelCommand::Run(args) } => model_run::run(args, out),
        Command::Bench(args) => bench::run(args, out),
        Command::SelfTest(args) => self_test::run(args, out),
        Command::Warm(args) => warm::run(args, out),
        Command::Cache(args) => cache::run(args, out),
        Command::Completions { shell } => commands::completions(*shell, out),
        Command::Man { folder } => commands::man(folder.as_deref(), out),
    }?;
    // Here and not on drop, where an error would go unseen.
    out.flush()?;
    Ok(outcome)
}
