//! Counts of a run, and the table of all runs.

use comfy_table::{CellAlignment, Table, presets};
use std::collections::BTreeMap;
use std::time::Duration;

/// Kinds of errors that a row of the table names.
const NAMED: usize = 6;

/// What happened to the inputs of one target.
#[derive(Clone, Debug)]
pub struct Report {
    /// The target's name.
    pub target: &'static str,
    /// Inputs by the kind of their error; accepted ones have none.
    outcomes: BTreeMap<String, u64>,
    /// Crashes by their description.
    crashes: BTreeMap<String, u64>,
    slowest: Duration,
    /// The time of the run.
    pub time: Duration,
}

impl Report {
    /// A report without inputs.
    pub(super) fn new(target: &'static str) -> Report {
        let (outcomes, crashes) = (BTreeMap::new(), BTreeMap::new());
        Report { target, outcomes, crashes, slowest: Duration::ZERO, time: Duration::ZERO }
    }

    /// Reads a line of a worker.
    pub(super) fn read(&mut self, line: &str) {
        let mut words = line.splitn(3, ' ');
        let (what, number) = (words.next(), words.next().and_then(|word| word.parse::<u64>().ok()));
        let kind = words.next().unwrap_or("");
        match (what, number) {
            (Some("outcome"), Some(count)) => *self.outcomes.entry(kind.to_owned()).or_insert(0) += count,
            (Some("slowest"), Some(micros)) => self.slowest = self.slowest.max(Duration::from_micros(micros)),
            _ => {}
        }
    }

    /// Counts a crash.
    pub(super) fn crashed(&mut self, how: &str) {
        *self.crashes.entry(how.to_owned()).or_insert(0) += 1;
    }

    /// The number of crashes, hangs and exceeded limits.
    pub fn crashes(&self) -> u64 {
        self.crashes.values().sum()
    }

    /// The number of inputs that ran.
    pub fn inputs(&self) -> u64 {
        self.outcomes.values().sum::<u64>() + self.crashes()
    }

    /// The most frequent kinds of errors.
    fn errors(&self) -> String {
        let mut kinds: Vec<_> = self.outcomes.iter().filter(|(kind, _)| !kind.is_empty()).collect();
        kinds.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let named = kinds.iter().take(NAMED).map(|(kind, count)| format!("{kind} {count}"));
        let others = kinds.len().saturating_sub(NAMED);
        named.chain((others > 0).then(|| format!("{others} more kinds"))).collect::<Vec<_>>().join(", ")
    }
}

/// Returns the table of all reports.
pub fn table(reports: &[Report]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    table.set_header(["target", "inputs", "accepted", "crashes", "slowest", "time", "errors by kind"]);
    for report in reports {
        let accepted = report.outcomes.get("").copied().unwrap_or(0);
        table.add_row([
            report.target.to_owned(),
            report.inputs().to_string(),
            accepted.to_string(),
            report.crashes().to_string(),
            format!("{:.1} ms", report.slowest.as_secs_f64() * 1e3),
            format!("{:.1} s", report.time.as_secs_f64()),
            report.errors(),
        ]);
    }
    for column in 1..6 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_worker_add_up() {
        let mut report = Report::new("gguf");
        for line in ["outcome 3 ", "outcome 2 Malformed Magic", "outcome 4 ", "slowest 1500 7", "noise", ""] {
            report.read(line);
        }
        report.crashed("ended by signal 11");
        assert_eq!((report.inputs(), report.crashes()), (10, 1));
        let table = table(&[report]);
        assert!(table.contains("Malformed Magic 2") && table.contains("1.5 ms"), "{table}");
    }
}
