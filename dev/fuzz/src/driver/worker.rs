//! The child process: runs inputs one after the other and writes counts to standard output.
//!
//! A line is `outcome COUNT KIND` or `slowest MICROSECONDS NUMBER`. Counts are written every now and then, so that
//! few are lost when an input ends the process.

use super::{Gathered, Inputs, limits};
use crate::target::{Outcome, Target};
use crate::{corpus, mutate};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Inputs between two writes of the counts.
const INTERVAL: u64 = 64;

/// The arguments of a child process.
#[derive(Clone, Debug)]
pub struct Worker {
    /// The target.
    pub target: Target,
    /// Its inputs.
    pub inputs: Inputs,
    /// The number of the first input.
    pub start: u64,
    /// The number past the last input.
    pub end: u64,
    /// When to stop.
    pub time: Duration,
    /// Most address space in bytes; 0 for no limit.
    pub memory: u64,
    /// The file that the number of each input is written to before it runs.
    pub status: PathBuf,
    /// Whether to keep one input of each outcome in the corpus.
    pub gather: bool,
}

impl Worker {
    /// Runs the inputs. A crash ends the process.
    pub fn run(&self) -> io::Result<()> {
        limits::limit_memory(self.memory)?;
        let status = File::options().write(true).open(&self.status)?;
        let seeds = (self.target.seeds)();
        let (begin, mut counts, mut gathered) = (Instant::now(), BTreeMap::new(), Gathered::new());
        let mut slowest = Duration::ZERO;
        for number in self.start..self.end {
            if begin.elapsed() >= self.time {
                break;
            }
            status.write_all_at(&number.to_le_bytes(), 0)?;
            let Some(input) = self.inputs.get(&self.target, &seeds, number) else { break };
            let input = input?;
            let started = Instant::now();
            let outcome = (self.target.run)(&input);
            let took = started.elapsed();
            if took > slowest {
                slowest = took;
                println!("slowest {} {number}", took.as_micros());
            }
            let kind = match outcome {
                Outcome::Accepted => String::new(),
                Outcome::Refused(kind) => kind,
            };
            // Seeds are in the repository already.
            let mutated = mutate::plain(&seeds, number).is_none();
            if self.gather && mutated && gathered.insert(kind.clone()) {
                let name = if kind.is_empty() { "accepted" } else { &kind };
                corpus::keep(&self.target, &seeds, name, &input)?;
            }
            *counts.entry(kind).or_insert(0u64) += 1;
            if number % INTERVAL == 0 {
                write_counts(&mut counts)?;
            }
        }
        write_counts(&mut counts)
    }
}

fn write_counts(counts: &mut BTreeMap<String, u64>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for (kind, count) in std::mem::take(counts) {
        writeln!(out, "outcome {count} {kind}")?;
    }
    out.flush()
}
