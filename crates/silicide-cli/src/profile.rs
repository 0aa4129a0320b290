//! `--profile`, `--trace` and `--report`: where the time of a run went, for people, for tools that draw traces, and as a page with
//! a picture.

use crate::error::Error;
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use silicide::profile::{Lane, Profile, ProfileRow, Roofline, TraceEvent};
use silicide_llm::engine::{Session, roofline};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Rows of the table and of the picture.
const ROWS: usize = 24;

/// Whether and how to tell where the time goes.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ProfileArgs {
    /// Measure every kernel, and print where the time went. Kernels run one after the other then, so tokens come slower.
    #[arg(long)]
    profile: bool,
    /// Write a trace for chrome://tracing or Perfetto: the host, the device's kernels, and on the CPU each of its threads.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Write a page with a picture of a token's time.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

impl ProfileArgs {
    /// Whether anything is to be measured, for which some devices have to be asked when they are opened.
    pub(crate) fn is_wanted(&self) -> bool {
        self.profile || self.trace.is_some() || self.report.is_some()
    }

    /// Begins profiling, if that is wanted.
    pub(crate) fn begin(&self, session: &mut Session) {
        if self.is_wanted() {
            session.start_profile();
        }
    }

    /// Tells what was found, if anything was wanted.
    pub(crate) fn finish(&self, session: &Session) -> Result<(), Error> {
        let Some(profile) = session.profile() else { return Ok(()) };
        let device = session.model().device();
        if profile.replays() > 0 && profile.kernels().is_empty() {
            eprintln!("warning: {} does not measure how long kernels take", device.info().id);
        }
        let limits = roofline(device)?;
        if self.profile {
            eprint!("{}", table(profile, &limits));
        }
        if let Some(path) = &self.trace {
            write(path, &profile.chrome_trace(&device.info().id))?;
            if profile.dropped() > 0 {
                eprintln!(
                    "warning: {} events more than a trace keeps are not in {}",
                    profile.dropped(),
                    path.display()
                );
            }
        }
        if let Some(path) = &self.report {
            let title = format!("{} on {}", session.model().path().display(), device.info().name);
            write(path, &page(&title, profile, &limits))?;
        }
        Ok(())
    }
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    std::fs::write(path, text)
        .map_err(|error| Error::Usage(format!("can't write {}: {error}", path.display())))
}

