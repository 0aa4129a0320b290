//! `cargo run -p conformance`: every kernel on every device against the reference. Exits with 1 when anything is
//! wrong; a device that can't be opened counts as wrong unless `--device` leaves it out.

use clap::Parser;
use conformance::{Call, Cover, Effort, Event, PRODUCTS, Target, by_risk, covering, open, run, support};
use indicatif::{ProgressBar, ProgressStyle};
use silicide_core::Isa;
use std::path::PathBuf;
use std::process::ExitCode;

/// The GPU of this system.
const GPU: &str = if cfg!(target_vendor = "apple") { "metal:0" } else { "vulkan:0" };

/// The largest case of a kernel that `--risk` keeps, in bytes and operations.
const LARGEST: u64 = 1 << 20;

/// Holds every kernel on every device against the reference of its op.
#[derive(Debug, Parser)]
struct Arguments {
    /// A device to try (may be repeated): cpu, vulkan:0, metal:0; msl for Metal's form of the kernels, run on the host;
    /// msl:wgsl for their translations alone.
    #[arg(long, default_values_t = ["cpu".to_owned(), GPU.to_owned()])]
    device: Vec<String>,
    /// Only this op (may be repeated).
    #[arg(long)]
    op: Vec<String>,
    /// On the CPU, only this instruction set: portable, neon, avx2, avx-vnni, avx512.
    #[arg(long)]
    isa: Option<Isa>,
    /// On the CPU, one thread only.
    #[arg(long)]
    single: bool,
    /// Only cases that move and compute no more than this, in bytes and floating-point operations together.
    #[arg(long, value_name = "AMOUNT")]
    work: Option<u64>,
    /// Write the support table to this file instead of trying anything.
    #[arg(long, value_name = "FILE")]
    support: Option<PathBuf>,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
    /// Try fewer memory layouts.
    #[arg(long)]
    quick: bool,
    /// Choose cases by risk: two of each program; of matrix products, each kernel with each constant, and each block format once.
    #[arg(long)]
    risk: bool,
}

fn main() -> ExitCode {
    match conform(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("conformance: {message}");
            ExitCode::FAILURE
        }
    }
}

fn conform(arguments: &Arguments) -> Result<bool, String> {
    let mut ops = silicide_ops::all();
    if let Some(path) = &arguments.support {
        let table = support::table(&ops)?;
        std::fs::write(path, table).map_err(|error| format!("{}: {error}", path.display()))?;
        return Ok(true);
    }
    if let Some(unknown) = arguments.op.iter().find(|name| !ops.iter().any(|(op, _)| op == name)) {
        let known: Vec<&str> = ops.iter().map(|(op, _)| *op).collect();
        return Err(format!("there is no op called {unknown}; known are {}", known.join(", ")));
    }
    ops.retain(|(op, _)| arguments.op.is_empty() || arguments.op.iter().any(|name| name == op));
    if let Some(most) = arguments.work {
        for (_, cases) in &mut ops {
            cases.retain(|case| Call::of(case).map_or(true, |call| call.amount() <= most));
        }
    }
    let (mut targets, missing) = open(&arguments.device, arguments.isa);
    if arguments.single {
        targets = targets.into_iter().map(Target::single).collect();
    }
    if arguments.risk && targets.len() > 1 {
        return Err("--risk chooses cases for one device; give one --device".to_owned());
    }
    if let Some(target) = targets.first().filter(|_| arguments.risk) {
        for (op, cases) in &mut ops {
            let (all, on) = (std::mem::take(cases), target.main.info());
            let is_product = PRODUCTS.contains(op);
            *cases =
                if is_product { covering(all, on, LARGEST, Cover::Parts) } else { by_risk(all, on, LARGEST) };
        }
    }
    let effort = if arguments.quick { Effort::Quick } else { Effort::Full };
    // Hidden where standard error is not a terminal.
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{msg:16} {wide_bar} {pos}/{len} {elapsed}") {
        bar.set_style(style);
    }
    let mut report = run(&ops, &targets, effort, &|event| match event {
        Event::Op(op, cases) => {
            bar.set_message(op);
            bar.set_length(cases as u64);
            bar.set_position(0);
        }
        Event::Case => bar.inc(1),
    });
    bar.finish_and_clear();
    report.failures.extend(missing);
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&report).map_err(|error| error.to_string())?);
    } else {
        println!("{report}");
    }
    Ok(report.passed())
}
