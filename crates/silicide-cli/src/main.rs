//! The `silicide` program.
//!
//! | command | file |
//! |---|---|
//! | `inspect` | `inspect/` |
//! | `convert` | `convert/` |
//!
//! Exit codes: 0 done, 1 wrong usage, 2 a file that can't be read or is not what it should be.
#![forbid(unsafe_code)]

mod convert;
mod error;
mod inspect;

use clap::{Parser, Subcommand};
use error::Error;
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
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are asked for; everything else is a mistake. Nobody is left to tell if printing fails.
            let _ = error.print();
            return ExitCode::from(u8::from(error.use_stderr()));
        }
    };
    let outcome = match arguments.command {
        Command::Inspect(inspect) => inspect.run(),
        Command::Convert(convert) => convert.run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read our output has seen enough.
        Err(Error::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            error.exit_code()
        }
    }
}
