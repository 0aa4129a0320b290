//! The `silicide` program.
//!
//! | command | file |
//! |---|---|
//! | `run` | `run/`, `chat/` |
//! | `bench` | `bench.rs` |
//! | `perplexity` | `perplexity.rs` |
//! | `logits` | `logits.rs` |
//! | `doctor` | `doctor.rs` |
//! | `graph` | `graph.rs` |
//! | `inspect` | `inspect/` |
//! | `convert` | `convert/` |
//! | `pull`, `list`, `rm` | `store.rs` |
//! | `devices` | `devices.rs` |
//! | `tokenize` | `tokenize.rs` |
//!
//! `arguments.rs` has the arguments that several commands share, `common.rs` progress bars and signals, `error.rs` the exit codes,
//! `terminal.rs` the escaping of untrusted text, `display/` how generated text looks on a terminal.
#![forbid(unsafe_code)]

mod arguments;
mod bench;
mod chat;
mod common;
mod convert;
mod devices;
mod display;
mod doctor;
mod error;
mod graph;
mod inspect;
mod logits;
mod perplexity;
mod profile;
mod run;
mod store;
mod terminal;
mod tokenize;

use clap::{CommandFactory, Parser, Subcommand};
use error::{Error, Exit};
use std::process::ExitCode;

/// Language models on this machine.
#[derive(Debug, Parser)]
#[command(name = "silicide", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs a model: streams an answer, then prints figures.
    Run(run::Run),
    /// Measures tokens per second.
    Bench(bench::Bench),
    /// Computes the perplexity of a text.
    Perplexity(perplexity::Perplexity),
    /// Writes the logits of some tokens.
    Logits(logits::Logits),
    /// Checks this machine: devices, instruction sets, whether kernels compute what they should.
    Doctor(doctor::Doctor),
    /// Shows the captured pass of a model: a layer, commands, barriers, memory.
    Graph(graph::Graph),
    /// Shows what is in a weight file: metadata, architecture, tensors, sizes.
    Inspect(inspect::Inspect),
    /// Converts a model into a GGUF file, in the format that you choose.
    Convert(convert::Convert),
    /// Fetches a model by name.
    Pull(store::Pull),
    /// Lists the models that were fetched.
    List(store::List),
    /// Deletes models that were fetched.
    Rm(store::Remove),
    /// Lists the devices that models can run on.
    Devices(devices::Devices),
    /// Shows the tokens of a text.
    Tokenize(tokenize::Tokenize),
}

fn main() -> ExitCode {
    silicide_llm::chat::silence_template_panics();
    let arguments =
        match Arguments::try_parse_from(arguments::spell_out(&Arguments::command(), std::env::args_os())) {
            Ok(arguments) => arguments,
            Err(error) => {
                // Help and version are asked for; everything else is a mistake. Nobody is left to tell if printing fails.
                let _ = error.print();
                return if error.use_stderr() { Exit::Usage.into() } else { ExitCode::SUCCESS };
            }
        };
    let outcome = match arguments.command {
        Command::Run(run) => run.run(),
        Command::Bench(bench) => bench.run(),
        Command::Perplexity(perplexity) => perplexity.run(),
        Command::Logits(logits) => logits.run(),
        Command::Doctor(doctor) => doctor.run(),
        Command::Graph(graph) => graph.run(),
        Command::Inspect(inspect) => inspect.run(),
        Command::Convert(convert) => convert.run(),
        Command::Pull(pull) => pull.run(),
        Command::List(list) => list.run(),
        Command::Rm(remove) => remove.run(),
        Command::Devices(devices) => devices.run(),
        Command::Tokenize(tokenize) => tokenize.run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read our output has seen enough.
        Err(Error::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        // What there was to say is said.
        Err(Error::Interrupted) => common::interrupted(),
        Err(error) => {
            eprintln!("error: {}", terminal::for_stderr(&error.to_string()));
            if error.exit() == Exit::Interrupted { common::interrupted() } else { error.exit().into() }
        }
    }
}
