//! The instruction sets that tests opened devices with: a table at the end of a test run.
//!
//! Tests that open a device with an instruction set append a line, the set and what they test, to the file that
//! `SILICIDE_ISA_LOG` names (`samples::note_isa`). The table has a row for every set: the tests that opened a device with it,
//! or that this CPU does not have it. A row does not say that the tests passed: their own steps do. A set that the CPU has
//! and that no test opened a device with is an error, as is an empty log.

use comfy_table::{Table, presets::ASCII_MARKDOWN};
use silicide_hal::cpu::Isa;
use std::collections::BTreeSet;
use std::path::Path;

/// Prints the table of a log.
pub(crate) fn table(log: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(log).map_err(|error| {
        format!("{}: {error}; set SILICIDE_ISA_LOG to this file when tests run", log.display())
    })?;
    let (table, missed) = rows(&text, &Isa::available());
    println!("{table}");
    println!(
        "A row says which tests opened a device with the set; whether they passed is the result of their own steps."
    );
    match missed.as_slice() {
        [] => Ok(()),
        missed => Err(format!("no test opened a device with {}, which this CPU has", missed.join(", "))),
    }
}

/// The table of a log on a CPU that has some sets, and those of them that no test opened a device with.
fn rows(log: &str, available: &[Isa]) -> (Table, Vec<&'static str>) {
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN);
    table.set_header(["instruction set", "opened by a test", "tests"]);
    let mut missed = Vec::new();
    for isa in Isa::ALL {
        let lines = log.lines().filter_map(|line| line.split_once('\t'));
        let tests: BTreeSet<&str> =
            lines.filter(|(set, _)| *set == isa.name()).map(|(_, what)| what).collect();
        let ran = match (available.contains(&isa), tests.is_empty()) {
            (true, false) => "yes",
            (true, true) => {
                missed.push(isa.name());
                "NO"
            }
            (false, false) => "under emulation",
            (false, true) => "no: this CPU does not have it",
        };
        table.add_row([isa.name(), ran, &tests.into_iter().collect::<Vec<_>>().join(", ")]);
    }
    (table, missed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str =
        "portable\tconformance\nportable\tengine\navx2\tengine\navx2\tengine\nneon\tconformance\n";

    #[test]
    fn every_set_has_a_row_and_sets_without_tests_are_missed() {
        let (table, missed) = rows(LOG, &[Isa::Portable, Isa::Avx2, Isa::Avx512]);
        let text = table.to_string();
        let row = |name: &str| text.lines().find(|line| line.contains(name)).unwrap().to_owned();
        assert!(row("portable").contains("yes") && row("portable").contains("conformance, engine"));
        assert!(row("neon").contains("under emulation"));
        assert!(row("avx512").contains("NO"));
        assert_eq!(missed, ["avx512"]);
    }

    #[test]
    fn a_set_that_the_cpu_does_not_have_is_not_missed() {
        let (table, missed) = rows(LOG, &[Isa::Portable, Isa::Avx2]);
        assert!(missed.is_empty());
        assert!(table.to_string().contains("does not have it"));
    }
}
