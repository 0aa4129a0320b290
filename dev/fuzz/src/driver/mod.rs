//! The mutation fuzzer: every target in child processes of its own, several at a time.
//!
//! | file | what |
//! |---|---|
//! | `mod.rs` | [`Run`]: the targets, the limits, and the parent's loop |
//! | `child.rs` | starting, watching and ending one child |
//! | `worker.rs` | the child: runs inputs and reports counts |
//! | `report.rs` | counts and the table |
//! | `limits.rs` | the memory limit of a process |
//! | `minimize.rs` | makes a crashing input smaller |
//!
//! Inputs follow from the seed and their number alone, so the parent can make the input again that ended a child. The
//! child writes the number of an input to its status file before it runs it. After a crash the parent saves the input
//! and starts another child behind it.

mod child;
mod limits;
mod minimize;
mod report;
mod worker;

pub use minimize::minimize;
pub use report::{Report, table};
pub use worker::Worker;

use crate::target::{Seed, Target};
use crate::{corpus, mutate};
use child::{Child, End};
use silicide_core::Isa;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

/// Crashes of one target after which its run ends.
const ENOUGH_CRASHES: u64 = 20;

/// Where the inputs of a run come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inputs {
    /// Mutations of the target's seeds.
    Mutated {
        /// The random seed of the run.
        seed: u64,
    },
    /// The kept corpus.
    Corpus,
}

impl Inputs {
    /// Returns input `number` of a target; `None` past the last.
    fn get(self, target: &Target, seeds: &[Seed], number: u64) -> Option<io::Result<Vec<u8>>> {
        match self {
            Inputs::Mutated { seed } => Some(Ok(mutate::input(target, seeds, seed, number))),
            Inputs::Corpus => {
                let number = usize::try_from(number).ok()?;
                corpus::files(target).get(number).map(|path| corpus::read(path, seeds))
            }
        }
    }
}

/// What to run, and its limits.
#[derive(Clone, Debug)]
pub struct Run {
    /// The targets.
    pub targets: Vec<Target>,
    /// Their inputs.
    pub inputs: Inputs,
    /// Most inputs of each target.
    pub most: u64,
    /// Most time of each target.
    pub time: Duration,
    /// Most time of one input. A child that takes longer hangs.
    pub timeout: Duration,
    /// Most address space of a child in bytes; 0 for no limit.
    pub memory: u64,
    /// Targets that run at the same time.
    pub jobs: usize,
    /// The folder for inputs that crashed.
    pub crashes: PathBuf,
    /// Whether to keep one input of each outcome in the corpus.
    pub gather: bool,
    /// The instruction sets; all where empty.
    pub isas: Vec<Isa>,
}

impl Run {
    /// Runs all targets and returns their reports, in order.
    pub fn run(&self) -> io::Result<Vec<Report>> {
        fs::create_dir_all(&self.crashes)?;
        let (next, reports) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        thread::scope(|scope| {
            for _ in 0..self.jobs.max(1) {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let Some(target) = self.targets.get(number) else { break };
                        let report = self.run_target(target);
                        reports.lock().unwrap_or_else(|error| error.into_inner()).push((number, report));
                    }
                });
            }
        });
        let mut reports = reports.into_inner().unwrap_or_else(|error| error.into_inner());
        reports.sort_by_key(|(number, _)| *number);
        reports.into_iter().map(|(_, report)| report).collect()
    }

    /// Runs one target in as many children as it takes.
    fn run_target(&self, target: &Target) -> io::Result<Report> {
        let begin = Instant::now();
        let mut report = Report::new(target.name);
        let mut start = 0;
        loop {
            let left = self.time.saturating_sub(begin.elapsed());
            let child = Child::start(self, target, start, left)?;
            let end = child.watch(self.timeout, &mut report)?;
            let (number, how) = match end {
                End::Done => break,
                End::Crashed { number, how } => (number, how),
            };
            report.crashed(&how);
            self.save(target, number, &how)?;
            start = number + 1;
            if report.crashes() >= ENOUGH_CRASHES || left.is_zero() {
                break;
            }
        }
        report.time = begin.elapsed();
        Ok(report)
    }

    /// Saves the input that ended a child, with what is known about its end.
    fn save(&self, target: &Target, number: u64, how: &str) -> io::Result<()> {
        let seeds = (target.seeds)();
        let Some(input) = self.inputs.get(target, &seeds, number) else { return Ok(()) };
        let path = self.crashes.join(format!("{}-{number}.bin", target.name));
        fs::write(&path, input?)?;
        eprintln!("{}: input {number} {how}; saved as {}", target.name, path.display());
        Ok(())
    }
}

/// Outcomes of which an input was kept already.
type Gathered = BTreeSet<String>;
