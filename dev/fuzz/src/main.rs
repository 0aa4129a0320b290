//! `scripts/run fuzz`: runs fuzz targets over mutated inputs. Exits with 1 when an input crashes.
#![forbid(unsafe_code)]

use clap::{Args, Parser, Subcommand};
use fuzz::driver::{Inputs, Run, Worker, minimize, table};
use fuzz::target::Target;
use fuzz::targets::{TARGETS, find, restrict};
use fuzz::{corpus, mutate};
use silicide_core::Isa;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Runs fuzz targets over mutated inputs, each target in processes of its own with limits of memory and time.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    limits: Limits,
    /// Most inputs of each target.
    #[arg(long, default_value_t = 20_000)]
    inputs: u64,
    /// Random seed; runs with the same seed have the same inputs.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Add one input of each outcome to testdata/corpus.
    #[arg(long)]
    gather: bool,
}

#[derive(Args, Debug)]
struct Limits {
    /// Only this target (may be repeated).
    #[arg(long, global = true, value_parser = parse_target)]
    target: Vec<Target>,
    /// Most seconds of each target.
    #[arg(long, global = true, default_value_t = 30)]
    seconds: u64,
    /// Most seconds of processor time of one input; a longer one is a hang.
    #[arg(long, global = true, default_value_t = 10)]
    timeout: u64,
    /// Most address space of a process in MiB; 0 for no limit.
    #[arg(long, global = true, default_value_t = 4096)]
    memory_mib: u64,
    /// Targets that run at the same time; by default one per core.
    #[arg(long, global = true)]
    jobs: Option<usize>,
    /// Only this instruction set (may be repeated): portable, avx2, avx-vnni, avx512, neon.
    #[arg(long, global = true, value_parser = parse_isa)]
    isa: Vec<Isa>,
    /// The folder for inputs that crash.
    #[arg(long, global = true, default_value = "target/fuzz")]
    crashes: PathBuf,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the kept corpus in testdata/corpus.
    Replay,
    /// Runs one file in this process, to debug it.
    One {
        /// The target.
        #[arg(value_parser = parse_target)]
        name: Target,
        /// The input, or a patch of the corpus.
        file: PathBuf,
    },
    /// Makes a crashing input smaller and adds it to testdata/corpus.
    Keep {
        /// The target.
        #[arg(value_parser = parse_target)]
        name: Target,
        /// The input.
        file: PathBuf,
    },
    /// Writes mutated input NUMBER to a file.
    Show {
        /// The target.
        #[arg(value_parser = parse_target)]
        name: Target,
        /// Its number in a run with this seed.
        number: u64,
        /// The file to write.
        file: PathBuf,
    },
    /// Writes the seeds and the corpus of a target to a folder, as a fuzzer reads them.
    Seeds {
        /// The target.
        #[arg(value_parser = parse_target)]
        name: Target,
        /// The folder.
        folder: PathBuf,
    },
    /// Lists the targets.
    Targets,
    /// Runs inputs for a parent process.
    #[command(hide = true)]
    Worker(WorkerArguments),
}

#[derive(Args, Debug)]
struct WorkerArguments {
    #[arg(value_parser = parse_target)]
    name: Target,
    #[arg(long)]
    start: u64,
    #[arg(long)]
    end: u64,
    #[arg(long)]
    milliseconds: u64,
    #[arg(long)]
    memory: u64,
    #[arg(long)]
    status: PathBuf,
    #[arg(long = "seed", default_value_t = 1)]
    random_seed: u64,
    #[arg(long)]
    corpus: bool,
    #[arg(long = "gather")]
    gathers: bool,
}

fn parse_target(name: &str) -> Result<Target, String> {
    let known = || TARGETS.iter().map(|target| target.name).collect::<Vec<_>>().join(", ");
    find(name).ok_or_else(|| format!("known are {}", known()))
}

fn parse_isa(name: &str) -> Result<Isa, String> {
    let available = Isa::available();
    let known = || available.iter().map(|isa| isa.name()).collect::<Vec<_>>().join(", ");
    available
        .iter()
        .copied()
        .find(|isa| isa.name() == name)
        .ok_or_else(|| format!("this machine has {}", known()))
}

fn main() -> ExitCode {
    match act(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("fuzz: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns whether nothing crashed.
fn act(arguments: &Arguments) -> io::Result<bool> {
    let limits = &arguments.limits;
    restrict(&limits.isa);
    match &arguments.command {
        None => run(arguments, Inputs::Mutated { seed: arguments.seed }, arguments.inputs),
        Some(Command::Replay) => run(arguments, Inputs::Corpus, u64::MAX),
        Some(Command::One { name, file }) => {
            let input = corpus::read(file, &(name.seeds)())?;
            println!("{:?}", (name.run)(&input));
            Ok(true)
        }
        Some(Command::Keep { name, file }) => {
            let seeds = (name.seeds)();
            let input = corpus::read(file, &seeds)?;
            let (timeout, time) = (Duration::from_secs(limits.timeout), Duration::from_secs(limits.seconds));
            let smaller = minimize(name, &input, timeout, time)?;
            let path = corpus::keep(name, &seeds, "crash", &smaller)?;
            println!("{} bytes of {} kept as {}", smaller.len(), input.len(), path.display());
            Ok(true)
        }
        Some(Command::Show { name, number, file }) => {
            std::fs::write(file, mutate::input(name, &(name.seeds)(), arguments.seed, *number))?;
            Ok(true)
        }
        Some(Command::Seeds { name, folder }) => corpus::export(name, folder).map(|()| true),
        Some(Command::Targets) => {
            TARGETS.iter().for_each(|target| println!("{}", target.name));
            Ok(true)
        }
        Some(Command::Worker(worker)) => work(worker).map(|()| true),
    }
}

fn run(arguments: &Arguments, inputs: Inputs, most: u64) -> io::Result<bool> {
    let limits = &arguments.limits;
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let run = Run {
        targets: if limits.target.is_empty() { TARGETS.to_vec() } else { limits.target.clone() },
        inputs,
        most,
        time: Duration::from_secs(limits.seconds),
        timeout: Duration::from_secs(limits.timeout),
        memory: limits.memory_mib << 20,
        jobs: limits.jobs.unwrap_or_else(cores),
        crashes: limits.crashes.clone(),
        gather: arguments.gather,
        isas: limits.isa.clone(),
    };
    let reports = run.run()?;
    println!("{}", table(&reports));
    let crashes: u64 = reports.iter().map(|report| report.crashes()).sum();
    if crashes > 0 {
        eprintln!("{crashes} crashes; their inputs are in {}", run.crashes.display());
        eprintln!("debug one with: scripts/run fuzz one TARGET FILE");
        eprintln!("keep it, made smaller, with: scripts/run fuzz keep TARGET FILE");
    }
    Ok(crashes == 0)
}

fn work(arguments: &WorkerArguments) -> io::Result<()> {
    let inputs = match arguments.corpus {
        true => Inputs::Corpus,
        false => Inputs::Mutated { seed: arguments.random_seed },
    };
    let worker = Worker {
        target: arguments.name,
        inputs,
        start: arguments.start,
        end: arguments.end,
        time: Duration::from_millis(arguments.milliseconds),
        memory: arguments.memory,
        status: arguments.status.clone(),
        gather: arguments.gathers,
    };
    worker.run()
}
