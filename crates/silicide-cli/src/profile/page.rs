//! The page of `--report`: passes by kind, a timeline of the last pass of each kind, tables of kernels and scopes.

use super::{ABOVE, ROWS, WHY_ABOVE, busy, share, summary};
use silicide::profile::{Lane, Profile, ProfileRow, Roofline, TraceEvent};
use std::fmt::Write as _;
use std::time::Duration;

/// The kinds of passes: their names in the trace and on the page.
const KINDS: [(&str, &str); 2] = [("prompt", "Prompt"), ("token", "Generation")];

/// Widths and heights of a timeline, in units of its picture.
const LABELS: f64 = 90.0;
const WIDTH: f64 = 1000.0;
const DEVICE: f64 = 50.0;
const THREAD: f64 = 20.0;
const AXIS: f64 = 24.0;

/// Returns the page. `title` is the model's name, `subtitle` says where it ran.
pub(super) fn page(title: &str, subtitle: &str, profile: &Profile, limits: &Roofline) -> String {
    let title = escaped(title);
    let mut text = format!(
        "<!doctype html><meta charset=\"utf-8\"><title>{title}</title>
<style>body{{font:14px system-ui;margin:2em;max-width:75em}}\
         text{{font:12px system-ui;fill:currentColor}}table{{border-collapse:collapse}}\
         td,th{{padding:.2em .8em;text-align:right}}\
         td:first-child,th:first-child{{text-align:left}}tr:nth-child(even){{background:#8881}}</style>
<h1>{title}</h1><p>{}</p><p>{}</p>",
        escaped(subtitle),
        escaped(&summary(profile, limits))
    );
    text.push_str(&passes(profile.events()));
    let kernels = profile.kernels();
    for (kind, shown) in KINDS {
        if let Some(pass) = last_pass(profile.events(), kind) {
            let _ = write!(text, "<h2>{shown}: the last pass, kernel by kernel</h2>");
            text.push_str(&timeline(pass, profile.threads().len(), &kernels));
        }
    }
    text.push_str(&legend(&kernels));
    text.push_str("<p>");
    for (thread, part) in busy(profile).iter().enumerate() {
        let _ = write!(text, " Thread {thread} was busy {:.1}% of all passes.", 100.0 * part);
    }
    text.push_str("</p>");
    for (what, rows) in [("Kernels", kernels), ("Scopes", profile.scopes())] {
        text.push_str(&table(what, &rows, limits));
    }
    let above = escaped(ABOVE);
    if text.contains(&above) {
        let _ = write!(text, "<p>{above}: {WHY_ABOVE}</p>");
    }
    text
}

/// Returns the table of prompt and generation: passes, time, and for generation tokens per second.
fn passes(events: &[TraceEvent]) -> String {
    let mut text = String::from("<table><tr><th>phase<th>passes<th>ms<th>ms per pass<th>tokens/s</tr>");
    for (kind, shown) in KINDS {
        let of_kind = events.iter().filter(|event| event.lane == Lane::Host && event.name == kind);
        let (mut count, mut time) = (0u32, Duration::ZERO);
        for event in of_kind {
            count += 1;
            time += event.taken;
        }
        if count == 0 {
            continue;
        }
        let milliseconds = time.as_secs_f64() * 1e3;
        let rate = match kind {
            "token" => format!("{:.1}", f64::from(count) / time.as_secs_f64().max(f64::MIN_POSITIVE)),
            _ => String::new(),
        };
        let each = milliseconds / f64::from(count);
        let _ = write!(text, "<tr><td>{shown}<td>{count}<td>{milliseconds:.2}<td>{each:.3}<td>{rate}</tr>");
    }
    text + "</table>"
}

/// Returns the events of the last pass of a kind: from its own to that of the next thing that the host did.
fn last_pass<'a>(events: &'a [TraceEvent], kind: &str) -> Option<&'a [TraceEvent]> {
    let begin = events.iter().rposition(|event| event.lane == Lane::Host && event.name == kind)?;
    let rest = events.get(begin + 1..)?;
    let end = rest.iter().position(|event| event.lane == Lane::Host).unwrap_or(rest.len());
    rest.get(..end).filter(|events| events.iter().any(|event| event.call.is_some()))
}