/// The table of kernels, that of scopes, and what they add up to.
fn table(profile: &Profile, limits: &Roofline) -> String {
    let mut text = String::new();
    for (what, rows) in [("kernel", profile.kernels()), ("scope", profile.scopes())] {
        let all: f64 = rows.iter().map(|row| row.time.as_secs_f64()).sum();
        let mut table = Table::new();
        table.load_preset(presets::ASCII_MARKDOWN);
        table.set_header([what, "calls", "ms", "%", "GB/s", "GOP/s", "of the limit"]);
        for row in rows.iter().take(ROWS) {
            let (part, which) = limits.reached(row);
            table.add_row([
                row.name.to_owned(),
                row.calls.to_string(),
                format!("{:.2}", row.time.as_secs_f64() * 1e3),
                format!("{:.1}", 100.0 * row.time.as_secs_f64() / all.max(f64::MIN_POSITIVE)),
                format!("{:.1}", row.bandwidth() / 1e9),
                format!("{:.1}", row.speed() / 1e9),
                format!("{:.0}% ({which})", 100.0 * part),
            ]);
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let _ = writeln!(text, "{table}\n");
    }
    let _ = writeln!(text, "{}", summary(profile, limits));
    text
}

fn summary(profile: &Profile, limits: &Roofline) -> String {
    let ((commands, barriers), (device, host), replays) =
        (profile.commands(), profile.times(), profile.replays().max(1));
    let text = format!(
        "{} passes · {} commands and {} barriers each, about · kernels {:.2} ms, passes {:.2} ms each · limits measured here: {:.1} GB/s, {:.0} GOP/s",
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

/// A page with bars of kernels, a picture of the last pass, and the tables.
fn page(title: &str, profile: &Profile, limits: &Roofline) -> String {
    let title = escaped(title);
    let mut text = format!(
        "<!doctype html><meta charset=\"utf-8\"><title>{title}</title>
<style>body{{font:14px system-ui;margin:2em;max-width:70em}}text{{font:12px system-ui}}table{{border-collapse:collapse}}td,th{{padding:.2em .8em;text-align:right}}td:first-child,th:first-child{{text-align:left}}tr:nth-child(even){{background:#8881}}</style>
<h1>{title}</h1><p>{}</p>",
        escaped(&summary(profile, limits))
    );
    let kernels = profile.kernels();
    text.push_str("<h2>The last pass, kernel by kernel</h2>");
    text.push_str(&timeline(profile, &kernels));
    for (what, rows) in [("Kernels", kernels), ("Scopes", profile.scopes())] {
        let _ = write!(
            text,
            "<h2>{what}</h2><table><tr><th>name<th>calls<th>ms<th>%<th>GB/s<th>GOP/s<th>of the limit</tr>"
        );
        let all: f64 = rows.iter().map(|row| row.time.as_secs_f64()).sum();
        for row in &rows {
            let (part, which) = limits.reached(row);
            let _ = write!(
                text,
                "<tr><td>{}<td>{}<td>{:.2}<td>{:.1}<td>{:.1}<td>{:.1}<td>{:.0}% ({which})</tr>",
                escaped(row.name),
                row.calls,
                row.time.as_secs_f64() * 1e3,
                100.0 * row.time.as_secs_f64() / all.max(f64::MIN_POSITIVE),
                row.bandwidth() / 1e9,
                row.speed() / 1e9,
                100.0 * part,
            );
        }
        text.push_str("</table>");
    }
    text
}

/// A bar from the beginning of the last pass to its end, a colour for each kernel, with one for each thread below it, and what
/// colours mean.
fn timeline(profile: &Profile, kernels: &[ProfileRow]) -> String {
    let (width, height, lane) = (1000.0, 60.0, 20.0);
    let colour = |name: &str| match kernels.iter().position(|row| row.name == name) {
        Some(place) => format!("hsl({} 65% {}%)", place * 47 % 360, 45 + place % 3 * 10),
        None => "#888".to_owned(),
    };
    let events = profile.events();
    let is_pass = |event: &TraceEvent| event.lane == Lane::Host && event.name != "sample";
    let pass = events.get(events.iter().rposition(is_pass).unwrap_or(0)..).unwrap_or(&[]);
    let calls: Vec<_> = pass.iter().filter(|event| event.call.is_some()).collect();
    let (Some(begin), Some(last)) = (calls.first().map(|event| event.begin), calls.last()) else {
        return String::new();
    };
    let all = (last.begin + last.taken - begin).as_secs_f64().max(f64::MIN_POSITIVE);
    let bottom = height + lane * profile.threads().len() as f64;
    let mut text = format!("<svg viewBox=\"0 0 {width} {bottom}\" width=\"100%\" role=\"img\">");
    for event in pass {
        let (y, height) = match event.lane {
            Lane::Host => continue,
            Lane::Device => (0.0, height),
            Lane::Thread(thread) => (height + lane * f64::from(thread) + 2.0, lane - 2.0),
        };
        let x = event.begin.saturating_sub(begin).as_secs_f64() / all * width;
        let w = event.taken.as_secs_f64() / all * width;
        let _ = write!(
            text,
            "<rect x=\"{x:.3}\" y=\"{y}\" width=\"{w:.3}\" height=\"{height}\" fill=\"{}\"><title>{} {:.1} µs</title></rect>",
            colour(event.name),
            escaped(event.name),
            event.taken.as_secs_f64() * 1e6,
        );
    }
    text.push_str("</svg><p>");
    for row in kernels.iter().take(ROWS) {
        let _ = write!(
            text,
            "<span style=\"white-space:nowrap\"><svg width=\"12\" height=\"12\"><rect width=\"12\" height=\"12\" fill=\"{}\"/></svg> {} </span> ",
            colour(row.name),
            escaped(row.name),
        );
    }
    text.push_str("</p>");
    let _ = write!(text, "<p>{:.3} ms from end to end.", all * 1e3);
    for (thread, part) in busy(profile).iter().enumerate() {
        let _ = write!(text, " Thread {thread} was busy {:.1}% of all passes.", 100.0 * part);
    }
    text.push_str("</p>");
    text
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
