//! `silicide doctor`: what this machine has, whether its kernels compute what they should, what is missing.

use crate::error::Error;
use clap::Args;
use conformance::{Effort, Target};
use indicatif::{HumanBytes, ProgressBar};
use serde::Serialize;
use silicide::{Device, Isa};
use std::time::{Duration, Instant};

/// Checks this machine: devices, instruction sets, and some cases of every op on every device, against exact results.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Cases of each op that are tried.
const CASES: usize = 2;
/// No op is begun after this long, all devices together.
const TIME: Duration = Duration::from_secs(15);

/// What was found.
#[derive(Debug, Serialize)]
struct Findings {
    instruction_sets: Vec<String>,
    devices: Vec<Checked>,
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
    ops_passed: usize,
    ops_untried: usize,
    failures: Vec<String>,
}

impl Doctor {
    pub(crate) fn run(&self) -> Result<(), Error> {
        let begin = Instant::now();
        let listing = Device::list();
        let ops = silicide::ops::all();
        let bar = ProgressBar::new((listing.devices.len() * ops.len()) as u64);
        let mut findings = Findings {
            instruction_sets: Isa::available().iter().map(ToString::to_string).collect(),
            devices: Vec::new(),
            missing: listing.missing.iter().map(ToString::to_string).collect(),
            models: silicide_llm::store::cache_dir().map(|directory| directory.display().to_string()),
            seconds: 0.0,
        };
        // The CPU first: it is quick, and always there.
        let mut devices = listing.devices;
        devices.reverse();
        for info in &devices {
            let mut checked = Checked {
                device: info.id.clone(),
                name: info.name.clone(),
                memory: info.memory.total as u64,
                ops_passed: 0,
                ops_untried: 0,
                failures: Vec::new(),
            };
            match Device::open(&info.id) {
                Ok(device) => checked.check(device, &ops, begin, &bar),
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
        match findings.devices.iter().find(|device| !device.failures.is_empty()) {
            None => Ok(()),
            Some(device) => Err(Error::Unwell { device: device.device.clone() }),
        }
    }
}

impl Checked {
    fn check(
        &mut self,
        device: Device,
        ops: &[(&'static str, Vec<silicide::ops::Case>)],
        begin: Instant,
        bar: &ProgressBar,
    ) {
        let label = self.device.clone();
        let targets = [Target { device: label.clone(), label, main: device, others: Vec::new() }];
        for (op, cases) in ops {
            bar.inc(1);
            if begin.elapsed() > TIME {
                self.ops_untried += 1;
                continue;
            }
            // The first case and one from the middle: simple and odd.
            let stride = (cases.len() / CASES).max(1);
            let some: Vec<_> = cases.iter().step_by(stride).take(CASES).cloned().collect();
            let report = conformance::run(&[(*op, some)], &targets, Effort::Quick, &|_| ());
            match report.failures.first() {
                None => self.ops_passed += 1,
                Some(failure) => self.failures.push(failure.to_string()),
            }
        }
    }
}

impl Findings {
    fn print(&self) {
        println!("instruction sets: {}", self.instruction_sets.join(", "));
        for device in &self.devices {
            let well = if device.failures.is_empty() { "well" } else { "NOT WELL" };
            let untried = match device.ops_untried {
                0 => String::new(),
                count => format!(", {count} not tried for lack of time"),
            };
            println!(
                "{}: {} ({}): {} ops right{untried}: {well}",
                device.device,
                device.name,
                HumanBytes(device.memory),
                device.ops_passed
            );
            for failure in &device.failures {
                println!("  {failure}");
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