/// Draws a pass: a lane for the device and one for each thread, over a time axis.
fn timeline(pass: &[TraceEvent], threads: usize, kernels: &[ProfileRow]) -> String {
    let calls = || pass.iter().filter(|event| event.call.is_some());
    let begin = calls().map(|event| event.begin).min().unwrap_or_default();
    let end = calls().map(|event| event.begin + event.taken).max().unwrap_or_default();
    let all = end.saturating_sub(begin).as_secs_f64().max(f64::MIN_POSITIVE);
    let bottom = DEVICE + THREAD * threads as f64;
    let (width, height) = (LABELS + WIDTH + 40.0, bottom + AXIS);
    let mut text = format!("<svg viewBox=\"0 0 {width} {height}\" width=\"100%\" role=\"img\">");
    let _ = write!(text, "<text x=\"0\" y=\"{}\">kernels</text>", DEVICE / 2.0 + 4.0);
    for thread in 0..threads {
        let y = DEVICE + THREAD * thread as f64 + 15.0;
        let _ = write!(text, "<text x=\"0\" y=\"{y}\">thread {thread}</text>");
    }
    for event in pass {
        let (y, height) = match event.lane {
            Lane::Host => continue,
            Lane::Device => (0.0, DEVICE),
            Lane::Thread(thread) => (DEVICE + THREAD * f64::from(thread) + 2.0, THREAD - 2.0),
        };
        let x = LABELS + event.begin.saturating_sub(begin).as_secs_f64() / all * WIDTH;
        let w = event.taken.as_secs_f64() / all * WIDTH;
        let _ = write!(
            text,
            "<rect x=\"{x:.3}\" y=\"{y}\" width=\"{w:.3}\" height=\"{height}\" fill=\"{}\"><title>{} {:.1} µs</title></rect>",
            colour(event.name, kernels),
            escaped(event.name),
            event.taken.as_secs_f64() * 1e6,
        );
    }
    text.push_str(&axis(all, bottom));
    let _ = write!(text, "</svg><p>{:.3} ms from end to end.</p>", all * 1e3);
    text
}

/// Draws the time axis of `seconds` below the lanes.
fn axis(seconds: f64, y: f64) -> String {
    let step = step(seconds / 8.0);
    let (unit, scale) = if seconds < 1e-3 { ("µs", 1e6) } else { ("ms", 1e3) };
    let mut text = format!(
        "<line x1=\"{LABELS}\" y1=\"{y}\" x2=\"{}\" y2=\"{y}\" stroke=\"currentColor\"/>",
        LABELS + WIDTH
    );
    for tick in 0..=(seconds / step) as u32 {
        let at = f64::from(tick) * step;
        let x = LABELS + at / seconds * WIDTH;
        // Enough digits to tell neighbours apart, and no more.
        let digits = (-(step * scale).log10().floor()).max(0.0) as usize;
        let _ = write!(
            text,
            "<line x1=\"{x:.1}\" y1=\"{y}\" x2=\"{x:.1}\" y2=\"{}\" stroke=\"currentColor\"/>\
             <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{:.digits$} {unit}</text>",
            y + 5.0,
            y + 18.0,
            at * scale,
        );
    }
    text
}

/// Returns the smallest of 1, 2 and 5 times a power of ten that is at least `least`.
fn step(least: f64) -> f64 {
    let power = 10f64.powf(least.max(1e-12).log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= least)
        .unwrap_or(power)
}

fn colour(name: &str, kernels: &[ProfileRow]) -> String {
    match kernels.iter().position(|row| row.name == name) {
        Some(place) => format!("hsl({} 65% {}%)", place * 47 % 360, 45 + place % 3 * 10),
        None => "#888".to_owned(),
    }
}

fn legend(kernels: &[ProfileRow]) -> String {
    let mut text = String::from("<p>");
    for row in kernels.iter().take(ROWS) {
        let _ = write!(
            text,
            "<span style=\"white-space:nowrap\"><svg width=\"12\" height=\"12\">\
             <rect width=\"12\" height=\"12\" fill=\"{}\"/></svg> {} </span> ",
            colour(row.name, kernels),
            escaped(row.name),
        );
    }
    text + "</p>"
}

fn table(what: &str, rows: &[ProfileRow], limits: &Roofline) -> String {
    let mut text = format!(
        "<h2>{what}</h2><table><tr><th>name<th>calls<th>ms<th>%<th>GB/s<th>GOP/s<th>of the limit</tr>"
    );
    let all: f64 = rows.iter().map(|row| row.time.as_secs_f64()).sum();
    for row in rows {
        let _ = write!(
            text,
            "<tr><td>{}<td>{}<td>{:.2}<td>{:.1}<td>{:.1}<td>{:.1}<td>{}</tr>",
            escaped(row.name),
            row.calls,
            row.time.as_secs_f64() * 1e3,
            100.0 * row.time.as_secs_f64() / all.max(f64::MIN_POSITIVE),
            row.bandwidth() / 1e9,
            row.speed() / 1e9,
            escaped(&share(limits, row)),
        );
    }
    text + "</table>"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_of_the_axis_are_round_numbers() {
        for (least, expected) in [(0.1, 0.1), (0.11, 0.2), (0.3, 0.5), (0.6, 1.0), (3e-6, 5e-6)] {
            assert!((step(least) / expected - 1.0).abs() < 1e-9, "{least}: {}", step(least));
        }
        let drawn = axis(0.0043, 10.0);
        assert!(drawn.contains(">0.0 ms<") || drawn.contains(">0 ms<"), "{drawn}");
        assert!(drawn.contains("4 ms<"), "{drawn}");
    }
}
