//! `cargo xtask`: checks of the repository that are no tests of a crate.
//!
//! | command | what |
//! |---|---|
//! | `shaders` | every GPU kernel, in every variant that a case needs, to SPIR-V and MSL; `--print NAME` shows its text |
//! | `msl` | the same kernels in Metal's language, by clang |
//! | `lines` | no source file is too long |
//! | `deps` | licences, sources and duplicate versions of dependencies, by `deny.toml` |
//! | `package` | metadata of the published crates, and the Rust version in all places |
//! | `probes` | no function of a program has a frame whose stack probe can destroy a register; lane operations are inlined |
//! | `isa` | every kernel by Mesa's compiler for Radeons: spills, and growth over a baseline |
//! | `isas` | the instruction sets that tests ran with, and those that they did not |
#![forbid(unsafe_code)]

mod deps;
mod isas;
mod lines;
mod metadata;
mod msl;
mod package;
mod print;
mod probes;
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
        /// Only list the names of kernels; with --print, the variants of that kernel.
        #[arg(long)]
        list: bool,
        /// Only print the WGSL of this kernel as it is compiled.
        #[arg(long, value_name = "NAME")]
        print: Option<String>,
        /// With --print: the first variant whose description contains all these words, such as "full: q4_k".
        #[arg(long, value_name = "WORDS", default_value = "", requires = "print")]
        variant: String,
        /// With --print: the translation to SPIR-V, disassembled. Needs spirv-dis.
        #[arg(long, requires = "print", conflicts_with = "msl")]
        spirv: bool,
        /// With --print: the translation to MSL.
        #[arg(long, requires = "print")]
        msl: bool,
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
    /// Fails on functions of x86-64 programs whose stack-probe loop can destroy a register. Needs objdump.
    Probes {
        /// Programs to disassemble.
        #[arg(required = true, value_name = "PROGRAM")]
        programs: Vec<PathBuf>,
    },
    /// Compiles every kernel by Mesa for Radeons that are not there; fails on new spills and on growth over the baseline.
    Isa {
        /// Write the baseline of this version of Mesa, and docs/gpu-kernels.md.
        #[arg(long, conflicts_with = "only")]
        write: bool,
        /// Only print the figures of kernels whose name contains this, such as "linear/1/q4_k".
        #[arg(long, value_name = "NAME")]
        only: Option<String>,
        /// Write the assembly of each kernel to this directory.
        #[arg(long, value_name = "DIRECTORY")]
        listings: Option<PathBuf>,
        /// The RADV to compile with, as the JSON file that describes it to Vulkan's loader, instead of the system's. LD_LIBRARY_PATH
        /// names the libraries that it comes with.
        #[arg(long, value_name = "FILE")]
        driver: Option<PathBuf>,
        /// Only this family, as RADV_FORCE_FAMILY already says. For the processes that the command starts.
        #[arg(long, hide = true)]
        family: Option<String>,
        /// Only open the device of that family.
        #[arg(long, hide = true, requires = "family")]
        probe: bool,
    },
    /// Prints the instruction sets that tests ran with.
    Isas {
        /// The file that SILICIDE_ISA_LOG named.
        log: PathBuf,
    },
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Shaders { list: true, print: None, .. } => print::names().map(|text| print!("{text}")),
        Command::Shaders { list: true, print: Some(name), .. } => {
            print::variants(&name).map(|text| print!("{text}"))
        }
        Command::Shaders { print: Some(name), variant, spirv, msl, .. } => {
            let form = match (spirv, msl) {
                (true, _) => print::Form::Spirv,
                (_, true) => print::Form::Msl,
                _ => print::Form::Wgsl,
            };
            print::text(&name, &variant, form).map(|text| print!("{text}"))
        }
        Command::Shaders { stat, .. } => shaders::check(stat),
        Command::Msl { write } => msl::check(write.as_deref()),
        Command::Lines => lines::check(),
        Command::Deps => deps::check(),
        Command::Package => package::check(),
        Command::Probes { programs } => probes::check(&programs),
        Command::Isa { write, only, listings, driver, family, probe } => {
            let options = isa::Options { write, listings, only, driver, probe };
            match family {
                Some(family) => isa::run_family(&family, &options),
                None => isa::run(&metadata::root(), &options),
            }
        }
        Command::Isas { log } => isas::table(&log),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
