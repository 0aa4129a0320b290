//! `silicide doctor`: the devices of this machine, tests of their kernels, missing parts.

use crate::arguments::isa;
use crate::common::count_bar;
use crate::devices::best;
use crate::error::Error;
use crate::terminal::printable;
use clap::Args;
use indicatif::{HumanBytes, ProgressBar};
use serde::Serialize;
use silicide::Device;
use silicide::device::DeviceOptions;
use silicide::hal::{DeviceInfo, cpu::Isa};
use silicide_conformance::{Effort, Problem, Target};
use silicide_llm::store::{Pip, Store, StoredModel, Verified};
use silicide_weights::Source;
use std::time::{Duration, Instant};

/// Check this machine: devices, instruction sets, kernels, stored models
///
/// Lists devices and instruction sets. Compares every op on every device with an f64 reference, with as many cases as the time
/// allows. Checks the stored models. Names missing parts and how to install them.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  silicide doctor
  silicide doctor --isa portable         # checks the CPU kernels of one instruction set")]
pub(crate) struct Doctor {
    /// Instruction set of the CPU device: portable, neon, avx2, avx-vnni or avx512 [default: the best of this CPU]
    #[arg(long, value_name = "ISA", value_parser = isa, help_heading = "Device")]
    #[arg(env = "SILICIDE_ISA", hide_env_values = true)]
    isa: Option<Isa>,
    /// Seconds for the kernels, all devices together
    #[arg(long, default_value_t = 15, value_name = "N", help_heading = "Device")]
    seconds: u32,
    /// The same as --seconds 3
    #[arg(long, conflicts_with = "seconds", help_heading = "Device")]
    quick: bool,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// Rounds. Each op runs one more case per round: first every op once, then other formats and shapes.
const ROUNDS: usize = 64;

/// A prime stride through the list of cases: each case comes once, and successive cases are far apart.
const GOLDEN: usize = 7919;

/// The results of all checks.
#[derive(Debug, Serialize)]
struct Findings {
    instruction_sets: Vec<String>,
    /// The device that `--device best` opens.
    best: String,
    devices: Vec<Checked>,
    /// Models that were downloaded.
    stored: Vec<Stored>,
    missing: Vec<String>,
    models: Option<String>,
    seconds: f64,
}

/// A device after its check.
#[derive(Debug, Serialize)]
struct Checked {
    device: String,
    name: String,
    memory: u64,
    ops_tried: usize,
    ops_untried: usize,
    cases_passed: usize,
    failures: Vec<String>,
}

/// A stored model after its check.
#[derive(Debug, Serialize)]
struct Stored {
    name: String,
    bytes: u64,
    /// The problem, if there is one.
    problem: Option<String>,
}

impl Doctor {
    pub(crate) fn run(&self) -> Result<(), Error> {
        let begin = Instant::now();
        let listing = Device::list();
        let ops = silicide::ops::all();
        let bar = count_bar("checking", (listing.devices.len() * ROUNDS) as u64, "rounds");
        let mut findings = Findings {
            instruction_sets: Isa::available().iter().map(ToString::to_string).collect(),
            best: best(&listing.devices).to_owned(),
            devices: Vec::new(),
            stored: stored()?,
            missing: listing.missing.iter().map(ToString::to_string).collect(),
            models: silicide_llm::store::cache_dir().map(|directory| directory.display().to_string()),
            seconds: 0.0,
        };
        if let Err(error) = Pip::find() {
            findings.missing.push(format!("{error} (only for fetching models by name)"));
        }
        // The CPU first: it is fast, and every machine has it.
        let mut devices = listing.devices;
        devices.sort_by_key(DeviceInfo::is_gpu);
        let seconds = if self.quick { 3 } else { self.seconds };
        let share = Duration::from_secs(seconds.into()) / devices.len().max(1) as u32;
        for info in &devices {
            let mut checked = Checked {
                device: info.id.clone(),
                name: info.name.clone(),
                memory: info.memory.total as u64,
                ops_tried: 0,
                ops_untried: 0,
                cases_passed: 0,
                failures: Vec::new(),
            };
            let mut options = DeviceOptions::default();
            options.isa = self.isa.filter(|_| !info.is_gpu());
            match Device::open_with(&info.id, &options) {
                Ok(device) => checked.check(device, &ops, Instant::now() + share, &bar),
                Err(error) => checked.failures.push(error.to_string()),
            }
            findings.devices.push(checked);
        }
        bar.finish_and_clear();
        findings.seconds = begin.elapsed().as_secs_f64();
        if self.json {
            println!("{}", serde_json::to_string_pretty(&findings)?);
        } else {
            findings.print();
        }
        if let Some(device) = findings.devices.iter().find(|device| !device.failures.is_empty()) {
            return Err(Error::Unwell { device: device.device.clone() });
        }
        match findings.stored.iter().find(|model| model.problem.is_some()) {
            None => Ok(()),
            Some(model) => Err(Error::DamagedModel { name: model.name.clone() }),
        }
    }
}

/// Checks the models that were downloaded: by their hash where it is known, and whether the file can be read.
fn stored() -> Result<Vec<Stored>, Error> {
    // A user without a home folder has no store.
    let Ok(store) = Store::open() else { return Ok(Vec::new()) };
    let models = store.list()?;
    let hashes = crate::store::verify(&store, &models)?;
    let check = |(model, hash): (StoredModel, Verified)| {
        let problem = match hash {
            Verified::Damaged { expected, got } => Some(format!("the hash is {got}, not {expected}")),
            _ => Source::open(&model.path).err().map(|error| error.to_string()),
        };
        Stored { name: model.name, bytes: model.bytes, problem }
    };
    Ok(models.into_iter().zip(hashes).map(check).collect())
}

impl Checked {
    fn check(
        &mut self,
        device: Device,
        ops: &[(&'static str, Vec<silicide::ops::Case>)],
        end: Instant,
        bar: &ProgressBar,
    ) {
        let targets = [Target::of(&self.device, device)];
        let mut tried = vec![false; ops.len()];
        for round in 0..ROUNDS {
            bar.inc(1);
            for (tried, (op, cases)) in tried.iter_mut().zip(ops) {
                // Cases of a kind stand together, so each round takes one far from those before.
                let Some(case) =
                    cases.get(round * GOLDEN % cases.len().max(1)).filter(|_| round < cases.len())
                else {
                    continue;
                };
                if Instant::now() > end {
                    continue;
                }
                let report =
                    silicide_conformance::run(&[(*op, vec![case.clone()])], &targets, Effort::Quick, &|_| ());
                match report.failures.first() {
                    // Not every device takes every format.
                    Some(failure) if matches!(failure.problem, Problem::NothingRuns) => continue,
                    None => self.cases_passed += 1,
                    Some(failure) => self.failures.push(failure.to_string()),
                }
                *tried = true;
            }
        }
        self.ops_tried = tried.iter().filter(|tried| **tried).count();
        self.ops_untried = ops.len() - self.ops_tried;
    }
}

impl Findings {
    fn print(&self) {
        println!("instruction sets: {}", self.instruction_sets.join(", "));
        println!("--device best takes {}", self.best);
        for device in &self.devices {
            let verdict = match (device.failures.is_empty(), device.ops_untried) {
                (false, _) => "FAILED",
                (true, 0) => "ok",
                (true, _) => "ok as far as checked",
            };
            let untried = match device.ops_untried {
                0 => String::new(),
                count => format!(", {count} ops not tried for lack of time"),
            };
            println!(
                "{}: {} ({}): {} cases of {} ops passed{untried}: {verdict}",
                device.device,
                device.name,
                HumanBytes(device.memory),
                device.cases_passed,
                device.ops_tried
            );
            for failure in &device.failures {
                println!("  {failure}");
            }
        }
        for Stored { name, bytes, problem } in &self.stored {
            match problem {
                None => println!("model {name} ({}): ok", HumanBytes(*bytes)),
                Some(problem) => println!("model {name}: DAMAGED: {}", printable(problem)),
            }
        }
        for missing in &self.missing {
            println!("missing: {missing}");
        }
        if let Some(directory) = &self.models {
            println!("models and compiled kernels are kept in {directory}");
        }
        println!("checked in {:.1} s", self.seconds);
    }
}
