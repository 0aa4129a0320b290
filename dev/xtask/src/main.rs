//! `cargo xtask`: checks of the repository that are no tests of a crate.
//!
//! | command | what |
//! |---|---|
//! | `shaders` | every GPU kernel, in every variant that a case asks for, to SPIR-V and MSL |
//! | `msl` | the same kernels in Metal's language, by clang |
//! | `lines` | no source file is too long |
//! | `deps` | licences, sources and duplicate versions of dependencies, by `deny.toml` |
//! | `package` | metadata of the published crates, and the Rust version in all places |
#![forbid(unsafe_code)]

mod deps;
mod lines;
mod metadata;
mod msl;
mod package;
mod shaders;

use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// Checks of the repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Translates every GPU kernel to SPIR-V and MSL, validates, and reports sizes.
    Shaders {
        /// A row for each variant instead of one for each kernel.
        #[arg(long)]
        stat: bool,
    },
    /// Checks every GPU kernel in Metal's language with clang.
    Msl {
        /// Write the text of each kernel to this directory too.
        #[arg(long, value_name = "DIRECTORY")]
        write: Option<PathBuf>,
    },
    /// Fails on source files over 600 lines, and lists those over 400.
    Lines,
    /// Checks licences, sources and duplicate versions of dependencies by the lists of deny.toml.
    Deps,
    /// Checks the metadata of the published crates, and that all places name the same Rust version.
    Package,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Shaders { stat } => shaders::check(stat),
        Command::Msl { write } => msl::check(write.as_deref()),
        Command::Lines => lines::check(),
        Command::Deps => deps::check(),
        Command::Package => package::check(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
