//! The figures of one kernel on one family: a line of a baseline.

use crate::kernels::Kernel;
use crate::listing::{self, Counts};
use crate::vulkan::Built;
use std::fmt::Write;

/// The figures of a kernel. Counts are those of the hot loop, once through, by one subgroup.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) family: String,
    pub(crate) kernel: String,
    /// Figures in the order of [`COLUMNS`].
    pub(crate) figures: [u32; COLUMNS.len()],
}

/// The names of figures. `weights`: weights that a lane multiplies in a pass of the loop, 0 if the kernel is not a product of few rows.
pub(crate) const COLUMNS: [&str; 12] = [
    "wave",
    "vgprs",
    "spills",
    "shared",
    "waves",
    "instructions",
    "valu",
    "cycles",
    "loads",
    "lds_loads",
    "waits",
    "weights",
];

impl Row {
    /// Returns the figures of a kernel that the driver has built.
    pub(crate) fn of(family: &str, kernel: &Kernel, built: &Built, assembly: &str) -> Row {
        let wave = built.subgroup;
        let listing = listing::read(assembly, family, wave);
        let hot = listing.hot();
        let Counts { instructions, valu, cycles, loads, lds_loads, waits } = *hot;
        let statistic = |name: &str| built.statistics.get(name).map_or(0, |value| *value as u32);
        // RADV counts subgroups of 32 lanes on GPUs that also have those.
        let halves = if family != "GCN5" && wave == 64 { 2 } else { 1 };
        let spills = statistic("Spilled VGPRs") + statistic("Spilled SGPRs") + statistic("Scratch size");
        Row {
            family: family.to_owned(),
            kernel: kernel.name.clone(),
            figures: [
                wave,
                statistic("VGPRs"),
                spills,
                statistic("LDS size"),
                statistic("Subgroups per SIMD") / halves,
                instructions,
                valu,
                cycles,
                loads,
                lds_loads,
                waits,
                kernel.weights,
            ],
        }
    }

    /// Returns a figure by its name.
    pub(crate) fn get(&self, column: &str) -> u32 {
        COLUMNS.iter().position(|name| *name == column).map_or(0, |i| self.figures[i])
    }

    /// Returns the cycles of vector arithmetic that 32 weights take one SIMD, for a product of few rows.
    pub(crate) fn cycles_per_group(&self) -> Option<f64> {
        let weights = self.get("weights") * self.get("wave");
        (weights > 0).then(|| f64::from(self.get("cycles")) * 32.0 / f64::from(weights))
    }

    /// Returns the line, with its end.
    pub(crate) fn line(&self) -> String {
        let mut line = format!("{} {}", self.family, self.kernel);
        for figure in self.figures {
            let _ = write!(line, " {figure}");
        }
        line + "\n"
    }
}

/// Returns rows as text, with a line of names.
pub(crate) fn text(rows: &[Row]) -> String {
    let lines: String = rows.iter().map(Row::line).collect();
    format!("# family kernel {}\n{lines}", COLUMNS.join(" "))
}

/// Reads rows; lines that begin with `#` are left out.
pub(crate) fn parse(text: &str) -> Result<Vec<Row>, String> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    lines
        .map(|line| {
            let bad = || format!("not a row of a baseline: {line}");
            let mut words = line.split_whitespace();
            let (family, kernel) = (words.next().ok_or_else(bad)?, words.next().ok_or_else(bad)?);
            let figures: Option<Vec<u32>> = words.map(|word| word.parse().ok()).collect();
            let figures = figures.and_then(|figures| figures.try_into().ok()).ok_or_else(bad)?;
            Ok(Row { family: family.to_owned(), kernel: kernel.to_owned(), figures })
        })
        .collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A row of a kernel with these instructions, registers and spills.
    pub(crate) fn row(kernel: &str, instructions: u32, vgprs: u32, spills: u32) -> Row {
        let figures = [64, vgprs, spills, 0, 8, instructions, 10, 20, 2, 0, 1, 64];
        Row { family: "RDNA3".to_owned(), kernel: kernel.to_owned(), figures }
    }

    #[test]
    fn rows_are_read_as_written() {
        let rows = vec![row("a", 1, 2, 3), row("b", 4, 5, 6)];
        assert_eq!(parse(&text(&rows)), Ok(rows));
    }

    #[test]
    fn other_lines_are_errors() {
        for line in ["RDNA3", "RDNA3 a 1 2 3", "RDNA3 a 1 2 3 4 5 6 7 8 9 10 11 twelve"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn cycles_are_counted_for_groups_of_32_weights() {
        // 20 cycles for 64 lanes with 64 weights each, which are 128 groups.
        assert_eq!(row("a", 1, 1, 0).cycles_per_group(), Some(20.0 / 128.0));
    }
}
