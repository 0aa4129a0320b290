//! The `silicide` program.
//!
//! | command | file |
//! |---|---|
//! | `inspect` | `inspect/` |
//! | `convert` | `convert/` |
//! | `pull`, `list`, `rm` | `store.rs` |
//! | `devices` | `devices.rs` |
//!
//! `common.rs` has the arguments that several commands share, `error.rs` the exit codes.
#![forbid(unsafe_code)]

mod common;
mod convert;
mod devices;
mod error;
mod inspect;
mod store;

use clap::{Parser, Subcommand};
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
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are asked for; everything else is a mistake. Nobody is left to tell if printing fails.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage.into() } else { ExitCode::SUCCESS };
        }
    };
    let outcome = match arguments.command {
        Command::Inspect(inspect) => inspect.run(),
        Command::Convert(convert) => convert.run(),
        Command::Pull(pull) => pull.run(),
        Command::List(list) => list.run(),
        Command::Rm(remove) => remove.run(),
        Command::Devices(devices) => devices.run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read our output has seen enough.
        Err(Error::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            error.exit().into()
        }
    }
}
