//! Baselines: `dev/isa/baselines/mesa-VERSION.txt`. Figures of two versions of a compiler can't be compared.

use crate::report;
use crate::row::{self, Row};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Figures that must not grow, and the largest growth: compilers place instructions a little differently.
const LIMITED: [&str; 5] = ["instructions", "loads", "vgprs", "shared", "spills"];
const MOST_GROWTH: f64 = 1.02;

fn path(root: &Path, mesa: &str) -> PathBuf {
    root.join(format!("dev/isa/baselines/mesa-{mesa}.txt"))
}

fn document(root: &Path) -> PathBuf {
    root.join("docs/gpu-kernels.md")
}

/// Writes the baseline of a version of Mesa, and the document if it is to have these figures.
pub(crate) fn write(root: &Path, mesa: &str, rows: &[Row], is_documented: bool) -> Result<(), String> {
    let write = |path: PathBuf, text: String| {
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    };
    write(path(root, mesa), row::text(rows))?;
    if is_documented {
        write(document(root), report::text(mesa, rows))?;
    }
    println!("{} kernels of Mesa {mesa} written", rows.len());
    Ok(())
}

/// Fails on growth over the baseline, on kernels that the baseline lacks or has in vain, and on an old document. Spills that the baseline
/// has are counted and printed; without a baseline every spill fails.
pub(crate) fn check(root: &Path, mesa: &str, rows: &[Row]) -> Result<(), String> {
    let (spilled, mut problems) = (spills(rows), Vec::new());
    let path = path(root, mesa);
    match std::fs::read_to_string(&path) {
        Ok(text) => {
            let old = row::parse(&text).map_err(|error| format!("{}: {error}", path.display()))?;
            problems.extend(growth(&old, rows));
            println!("{} kernels spill registers; the baseline has {}", spilled.len(), spills(&old).len());
            let document = std::fs::read_to_string(document(root)).unwrap_or_default();
            if document.contains(&report::version(mesa)) && document != report::text(mesa, &old) {
                problems.push("docs/gpu-kernels.md does not follow from the baseline".to_owned());
            }
        }
        Err(_) => {
            println!("NOT COMPARED: Mesa {mesa} has no baseline in dev/isa/baselines; only spills count");
            problems.extend(spilled);
        }
    }
    println!("{} kernels compiled by Mesa {mesa}, {} problems", rows.len(), problems.len());
    if problems.is_empty() {
        return Ok(());
    }
    problems.push("`cargo xtask isa --write` renews the baseline and docs/gpu-kernels.md".to_owned());
    Err(problems.join("\n"))
}

fn spills(rows: &[Row]) -> Vec<String> {
    let spilled = rows.iter().filter(|row| row.get("spills") > 0);
    spilled.map(|row| format!("{} on {} spills registers", row.kernel, row.family)).collect()
}

/// Returns what is worse than in the baseline.
fn growth(old: &[Row], new: &[Row]) -> Vec<String> {
    let key = |row: &Row| (row.family.clone(), row.kernel.clone());
    let mut known: BTreeMap<_, &Row> = old.iter().map(|row| (key(row), row)).collect();
    let mut problems = Vec::new();
    for row in new {
        let Row { family, kernel, .. } = row;
        let Some(old) = known.remove(&key(row)) else {
            problems.push(format!("{kernel} on {family} is not in the baseline"));
            continue;
        };
        for figure in LIMITED {
            let (old, new) = (old.get(figure), row.get(figure));
            if f64::from(new) > f64::from(old) * MOST_GROWTH {
                problems.push(format!("{kernel} on {family}: {figure} {new}, {old} in the baseline"));
            }
        }
    }
    problems
        .extend(known.keys().map(|(family, kernel)| format!("{kernel} on {family} is in the baseline only")));
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::tests::row;

    #[test]
    fn growth_over_two_percent_is_a_problem() {
        let old = [row("a", 100, 100, 0)];
        assert_eq!(growth(&old, &[row("a", 102, 100, 0)]), [""; 0]);
        assert_eq!(growth(&old, &[row("a", 90, 90, 0)]), [""; 0]);
        let found = growth(&old, &[row("a", 103, 103, 0)]);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0], "a on RDNA3: instructions 103, 100 in the baseline");
    }

    #[test]
    fn a_new_spill_is_a_problem_and_a_known_one_is_not() {
        let (without, with) = ([row("a", 1, 1, 0)], [row("a", 1, 1, 8)]);
        assert_eq!(growth(&without, &with), ["a on RDNA3: spills 8, 0 in the baseline"]);
        assert_eq!(growth(&with, &with), [""; 0]);
    }

    #[test]
    fn kernels_missing_on_either_side_are_problems() {
        assert_eq!(growth(&[row("a", 1, 1, 0)], &[row("b", 1, 1, 0)]).len(), 2);
    }

    #[test]
    fn spills_are_problems_without_a_baseline() {
        let folder = Path::new("/nonexistent");
        assert!(check(folder, "0", &[row("a", 1, 1, 1)]).is_err());
        assert!(check(folder, "0", &[row("a", 1, 1, 0)]).is_ok());
    }
}
