//! A report as text, for people.

use crate::report::{Declined, Failure, Problem, Report, Tally};
use comfy_table::{CellAlignment, Table, presets};
use std::collections::BTreeMap;
use std::fmt;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.totals())?;
        if !self.declined.is_empty() {
            writeln!(f, "kernels that declined\n{}\n", self.reasons())?;
        }
        for ((op, device, case), variants) in self.missing() {
            writeln!(f, "unsupported: {op} | {device} | {case} | {}", variants.join("; "))?;
        }
        for failure in &self.failures {
            writeln!(f, "FAILED {failure}")?;
        }
        let runs: usize = self.tallies.iter().map(|tally| tally.runs).sum();
        let seconds: f64 = self.tallies.iter().map(|tally| tally.seconds).sum();
        write!(f, "{runs} runs, {} failures, {seconds:.1} s on devices", self.failures.len())
    }
}

impl Report {
    fn totals(&self) -> Table {
        let mut table = plain(&["op", "device", "cases", "runs", "declined", "unsupported", "failed", "s"]);
        let mut tallies: Vec<&Tally> = self.tallies.iter().collect();
        // Slow ones last, next to the summary.
        tallies.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        for tally in tallies {
            let counts = [tally.cases, tally.runs, tally.declined, tally.unsupported, tally.failures];
            let mut row = vec![tally.op.to_owned(), tally.device.clone()];
            row.extend(counts.map(|count| count.to_string()));
            row.push(format!("{:.2}", tally.seconds));
            table.add_row(row);
        }
        for column in table.column_iter_mut().skip(2) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table
    }

    /// Layouts without a kernel, by op, device and case. An op that has none at all shows in its failure.
    fn missing(&self) -> BTreeMap<(&str, &str, &str), Vec<&str>> {
        let mut missing: BTreeMap<_, Vec<&str>> = BTreeMap::new();
        for case in &self.unsupported {
            let nothing = |failure: &Failure| {
                failure.problem == Problem::NothingRuns
                    && failure.op == case.op
                    && failure.device == case.device
            };
            if !self.failures.iter().any(nothing) {
                missing.entry((case.op, &*case.device, &*case.case)).or_default().push(&*case.variant);
            }
        }
        missing
    }

    fn reasons(&self) -> Table {
        let mut reasons: BTreeMap<(&str, &str), Vec<&Declined>> = BTreeMap::new();
        for declined in &self.declined {
            reasons.entry((&declined.device, declined.reason)).or_default().push(declined);
        }
        let mut table = plain(&["device", "reason", "times", "kernels"]);
        for ((device, reason), declined) in reasons {
            let times: usize = declined.iter().map(|declined| declined.times).sum();
            table.add_row([device, reason, &times.to_string(), &declined.len().to_string()]);
        }
        table
    }
}

fn plain(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN).set_header(header);
    table
}
