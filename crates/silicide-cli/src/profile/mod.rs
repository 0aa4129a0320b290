//! `--profile`, `--trace` and `--report`: where the time of a run went, as a table, a trace for viewers, and a page (`page.rs`).

mod page;

use crate::error::Error;
use crate::facts::{ModelFacts, build};
use crate::output::warning;
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use silicide::Device;
use silicide::kernel::RegistryUsage;
use silicide::profile::{Profile, ProfileRow, Roofline};
use silicide_llm::engine::{Session, roofline};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Rows of the table and of the picture.
const ROWS: usize = 24;

/// The share of a kernel that exceeds the limit.
const ABOVE: &str = ">100%";
const WHY_ABOVE: &str = "faster than the limit measured here. Data that stays in a cache is not read from memory, and other \
                         programs that ran during the measurement lower the limit.";

/// Whether and how to tell where the time goes.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Profiling")]
pub(crate) struct ProfileArgs {
    /// Time every kernel, and print a table; kernels then run one by one, so tokens come slower
    #[arg(long)]
    profile: bool,
    /// Write a trace for Perfetto or chrome://tracing: host, kernels, and each thread of the CPU
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Write an HTML page with a timeline of the last token
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

impl ProfileArgs {
    /// Returns whether anything is measured. Some devices measure only if they are opened for it.
    pub(crate) fn is_wanted(&self) -> bool {
        self.profile || self.trace.is_some() || self.report.is_some()
    }

    /// Finds out before the work whether the files can be written.
    pub(crate) fn check(&self) -> Result<(), Error> {
        for path in [&self.trace, &self.report].into_iter().flatten() {
            let is_new = !path.exists();
            let opened = std::fs::OpenOptions::new().append(true).create(true).open(path);
            opened.map_err(|error| Error::output(path, error))?;
            if is_new {
                std::fs::remove_file(path).map_err(|error| Error::output(path, error))?;
            }
        }
        Ok(())
    }

    /// Begins profiling, if that is wanted.
    pub(crate) fn begin(&self, session: &mut Session) {
        if self.is_wanted() {
            session.start_profile();
        }
    }

    /// Prints and writes the requested outputs.
    pub(crate) fn finish(&self, session: &Session) -> Result<(), Error> {
        let Some(profile) = session.profile() else { return Ok(()) };
        let device = session.model().device();
        for (device, profile) in session.device_profiles() {
            if profile.replays() > 0 && profile.kernels().is_empty() {
                warning(format_args!("{} does not measure how long kernels take", device.info().id));
            }
        }
        if self.profile {
            let devices = session.device_profiles();
            for (device, profile) in &devices {
                if devices.len() > 1 {
                    eprintln!("{}:", device.info().id);
                }
                eprint!("{}", table(profile, &roofline(device)?));
                if let Some(kernels) = compiled(device) {
                    eprintln!("{kernels}");
                }
            }
        }
        if let Some(path) = &self.trace {
            write(path, &profile.chrome_trace(&device.info().id))?;
            if profile.dropped() > 0 {
                warning(format_args!(
                    "{} events are not in {}: a trace keeps no more",
                    profile.dropped(),
                    path.display()
                ));
            }
        }
        if let Some(path) = &self.report {
            let (model, info) = (session.model(), device.info());
            let facts = ModelFacts::read(model.path())?;
            let subtitle = format!("{} on {} ({}), {}", model.path().display(), info.id, info.name, build());
            let title = format!("{} {}", facts.name, facts.format);
            write(path, &page::page(&title, &subtitle, profile, &roofline(device)?))?;
        }
        Ok(())
    }
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    std::fs::write(path, text).map_err(|error| Error::output(path, error))
}

/// Returns the tables of kernels and of scopes, and their totals.
fn table(profile: &Profile, limits: &Roofline) -> String {
    let mut text = String::new();
    for (what, rows) in [("kernel", profile.kernels()), ("scope", profile.scopes())] {
        let all: f64 = rows.iter().map(|row| row.time.as_secs_f64()).sum();
        let mut table = Table::new();
        table.load_preset(presets::ASCII_MARKDOWN);
        table.set_header([what, "calls", "ms", "%", "GB/s", "GOP/s", "of the limit"]);
        for row in rows.iter().take(ROWS) {
            table.add_row([
                row.name.to_owned(),
                row.calls.to_string(),
                format!("{:.2}", row.time.as_secs_f64() * 1e3),
                format!("{:.1}", 100.0 * row.time.as_secs_f64() / all.max(f64::MIN_POSITIVE)),
                format!("{:.1}", row.bandwidth() / 1e9),
                format!("{:.1}", row.speed() / 1e9),
                share(limits, row),
            ]);
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let _ = writeln!(text, "{table}\n");
    }
    let _ = writeln!(text, "{}", summary(profile, limits));
    if text.contains(ABOVE) {
        let _ = writeln!(text, "{ABOVE}: {WHY_ABOVE}");
    }
    text
}

/// Returns how the kernels of a GPU were compiled.
fn compiled(device: &Device) -> Option<String> {
    let RegistryUsage { compiled, from_cache, refused, .. } = device.kernels().usage();
    let refused = match refused {
        0 => String::new(),
        refused => format!(" · {refused} refused by the driver: their portable form ran"),
    };
    let text = format!("{compiled} kernels compiled, {from_cache} from the kernel cache{refused}");
    device.info().is_gpu().then_some(text)
}

/// Returns the share of the limit that a kernel reaches. The limit is measured, so a kernel can exceed it.
fn share(limits: &Roofline, row: &ProfileRow) -> String {
    match limits.reached(row) {
        (part, which) if part > 1.0 => format!("{ABOVE} ({which})"),
        (part, which) => format!("{:.0}% ({which})", 100.0 * part),
    }
}

fn summary(profile: &Profile, limits: &Roofline) -> String {
    let ((commands, barriers), (device, host), replays) =
        (profile.commands(), profile.times(), profile.replays().max(1));
    let text = format!(
        "{} passes · {} commands (dispatches, copies and fills) and {} barriers each, about; calls are of ops, which can take several · \
         kernels {:.2} ms, passes {:.2} ms each · \
         limits measured here: {:.1} GB/s, {:.0} GOP/s",
        profile.replays(),
        commands / replays,
        barriers / replays,
        device.as_secs_f64() * 1e3 / replays as f64,
        host.as_secs_f64() * 1e3 / replays as f64,
        limits.bandwidth / 1e9,
        limits.speed / 1e9,
    );
    match busy(profile) {
        parts if parts.is_empty() => text,
        parts => {
            let parts: Vec<String> = parts.iter().map(|part| format!("{:.0}%", 100.0 * part)).collect();
            format!("{text} · threads busy {} of the kernels' time", parts.join(", "))
        }
    }
}

/// The part of the kernels' time that each thread ran tiles.
fn busy(profile: &Profile) -> Vec<f64> {
    let all = profile.times().0.as_secs_f64().max(f64::MIN_POSITIVE);
    profile.threads().iter().map(|busy| busy.as_secs_f64() / all).collect()
}
